"""Counts of draws at modes, and their distribution given where else the draws could be."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from ..chains.blocks import upper_ranks
from ..result import ChainWeights, FluxReason
from .orbits import MAX_ELEMENTS, CountMoments

Variant = Literal["asymptotic", "exact"]
N_FLUX_RESAMPLES = 999  # samples in which every draw has jumped, or changes of sign, by default
MIN_VARIANCE_FOR_CHI2 = 10.0  # of a count: below, chi-square is not trusted (flux_study, "weights .98/.02")
MIN_EXCHANGE = 0.01  # draws: modes that expect fewer, or counts that vary less, exchange none
TREND_LEVEL = 0.2  # of the trend in the statistic (flux_study: "leaning" gains .16, "more in turn" loses .03)


class FlowComparison(NamedTuple):
    """Outcome of a comparison of net flows with 0; NaN where there is nothing to compare."""

    statistic: float = np.nan
    pvalue: float = np.nan
    null: np.ndarray | None = None  #: simulated values of the statistic
    degrees_of_freedom: int = 0
    trend_pvalue: float = np.nan  #: NaN if no trend is examined


class ModeComparison(NamedTuple):
    """Outcome of the comparison of the modes' weights."""

    comparison: FlowComparison
    net_flow: np.ndarray  #: (M,) into each mode, positive where there are too few draws
    mode_pvalues: np.ndarray  #: (M,) of single modes, adjusted for their number; NaN where not examined
    chains: ChainWeights | None = None
    reason: FluxReason | None = None  #: why there is no p-value


class Directions(NamedTuple):
    """Combinations of the counts, uncorrelated and of variance at most 1 given the orbits."""

    columns: np.ndarray  #: (M, M)
    variances: np.ndarray  #: (M,) eigenvalues of the covariance of the counts
    n_full: int  #: number of directions of variance 1
    n_trend: int  #: the first so many columns see a trend over the mode locations

    @property
    def trend_examined(self) -> bool:
        """Whether the trend is looked at by itself: only if it concentrates on few directions."""
        return 0 < 3 * self.n_trend <= self.n_full


def directions(covariance: np.ndarray, locations: np.ndarray, least: float) -> Directions:
    """Directions of the counts divided by their standard deviations, those of a trend first.

    A variance below `least` is replaced by it: a single draw at a rare mode does not decide, many do. The
    columns are rotated such that weights with a log-linear trend over the mode locations (M, d) show, to
    first order, in the first `n_trend` alone.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = values.clip(0)
    root = np.sqrt(np.maximum(values, least))
    gaps = locations - locations.mean(axis=0)
    basis, size, _ = np.linalg.svd(gaps / np.ptp(gaps, axis=0).clip(1e-300), full_matrices=False)
    basis = basis[:, size > 1e-6 * size[0]]
    rotation, size, _ = np.linalg.svd((values / root)[:, None] * (vectors.T @ basis))
    n_trend = int(np.sum(size**2 >= least))
    return Directions((vectors / root) @ rotation, values, int(np.sum(values >= least)), n_trend)


def compare_independent(
    moments: CountMoments,
    locations: np.ndarray,
    variant: Variant,
    n_resamples: int,
    rng: np.random.Generator,
) -> ModeComparison:
    """Compare the counts of independent draws with their distribution given the orbits.

    The limit distribution is trusted from 100 draws on, where the level .05 is .057 with two modes.
    """
    n = len(moments.probabilities)
    gap = moments.counts - moments.expected
    result = ModeComparison(FlowComparison(), -gap / n, single_counts(moments))
    found = directions(moments.covariance, locations, least=0.5)
    if found.variances.max() < MIN_EXCHANGE:
        return result._replace(reason="nothing moves")
    variances = np.concatenate([found.variances, np.diag(moments.covariance)])
    few = np.any((variances >= MIN_EXCHANGE) & (variances < MIN_VARIANCE_FOR_CHI2))
    if variant == "asymptotic" and not few and n >= 100:
        return result._replace(comparison=compare_with_chi2(gap, found))
    samples = jumped_counts(moments.probabilities, rng, n_resamples) - moments.expected
    return result._replace(comparison=rank_forms(np.vstack([gap, samples]) @ found.columns, found))


def compare_with_chi2(gap: np.ndarray, found: Directions) -> FlowComparison:
    """Q = |columns' gap|^2 of gap = counts - expected against chi-square, with its trend part if examined."""
    squares = (gap @ found.columns) ** 2
    statistic = float(squares.sum())
    k = found.n_full
    whole = float(special.chdtrc(k, statistic))
    if not found.trend_examined:
        return FlowComparison(statistic, whole, None, k)
    trend = float(special.chdtrc(found.n_trend, squares[: found.n_trend].sum()))
    smallest = min(whole / (1 - TREND_LEVEL), trend / TREND_LEVEL)
    return FlowComparison(statistic, joint_probability(smallest, k, found.n_trend), None, k, trend)


