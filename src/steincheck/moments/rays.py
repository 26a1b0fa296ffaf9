"""Draws against the density along lines: ranks on rays from a mode, and draws that are all but impossible."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ..target import Batch, log_density_anywhere
from .coordinates import Constants, most_responsible

# conditional standard deviations from the conditional mean; 1 in 150,000 Gaussian draws
MIN_SUSPECT_DISTANCE = 4.5
MAX_DISTANCE = 1e4  # standard deviations to which lines are followed
COARSE_STEP = 0.2  # of the logarithm of a radius
NEAR_STEPS = np.geomspace(1e-9, COARSE_STEP, 30)  # of the same, about each draw: a ridge may be very thin
RAY_POINTS = 192
ROWS_AT_ONCE = 4096  # stay in the cache


class Lines(NamedTuple):
    """Ranks on rays, and the draws that the density excludes."""

    rows: np.ndarray  # draws with a rank; none if there are several modes, which rays would pass by
    ranks: np.ndarray  # uniform on (0, 1) under H0
    impossible: np.ndarray  # rows of draws with an adjusted p-value of at most 0.01
    pvalue: float  # of the least probable draw, adjusted for n d tails


def follow_lines(log_density: Batch, x: np.ndarray, constants: Constants) -> Lines:
    """Conditional probabilities along lines: exact for any density, as no normalising constant is needed."""
    rows = np.empty(0, dtype=int)
    ranks = np.empty(0)
    if len(constants.centre) == 1:
        # 100 draws, at some 350 evaluations of the density each
        rows = np.unique(np.linspace(0, len(x) - 1, min(100, len(x))).astype(int))
        ranks = ray_ranks(log_density, x[rows], constants.centre[0], constants.precision[0])
    impossible, smallest = impossible_draws(log_density, x, constants)
    known = np.isfinite(ranks)
    return Lines(rows[known], ranks[known], impossible, smallest)


def impossible_draws(log_density: Batch, x: np.ndarray, constants: Constants) -> tuple[np.ndarray, float]:
    """Rows of draws that are all but impossible, and the smallest p-value, adjusted for all n d tails.

    The probabilities are exact whatever the modes, which only tell where to look.
    """
    suspects, columns, centre, width = _suspects(x, constants)
    tails = coordinate_tails(log_density, x[suspects], columns, centre, width)
    adjusted = np.minimum(1.0, x.size * tails)
    smallest = max(adjusted.min(initial=1.0), np.finfo(float).tiny)
    return np.unique(suspects[adjusted <= 0.01]), float(smallest)


def ray_ranks(log_density: Batch, x: np.ndarray, centre: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """P(R <= r | direction) for the distance r of each draw from `centre`; NaN where steps are too long.

    On a ray the density of the radius is proportional to r^(d-1) p. A coarse grid in log r, dense about the
    draw, finds where the mass is; a cubic spline of r^d p on a fine grid there is integrated. Which ranks
    are NaN depends on them, so that all are NaN if more than a few were.
    """
    n, d = x.shape
    away = x - centre
    radius = np.sqrt(np.einsum("ni,ij,nj->n", away, precision, away)).clip(1e-300)
    on_rays = partial(_on_rays, log_density, centre, away / radius[:, None])
    coarse = _coarse_grids(d, np.log(radius))
    low, high = _with_mass(coarse, on_rays(coarse))
    log_p = on_rays(low[:, None] + (high - low)[:, None] * np.linspace(0, 1, RAY_POINTS))
    place = (np.log(radius) - low) / (high - low)
    at_draw = log_density_anywhere(log_density, x) + d * np.log(radius)
    top = log_p.max(axis=1)
    # log p at a draw may exceed what the points next to it say by 2 nats
    good = np.flatnonzero(np.isfinite(top) & ~(at_draw > _beside(log_p, place) + 2.0))
    ranks = np.full(n, np.nan)
    if len(good) and len(good) >= 0.97 * n:  # which are missing depends on the ranks
        heights = np.exp(log_p[good] - top[good, None])
        ranks[good] = _share_below(np.linspace(0, 1, RAY_POINTS), heights, place[good].clip(0, 1))
    return ranks


def _coarse_grids(d: int, log_r: np.ndarray) -> np.ndarray:
    """Logarithms of radii per draw, from far inside a Gaussian to far outside it and all draws."""
    first = np.log(1e-4 * np.sqrt(d))
    if log_r.min() < first:  # a mode far wider than the draws' spread: the mass may be further inside still
        first = log_r.min() - np.log(100)
    last = max(np.log(MAX_DISTANCE * np.sqrt(d)), np.log(100) + log_r.max())
    common = np.arange(first, last, COARSE_STEP)
    near = np.concatenate([-NEAR_STEPS, [0.0], NEAR_STEPS])
    grids = [np.broadcast_to(common, (len(log_r), len(common))), log_r[:, None] + near]
    return np.sort(np.concatenate(grids, axis=1), axis=1)


def _on_rays(log_density: Batch, centre: np.ndarray, unit: np.ndarray, log_r: np.ndarray) -> np.ndarray:
    """log(r^d p) at the distances exp(log_r) (n, points) along the rows of `unit`."""
    points = centre + np.exp(log_r)[..., None] * unit[:, None, :]
    d = len(centre)
    return log_density_anywhere(log_density, points.reshape(-1, d)).reshape(log_r.shape) + d * log_r


def _beside(log_p: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The larger of the two values next to a place in [0, 1] on a grid of `RAY_POINTS`."""
    cell = np.clip(place * (RAY_POINTS - 1), 0, RAY_POINTS - 2).astype(int)
    rows = np.arange(len(log_p))
    return np.maximum(log_p[rows, cell], log_p[rows, cell + 1])


