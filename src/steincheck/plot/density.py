"""Densities of one or two coordinates, normalised on grids that cover them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..target import Target, log_density_at
from ..target.parameter_scale import ParameterScale

MAX_DOUBLINGS = 14  # of the window
MAX_MASS_IN_STRIP = 0.001  # beyond, the window is extended on that side


class Grid(NamedTuple):
    """A density of two coordinates on a grid."""

    lines: list[np.ndarray]  # the axes, in the coordinates of the target
    log_p: np.ndarray  # (I, J)
    log_height: np.ndarray  # (I, J) of the parameters on their own scales

    def mass(self, reference: float) -> np.ndarray:
        """Of every point, relative to exp(reference)."""
        area = np.gradient(self.lines[0])[:, None] * np.gradient(self.lines[1])[None]
        return np.asarray(np.exp(self.log_p - reference) * area)

    def border(self) -> np.ndarray:
        """Heights along the border, as logarithms."""
        sides = (self.log_height[0], self.log_height[-1], self.log_height[:, 0], self.log_height[:, -1])
        return np.concatenate(sides)


class Contours(NamedTuple):
    """Lines that enclose given shares of the mass of a density."""

    lines: list[np.ndarray]  # the axes of the grid, in the coordinates of the target
    height: np.ndarray  # (I, J) of the density of the parameters, relative to its maximum
    levels: list[float]  # heights that enclose 86 % and 39 %
    complete: bool  # whether the grid covers the density; if not, the shares are of what it covers


def contours(
    target: Target,
    scales: Sequence[ParameterScale],
    window: np.ndarray,
    centres: np.ndarray,
    widths: np.ndarray,
) -> Contours | None:
    """Where 39 % and 86 % of a density of two coordinates are; None if the grid does not resolve it.

    The `window` (2, 2), low and high, is extended until hardly any mass is cut off. The lines are found on a
    finer grid over the part of it that they enclose. Modes are at `centres` (M, 2) with `widths` (M, 2).
    """
    wide, complete = _covering(target, scales, window, centres, widths)
    reference = float(wide.log_p.max())
    mass = wide.mass(reference)
    inside = wide.log_height >= _levels(wide.log_height, mass, mass.sum())[0]
    part = np.stack([_extent(wide.lines[k], np.any(inside, axis=1 - k)) for k in range(2)], axis=1)
    for _ in range(5):  # while lines reach the border of the part on which they are drawn
        lines = [_line(part[:, k], 160, centres[:, k], widths[:, k]) for k in range(2)]
        fine = _evaluated(target, scales, lines)
        fine_mass = fine.mass(reference)
        total = fine_mass.sum() + mass[~_within(wide.lines, part)].sum()
        low, high = _levels(fine.log_height, fine_mass, total)
        if not (fine.border() >= low).any():
            break
        extent = part[1] - part[0]
        part += 0.15 * extent * np.array([[-1.0], [1.0]])
    top = float(fine.log_height.max())
    if not low < high < top:
        return None
    levels = [float(np.exp(low - top)), float(np.exp(high - top))]
    return Contours(fine.lines, np.exp(fine.log_height - top), levels, complete)


def _within(lines: Sequence[np.ndarray], part: np.ndarray) -> np.ndarray:
    """Which points of a grid are in a part of it, low and high."""
    first, second = ((line >= low) & (line <= high) for line, (low, high) in zip(lines, part.T, strict=True))
    return np.logical_and.outer(first, second)


def _covering(
    target: Target,
    scales: Sequence[ParameterScale],
    window: np.ndarray,
    centres: np.ndarray,
    widths: np.ndarray,
) -> tuple[Grid, bool]:
    """A grid over the window, extended where mass is cut off; and whether that succeeded."""
    window = window.copy()
    for _ in range(MAX_DOUBLINGS):
        lines = [_line(window[:, k], 90, centres[:, k], widths[:, k]) for k in range(2)]
        grid = _evaluated(target, scales, lines)
        mass = grid.mass(float(grid.log_p.max()))
        cut = np.stack([_in_strips(lines[k], mass.sum(axis=1 - k)) for k in range(2)], axis=1)
        extended = _extended(window, cut)
        if extended is None:
            return grid, True
        window = extended
    return grid, False


def _extended(window: np.ndarray, cut: np.ndarray) -> np.ndarray | None:
    """The window, low and high, doubled at the sides with too much mass; None if there are none."""
    if not (cut > MAX_MASS_IN_STRIP).any():
        return None
    extent = window[1] - window[0]
    step = np.where(cut > MAX_MASS_IN_STRIP, extent, 0.0)
    return np.stack([window[0] - step[0], window[1] + step[1]])


def _in_strips(line: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Shares of the mass in the strips at both ends of an axis."""
    extent = line[-1] - line[0]
    ends = (line < line[0] + 0.1 * extent, line > line[-1] - 0.1 * extent)
    return np.array([mass[end].sum() for end in ends]) / mass.sum()


