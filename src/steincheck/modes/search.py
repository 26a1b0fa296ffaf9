"""Modes of a target: the search that needs no box, the paper's in a box, and the record of what they find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from .._validation import (
    RandomSource,
    announce,
    as_count,
    as_one_positive,
    as_pairs,
    check_switch,
    integer_seed,
)
from .._whitening import whitened
from .._work import progress_bar
from ..draws import as_matrix, to_unconstrained
from ..result import Modes, ModeSearch, SignedPermutation
from ..result.modes import SearchEnd
from ..target import NO_SCORE, Target, require_target, score_at
from ..target.evaluation import Budget, CountedTarget, as_budget
from ..target.record import jax_target
from ..typing import BoundsLike, DrawsLike
from ..wording import results as words
from .climb import recognise, starts_at
from .rounds import THOROUGH, USUAL, Search, Thoroughness, climb_and_add, neighbours_first, search_in_rounds


def find_modes(
    target: Target,
    *,
    draws: DrawsLike | None = None,
    bounds: BoundsLike | None = None,
    starts: ArrayLike | None = None,
    n_starts: int = 256,
    max_modes: int = 64,
    thorough: bool = False,
    max_evaluations: int | None = None,
    max_seconds: float | None = 60.0,
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
    n_starts : int
        Number of uniform starts in `bounds`.
    max_modes : int
        Modes returned, at most: the heaviest by Laplace weight.
    thorough : bool
        Look harder for modes much narrower than those known, at about six times the evaluations.
    max_evaluations : int, optional
        Points at which the density is evaluated, at most. Without a gradient a score takes 2 d + 1 of them.
    max_seconds : float or None
        The search stops after so many seconds; None for no limit. A search that the clock stopped may find
        something else the next time.
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
    check_switch(thorough, "thorough")
    check_switch(progress, "progress", optional=True)
    n_starts = as_count(n_starts, "n_starts")
    max_modes = as_count(max_modes, "max_modes")
    density = CountedTarget(target, as_budget(max_evaluations, max_seconds))
    seed = integer_seed(rng)
    stream = np.random.default_rng(seed)
    places = (as_starts(starts, target.dim), as_box(bounds, target.dim))
    extra = with_uniform(*places, n_starts, target.dim, stream)
    sample = None if draws is None else to_unconstrained(draws, target, minimum=1)
    points = extra if sample is None else sample.values
    options: dict[str, Any] = {"from_points": sample is not None, "max_modes": max_modes}
    options["thoroughness"] = THOROUGH if thorough else USUAL
    modes = search_modes(density, points, extra, stream, **options, progress=progress)
    require_mode(modes)
    announce([*(() if sample is None else sample.warnings), *modes.warnings])
    return with_seed(modes, seed)


def box_search(
    target: Target,
    bounds: BoundsLike | None = None,
    *,
    starts: ArrayLike | None = None,
    n_starts: int = 512,
    max_modes: int = 64,
    beta: float = 1.0,
    max_evaluations: int | None = None,
    max_seconds: float | None = 60.0,
    rng: RandomSource = None,
) -> Modes:
    """Find the modes of a target from uniform starts in a box (paper, Alg. 2).

    All starts climb by BFGS; the distinct ends are settled by Newton steps, saddle points are dropped, the
    rest is merged. `find_modes` needs no box and finds more; this is the search of the paper's experiments.

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
        Modes returned, at most: the heaviest by Laplace weight.
    beta : float
        Merge modes whose squared distance, weighted by the average of their Hessians, is below this.
    max_evaluations : int, optional
        Points at which the density is evaluated, at most.
    max_seconds : float or None
        The search stops after so many seconds; None for no limit.
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
    as_one_positive(beta, "beta")
    budget = as_budget(max_evaluations, max_seconds)
    if bounds is None and starts is None:
        raise ValueError("give `bounds`, (low, high) or one such pair per coordinate, or `starts`, or both")
    seed = integer_seed(rng)
    stream = np.random.default_rng(seed)
    places = (as_box(bounds, target.dim), as_starts(starts, target.dim))
    options: dict[str, Any] = {"n_starts": n_starts, "max_modes": max_modes, "beta": beta}
    modes = box_search_core(target, *places, stream, **options, budget=budget)
    announce(modes.warnings)
    return with_seed(modes, seed)


