"""Uphill: many points climb in lock-step by BFGS with limited memory; Newton steps settle their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..target.evaluation import CountedTarget

CORRECTION_PAIRS = 10  # steps and gradients that a climb remembers
MIN_HESSIAN_EIGENVALUE = 1e-9  # eigenvalues of a Hessian of unit diagonal that are not distinguished from 0
CAPTURE_RADIUS = 0.25  # nats below a known mode within which it may be recognised
CAPTURE_ERROR = 0.05  # nats by which log p may differ there from the mode's parabola
PARABOLA_RADIUS = 0.1  # standard deviations from a mode at which log p must drop as a parabola does ...
PARABOLA_FACTOR = 5.0  # ... up to this factor: at the top of -x^4, or at a kink, the Hessian is an accident
TOP_DROP = 0.5  # nats: the width of a flat or pointed top is where log p has dropped by this much, as at 1 sd
TOP_RADII = 4.0 ** np.arange(-16, 13)  # in units of the search, at which a flat top is looked at


class Peak(NamedTuple):
    """A mode, or what stands in for one; a flat one has no parabola, but a width."""

    x: np.ndarray
    log_density: float
    root: np.ndarray  #: R with R R' the inverse Hessian of -log p, or the squared width of a flat mode
    whiten: np.ndarray  #: (x - mode) @ whiten has the identity as Hessian
    hessian: np.ndarray
    log_weight: float  #: Laplace's log mass, up to a constant
    kind: Literal["mode", "flat"]

    def drop(self, x: np.ndarray) -> np.ndarray:
        """By how many nats the parabola of the mode has dropped at points (n, d)."""
        return 0.5 * np.sum(((x - self.x) @ self.whiten) ** 2, axis=1)


def peak_at(
    x: np.ndarray, log_density: float, root: np.ndarray, kind: Literal["mode", "flat"] = "mode"
) -> Peak:
    """The mode at `x` with this root of its inverse Hessian."""
    whiten = np.linalg.inv(root).T
    log_weight = float(log_density + np.linalg.slogdet(root)[1])
    return Peak(x, float(log_density), root, whiten, whiten @ whiten.T, log_weight, kind)


def recognise(x: np.ndarray, log_density: np.ndarray, known: Sequence[Peak]) -> np.ndarray:
    """Which known mode each point is at, near its top and on its parabola; -1 if none."""
    label = np.full(len(x), -1)
    for k, peak in enumerate(known):
        drop = peak.log_density - log_density
        near = (label < 0) & (drop > -CAPTURE_ERROR) & (drop < CAPTURE_RADIUS + CAPTURE_ERROR)
        rows = np.flatnonzero(near)
        expected = peak.drop(x[rows])
        label[rows[(expected < CAPTURE_RADIUS) & (np.abs(expected - drop[rows]) < CAPTURE_ERROR)]] = k
    return label


class Start(NamedTuple):
    """A point to climb from, the length of the first step, and the metric (d, d) of this length."""

    x: np.ndarray
    stride: float
    metric: np.ndarray


def starts_at(x: np.ndarray, metric: np.ndarray, stride: Any = 0.3) -> list[Start]:
    """Starts that share one metric."""
    return [Start(*each, metric) for each in zip(x, np.broadcast_to(stride, (len(x),)), strict=True)]


class Ends(NamedTuple):
    """Where climbs ended, whether at rest (near a stationary point), and which known mode took them."""

    x: np.ndarray
    log_density: np.ndarray
    rest: np.ndarray
    mode: np.ndarray  #: index of the known mode that captured the climb, -1 if none
    width: np.ndarray  #: (n, d): standard deviations that the climb has learnt, for finite differences


class _Climbs:
    """State of climbs in lock-step; f and g are -log p and its gradient.

    The inverse Hessian of each is `scale` times its first one, corrected by the pairs (s, y) that it
    remembers; `rho` is 1/s'y, and 0 where there is no pair yet, which then takes no part.
    """

    def __init__(self, density: CountedTarget, starts: list[Start]) -> None:
        self.x = np.array([start.x for start in starts])
        self.stride = np.array([start.stride for start in starts])
        self.first = np.array([start.metric for start in starts])
        n, d = self.x.shape
        value, score = density.log_density_and_score(self.x)
        self.f = -value
        self.g = -score
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
            alpha[:, k] = rho[:, k] * np.sum(s[:, k] * q, axis=1)
            q -= alpha[:, k, None] * y[:, k]
        q = self.scale[rows, None] * np.einsum("nij,nj->ni", self.first[rows], q)
        for k in range(CORRECTION_PAIRS):
            q += (alpha[:, k] - rho[:, k] * np.sum(y[:, k] * q, axis=1))[:, None] * s[:, k]
        return -q

    def advance(self, density: CountedTarget, rows: np.ndarray, step: np.ndarray, slope: np.ndarray) -> None:
        """One trial point per climb, and what is learnt from it.

        Where the trial is no gain, the next one is at the vertex of the parabola; a climb without a gain that
        could be seen is at rest. Elsewhere the oldest pair (s, y) gives way to a new one; where nothing is
        learnt, as in tails, the next step is longer.
        """
        factor = self.stride[rows] / np.where(self.rho[rows, -1] != 0, 1.0, np.sqrt(-slope))
        trial = self.x[rows] + factor[:, None] * step
        descent = factor * slope
        ceiling = self.f[rows] + 1e-4 * descent
        value, score = density.log_density_and_score(trial, floor=-ceiling)
        good = -value <= ceiling
        short, fall = rows[~good], descent[~good]
        self.stride[short] *= np.clip(-fall / (2 * (-value[~good] - self.f[short] - fall)), 0.1, 0.5)
        stuck = short[-fall < 1e-15 * np.maximum(1.0, np.abs(self.f[short]))]
        self.rest[stuck] = True
        self.active[stuck] = False
        rows = rows[good]
        s = trial[good] - self.x[rows]
        y = -score[good] - self.g[rows]
        self.x[rows], self.f[rows], self.g[rows] = trial[good], -value[good], -score[good]
        sy = np.sum(s * y, axis=1)
        curved = sy > -1e-8 * descent[good]
        self.stride[rows] = np.where(curved, 1.0, 2 * self.stride[rows])
        rows, s, y, sy = rows[curved], s[curved], y[curved], sy[curved]
        self.scale[rows] = sy / np.sum(np.einsum("nij,nj->ni", self.first[rows], y) * y, axis=1)
        for store, new in ((self.s, s), (self.y, y), (self.rho, 1 / sy)):
            store[rows] = np.concatenate([store[rows][:, 1:], new[:, None]], axis=1)

    def capture(self, known: Sequence[Peak]) -> None:
        """Take out climbs that are at a known mode."""
        rows = np.flatnonzero(self.active | (self.rest & (self.mode < 0)))
        self.mode[rows] = recognise(self.x[rows], -self.f[rows], known)
        self.active[rows[self.mode[rows] >= 0]] = False


def climb(
    density: CountedTarget, starts: list[Start], known: Sequence[Peak], *, iterations: int = 1000
) -> Ends:
    """Climb from all starts at once, the trial points of all evaluated as one batch.

    The first step of each is `stride` long in its metric. A climb ends at rest, at a known mode, or after so
    many iterations, 1000 in the paper (App. F).
    """
    size = max(8, min(256, 2**22 // len(starts[0].x) ** 2))  # fewer where d x d matrices get large
    parts = []
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # where the density is unbounded
        for begin in range(0, len(starts), size):
            climbs = _Climbs(density, starts[begin : begin + size])
            for iteration in range(iterations):
                if density.budget.exhausted:
                    break
                if iteration % 3 == 2:  # to look every time would cost more than it saves
                    climbs.capture(known)
                rows = np.flatnonzero(climbs.active)
                step = climbs.directions(rows)
                slope = np.sum(step * climbs.g[rows], axis=1)
                climbs.rest[rows] = -slope < 1e-6  # nats of the Newton decrement
                moving = ~climbs.rest[rows] & np.isfinite(slope)
                climbs.active[rows] = moving
                if not moving.any():
                    break
                climbs.advance(density, rows[moving], step[moving], slope[moving])
            climbs.capture(known)
            width = np.sqrt(climbs.scale[:, None] * np.abs(np.einsum("nii->ni", climbs.first)))
            parts.append(Ends(climbs.x, -climbs.f, climbs.rest, climbs.mode, width))
    return Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Stationary(NamedTuple):
    """Ends after Newton steps."""

    x: np.ndarray
    log_density: np.ndarray
    root: np.ndarray  #: (n, d, d) of the inverse Hessian of -log p, NaN where there is none
    kind: np.ndarray  #: (n,): "mode"; "rough", without a parabola or not at its top; "moving", no such point


def settle(density: CountedTarget, x: np.ndarray, width: np.ndarray) -> Stationary:
    """Newton steps from all rows of `x`, differencing with steps small against `width` (n, d)."""
    x = x.copy()
    width = np.where(np.isfinite(width) & (width > 0), width, 1.0)
    value, score = density.log_density_and_score(x)
    active = np.isfinite(value)
    hessian = np.full((*x.shape, x.shape[1]), np.nan)
    root = hessian.copy()
    decrement = np.full(len(x), np.inf)
    for _ in range(4):  # Hessians per end, at most
        rows = np.flatnonzero(active)
        if not len(rows) or (np.isfinite(decrement).any() and density.budget.exhausted):
            break
        hessian[rows], learnt = hessians_at(density, x[rows], width[rows])
        root[rows] = _inverse_roots(hessian[rows])
        renewed = np.abs(np.log(learnt / width[rows])).max(axis=1) > 1
        width[rows] = learnt
        before = _newton(root[rows], score[rows])[0]
        here = (x[rows], value[rows], score[rows])
        x[rows], value[rows], score[rows] = _newton_steps(density, *here, root[rows])
        decrement[rows] = _newton(root[rows], score[rows])[0]
        # After tiny steps the Hessian still belongs to the point; else it is made again.
        active[rows] = renewed | ((before > 1e-8) & (decrement[rows] < before))
    good = np.isfinite(hessian).all(axis=(1, 2)) & np.isfinite(value)
    kind = np.where(good, "rough", "moving")  # rough: no parabola, or not at its top
    rows = np.flatnonzero(good & (decrement < 1e-6))  # nats
    kind[rows[_is_parabola(density, x[rows], value[rows], root[rows])]] = "mode"
    return Stationary(x, value, root, kind)


def _newton_steps(
    density: CountedTarget, x: np.ndarray, value: np.ndarray, score: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few Newton steps with one Hessian, each kept where it lowers the Newton decrement."""
    for _ in range(3):  # more steps with one Hessian gain less than a new one
        decrement, step = _newton(root, score)
        ahead, slope = density.log_density_and_score(x + step)
        better = np.isfinite(ahead) & (_newton(root, slope)[0] < decrement)
        if not better.any():
            break
        x = np.where(better[:, None], x + step, x)
        score = np.where(better[:, None], slope, score)
        value = np.where(better, ahead, value)
    return x, value, score


