"""Where the climbs of a mode search start: geometric scales about the modes known so far."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .climb import dot
from .surface import Surface

SCALE_BASE = 3.0  # scales are powers of this ...
MAX_POWER = 7.0  # ... up to 3^7 = 2187 standard deviations
FIRST_STRIDE = 0.3  # of the scale of a start: the first step of its climb
LEAPS_PER_MOVE = 8  # leapfrog steps per move of an annealed chain
N_HOT_MOVES = 4  # moves at the first temperature
N_COOLING_MOVES = 12  # moves while the temperature falls to 1
SCAN_RATIO = 1.0015  # of successive points on a line, where the target is cheap enough
SCAN_STARTS = 32  # highest inner maxima of a scan, from which climbs start


class Base(NamedTuple):
    """What starts are placed about: a mode, or a point and units that stand in for one."""

    x: np.ndarray
    root: np.ndarray  #: (d, d), root @ root.T the inverse Hessian

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations (d,)."""
        return np.sqrt(np.sum(self.root**2, axis=1))

    @property
    def metric(self) -> np.ndarray:
        """The inverse Hessian."""
        return self.root @ self.root.T


class Starts(NamedTuple):
    """Points, the first stride of the climb from each, and its metric: one of a few inverse Hessians."""

    x: np.ndarray
    stride: np.ndarray
    shape: np.ndarray  #: (n,) which of `shapes` each has
    shapes: np.ndarray  #: (K, d, d)

    def rows(self, rows: np.ndarray) -> Starts:
        """Some of the starts."""
        return Starts(self.x[rows], self.stride[rows], self.shape[rows], self.shapes)


def join(parts: list[Starts]) -> Starts:
    """All starts of several kinds."""
    first = np.cumsum([0, *(len(part.shapes) for part in parts)])
    return Starts(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.stride for part in parts]),
        np.concatenate([part.shape + start for part, start in zip(parts, first, strict=False)]),
        np.concatenate([part.shapes for part in parts]),
    )


def starts_at(x: np.ndarray, metric: np.ndarray, stride: Any = FIRST_STRIDE) -> Starts:
    """Points that share one metric."""
    return Starts(x, np.broadcast_to(stride, (len(x),)), np.zeros(len(x), dtype=int), metric[None])


def ellipsoid_starts(base: Base, n: int, rng: np.random.Generator) -> Starts:
    """m + 3^u R z: the shape of the mode, blown up."""
    power = SCALE_BASE ** rng.uniform(0, MAX_POWER, size=n)
    x = base.x + power[:, None] * (rng.standard_normal((n, len(base.x))) @ base.root.T)
    return starts_at(x, base.metric, FIRST_STRIDE * power)


def sparse_starts(base: Base, n: int, rng: np.random.Generator) -> Starts:
    """Coordinates with a power of their own each: all of them, or only some while others keep 1 sd."""
    d = len(base.x)
    power = SCALE_BASE ** rng.uniform(0, MAX_POWER, size=(n, d))
    share = np.where(rng.random(n) < 0.5, 1.0, rng.random(n))
    far = rng.random((n, d)) < share[:, None]
    far[np.arange(n), rng.integers(d, size=n)] = True
    x = base.x + np.where(far, power, 1.0) * base.sd * rng.standard_normal((n, d))
    return starts_at(x, np.diag(base.sd**2))


def isotropic_starts(base: Base, n: int, rng: np.random.Generator) -> Starts:
    """Round clouds about the mode or about 0, of the size of the mode's coordinates or of 1."""
    d = len(base.x)
    size = np.sqrt(np.mean(base.x**2 + base.sd**2))
    own = 10 ** rng.uniform(-1, 2, size=n) * size
    scale = np.where(rng.random(n) < 0.5, own, 10 ** rng.uniform(-0.5, 1.5, size=n))
    centre = np.where(rng.random(n) < 0.5, 1.0, 0.0)[:, None] * base.x
    x = centre + scale[:, None] * rng.standard_normal((n, d))
    return starts_at(x, np.eye(d), FIRST_STRIDE * scale)


START_KINDS = (ellipsoid_starts, sparse_starts, isotropic_starts)


