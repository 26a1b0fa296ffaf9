"""Counts of draws at modes, and their distribution given where else the draws could be."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from ..chains.permutation import upper_ranks
from .orbits import MAX_ELEMENTS, CountMoments

Variant = Literal["asymptotic", "exact"]
N_FLUX_RESAMPLES = 999  # samples in which every draw has jumped, or changes of sign, by default
MIN_VARIANCE = 0.5  # of a direction of the counts: below, a single draw more or less would decide
MIN_VARIANCE_FOR_CHI2 = 10.0  # below, the chi-square distribution is not trusted
MIN_DRAWS_FOR_CHI2 = 100  # with two modes the level .05 is .057 there
TREND_LEVEL = 0.2  # part of the level for a trend of the weights over the mode locations
RARE_LEVEL = 0.02  # part of the level for modes too rare for the quadratic form
MIN_EXPECTED_FOR_EXCHANGE = 0.01  # draws expected at a mode below which it exchanges none


class Directions(NamedTuple):
    """Combinations of the counts, uncorrelated and of variance 1 given the orbits."""

    columns: np.ndarray  #: (M, k)
    variances: np.ndarray  #: (k,) eigenvalues of the covariance of the counts that were kept
    n_trend: int  #: the first so many columns see a trend over the mode locations

    @property
    def trend_examined(self) -> bool:
        """Whether the trend gets a part of the level: only if it concentrates on few directions."""
        return 0 < 3 * self.n_trend <= self.columns.shape[1]


class CountTest(NamedTuple):
    """Outcome of the comparison of the counts with their expectation."""

    statistic: float
    pvalue: float
    trend_pvalue: float  #: NaN if the trend is not examined
    null: np.ndarray | None  #: simulated values of the statistic
    floor: float = 0.0  #: smallest p-value that these can give


def directions(
    covariance: np.ndarray, locations: np.ndarray, min_variance: float = MIN_VARIANCE
) -> Directions:
    """Directions in which the counts have a variance of at least `min_variance`, those of a trend first.

    The columns are rotated such that weights with a log-linear trend over the mode locations (M, d) show, to
    first order, in the first `n_trend` alone.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values >= min_variance
    root = np.sqrt(values[kept])
    gaps = locations - locations.mean(axis=0)
    basis, size, _ = np.linalg.svd(gaps / np.ptp(gaps, axis=0).clip(1e-300), full_matrices=False)
    basis = basis[:, size > 1e-6 * size[0]]
    rotation, size, _ = np.linalg.svd(root[:, None] * (vectors[:, kept].T @ basis))
    n_trend = int(np.sum(size**2 >= min_variance))
    return Directions((vectors[:, kept] / root) @ rotation, values[kept], n_trend)


def compare_with_chi2(gap: np.ndarray, found: Directions) -> CountTest:
    """Q = |columns' gap|^2 of gap = counts - expected against chi-square, with its trend part if examined."""
    squares = (gap @ found.columns) ** 2
    k = len(squares)
    whole = float(special.chdtrc(k, squares.sum()))
    if not found.trend_examined:
        return CountTest(float(squares.sum()), whole, np.nan, None)
    trend = float(special.chdtrc(found.n_trend, squares[: found.n_trend].sum()))
    smallest = min(whole / (1 - TREND_LEVEL), trend / TREND_LEVEL)
    return CountTest(float(squares.sum()), joint_probability(smallest, k, found.n_trend), trend, None)


def compare_with_samples(gap: np.ndarray, samples: np.ndarray, found: Directions) -> CountTest:
    """Q of gap (M,) ranked among the Q of `samples` (B, M), which are exchangeable with it under H0."""
    return rank_forms(np.vstack([gap, samples]) @ found.columns, found)


def rank_forms(projections: np.ndarray, found: Directions) -> CountTest:
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
    return CountTest(float(whole[0]), p, trend, whole[1:], 1 / len(whole))


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


def count_tails(counts: np.ndarray, expected: np.ndarray, n: int) -> np.ndarray:
    """Bounds of the two-sided p-values of single counts, (M,).

    A count is a sum of independent indicators with different probabilities. Beyond one from its mean its
    tails are at most those of the binomial distribution with the mean probability (Hoeffding 1956).
    """
    probability = np.clip(expected / n, 0, 1)
    above = np.where(counts >= expected + 1, special.bdtrc(np.maximum(counts - 1, 0), n, probability), 1)
    below = np.where(counts <= expected - 1, special.bdtr(counts, n, probability), 1)
    return np.minimum(1, 2 * np.minimum(above, below))


def exchange_groups(covariance: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Number the groups of modes between which there is exchange, (M,).

    If all draws could be anywhere, minus the covariance of two counts would be n times the product of the
    shares: what it is instead tells how many such draws the comparison of the two is worth.
    """
    from scipy.sparse.csgraph import connected_components

    n = expected.sum()
    reached = expected >= MIN_EXPECTED_FOR_EXCHANGE
    # two modes are compared if that is worth 50 independent draws, or a tenth of all
    worth = -covariance * n**2 >= min(50.0, 0.1 * n) * np.outer(expected, expected)
    return connected_components(worth & np.outer(reached, reached), directed=False)[1]


class RareModes(NamedTuple):
    """Modes whose counts have too small a variance for the quadratic form, judged one by one."""

    rare: np.ndarray  #: (M,) bool
    judged: np.ndarray  #: (M,) bool: rare, and something can be said
    tails: np.ndarray  #: (M,) two-sided p-values of the single counts

    def combined_with(self, pvalue: float) -> float:
        """The p-value of the quadratic form (NaN: no direction was left) and of the rare modes together."""
        if not self.rare.any() or (np.isnan(pvalue) and not self.judged.any()):
            return pvalue
        single = self.rare.sum() * float(self.tails[self.rare].min())
        if np.isnan(pvalue):
            return min(1.0, single)
        return min(1.0, pvalue / (1 - RARE_LEVEL), single / RARE_LEVEL)


def rare_modes(moments: CountMoments, group: np.ndarray) -> RareModes:
    """Modes whose count has a variance below `MIN_VARIANCE`, where others or too many draws are near."""
    tails = count_tails(moments.counts, moments.expected, len(moments.probabilities))
    linked = np.bincount(group)[group] > 1
    variance = np.diag(moments.covariance)
    rare = (variance < MIN_VARIANCE) & (linked | (moments.expected < MIN_VARIANCE))
    return RareModes(rare, rare & (linked | (tails < 1)), tails)


def flow_pvalues(net: np.ndarray, error: np.ndarray, degrees_of_freedom: float = np.inf) -> np.ndarray:
    """Two-sided p-values (K,) of net flows by Student's t (normal by default), each by itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(net == 0, 0.0, np.abs(net) / error)
    if np.isinf(degrees_of_freedom):
        return 2 * special.ndtr(-distance)
    return 2 * special.stdtr(degrees_of_freedom, -distance)


def n_comparisons(n_modes: int) -> int:
    """How many single modes there are to compare with the rest: the counts of two are one number."""
    return 1 if n_modes == 2 else n_modes
