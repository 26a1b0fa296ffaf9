"""Weights of the modes from Markov chains: net flows under random signs of blocks, and what the set says.

Under H0 the chains are stationary with the target as distribution, and independent of each other. Net flows
then have mean 0 whatever the dependence between draws, and their sums over long blocks are nearly independent
and symmetric. Where the chains change mode too rarely for that, only the set of draws can be judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import special

from ..chains.blocks import Blocks, autocorrelation_time, block_signs, block_sums, cut_blocks
from .counts import (
    MIN_VARIANCE,
    MIN_VARIANCE_FOR_CHI2,
    N_FLUX_RESAMPLES,
    RARE_LEVEL,
    CountTest,
    Directions,
    count_tails,
    directions,
    rank_forms,
)
from .displacements import StepFlows, StepTest, unit_second_moments
from .orbits import CountMoments
from .shares import MODE_TABLE_LEVEL, NORMAL_QUANTILE

MIN_SOJOURNS_OF_TWO = 20  # at each of two modes: below, block sums are too skew (level .14 with 8)
MIN_SOJOURNS_OF_MANY = 10  # at each of three modes or more, where no single one decides
WEIGHTY_SHARE = 0.05  # modes below may go uncompared without making the test inconclusive
SET_SIZE = 40  # independent draws, at most, with which a set that cannot be tested is compared


class Flows(NamedTuple):
    """Net flows of the draws between modes that the chains visit often enough to be compared."""

    cell: np.ndarray  #: (M,) the cell of each mode: itself, or the pool of the modes that are visited rarely
    groups: tuple[tuple[int, ...], ...]  #: cells compared with each other
    flow: np.ndarray  #: (n, K) into cells, 0 at those that are not compared
    covariance: np.ndarray  #: (K, K) given the orbits and the groups of the draws

    @property
    def compared(self) -> np.ndarray:
        """Modes (M,) that are compared with some other, by themselves or in the pool."""
        return np.isin(self.cell, [cell for group in self.groups for cell in group])

    @property
    def single(self) -> np.ndarray:
        """Modes (M,) that are compared by themselves."""
        return self.compared & (np.bincount(self.cell)[self.cell] == 1)

    def modes_of(self, group: tuple[int, ...]) -> tuple[int, ...]:
        """The modes of a group of cells."""
        return tuple(np.flatnonzero(np.isin(self.cell, group)).tolist())


class ChainComparison(NamedTuple):
    """Outcome of the test of the weights by block sign flips."""

    comparison: CountTest | None  #: None if the chains are too short
    blocks: Blocks | None  #: None if no modes are compared, or their counts hardly vary
    n_directions: int


def n_sojourns(inside: np.ndarray, chain: np.ndarray) -> int:
    """Number of times the chains enter, or start in, a set of states, `inside` (n,) bool."""
    before = np.concatenate([[False], inside[:-1] & (chain[1:] == chain[:-1])])
    return int(np.sum(inside & ~before))


def sojourns_per_mode(mode: np.ndarray, chain: np.ndarray, n_modes: int) -> np.ndarray:
    """Number of times the chains enter, or start in, each mode, (M,)."""
    enters = np.ones(len(mode), dtype=bool)
    enters[1:] = (mode[1:] != mode[:-1]) | (chain[1:] != chain[:-1])
    return np.bincount(mode[enters], minlength=n_modes)


def _gate(n_modes: int) -> int:
    """Sojourns at a mode that are needed for a comparison."""
    return MIN_SOJOURNS_OF_MANY if n_modes > 2 else MIN_SOJOURNS_OF_TWO


def cells_of_modes(mode: np.ndarray, chain: np.ndarray, share: np.ndarray) -> np.ndarray:
    """A cell per mode with enough sojourns, and one for all others together, (M,).

    If the others, with a `share` (M,) that matters, have too few sojourns even together, the modes with the
    fewest join them.
    """
    sojourns = sojourns_per_mode(mode, chain, len(share))
    gate = _gate(len(share))
    order = np.argsort(sojourns, kind="stable")
    size = int(np.sum(sojourns < gate))
    matters = max(share[order[:size]].sum(), np.isin(mode, order[:size]).mean()) > WEIGHTY_SHARE
    while 0 < size < len(share) - 1 and matters and n_sojourns(np.isin(mode, order[:size]), chain) < gate:
        size += 1
    alone = np.ones(len(share), dtype=bool)
    alone[order[:size]] = False
    return np.where(alone, np.cumsum(alone) - 1, alone.sum())


def compared_groups(path: np.ndarray, chain: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Groups of cells between whose parts the chains change often enough for a comparison.

    `path` (n,) is the cell of each draw. Cells with too few sojourns are left out; the rest is split where
    the changes are fewest, until every part that a group falls into has enough sojourns, and as many away
    from it.
    """
    sojourns = sojourns_per_mode(path, chain, path.max() + 1)
    often = np.flatnonzero(sojourns >= MIN_SOJOURNS_OF_MANY)
    many = [group for group in _split(often, path, chain, MIN_SOJOURNS_OF_MANY) if len(group) > 2]
    taken = [k for group in many for k in group]
    left = np.setdiff1d(np.flatnonzero(sojourns >= MIN_SOJOURNS_OF_TWO), taken)
    return (*many, *_split(left, path, chain, MIN_SOJOURNS_OF_TWO))


