"""Ranks of draws on rays from a mode: the conditional distribution of the radius, by quadrature."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..target import Batch, log_density_anywhere

N_FINE = 48  # points of the quadrature; with it 77 evaluations per draw give ranks to .0006 (docs)


def rank_sums(
    log_density: Batch, x: np.ndarray, centre: np.ndarray, precision: np.ndarray, label: np.ndarray
) -> np.ndarray:
    """Ranks less 1/2 and their squares less 1/12, summed over the blocks `label` (n,); (q, 0) without any.

    25 evenly spaced draws get a rank, uniform on (0, 1) under H0. The others count as average ones, and
    deviations from the average as n / 25 of them: mean and standard error are those of the 25 ranks.
    """
    rows = np.unique(np.linspace(0, len(x) - 1, min(25, len(x))).astype(int))
    middle = ray_ranks(log_density, x[rows], centre, precision) - 0.5
    lengths = np.bincount(label)
    if np.isnan(middle).any():
        return np.empty((len(lengths), 0))
    values = np.column_stack([middle, middle**2 - 1 / 12])
    sums = np.outer(lengths, values.mean(axis=0))
    np.add.at(sums, label[rows], (values - values.mean(axis=0)) * len(label) / len(rows))
    return sums


def ray_ranks(log_density: Batch, x: np.ndarray, centre: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """P(R <= r | direction) for the distance r of each draw from `centre`; all NaN where steps are too long.

    On a ray the density of the radius is proportional to r^(d-1) p. A coarse grid in log r, with points about
    the draw, finds where the mass is; a cubic spline of r^d p on a fine grid there is integrated. Steps are
    too long where log p at a draw exceeds what the points beside it say. Which draws these are depends on
    their ranks, so that no rank is used if there are any.
    """
    n, d = x.shape
    away = x - centre
    radius = np.sqrt(np.einsum("ni,ij,nj->n", away, precision, away)).clip(1e-300)
    on_rays = partial(_on_rays, log_density, centre, away / radius[:, None])
    coarse = _coarse_grids(d, np.log(radius))
    heights = on_rays(coarse)
    low, high = _ends_of_mass(coarse, heights)
    step = np.linspace(0, 1, N_FINE)
    log_p = on_rays(low[:, None] + (high - low)[:, None] * step)
    place = (np.log(radius) - low) / (high - low)
    top = log_p.max(axis=1)
    cell = np.clip(place * (N_FINE - 1), 0, N_FINE - 2).astype(int)
    beside = np.maximum(log_p[np.arange(n), cell], log_p[np.arange(n), cell + 1])
    if not np.all(np.isfinite(top) & (heights[:, 0] <= beside + 2.0)):
        return np.full(n, np.nan)
    return _share_below(step, np.exp(log_p - top[:, None]), place.clip(0, 1))


def _coarse_grids(d: int, log_r: np.ndarray) -> np.ndarray:
    """Logarithms of radii: the draw's own, four near it, and from 1/1000 to 1000 typical ones.

    Typical are those of a Gaussian and of the draws.
    """
    typical = [0.5 * np.log(d), float(np.median(log_r))]
    common = np.linspace(min(typical) - np.log(1000), max(typical) + np.log(1000), 24)
    near = log_r[:, None] + np.array([0.0, -0.2, -0.02, 0.02, 0.2])
    return np.column_stack([near, np.tile(common, (len(log_r), 1))])


def _on_rays(log_density: Batch, centre: np.ndarray, unit: np.ndarray, log_r: np.ndarray) -> np.ndarray:
    """log(r^d p) at the distances exp(log_r) (n, points) along the rows of `unit`."""
    points = centre + np.exp(log_r)[..., None] * unit[:, None, :]
    d = len(centre)
    return log_density_anywhere(log_density, points.reshape(-1, d)).reshape(log_r.shape) + d * log_r


def _ends_of_mass(grids: np.ndarray, log_p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the part of each grid outside which the density is below e^-16 of its top."""
    order = np.argsort(grids, axis=1)
    grids = np.take_along_axis(grids, order, axis=1)
    tall = np.take_along_axis(log_p > log_p.max(axis=1, keepdims=True) - 16, order, axis=1)
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
