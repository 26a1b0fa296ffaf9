"""The paper's search (Alg. 2): uniform starts in a box, merging, and a walk to the neighbours."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._progress import progress_bar
from .._validation import (
    RandomSource,
    announce,
    as_count,
    as_one_positive,
    as_pairs,
    check_switch,
    integer_seed,
)
from ..result import Modes, ModeSearch
from ..result.modes import SearchEnd
from ..target import NO_SCORE, Target, require_target
from ..typing import BoundsLike
from .arguments import as_starts
from .climb import climb
from .explore import MOVING_LABEL, SADDLE_LABEL, SKIPPED_LABEL, Plan, gather, heaviest_peaks
from .explore import explore as walk_on
from .merge import Peak, columns, default_cut
from .surface import Surface

N_STARTS = 512
MAX_BOX_MODES = 64
MAX_BOX_EVALUATIONS = 5_000_000
TALLIED_EVENTS = (
    "starts",
    "converged",
    "not_converged",
    "outside_support",
    "saddle_points",
    "not_examined",
    "dropped",
    "rounds",
    "evaluations",
    "non_finite",
)


def box_search(
    target: Target,
    bounds: BoundsLike | None = None,
    *,
    starts: ArrayLike | None = None,
    n_starts: int = N_STARTS,
    max_modes: int = MAX_BOX_MODES,
    beta: float = 1.0,
    cut: float | None = None,
    explore: bool = True,
    max_evaluations: int = MAX_BOX_EVALUATIONS,
    progress: bool | None = None,
    rng: RandomSource = None,
) -> Modes:
    """Find the modes of a target from uniform starts in a box (paper, Alg. 2).

    All starts climb in lock-step; each distinct end point is settled by SciPy's BFGS and Newton steps, saddle
    points are dropped, the rest is merged. Then rays leave each mode: the first other basin on a ray is a
    near neighbour, explored in its turn. The heaviest mode is explored until its neighbours are complete, and
    these are kept before others where there are more than `max_modes`. `find_modes` needs no box and finds
    more; this is the search of the paper's experiments.

    Parameters
    ----------
    target : Target
    bounds : (low, high), or one such pair per coordinate
        The box of the `n_starts` uniform starts; modes outside of it are kept too.
    starts : array (n, d), optional
        Further starts, or all of them if `bounds` is not given.
    n_starts : int
        Number of uniform starts.
    max_modes : int
        Modes returned, at most.
    beta : float
        Merge modes whose squared distance, weighted by the average of their Hessians, is below this.
    cut : float, optional
        Drop modes whose log Laplace weight is this far below the largest; 20 + d/2 if not given.
    explore : bool
        Walk to the neighbours.
    max_evaluations : int
        No further mode is explored after this many evaluations.
    progress : bool, optional
        Show a progress bar; by default on a terminal where rich is installed.
    rng : int, Generator or SeedSequence, optional

    Returns
    -------
    Modes

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 6) ** 2), dim=1)
    >>> sorted(sc.box_search(target, (-10, 10), rng=0).locations.round(6).ravel().tolist())
    [0.0, 6.0]
    """
    require_target(target)
    n_starts = as_count(n_starts, "n_starts")
    max_modes = as_count(max_modes, "max_modes")
    max_evaluations = as_count(max_evaluations, "max_evaluations", maximum=10**12)
    check_switch(explore, "explore")
    check_switch(progress, "progress", optional=True)
    as_one_positive(beta, "beta")
    if cut is not None:
        as_one_positive(cut, "cut")
    if bounds is None and starts is None:
        raise ValueError("give `bounds`, (low, high) or one such pair per coordinate, or `starts`, or both")
    seed = integer_seed(rng)
    modes = box_search_core(
        target,
        None if bounds is None else as_box(bounds, target.dim),
        None if starts is None else as_starts(starts, target.dim),
        np.random.default_rng(seed),
        n_starts=n_starts,
        max_modes=max_modes,
        beta=beta,
        cut=cut,
        explore=explore,
        max_evaluations=max_evaluations,
        progress=progress,
    )
    announce(modes.warnings)
    return with_seed(modes, seed)


def with_seed(modes: Modes, seed: int) -> Modes:
    """The modes, their search recording the seed that gives them again."""
    assert modes.search is not None
    return replace(modes, search=replace(modes.search, seed=seed))


def box_search_core(
    target: Target,
    box: np.ndarray | None,
    starts: np.ndarray | None,
    rng: np.random.Generator,
    *,
    n_starts: int = N_STARTS,
    max_modes: int = MAX_BOX_MODES,
    beta: float = 1.0,
    cut: float | None = None,
    explore: bool = True,
    max_evaluations: int = MAX_BOX_EVALUATIONS,
    progress: bool | None = None,
) -> Modes:
    """As `box_search` with a box (2, d) or starts (n, d), or both; warnings are in the record only."""
    if cut is None:
        cut = default_cut(target.dim)
    streams = rng.spawn(2)
    x = np.empty((0, target.dim)) if starts is None else starts
    if box is None:
        box = np.stack([x.min(axis=0), x.max(axis=0)])
    else:
        x = np.concatenate([x, streams[0].uniform(box[0], box[1], size=(n_starts, target.dim))])
    tally = Counter(dict.fromkeys(TALLIED_EVENTS, 0))
    plan = Plan(Surface(target), box, beta, cut, max_modes, max_evaluations, tally)
    return _search(plan, x, streams[1], explore, progress)


def _search(
    plan: Plan, x: np.ndarray, rng: np.random.Generator, explore: bool, progress: bool | None
) -> Modes:
    peaks = list[Peak]()
    reason: SearchEnd
    tally = plan.tally
    box = plan.box
    with progress_bar(progress) as tick:
        tick("climbing from the starts", 0, 1)
        width = np.where(box[1] > box[0], box[1] - box[0], 1.0)
        ends = climb(plan.surface, x, np.diag(width**2), 0.1)
        order = np.argsort(-ends.log_density, kind="stable")
        label = gather(plan, ends, peaks, order, width, plan.max_modes)
        _count(plan, label, len(x), int(np.sum(ends.log_density == -np.inf)))
        if not peaks:
            raise ValueError(
                f"no mode found from {len(x)} starts: {tally['outside_support']} lie where the density is 0, "
                f"{tally['saddle_points']} ended at saddle points, {tally['not_converged']} did not "
                "converge. Give `bounds` or other starting points inside the support; a density without a "
                "smooth maximum has no modes"
            )
        if explore:
            chosen, explored, reason = walk_on(plan, peaks, rng, tick)
        else:
            chosen = heaviest_peaks(peaks, plan.cut)
            explored = []
            reason = "not explored"
    counts = np.bincount(label[label >= 0], minlength=len(peaks))
    return _record(plan, peaks, chosen, counts, explored, reason)


def _count(plan: Plan, label: np.ndarray, n_starts: int, outside: int) -> None:
    plan.tally.update(
        starts=n_starts,
        converged=int(np.sum(label >= 0)),
        outside_support=outside,
        not_converged=int(np.sum(label == MOVING_LABEL)) - outside,
        saddle_points=int(np.sum(label == SADDLE_LABEL)),
        not_examined=int(np.sum(label == SKIPPED_LABEL)),
    )


def box_beside(modes: Any, bounds: Any, dim: int) -> np.ndarray | None:
    """The box of the mode search of a test, None without `bounds`; they are refused beside `modes`."""
    if modes is not None and bounds is not None:
        raise ValueError("`bounds` is the box of the mode search: give `modes` or `bounds`, not both")
    return None if bounds is None else as_box(bounds, dim)


def as_box(bounds: Any, dim: int) -> np.ndarray:
    """Lower and upper corner (2, d) of one finite (low, high) pair or one per coordinate."""
    box = as_pairs(bounds, dim)
    for k in np.flatnonzero(~np.isfinite(box).all(axis=0)):
        raise ValueError(f"`bounds` must be finite, coordinate {k} has {box[:, k].tolist()}")
    return box


def _record(
    plan: Plan,
    peaks: list[Peak],
    order: list[int],
    counts: np.ndarray,
    explored: list[int],
    reason: SearchEnd,
) -> Modes:
    """Drop what has no mass or is over the cap, sort by height, and say what the user should know."""
    tally = plan.tally
    warnings = list[str]()
    heavy = heaviest_peaks(peaks, plan.cut)
    chosen = [k for k in dict.fromkeys(order) if k in heavy][: plan.max_modes]
    tally["dropped"] = len(peaks) - len(heavy)
    tally["evaluations"] = plan.surface.evaluations
    tally["non_finite"] = plan.surface.failures
    message = _end_message(reason)
    if len(heavy) > len(chosen) or tally["not_examined"]:
        reason = "max_modes"
        message = f"there are more than `max_modes` = {plan.max_modes} modes"
        warnings.append(f"{message}: the search was cut short")
    if not plan.surface.target.has_score:
        warnings.append(NO_SCORE)
    if flat := sum(peaks[k].kind == "flat" for k in chosen):
        warnings.append(flat_warning(flat, len(chosen)))
    trouble = {"not_converged": "did not converge", "outside_support": "lie where the density is 0"}
    for key, words in trouble.items():
        if tally[key] > 0.1 * tally["starts"]:
            warnings.append(f"{tally[key]} of {tally['starts']} starts {words}: modes may be missing")
    chosen.sort(key=lambda k: -peaks[k].log_density)
    places = tuple(chosen.index(k) for k in explored if k in chosen)
    search = _search_record(tally, reason, message, places)
    x, log_density, hessians, _ = columns([peaks[k] for k in chosen])
    covariances = np.linalg.inv(hessians)
    covariances = 0.5 * (covariances + covariances.transpose(0, 2, 1))
    return Modes(x, covariances, log_density, counts[chosen], tuple(warnings), search)


def _search_record(
    tally: Counter[str], reason: SearchEnd, message: str, explored: tuple[int, ...]
) -> ModeSearch:
    return ModeSearch(
        n_starts=tally["starts"],
        n_converged=tally["converged"],
        n_not_converged=tally["not_converged"],
        n_outside_support=tally["outside_support"],
        n_saddle_points=tally["saddle_points"],
        n_not_examined=tally["not_examined"],
        n_dropped=tally["dropped"],
        n_rounds=tally["rounds"],
        n_evaluations=tally["evaluations"],
        n_non_finite=tally["non_finite"],
        reason=reason,
        message=message,
        explored=explored,
    )


def _end_message(reason: SearchEnd) -> str:
    """Why the search ended, in words."""
    match reason:
        case "complete":
            return "a round of exploration found nothing new"
        case "not explored":
            return "exploration was not requested"
    return f"`{reason}` reached while exploring"


def flat_warning(flat: int, total: int) -> str:
    """What to say of modes that have no Hessian."""
    return (
        f"{flat} of {total} modes have a flat or pointed top: their width is where the log density has "
        "dropped by 1/2"
    )