def _split(cells: np.ndarray, path: np.ndarray, chain: np.ndarray, gate: int) -> list[tuple[int, ...]]:
    """Split a set of cells at its weakest cut as long as the chains cross it too rarely."""
    if len(cells) < 2:
        return []
    rows = np.isin(path, cells)
    within = np.searchsorted(cells, path[rows])
    where = chain[rows]
    side = _weakest_cut(within, where, len(cells))
    part = side[within]
    if min(n_sojourns(part, where), n_sojourns(~part, where)) >= gate:
        return [tuple(cells.tolist())]
    return _split(cells[side], path, chain, gate) + _split(cells[~side], path, chain, gate)


def _weakest_cut(path: np.ndarray, chain: np.ndarray, n_modes: int) -> np.ndarray:
    """One side (M,) of a cut that the chains cross rarely: a component, or the signs of Fiedler's vector."""
    from scipy.sparse.csgraph import connected_components

    changes = _changes(path, chain, n_modes)
    count, component = connected_components(changes > 0, directed=False)
    if count > 1:
        return component == 0
    _, vectors = np.linalg.eigh(np.diag(changes.sum(axis=1)) - changes)
    return vectors[:, 1] > 0


def _changes(path: np.ndarray, chain: np.ndarray, n_modes: int) -> np.ndarray:
    """Number of changes between two modes, whichever comes first, (M, M)."""
    stays = chain[1:] == chain[:-1]
    changes = np.zeros((n_modes, n_modes))
    np.add.at(changes, (path[:-1][stays], path[1:][stays]), 1.0)
    changes = changes + changes.T
    np.fill_diagonal(changes, 0.0)
    return changes


def chain_flows(moments: CountMoments, mode: np.ndarray, chain: np.ndarray) -> Flows:
    """Net flows within groups of cells: given the orbit and the group of a draw, its cell is random.

    F_j = 1{c in G} (pi_j / pi_G - 1{c = j}) for j in G has mean 0 under the target, whatever the weights of
    the groups.
    """
    cell = cells_of_modes(mode, chain, moments.expected / len(mode))
    path = cell[mode]
    groups = compared_groups(path, chain)
    probabilities = moments.probabilities @ np.eye(cell.max() + 1)[cell]
    flow = np.zeros(probabilities.shape)
    covariance = np.zeros((flow.shape[1], flow.shape[1]))
    for group in groups:
        columns = np.array(group)
        rows = np.flatnonzero(np.isin(path, columns))
        inside = probabilities[np.ix_(rows, columns)]
        total = inside.sum(axis=1, keepdims=True)
        indicator = (path[rows, None] == columns).astype(float)
        probability = np.where(total > 0, inside / np.where(total > 0, total, 1.0), indicator)
        flow[np.ix_(rows, columns)] = probability - indicator
        covariance[np.ix_(columns, columns)] = np.diag(probability.sum(axis=0)) - probability.T @ probability
    return Flows(cell, groups, flow, covariance)


