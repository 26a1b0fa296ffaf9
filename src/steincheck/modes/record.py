"""What a search found, as a record: the modes chosen, how the search went, what the user should know."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ..result import Modes, ModeSearch, SignedPermutation
from ..result.modes import SearchEnd
from ..target import NO_SCORE
from ..wording.modes import (
    SEARCH_ENDS,
    early_end_warning,
    flat_tops_warning,
    growth_warning,
    no_mode_message,
)
from .merge import tie_order
from .rounds import Search


def modes_record(state: Search, chosen: list[int]) -> Modes:
    """The modes chosen, in an order that does not depend on the seed.

    Where the density goes on growing far above them, tops that are not smooth are places on the way there.
    """
    grows = _grows(state)
    peaks = [state.found.peaks[k] for k in chosen if not (grows and state.found.peaks[k].kind == "flat")]
    if not peaks:
        return without_mode(state)
    counts = {id(peak): n for peak, n in zip(state.found.peaks, state.found.n_starts, strict=True)}
    x = np.array([peak.x for peak in peaks])
    height = np.array([peak.log_density for peak in peaks])
    order = tie_order(x, height, np.min([peak.sd for peak in peaks], axis=0))
    peaks = [peaks[k] for k in order]
    flat = sum(peak.kind == "flat" for peak in peaks)
    search = _search_record(state, state.reason, SEARCH_ENDS[state.reason])
    warnings = [
        early_end_warning(search.message) if state.reason not in ("complete", "one round") else "",
        "" if state.density.target.has_score else NO_SCORE,
        flat_tops_warning(flat, len(peaks)) if flat else "",
        growth_warning(_place(state)) if grows else "",
    ]
    return Modes(
        x[order],
        np.array([peak.metric for peak in peaks]),
        height[order],
        np.array([counts[id(peak)] for peak in peaks]),
        tuple(text for text in warnings if text),
        search,
        _symmetries(state, x[order], np.array([peak.sd for peak in peaks])),
        tuple(state.density.target.names or ()),
    )


def without_mode(state: Search) -> Modes:
    """The empty record of a search without a mode; its message says why there is none."""
    d = state.density.target.dim
    why = _why_no_mode(state)
    reason: SearchEnd = "improper" if why.kind in ("constant", "improper") else "no mode"
    search = _search_record(state, reason, no_mode_message(why.kind, why.detail))
    return Modes(np.empty((0, d)), np.empty((0, d, d)), np.empty(0), np.empty(0, dtype=int), (), search)


def _search_record(state: Search, reason: SearchEnd, message: str) -> ModeSearch:
    return ModeSearch(
        n_starts=state.climbs,
        n_not_converged=state.not_converged,
        n_rounds=state.rounds,
        n_evaluations=state.density.budget.made - state.begin,
        n_non_finite=state.density.failures,
        reason=reason,
        message=message,
    )


def _symmetries(state: Search, x: np.ndarray, sd: np.ndarray) -> tuple[SignedPermutation, ...]:
    """The symmetries that take every mode to a mode, and some to another one.

    About a single mode many maps hold exactly to rounding; a symmetry of the density keeps all its modes.
    Where the list is cut off at `max_modes`, half of the images must be in it.
    """
    needed = 0.5 if state.reason == "max_modes" else 1.0
    kept = []
    for g in state.symmetries:
        same = (np.abs(g(x)[:, None] - x) <= 0.01 * sd).all(axis=2)
        if same.any(axis=1).mean() >= needed and not np.diag(same).all():
            kept.append(g)
    return tuple(kept)


class NoMode(NamedTuple):
    """Why a search found no mode."""

    kind: Literal[
        "raises", "nowhere", "no score", "constant", "improper", "limit", "edge", "grows", "not converged"
    ]
    detail: str = ""


def _why_no_mode(state: Search) -> NoMode:
    density = state.density
    if density.raised is not None and not density.scored:
        return NoMode("raises", f"{type(density.raised).__name__}: {density.raised}")
    if state.highest is None and not state.false_tops:
        exhausted = density.budget.exhausted
        return NoMode("nowhere") if exhausted is None else NoMode("limit", exhausted)
    if not density.scored:
        return NoMode("no score")
    if state.highest is None:
        return NoMode("not converged")
    if state.constant is not None and state.constant.log_density > state.highest[0] - 1:
        return NoMode("constant", str(state.constant.constant_along))
    place = f"{_place(state)}, where the log density is {state.highest[0]:.4g}"
    if state.at_infinity(state.highest[1]):
        return NoMode("improper", place)
    if density.budget.exhausted and state.rounds <= 1:
        return NoMode("limit", density.budget.exhausted)
    return NoMode("edge", _place(state)) if _at_edge(state) else NoMode("grows", place)


def _at_edge(state: Search) -> bool:
    """Whether the density is 0 just above the highest unfinished climb."""
    assert state.highest is not None
    x = state.highest[1]
    slope = state.density.log_density_and_score(x[None])[1][0] * state.origin.scale
    steepest = np.max(np.abs(slope))
    if steepest == 0 or state.density.budget.exhausted:
        return False
    ahead = x + 1e-3 * state.origin.scale * slope / steepest
    return bool(np.isneginf(state.density.log_density(ahead[None])[0]))


def _grows(state: Search) -> bool:
    """Whether a climb went on far above all modes."""
    top = max(peak.log_density for peak in state.found.peaks)
    return state.highest is not None and state.highest[0] > top + 10


def _place(state: Search) -> str:
    """Where the highest unfinished climb is, by the coordinates that went farthest."""
    assert state.highest is not None
    x = state.highest[1]
    names = state.density.target.coordinate_names
    gone = np.abs(x - state.origin.centre) / state.origin.scale
    far = np.argsort(-gone, kind="stable")[:3]
    return ", ".join(f"{names[i]} = {x[i]:.4g}" for i in far[gone[far] >= 0.1 * gone.max()])
