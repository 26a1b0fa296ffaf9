"""Uphill: many points climb in lock-step by BFGS; SciPy's BFGS and Newton steps settle where they end."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from ..target import CHUNKS, Target, log_density_at, score_at

ITERATIONS = 1000  # at most, a start (paper, App. F)
CLOSE, SETTLED = 1e-6, 1e-8  # Newton decrement, in nats, at which a climb rests, and that a mode must have
SAME = 0.01  # squared Hessian distance, and log density, within which a climb ended at a known mode
ZERO = 1e-9  # eigenvalues of a Hessian of unit diagonal not told from 0


class Plan(NamedTuple):
    """Validated input of a search, and the counter it fills."""

    target: Target
    box: np.ndarray  # (2, d)
    beta: float
    cut: float
    max_modes: int
    max_evaluations: int
    n_jobs: int | None
    tally: Counter[str]


class Peak(NamedTuple):
    """A stationary point: a "mode", a "flat" one (singular Hessian), a "saddle"; or still "moving"."""

    x: np.ndarray
    log_density: float
    hessian: np.ndarray  # of -log p; the identity at a flat mode
    kind: str


class Ends(NamedTuple):
    """Where climbs ended, and whether at rest, so near a stationary point."""

    x: np.ndarray
    log_density: np.ndarray
    rest: np.ndarray

    def at(self, x: np.ndarray, log_density: Any, hessian: np.ndarray) -> np.ndarray:
        """Which ended at the mode `x`, or each at its own."""
        return (squared(self.x - x, hessian) < SAME) & (np.abs(self.log_density - log_density) < SAME)


def climb_all(plan: Plan, x: np.ndarray, metric: np.ndarray, stride: float) -> Ends:
    """Climb from every row of `x`, in blocks of fixed size so that the result does not depend on `n_jobs`."""
    target, size = plan.target, block(plan.target)
    metric = np.broadcast_to(metric, (len(x), *metric.shape[-2:]))
    blocks = [(target, x[i : i + size], metric[i : i + size], stride) for i in range(0, len(x), size)]
    if plan.n_jobs in (None, 1) or len(blocks) == 1:
        parts = [_climb(*block) for block in blocks]
    else:
        try:
            from joblib import Parallel, delayed
        except ImportError:
            raise ImportError("`n_jobs` needs joblib: pip install 'steincheck[parallel]'") from None
        # What from_jax compiled may be called from several threads; of other functions we cannot know.
        threads = getattr(target.log_density, "__module__", None) == Target.__module__
        pool = Parallel(n_jobs=plan.n_jobs, prefer="threads" if threads else "processes")
        parts = pool(delayed(_climb)(*block) for block in blocks)
    plan.tally["evaluations"] += sum(count for _, count in parts)
    return Ends(*(np.concatenate(column) for column in zip(*(ends for ends, _ in parts), strict=True)))


def _climb(target: Target, x: np.ndarray, metric: np.ndarray, stride: float) -> tuple[Ends, int]:
    """BFGS from all rows of `x` at once, the trial points of all evaluated as one batch.

    `metric` is the first inverse Hessian, up to a factor that makes the first step `stride` long in it.
    """
    x, g, inverse, t = x.copy(), np.zeros(x.shape), metric.copy(), np.full(len(x), stride)
    f = -log_density_at(target, x, proposal=True)
    active, learnt, rest = np.isfinite(f), np.zeros(len(x), bool), np.zeros(len(x), bool)
    g[active] = -score_at(target, x[active])
    count = len(x) + int(np.sum(active))
    for _ in range(ITERATIONS):
        rows = np.flatnonzero(active)
        step = -np.einsum("nij,nj->ni", inverse[rows], g[rows])
        slope = _dot(step, g[rows])
        rest[rows] = -slope < CLOSE
        active[rows] = moving = ~rest[rows]
        rows, step, slope = rows[moving], step[moving], slope[moving]
        if not len(rows):
            break
        factor = t[rows] / np.where(learnt[rows], 1.0, np.sqrt(-slope))
        trial, descent = x[rows] + factor[:, None] * step, factor * slope
        value = -log_density_at(target, trial, proposal=True)
        good = value <= f[rows] + 1e-4 * descent
        fail, fall = rows[~good], descent[~good]
        t[fail] *= np.clip(-fall / (2 * (value[~good] - f[fail] - fall)), 0.1, 0.5)  # vertex of the parabola
        stuck = fail[-fall < 1e-15 * np.maximum(1.0, np.abs(f[fail]))]
        rest[stuck], active[stuck] = True, False  # no gain that floating point could show
        rows, trial, descent = rows[good], trial[good], descent[good]
        count += len(good) + len(rows)
        if len(rows):
            gradient = -score_at(target, trial)
            s, y = trial - x[rows], gradient - g[rows]
            x[rows], f[rows], g[rows] = trial, value[good], gradient
            curved = _dot(s, y) > -1e-8 * descent
            t[rows] = np.where(curved, 1.0, 2 * t[rows])  # nothing learnt, as in tails: longer strides
            rows, s, y = rows[curved], s[curved], y[curved]
            sy, h = _dot(s, y)[:, None], inverse[rows]
            hy = np.einsum("nij,nj->ni", h, y)
            scale = np.where(learnt[rows, None], 1.0, sy / _dot(hy, y)[:, None])  # once, to the curvature met
            h, hy = h * scale[:, :, None], hy * scale
            right = np.stack([(1 + _dot(hy, y)[:, None] / sy) * s / sy - hy / sy, -s / sy], axis=1)
            inverse[rows], learnt[rows] = h + np.stack([s, hy], axis=2) @ right, True
    return Ends(x, -f, rest), count


def block(target: Target) -> int:
    """Points climbed in lock-step: a batch compiled targets need not pad, unless d x d matrices get large."""
    return max(8, min(CHUNKS[2], 2**22 // target.dim**2))


def settle(plan: Plan, x: np.ndarray, width: np.ndarray) -> Peak:
    """SciPy's BFGS from `x`, a few Newton steps, and what kind of stationary point it is."""
    from scipy.optimize import minimize  # slow to import

    target, root = plan.target, inverse_root(curvature(plan.target, x, width))
    root = np.diag(width) if root is None else root

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        point = (x + root @ z)[None]
        value = -float(log_density_at(target, point, proposal=True)[0])
        return value, -score_at(target, point)[0] @ root if value < np.inf else np.zeros_like(z)

    # Whitened by the Hessian, BFGS starts from the right metric and its test of the gradient is free of the
    # units of x. Its own verdict is not used: at a perfect optimum it often reports a loss of precision.
    options = {"maxiter": ITERATIONS, "gtol": 1e-7}
    with np.errstate(all="ignore"):
        found = minimize(objective, np.zeros(len(x)), jac=True, method="BFGS", options=options)
    x, width = x + root @ found.x, np.sqrt(np.diag(root @ found.hess_inv @ root.T))
    plan.tally["evaluations"] += 2 * found.nfev
    g = score_at(target, x[None])[0]
    for _ in range(5):
        hessian = curvature(target, x, width)
        newton = inverse_root(hessian)
        if newton is None or np.sum((g @ newton) ** 2) < 1e-20:
            break
        ahead = (x + newton @ (g @ newton))[None]
        if log_density_at(target, ahead, proposal=True)[0] == -np.inf:
            break
        gradient = score_at(target, ahead)[0]
        if np.sum((gradient @ newton) ** 2) >= np.sum((g @ newton) ** 2):
            break
        x, g = ahead[0], gradient
    log_density = float(log_density_at(target, x[None])[0])
    kind = _kind(target, x, log_density, g, hessian)
    return Peak(x, log_density, np.eye(len(x)) if kind == "flat" else hessian, kind)


