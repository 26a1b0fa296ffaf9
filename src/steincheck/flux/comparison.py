"""Counts of draws at modes, and flows along displacements, against what they would be if the draws fit.

Independent draws of weight 1 are compared given their orbits. Draws that depend on each other or have weights
are compared in blocks: net flows have mean 0 for any dependence, sums over chains, long parts of them or
groups of draws are nearly independent and symmetric, and random signs of the sums give the null distribution.
Where chains change mode too rarely for that, there is no test: the shares are facts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from ..chains.blocks import (
    Blocks,
    autocorrelation_time,
    block_signs,
    block_standard_error,
    block_sums,
    cut_blocks,
    upper_ranks,
)
from ..chains.reading import Sample
from ..result import ChainWeights, DisplacementTable, FluxReason, ModeTable
from ..stein.bootstrap import pvalue
from .orbits import MAX_ELEMENTS, NEGLIGIBLE_SHARE, CountMoments, Orbits, StepFlows

Variant = Literal["asymptotic", "exact"]
MIN_VARIANCE_FOR_CHI2 = 10.0  # of a count: below, chi-square is not trusted (flux_study, "weights .98/.02")
MIN_EXCHANGE = 0.01  # draws: modes that expect fewer, or counts that vary less, exchange none
TREND_LEVEL = 0.2  # of the trend in the statistic (flux_study: "leaning" gains .16, "more in turn" loses .03)
WEIGHTY_SHARE = 0.05  # modes that hold less together may be left out of the comparison


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
    n_trend: int  #: the first so many columns see a trend over the mode locations; 0 if it is not looked at


def directions(covariance: np.ndarray, locations: np.ndarray, least: float) -> Directions:
    """Directions of the counts divided by their standard deviations, those of a trend first.

    A variance below `least` is replaced by it: a single draw at a rare mode does not decide, many do. The
    columns are rotated such that weights with a log-linear trend over the mode locations (M, d) show, to
    first order, in the first `n_trend` alone. It is looked at if these are at most a third of all.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = values.clip(0)
    root = np.sqrt(np.maximum(values, least))
    gaps = locations - locations.mean(axis=0)
    basis, size, _ = np.linalg.svd(gaps / np.ptp(gaps, axis=0).clip(1e-300), full_matrices=False)
    basis = basis[:, size > 1e-6 * size[0]]
    rotation, size, _ = np.linalg.svd((values / root)[:, None] * (vectors.T @ basis))
    n_full = int(np.sum(values >= least))
    n_trend = int(np.sum(size**2 >= least))
    return Directions((vectors / root) @ rotation, values, n_full, n_trend if 3 * n_trend <= n_full else 0)


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


def given_orbits(sample: Sample) -> bool:
    """Whether the modes of the draws are independent given the orbits: of independent draws of weight 1."""
    return sample.chain is None and sample.group is None and sample.weight is None


def compare_given_orbits(
    moments: CountMoments, locations: np.ndarray, variant: Variant, n_resamples: int, rng: np.random.Generator
) -> ModeComparison:
    """Compare the counts of independent draws with their distribution given the orbits.

    Q = |columns' (counts - expected)|^2 is compared with chi-square, with its trend part if that is examined.
    This limit is trusted from 100 draws on, where the level .05 is .057 with two modes.
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
        squares, k, r = (gap @ found.columns) ** 2, found.n_full, found.n_trend
        p, trend = float(special.chdtrc(k, squares.sum())), np.nan
        if r:
            trend = float(special.chdtrc(r, squares[:r].sum()))
            p = joint_probability(min(p / (1 - TREND_LEVEL), trend / TREND_LEVEL), k, r)
        return result._replace(comparison=FlowComparison(float(squares.sum()), p, None, k, trend))
    samples = jumped_counts(moments.probabilities, rng, n_resamples) - moments.expected
    return result._replace(comparison=rank_forms(np.vstack([gap, samples]) @ found.columns, found))


def rank_forms(projections: np.ndarray, found: Directions) -> FlowComparison:
    """Rank |row|^2 of the first of the `projections` (1 + B, k), with its trend part if that is examined.

    With a trend the p-value is that of min(p_Q / 0.8, p_trend / 0.2), ranked among the same samples.
    """
    squares = projections**2
    whole = squares.sum(axis=1)
    ranks = upper_ranks(whole)
    trend = np.nan
    if found.n_trend:
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


def jumped_counts(probabilities: np.ndarray, rng: np.random.Generator, n_resamples: int) -> np.ndarray:
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

    By the normal distribution. Where the variance is small, by a bound: a count is a sum of independent
    indicators with different probabilities, and beyond one from its mean its tails are at most those of the
    binomial distribution with the mean probability (Hoeffding 1956).
    """
    n = len(moments.probabilities)
    counts, expected, variance = moments.counts, moments.expected, np.diag(moments.covariance)
    probability = np.clip(expected / n, 0, 1)
    above = np.where(counts >= expected + 1, special.bdtrc(np.maximum(counts - 1, 0), n, probability), 1)
    below = np.where(counts <= expected - 1, special.bdtr(counts, n, probability), 1)
    tails = np.minimum(1, 2 * np.minimum(above, below))
    normal = 2 * special.ndtr(-np.abs(counts - expected) / np.sqrt(variance.clip(1e-300)))
    single = np.where(variance >= MIN_VARIANCE_FOR_CHI2, normal, tails)
    examined = (variance >= MIN_EXCHANGE) | (tails < 1)
    return np.where(examined, adjusted_for_number(single), np.nan)


