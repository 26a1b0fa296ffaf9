"""Modes of a target: multi-start BFGS, merging by the Hessian-weighted distance, a walk to the neighbours."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from .draws import as_draws, as_generator
from .result import as_plain, note
from .target import CHUNKS, Target, log_density_at, score_at

ITERATIONS = 1000  # at most, a start (paper, App. F)
CLOSE, SETTLED = 1e-6, 1e-8  # Newton decrement, in nats, at which a climb rests, and that a mode must have
SAME = 0.01  # squared Hessian distance, and log density, within which a climb ended at a known mode
ZERO = 1e-9  # eigenvalues of a Hessian of unit diagonal not told from 0
NEAREST = 2.1  # standard deviations to the first stop on a ray
FARTHEST = 20.0  # standard deviations a ray goes at least, even out of the box
HALVINGS = 3  # of the stretch in which a ray left the basin of its mode
FIRST, FEWEST = 64, 16  # random rays a batch, at least: for the first mode, for any other
GROUP = 8  # modes explored together after the first
HITS, BATCHES = 3, 16  # random rays that must meet each direct neighbour of the first mode; batches at most
MOVING, SADDLE, SKIPPED = -1, -2, -3  # why a climb has no mode
COUNTS = (
    "starts converged not_converged outside_support saddle_points not_examined dropped rounds evaluations"
)


@dataclass(frozen=True, eq=False)
class Modes:
    """Modes of a target, highest first: local maxima of log p and the inverse Hessians of -log p there.

    `counts` is how many starts ended at each (0: met while exploring, or given by the user), `search` how the
    search went: starts, saddle points, what was dropped, rounds, modes explored, evaluations, why it stopped.
    """

    locations: np.ndarray  #: (M, d)
    covariances: np.ndarray  #: (M, d, d)
    log_density: np.ndarray  #: (M,), up to the target's constant
    counts: np.ndarray  #: (M,)
    warnings: tuple[str, ...] = ()
    search: Mapping[str, Any] = field(default_factory=dict)

    @property
    def laplace_weights(self) -> np.ndarray:
        """Share of each mode were it Gaussian: p(mu) det(A)^(1/2), normalised."""
        log_weight = self.log_density + 0.5 * np.linalg.slogdet(self.covariances)[1]
        weight = np.exp(log_weight - log_weight.max())
        return weight / weight.sum()

    def __len__(self) -> int:
        return len(self.locations)

    def __str__(self) -> str:
        lines = ["mode   log density  starts  Laplace weight  location"]
        for k, (x, weight) in enumerate(zip(self.locations, self.laplace_weights, strict=True)):
            place = ", ".join(f"{value:.4g}" for value in x[:5]) + (", ..." if len(x) > 5 else "")
            lines.append(f"{k:4d} {self.log_density[k]:13.4f} {self.counts[k]:7d} {weight:15.4f}  ({place})")
        lines += [f"search ended: {self.search['stopped']}"] if "stopped" in self.search else []
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        names = ("locations", "covariances", "log_density", "counts", "laplace_weights", "warnings", "search")
        return as_plain({name: getattr(self, name) for name in names})


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
        return (_squared(self.x - x, hessian) < SAME) & (np.abs(self.log_density - log_density) < SAME)


def find_modes(
    target: Target, *, bounds: Any = None, starts: Any = None, n_starts: int = 512, max_modes: int = 64,
    beta: float = 1.0, cut: float | None = None, explore: bool = True, max_evaluations: int = 5_000_000,
    progress: bool | None = None, n_jobs: int | None = None, rng: np.random.Generator | int | None = None,
) -> Modes:  # fmt: skip
    """Find the modes of a target (paper, Alg. 2) and walk from them to their neighbours.

    All starts climb in lock-step; each distinct end point is settled by SciPy's BFGS and Newton steps, saddle
    points are dropped, the rest is merged. Then rays leave each mode: the first other basin on a ray is a
    near neighbour, explored in its turn. The heaviest mode is explored until its neighbours are complete, and
    these are kept before others where there are more than `max_modes`.

    Parameters
    ----------
    target : Target
    bounds : (low, high), or one such pair a coordinate
        The box of the `n_starts` uniform starts (see `bounds_from_draws`); modes outside of it are kept too.
    starts : array (n, d), optional
        Further starts, or all of them if `bounds` is not given.
    beta : float
        Merge modes whose squared distance, weighted by the average of their Hessians, is below this.
    cut : float, optional
        Drop modes whose log Laplace weight is this far below the largest; 20 + d/2 if not given.
    explore, max_evaluations : bool, int
        Walk to the neighbours; no further mode is explored after so many evaluations.
    progress : bool, optional
        Show a progress bar; by default on a terminal where rich is installed.
    n_jobs : int, optional
        Climb from blocks of starts in parallel (extra ``parallel``); the result does not depend on it.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 6) ** 2), dim=1)
    >>> sorted(sc.find_modes(target, bounds=(-10, 10), rng=0).locations.round(6).ravel().tolist())
    [0.0, 6.0]
    """
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")
    whole = {"n_starts": n_starts, "max_modes": max_modes, "max_evaluations": max_evaluations}
    for name, value in whole.items():
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise ValueError(f"`{name}` must be a positive integer, got {value!r}")
    cut = 20 + target.dim / 2 if cut is None else cut
    if not (beta > 0 and cut > 0):
        raise ValueError(f"`beta` and `cut` must be positive, got {beta!r} and {cut!r}")
    streams, peaks = as_generator(rng).spawn(2), list[Peak]()
    tally = Counter(dict.fromkeys(COUNTS.split(), 0))
    x, box = _starts(target, bounds, starts, n_starts, streams[0])
    plan = Plan(target, box, beta, cut, max_modes, max_evaluations, n_jobs, tally)
    with _bar(progress) as tick:
        tick("climbing from the starts", 0, 1)
        width = np.where(box[1] > box[0], box[1] - box[0], 1.0)
        ends = _climb_all(plan, x, np.diag(width**2), 0.1)
        label = _gather(plan, ends, peaks, np.argsort(-ends.log_density, kind="stable"), width, max_modes)
        outside = int(np.sum(ends.log_density == -np.inf))
        tally.update(starts=len(x), converged=int(np.sum(label >= 0)), outside_support=outside)
        tally.update(not_converged=int(np.sum(label == MOVING)) - outside)
        tally.update(saddle_points=int(np.sum(label == SADDLE)), not_examined=int(np.sum(label == SKIPPED)))
        if not peaks:
            raise ValueError(
                f"no mode found from {len(x)} starts: {outside} lie where the density is 0, "
                f"{tally['saddle_points']} ended at saddle points, {tally['not_converged']} nowhere. Give "
                "`bounds` or `starts` inside the support; a density without a smooth maximum has no modes"
            )
        if explore:
            order, explored, stopped = _explore(plan, peaks, streams[1], tick)
        else:
            order, explored, stopped = _heaviest(peaks, plan.cut), [], "not asked to explore"
    counts = np.bincount(label[label >= 0], minlength=len(peaks))
    return _record(plan, peaks, order, counts, explored, stopped)


def _starts(
    target: Target, bounds: Any, starts: Any, n_starts: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The starts (n, d) and the box (2, d) they come from."""
    x = np.empty((0, target.dim))
    if starts is not None:
        x = as_draws(starts, target.dim, minimum=1, name="starts")
    if bounds is None:
        if starts is None:
            raise ValueError("give `bounds`, (low, high) or one such pair a coordinate, or `starts`, or both")
        return x, np.stack([x.min(axis=0), x.max(axis=0)])
    try:
        pairs = np.asarray(bounds, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"`bounds` must be (low, high) pairs of numbers, got {bounds!r}") from None
    if pairs.shape not in ((2,), (target.dim, 2)):
        raise ValueError(
            f"`bounds` must be one (low, high) pair or {target.dim} of them, got shape {pairs.shape}"
        )
    box = np.broadcast_to(pairs, (target.dim, 2)).T
    for k in np.flatnonzero(~(np.isfinite(box).all(axis=0) & (box[0] < box[1]))):
        raise ValueError(f"`bounds` must be finite with low < high, coordinate {k} has {box[:, k].tolist()}")
    return np.concatenate([x, rng.uniform(box[0], box[1], size=(n_starts, target.dim))]), box


