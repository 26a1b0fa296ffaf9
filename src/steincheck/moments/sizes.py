"""Sizes of misfits at every mode, and pooled over them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .._whitening import whitened, whitened_scores
from ..chains.blocks import MIN_BLOCKS, block_signs
from ..stein.bootstrap import pvalue
from ..stein.kernels import IMQ, median_squared_distance
from ..stein.mode_units import gaussian_score, mixture_score
from ..stein.quadratic import flip_signs
from ..stein.tiles import sums_of_block_pairs
from ..target import Batch
from .correction import Affine, WeightedDraws, solve_affine
from .effects import BlockTotals, Effects, corrected_moments, effects_of, pool_effects
from .frames import Constants, Frame, most_responsible, responsibilities

MAX_CORRECTED_SLOPE = 1e9  # per standard deviation of corrected draws; beyond, kernels would overflow
MAX_DRAWS_AT_ONCE = 10_000  # the map found from so many takes one more step with all draws


class ModeDraws(NamedTuple):
    """Draws sorted by block, as one mode sees them."""

    x: np.ndarray  # (n, d)
    scores: np.ndarray  # (n, d)
    block: np.ndarray  # (n,)
    weight: np.ndarray  # (n,) responsibility of the mode


class Sizes(NamedTuple):
    """How large the misfits are, and the maps that correct the draws."""

    effects: list[Effects]  # at each mode, then pooled over modes
    blocks: int  # behind the standard errors
    maps: list[Affine | None]  # per mode, in its standardised coordinates; None where sizes explain nothing


def sizes(
    x: np.ndarray,
    scores: np.ndarray,
    block: np.ndarray,
    frame: Frame,
    score: Batch | None,
    rng: np.random.Generator,
) -> Sizes:
    """Effects at each mode, then pooled over modes.

    Without `score`, a function of draws, the sizes are one step from the draws themselves. Where draws that
    have been shifted and stretched by these sizes do not fit either, the sizes explain nothing: they are NaN.
    """
    constants = frame.constants._replace(sharpness=np.ones(()))  # sizes are those of the components
    count = int(block[-1]) + 1
    groups = block // -(-count // _max_blocks(constants))
    shares = responsibilities(constants, x)
    effects = []
    maps: list[Affine | None] = []
    for k in range(len(constants.centre)):
        rows = np.flatnonzero(shares[:, k] > 0.01)  # others do not count for its sizes
        weight = shares[rows, k].sum()
        if weight < 5:  # draws are too few for sizes
            effects.append(_unknown(constants))
            maps.append(None)
            continue
        case = ModeDraws(x, scores, groups, shares[:, k])
        enough = weight > 20  # with fewer, one step is as good as the draws allow
        one, affine = _at_mode(case, rows, constants, k, score if enough else None, rng)
        effects.append(one)
        maps.append(affine)
    total = shares.sum(axis=0)
    known = [k for k, one in enumerate(effects) if np.isfinite(one.mean).all()]
    if len(effects) == 1 or not known:
        return Sizes([effects[0], effects[0]], int(groups[-1]) + 1, maps)
    together = pool_effects([effects[k] for k in known], total[known] / total[known].sum())
    return Sizes([*effects, together], int(groups[-1]) + 1, maps)


def correct_draws(x: np.ndarray, constants: Constants, maps: Sequence[Affine | None]) -> np.ndarray | None:
    """Draws moved by the map of their mode; None if there is none for some of them."""
    label = most_responsible(constants, x)
    moved = np.empty_like(x)
    for k in np.unique(label):
        affine = maps[k]
        if affine is None:
            return None
        rows = label == k
        y = (x[rows] - constants.centre[k]) / constants.sd[k]
        moved[rows] = constants.centre[k] + constants.sd[k] * affine(y)
    return moved


def _max_blocks(constants: Constants) -> int:
    d, directions = constants.project.shape[1:]
    # 4e9 operations, and 4e6 numbers in the matrices of all blocks: many dimensions get fewer blocks
    most = min(4e9 / (directions**2 * d), 4e6 / d**2)
    return int(np.clip(most, 20, 250))


def _unknown(constants: Constants) -> Effects:
    d, directions = constants.project.shape[1:]
    pairs = len(constants.pair_first)
    lengths = [(directions,)] * 6 + [(d,)] * 4 + [(pairs,)] * 3 + [()] * 2
    return Effects(*(np.full(length, np.nan) for length in lengths))


def _at_mode(
    case: ModeDraws,
    rows: np.ndarray,
    constants: Constants,
    k: int,
    score: Batch | None,
    rng: np.random.Generator,
) -> tuple[Effects, Affine | None]:
    """Effects at mode k of the draws `rows` that belong to it, and the map that corrects them."""
    d = len(constants.sd[k])
    prior = np.linalg.inv(constants.precision[k] * np.outer(constants.sd[k], constants.sd[k]))
    moved = None if score is None else _solved(case, rows, constants, k, prior, score)
    if moved is None:
        nothing = Affine(np.eye(d), np.zeros(d))
        moved = nothing, *_totals(case, rows, constants, k, nothing, None)
    affine, totals, sample = moved
    drawn, corrected = corrected_moments(totals, affine, sample, prior)
    effects = effects_of(
        drawn, corrected, constants.project[k], (constants.pair_first, constants.pair_second)
    )
    if score is None:
        return effects, None
    if _still_wrong(sample, case.block[rows[_kept(len(rows))]], rng):
        return _without_sizes(effects), None
    return effects, affine


def _still_wrong(sample: WeightedDraws, block: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether a kernel test with signs of blocks rejects the corrected draws of a mode at the level .01."""
    chosen = np.flatnonzero(sample.weight > 0.5)
    chosen = chosen[:: -(-len(chosen) // 1000) or 1]
    block = np.unique(block[chosen], return_inverse=True)[1]
    if len(chosen) < 50 or block[-1] + 1 < MIN_BLOCKS:
        return False
    y = sample.y[chosen]
    covariance = np.cov(y, rowvar=False).reshape(y.shape[1], -1)
    if not np.linalg.eigvalsh(covariance)[0] > 0:
        return False
    whiten = np.linalg.cholesky(covariance)
    z = whitened(y, whiten)
    slopes = whitened_scores(sample.t[chosen], whiten)
    if not np.abs(slopes).max() < MAX_CORRECTED_SLOPE:
        return True
    table = sums_of_block_pairs(z[None], slopes[None], IMQ(), median_squared_distance(z), block).table
    found = flip_signs(table, np.bincount(block), block_signs(int(block[-1]) + 1, 999, rng))
    return pvalue(float(found.statistics[0]), found.replicates[0]) <= 0.01


def _without_sizes(effects: Effects) -> Effects:
    """Only what the draws themselves show: their means, standard deviations and correlations."""
    observed = ("mean", "sd", "correlation")
    unknown = {
        name: np.full_like(value, np.nan) for name, value in effects._asdict().items() if name not in observed
    }
    return effects._replace(**unknown)


def _solved(
    case: ModeDraws, rows: np.ndarray, constants: Constants, k: int, prior: np.ndarray, score: Batch
) -> tuple[Affine, BlockTotals, WeightedDraws] | None:
    """The map that corrects the draws, and what `_totals` makes of it; None where that fails."""
    moved_scores = partial(_moved_scores, constants, k, score)
    some = _sample(case, rows[:: -(-len(rows) // MAX_DRAWS_AT_ONCE)], constants, k)
    try:
        affine = solve_affine(some, prior, moved_scores)
        totals, sample = _totals(case, rows, constants, k, affine, moved_scores)
    except np.linalg.LinAlgError:  # draws that are all but singular, or scores that overflow
        return None
    return (affine, totals, sample) if np.isfinite(totals.ty).all() else None


def _as_given(case: ModeDraws, rows: np.ndarray | slice, constants: Constants, k: int) -> WeightedDraws:
    """Draws in their own coordinates."""
    x = case.x[rows]
    return WeightedDraws(x, _component_scores(constants, k, x, case.scores[rows]), case.weight[rows])


def _sample(case: ModeDraws, rows: np.ndarray | slice, constants: Constants, k: int) -> WeightedDraws:
    """Draws in the standardised coordinates of mode k."""
    x, scores, weight = _as_given(case, rows, constants, k)
    return WeightedDraws((x - constants.centre[k]) / constants.sd[k], constants.sd[k] * scores, weight)


def _totals(
    case: ModeDraws,
    rows: np.ndarray,
    constants: Constants,
    k: int,
    affine: Affine,
    moved_scores: Batch | None,
) -> tuple[BlockTotals, WeightedDraws]:
    """Sums over blocks of draws and of the scores at them after `affine`; and some draws after it."""
    take = _as_given if moved_scores is None else _sample  # sums are standardised faster than draws
    totals = BlockTotals.empty(
        int(case.block[-1]) + 1, take(case, rows[:MAX_DRAWS_AT_ONCE], constants, k).y.mean(axis=0)
    )
    kept = []
    step = _step(len(rows))
    for start in range(0, len(rows), MAX_DRAWS_AT_ONCE):
        chunk = rows[start : start + MAX_DRAWS_AT_ONCE]
        sample = take(case, _neighbours(chunk), constants, k)
        some = _sample(case, chunk[::step], constants, k)
        if moved_scores is not None:
            sample = sample._replace(t=moved_scores(affine(sample.y)))
            some = some._replace(t=sample.t[::step])
        totals.add(sample, case.block[chunk])
        kept.append(some._replace(y=affine(some.y)))
    if moved_scores is None:
        totals = totals.standardised(constants.centre[k], constants.sd[k])
    return totals, WeightedDraws(*(np.concatenate(parts) for parts in zip(*kept, strict=True)))


def _neighbours(rows: np.ndarray) -> np.ndarray | slice:
    """Increasing rows as a slice if none is left out: slices are not copied."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


def _step(n: int) -> int:
    return -(-n // MAX_DRAWS_AT_ONCE)


def _kept(n: int) -> np.ndarray:
    """Which of n draws are in the sample that `_totals` keeps."""
    starts = range(0, n, MAX_DRAWS_AT_ONCE)
    return np.concatenate([np.arange(start, min(start + MAX_DRAWS_AT_ONCE, n), _step(n)) for start in starts])


def _moved_scores(constants: Constants, k: int, score: Batch, y: np.ndarray) -> np.ndarray:
    """Scores of mode k at standardised draws that have been moved."""
    x = constants.centre[k] + constants.sd[k] * y
    return constants.sd[k] * _component_scores(constants, k, x, score(x))


def _component_scores(constants: Constants, k: int, x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """s + grad log r_k: for a mixture of Gaussians the score of component k alone."""
    if len(constants.centre) == 1:
        return scores
    pull = mixture_score(x, responsibilities(constants, x).T, constants.centre, constants.precision)
    return scores + gaussian_score(x, constants.centre[k], constants.precision[k]) - pull