def adjusted_for_number(pvalues: np.ndarray) -> np.ndarray:
    """P-values of single modes by Bonferroni's method; the counts of two modes are one number."""
    return np.minimum(1.0, pvalues * (1 if len(pvalues) == 2 else len(pvalues)))


def compare_in_blocks(
    sample: Sample,
    found: Orbits,
    moments: CountMoments,
    table: ModeTable,
    n_resamples: int,
    rng: np.random.Generator,
) -> ModeComparison:
    """Compare the weights of the modes by random signs of blocks of draws.

    Of the modes that chains visit, those are compared that they visit often enough, if these are all that
    matter.
    """
    compared = np.arange(len(table))
    net = (moments.expected - moments.counts) / found.weight.sum()
    pvalues = np.full(len(table), np.nan)
    result = ModeComparison(FlowComparison(), net, pvalues)
    summary = None
    if sample.chain is not None:
        summary = chain_summary(found.mode, sample.chain, len(table))
        compared = np.flatnonzero(summary.sojourns >= min_sojourns(len(table)))
        result = result._replace(chains=summary, reason=_rarity(found.mode, sample.chain, table, summary))
        if result.reason is not None:
            return result
    flow, covariance = flows_within(compared, moments.probabilities, found)
    seen = directions(covariance, table.locations[compared], MIN_VARIANCE_FOR_CHI2)
    if seen.variances.max() < MIN_EXCHANGE:
        return result._replace(reason="nothing moves")
    features = flow @ seen.columns
    blocks = cut_sample(sample, features, features[:, : seen.n_trend])
    if not blocks.enough:
        return result._replace(reason="few groups" if summary is None else _rare_changes(summary))
    net[compared] = flow.sum(axis=0) / found.weight.sum()
    centred = flow - flow.mean(axis=0)
    error = block_standard_error(block_sums(centred, blocks.label, blocks.share)) / found.weight.sum()
    single = 2 * special.stdtr(blocks.record.n_blocks - 1, -np.abs(net[compared]) / error.clip(1e-300))
    pvalues[compared] = adjusted_for_number(single)
    if summary is not None:
        result = result._replace(chains=replace(summary, **vars(blocks.record)))
    return result._replace(comparison=sign_flips(features, blocks, seen, n_resamples, rng))


def _rarity(
    mode: np.ndarray, chain: np.ndarray, table: ModeTable, summary: ChainWeights
) -> FluxReason | None:
    """Why chains are not compared; None if the modes they visit often are all that matter, and exchange."""
    often = summary.sojourns >= min_sojourns(len(table))
    share = np.fmax(table.implied, table.observed)
    if often.sum() < 2 and np.sum(share > NEGLIGIBLE_SHARE) < 2:
        return "light modes"
    if often.sum() < 2 or share[~often].sum() > WEIGHTY_SHARE:
        return _rare_changes(summary)
    rows = often[mode]
    # 40 are what 20 sojourns at each of two modes are worth (chain_flux_study, "eight in a row, slow")
    enough = rows.sum() >= 40 * slowest_time(mode[rows], chain[rows])
    return None if enough else _rare_changes(summary)


