"""Draws against the density along lines: ranks on rays from a mode, and draws that are all but impossible."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from .frames import Constants, nearest

MAX_RANKED = 200  # draws whose rank on their ray is found, at some 128 evaluations of the density each
MAX_SUSPECTS = 20  # coordinates of draws whose tail probability is computed
SUSPICIOUS = 4.5  # conditional standard deviations from the conditional mean; 1 in 150,000 Gaussian draws
REACH = 1e4  # standard deviations to which lines are followed
LINE_POINTS = 256


class Lines(NamedTuple):
    """Ranks on rays, and the draws that the density excludes."""

    rows: np.ndarray  # draws with a rank
    ranks: np.ndarray  # uniform on (0, 1) under H0
    impossible: np.ndarray  # rows of draws with an adjusted p-value of at most 0.01
    pvalue: float  # of the least probable draw, adjusted for n (d + 1) tails


def follow_lines(
    log_density: Callable[[np.ndarray], np.ndarray], x: np.ndarray, constants: Constants
) -> Lines:
    """Conditional probabilities along lines: exact for any density, as no normalising constant is needed."""
    rows = np.unique(np.linspace(0, len(x) - 1, min(MAX_RANKED, len(x))).astype(int))
    heaviest = int(np.argmax(constants.log_weight - 0.5 * np.linalg.slogdet(constants.precision)[1]))
    ranks = ray_ranks(log_density, x[rows], constants.centre[heaviest], constants.precision[heaviest])
    suspects, columns, centre, width = _suspects(x, constants)
    tails = coordinate_tails(log_density, x[suspects], columns, centre, width)
    adjusted = np.minimum(1.0, len(x) * (x.shape[1] + 1) * tails)
    known = np.isfinite(ranks)
    beyond = np.minimum(1.0, len(x) * (x.shape[1] + 1) * (1 - ranks[known]))
    smallest = max(min(adjusted.min(initial=1.0), beyond.min(initial=1.0)), np.finfo(float).tiny)
    impossible = np.concatenate([suspects[adjusted <= 0.01], rows[known][beyond <= 0.01]])
    return Lines(rows[known], ranks[known], np.unique(impossible), float(smallest))


def ray_ranks(
    log_density: Callable[[np.ndarray], np.ndarray], x: np.ndarray, centre: np.ndarray, precision: np.ndarray
) -> np.ndarray:
    """P(R <= r | direction) for the distance r of each draw from `centre`; NaN where the ray has no mass.

    On a ray the density of the radius is proportional to r^(d-1) p: a cubic spline of r^d p in log r is
    integrated. Steps are half a standard deviation of the radius of a Gaussian, at most.
    """
    n, d = x.shape
    away = x - centre
    radius = np.sqrt(np.einsum("ni,ij,nj->n", away, precision, away))
    points = max(LINE_POINTS // 2, int(28 * np.sqrt(2 * d)))
    grid = np.linspace(np.log(1e-2 * np.sqrt(d)), np.log(REACH * np.sqrt(d)), points)
    unit = away / radius.clip(1e-300)[:, None]
    at = centre + np.exp(grid)[:, None] * unit[:, None, :]
    log_p = values(log_density, at.reshape(-1, d)).reshape(n, points) + d * grid
    top = log_p.max(axis=1)
    good = np.flatnonzero(np.isfinite(top) & (radius > 0))
    ranks = np.full(n, np.nan)
    if len(good):
        place = np.clip(np.log(radius[good]), grid[0], grid[-1])
        ranks[good] = _share_below(grid, np.exp(log_p[good] - top[good, None]), place)
    return ranks


def _share_below(grid: np.ndarray, heights: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Integral of the spline through each row of `heights` up to its `place`, as a share of the whole."""
    mass = CubicSpline(grid, heights, axis=1).antiderivative()
    interval = np.clip(np.searchsorted(grid, place) - 1, 0, len(grid) - 2)
    coefficients = mass.c[:, interval, np.arange(len(place))]
    below = np.polyval(coefficients, place - grid[interval])
    return np.clip(below / mass(grid[-1]), 0.0, 1.0)


def _suspects(x: np.ndarray, constants: Constants) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draws and coordinates far out given the other coordinates, with the mode's conditional mean and sd."""
    label = nearest(constants, x)
    pull = np.empty_like(x)
    stiffness = np.diagonal(constants.precision, axis1=1, axis2=2)[label]
    for k in np.unique(label):
        rows = label == k
        pull[rows] = (x[rows] - constants.centre[k]) @ constants.precision[k]
    far = np.abs(pull) / np.sqrt(stiffness)
    flat = np.flatnonzero(far.ravel() > SUSPICIOUS)
    flat = flat[np.argsort(-far.ravel()[flat], kind="stable")[:MAX_SUSPECTS]]
    rows, columns = np.unravel_index(flat, far.shape)
    centre = x[rows, columns] - pull[rows, columns] / stiffness[rows, columns]
    return rows, columns, centre, stiffness[rows, columns] ** -0.5


def coordinate_tails(
    log_density: Callable[[np.ndarray], np.ndarray],
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
    m, d = x.shape
    offset = np.sinh(np.linspace(-np.arcsinh(REACH), np.arcsinh(REACH), LINE_POINTS))
    own = x[np.arange(m), columns]
    grid = np.sort(np.column_stack([centre[:, None] + width[:, None] * offset, own]), axis=1)
    points = np.repeat(x, LINE_POINTS + 1, axis=0)
    points[np.arange(len(points)), np.repeat(columns, LINE_POINTS + 1)] = grid.ravel()
    log_p = values(log_density, points).reshape(grid.shape)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    area = 0.5 * (p[:, 1:] + p[:, :-1]) * np.diff(grid, axis=1)
    below = grid[:, 1:] <= own[:, None]
    lower = np.sum(area * below, axis=1)
    upper = np.sum(area * ~below, axis=1)
    return 2 * np.minimum(lower, upper) / (lower + upper)


def values(log_density: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """log p at points that may lie anywhere: what is not finite counts as probability zero."""
    with np.errstate(all="ignore"):
        found = np.asarray(log_density(x), dtype=float)
    return np.where(np.isfinite(found), found, -np.inf)