def box_search_core(
    target: Target,
    box: np.ndarray | None,
    starts: np.ndarray | None,
    rng: np.random.Generator,
    *,
    n_starts: int = 512,
    max_modes: int = 64,
    beta: float = 1.0,
    budget: Budget | None = None,
) -> Modes:
    """As `box_search` with a box (2, d) or starts (n, d), or both; warnings are in the record only."""
    density = CountedTarget(target, budget)
    x = with_uniform(starts, box, n_starts, target.dim, rng)
    if box is None:
        box = np.stack([x.min(axis=0), x.max(axis=0)])
    width = np.where(box[1] > box[0], box[1] - box[0], 1.0)
    state = Search(density, box.mean(axis=0), width, rng, max_modes, beta, rounds=1)
    climb_and_add(state, starts_at(x, np.diag(width**2), 0.1), iterations=1000)
    chosen = state.within(20 + target.dim / 2)
    state.reason = density.budget.exhausted or ("max_modes" if len(chosen) > max_modes else "one round")
    found = _modes_record(state, chosen[:max_modes])
    require_mode(found)
    return found


def as_starts(starts: Any, dim: int) -> np.ndarray | None:
    """Starts (n, d) that a user gives, or None; raises where numbers are too far apart to show a mode."""
    if starts is None:
        return None
    x = as_matrix(starts, dim, minimum=1, name="starts")
    size = np.abs(x).max()
    if size > 1e15:  # neighbouring numbers are 0.1 apart there
        raise ValueError(f"`starts` must be within 1e+15 of 0, got {size:.4g}: rounding hides modes there")
    return x


def as_box(bounds: Any, dim: int, modes: Any = None) -> np.ndarray | None:
    """Lower and upper corner (2, d) of one finite (low, high) pair or one per coordinate; None stays None.

    It is the box of a mode search, and refused beside modes that are given.
    """
    if bounds is None:
        return None
    if modes is not None:
        raise ValueError("`bounds` is the box of the mode search: give `modes` or `bounds`, not both")
    box = as_pairs(bounds, dim)
    for k in np.flatnonzero(~(np.abs(box) < 1e300).all(axis=0)):  # so that the width is finite
        raise ValueError(f"`bounds` must be within 1e+300 of 0, coordinate {k} has {box[:, k].tolist()}")
    return box


def with_uniform(
    starts: np.ndarray | None, box: np.ndarray | None, n: int, dim: int, rng: np.random.Generator
) -> np.ndarray:
    """Starts that were given, and `n` uniform ones in a box; either may be None."""
    given = np.empty((0, dim)) if starts is None else starts
    if box is None:
        return given
    return np.concatenate([given, rng.uniform(box[0], box[1], size=(n, dim))])


def with_seed(modes: Modes, seed: int) -> Modes:
    """The modes, their search recording the seed that gives them again."""
    assert modes.search is not None
    return replace(modes, search=replace(modes.search, seed=seed))


def require_mode(found: Modes) -> None:
    """Raise if a search found no mode."""
    if not len(found):
        why = "no mode found" if found.search is None else found.search.message
        raise ValueError(f"{why}; give `modes`, or correct the density of `target`")


def search_modes(
    density: CountedTarget,
    points: np.ndarray,
    extra: np.ndarray,
    rng: np.random.Generator,
    *,
    from_points: bool = True,
    max_modes: int = 64,
    thoroughness: Thoroughness = USUAL,
    progress: bool | None = None,
) -> Modes:
    """The core of `find_modes`: no validation, no warning; no mode is an empty record that says why.

    `points` (n, d) give location and units, and the first climbs start from some of them if `from_points`;
    else from normal draws about their location, 0 without points. `extra` (k, d) are further starts.
    """
    target = density.target
    plane = uncorrelated_coordinates(points)
    if plane is not None:
        density = CountedTarget(plane.target(target), density.budget)
        points, extra = (whitened(x - plane.centre, plane.root) for x in (points, extra))
    centre, scale = location_and_scale(points, rounded=not from_points)
    if not from_points:
        points = centre + scale * rng.standard_normal((16, target.dim))
    state = Search(density, centre, scale, rng, max_modes, thoroughness=thoroughness)
    with progress_bar(progress) as tick:
        home = search_in_rounds(state, points, extra, tick)
        # modes that the first points climb to are never left out because of their weight
        order = list(dict.fromkeys([*home, *state.within(20 + target.dim / 2)]))
        if state.reason == "max_modes":
            order = neighbours_first(state, order)
    found = _modes_record(state, order[:max_modes])
    return found if plane is None else plane.modes(found, target.names)