def compare_chains(
    flows: Flows,
    locations: np.ndarray,
    chain: np.ndarray,
    rng: np.random.Generator,
    n_resamples: int = N_FLUX_RESAMPLES,
) -> ChainComparison:
    """Compare sum F, in the metric of its conditional covariance, with its values under block sign flips."""
    sizes = np.bincount(flows.cell)[:, None]
    centres = np.stack([np.bincount(flows.cell, column) for column in locations.T], axis=1) / sizes
    found = directions(flows.covariance, centres, MIN_VARIANCE_FOR_CHI2)
    features = flows.flow @ found.columns
    k = features.shape[1]
    if not k:
        return ChainComparison(None, None, 0)
    blocks = cut_blocks(_slowest(features, found, chain), chain)
    if not blocks.enough:
        return ChainComparison(None, blocks, k)
    return ChainComparison(_flipped(features, blocks, found, n_resamples, rng), blocks, k)


def compare_chain_steps(
    flows: StepFlows, chain: np.ndarray, rng: np.random.Generator, n_resamples: int = N_FLUX_RESAMPLES
) -> tuple[StepTest, Blocks]:
    """Compare flows along displacements with their values under block sign flips.

    The metric is that of their second moments, which no change of signs alters. A cut hides about the same
    part of the variance in all k directions, which moves the quadratic form by sqrt(k/2) times as much in
    its own standard deviations: with many directions chains are cut more rarely.
    """
    gate = MIN_SOJOURNS_OF_MANY if flows.clear.sum() > 2 else MIN_SOJOURNS_OF_TWO
    net = flows.net
    often = [min(n_sojourns(column > 0, chain), n_sojourns(column < 0, chain)) >= gate for column in net.T]
    usable = flows.clear & np.array(often, dtype=bool)
    features = unit_second_moments(net[:, usable]) if usable.any() else np.zeros((len(net), 0))
    k = features.shape[1]
    none = Directions(np.empty((0, k)), np.empty(0), 0)
    tau = _slowest(features, none, chain)
    # every cut hides a little variance in each of k directions: beyond 5, cut rarer
    rarer = max(1.0, np.sqrt(k / 5))
    blocks = replace(cut_blocks(rarer * tau, chain), autocorrelation_time=tau)
    if not k or not blocks.enough:
        return StepTest(np.nan, np.nan, k, None), blocks
    outcome = _flipped(features, blocks, none, n_resamples, rng)
    return StepTest(outcome.statistic, outcome.pvalue, k, outcome.null), blocks


def _slowest(features: np.ndarray, found: Directions, chain: np.ndarray) -> float:
    """Autocorrelation time of the contributions h_t = f_t' sum f, and of their trend part if examined."""
    parts = [features]
    if found.trend_examined:
        parts.append(features[:, : found.n_trend])
    return max(autocorrelation_time(part @ part.sum(axis=0), chain) for part in parts)


def _flipped(
    features: np.ndarray, blocks: Blocks, found: Directions, n_resamples: int, rng: np.random.Generator
) -> CountTest:
    """|sum f|^2 ranked among its values with a random sign per block."""
    sums = block_sums(features, blocks.label)
    signs = block_signs(blocks.n_blocks, n_resamples, rng)
    return rank_forms(np.vstack([sums.sum(axis=0), signs @ sums]), found)


