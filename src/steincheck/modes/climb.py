"""Uphill: many points climb in lock-step by BFGS with limited memory; Newton steps settle their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..target.evaluation import CountedTarget
from .peaks import MIN_HESSIAN_EIGENVALUE, Peak, dot, mode_root, recognise, spectrum

CORRECTION_PAIRS = 10  # steps and gradients that a climb remembers
SETTLED_DECREMENT = 1e-6  # nats: Newton decrement that a mode must have
PARABOLA_RADIUS = 0.1  # standard deviations from a mode at which log p must drop as a parabola does ...
PARABOLA_FACTOR = 5.0  # ... up to this factor: at the top of -x^4, or at a kink, the Hessian is an accident
TOP_DROP = 0.5  # nats: the width of a flat or pointed top is where log p has dropped by this much, as at 1 sd
TOP_RADII = 4.0 ** np.arange(-16, 13)  # in units of the search, at which a flat top is looked at


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


class _Climbers:
    """State of climbs in lock-step; f and g are -log p and its gradient.

    The inverse Hessian of each is `scale` times its first one, corrected by the pairs (s, y) that it
    remembers; `rho` is 1/s'y, and 0 where there is no pair yet, which then takes no part.
    """

    def __init__(self, density: CountedTarget, starts: Starts) -> None:
        n, d = starts.x.shape
        value, score = density.log_density_and_score(starts.x)
        self.x = starts.x.copy()
        self.f = -value
        self.g = -score
        self.stride = starts.stride.copy()
        self.first = starts.shapes[starts.shape]
        self.scale = np.ones(n)
        self.s = np.zeros((n, CORRECTION_PAIRS, d))
        self.y = np.zeros((n, CORRECTION_PAIRS, d))
        self.rho = np.zeros((n, CORRECTION_PAIRS))
        self.active = np.isfinite(value)
        self.rest = np.zeros(n, bool)
        self.mode = np.full(n, -1)

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


def climb(density: CountedTarget, starts: Starts, *, iterations: int = 1000, known: Sequence[Peak]) -> Ends:
    """Climb from all starts at once, the trial points of all evaluated as one batch.

    The first step of each is `stride` long in its metric. A climb ends at rest, at a known mode, or after so
    many iterations, 1000 in the paper (App. F).
    """
    size = max(8, min(256, 2**22 // starts.x.shape[1] ** 2))  # fewer where d x d matrices get large
    parts = []
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # where the density is unbounded
        for start in range(0, len(starts.x), size):
            climbers = _Climbers(density, starts.rows(slice(start, start + size)))
            parts.append(_climb(density, climbers, iterations, known))
    return Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _climb(density: CountedTarget, c: _Climbers, iterations: int, known: Sequence[Peak]) -> Ends:
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


def _capture(c: _Climbers, known: Sequence[Peak]) -> None:
    """Take out climbs that are at a known mode."""
    rows = np.flatnonzero(c.active | (c.rest & (c.mode < 0)))
    c.mode[rows] = recognise(c.x[rows], -c.f[rows], known)
    c.active[rows[c.mode[rows] >= 0]] = False


class Stationary(NamedTuple):
    """Ends after Newton steps."""

    x: np.ndarray
    log_density: np.ndarray
    hessian: np.ndarray
    kind: np.ndarray  #: (n,): "mode"; "rough", without a parabola or not at its top; "moving", no such point


def settle(density: CountedTarget, x: np.ndarray, width: np.ndarray) -> Stationary:
    """Newton steps from all rows of `x`, differencing with steps small against `width` (n, d)."""
    x = x.copy()
    width = np.where(np.isfinite(width) & (width > 0), width, 1.0)
    value, g = density.log_density_and_score(x)
    active = np.isfinite(value)
    hessian = np.full((*x.shape, x.shape[1]), np.nan)
    decrement = np.full(len(x), np.inf)
    for _ in range(4):  # Hessians per end, at most
        rows = np.flatnonzero(active)
        if not len(rows) or (np.isfinite(decrement).any() and density.budget.exhausted):
            break
        hessian[rows], learnt = differenced_hessians(density, x[rows], width[rows])
        renewed = np.abs(np.log(learnt / width[rows])).max(axis=1) > 1
        width[rows] = learnt
        before = _newton(hessian[rows], g[rows])[0]
        x[rows], value[rows], g[rows] = _chords(density, x[rows], value[rows], g[rows], hessian[rows])
        decrement[rows] = _newton(hessian[rows], g[rows])[0]
        # After tiny steps the Hessian still belongs to the point; else it is made again.
        active[rows] = renewed | ((before > 1e-8) & (decrement[rows] < before))
    return Stationary(x, value, hessian, _kinds(density, x, value, decrement, hessian))


def differenced_hessians(
    density: CountedTarget, x: np.ndarray, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hessians of -log p at points (n, d), by steps small against `width` (n, d); the widths they imply."""
    hessian = _score_differences(density, x, width * (1e-4 if density.target.has_score else 1e-2))
    bend = np.einsum("nii->ni", hessian)
    learnt = np.isfinite(bend) & (bend > 0)
    return hessian, np.where(learnt, 1 / np.sqrt(np.where(learnt, bend, 1.0)), width)


