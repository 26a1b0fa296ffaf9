"""Modes of a target: the search that needs no box."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._progress import progress_bar
from .._validation import RandomSource, announce, as_count, as_one_positive, check_switch, integer_seed
from ..draws import to_unconstrained
from ..result import Modes, ModeSearch
from ..result.modes import SearchEnd
from ..target import NO_SCORE, Target, require_target
from ..typing import BoundsLike, DrawsLike
from .arguments import as_starts
from .atlas import Atlas, Limits
from .box import as_box, flat_warning, with_seed
from .explore import Plan, explore
from .frame import frame_of
from .hunt import Hunt, Origin, effort, hunt
from .merge import default_cut, tie_order
from .starts import MAX_POWER, SCALE_BASE
from .surface import Surface
from .symmetry import symmetry_text

MAX_EVALUATIONS = 6_000_000
MAX_SECONDS = 60.0


def find_modes(
    target: Target,
    *,
    draws: DrawsLike | None = None,
    bounds: BoundsLike | None = None,
    starts: ArrayLike | None = None,
    max_modes: int = 64,
    beta: float = 1.0,
    cut: float | None = None,
    max_evaluations: int = MAX_EVALUATIONS,
    max_seconds: float | None = MAX_SECONDS,
    progress: bool | None = None,
    rng: RandomSource = None,
) -> Modes:
    """Find the modes of a target: local maxima of log p, their widths, and the symmetries between them.

    No box is needed. Local optimisations start around the modes known so far at geometric scales, 1 to 2187
    standard deviations, in rounds until a round finds no new mode of Laplace weight above 1/1000; exact
    symmetries (label switching, sign changes) complete whole orbits of modes. See `docs/theory/modes.md`.

    Parameters
    ----------
    target : Target
    draws : array (n, d), or anything that `as_draws` takes, optional
        They give location and units, and the first climbs start from some of them. A test of other draws with
        the modes found is valid; a test of these very draws is not, so hold some out.
    bounds : (low, high), or one such pair per coordinate, optional
        Adds uniform starts in this box; without `draws` and `starts` it gives location and units too.
    starts : array (n, d), optional
        Further starts.
    max_modes : int
        Modes returned, at most: the heaviest by Laplace weight.
    beta : float
        Merge modes whose squared distance, weighted by the average of their Hessians, is below this.
    cut : float, optional
        Drop modes whose log Laplace weight is this far below the largest; 20 + d/2 if not given.
    max_evaluations : int
        Points at which the density is evaluated, at most (up to one batch more).
    max_seconds : float or None
        The search of a slow target is planned to take about half of this, and stops after it. A search that
        the clock stopped may find something else the next time; None for no limit.
    progress : bool, optional
        Show a progress bar; by default on a terminal where rich is installed.
    rng : int, Generator or SeedSequence, optional

    Returns
    -------
    Modes
        Highest first, equally high ones by location. ``search`` says how the search went and why it stopped,
        ``search_sentence`` says it in words, ``symmetries`` lists the symmetries between the modes.

    Raises
    ------
    ValueError
        If there is no mode, for example because the density grows without bound; the message says where.

    Notes
    -----
    Without `draws`, `bounds` and `starts` the search begins about 0 with unit scale. Ctrl-C raises
    KeyboardInterrupt as usual; nothing is returned then.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 60) ** 2), dim=1)
    >>> sorted(sc.find_modes(target, rng=0).locations.round(6).ravel().tolist())
    [0.0, 60.0]
    """
    require_target(target)
    max_modes = as_count(max_modes, "max_modes")
    max_evaluations = as_count(max_evaluations, "max_evaluations", maximum=10**12)
    check_switch(progress, "progress", optional=True)
    as_one_positive(beta, "beta")
    if cut is not None:
        as_one_positive(cut, "cut")
    if max_seconds is not None:
        as_one_positive(max_seconds, "max_seconds")
    seed = integer_seed(rng)
    extra = None if starts is None else as_starts(starts, target.dim)
    box = None if bounds is None else as_box(bounds, target.dim)
    sample = None if draws is None else to_unconstrained(draws, target, minimum=1)
    modes = search_modes(
        target,
        None if sample is None else sample.values,
        starts=extra,
        box=box,
        max_modes=max_modes,
        beta=beta,
        cut=cut,
        max_evaluations=max_evaluations,
        max_seconds=max_seconds,
        progress=progress,
        rng=np.random.default_rng(seed),
    )
    require_mode(modes)
    announce([*(() if sample is None else sample.warnings), *modes.warnings])
    return with_seed(modes, seed)


def require_mode(found: Modes) -> None:
    """Raise if a search found no mode."""
    if not len(found):
        raise ValueError(no_mode_reason(found))


def no_mode_reason(found: Modes) -> str:
    """Why a search found no mode, in words."""
    return "" if found.search is None else found.search.message


def search_modes(
    target: Target,
    held: np.ndarray | None,
    *,
    location: tuple[np.ndarray, np.ndarray] | None = None,
    starts: np.ndarray | None = None,
    box: np.ndarray | None = None,
    max_modes: int = 64,
    beta: float = 1.0,
    cut: float | None = None,
    max_evaluations: float = MAX_EVALUATIONS,
    max_seconds: float | None = MAX_SECONDS,
    progress: bool | None = None,
    rng: np.random.Generator,
) -> Modes:
    """The core of `find_modes`: no validation, no warning; no mode is an empty record that says why.

    `location` gives centre and scale (d,) each, for a search that must not know single draws.
    """
    frame = frame_of(held)
    if frame is not None and held is not None:
        extra = _extra_starts(target.dim, starts, box, rng)
        return frame.modes(
            search_modes(
                frame.target(target),
                frame.inward(held),
                starts=frame.inward(extra) if len(extra) else None,
                max_modes=max_modes,
                beta=beta,
                cut=cut,
                max_evaluations=max_evaluations,
                max_seconds=max_seconds,
                progress=progress,
                rng=rng,
            ),
            target.names,
        )
    surface = Surface(target, max_evaluations, max_seconds)
    cut = default_cut(target.dim) if cut is None else cut
    origin = _origin(target.dim, held, location, starts, box, rng)
    with progress_bar(progress) as tick:
        tick("measuring the cost of an evaluation", 0, 1)
        limits = Limits(max_modes, beta, cut, effort(surface, origin.points, max_seconds))
        state = hunt(surface, origin, limits, rng, tick)
        order = _by_weight(state, cut)
        if order and state.reason == "max_modes" and _equal_hessians(state.atlas, order[:max_modes]):
            tick("exploring the neighbours of the heaviest mode", 0, 1)
            order = _neighbours_first(state, order)
    return _record(state, order[:max_modes], drawn=held is not None or location is not None)


def _origin(
    dim: int,
    held: np.ndarray | None,
    location: tuple[np.ndarray, np.ndarray] | None,
    starts: np.ndarray | None,
    box: np.ndarray | None,
    rng: np.random.Generator,
) -> Origin:
    """Where to begin and in which units: by the draws, a given location, the starts, the box, or 0 and 1."""
    extra = _extra_starts(dim, starts, box, rng)
    if held is not None:
        centre, scale = median_and_mad(held)
        return Origin(centre, scale, held[rng.permutation(len(held))], extra)
    if location is not None:
        centre, scale = location
    elif starts is not None and len(starts) > 1:
        centre, scale = median_and_mad(starts)
    elif starts is not None:
        centre = starts[0]
        scale = np.maximum(1.0, np.abs(starts[0]))
    elif box is not None:
        centre = box.mean(axis=0)
        scale = 0.25 * (box[1] - box[0])
    else:
        centre = np.zeros(dim)
        scale = np.ones(dim)
    points = centre + scale * rng.standard_normal((32, dim))
    if starts is not None:
        points = np.concatenate([starts, points])
    return Origin(centre, scale, points, extra)


def _extra_starts(
    dim: int, starts: np.ndarray | None, box: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Starts that the user gave, and uniform ones in the box."""
    extra = np.empty((0, dim)) if starts is None else starts
    if box is None:
        return extra
    return np.concatenate([extra, rng.uniform(box[0], box[1], size=(256, dim))])


