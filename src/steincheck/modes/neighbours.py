"""Too many modes to list, perhaps a lattice: the neighbours of the heaviest mode come first."""

from __future__ import annotations

import numpy as np

from .climb import squared_lengths, starts_at
from .rounds import Search, climb_and_absorb


def neighbours_first(state: Search, order: list[int]) -> list[int]:
    """Modes in this order, but the first one and those nearest to it before the others.

    Only where most modes have the Hessian of the first, as on a lattice: its steps can then be read off the
    list. A start part of the way to another mode, one standard deviation aside, is in the basin of a mode
    between the two; from many of them the nearest neighbours are found.
    """
    found = state.found
    base = found.peaks[order[0]]
    shapes = [base.root.T @ found.peaks[k].hessian @ base.root for k in order[: found.max_modes]]
    gaps = [np.abs(shape - np.eye(found.dim)).max() for shape in shapes]
    if np.median(gaps) > 0.1:
        return order
    for _ in range(4):
        others = np.array([found.peaks[k].x for k in found.heavy()])
        ways = others[state.rng.integers(len(others), size=256)] - base.x
        share = state.rng.uniform(0.2, 0.45, size=(256, 1))
        aside = state.rng.standard_normal(ways.shape) @ base.root.T
        climb_and_absorb(state, starts_at(base.x + share * ways + aside, base.metric))
    heavy = np.array(found.heavy())
    length = squared_lengths(np.array([found.peaks[k].x - base.x for k in heavy]), base.hessian)
    nearest = heavy[np.argsort(length, kind="stable")]
    return list(dict.fromkeys([order[0], *nearest.tolist(), *order]))
