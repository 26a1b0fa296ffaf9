"""Uphill: many points climb in lock-step by BFGS, or by its limited-memory form in many dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..target import BATCH_SIZES
from .surface import Surface

MAX_CLIMB_ITERATIONS = 1000  # at most, per start (paper, App. F)
MAX_END_DISTANCE = 0.01  # squared Hessian distance, and log density, of a climb's end from a known mode
CAPTURE_EVERY = 3  # iterations between looks whether a climb is on its way to a known mode
CAPTURE_RADIUS = 0.25  # nats below a known mode within which it may be recognised
CAPTURE_ERROR = 0.05  # nats by which log p may differ there from the mode's parabola
MAX_DENSE_DIM = 24  # above, a d x d matrix per climb costs more than it saves
CORRECTION_PAIRS = 10  # pairs of steps and gradients kept per climb above that dimension


class Ends(NamedTuple):
    """Where climbs ended, whether at rest (near a stationary point), and which known mode took them."""

    x: np.ndarray
    log_density: np.ndarray
    rest: np.ndarray
    mode: np.ndarray  #: index of the known mode that captured the climb, -1 if none
    width: np.ndarray  #: (n, d): standard deviations that the climb has learnt, for finite differences

    def at(self, x: np.ndarray, log_density: Any, hessian: np.ndarray) -> np.ndarray:
        """Which ended at the mode `x`, or each at its own."""
        near = squared_lengths(self.x - x, hessian) < MAX_END_DISTANCE
        return near & (np.abs(self.log_density - log_density) < MAX_END_DISTANCE)


class Known(NamedTuple):
    """Modes already known, at which climbs may stop."""

    x: np.ndarray  #: (K, d)
    log_density: np.ndarray  #: (K,)
    whiten: np.ndarray  #: (K, d, d): (x - mode) @ whiten has the identity as Hessian


class Metric(Protocol):
    """What a climb knows of the inverse Hessian."""

    def direction(self, rows: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Minus the inverse Hessian times the gradient."""
        ...

    def update(self, rows: np.ndarray, s: np.ndarray, y: np.ndarray, learnt: np.ndarray) -> None:
        """Learn from steps `s` over which the gradient changed by `y`."""
        ...

    def width(self) -> np.ndarray:
        """Standard deviations (n, d) that the diagonal implies."""
        ...


