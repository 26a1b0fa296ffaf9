"""The number of draws at each mode against what their orbits say, for independent draws and for chains."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._validation import listed
from ..chains.blocks import autocorrelation_time, block_standard_error, block_sums
from ..result import ChainWeights, FluxVariant, Modes, ModeTable
from .chain_weights import (
    MIN_SOJOURNS_OF_MANY,
    MIN_SOJOURNS_OF_TWO,
    WEIGHTY_SHARE,
    ChainComparison,
    Flows,
    SetJudgement,
    any_chain_stuck,
    chain_flows,
    compare_chains,
    effective_size_of_set,
    judge_set,
    observed_intervals,
    settled_modes,
    sojourns_per_mode,
)
from .counts import (
    MIN_DRAWS_FOR_CHI2,
    MIN_EXPECTED_FOR_EXCHANGE,
    MIN_VARIANCE,
    MIN_VARIANCE_FOR_CHI2,
    N_FLUX_RESAMPLES,
    RARE_LEVEL,
    CountTest,
    RareModes,
    Variant,
    compare_with_chi2,
    compare_with_samples,
    directions,
    exchange_groups,
    flow_pvalues,
    jumped_counts,
    n_comparisons,
    rare_modes,
)
from .displacements import NEGLIGIBLE_DROP
from .orbits import CountMoments, Orbits
from .shares import MODE_TABLE_LEVEL, NEGLIGIBLE_SHARE, mode_table
from .words import mode_words

MAX_LISTED = 10  # modes and groups named in a sentence


class ModeComparison(NamedTuple):
    """Outcome of the comparison of the modes' weights."""

    outcome: CountTest
    degrees_of_freedom: int
    variant: FluxVariant
    table: ModeTable
    net_flow: np.ndarray  #: (M,)
    net_flow_se: np.ndarray  #: (M,)
    mode_pvalues: np.ndarray  #: (M,) of single modes, adjusted for their number
    all_compared: bool  #: whether all modes that matter were compared with each other
    chains: ChainWeights | None = None
    inconclusive_reason: str = ""


def compare_independent(
    found: Orbits,
    moments: CountMoments,
    modes: Modes,
    variant: Variant,
    rng: np.random.Generator,
    warnings: list[str],
    n_resamples: int = N_FLUX_RESAMPLES,
) -> ModeComparison:
    """Compare the counts of independent draws with their distribution given the orbits."""
    n, n_modes = moments.probabilities.shape
    group = exchange_groups(moments.covariance, moments.expected)
    rare = rare_modes(moments, group)
    outcome, n_directions = _quadratic_form(moments, modes, variant, n_resamples, rng)
    pvalue = rare.combined_with(outcome.pvalue)
    if not n_directions and not np.isnan(pvalue):
        warnings.append("too few draws for modes this many or this rare: only a large excess is detectable")
    net = (moments.expected - moments.counts) / n
    error = np.sqrt(np.diag(moments.covariance)) / n
    pvalues = _single_counts(net, error, moments, rare)
    table = mode_table(found, group, modes.locations, ("",) * n_modes)
    all_compared = _exchange(group, weighty_modes(table, modes))
    if not np.isnan(pvalue):
        warnings += _groups_without_exchange(group, moments, modes)
    return ModeComparison(
        outcome._replace(pvalue=pvalue, floor=outcome.floor / (1 - RARE_LEVEL if rare.rare.any() else 1.0)),
        n_directions,
        "asymptotic" if outcome.null is None else "exact",
        replace(table, words=mode_words(net, error, pvalues, MODE_TABLE_LEVEL, all_compared=all_compared)),
        net,
        error,
        pvalues,
        all_compared,
    )


