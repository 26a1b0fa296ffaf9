"""Modes of a target: multi-start BFGS, merging by the Hessian-weighted distance, a walk to the neighbours."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from .._validation import as_generator, as_numbers, as_positive, check_count
from ..draws import as_matrix
from ..result import Modes, note
from ..target import Target, log_density_at
from .climb import Peak, Plan, climb_all, curvature, inverse_root
from .explore import MOVING, SADDLE, SKIPPED, columns, gather, heaviest, nearest
from .explore import explore as walk_on

TRIED = 100  # draws from which `check` climbs to see whether their modes are known
STRANGERS = 32  # unknown modes after which no more are looked at
COUNTS = (
    "starts converged not_converged outside_support saddle_points not_examined dropped rounds evaluations"
)


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
        check_count(value, name)
    if n_jobs is not None and (not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0):
        raise ValueError(f"`n_jobs` must be None or an integer other than 0, got {n_jobs!r}")
    cut = 20 + target.dim / 2 if cut is None else cut
    as_positive(beta, "beta")
    as_positive(cut, "cut")
    streams, peaks = as_generator(rng).spawn(2), list[Peak]()
    tally = Counter(dict.fromkeys(COUNTS.split(), 0))
    x, box = _starts(target, bounds, starts, n_starts, streams[0])
    plan = Plan(target, box, beta, cut, max_modes, max_evaluations, n_jobs, tally)
    with _bar(progress) as tick:
        tick("climbing from the starts", 0, 1)
        width = np.where(box[1] > box[0], box[1] - box[0], 1.0)
        ends = climb_all(plan, x, np.diag(width**2), 0.1)
        label = gather(plan, ends, peaks, np.argsort(-ends.log_density, kind="stable"), width, max_modes)
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
            order, explored, stopped = walk_on(plan, peaks, streams[1], tick)
        else:
            order, explored, stopped = heaviest(peaks, plan.cut), [], "not asked to explore"
    counts = np.bincount(label[label >= 0], minlength=len(peaks))
    return _record(plan, peaks, order, counts, explored, stopped)


def _starts(
    target: Target, bounds: Any, starts: Any, n_starts: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The starts (n, d) and the box (2, d) they come from."""
    x = np.empty((0, target.dim))
    if starts is not None:
        x = as_matrix(starts, target.dim, minimum=1, name="starts")
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
    x = as_matrix(x, 1 if np.ndim(x) < 2 else np.shape(x)[1])
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
        label[i] = k = nearest(x, hessians[i], locations[kept], hessians[kept], beta)
        if k == len(kept):
            kept.append(i)
        elif log_density[i] > log_density[kept[k]]:
            kept[k] = i
    return np.array(kept, dtype=int), label


def known_modes(
    modes: Any, target: Target, x: np.ndarray, bounds: Any, *, notes: list[str], rng: np.random.Generator,
    starts: np.ndarray | None = None, n_jobs: int | None = None,
) -> Modes:  # fmt: skip
    """The user's modes, or those found in the box `bounds`, by default the range of the draws `x`."""
    if modes is not None:
        return as_modes(modes, target)
    box = bounds_from_draws(x) if bounds is None else bounds
    found = find_modes(target, bounds=box, starts=starts, n_jobs=n_jobs, rng=rng)
    notes.extend(found.warnings)
    return found


def climb_from_draws(
    x: np.ndarray, target: Target, known: Modes, rng: np.random.Generator
) -> tuple[int, int, np.ndarray]:
    """Climb from up to `TRIED` draws: how many, how many came to a mode that is not known, and such modes.

    Only smooth, curved maxima count: on rings and plateaus every climb ends somewhere else. For warnings
    only: modes found in this way depend on the draws, and a test must not be made with them.
    """
    starts = x[rng.permutation(len(x))[:TRIED]]
    hessians = np.linalg.inv(known.covariances)
    peaks = [Peak(*row, "mode") for row in zip(known.locations, known.log_density, hessians, strict=True)]
    metric, limit = known.covariances.mean(axis=0), len(known) + STRANGERS
    box = np.stack([starts.min(axis=0), starts.max(axis=0)])
    plan = Plan(target, box, 1.0, 20 + target.dim / 2, limit, 1, None, Counter())
    ends = climb_all(plan, starts, metric, 0.5)
    order = np.argsort(-ends.log_density, kind="stable")
    label = gather(plan, ends, peaks, order, np.sqrt(np.diag(metric)), limit)
    new = [k for k in heaviest(peaks, plan.cut) if k >= len(known) and peaks[k].kind == "mode"]
    if not new:
        return len(starts), 0, np.empty((0, target.dim))
    return len(starts), int(np.isin(label, new).sum()), np.array([peaks[k].x for k in new])


def as_modes(modes: Any, target: Target) -> Modes:
    """Validate a user's modes, in the user's order: `Modes`, a tuple (locations, covariances), or locations.

    Without covariances the inverse Hessians of -log p at the locations are taken.
    """
    pair = modes if isinstance(modes, tuple) and len(modes) == 2 else (modes, None)
    locations, covariances = (modes.locations, modes.covariances) if isinstance(modes, Modes) else pair
    if not np.size(locations):
        raise ValueError("`modes` must hold at least one location, got none")
    x = as_matrix(locations, target.dim, minimum=1, name="modes")
    log_density, shape = log_density_at(target, x), (len(x), target.dim, target.dim)
    if covariances is None:
        roots = [inverse_root(curvature(target, point, np.ones(target.dim))) for point in x]
        bad = [k for k, root in enumerate(roots) if root is None]
        if bad:
            raise ValueError(
                f"`modes` must be local maxima: at rows {bad[:10]} the Hessian of -log p is not positive "
                "definite; correct them, or give covariances too, as a tuple (locations, covariances)"
            )
        covariances = [root @ root.T for root in roots if root is not None]
    matrices = as_numbers(covariances, "modes", "given with covariances that are numbers")
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
    if isinstance(modes, Modes):  # found for another constant, perhaps: the heights are those of this target
        return replace(modes, locations=x, covariances=matrices, log_density=log_density)
    return Modes(x, matrices, log_density, np.zeros(len(x), dtype=int))


def _record(
    plan: Plan, peaks: list[Peak], order: list[int], counts: np.ndarray, explored: list[int], stopped: str
) -> Modes:
    """Drop what has no mass or is over the cap, sort by height, and say what the user should know."""
    tally, heavy, notes = plan.tally, heaviest(peaks, plan.cut), list[str]()
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
    x, log_density, hessians, _ = columns([peaks[k] for k in chosen])
    covariances = np.linalg.inv(hessians)
    covariances = 0.5 * (covariances + covariances.transpose(0, 2, 1))
    return Modes(x, covariances, log_density, counts[chosen], tuple(notes), search)


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