class SetJudgement(NamedTuple):
    """How well the set of draws represents the weights, whatever made it."""

    missing_pvalue: float  #: of the modes without draws
    size: int  #: independent draws with which the set is compared
    set_pvalue: float  #: how often they represent the weights less well
    mode_pvalues: np.ndarray  #: (M,) of the modes by themselves, adjusted for their number


def settled_modes(
    mode: np.ndarray, radius: np.ndarray, dim: int, chain: np.ndarray, tau: float
) -> np.ndarray:
    """The mode in which the chain has settled at each draw, (n,).

    A draw far out in the tail of one mode may be nearest to another. A chain has changed mode where it comes
    to the core of the other, as close as 90 % of the draws of a Gaussian or half of all draws, and stays for
    longer than `tau`, the autocorrelation time within modes. `radius` (n,) is the distance of a draw from
    its mode in standard deviations.
    """
    square = radius**2
    # the core of a Gaussian has 90 % of its draws
    core = square <= max(special.chdtri(dim, 1 - 0.9), np.median(square))
    path = _filled(mode, core, chain)
    starts = np.flatnonzero((np.diff(path, prepend=-1) != 0) | (np.diff(chain, prepend=-1) != 0))
    length = np.diff(starts, append=len(path))
    return _filled(path, np.repeat(length > tau, length), chain)