def annealed_starts(surface: Surface, base: Base, n: int, rng: np.random.Generator) -> Starts:
    """Hamiltonian chains about a mode, hot at first and cooled: they find modes by mass, not by basin."""
    x = np.repeat(base.x[None], n, axis=0)
    heat = 9 ** rng.uniform(1, MAX_POWER, size=n)
    value, score = surface.value_and_score(x)
    stride = np.full(n, 0.5)
    for move in range(N_HOT_MOVES + N_COOLING_MOVES):
        if surface.exhausted:
            break
        heat_now = heat ** (1 - max(0, move - N_HOT_MOVES + 1) / N_COOLING_MOVES)
        x, value, score, accepted = _hamiltonian_move(surface, base, x, value, score, heat_now, stride, rng)
        stride = stride * np.where(accepted, 1.15, 0.5)
    return starts_at(x, base.metric)


def _hamiltonian_move(
    surface: Surface,
    base: Base,
    x: np.ndarray,
    value: np.ndarray,
    score: np.ndarray,
    heat: np.ndarray,
    stride: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One Hamiltonian move of each chain at its temperature, in the metric of the mode."""
    z = rng.standard_normal(x.shape)
    # At temperature T the density p^(1/T) is wider by sqrt(T), and so are the steps.
    step = (stride * np.sqrt(heat))[:, None]
    force = (stride / np.sqrt(heat))[:, None]
    y = x
    ahead = value
    slope = score
    momentum = z + 0.5 * force * (slope @ base.root)
    for leap in range(LEAPS_PER_MOVE):
        with np.errstate(over="ignore", invalid="ignore"):
            y = y + step * (momentum @ base.root.T)
        ahead, slope = surface.value_and_score(y)
        momentum = momentum + (0.5 if leap == LEAPS_PER_MOVE - 1 else 1.0) * force * (slope @ base.root)
    with np.errstate(invalid="ignore", over="ignore"):
        gain = (ahead - value) / heat + 0.5 * (dot(z, z) - dot(momentum, momentum))
    accepted = np.log(rng.random(len(x))) < np.where(np.isnan(gain), -np.inf, gain)
    keep = accepted[:, None]
    return np.where(keep, y, x), np.where(accepted, ahead, value), np.where(keep, slope, score), accepted


def scanned_starts(surface: Surface, base: Base, max_points: int) -> Starts:
    """The highest inner maxima of log p on lines through a mode: coordinates, principal axes, diagonals."""
    rays = scan_rays(base)[: max(1, max_points // 64)]
    n_radii = min(
        int(np.log(2 * SCALE_BASE**MAX_POWER) / np.log(SCAN_RATIO)), max(32, max_points // (2 * len(rays)))
    )
    radii = np.geomspace(0.5, SCALE_BASE**MAX_POWER, num=n_radii)
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for ray in np.concatenate([rays, -rays]):
        if found and surface.exhausted:
            break
        places = base.x + radii[:, None] * ray
        value = surface.log_density(places)
        with np.errstate(invalid="ignore"):
            inner = np.flatnonzero((value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:])) + 1
        inner = inner[np.argsort(-value[inner], kind="stable")][:SCAN_STARTS]
        found.append((places[inner], value[inner]))
    places = np.concatenate([place for place, _ in found])
    order = np.argsort(-np.concatenate([value for _, value in found]), kind="stable")[:SCAN_STARTS]
    return starts_at(places[order], base.metric)


def scan_rays(base: Base) -> np.ndarray:
    """Directions of lines: the coordinates, the principal axes, and diagonals.

    Densities that treat their coordinates alike have modes on the main diagonal; up to three dimensions all
    diagonals are taken.
    """
    d = len(base.x)
    if d == 1:
        return base.root
    signs = np.array(list(product([1.0], *[[1.0, -1.0]] * (d - 1)))) if d <= 3 else np.ones((1, d))
    return np.concatenate([signs * base.sd / np.sqrt(d), np.diag(base.sd), base.root.T])[:64]


def lattice_starts(bases: list[Base], n: int, rng: np.random.Generator) -> Starts:
    """m_i + m_j - m_k of random triples of modes: the next points of a lattice."""
    triples = rng.integers(len(bases), size=(n, 3))
    places = np.array([base.x for base in bases])
    x = places[triples[:, 0]] + places[triples[:, 1]] - places[triples[:, 2]]
    shapes = np.array([base.metric for base in bases])
    return Starts(x, np.full(n, FIRST_STRIDE), triples[:, 0], shapes)