def hessians_at(
    density: CountedTarget, x: np.ndarray, width: np.ndarray, step: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Hessians of -log p at points (n, d), and the widths (n, d) that they imply, `width` where they do not.

    They are differences of the score over `step` widths either way, a small number of them if it is None.
    """
    n, d = x.shape
    h = width * (step or (1e-4 if density.target.has_score else 1e-2))
    moves = h[:, None, :] * np.eye(d)
    points = np.concatenate([x[:, None] + moves, x[:, None] - moves], axis=1)
    scores = density.score(points.reshape(-1, d)).reshape(n, 2, d, d)
    slopes = (scores[:, 1] - scores[:, 0]) / (2 * h[:, :, None])
    hessian = 0.5 * (slopes + slopes.transpose(0, 2, 1))
    bend = np.einsum("nii->ni", hessian)
    learnt = np.isfinite(bend) & (bend > 0)
    return hessian, np.where(learnt, 1 / np.sqrt(np.where(learnt, bend, 1.0)), width)


def _inverse_roots(hessian: np.ndarray) -> np.ndarray:
    """R with R R' the inverse of Hessians (n, d, d); NaN where one is not positive definite.

    A Hessian is brought to unit diagonal before its eigenvalues are judged, so that units do not matter.
    """
    finite = np.isfinite(hessian).all(axis=(1, 2))
    safe = np.where(finite[:, None, None], hessian, np.eye(hessian.shape[1]))
    size = np.abs(np.einsum("nii->ni", safe))
    scale = 1 / np.sqrt(np.where(size > 0, size, 1.0))
    values, vectors = np.linalg.eigh(safe * scale[:, None, :] * scale[:, :, None])
    good = finite & (values[:, 0] > MIN_HESSIAN_EIGENVALUE)
    values = np.where(good[:, None], values, np.nan)
    return scale[:, :, None] * vectors / np.sqrt(values)[:, None, :]


def _newton(root: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Newton decrements in nats and steps uphill; NaN where the Hessian is not positive definite."""
    along = np.einsum("nij,ni->nj", root, score)
    return 0.5 * np.sum(along**2, axis=1), np.einsum("nij,nj->ni", root, along)


def _is_parabola(density: CountedTarget, x: np.ndarray, top: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Whether log p drops about as a parabola does at a tenth of the width about each point."""
    axes = PARABOLA_RADIUS * root.transpose(0, 2, 1)
    points = np.stack([x[:, None] + axes, x[:, None] - axes], axis=1)
    around = density.log_density(points.reshape(-1, x.shape[1])).reshape(axes.shape[0], 2, axes.shape[1])
    drop = top[:, None] - around.mean(axis=1)
    expected = 0.5 * PARABOLA_RADIUS**2
    noise = 1e-12 * np.abs(top[:, None])
    good = (drop < PARABOLA_FACTOR * expected + noise) & (drop > expected / PARABOLA_FACTOR - noise)
    return good.all(axis=1)


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
        bend = np.nan_to_num(hessians_at(density, x[None], width[None], step=1.0)[0][0])
        axes = np.linalg.eigh(bend * np.outer(width, width))[1].T * width
        along = _drop_radius(density, x, top, axes)
        if along.prod() > 1:  # not in a corner of the support, where all axes but one may leave it both ways
            rays, reach = axes, along
    if not np.isfinite(reach).all():
        return FlatTop(x, top, endless=True)
    return FlatTop(x, top, peak_at(x, top, (reach[:, None] * rays).T, "flat"))


def _drop_radius(density: CountedTarget, x: np.ndarray, top: float, rays: np.ndarray) -> np.ndarray:
    """How far along each ray, the longer way, log p first drops by `TOP_DROP`; infinite if it never does.

    The shorter way to an edge of the support is of the size of rounding.
    """
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
    return np.where(low.any(axis=0), np.exp(far), np.inf).reshape(2, -1).max(axis=0)