def _filled(mode: np.ndarray, known: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """The last mode that was known, else the next one, in the same chain; without any, as they are."""
    n = len(mode)
    rows = np.arange(n)
    before = np.maximum.accumulate(np.where(known, rows, -1))
    after = np.minimum.accumulate(np.where(known, rows, n)[::-1])[::-1]
    first = np.searchsorted(chain, chain, side="left")
    end = np.searchsorted(chain, chain, side="right")
    return mode[np.where(before >= first, before, np.where(after < end, after, rows))]


def effective_size_of_set(mode: np.ndarray, chain: np.ndarray, n_modes: int) -> float:
    """How many independent draws the chains are worth for the mode whose share they know worst.

    Infinite where the chains never change between some of the modes they visit, or visit one only: longer
    chains would show the same shares, and these draws are all there will be.
    """
    visited = np.unique(mode)
    if len(visited) == 1 or not _connected(mode, chain, n_modes):
        return np.inf
    return min(_effective_draws(mode == k, chain, _gate(n_modes)) for k in visited)


def _connected(mode: np.ndarray, chain: np.ndarray, n_modes: int) -> bool:
    """Whether the changes of mode connect all the modes that the chains visit."""
    from scipy.sparse.csgraph import connected_components

    visited = np.unique(mode)
    changes = _changes(mode, chain, n_modes)[np.ix_(visited, visited)]
    return bool(connected_components(changes > 0, directed=False)[0] == 1)


def any_chain_stuck(mode: np.ndarray, chain: np.ndarray, n_modes: int) -> bool:
    """Whether some chains stay where they are while others change mode.

    Either no chain ever changes between some of the modes visited, or a chain never changes mode though at
    least three changes were to be expected of it at the rate of the other chains. `mode` (n,) is the mode in
    which the chain has settled at each draw.
    """
    if not _connected(mode, chain, n_modes):
        return True
    leaves = (np.diff(mode) != 0) & (np.diff(chain) == 0)
    length = np.bincount(chain)
    n_changes = np.bincount(chain[1:][leaves], minlength=len(length))
    idle = n_changes == 0
    if not idle.any() or idle.all():
        return False
    rate = n_changes.sum() / length[~idle].sum()
    # a chain that misses 3 expected changes is stuck: exp(-3) is .05
    return bool(rate * length[idle].max() >= 3)


def judge_set(
    moments: CountMoments, share: np.ndarray, locations: np.ndarray, n_effective: float, worth: float
) -> SetJudgement:
    """Judge the set of draws by the modes it misses and by comparison with independent draws.

    A mode j without draws has the p-value M (1 - share_j)^m with m = `n_effective`, or `worth` if that is
    less, but not below 40. The rest of the counts, scaled to as many draws as the set is `worth`, at most 40,
    is judged by the quadratic form and by the single count that fits worst, for rare modes; the smaller
    p-value is doubled. This is a statement about these draws, not about the sampler.
    """
    n, n_modes = moments.probabilities.shape
    size = int(np.ceil(min(SET_SIZE, worth)))
    scale = min(1.0, size / n)
    found = directions(scale * moments.covariance, locations, MIN_VARIANCE)
    whole = 1.0
    if k := found.columns.shape[1]:
        gap = scale * (moments.counts - moments.expected)
        whole = float(special.chdtrc(k, np.sum((gap @ found.columns) ** 2)))
    tails = count_tails(np.rint(scale * moments.counts), scale * moments.expected, round(scale * n))
    absent = (moments.counts == 0) & np.isfinite(share)
    looked_at = min(n_effective, max(worth, SET_SIZE))
    certain = np.exp(looked_at * np.log1p(-np.minimum(np.where(absent, share, 0.0), 1 - 1e-12)))
    return SetJudgement(
        min(1.0, n_modes * float(certain.min())),
        size,
        min(1.0, 2 * min(whole, n_modes * float(tails.min()))),
        np.minimum(1.0, n_modes * np.minimum(certain / RARE_LEVEL, tails / (1 - RARE_LEVEL))),
    )


def observed_intervals(mode: np.ndarray, chain: np.ndarray, n_modes: int) -> np.ndarray:
    """95 % intervals (M, 2) of the shares of the modes in the chains' distribution, each for one mode alone.

    Clopper and Pearson's interval with an effective number of draws (Korn and Graubard 1998, "Confidence
    intervals for proportions with small expected number of positive counts estimated from survey data").
    """
    found = np.full((n_modes, 2), np.nan)
    for k in range(n_modes):
        inside = mode == k
        found[k] = _exact_interval(float(inside.mean()), _effective_draws(inside, chain, _gate(n_modes)))
    return found


def _effective_draws(inside: np.ndarray, chain: np.ndarray, gate: int) -> float:
    """How many independent draws the chains are worth for the share of a mode, `inside` (n,) bool.

    With enough sojourns this is share (1 - share) / se^2, the standard error from sums over blocks, reduced
    by the squared ratio of the quantiles of the normal and of Student's t with as many degrees of freedom.
    With few, blocks tell too little: a chain of two states is worth at most about as many draws as it has
    sojourns, and n / tau. NaN where no chain ever enters or leaves the mode.
    """
    n = len(inside)
    sojourns = np.array([n_sojourns(inside, chain), n_sojourns(~inside, chain)])
    if sojourns.sum() == len(np.unique(chain)):
        return np.nan
    share = inside.mean()
    indicator = inside - share
    blocks = cut_blocks(autocorrelation_time(indicator, chain), chain)
    if sojourns.min() < gate or not blocks.enough:
        return max(1.0, min(float(sojourns.sum()), blocks.effective_sample_size))
    q = blocks.n_blocks
    variance = q / (q - 1) * np.sum(block_sums(indicator, blocks.label) ** 2) / n**2
    quantiles = NORMAL_QUANTILE / special.stdtrit(q - 1, 1 - MODE_TABLE_LEVEL / 2)
    return float(share * (1 - share) * quantiles**2 / max(variance, 0.25 / n**2))  # a count is whole


def _exact_interval(share: float, n_effective: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share of so many draws, whole or not."""
    if np.isnan(n_effective):
        return np.nan, np.nan
    count = share * n_effective
    rest = n_effective - count
    return (
        float(special.betaincinv(count, rest + 1, MODE_TABLE_LEVEL / 2)),
        float(special.betaincinv(count + 1, rest, 1 - MODE_TABLE_LEVEL / 2)),
    )
