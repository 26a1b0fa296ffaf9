"""Densities of one or two coordinates on grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..target import ParameterScale, Target, log_density_at


class DensityGrid(NamedTuple):
    """A density of parameters on their own scales, on a grid that covers draws and modes."""

    lines: list[np.ndarray]  # the values of the parameters along each axis
    height: np.ndarray  # (I,) or (I, J), with integral 1
    mass: np.ndarray  # (I,) or (I, J) of every point, with sum 1

    def levels(self, shares: Sequence[float]) -> list[float]:
        """Heights above which these shares of the mass lie."""
        order = np.argsort(-self.height, axis=None)
        enclosed = np.cumsum(self.mass.ravel()[order])
        ranks = np.minimum(np.searchsorted(enclosed, shares), len(order) - 1)
        return [float(value) for value in self.height.ravel()[order][ranks]]


def density_grid(
    target: Target,
    scales: Sequence[ParameterScale],
    points: np.ndarray,
    centres: np.ndarray,
    widths: np.ndarray | None,
) -> DensityGrid:
    """The density of one or two parameters on a grid that covers the points and the modes.

    Modes are at `centres` (M, d) with standard deviations `widths` (M, d), if these are known: the grid
    reaches 4 of them beyond, and is fine there. Without them it reaches beyond the points by their range.
    """
    reach = (np.ptp(points, axis=0) if len(points) else 0) + 1.0 if widths is None else 4 * widths
    ends = np.concatenate([points, centres - reach, centres + reach])
    count = 2001 if target.dim == 1 else 200
    lines = []
    for k in range(target.dim):
        parts = [np.linspace(ends[:, k].min(), ends[:, k].max(), count)]
        if widths is not None:
            near = np.linspace(-4, 4, 25)
            parts += [centres[m, k] + widths[m, k] * near for m in range(min(len(centres), 8))]
        lines.append(np.unique(np.concatenate(parts)))
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    log_p = log_density_at(target, grid.reshape(-1, target.dim), proposal=True).reshape(grid.shape[:-1])
    mass = np.exp(log_p - log_p.max())
    slope = np.zeros_like(mass)
    for k, line in enumerate(lines):
        along = [-1 if axis == k else 1 for axis in range(target.dim)]
        mass = mass * np.gradient(line).reshape(along)
        slope = slope + scales[k].log_slope(line).reshape(along)
    total = np.log(mass.sum()) + log_p.max()
    parameters = [scales[k].values(line) for k, line in enumerate(lines)]
    return DensityGrid(parameters, np.exp(log_p - slope - total), mass / mass.sum())