def _single_counts(net: np.ndarray, error: np.ndarray, moments: CountMoments, rare: RareModes) -> np.ndarray:
    """P-values (M,) of the single counts, adjusted for their number; NaN where nothing can be said."""
    variance = np.diag(moments.covariance)
    # the normal distribution is not trusted where the variance is small
    single = np.where(variance >= MIN_VARIANCE_FOR_CHI2, flow_pvalues(net, error), rare.tails)
    examined = (variance >= MIN_VARIANCE) | rare.judged
    return np.where(examined, np.minimum(1.0, n_comparisons(len(net)) * single), np.nan)


def _quadratic_form(
    moments: CountMoments, modes: Modes, variant: Variant, n_resamples: int, rng: np.random.Generator
) -> tuple[CountTest, int]:
    """The quadratic form of the counts, exact where its limit is not trusted; NaN if no direction is left."""
    found = directions(moments.covariance, modes.locations)
    n_directions = len(found.variances)
    if not n_directions:
        return CountTest(np.nan, np.nan, np.nan, None), 0
    variance = np.diag(moments.covariance)
    smallest = min(found.variances.min(), variance[variance >= MIN_VARIANCE].min(initial=np.inf))
    few = len(moments.probabilities) < MIN_DRAWS_FOR_CHI2 or smallest < MIN_VARIANCE_FOR_CHI2
    gap = moments.counts - moments.expected
    if variant == "asymptotic" and not few:
        return compare_with_chi2(gap, found), n_directions
    samples = jumped_counts(moments.probabilities, rng, n_resamples) - moments.expected
    return compare_with_samples(gap, samples, found), n_directions