def _kind(target: Target, x: np.ndarray, log_density: float, g: np.ndarray, hessian: np.ndarray) -> str:
    """What a point is, by the gradient and the Hessian there."""
    scale, values, vectors = _spectrum(hessian)
    if 0.5 * np.sum(((g * scale) @ vectors) ** 2 / np.maximum(np.abs(values), ZERO)) > SETTLED:
        return "moving"
    if values[0] < -ZERO:
        return "saddle"
    if values[0] <= ZERO:
        return "flat"
    # Is log p a parabola at a thousandth of its width? At the top of -x^4 the Hessian is an accident.
    axes = 1e-3 * (scale[:, None] * vectors / np.sqrt(values)).T
    around = log_density_at(target, np.concatenate([x + axes, x - axes]), proposal=True)
    return "flat" if log_density - around.min() > 1e-4 else "mode"


def _spectrum(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scale, eigenvalues and eigenvectors of a Hessian brought to unit diagonal, so free of units."""
    size = np.abs(np.diag(hessian))
    scale = 1 / np.sqrt(np.where(size > 0, size, 1.0))
    return scale, *np.linalg.eigh(hessian * scale * scale[:, None])


def inverse_root(hessian: np.ndarray) -> np.ndarray | None:
    """L with L L' = inverse Hessian, or None where that is not positive definite."""
    return None if _spectrum(hessian)[1][0] <= ZERO else mode_root(hessian)


def mode_root(hessian: np.ndarray) -> np.ndarray:
    """L with L L' = inverse of a positive definite Hessian, as modes have one."""
    scale, values, vectors = _spectrum(hessian)
    return scale[:, None] * vectors / np.sqrt(values)


def curvature(target: Target, x: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Hessian of -log p at a point: the target's own, else differences of its score.

    The steps must be small against the mode: `width` is a first guess, the first pass makes a better one.
    """
    for _ in range(2):
        if target.hessian is not None:
            hessian = -np.asarray(target.hessian(x[None]), dtype=float)[0]
            break
        h = width * (1e-4 if target.has_score else 1e-2)
        scores = score_at(target, np.concatenate([x + np.diag(h), x - np.diag(h)]))
        hessian = (scores[len(x) :] - scores[: len(x)]) / (2 * h[:, None])
        bend = np.diag(hessian)
        width = np.where(bend > 0, 1 / np.sqrt(np.where(bend > 0, bend, 1.0)), width)
    if hessian.shape != (len(x), len(x)) or not np.isfinite(hessian).all():
        raise ValueError(f"`hessian` must return finite values (n, d, d), at x = {x} it returns {-hessian}")
    return 0.5 * (hessian + hessian.T)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", a, b)


def squared(gap: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """gap' H gap of every row, with one H or one a row."""
    return _dot(gap @ hessian if hessian.ndim == 2 else np.einsum("nd,nde->ne", gap, hessian), gap)
