"""Symmetries of a density: signed permutations of the coordinates, found and verified."""

from __future__ import annotations

import numpy as np

from ..result import SignedPermutation
from ..target import Batch

MAX_SYMMETRIES = 64  # kept, at most
EQUAL_SHAPE = 0.01  # standard deviations, and relative differences of Hessians, left by the search for a mode


def probes(x: np.ndarray, root: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points 3, 9, 27 and 81 standard deviations from a mode at which a symmetry is verified, (4, d)."""
    z = rng.standard_normal((4, len(x))) / np.sqrt(len(x))
    return x + np.array([[3.0], [9.0], [27.0], [81.0]]) * (z @ root.T)


def verified_maps(
    log_density: Batch, maps: list[SignedPermutation], points: np.ndarray
) -> list[SignedPermutation]:
    """Maps under which log p is the same at all points, looked at one point after the other."""
    value = log_density(points)
    for point, own in zip(points[np.isfinite(value)], value[np.isfinite(value)], strict=True):
        if not maps:
            break
        image = log_density(np.array([g(point) for g in maps]))
        with np.errstate(invalid="ignore"):
            same = np.abs(image - own) < 1e-8 * (1 + abs(own))
        maps = [g for g, holds in zip(maps, same, strict=True) if holds]
    return maps if np.isfinite(value).sum() > 1 else []


def matching_map(x: np.ndarray, hessians: np.ndarray, width: np.ndarray) -> SignedPermutation | None:
    """The signed permutation that carries the first of two modes `x` (2, d) and its Hessian upon the second.

    None if there is none. `width` (d,) are the standard deviations of the first mode.
    """
    from scipy.optimize import linear_sum_assignment

    scale = np.sqrt(np.mean(width**2))
    sizes = np.abs(x)
    if np.abs(np.sort(sizes[1]) - np.sort(sizes[0])).max() > EQUAL_SHAPE * scale:
        return None
    rows = np.sort(np.abs(hessians), axis=2)
    unit = rows[0].max()
    cost = [
        np.abs(size - sizes[0]) / scale + np.abs(row - rows[0]).max(axis=1) / unit
        for size, row in zip(sizes[1], rows[1], strict=True)
    ]
    moving = 0.01 * EQUAL_SHAPE * (1 - np.eye(len(width)))  # coordinates that may stay do
    order = linear_sum_assignment(np.array(cost) + moving)[1]
    moved = x[0, order]
    sign = np.where((moved * x[1] < 0) & (np.abs(moved) > EQUAL_SHAPE * scale), -1, 1)
    g = SignedPermutation(tuple(order.tolist()), tuple(sign.tolist()))
    if np.abs(g(x[0]) - x[1]).max() > EQUAL_SHAPE * scale:
        return None
    gap = np.abs(g.conjugate(hessians[0]) - hessians[1]).max()
    return g if gap <= EQUAL_SHAPE * np.abs(hessians[1]).max() else None
