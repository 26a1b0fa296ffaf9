"""The modes that a test uses: those the user gives, or those that a search finds from held-out draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._whitening import Gaussians
from ..result import Modes
from ..target import Target
from ..target.evaluation import Budget, CountedTarget
from .arguments import as_modes
from .climb import starts_at
from .peaks import FoundModes, Peak
from .rounds import Origin, Search, absorb, climb_from, score_residuals
from .search import (
    Location,
    SearchOptions,
    as_box,
    median_and_mad,
    origin_about,
    origin_at,
    require_mode,
    search_modes,
    with_uniform,
)

MIN_DRAWS_TO_HOLD_OUT = 100  # with fewer draws all are tested, and the search gets median and MAD only


class HeldOut(NamedTuple):
    """Rows of draws to search from, and rows to test."""

    held: np.ndarray
    tested: np.ndarray


def hold_out(n: int, chain: np.ndarray | None = None) -> HeldOut:
    """Rows of n draws to search from and rows to test, by a rule that no seed decides.

    min(max(n/10, 20), 100) draws are held out: evenly spaced, or, where `chain` (n,) says to which chain each
    draw belongs, the last ones of every chain in proportion to its length; of many short chains, whole ones.
    Below n = 100 none is: the search then gets median and MAD of all draws only, which a rare mode cannot
    move.

    Examples
    --------
    >>> hold_out(100).held[:4].tolist()
    [2, 7, 12, 17]
    """
    rows = np.arange(n)
    if n < MIN_DRAWS_TO_HOLD_OUT:
        return HeldOut(rows[:0], rows)
    size = int(min(max(n / 10, 20), 100))
    if chain is None:
        held = _evenly_spaced(n, size)
    else:
        labels, lengths = np.unique(chain, return_counts=True)
        if size < 5 * len(labels):
            some = _evenly_spaced(len(labels), int(np.ceil(size * len(labels) / n)))
            held = np.flatnonzero(np.isin(chain, labels[some]))
        else:
            ends = [
                np.flatnonzero(chain == label)[length - round(size * length / n) :]
                for label, length in zip(labels, lengths, strict=True)
            ]
            held = np.concatenate(ends)
    return HeldOut(held, np.setdiff1d(rows, held))


def _evenly_spaced(n: int, size: int) -> np.ndarray:
    return ((np.arange(size) + 0.5) * n / size).astype(int)


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
    budget: Budget | None = None,
) -> KnownModes:
    """The user's modes, or those found from some of the draws `x` (n, d), which are not tested.

    The search takes half of the budget.
    """
    budget = Budget() if budget is None else budget
    if modes is not None:
        given = modes_with_mass(as_modes(modes, target, budget), x, len(x))
        return KnownModes(given, np.arange(len(x)), ())
    held, tested = hold_out(len(x), chain)
    part = budget.part(0.5)
    found = search_from_draws(target, x, held, box, rng=rng, budget=part)
    budget.made += part.made
    require_mode(found)
    return KnownModes(found, tested, found.warnings)


def modes_with_mass(modes: Modes, x: np.ndarray, n: int) -> Modes:
    """The modes that should hold one of `n` draws, by their Laplace weight, or that hold some of `x` (m, d).

    A mode of less than 1/n of the weight of the heaviest can neither be tested nor be missed. Where it holds
    draws, its weight is larger than Laplace's.
    """
    if not len(modes):
        return modes
    weight = modes.laplace_weights
    log_weight = np.log(np.maximum(weight, 1e-300))
    home = Gaussians(modes.locations, modes.covariances, log_weight).largest(x)
    kept = (weight * n >= weight.max()) | np.isin(np.arange(len(modes)), home)
    arrays = {name: getattr(modes, name)[kept] for name in ("locations", "covariances", "log_density")}
    return replace(modes, **arrays)


def search_from_draws(
    target: Target,
    x: np.ndarray,
    held: np.ndarray,
    box: np.ndarray | None,
    *,
    starts: np.ndarray | None = None,
    progress: bool | None = None,
    rng: np.random.Generator,
    budget: Budget | None = None,
) -> Modes:
    """Search from the rows `held` of the draws `x` (n, d); from median and MAD of all if none is held out.

    Modes without mass are left out; which of them hold draws, only the held-out draws say.
    """
    extra = with_uniform(starts, box, 256, target.dim, rng)
    origin = origin_at(x[held], extra) if len(held) else origin_about(rounded_location(x), extra, rng)
    found = search_modes(CountedTarget(target, budget), origin, SearchOptions(progress=progress), rng)
    return modes_with_mass(found, x[held], len(x))


def rounded_location(x: np.ndarray) -> Location:
    """Median and MAD of few draws, rounded, so that hardly any single draw can change them."""
    centre, spread = median_and_mad(x)
    scale = 2.0 ** np.round(np.log2(spread))
    return Location(scale * np.round(centre / scale), scale)


class UnknownModes(NamedTuple):
    """Modes that draws climb to and the search did not find."""

    n_unknown: int  # draws that belong to such a mode
    locations: np.ndarray  # (K, d)


def climb_from_draws(
    x: np.ndarray, scores: np.ndarray, target: Target, known: Modes, budget: Budget | None = None
) -> UnknownModes:
    """Climb from the 16 draws whose score points least to a known mode, to see whether they reach others.

    A draw belongs to the mode whose parabola is highest there. Only smooth, curved maxima count: on rings and
    plateaus every climb ends somewhere else. For warnings only: modes found in this way depend on the draws,
    and a test must not be made with them.
    """
    hessians = np.linalg.inv(known.covariances)
    peaks = [Peak(*each) for each in zip(known.locations, known.log_density, hessians, strict=True)]
    first = x[np.argsort(-score_residuals(peaks, scores, x), kind="stable")[:16]]
    metric = known.covariances.mean(axis=0)
    origin = Origin(x[0], np.sqrt(np.diag(metric)), first, x[:0])
    found = FoundModes(len(peaks) + 16, 1.0, list(peaks))
    state = Search(CountedTarget(target, budget), origin, found, np.random.default_rng(0))
    ends = climb_from(state, starts_at(first, metric, 0.5), iterations=1000)
    absorb(state, ends, ends.rest)
    unknown = [k for k in found.within(20 + target.dim / 2) if k >= len(peaks)]
    heights = [peak.log_density - peak.drop(x) for peak in found.peaks]
    n_unknown = int(np.isin(np.argmax(heights, axis=0), unknown).sum())
    return UnknownModes(n_unknown, np.array([found.peaks[k].x for k in unknown]).reshape(-1, target.dim))


def box_beside(modes: Any, bounds: Any, dim: int) -> np.ndarray | None:
    """The box of the mode search of a test, None without `bounds`; they are refused beside `modes`."""
    if modes is not None and bounds is not None:
        raise ValueError("`bounds` is the box of the mode search: give `modes` or `bounds`, not both")
    return None if bounds is None else as_box(bounds, dim)
