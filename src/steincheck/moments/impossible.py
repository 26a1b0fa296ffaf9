"""Draws to which the density assigns negligible probability: a fact about single draws, not a test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..result import Modes
from ..stein.quadratic import laplace_responsibilities
from ..target import Batch, log_density_anywhere

NEGLIGIBLE = 1e-6  # bounds the probability that right draws hold any that is called impossible


class ImpossibleDraws(NamedTuple):
    """Draws far out in the tail of a coordinate given the others."""

    rows: tuple[int, ...]  #: at most as many as lines were followed; there may be more such draws
    pvalue: float  #: of the least probable one, adjusted for all n d conditional tails; 1 if no line was


def impossible_draws(
    log_density: Batch, x: np.ndarray, log_p: np.ndarray, modes: Modes, *, max_lines: int = 2
) -> ImpossibleDraws:
    """Draws whose coordinate, given the others, has a tail probability of at most 1e-6 / (n d).

    Along a line the conditional density is known without its constant. Under H0 each of the n d two-sided
    tail probabilities is uniform, whether or not draws depend on each other: the probability that right draws
    hold any impossible one is at most 1e-6. The modes tell only where to look. `log_p` (n,) is the log
    density at the draws `x` (n, d).

    Ten draws farthest from their conditional mean and the ten of lowest density cost one evaluation each, and
    at most `max_lines` lines cost 97 each.
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
    smallest = np.clip(adjusted.min(initial=1.0), np.finfo(float).tiny, 1.0)
    return ImpossibleDraws(tuple(np.sort(rows).tolist()), float(smallest))


class Suspects(NamedTuple):
    """Draws and coordinates, with the mean and the standard deviation given the other coordinates."""

    row: np.ndarray
    column: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


def _suspects(x: np.ndarray, log_p: np.ndarray, modes: Modes, count: int = 10) -> Suspects:
    """Where to look: coordinates farthest from their conditional mean, and those of the lowest draws."""
    precision = np.linalg.inv(modes.covariances)
    sd = np.diagonal(precision, axis1=1, axis2=2) ** -0.5
    owner = laplace_responsibilities(x, modes).argmax(axis=0)
    distance = np.empty_like(x)
    for k in np.unique(owner):
        rows = owner == k
        distance[rows] = (x[rows] - modes.locations[k]) @ (precision[k] * sd[k])
    size = np.abs(distance)
    last = min(count, len(x)) - 1
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