class DenseMetric:
    """One d x d inverse Hessian per climb."""

    def __init__(self, first: np.ndarray) -> None:
        self.inverse = first.copy()

    def direction(self, rows: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Minus the inverse Hessian times the gradient."""
        return -np.einsum("nij,nj->ni", self.inverse[rows], gradient)

    def update(self, rows: np.ndarray, s: np.ndarray, y: np.ndarray, learnt: np.ndarray) -> None:
        """BFGS; the first matrix is scaled once, to the curvature met."""
        h = self.inverse[rows]
        sy = dot(s, y)[:, None]
        hy = np.einsum("nij,nj->ni", h, y)
        scale = np.where(learnt[:, None], 1.0, sy / dot(hy, y)[:, None])
        h = h * scale[:, :, None]
        hy = hy * scale
        right = np.stack([(1 + dot(hy, y)[:, None] / sy) * s / sy - hy / sy, -s / sy], axis=1)
        self.inverse[rows] = h + np.stack([s, hy], axis=2) @ right

    def width(self) -> np.ndarray:
        """Standard deviations (n, d) that the diagonal implies."""
        return np.sqrt(np.abs(np.einsum("nii->ni", self.inverse)))


class LimitedMetric:
    """The first inverse Hessian and the last `CORRECTION_PAIRS` pairs of steps and gradients per climb."""

    def __init__(self, first: np.ndarray) -> None:
        n, d = first.shape[:2]
        self.first = first
        self.scale = np.ones(n)
        self.s = np.zeros((n, CORRECTION_PAIRS, d))
        self.y = np.zeros((n, CORRECTION_PAIRS, d))
        self.rho = np.zeros((n, CORRECTION_PAIRS))  # 0 where there is no pair yet: it then takes no part

    def direction(self, rows: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The two-loop recursion."""
        s = self.s[rows]
        y = self.y[rows]
        rho = self.rho[rows]
        q = gradient.copy()
        alpha = np.zeros((len(rows), CORRECTION_PAIRS))
        for k in reversed(range(CORRECTION_PAIRS)):
            alpha[:, k] = rho[:, k] * dot(s[:, k], q)
            q -= alpha[:, k, None] * y[:, k]
        q = self.scale[rows, None] * np.einsum("nij,nj->ni", self.first[rows], q)
        for k in range(CORRECTION_PAIRS):
            beta = rho[:, k] * dot(y[:, k], q)
            q += (alpha[:, k] - beta)[:, None] * s[:, k]
        return -q

    def update(self, rows: np.ndarray, s: np.ndarray, y: np.ndarray, learnt: np.ndarray) -> None:
        """Add a pair, drop the oldest."""
        sy = dot(s, y)
        self.scale[rows] = sy / dot(np.einsum("nij,nj->ni", self.first[rows], y), y)
        for store, value in ((self.s, s), (self.y, y), (self.rho, 1 / sy)):
            store[rows] = np.concatenate([store[rows][:, 1:], value[:, None]], axis=1)

    def width(self) -> np.ndarray:
        """Standard deviations (n, d) that the diagonal implies."""
        return np.sqrt(self.scale[:, None] * np.abs(np.einsum("nii->ni", self.first)))


@dataclass
class _Climbers:
    """State of climbs in lock-step; f and g are -log p and its gradient."""

    x: np.ndarray
    f: np.ndarray
    g: np.ndarray
    stride: np.ndarray
    metric: Metric
    active: np.ndarray
    learnt: np.ndarray
    rest: np.ndarray
    mode: np.ndarray


def climb(
    surface: Surface,
    x: np.ndarray,
    metric: np.ndarray,
    stride: Any,
    *,
    shape: np.ndarray | None = None,
    iterations: int = MAX_CLIMB_ITERATIONS,
    known: Known | None = None,
    fused: bool = False,
    dense: bool = True,
) -> Ends:
    """Climb from all rows of `x` at once, the trial points of all evaluated as one batch.

    `metric` (d, d), or (K, d, d) with the number of each in `shape` (n,), is the first inverse Hessian, up to
    a factor that makes the first step `stride` long in it. With `fused` log density and score are evaluated
    together, at the trial points that are refused too.
    """
    if shape is None:
        metric = np.broadcast_to(metric, (len(x), *metric.shape[-2:]))
        shape = np.arange(len(x))
    size = climbs_at_once(x.shape[1])
    strides = np.broadcast_to(stride, (len(x),))
    parts = []
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        first = metric[shape[part]]
        form = DenseMetric(first) if dense else LimitedMetric(first)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # where the density is unbounded
            climbers = _begin(surface, x[part], form, strides[part], fused)
            parts.append(_climb(surface, climbers, iterations, known, fused))
    return Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _begin(surface: Surface, x: np.ndarray, metric: Metric, stride: np.ndarray, fused: bool) -> _Climbers:
    n = len(x)
    g = np.zeros(x.shape)
    if fused:
        value, score = surface.value_and_score(x)
        active = np.isfinite(value)
        g[active] = -score[active]
    else:
        value = surface.log_density(x)
        active = np.isfinite(value)
        g[active] = -surface.score(x[active])
        active &= np.isfinite(g).all(axis=1)
    off = np.zeros(n, bool)
    return _Climbers(x.copy(), -value, g, stride.copy(), metric, active, off, off.copy(), np.full(n, -1))


def _climb(surface: Surface, c: _Climbers, iterations: int, known: Known | None, fused: bool) -> Ends:
    for iteration in range(iterations):
        if surface.exhausted:
            break
        if known is not None and len(known.x) and iteration % CAPTURE_EVERY == CAPTURE_EVERY - 1:
            _capture(c, known)
        rows = np.flatnonzero(c.active)
        step = c.metric.direction(rows, c.g[rows])
        slope = dot(step, c.g[rows])
        c.rest[rows] = -slope < 1e-6  # nats of the Newton decrement
        moving = ~c.rest[rows] & np.isfinite(slope)
        c.active[rows] = moving
        if not moving.any():
            break
        _advance(surface, c, rows[moving], step[moving], slope[moving], fused)
    if known is not None:
        _capture(c, known)
    return Ends(c.x, -c.f, c.rest, c.mode, c.metric.width())


def _advance(
    surface: Surface, c: _Climbers, rows: np.ndarray, step: np.ndarray, slope: np.ndarray, fused: bool
) -> None:
    """One trial point per climb, and what is learnt from it."""
    factor = c.stride[rows] / np.where(c.learnt[rows], 1.0, np.sqrt(-slope))
    trial = c.x[rows] + factor[:, None] * step
    descent = factor * slope
    if fused:
        value, score = surface.value_and_score(trial)
        f = -value
    else:
        f = -surface.log_density(trial)
    good = f <= c.f[rows] + 1e-4 * descent
    _shorten(c, rows[~good], descent[~good], f[~good])
    rows, trial, descent, f = rows[good], trial[good], descent[good], f[good]
    if len(rows):
        g = -score[good] if fused else -surface.score(trial)
        lost = ~np.isfinite(g).all(axis=1)
        c.active[rows[lost]] = False
        keep = ~lost
        _accept(c, rows[keep], trial[keep], f[keep], g[keep], descent[keep])


def _shorten(c: _Climbers, rows: np.ndarray, descent: np.ndarray, f: np.ndarray) -> None:
    """Where the trial was not a gain: to the vertex of the parabola, and to rest if no gain could be seen."""
    c.stride[rows] *= np.clip(-descent / (2 * (f - c.f[rows] - descent)), 0.1, 0.5)
    stuck = rows[-descent < 1e-15 * np.maximum(1.0, np.abs(c.f[rows]))]
    c.rest[stuck] = True
    c.active[stuck] = False


def _accept(
    c: _Climbers, rows: np.ndarray, x: np.ndarray, f: np.ndarray, g: np.ndarray, descent: np.ndarray
) -> None:
    s = x - c.x[rows]
    y = g - c.g[rows]
    c.x[rows] = x
    c.f[rows] = f
    c.g[rows] = g
    curved = dot(s, y) > -1e-8 * descent
    c.stride[rows] = np.where(curved, 1.0, 2 * c.stride[rows])  # nothing learnt, as in tails: longer strides
    rows = rows[curved]
    c.metric.update(rows, s[curved], y[curved], c.learnt[rows])
    c.learnt[rows] = True


def _capture(c: _Climbers, known: Known) -> None:
    """Take out climbs that are at a known mode."""
    rows = np.flatnonzero(c.active | (c.rest & (c.mode < 0)))
    c.mode[rows] = recognise(c.x[rows], -c.f[rows], known)
    c.active[rows[c.mode[rows] >= 0]] = False


def recognise(x: np.ndarray, log_density: np.ndarray, known: Known) -> np.ndarray:
    """Which known mode each point is at, near its top and on its parabola; -1 if none."""
    label = np.full(len(x), -1)
    rows = np.arange(len(x))
    for k in range(len(known.x)):
        drop = known.log_density[k] - log_density[rows]
        candidates = np.flatnonzero((drop > -CAPTURE_ERROR) & (drop < CAPTURE_RADIUS + CAPTURE_ERROR))
        if not len(candidates):
            continue
        z = (x[rows[candidates]] - known.x[k]) @ known.whiten[k]
        q = 0.5 * dot(z, z)
        caught = candidates[(q < CAPTURE_RADIUS) & (np.abs(q - drop[candidates]) < CAPTURE_ERROR)]
        label[rows[caught]] = k
        rows = np.delete(rows, caught)
        if not len(rows):
            break
    return label


def climbs_at_once(dim: int) -> int:
    """Points climbed in lock-step: a batch compiled targets need not pad, unless d x d matrices get large."""
    return max(8, min(BATCH_SIZES[2], 2**22 // dim**2))


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Scalar product of each row of `a` with the same row of `b`."""
    return np.einsum("nd,nd->n", a, b)


def squared_lengths(gap: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """gap' H gap of every row, with one H or one per row."""
    return dot(gap @ hessian if hessian.ndim == 2 else np.einsum("nd,nde->ne", gap, hessian), gap)