def _line(window: np.ndarray, count: int, centres: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Points from low to high, finer near modes that are narrow for their distance."""
    low, high = window
    points = [np.linspace(low, high, count)]
    step = (high - low) / count
    narrow = np.flatnonzero(widths < 3 * step)[:8]
    points += [centres[k] + widths[k] * np.linspace(-4, 4, 25) for k in narrow]
    line = np.unique(np.concatenate(points))
    return line[(line >= low) & (line <= high)]


def _evaluated(target: Target, scales: Sequence[ParameterScale], lines: list[np.ndarray]) -> Grid:
    points = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    log_p = log_density_at(target, points.reshape(-1, 2), proposal=True).reshape(points.shape[:2])
    slopes = scales[0].log_slope(lines[0])[:, None] + scales[1].log_slope(lines[1])[None]
    return Grid(lines, log_p, log_p - slopes)


def _extent(line: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Low and high of the part of an axis that is inside, and a little more."""
    first, last = np.flatnonzero(inside)[[0, -1]]
    margin = 0.05 * (line[last] - line[first])
    low = line[max(first - 1, 0)] - margin
    return np.array([max(low, line[0]), min(line[min(last + 1, len(line) - 1)] + margin, line[-1])])


def _levels(height: np.ndarray, mass: np.ndarray, total: float) -> list[float]:
    """Heights above which 86 % and 39 % of the mass lie."""
    order = np.argsort(-height, axis=None)
    enclosed = np.cumsum(mass.ravel()[order]) / total
    # within 2 and 1 sd of a Gaussian of two coordinates
    ranks = np.minimum(np.searchsorted(enclosed, (0.865, 0.393)), len(order) - 1)
    return [float(value) for value in height.ravel()[order][ranks]]


def density_curve(target: Target, points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A grid over the points and the density, and the density normalised on it; NaN where there is no mass.

    It is fine near the `centres`: modes may be narrow.
    """
    low, high = points.min(), points.max()
    reach = 0.5 * (high - low) or 1.0
    window = np.array([low - reach, high + reach])
    for _ in range(MAX_DOUBLINGS):
        grid = _line_near(window, centres)
        log_p = log_density_at(target, grid[:, None], proposal=True)
        p = np.exp(log_p - log_p.max())
        extended = _extended(window, _in_strips(grid, p * np.gradient(grid)))
        if extended is None:
            break
        window = extended
    p /= np.trapezoid(p, grid)
    return grid, np.where(p > 1e-3 * p.max(), p, np.nan)


def _line_near(window: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Points from low to high, geometrically spaced around the centres."""
    low, high = window
    near = 0.25 * (high - low) * np.geomspace(1e-8, 1, 161)
    extra = [np.array([c, *(c - near), *(c + near)]) for c in centres]
    grid = np.unique(np.concatenate([np.linspace(low, high, 2001), *extra]))
    return grid[(grid >= low) & (grid <= high)]
