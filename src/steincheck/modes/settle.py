"""Ends of climbs made exact, many at a time: Newton steps, kinds of points, widths of flat tops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..target.counting import CountedTarget
from .climb import dot
from .merge import MIN_HESSIAN_EIGENVALUE, Peak, mode_root, spectrum

SETTLED_DECREMENT = 1e-6  # nats: Newton decrement that a mode must have
PARABOLA_RADIUS = 0.1  # standard deviations from a mode at which log p must drop as a parabola does ...
PARABOLA_FACTOR = 5.0  # ... up to this factor: at the top of -x^4, or at a kink, the Hessian is an accident
TOP_DROP = 0.5  # nats: the width of a flat or pointed top is where log p has dropped by this much, as at 1 sd
TOP_RADII = 4.0 ** np.arange(-16, 13)  # in units of the search, at which a flat top is looked at


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
    """Hessians of -log p at points (n, d), and the widths (n, d) that they imply.

    By differences of the score over steps small against `width` (n, d).
    """
    n, d = x.shape
    h = width * (1e-4 if density.target.has_score else 1e-2)
    moves = h[:, None, :] * np.eye(d)
    points = np.concatenate([x[:, None] + moves, x[:, None] - moves], axis=1)
    scores = density.score(points.reshape(-1, d)).reshape(n, 2, d, d)
    hessian = (scores[:, 1] - scores[:, 0]) / (2 * h[:, :, None])
    hessian = 0.5 * (hessian + hessian.transpose(0, 2, 1))
    bend = np.einsum("nii->ni", hessian)
    learnt = np.isfinite(bend) & (bend > 0)
    return hessian, np.where(learnt, 1 / np.sqrt(np.where(learnt, bend, 1.0)), width)


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
    """The highest place near one without a parabola: a mode, on a line of constant density, or neither."""

    x: np.ndarray
    log_density: float
    peak: Peak | None = None
    constant_along: str | None = None


def flat_top(density: CountedTarget, x: np.ndarray, unit: np.ndarray, *, max_gain: float) -> FlatTop:
    """The top near `x` where log p has no parabola, with its width.

    The highest of many points along the coordinates is taken until none is higher, then the distances are
    found at which log p has dropped by `TOP_DROP`: along coordinates and along pairs of them. Where log p
    rises by more than `max_gain` nats on the way, it is not a top.
    """
    d = len(x)
    first = top = float(density.log_density(x[None])[0])
    axes = np.concatenate([np.diag(unit), -np.diag(unit)])
    for _ in range(40):  # moves to the highest point seen
        points = x + (TOP_RADII[:, None, None] * axes).reshape(-1, d)
        values = density.log_density(points)
        best = int(np.argmax(values))
        if not values[best] > top + 1e-10 * max(1.0, abs(top)):
            break
        x = points[best]
        top = float(values[best])
        if top > first + max_gain:
            return FlatTop(x, top)
    again = settle(density, x[None], unit[None])
    if again.kind[0] == "mode":
        return FlatTop(x, top, Peak(again.x[0], float(again.log_density[0]), again.hessian[0]))
    reach = drop_radius(density, x, top, axes).reshape(2, d).min(axis=0)
    if not np.isfinite(reach).all():
        return FlatTop(x, top, None, f"coordinate {int(np.argmax(reach))}")
    form = _correlations(density, x, top, reach * unit)
    if np.linalg.eigvalsh(form)[0] < 1e-6:
        return FlatTop(x, top, None, "a direction")
    return FlatTop(x, top, Peak(x, top, form / np.outer(reach * unit, reach * unit), "flat"))


def _correlations(density: CountedTarget, x: np.ndarray, top: float, width: np.ndarray) -> np.ndarray:
    """Unit-diagonal form Q with u'Qu = 1/r^2, r the distance along u at which log p is `TOP_DROP` lower."""
    d = len(x)
    form = np.eye(d)
    if 1 < d <= 12:  # in more dimensions pairs are too many: only widths are measured
        i, j = np.triu_indices(d, k=1)
        half = np.sqrt(0.5) * np.diag(width)
        rays = np.concatenate([half[i] + half[j], half[i] - half[j]])
        reach = drop_radius(density, x, top, np.concatenate([rays, -rays])).reshape(2, 2, -1)
        along, across = np.mean(1 / np.minimum(reach, 1e6) ** 2, axis=0)
        form[i, j] = form[j, i] = (along - across) / (along + across)
    return form


def drop_radius(density: CountedTarget, x: np.ndarray, top: float, rays: np.ndarray) -> np.ndarray:
    """How far along each ray log p first drops by `TOP_DROP`; infinite if it never does."""
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
    return np.where(low.any(axis=0), np.exp(far), np.inf)