def _score_differences(density: CountedTarget, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Symmetric matrices (n, d, d) of the differences of minus the score over steps `h` (n, d) either way."""
    n, d = x.shape
    moves = h[:, None, :] * np.eye(d)
    points = np.concatenate([x[:, None] + moves, x[:, None] - moves], axis=1)
    scores = density.score(points.reshape(-1, d)).reshape(n, 2, d, d)
    slopes = (scores[:, 1] - scores[:, 0]) / (2 * h[:, :, None])
    return 0.5 * (slopes + slopes.transpose(0, 2, 1))


def _chords(
    density: CountedTarget, x: np.ndarray, value: np.ndarray, g: np.ndarray, hessian: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few Newton steps with one Hessian, each kept where it lowers the Newton decrement."""
    for _ in range(3):  # more steps with one Hessian gain less than a new one
        decrement, step = _newton(hessian, g)
        ahead, slope = density.log_density_and_score(x + step)
        better = np.isfinite(ahead) & (_newton(hessian, slope)[0] < decrement)
        if not better.any():
            break
        x = np.where(better[:, None], x + step, x)
        g = np.where(better[:, None], slope, g)
        value = np.where(better, ahead, value)
    return x, value, g


def _newton(hessian: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Newton decrements in nats and steps uphill; infinite and 0 where the Hessian is not positive."""
    good = np.isfinite(hessian).all(axis=(1, 2))
    safe = np.where(good[:, None, None], hessian, np.eye(hessian.shape[1]))
    scale, values, vectors = spectrum(safe)
    good &= values[:, 0] > MIN_HESSIAN_EIGENVALUE
    values = np.where(values > MIN_HESSIAN_EIGENVALUE, values, 1.0)
    along = np.einsum("nij,ni->nj", vectors, g * scale)
    step = scale * np.einsum("nij,nj->ni", vectors, along / values)
    decrement = 0.5 * dot(step, g)
    return np.where(good, decrement, np.inf), np.where(good[:, None], step, 0.0)


def _kinds(
    density: CountedTarget, x: np.ndarray, value: np.ndarray, decrement: np.ndarray, hessian: np.ndarray
) -> np.ndarray:
    """What each point is; a "mode" is one where log p is close to a parabola at a tenth of its width."""
    kind = np.full(len(x), "moving", dtype=object)
    good = np.isfinite(hessian).all(axis=(1, 2)) & np.isfinite(value)
    kind[good & ~(decrement < SETTLED_DECREMENT)] = "rough"  # no parabola, or not at its top
    rows = np.flatnonzero(good & (decrement < SETTLED_DECREMENT))
    if not len(rows):
        return kind
    axes = PARABOLA_RADIUS * mode_root(hessian[rows]).transpose(0, 2, 1)
    points = np.stack([x[rows, None] + axes, x[rows, None] - axes], axis=1)
    around = density.log_density(points.reshape(-1, x.shape[1])).reshape(len(rows), 2, -1)
    drop = value[rows, None] - around.mean(axis=1)
    expected = 0.5 * PARABOLA_RADIUS**2
    noise = 1e-12 * np.abs(value[rows, None])
    good = (drop < PARABOLA_FACTOR * expected + noise) & (drop > expected / PARABOLA_FACTOR - noise)
    kind[rows] = np.where(good.all(axis=1), "mode", "rough")
    return kind


class FlatTop(NamedTuple):
    """The highest place near one without a parabola: a mode, on a line without a drop, or neither."""

    x: np.ndarray
    log_density: float
    peak: Peak | None = None
    endless: bool = False  #: whether log p does not drop along some line


def flat_top(density: CountedTarget, x: np.ndarray, unit: np.ndarray, *, max_gain: float) -> FlatTop:
    """The top near `x` where log p has no parabola, with its width.

    The highest of many points along the coordinates is taken until none is higher. Where log p rises by more
    than `max_gain` nats on the way, it is not a top. Where log p has dropped by `TOP_DROP` is measured along
    the coordinates, then along the principal axes of the bend at these distances: this is the width.
    """
    d = len(x)
    first = top = float(density.log_density(x[None])[0])
    rays = np.diag(unit)
    for _ in range(40):  # moves to the highest point seen
        points = x + (TOP_RADII[:, None, None] * np.concatenate([rays, -rays])).reshape(-1, d)
        values = density.log_density(points)
        best = int(np.argmax(values))
        if not values[best] > top + 1e-10 * max(1.0, abs(top)):
            break
        x, top = points[best], float(values[best])
        if top > first + max_gain:
            return FlatTop(x, top)
    reach = _drop_radius(density, x, top, rays)
    if np.isfinite(reach).all() and d > 1:
        width = reach * unit
        bend = np.nan_to_num(_score_differences(density, x[None], width[None])[0])
        rays = np.linalg.eigh(bend * np.outer(width, width))[1].T * width
        reach = _drop_radius(density, x, top, rays)
    if not np.isfinite(reach).all():
        return FlatTop(x, top, endless=True)
    whiten = np.linalg.inv(reach[:, None] * rays)
    return FlatTop(x, top, Peak(x, top, whiten @ whiten.T, "flat"))


def _drop_radius(density: CountedTarget, x: np.ndarray, top: float, rays: np.ndarray) -> np.ndarray:
    """How far along each ray, the shorter way, log p first drops by `TOP_DROP`; infinite if it never does."""
    rays = np.concatenate([rays, -rays])
    points = x + TOP_RADII[:, None, None] * rays
    low = density.log_density(points.reshape(-1, len(x))).reshape(points.shape[:2]) < top - TOP_DROP
    k = np.argmax(low, axis=0)
    far = np.log(TOP_RADII[k])
    near = np.log(TOP_RADII[np.maximum(k - 1, 0)])
    for _ in range(12):
        middle = 0.5 * (near + far)
        dropped = density.log_density(x + np.exp(middle)[:, None] * rays) < top - TOP_DROP
        far = np.where(dropped, middle, far)
        near = np.where(dropped, near, middle)
    return np.where(low.any(axis=0), np.exp(far), np.inf).reshape(2, -1).min(axis=0)