def bounds_from_draws(x: Any, widen: float = 1.0) -> np.ndarray:
    """The range of draws (n, d), longer at both ends by `widen` times its length: d (low, high) pairs."""
    x = as_draws(x, 1 if np.ndim(x) < 2 else np.shape(x)[1])
    if not (np.isfinite(widen) and widen >= 0):
        raise ValueError(f"`widen` must be finite and not negative, got {widen!r}")
    low, high = x.min(axis=0), x.max(axis=0)
    margin = np.where(high > low, widen * (high - low), np.maximum(1.0, np.abs(low)))
    return np.stack([low - margin, high + margin], axis=1)


def merge(
    locations: np.ndarray, hessians: np.ndarray, log_density: np.ndarray, *, beta: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Merge points that are closer than they are wide (paper, Alg. 2).

    In turn each joins the nearest of those kept if d' (H_i + H_j)/2 d < beta, d their difference and H the
    Hessians of -log p, and takes its place if its log density is larger; else it is kept itself. Returns the
    rows kept, and for every row the position among them of the one it joined.
    """
    kept, label = list[int](), np.empty(len(locations), dtype=int)
    for i, x in enumerate(locations):
        label[i] = k = _nearest(x, hessians[i], locations[kept], hessians[kept], beta)
        if k == len(kept):
            kept.append(i)
        elif log_density[i] > log_density[kept[k]]:
            kept[k] = i
    return np.array(kept, dtype=int), label


def _nearest(
    x: np.ndarray, hessian: np.ndarray, others: np.ndarray, hessians: np.ndarray, beta: float
) -> int:
    """The nearest of the others, or their number if none is within `beta`."""
    distance = 0.5 * (_squared(others - x, hessian) + _squared(others - x, hessians))
    return int(np.argmin(distance)) if distance.min(initial=np.inf) < beta else len(others)


def as_modes(modes: Any, target: Target) -> Modes:
    """Validate a user's modes, in the user's order: `Modes`, a tuple (locations, covariances), or locations.

    Without covariances the inverse Hessians of -log p at the locations are taken.
    """
    pair = modes if isinstance(modes, tuple) and len(modes) == 2 else (modes, None)
    locations, covariances = (modes.locations, modes.covariances) if isinstance(modes, Modes) else pair
    x = as_draws(locations, target.dim, minimum=1, name="modes")
    log_density, shape = log_density_at(target, x), (len(x), target.dim, target.dim)
    if covariances is None:
        roots = [_inverse_root(_curvature(target, point, np.ones(target.dim))) for point in x]
        bad = [k for k, root in enumerate(roots) if root is None]
        if bad:
            raise ValueError(
                f"`modes` must be local maxima: at rows {bad[:10]} the Hessian of -log p is not positive "
                "definite; correct them, or give covariances too, as a tuple (locations, covariances)"
            )
        covariances = [root @ root.T for root in roots if root is not None]
    matrices = np.asarray(covariances, dtype=float)
    if matrices.shape != shape or not np.isfinite(matrices).all():
        raise ValueError(
            f"the covariances of `modes` must be finite, of shape {shape}, got shape {matrices.shape}"
        )
    for k, matrix in enumerate(matrices):
        smallest = np.linalg.eigvalsh(matrix)[0]
        if smallest <= 0 or not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * np.abs(matrix).max()):
            raise ValueError(
                f"the covariances of `modes` must be symmetric and positive definite, number {k} is not: its "
                f"smallest eigenvalue is {smallest:.3g}"
            )
    label = merge(x, np.linalg.inv(matrices), log_density, beta=1e-6)[1]
    twins = np.flatnonzero(np.bincount(label)[label] > 1)
    if len(twins):
        raise ValueError(f"`modes` must differ from each other, rows {twins[:10].tolist()} hold duplicates")
    return modes if isinstance(modes, Modes) else Modes(x, matrices, log_density, np.zeros(len(x), dtype=int))


def _record(
    plan: Plan, peaks: list[Peak], order: list[int], counts: np.ndarray, explored: list[int], stopped: str
) -> Modes:
    """Drop what has no mass or is over the cap, sort by height, and say what the user should know."""
    tally, heavy, notes = plan.tally, _heaviest(peaks, plan.cut), list[str]()
    chosen = [k for k in dict.fromkeys(order) if k in heavy][: plan.max_modes]
    tally["dropped"] = len(peaks) - len(heavy)
    if len(heavy) > len(chosen) or tally["not_examined"]:
        stopped = f"there are more than max_modes = {plan.max_modes} modes"
        note(notes, f"{stopped}: not all were looked for")
    if not plan.target.has_score:
        note(notes, "the target has no score: finite differences of its log density are used")
    if flat := sum(peaks[k].kind == "flat" for k in chosen):
        note(notes, f"{flat} of {len(chosen)} modes have a flat top: their covariance is set to the identity")
    trouble = {"not_converged": "did not converge", "outside_support": "lie where the density is 0"}
    for key, words in trouble.items():
        if tally[key] > 0.1 * tally["starts"]:
            note(notes, f"{tally[key]} of {tally['starts']} starts {words}: modes may be missing")
    chosen.sort(key=lambda k: -peaks[k].log_density)
    search = {**tally, "explored": [chosen.index(k) for k in explored if k in chosen], "stopped": stopped}
    x, log_density, hessians, _ = _columns([peaks[k] for k in chosen])
    covariances = np.linalg.inv(hessians)
    covariances = 0.5 * (covariances + covariances.transpose(0, 2, 1))
    return Modes(x, covariances, log_density, counts[chosen], tuple(notes), search)


def _heaviest(peaks: list[Peak], cut: float) -> list[int]:
    """Indices by Laplace weight, without those `cut` below the largest; flat modes, having none, last."""
    weight = np.array([peak.log_density - 0.5 * np.linalg.slogdet(peak.hessian)[1] for peak in peaks])
    flat = np.array([peak.kind == "flat" for peak in peaks])
    keep = flat | (weight >= weight[~flat].max(initial=-np.inf) - cut)
    return [int(k) for k in np.lexsort((-weight, flat)) if keep[k]]


def _climb_all(plan: Plan, x: np.ndarray, metric: np.ndarray, stride: float) -> Ends:
    """Climb from every row of `x`, in blocks of fixed size so that the result does not depend on `n_jobs`."""
    target, size = plan.target, _block(plan.target)
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


def _settle(plan: Plan, x: np.ndarray, width: np.ndarray) -> Peak:
    """SciPy's BFGS from `x`, a few Newton steps, and what kind of stationary point it is."""
    target, root = plan.target, _inverse_root(_curvature(plan.target, x, width))
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
        hessian = _curvature(target, x, width)
        newton = _inverse_root(hessian)
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


def _inverse_root(hessian: np.ndarray) -> np.ndarray | None:
    """L with L L' = inverse Hessian, or None where that is not positive definite."""
    scale, values, vectors = _spectrum(hessian)
    return None if values[0] <= ZERO else scale[:, None] * vectors / np.sqrt(values)


def _curvature(target: Target, x: np.ndarray, width: np.ndarray) -> np.ndarray:
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


def _gather(
    plan: Plan, ends: Ends, peaks: list[Peak], order: np.ndarray, width: np.ndarray, limit: int
) -> np.ndarray:
    """Add the modes at which climbs ended to `peaks`, in `order`; returns each climb's mode, or why none."""
    label = np.full(len(ends.x), MOVING)
    for k, known in enumerate(peaks):
        label[ends.at(*known[:3])] = k
    for i in order[ends.rest[order]]:
        if label[i] >= 0:
            continue
        peak = _settle(plan, ends.x[i], width) if len(peaks) < limit else None
        if peak is None or peak.kind in ("saddle", "moving"):
            label[i] = SKIPPED if peak is None else SADDLE if peak.kind == "saddle" else MOVING
            continue
        x, _, hessians, _ = _columns([*peaks, peak])
        k = _nearest(peak.x, peak.hessian, x[:-1], hessians[:-1], plan.beta)
        if k == len(peaks):
            peaks.append(peak)
        elif peak.log_density > peaks[k].log_density:
            peaks[k] = peak
        label[(label == MOVING) & ends.at(*peaks[k][:3])] = k
        label[i] = k
    return label


def _columns(peaks: list[Peak]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(column) for column in zip(*peaks, strict=True))


def _explore(
    plan: Plan, peaks: list[Peak], rng: np.random.Generator, tick: Callable[[str, int, int], object]
) -> tuple[list[int], list[int], str]:
    """Walk from mode to mode, breadth first; returns the order in which to keep modes, and why it ended."""
    d, tally = plan.target.dim, plan.tally
    queue = [(k, 1) for k in _heaviest(peaks, plan.cut) if peaks[k].kind == "mode"]
    explored, first, learnt = list[int](), list[int](), np.empty((0, d))
    stopped = "a round of exploration found nothing new"
    while queue:
        tick("exploring", len(explored), len(explored) + len(queue))
        if explored and (len(peaks) >= plan.max_modes or tally["evaluations"] >= plan.max_evaluations):
            over = "max_modes" if len(peaks) >= plan.max_modes else "max_evaluations"
            stopped = f"{over} reached while exploring"
            break
        known, size = len(peaks), GROUP if explored else 1
        group, queue = queue[:size], queue[size:]
        if explored:
            each = max(FEWEST, min(2 * d, CHUNKS[1] // len(group)))
            fans = [np.concatenate([_random_rays(peaks[k], each, rng), learnt, -learnt]) for k, _ in group]
            homes = np.repeat([k for k, _ in group], each + 2 * len(learnt))
            _walk(plan, peaks, homes, np.concatenate(fans), plan.max_modes)
        else:
            first, learnt = _surroundings(plan, peaks, group[0][0], rng)
        explored += [k for k, _ in group]
        tally["rounds"] = group[-1][1]
        heavy = _heaviest(peaks, plan.cut)
        queue += [(k, tally["rounds"] + 1) for k in range(known, len(peaks)) if k in heavy]
    return [*first, *_heaviest(peaks, plan.cut)], explored, stopped


def _random_rays(peak: Peak, n: int, rng: np.random.Generator) -> np.ndarray:
    """Directions uniform on the ellipsoid of the mode."""
    return rng.normal(size=(n, len(peak.x))) @ _inverse_root(peak.hessian).T  # type: ignore[union-attr]


def _surroundings(
    plan: Plan, peaks: list[Peak], k: int, rng: np.random.Generator
) -> tuple[list[int], np.ndarray]:
    """Mode k and those around it, and the displacements to its direct neighbours, at most d of them.

    A neighbour is direct if no other is nearer to both. Rays along the coordinates, along the axes of the
    Hessian and at random; more random ones until each direct neighbour they meet was met `HITS` times.
    """
    d, home, met, around = plan.target.dim, peaks[k], Counter[int](), set[int]()
    axes = np.concatenate([np.eye(d), _inverse_root(home.hessian).T])  # type: ignore[union-attr]
    axes = np.concatenate([axes, -axes])
    for _ in range(BATCHES):
        rays = np.concatenate([_random_rays(home, max(FIRST, 2 * d), rng), axes])
        label = _walk(plan, peaks, np.full(len(rays), k), rays, len(peaks) + plan.max_modes)
        met.update(label[: len(rays) - len(axes)].tolist())
        around |= set(label[label >= 0].tolist()) - {k}
        near = np.array(sorted(around), dtype=int)
        gaps = np.array([peaks[j].x - home.x for j in near]).reshape(-1, d)
        size = _squared(gaps, home.hessian)
        detours = [np.maximum(size, _squared(gaps - gap, home.hessian)).min() for gap in gaps]
        direct = np.array(detours) > 0.999 * size
        if d == 1 or all(met[j] == 0 or met[j] >= HITS for j in near[direct].tolist()):
            break
        axes = axes[:0]
    order = np.lexsort((size, ~direct))
    return [k, *near[order].tolist()], gaps[order][: min(d, direct.sum())]


def _walk(plan: Plan, peaks: list[Peak], homes: np.ndarray, rays: np.ndarray, limit: int) -> np.ndarray:
    """Walk out along rays until the climb no longer comes back; returns the mode first met on each, or -1.

    `homes` says from which mode a ray leaves; one whose climbs all came back has met its home.
    """
    step = 4 * _block(plan.target)
    if len(rays) > step:
        parts = [slice(i, i + step) for i in range(0, len(rays), step)]
        return np.concatenate([_walk(plan, peaks, homes[part], rays[part], limit) for part in parts])
    x, top, hessian, _ = _columns([peaks[k] for k in homes])
    covariance = np.linalg.inv(hessian)
    rays = rays / np.sqrt(_squared(rays, hessian))[:, None]
    wall = np.where(rays > 0, 1.5 * plan.box[1] - 0.5 * plan.box[0], 1.5 * plan.box[0] - 0.5 * plan.box[1])
    exits = np.divide(wall - x, rays, out=np.full(rays.shape, np.inf), where=rays != 0)
    reach = np.maximum(exits.min(axis=1), FARTHEST)
    near, far = np.zeros(len(x)), np.full(len(x), np.inf)
    ends = Ends(x.copy(), top.copy(), np.zeros(len(x), bool))

    def probe(rows: np.ndarray, radius: np.ndarray) -> np.ndarray:
        part = _climb_all(plan, x[rows] + radius[rows, None] * rays[rows], covariance[rows], 1.0)
        back = part.at(x[rows], top[rows], hessian[rows])
        left = part.rest & ~back
        for whole, piece in zip(ends, part, strict=True):
            whole[rows[left]] = piece[left]
        near[rows[back]], far[rows[~back]] = radius[rows[back]], radius[rows[~back]]
        return rows[back]

    rows, radius = np.arange(len(x)), np.full(len(x), NEAREST)
    while len(rows):
        rows = probe(rows, radius)
        rows, radius = rows[radius[rows] < reach[rows]], np.minimum(2 * radius, reach)
    rows = np.flatnonzero(np.isfinite(far))
    for _ in range(HALVINGS if len(rows) else 0):
        probe(rows, 0.5 * (near + far))
    order = np.argsort(_squared(ends.x - x, hessian), kind="stable")
    label = _gather(plan, ends, peaks, order, np.sqrt(np.diag(covariance[0])), limit)
    plan.tally["not_examined"] += int(np.sum(label == SKIPPED))
    return label


def _block(target: Target) -> int:
    """Points climbed in lock-step: a batch compiled targets need not pad, unless d x d matrices get large."""
    return max(8, min(CHUNKS[1], 2**22 // target.dim**2))


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", a, b)


def _squared(gap: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """gap' H gap of every row, with one H or one a row."""
    return _dot(gap @ hessian if hessian.ndim == 2 else np.einsum("nd,nde->ne", gap, hessian), gap)


@contextmanager
def _bar(progress: bool | None) -> Iterator[Callable[[str, int, int], object]]:
    """A progress bar, on a terminal only unless asked for, and only where rich is installed."""
    shown = sys.stderr.isatty() if progress is None else progress
    if not (shown and find_spec("rich")):
        yield lambda text, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)
