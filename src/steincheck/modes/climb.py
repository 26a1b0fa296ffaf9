"""Uphill: many points climb in lock-step by BFGS with limited memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..target.counting import CountedTarget

CORRECTION_PAIRS = 10  # steps and gradients that a climb remembers
CAPTURE_RADIUS = 0.25  # nats below a known mode within which it may be recognised
CAPTURE_ERROR = 0.05  # nats by which log p may differ there from the mode's parabola


class Starts(NamedTuple):
    """Points to climb from, the first stride of each, and its metric: one of a few inverse Hessians."""

    x: np.ndarray
    stride: np.ndarray
    shape: np.ndarray  #: (n,) which of `shapes` each has
    shapes: np.ndarray  #: (K, d, d)

    def rows(self, rows: Any) -> Starts:
        """Some of the starts."""
        return Starts(self.x[rows], self.stride[rows], self.shape[rows], self.shapes)


def starts_at(x: np.ndarray, metric: np.ndarray, stride: Any = 0.3) -> Starts:
    """Points that share one metric."""
    return Starts(x, np.broadcast_to(stride, (len(x),)), np.zeros(len(x), dtype=int), metric[None])


def join(parts: list[Starts]) -> Starts:
    """All starts of several kinds."""
    first = np.cumsum([0, *(len(part.shapes) for part in parts[:-1])])
    return Starts(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.stride for part in parts]),
        np.concatenate([part.shape + start for part, start in zip(parts, first, strict=True)]),
        np.concatenate([part.shapes for part in parts]),
    )


class Ends(NamedTuple):
    """Where climbs ended, whether at rest (near a stationary point), and which known mode took them."""

    x: np.ndarray
    log_density: np.ndarray
    rest: np.ndarray
    mode: np.ndarray  #: index of the known mode that captured the climb, -1 if none
    width: np.ndarray  #: (n, d): standard deviations that the climb has learnt, for finite differences


class KnownPeaks(NamedTuple):
    """Modes already known, at which climbs may stop."""

    x: np.ndarray  #: (K, d)
    log_density: np.ndarray  #: (K,)
    whiten: np.ndarray  #: (K, d, d): (x - mode) @ whiten has the identity as Hessian


@dataclass
class _Climbers:
    """State of climbs in lock-step; f and g are -log p and its gradient.

    The inverse Hessian of each is `scale` times its first one, corrected by the pairs (s, y) that it
    remembers; `rho` is 1/s'y, and 0 where there is no pair yet, which then takes no part.
    """

    x: np.ndarray
    f: np.ndarray
    g: np.ndarray
    stride: np.ndarray
    active: np.ndarray
    first: np.ndarray
    scale: np.ndarray
    s: np.ndarray
    y: np.ndarray
    rho: np.ndarray
    rest: np.ndarray
    mode: np.ndarray

    def directions(self, rows: np.ndarray) -> np.ndarray:
        """Minus the inverse Hessian times the gradient, by the two-loop recursion."""
        s, y, rho = self.s[rows], self.y[rows], self.rho[rows]
        q = self.g[rows].copy()
        alpha = np.zeros(rho.shape)
        for k in reversed(range(CORRECTION_PAIRS)):
            alpha[:, k] = rho[:, k] * dot(s[:, k], q)
            q -= alpha[:, k, None] * y[:, k]
        q = self.scale[rows, None] * np.einsum("nij,nj->ni", self.first[rows], q)
        for k in range(CORRECTION_PAIRS):
            q += (alpha[:, k] - rho[:, k] * dot(y[:, k], q))[:, None] * s[:, k]
        return -q

    def learn(self, rows: np.ndarray, s: np.ndarray, y: np.ndarray) -> None:
        """Remember a pair, forget the oldest."""
        sy = dot(s, y)
        self.scale[rows] = sy / dot(np.einsum("nij,nj->ni", self.first[rows], y), y)
        for store, value in ((self.s, s), (self.y, y), (self.rho, 1 / sy)):
            store[rows] = np.concatenate([store[rows][:, 1:], value[:, None]], axis=1)


def climb(density: CountedTarget, starts: Starts, *, iterations: int = 1000, known: KnownPeaks) -> Ends:
    """Climb from all starts at once, the trial points of all evaluated as one batch.

    The first step of each is `stride` long in its metric. A climb ends at rest, at a known mode, or after so
    many iterations, 1000 in the paper (App. F).
    """
    size = max(8, min(256, 2**22 // starts.x.shape[1] ** 2))  # fewer where d x d matrices get large
    parts = []
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # where the density is unbounded
        for start in range(0, len(starts.x), size):
            climbers = _first_state(density, starts.rows(slice(start, start + size)))
            parts.append(_climb(density, climbers, iterations, known))
    return Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _first_state(density: CountedTarget, starts: Starts) -> _Climbers:
    n, d = starts.x.shape
    value, score = density.log_density_and_score(starts.x)
    pairs = np.zeros((n, CORRECTION_PAIRS, d))
    return _Climbers(
        x=starts.x.copy(),
        f=-value,
        g=-score,
        stride=starts.stride.copy(),
        active=np.isfinite(value),
        first=starts.shapes[starts.shape],
        scale=np.ones(n),
        s=pairs,
        y=pairs.copy(),
        rho=np.zeros((n, CORRECTION_PAIRS)),
        rest=np.zeros(n, bool),
        mode=np.full(n, -1),
    )


def _climb(density: CountedTarget, c: _Climbers, iterations: int, known: KnownPeaks) -> Ends:
    for iteration in range(iterations):
        if density.budget.exhausted:
            break
        if iteration % 3 == 2:  # to look every time would cost more than it saves
            _capture(c, known)
        rows = np.flatnonzero(c.active)
        step = c.directions(rows)
        slope = dot(step, c.g[rows])
        c.rest[rows] = -slope < 1e-6  # nats of the Newton decrement
        moving = ~c.rest[rows] & np.isfinite(slope)
        c.active[rows] = moving
        if not moving.any():
            break
        _advance(density, c, rows[moving], step[moving], slope[moving])
    _capture(c, known)
    width = np.sqrt(c.scale[:, None] * np.abs(np.einsum("nii->ni", c.first)))
    return Ends(c.x, -c.f, c.rest, c.mode, width)


def _advance(
    density: CountedTarget, c: _Climbers, rows: np.ndarray, step: np.ndarray, slope: np.ndarray
) -> None:
    """One trial point per climb, and what is learnt from it."""
    learnt = c.rho[rows, -1] != 0
    factor = c.stride[rows] / np.where(learnt, 1.0, np.sqrt(-slope))
    trial = c.x[rows] + factor[:, None] * step
    descent = factor * slope
    ceiling = c.f[rows] + 1e-4 * descent
    value, score = density.log_density_and_score(trial, floor=-ceiling)
    good = -value <= ceiling
    _shorten(c, rows[~good], descent[~good], -value[~good])
    _accept(c, rows[good], trial[good], -value[good], -score[good], descent[good])


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
    c.learn(rows[curved], s[curved], y[curved])


def _capture(c: _Climbers, known: KnownPeaks) -> None:
    """Take out climbs that are at a known mode."""
    rows = np.flatnonzero(c.active | (c.rest & (c.mode < 0)))
    c.mode[rows] = recognise(c.x[rows], -c.f[rows], known)
    c.active[rows[c.mode[rows] >= 0]] = False


def recognise(x: np.ndarray, log_density: np.ndarray, known: KnownPeaks) -> np.ndarray:
    """Which known mode each point is at, near its top and on its parabola; -1 if none."""
    label = np.full(len(x), -1)
    for k, top in enumerate(known.log_density):
        drop = top - log_density
        rows = (label < 0) & (drop > -CAPTURE_ERROR) & (drop < CAPTURE_RADIUS + CAPTURE_ERROR)
        rows = np.flatnonzero(rows)
        z = (x[rows] - known.x[k]) @ known.whiten[k]
        q = 0.5 * dot(z, z)
        label[rows[(q < CAPTURE_RADIUS) & (np.abs(q - drop[rows]) < CAPTURE_ERROR)]] = k
    return label


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Scalar product of each row of `a` with the same row of `b`."""
    return np.einsum("nd,nd->n", a, b)


def squared_lengths(gap: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """gap' H gap of every row, with one H or one per row."""
    return dot(gap @ hessian if hessian.ndim == 2 else np.einsum("nd,nde->ne", gap, hessian), gap)
