"""The support of a density as the draws see it: impossible draws, hard edges."""

from __future__ import annotations

import numpy as np

from .evaluation import read_only
from .record import Target


def support_warnings(target: Target, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator) -> list[str]:
    """What a look at the log density of the draws says against Stein tests: impossible draws, hard edges."""
    found = []
    depth = np.median(log_p) - log_p
    limit = 50 * (np.quantile(depth, 0.95) + x.shape[1])
    rows = np.flatnonzero(depth > limit)
    if len(rows):
        found.append(
            f"{len(rows)} of {len(x)} draws are all but impossible: their log density is more than "
            f"{limit:.0f} below the median, rows {rows[:10].tolist()}; a few such draws barely affect the "
            "p-value"
        )
    still = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if len(still):
        found.append(
            f"coordinate {', '.join(map(str, still[:5]))} is the same in all draws: no density produces "
            "this, whatever the p-value"
        )
    edge = hard_edge(target, x, log_p, rng)
    if edge is not None:
        found.append(
            f"the density ends abruptly near x = {np.array2string(edge, precision=4, threshold=8)}: Stein "
            "tests need one that vanishes at its edge, and reject true draws otherwise; transform the "
            "parameters to the whole space"
        )
    return found


def hard_edge(
    target: Target, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """A point at which the density drops to 0 from a height that matters, or None.

    Up to 1000 draws are moved forth and back, by 0.3 and by 0.9 standard deviations. Where the density is 0
    there, the edge between is bracketed; it is hard if log p just inside is not far below its median: Stein's
    identity is off by the density at the edge, which shows against noise of 1/sqrt(n).
    """
    rows = np.arange(0, len(x), max(1, len(x) // 1000))
    moves = x.std(axis=0) * rng.standard_normal((len(rows), x.shape[1]))
    near = np.concatenate([x[rows] + length * moves for length in (0.3, -0.3, 0.9, -0.9)])
    gone = ~np.isfinite(_quiet_log_density(target, near))
    inside = np.tile(x[rows], (4, 1))[gone]
    outside = near[gone]
    height = np.tile(log_p[rows], 4)[gone]
    for _ in range(40 if len(inside) else 0):
        middle = 0.5 * (inside + outside)
        value = _quiet_log_density(target, middle)
        finite = np.isfinite(value)
        inside = np.where(finite[:, None], middle, inside)
        outside = np.where(finite[:, None], outside, middle)
        height = np.where(finite, value, height)
    hard = height > np.median(log_p) - 5 - 0.5 * np.log(len(x))
    return inside[np.argmax(height)] if hard.any() else None


def _quiet_log_density(target: Target, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(target.log_density(read_only(x)), dtype=float)