def median_and_mad(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and 1.4826 times the median absolute deviation of each coordinate, the latter never 0."""
    centre = np.median(x, axis=0)
    spread = 1.4826 * np.median(np.abs(x - centre), axis=0)
    return centre, np.where(spread > 0, spread, np.maximum(1.0, np.abs(centre)))


def _by_weight(state: Hunt, cut: float) -> list[int]:
    """Modes of some mass: heavy ones that the first points climb to, then the others, heaviest first.

    Where the density goes on growing far above them, tops that are not smooth are places on the way there.
    """
    weight = state.atlas.log_weight
    unbounded = bool(state.atlas.peaks) and state.spike() != ""
    order = [
        int(k)
        for k in np.argsort(-weight, kind="stable")
        if weight[k] >= weight.max(initial=-np.inf) - cut
        and not (unbounded and state.atlas.peaks[k].kind == "flat")
    ]
    heavy = set(state.atlas.heavy())
    return list(dict.fromkeys([*(k for k in order if k in heavy and k in state.home), *order]))


def _equal_hessians(atlas: Atlas, chosen: list[int]) -> bool:
    """Whether most modes have the Hessian of the heaviest, as on a lattice."""
    root = atlas.roots[chosen[0]]
    d = len(root)
    gaps = [np.abs(root.T @ atlas.peaks[k].hessian @ root - np.eye(d)).max() for k in chosen]
    return float(np.median(gaps)) < 0.1


def _neighbours_first(state: Hunt, order: list[int]) -> list[int]:
    """Too many modes to list, perhaps a lattice: the neighbours of the heaviest mode come first."""
    atlas = state.atlas
    chosen = order[: state.limits.max_modes]
    peaks = [atlas.peaks[k] for k in chosen if atlas.peaks[k].kind == "mode"]
    if not peaks:
        return order
    places = np.array([peak.x for peak in peaks])
    box = np.stack([places.min(axis=0), places.max(axis=0)])
    tally: Any = {"evaluations": 0, "rounds": 0, "not_examined": 0}
    plan = Plan(Surface(state.surface.target), box, state.limits.beta, state.limits.cut, len(peaks), 1, tally)
    kept, explored, _ = explore(plan, peaks, state.rng, lambda text, done, total: None)
    state.surface.evaluations += plan.surface.evaluations
    numbers = [atlas.add(peaks[k]) for k in kept]
    state.explored = [number for k in explored[:1] if (number := atlas.add(peaks[k])) is not None]
    return list(dict.fromkeys([*order[:1], *(k for k in numbers if k is not None), *order]))


def _record(state: Hunt, chosen: list[int], *, drawn: bool) -> Modes:
    """The modes chosen, in an order that does not depend on the seed, and how they were found."""
    atlas = state.atlas
    target = state.surface.target
    d = state.surface.dim
    if not chosen:
        message = "no mode found: " + state.why_no_mode()
        search = _search_record(state, "improper" if state.improper else "no mode", message, drawn=drawn)
        return Modes(np.empty((0, d)), np.empty((0, d, d)), np.empty(0), np.empty(0, dtype=int), (), search)
    x = np.array([atlas.peaks[k].x for k in chosen])
    covariances = np.array([atlas.roots[k] @ atlas.roots[k].T for k in chosen])
    height = np.array([atlas.peaks[k].log_density for k in chosen])
    order = tie_order(x, height, np.sqrt(np.einsum("nii->ni", covariances).min(axis=0)))
    assert state.reason is not None  # the search has ended
    explored = tuple(order.index(chosen.index(k)) for k in state.explored if k in chosen)
    search = _search_record(state, state.reason, state.message, explored, drawn=drawn)
    counts = np.array([atlas.n_starts[k] for k in chosen])
    words = _symmetries(state, x[order], covariances[order], target.names)
    warnings = _search_warnings(state, [chosen[i] for i in order])
    names = tuple(target.names or ())
    return Modes(x[order], covariances[order], height[order], counts[order], warnings, search, words, names)


def _search_record(
    state: Hunt, reason: SearchEnd, message: str, explored: tuple[int, ...] = (), *, drawn: bool
) -> ModeSearch:
    return ModeSearch(
        n_starts=state.climbs,
        n_not_converged=state.not_converged,
        n_rounds=state.rounds,
        n_evaluations=state.surface.evaluations,
        n_non_finite=state.surface.failures,
        farthest=SCALE_BASE**MAX_POWER,
        from_draws=drawn,
        effort=state.limits.effort,
        reason=reason,
        message=message,
        explored=explored,
    )


def _symmetries(state: Hunt, x: np.ndarray, covariances: np.ndarray, names: Any) -> tuple[str, ...]:
    """In words, the symmetries that take every mode to a mode, and some to another one.

    About a single mode many maps hold exactly to rounding; a symmetry of the density keeps all its modes.
    Where the list is cut off at `max_modes`, half of the images must be in it.
    """
    width = np.sqrt(np.einsum("nii->ni", covariances))
    needed = 0.5 if state.reason == "max_modes" else 1.0
    words = []
    for g in state.symmetries:
        gaps = np.abs(g(x)[:, None] - x).max(
            axis=2, initial=0, where=np.abs(g(x)[:, None] - x) > 0.01 * width
        )
        onto = (gaps == 0).any(axis=1)
        moved = np.diag(gaps) > 0
        if onto.mean() >= needed and moved.any():
            words.append(symmetry_text(g, names))
    return tuple(dict.fromkeys(words))


def _search_warnings(state: Hunt, chosen: list[int]) -> tuple[str, ...]:
    """What the user should know of a search."""
    warnings = []
    if state.reason != "complete":
        warnings.append(f"the mode search ended early: {state.message}; modes may be missing")
    if not state.surface.target.has_score:
        warnings.append(NO_SCORE)
    flat = sum(state.atlas.peaks[k].kind == "flat" for k in chosen)
    if flat:
        warnings.append(flat_warning(flat, len(chosen)))
    spike = state.spike()
    if spike:
        warnings.append(spike)
    return tuple(warnings)