def _with_mass(grids: np.ndarray, log_p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the part of each grid outside which the density is below e^-30 of its top."""
    tall = log_p > log_p.max(axis=1, keepdims=True) - 30
    end = grids.shape[1] - 1
    first = np.maximum(tall.argmax(axis=1) - 1, 0)
    last = np.minimum(end - tall[:, ::-1].argmax(axis=1) + 1, end)
    rows = np.arange(len(grids))
    return grids[rows, first], grids[rows, last]


def _share_below(grid: np.ndarray, heights: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Integral of the spline through each row of `heights` up to its `place`, as a share of the whole."""
    from scipy.interpolate import CubicSpline  # slow to import

    mass = CubicSpline(grid, heights, axis=1).antiderivative()
    interval = np.clip(np.searchsorted(grid, place) - 1, 0, len(grid) - 2)
    coefficients = mass.c[:, interval, np.arange(len(place))]
    below = np.polyval(coefficients, place - grid[interval])
    return np.clip(below / mass(grid[-1]), 0.0, 1.0)


def _suspects(x: np.ndarray, constants: Constants) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draws and coordinates far out given the other coordinates, with the mode's conditional mean and sd."""
    found = [np.empty((0, 4))]
    for start in range(0, len(x), ROWS_AT_ONCE):
        some = x[start : start + ROWS_AT_ONCE]
        label = most_responsible(constants, some)
        for k in np.unique(label):
            rows = np.flatnonzero(label == k)
            near = some if len(rows) == len(some) else some[rows]
            far = _far_from(near, constants.centre[k], constants.precision[k])
            far[:, 0] = start + rows[far[:, 0].astype(int)]
            found.append(far)
    suspects = np.concatenate(found)
    row = suspects[:, 0].astype(int)
    column = suspects[:, 1].astype(int)
    distance = np.abs(x[row, column] - suspects[:, 2]) / suspects[:, 3]
    farthest = np.argsort(-distance, kind="stable")[:20]
    return row[farthest], column[farthest], suspects[farthest, 2], suspects[farthest, 3]


def _far_from(x: np.ndarray, centre: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Row, column, conditional mean and conditional sd where a Gaussian finds a coordinate suspicious."""
    width = np.diag(precision) ** -0.5
    distance = (x - centre) @ (precision * width)
    if distance.max() <= MIN_SUSPECT_DISTANCE and distance.min() >= -MIN_SUSPECT_DISTANCE:
        return np.empty((0, 4))
    i, j = np.nonzero(np.abs(distance) > MIN_SUSPECT_DISTANCE)
    return np.column_stack([i, j, x[i, j] - distance[i, j] * width[j], width[j]])


@np.errstate(under="ignore")  # whatever the user has set
def coordinate_tails(
    log_density: Batch,
    x: np.ndarray,
    columns: np.ndarray,
    centre: np.ndarray,
    width: np.ndarray,
) -> np.ndarray:
    """Two-sided tail probability of coordinate `columns[i]` of draw i given its other coordinates.

    By the trapezoidal rule on a grid about `centre` in units of `width`; it errs on the large side in tails.
    """
    if not len(x):
        return np.empty(0)
    m = len(x)
    at_draw = x[np.arange(m), columns]
    far = np.abs(at_draw - centre) / width
    end = np.arcsinh(max(MAX_DISTANCE, 100 * far.max()))
    # steps of .08 widths at the centre, of 8 % of the distance from it far out
    offset = np.sinh(np.arange(-end, end, 0.08))
    grid = np.sort(np.column_stack([centre[:, None] + width[:, None] * offset, at_draw]), axis=1)
    points = np.repeat(x, grid.shape[1], axis=0)
    points[np.arange(len(points)), np.repeat(columns, grid.shape[1])] = grid.ravel()
    log_p = log_density_anywhere(log_density, points).reshape(grid.shape)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    area = 0.5 * (p[:, 1:] + p[:, :-1]) * np.diff(grid, axis=1)
    below = grid[:, 1:] <= at_draw[:, None]
    lower = np.sum(area * below, axis=1)
    upper = np.sum(area * ~below, axis=1)
    return 2 * np.minimum(lower, upper) / (lower + upper)