def location_and_scale(x: np.ndarray, *, rounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """Median and 1.4826 times the median absolute deviation of each coordinate, the latter never 0.

    Rounded to powers of 2 hardly any single row of `x` (n, d) can change them. 0 and 1 without rows.
    """
    if not len(x):
        return np.zeros(x.shape[1]), np.ones(x.shape[1])
    centre = np.median(x, axis=0)
    scale = 1.4826 * np.median(np.abs(x - centre), axis=0)
    scale = np.where(scale > 0, scale, np.maximum(1.0, np.abs(centre)))
    if not rounded:
        return centre, scale
    scale = 2.0 ** np.round(np.log2(scale))
    return scale * np.round(centre / scale), scale


def spread_as_mode(x: np.ndarray) -> Modes:
    """The median and spread of draws x (n, d), in place of modes that are not known."""
    centre, scale = location_and_scale(x, rounded=True)
    return Modes(centre[None], np.diag(scale**2)[None], np.zeros(1))


def _modes_record(state: Search, chosen: list[int]) -> Modes:
    """The modes chosen, in an order that does not depend on the seed.

    Where the density goes on growing far above them, tops that are not smooth are places on the way there.
    """
    found = [state.peaks[k] for k in chosen]
    highest = max((peak.log_density for peak in found), default=-np.inf)
    grows = state.highest is not None and state.highest[0] > 10 + highest
    found = [peak for peak in found if not (grows and peak.kind == "flat")]
    reason, message = (state.reason, words.SEARCH_ENDS[state.reason]) if found else _why_no_mode(state)
    search = ModeSearch(
        n_starts=state.climbs,
        n_rounds=state.rounds,
        n_evaluations=state.density.budget.made,
        reason=reason,
        message=message,
    )
    if not found:
        d = state.density.target.dim
        return Modes(np.empty((0, d)), np.empty((0, d, d)), np.empty(0), (), search)
    x = np.array([peak.x for peak in found])
    height = np.array([peak.log_density for peak in found])
    sd = np.array([np.sqrt(np.sum(peak.root**2, axis=1)) for peak in found])
    order = tie_order(x, height, sd.min(axis=0))
    peaks = [found[k] for k in order]
    flat = sum(peak.kind == "flat" for peak in peaks)
    warnings = [
        ""
        if state.reason in ("complete", "one round")
        else words.warning("search ended early", message=message),
        "" if state.density.target.has_score else NO_SCORE,
        words.warning("flat tops", flat=flat, total=len(peaks)) if flat else "",
        words.warning("growth", place=_place(state)) if grows else "",
    ]
    return Modes(
        x[order],
        np.array([peak.root @ peak.root.T for peak in peaks]),
        height[order],
        tuple(text for text in warnings if text),
        search,
        _symmetries(state),
        tuple(state.density.target.names or ()),
    )


def tie_order(x: np.ndarray, log_density: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Highest first; equally high ones, to 1e-6 nats, by location, compared coordinate by coordinate.

    Coordinates that differ by less than a hundredth of a standard deviation are not compared.
    """
    columns = [-log_density, *x.T]
    gaps = [1e-6 * max(1.0, np.abs(log_density).max()), *(0.01 * width)]
    cells = []
    for values, gap in zip(columns, gaps, strict=True):
        order = np.argsort(values, kind="stable")
        cell = np.empty(len(values), dtype=int)
        cell[order] = np.cumsum(np.diff(values[order], prepend=values[order[0]]) > gap)
        cells.append(cell)
    return np.lexsort(cells[::-1])


def _why_no_mode(state: Search) -> tuple[SearchEnd, str]:
    """Why a search ended without a mode, and its message."""
    density = state.density
    if density.raised is not None and not density.scored:
        raised = f"{type(density.raised).__name__}: {density.raised}"
        return "no mode", words.no_mode_message("raises", raised)
    if state.highest is not None and (state.endless or state.at_infinity(state.highest[1])):
        return "improper", words.no_mode_message("improper", _place(state))
    if density.budget.exhausted and state.rounds <= 1:
        return density.budget.exhausted, words.no_mode_message("limit")
    if not density.scored:
        return "no mode", words.no_mode_message("not finite")
    if state.highest is None:
        return "no mode", words.no_mode_message("not converged")
    return "no mode", words.no_mode_message("grows", _place(state))


def _symmetries(state: Search) -> tuple[SignedPermutation, ...]:
    """The symmetries that take every heavy mode to a mode, and some to another one.

    About a single mode many maps hold exactly to rounding; a symmetry of the density keeps all its modes.
    Where the list is cut off at `max_modes`, half of the images must be in it.
    """
    needed = 0.5 if state.reason == "max_modes" else 1.0
    heavy = [state.peaks[k] for k in state.within()]
    x = np.array([peak.x for peak in heavy])
    heights = np.array([peak.log_density for peak in heavy])
    kept = []
    for g in state.symmetries:
        image = recognise(g(x), heights, heavy)
        if np.mean(image >= 0) >= needed and (image != np.arange(len(heavy))).any():
            kept.append(g)
    return tuple(kept)


def _place(state: Search) -> str:
    """Where the highest unfinished climb is, by the coordinates that went farthest."""
    assert state.highest is not None
    x = state.highest[1]
    names = state.density.target.coordinate_names
    gone = np.abs(x - state.centre) / state.scale
    x = np.where(gone > 1e9, np.copysign(np.inf, x), x)
    far = np.argsort(-gone, kind="stable")[:3]
    return ", ".join(f"{names[i]} = {x[i]:.4g}" for i in far[gone[far] >= 0.1 * gone.max()])


class UncorrelatedCoordinates(NamedTuple):
    """x = centre + root z."""

    centre: np.ndarray
    root: np.ndarray

    def outward(self, z: np.ndarray) -> np.ndarray:
        """The rows x with coordinates `z`."""
        return self.centre + z @ self.root.T

    def target(self, target: Target) -> Target:
        """The density as a function of z, up to a constant."""
        if target.jax_log_density is not None:
            with jax.enable_x64(True):
                inner = Partial(_log_density_in_z, target.jax_log_density, self.centre, self.root)
                return jax_target(inner, target.dim)
        return Target(
            lambda z: target.log_density(self.outward(z)),
            (lambda z: score_at(target, self.outward(z), proposal=True) @ self.root)
            if target.has_score
            else None,
            dim=target.dim,
        )

    def modes(self, found: Modes, names: Any) -> Modes:
        """Modes found in z, in the coordinates x; symmetries are those of z and are not kept."""
        covariances = self.root @ found.covariances @ self.root.T
        return replace(
            found,
            locations=self.outward(found.locations),
            covariances=0.5 * (covariances + covariances.transpose(0, 2, 1)),
            symmetries=(),
            names=tuple(names or ()),
        )


def _log_density_in_z(log_density: Any, centre: Any, root: Any, z: Any) -> Any:
    return log_density(centre + root @ z)


def uncorrelated_coordinates(draws: np.ndarray) -> UncorrelatedCoordinates | None:
    """Coordinates for draws (n, d) that are nearly on a plane; None if they are not, or too few to say."""
    # with fewer than 2 d draws their covariance is mostly noise
    if len(draws) < 2 * draws.shape[1] or draws.shape[1] < 2:
        return None
    if not (draws.std(axis=0) > 0).all():
        return None
    if np.linalg.eigvalsh(np.corrcoef(draws.T))[0] > 1e-7:  # the usual search can bear this
        return None
    singular, vectors = np.linalg.svd(draws - draws.mean(axis=0), full_matrices=False)[1:]
    if singular[-1] <= 1e-13 * singular[0]:  # exactly on a plane: there are no units across it
        return None
    return UncorrelatedCoordinates(np.median(draws, axis=0), vectors.T * singular / np.sqrt(len(draws)))