def rank_forms(projections: np.ndarray, found: Directions) -> FlowComparison:
    """Rank |row|^2 of the first of the `projections` (1 + B, k), with its trend part if that is examined.

    With a trend the p-value is that of min(p_Q / 0.8, p_trend / 0.2), ranked among the same samples.
    """
    squares = projections**2
    whole = squares.sum(axis=1)
    ranks = upper_ranks(whole)
    trend = np.nan
    if found.trend_examined:
        trend_ranks = upper_ranks(squares[:, : found.n_trend].sum(axis=1))
        trend = float(trend_ranks[0])
        ranks = np.minimum(ranks / (1 - TREND_LEVEL), trend_ranks / TREND_LEVEL)
    p = float(np.mean(ranks <= ranks[0] * (1 + 1e-12)))
    return FlowComparison(float(whole[0]), p, whole[1:], found.n_full, trend)


def joint_probability(smallest: float, k: int, r: int) -> float:
    """P(min(p_Q / 0.8, p_T / 0.2) <= smallest), Q chi-square in k directions and T its part in r of them.

    It is P(Q >= a) + P(T >= b, Q < a), a and b the quantiles; Q - T is independent of T.
    """
    from scipy.integrate import quad

    if smallest >= 1 / (1 - TREND_LEVEL):
        return 1.0
    a = special.chdtri(k, (1 - TREND_LEVEL) * smallest)
    b = special.chdtri(r, TREND_LEVEL * smallest)
    if b >= a:
        return (1 - TREND_LEVEL) * smallest

    def density(t: float) -> float:
        log_chi2 = (r / 2 - 1) * np.log(t) - t / 2 - r / 2 * np.log(2) - special.gammaln(r / 2)
        return float(np.exp(log_chi2) * special.chdtr(k - r, a - t))

    only_trend = quad(density, b, a, epsabs=0, epsrel=1e-8, limit=200)[0]
    return min(1.0, (1 - TREND_LEVEL) * smallest + only_trend)


def jumped_counts(
    probabilities: np.ndarray, rng: np.random.Generator, n_resamples: int = N_FLUX_RESAMPLES
) -> np.ndarray:
    """Counts (resamples, M) of the modes after every draw has jumped by its probabilities (n, M)."""
    n, n_modes = probabilities.shape
    up_to = np.zeros((n_resamples, n_modes))  # draws that jump to modes 0, ..., k
    cumulative = np.cumsum(probabilities, axis=1)
    rows = max(1, MAX_ELEMENTS // n_resamples)
    for start in range(0, n, rows):
        uniform = rng.random((min(rows, n - start), n_resamples))
        for k in range(n_modes - 1):
            up_to[:, k] += np.sum(uniform < cumulative[start : start + rows, k, None], axis=0)
    up_to[:, -1] = n
    return np.diff(up_to, axis=1, prepend=0.0)


def single_counts(moments: CountMoments) -> np.ndarray:
    """P-values (M,) of the single counts, adjusted for their number; NaN where nothing can be said.

    By the normal distribution, or a bound of the binomial tails where the variance is small.
    """
    variance = np.diag(moments.covariance)
    gap = moments.counts - moments.expected
    tails = count_tails(moments.counts, moments.expected, len(moments.probabilities))
    normal = flow_pvalues(gap, np.sqrt(variance.clip(0)))
    single = np.where(variance >= MIN_VARIANCE_FOR_CHI2, normal, tails)
    examined = (variance >= MIN_EXCHANGE) | (tails < 1)
    return np.where(examined, adjusted_for_number(single), np.nan)


def count_tails(counts: np.ndarray, expected: np.ndarray, n: int) -> np.ndarray:
    """Bounds of the two-sided p-values of single counts, (M,).

    A count is a sum of independent indicators with different probabilities. Beyond one from its mean its
    tails are at most those of the binomial distribution with the mean probability (Hoeffding 1956).
    """
    probability = np.clip(expected / n, 0, 1)
    above = np.where(counts >= expected + 1, special.bdtrc(np.maximum(counts - 1, 0), n, probability), 1)
    below = np.where(counts <= expected - 1, special.bdtr(counts, n, probability), 1)
    return np.minimum(1, 2 * np.minimum(above, below))


def flow_pvalues(net: np.ndarray, error: np.ndarray, degrees_of_freedom: float = np.inf) -> np.ndarray:
    """Two-sided p-values (K,) of net flows by Student's t (normal by default), each by itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(net == 0, 0.0, np.abs(net) / error)
    if np.isinf(degrees_of_freedom):
        return 2 * special.ndtr(-distance)
    return 2 * special.stdtr(degrees_of_freedom, -distance)


def adjusted_for_number(pvalues: np.ndarray) -> np.ndarray:
    """P-values of single modes by Bonferroni's method; the counts of two modes are one number."""
    return np.minimum(1.0, pvalues * (1 if len(pvalues) == 2 else len(pvalues)))


def exchange_groups(covariance: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Number the groups of modes between which there is exchange, (M,).

    If all draws could be anywhere, minus the covariance of two counts would be n times the product of the
    shares: what it is instead tells how many such draws the comparison of the two is worth.
    """
    from scipy.sparse.csgraph import connected_components

    n = expected.sum()
    reached = expected >= MIN_EXCHANGE
    # two modes are compared if that is worth 50 independent draws, or a tenth of all
    worth = -covariance * n**2 >= min(50.0, 0.1 * n) * np.outer(expected, expected)
    return connected_components(worth & np.outer(reached, reached), directed=False)[1]
