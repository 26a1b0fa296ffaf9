"""The modes that a test uses: those the user gives, or those that a search finds from held-out draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..result import Modes
from ..target import Target
from .arguments import examine_modes
from .atlas import Atlas, Limits
from .hunt import look_from
from .merge import Peak, default_cut
from .search import MAX_EVALUATIONS, MAX_SECONDS, median_and_mad, require_mode, search_modes
from .surface import Surface

MIN_DRAWS_TO_HOLD_OUT = 100  # with fewer draws all are tested, and the search gets median and MAD only
CLIMBED_DRAWS = 100  # draws from which `check` climbs to see whether their modes are known


def hold_out(
    n: int, rng: np.random.Generator, chain: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of n draws to search from, and rows to test.

    min(max(n/10, 20), 100) draws are held out: at random, or, where `chain` (n,) says to which chain each
    draw belongs, as one contiguous block per chain in proportion to its length, so that the shares of the
    modes among the others do not change. Below n = 100 none is: the search then gets median and MAD of all
    draws only, which a rare mode cannot move.
    """
    rows = np.arange(n)
    if n < MIN_DRAWS_TO_HOLD_OUT:
        return rows[:0], rows
    size = int(min(max(n / 10, 20), 100))
    if chain is None:
        held = np.sort(rng.choice(n, size=size, replace=False))
        return held, np.setdiff1d(rows, held)
    labels = np.unique(chain)
    if size < 5 * len(labels):  # many short chains: whole ones are held out
        order = rng.permutation(labels)
        count = 1 + int(np.searchsorted(np.cumsum(np.bincount(chain)[order]), size))
        held = np.flatnonzero(np.isin(chain, order[:count]))
        return held, np.setdiff1d(rows, held)
    position = rng.random()
    blocks = []
    for label in labels:
        mine = np.flatnonzero(chain == label)
        share = round(size * len(mine) / n)
        begin = int(position * (len(mine) - share + 1))
        blocks.append(mine[begin : begin + share])
    held = np.concatenate(blocks)
    return held, np.setdiff1d(rows, held)


class KnownModes(NamedTuple):
    """The modes that a test uses, and the draws that it may test with them."""

    modes: Modes
    rows: np.ndarray  # of the draws that the modes do not depend on
    warnings: tuple[str, ...]


def known_modes(
    modes: Any,
    target: Target,
    x: np.ndarray,
    box: np.ndarray | None,
    *,
    chain: np.ndarray | None,
    rng: np.random.Generator,
) -> KnownModes:
    """The user's modes, examined, or those found from some of the draws `x` (n, d), which are not tested."""
    if modes is not None:
        known, warnings = examine_modes(modes, target)
        return KnownModes(known, np.arange(len(x)), warnings)
    held, tested = hold_out(len(x), rng, chain)
    found = search_from_draws(target, x, held, box, rng=rng)
    require_mode(found)
    return KnownModes(found, tested, found.warnings)


def search_from_draws(
    target: Target,
    x: np.ndarray,
    held: np.ndarray,
    box: np.ndarray | None,
    *,
    starts: np.ndarray | None = None,
    max_evaluations: int = MAX_EVALUATIONS,
    max_seconds: float | None = MAX_SECONDS,
    progress: bool | None = None,
    rng: np.random.Generator,
) -> Modes:
    """Search from the rows `held` of the draws `x` (n, d); from median and MAD of all if none is held out."""
    return search_modes(
        target,
        x[held] if len(held) else None,
        location=None if len(held) else rounded_location(x),
        starts=starts,
        box=box,
        max_evaluations=max_evaluations,
        max_seconds=max_seconds,
        progress=progress,
        rng=rng,
    )


def rounded_location(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and MAD of few draws, rounded, so that hardly any single draw can change them."""
    centre, spread = median_and_mad(x)
    scale = 2.0 ** np.round(np.log2(spread))
    return scale * np.round(centre / scale), scale


class UnknownModes(NamedTuple):
    """Modes that draws climb to and the search did not find."""

    n_draws: int  # from which a climb started
    n_unknown: int  # of them that reached such a mode
    locations: np.ndarray  # (K, d)


def climb_from_draws(
    x: np.ndarray, target: Target, known: Modes, rng: np.random.Generator, *, max_seconds: float | None = None
) -> UnknownModes:
    """Climb from up to `CLIMBED_DRAWS` draws to see whether the modes they reach are known.

    Only smooth, curved maxima count: on rings and plateaus every climb ends somewhere else. For warnings
    only: modes found in this way depend on the draws, and a test must not be made with them.
    """
    surface = Surface(target, max_seconds=max_seconds)
    first = x[rng.permutation(len(x))[:CLIMBED_DRAWS]]
    limits = Limits(len(known) + CLIMBED_DRAWS, 1.0, default_cut(target.dim), 1.0)
    atlas = Atlas(limits._replace(beta=0.0))  # modes that are known differ, however close they are
    hessians = np.linalg.inv(known.covariances)
    for location, top, hessian in zip(known.locations, known.log_density, hessians, strict=True):
        atlas.add(Peak(location, float(top), hessian, "mode"))
    atlas.limits = limits
    before = len(atlas.peaks)
    look_from(surface, atlas, first, known.covariances.mean(axis=0), rng)
    weight = atlas.log_weight
    new = [
        k
        for k in range(before, len(atlas.peaks))
        if atlas.peaks[k].kind == "mode" and weight[k] >= weight.max() - limits.cut
    ]
    places = np.array([atlas.peaks[k].x for k in new]).reshape(-1, target.dim)
    return UnknownModes(len(first), sum(atlas.n_starts[k] for k in new), places)