def _rare_changes(summary: ChainWeights) -> FluxReason:
    """Chains are stuck if each has more than 99 % of its draws at one mode; the rest may be tails."""
    return "stuck chains" if (summary.shares.max(axis=1) > 0.99).all() else "few changes"


def chain_summary(mode: np.ndarray, chain: np.ndarray, n_modes: int) -> ChainWeights:
    """How the chains move between modes, with the mode of each draw (n,)."""
    sojourns = np.array([n_sojourns(mode == k, chain) for k in range(n_modes)])
    n_chains = int(chain.max()) + 1
    shares = np.zeros((n_chains, n_modes))
    np.add.at(shares, (chain, mode), 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    return ChainWeights(n_chains, 0, np.nan, np.nan, int(sojourns.sum()) - n_chains, sojourns, shares)


def n_sojourns(inside: np.ndarray, chain: np.ndarray) -> int:
    """Number of times the chains enter, or start in, a set of states, `inside` (n,) bool."""
    before = np.concatenate([[False], inside[:-1] & (chain[1:] == chain[:-1])])
    return int(np.sum(inside & ~before))


def min_sojourns(n_compared: int) -> int:
    """Sojourns that are needed at each of so many modes or displacements.

    With 8 sojourns at each of two modes the level .05 is .14; of many modes no single one decides.
    """
    return 10 if n_compared > 2 else 20


def slowest_time(mode: np.ndarray, chain: np.ndarray) -> float:
    """Autocorrelation time of the combination of mode indicators that the chains forget most slowly.

    It is (1 + l) / (1 - l), l the second largest eigenvalue of the matrix of transitions between the modes,
    made symmetric; infinite where the chains never change between some of the modes.
    """
    same_chain = chain[1:] == chain[:-1]
    visited, number = np.unique(mode, return_inverse=True)
    moves = np.zeros((len(visited), len(visited)))
    np.add.at(moves, (number[:-1][same_chain], number[1:][same_chain]), 1.0)
    moves += moves.T
    root = np.sqrt(moves.sum(axis=1).clip(1.0))
    second = float(np.linalg.eigvalsh(moves / np.outer(root, root))[-2].clip(0, 1))
    return (1 + second) / (1 - second) if second < 1 - 1e-12 else np.inf


def flows_within(
    modes: np.ndarray, probabilities: np.ndarray, found: Orbits
) -> tuple[np.ndarray, np.ndarray]:
    """Net flows (n, K) of the draws at these `modes` between them, and their covariance given the orbits.

    F_j = w 1{c in G} (pi_j / pi_G - 1{c = j}) for j in the set G of modes, w the weight of the draw, has mean
    0 under the target, for any weight of the other modes.
    """
    rows = np.flatnonzero(np.isin(found.mode, modes))
    inside = probabilities[np.ix_(rows, modes)]
    indicator = (found.mode[rows, None] == modes).astype(float)
    total = inside.sum(axis=1, keepdims=True)
    probability = np.where(total > 0, inside / np.where(total > 0, total, 1.0), indicator)
    weight = found.weight[rows, None]
    flow = np.zeros((len(found.mode), len(modes)))
    flow[rows] = weight * (probability - indicator)
    weighted = weight * probability
    return flow, np.diag((weight * weighted).sum(axis=0)) - weighted.T @ weighted


def cut_sample(sample: Sample, *parts: np.ndarray, rarer: float = 1.0) -> Blocks:
    """Blocks of draws whose sums of features are nearly independent.

    Groups of draws are blocks, or single draws, at most 100 of them together; chains are cut by the largest
    autocorrelation time, times `rarer`, of the contributions f_t' sum f of the `parts` (n, k).
    """
    if sample.chain is not None:
        tau = max(autocorrelation_time(part @ part.sum(axis=0), sample.chain) for part in parts)
        return cut_blocks(rarer * tau, sample.chain)
    if sample.threads is not None:
        cell, share = sample.threads
        return replace(cut_blocks(np.inf, np.arange(len(share))), label=cell, share=share)
    group = np.arange(len(sample.x)) if sample.group is None else sample.group
    order = np.argsort(group, kind="stable")
    blocks = cut_blocks(np.inf, group[order])
    return replace(blocks, label=blocks.label[np.argsort(order, kind="stable")])


def sign_flips(
    features: np.ndarray, blocks: Blocks, found: Directions, n_resamples: int, rng: np.random.Generator
) -> FlowComparison:
    """|sum f|^2 ranked among its values with a random sign per block."""
    sums = block_sums(features, blocks.label, blocks.share)
    signs = block_signs(blocks.record.n_blocks, n_resamples, rng)
    return rank_forms(np.vstack([sums.sum(axis=0), signs @ sums]), found)


def compare_steps(
    flows: StepFlows, sample: Sample, variant: Variant, n_resamples: int, rng: np.random.Generator
) -> tuple[FlowComparison, DisplacementTable]:
    """Compare the flows along the displacements with those against them.

    The metric is that of their second moments, which no change of signs alters. A cut of chains hides about
    the same part of the variance in all k directions, which moves the quadratic form by sqrt(k/2) times as
    much in its own standard deviations: with many directions chains are cut more rarely.
    """
    net, clear = flows.net, flows.clear
    n = len(net)
    mean = net.mean(axis=0)
    if given_orbits(sample):
        asymptotic = variant == "asymptotic" and clear.any()
        comparison = hotelling(net[:, clear]) if asymptotic else sign_test(flows.accept, n_resamples, rng)
        return comparison, DisplacementTable(flows.steps, mean, np.std(net, axis=0) / np.sqrt(n))
    if sample.chain is not None:
        gate = min_sojourns(int(clear.sum()))
        both = [min(n_sojourns(f > 0, sample.chain), n_sojourns(f < 0, sample.chain)) for f in net.T]
        clear = clear & (np.array(both) >= gate)
    features = unit_second_moments(net[:, clear])
    k = features.shape[1]
    blocks = cut_sample(sample, features, rarer=max(1.0, np.sqrt(k / 5)))
    comparison = FlowComparison()
    if k and blocks.enough:
        whole = Directions(np.empty((0, k)), np.empty(0), k, 0)
        comparison = sign_flips(features, blocks, whole, n_resamples, rng)
    error = block_standard_error(block_sums(net - mean, blocks.label, blocks.share)) / n
    return comparison, DisplacementTable(flows.steps, mean, error)


def hotelling(flow: np.ndarray) -> FlowComparison:
    """Hotelling's T2 of the means of the columns of `flow` (n, V).

    From second moments about 0, which do not vanish if all draws flow alike: T0 = n m' S0^+ m lies in [0, n]
    and T2 = (n - 1) T0 / (n - T0).
    """
    n = len(flow)
    white = unit_second_moments(flow)
    k = white.shape[1]
    t0 = n * float(np.sum(white.mean(axis=0) ** 2))
    ratio = t0 / max(n - t0, 1e-12 * n)
    return FlowComparison((n - 1) * ratio, float(special.fdtrc(k, n - k, (n - k) / k * ratio)), None, k)


def unit_second_moments(flow: np.ndarray) -> np.ndarray:
    """Combinations (n, k) of the columns of `flow` (n, V) with second moments S0 = I.

    The rank k is the number of eigenvalues of the scaled second moments above 1e-10 of the largest.
    """
    unit = flow / np.sqrt(np.mean(flow**2, axis=0))
    values, vectors = np.linalg.eigh(unit.T @ unit / len(flow))
    kept = values > 1e-10 * values.max(initial=0.0)
    return unit @ (vectors[:, kept] / np.sqrt(values[kept]))


def sign_test(accept: np.ndarray, size: int, rng: np.random.Generator) -> FlowComparison:
    """Draw one jump per draw; given how many accept step v, forth or back, those forth are Bin(N_v, 1/2).

    The statistic is the sum over v of (forth - back)^2 / N_v, with `size` values of it under H0; its degrees
    of freedom are the v with an accepted jump.
    """
    n, _, count = accept.shape
    jump = rng.integers(2 * count, size=n)
    moved = jump[rng.random(n) < accept.reshape(n, -1)[np.arange(n), jump]]
    forth, back = np.bincount(moved, minlength=2 * count).reshape(2, count)
    total = forth + back
    if not total.any():
        return FlowComparison()
    spread = np.maximum(total, 1)
    null = np.sum((2 * rng.binomial(total, 0.5, size=(size, count)) - total) ** 2 / spread, axis=1)
    statistic = float(np.sum((2 * forth - total) ** 2 / spread))
    return FlowComparison(statistic, pvalue(statistic * (1 - 1e-9), null), null, int(np.sum(total > 0)))
