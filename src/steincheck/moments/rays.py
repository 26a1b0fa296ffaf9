"""Draws along lines: their ranks on rays from a mode, and draws of negligible probability; by quadrature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..result import Modes
from ..stein.quadratic import laplace_responsibilities
from ..target import Batch, log_density_anywhere

NEGLIGIBLE = 1e-6  # bounds the probability that right draws hold any that is called impossible


def rank_sums(
    log_density: Batch,
    x: np.ndarray,
    weight: np.ndarray,
    centre: np.ndarray,
    precision: np.ndarray,
    label: np.ndarray,
) -> np.ndarray:
    """Ranks less 1/2, summed over the blocks `label` (n,): (q, 1), or (q, 0) without any.

    25 draws, evenly spaced in the sum of their weights, get a rank, uniform on (0, 1) under H0. The others
    count as average ones, and deviations from the average as n / 25 of them: mean and standard error are
    those of the 25 ranks. (25 ranks times uneven weights would be too few for the bootstrap.)
    """
    before = np.cumsum(weight) - weight
    places = np.linspace(0, before[-1], min(25, len(x)))
    rows = np.unique(np.searchsorted(before, places, side="right") - 1)
    middle = ray_ranks(log_density, x[rows], centre, precision) - 0.5
    sums = np.bincount(label) * middle.mean()
    if np.isnan(middle).any():
        return np.empty((len(sums), 0))
    np.add.at(sums, label[rows], (middle - middle.mean()) * len(label) / len(rows))
    return sums[:, None]


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

    def on_rays(log_r: np.ndarray) -> np.ndarray:
        """log(r^d p) at the distances exp(log_r) (n, points) along the rays."""
        points = centre + np.exp(log_r)[..., None] * (away / radius[:, None])[:, None, :]
        return log_density_anywhere(log_density, points.reshape(-1, d)).reshape(log_r.shape) + d * log_r

    coarse = _coarse_grids(d, np.log(radius))
    heights = on_rays(coarse)
    low, high = _ends_of_mass(coarse, heights)
    step = np.linspace(0, 1, 48)  # with the 29 of the coarse grid they give ranks to .0006
    log_p = on_rays(low[:, None] + (high - low)[:, None] * step)
    place = (np.log(radius) - low) / (high - low)
    top = log_p.max(axis=1)
    cell = np.clip(place * 47, 0, 46).astype(int)
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
    return np.clip(np.diagonal(mass(place)) / mass(grid[-1]), 0.0, 1.0)


def impossible_draws(
    log_density: Batch, x: np.ndarray, log_p: np.ndarray, modes: Modes, *, max_lines: int = 2
) -> tuple[int, ...]:
    """Rows of draws whose coordinate, given the others, has a tail probability of at most 1e-6 / (n d).

    Along a line the conditional density is known without its constant. Under H0 each of the n d two-sided
    tail probabilities is uniform, whether or not draws depend on each other: the probability that right draws
    hold any impossible one is at most 1e-6. The modes tell only where to look. `log_p` (n,) is the log
    density at the draws `x` (n, d).

    Ten draws farthest from their conditional mean and the ten of lowest density cost one evaluation each, and
    at most `max_lines` lines cost 97 each: there may be more such draws than are returned.
    """
    found = _suspects(x, log_p, modes)
    middle = x[found.row]
    middle[np.arange(len(middle)), found.column] = found.mean
    drop = log_density_anywhere(log_density, middle) - log_p[found.row]
    # a Gaussian's tail is up to e^2 thinner than its height says, at the distances that matter
    deep = np.flatnonzero(drop > np.log(x.size / NEGLIGIBLE) - 2)
    deep = deep[np.argsort(-drop[deep], kind="stable")]
    firsts = np.sort(np.unique(found.row[deep], return_index=True)[1])
    followed = Suspects(*(part[deep[firsts[:max_lines]]] for part in found))
    adjusted = x.size * conditional_tails(log_density, x[followed.row], followed)
    rows = followed.row[adjusted <= NEGLIGIBLE]
    return tuple(np.sort(rows).tolist())


class Suspects(NamedTuple):
    """Draws and coordinates, with the mean and the standard deviation given the other coordinates."""

    row: np.ndarray
    column: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


def _suspects(x: np.ndarray, log_p: np.ndarray, modes: Modes) -> Suspects:
    """Where to look: ten coordinates farthest from their conditional mean, and those of ten lowest draws."""
    precision = np.linalg.inv(modes.covariances)
    sd = np.diagonal(precision, axis1=1, axis2=2) ** -0.5
    owner = laplace_responsibilities(x, modes).argmax(axis=0)
    distance = np.empty_like(x)
    for k in np.unique(owner):
        rows = owner == k
        distance[rows] = (x[rows] - modes.locations[k]) @ (precision[k] * sd[k])
    size = np.abs(distance)
    last = min(10, len(x)) - 1
    far = np.unravel_index(np.argpartition(-size, last, axis=None)[: last + 1], size.shape)
    low = np.argpartition(log_p, last)[: last + 1]
    row = np.concatenate([far[0], low])
    column = np.concatenate([far[1], size[low].argmax(axis=1)])
    width = sd[owner[row], column]
    return Suspects(row, column, x[row, column] - distance[row, column] * width, width)


@np.errstate(under="ignore")  # whatever the user has set
def conditional_tails(log_density: Batch, x: np.ndarray, suspects: Suspects) -> np.ndarray:
    """Two-sided tail probability of one coordinate of each row of `x` given its other coordinates.

    By the trapezoidal rule on a grid about the mean in units of the standard deviation, with steps that grow
    in proportion to the distance; the rule errs on the large side in tails.
    """
    if not len(x):
        return np.empty(0)
    at_draw = x[np.arange(len(x)), suspects.column]
    far = np.abs(at_draw - suspects.mean) / suspects.sd
    ends = np.arcsinh(np.maximum(1e4, 100 * far))[:, None]
    offset = np.sinh(ends * np.linspace(-1, 1, 96))
    grid = suspects.mean[:, None] + suspects.sd[:, None] * offset
    grid = np.sort(np.column_stack([grid, at_draw]), axis=1)
    points = np.repeat(x, grid.shape[1], axis=0)
    points[np.arange(len(points)), np.repeat(suspects.column, grid.shape[1])] = grid.ravel()
    log_p = log_density_anywhere(log_density, points).reshape(grid.shape)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    area = 0.5 * (p[:, 1:] + p[:, :-1]) * np.diff(grid, axis=1)
    below = grid[:, 1:] <= at_draw[:, None]
    lower = np.sum(area * below, axis=1)
    upper = np.sum(area * ~below, axis=1)
    return 2 * np.minimum(lower, upper) / (lower + upper)