def _groups_without_exchange(group: np.ndarray, moments: CountMoments, modes: Modes) -> list[str]:
    """Name the groups of modes between which no draws move; low modes that expect no draws are left out."""
    high = modes.log_density > modes.log_density.max() - NEGLIGIBLE_DROP
    concerned = high | (moments.expected >= MIN_EXPECTED_FOR_EXCHANGE)
    numbers = np.unique(group[concerned])
    if len(numbers) < 2:
        return []
    parts = [np.flatnonzero(concerned & (group == g))[:MAX_LISTED] for g in numbers[: MAX_LISTED // 2]]
    text = "; ".join(", ".join(map(str, part)) for part in parts)
    return [f"hardly any exchange between these groups of modes, whose weights were not compared: {text}"]


def _chain_mode_table(found: Orbits, group: np.ndarray, modes: Modes, chain: np.ndarray) -> ModeTable:
    """The mode table, with intervals of the observed shares for chains; its words are found later."""
    intervals = observed_intervals(found.mode, chain, len(modes))
    return mode_table(found, group, modes.locations, ("",) * len(modes), chain, intervals)


def compare_chain_modes(
    found: Orbits,
    moments: CountMoments,
    modes: Modes,
    chain: np.ndarray,
    tau_within: float,
    rng: np.random.Generator,
    warnings: list[str],
    n_resamples: int = N_FLUX_RESAMPLES,
) -> ModeComparison:
    """Compare the weights of the modes by block sign flips, and where that is impossible judge the set."""
    flows = chain_flows(moments, found.mode, chain)
    tested = compare_chains(flows, modes.locations, chain, rng, n_resamples)
    group = exchange_groups(moments.covariance, moments.expected)
    warnings += _groups_without_exchange(group, moments, modes)
    table = _chain_mode_table(found, group, modes, chain)
    path = found.mode
    if tested.comparison is None:
        path = settled_modes(found.mode, found.radius, modes.locations.shape[1], chain, tau_within)
    within = len(chain) / tau_within
    if tested.comparison and tested.blocks:
        within = tested.blocks.effective_sample_size
    judged = judge_set(
        moments, table.implied, modes.locations, within, effective_size_of_set(path, chain, len(modes))
    )
    weighty = weighty_modes(table, modes)
    outcome = _combined(tested, judged, flows, weighty)
    net, error, pvalues = _single_modes(flows, moments, tested, judged)
    all_compared = _complete(flows, weighty) and _exchange(group, weighty)
    summary = _chain_summary(found.mode, path, chain, tested, flows, judged.size)
    return ModeComparison(
        outcome,
        tested.n_directions if tested.comparison else 0,
        "block signs" if tested.comparison else "set",
        replace(table, words=mode_words(net, error, pvalues, MODE_TABLE_LEVEL, all_compared=all_compared)),
        net,
        error,
        pvalues,
        all_compared,
        summary,
        _why_inconclusive(
            summary,
            tested,
            flows,
            weighty,
            weighty_modes(table, modes, NEGLIGIBLE_SHARE),
            some_stuck=any_chain_stuck(path, chain, len(modes)),
        ),
    )


def weighty_modes(table: ModeTable, modes: Modes, least: float = WEIGHTY_SHARE) -> np.ndarray:
    """Modes (M,) whose weight matters: by their draws, or by what the density implies."""
    implied = np.where(np.isnan(table.implied), modes.laplace_weights, table.implied)
    return (table.observed > least) | (implied > least)


def _exchange(group: np.ndarray, weighty: np.ndarray) -> bool:
    """Whether all modes that matter exchange draws, by their `group` (M,)."""
    return len(np.unique(group[weighty])) < 2


def _combined(tested: ChainComparison, judged: SetJudgement, flows: Flows, weighty: np.ndarray) -> CountTest:
    """The test of the modes compared and the judgement of the set for the others, within one level."""
    outcome = tested.comparison or CountTest(np.nan, 1.0, np.nan, None)
    if tested.comparison and len(flows.groups) == 1 and flows.single.all():
        return outcome
    if tested.comparison is None:
        set_level = 1 - RARE_LEVEL
    elif _complete(flows, weighty):
        set_level = RARE_LEVEL
    else:
        set_level = 0.5
    missing = judged.missing_pvalue / RARE_LEVEL
    tested_level = 1 - RARE_LEVEL - set_level
    by_set = min(1.0, judged.set_pvalue / set_level, missing)
    if tested.comparison is None:
        return outcome._replace(pvalue=by_set)
    by_test = outcome.pvalue / tested_level
    return outcome._replace(pvalue=min(by_test, by_set), floor=outcome.floor / tested_level)


def _complete(flows: Flows, weighty: np.ndarray) -> bool:
    """Whether all modes that matter were compared with each other."""
    return len(flows.groups) == 1 and not np.any(weighty & ~flows.compared)


def _single_modes(
    flows: Flows, moments: CountMoments, tested: ChainComparison, judged: SetJudgement
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Net flow into each mode, its standard error from block sums, and p-values adjusted for their number.

    Modes that are not compared by themselves have no standard error, and the p-value of the set.
    """
    n, n_modes = moments.probabilities.shape
    of_counts = (moments.expected - moments.counts) / n
    if tested.comparison is None or tested.blocks is None:
        return of_counts, np.full(n_modes, np.nan), judged.mode_pvalues
    flow = flows.flow[:, flows.cell]
    net = np.where(flows.single, flow.mean(axis=0), of_counts)
    sums = block_sums(flow - flow.mean(axis=0), tested.blocks.label)
    q = len(sums)
    error = np.where(flows.single, block_standard_error(sums) / n, np.nan)
    by_test = np.minimum(1.0, n_comparisons(n_modes) * flow_pvalues(net, error, q - 1))
    return net, error, np.where(flows.single, by_test, judged.mode_pvalues)


def _chain_summary(
    mode: np.ndarray,
    path: np.ndarray,
    chain: np.ndarray,
    tested: ChainComparison,
    flows: Flows,
    set_size: int,
) -> ChainWeights:
    """What chains tell, with the `mode` (n,) of each draw and the mode they have settled in, `path` (n,)."""
    n_modes = len(flows.cell)
    sojourns = sojourns_per_mode(path, chain, n_modes)
    n_chains = int(chain.max()) + 1
    blocks = tested.blocks
    shares = np.zeros((n_chains, n_modes))
    np.add.at(shares, (chain, mode), 1.0)
    return ChainWeights(
        n_chains=n_chains,
        n_blocks=0 if blocks is None else blocks.n_blocks,
        autocorrelation_time=np.nan if blocks is None else blocks.autocorrelation_time,
        effective_sample_size=np.nan if blocks is None else blocks.effective_sample_size,
        n_changes=int(sojourns.sum()) - n_chains,
        sojourns=sojourns,
        shares=shares / shares.sum(axis=1, keepdims=True),
        compared=tuple(flows.modes_of(group) for group in flows.groups),
        pooled=tuple(np.flatnonzero(flows.compared & ~flows.single).tolist()),
        set_size=set_size,
    )


def _why_inconclusive(
    summary: ChainWeights,
    tested: ChainComparison,
    flows: Flows,
    weighty: np.ndarray,
    not_negligible: np.ndarray,
    *,
    some_stuck: bool,
) -> str:
    """Why a large p-value says nothing; empty if all modes that matter were compared, or there is but one."""
    if not_negligible.sum() < 2:
        return ""
    changes = "once" if summary.n_changes == 1 else f"{summary.n_changes} times"
    if not summary.n_changes:
        who = "the chains never change mode" if summary.n_chains > 1 else "the chain never changes mode"
        everywhere = np.all(summary.sojourns[not_negligible] > 0)
        close = ", however close to those of the density," if everywhere else ""
        remedy = "start chains in every mode, or use a sampler that moves between modes"
        if everywhere:
            remedy = "reweight the draws by the implied shares, or use a sampler that moves between modes"
        return (
            f"{who}: the shares of the modes{close} are those of the starting points, and running longer "
            f"will not help; {remedy}"
        )
    if not flows.groups:
        gate = MIN_SOJOURNS_OF_TWO if weighty.sum() < 3 else MIN_SOJOURNS_OF_MANY
        visits = int(summary.sojourns[weighty].min())
        sojourns = "1 sojourn" if visits == 1 else f"{visits} sojourns"
        who, them = ("chain", "it") if summary.n_chains == 1 else ("chains", "them")
        remedy = f"run {them} about {max(gate / max(1, visits), 1.5):.2g} times as long"
        if some_stuck or not visits:
            remedy = "start chains in every mode, or use a sampler that moves between modes"
        stuck = "; some chains are stuck" if some_stuck else ""
        return (
            f"the {who} changed mode only {changes}, with {sojourns} at the mode visited most rarely, too "
            f"few to compare the weights (at least {gate} are needed at each mode){stuck}: {remedy}"
        )
    if tested.comparison is None:
        too_small = "the net flows between the modes have too small a variance"
        return too_small if tested.blocks is None else f"for the mode weights, {tested.blocks.remedy}"
    if _complete(flows, weighty):
        return _why_pooled(np.flatnonzero(weighty & flows.compared & ~flows.single))
    apart = [listed(group, MAX_LISTED) for group in summary.compared]
    apart += [str(k) for k in np.flatnonzero(weighty & ~flows.compared)[:MAX_LISTED]]
    return (
        "the chains hardly ever change between these groups of modes, whose weights could not be compared: "
        f"{'; '.join(apart)}"
    )


def _why_pooled(modes: np.ndarray) -> str:
    """Why nothing is known of the weights of these modes among themselves; empty for one mode or none."""
    if len(modes) < 2:
        return ""
    which = listed(modes.tolist(), MAX_LISTED)
    return f"modes {which} are visited too rarely: their weights were compared only together"


def time_within_modes(x: np.ndarray, log_p: np.ndarray, mode: np.ndarray, chain: np.ndarray) -> float:
    """Largest autocorrelation time of log density and coordinates, each relative to its mean at the mode."""
    values = np.column_stack([log_p, x])
    sizes = np.bincount(mode)
    for column in values.T:
        means = np.bincount(mode, column) / np.maximum(sizes, 1)
        column -= means[mode]
    return float(np.max(autocorrelation_time(values, chain)))
