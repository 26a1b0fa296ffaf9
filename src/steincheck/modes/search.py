"""Modes of a target: the search that needs no box, and the record of what it found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from .._progress import progress_bar
from .._validation import (
    RandomSource,
    announce,
    as_count,
    as_pairs,
    check_switch,
    integer_seed,
)
from .._whitening import standardised
from ..draws import as_matrix, to_unconstrained
from ..result import Modes, ModeSearch, SignedPermutation
from ..result.modes import SearchEnd
from ..target import NO_SCORE, Target, jax_target, raw_score, require_target
from ..target.evaluation import CountedTarget, as_budget
from ..typing import BoundsLike, DrawsLike
from ..wording import results as words
from .peaks import FoundModes, tie_order
from .rounds import THOROUGH, USUAL, Origin, Search, Thoroughness, neighbours_first, search_in_rounds


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
    max_modes = as_count(max_modes, "max_modes")
    n_starts = as_count(n_starts, "n_starts")
    density = CountedTarget(target, as_budget(max_evaluations, max_seconds))
    seed = integer_seed(rng)
    stream = np.random.default_rng(seed)
    given = None if starts is None else as_starts(starts, target.dim)
    box = None if bounds is None else as_box(bounds, target.dim)
    sample = None if draws is None else to_unconstrained(draws, target, minimum=1)
    extra = with_uniform(given, box, n_starts, target.dim, stream)
    if sample is not None:
        origin = origin_at(sample.values, extra)
    else:
        about = median_and_mad(extra) if len(extra) else Location(np.zeros(target.dim), np.ones(target.dim))
        origin = origin_about(about, extra, stream)
    options = SearchOptions(max_modes, THOROUGH if thorough else USUAL, progress)
    modes = search_modes(density, origin, options, stream)
    require_mode(modes)
    announce([*(() if sample is None else sample.warnings), *modes.warnings])
    return with_seed(modes, seed)


def as_starts(starts: Any, dim: int) -> np.ndarray:
    """Starts (n, d) of a search; raises where numbers are too far apart to show a mode."""
    x = as_matrix(starts, dim, minimum=1, name="starts")
    size = np.abs(x).max()
    if size > 1e15:  # neighbouring numbers are 0.1 apart there
        raise ValueError(f"`starts` must be within 1e+15 of 0, got {size:.4g}: rounding hides modes there")
    return x


def as_box(bounds: Any, dim: int) -> np.ndarray:
    """Lower and upper corner (2, d) of one finite (low, high) pair or one per coordinate."""
    box = as_pairs(bounds, dim)
    for k in np.flatnonzero(~np.isfinite(box).all(axis=0)):
        raise ValueError(f"`bounds` must be finite, coordinate {k} has {box[:, k].tolist()}")
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
        raise ValueError(no_mode_reason(found))


def no_mode_reason(found: Modes) -> str:
    """Why a search found no mode, in words."""
    return "" if found.search is None else found.search.message


class Location(NamedTuple):
    """Centre and scale of each coordinate."""

    centre: np.ndarray
    scale: np.ndarray


def median_and_mad(x: np.ndarray) -> Location:
    """Median and 1.4826 times the median absolute deviation of each coordinate, the latter never 0."""
    centre = np.median(x, axis=0)
    spread = 1.4826 * np.median(np.abs(x - centre), axis=0)
    return Location(centre, np.where(spread > 0, spread, np.maximum(1.0, np.abs(centre))))


def origin_at(points: np.ndarray, extra: np.ndarray) -> Origin:
    """A search that begins at points (n, d), and in their units."""
    return Origin(*median_and_mad(points), points, extra)


def origin_about(location: Location, extra: np.ndarray, rng: np.random.Generator) -> Origin:
    """A search that must not know single draws, but where they are."""
    points = location.centre + location.scale * rng.standard_normal((16, len(location.centre)))
    return Origin(*location, points, extra)


class SearchOptions(NamedTuple):
    """What a search returns, and how hard it looks."""

    max_modes: int = 64
    thoroughness: Thoroughness = USUAL
    progress: bool | None = None


def search_modes(
    density: CountedTarget, origin: Origin, options: SearchOptions, rng: np.random.Generator
) -> Modes:
    """The core of `find_modes`: no validation, no warning; no mode is an empty record that says why.

    Modes that the first points climb to are never left out because of their weight.
    """
    target = density.target
    plane = uncorrelated_coordinates(origin.points)
    if plane is not None:
        inner = CountedTarget(plane.target(target), density.budget)
        within = origin_at(plane.inward(origin.points), plane.inward(origin.extra))
        return plane.modes(search_modes(inner, within, options, rng), target.names)
    state = Search(density, origin, FoundModes(options.max_modes), rng, options.thoroughness)
    with progress_bar(options.progress) as tick:
        home = search_in_rounds(state, tick)
        heavy = state.found.within(20 + target.dim / 2)
        order = list(dict.fromkeys([*home, *heavy]))
        if state.reason == "max_modes":
            order = neighbours_first(state, order)
    return modes_record(state, order[: options.max_modes])


def modes_record(state: Search, chosen: list[int]) -> Modes:
    """The modes chosen, in an order that does not depend on the seed.

    Where the density goes on growing far above them, tops that are not smooth are places on the way there.
    """
    found = [state.found.peaks[k] for k in chosen]
    grows = state.highest is not None and state.highest[0] > 10 + max(
        [-np.inf, *(p.log_density for p in found)]
    )
    found = [peak for peak in found if not (grows and peak.kind == "flat")]
    if not found:
        return _without_mode(state)
    x = np.array([peak.x for peak in found])
    height = np.array([peak.log_density for peak in found])
    order = tie_order(x, height, np.min([peak.sd for peak in found], axis=0))
    peaks = [found[k] for k in order]
    flat = sum(peak.kind == "flat" for peak in peaks)
    search = _search_record(state, state.reason, words.SEARCH_ENDS[state.reason])
    warnings = [
        words.early_end_warning(search.message) if state.reason not in ("complete", "one round") else "",
        "" if state.density.target.has_score else NO_SCORE,
        words.flat_tops_warning(flat, len(peaks)) if flat else "",
        words.growth_warning(_place(state)) if grows else "",
    ]
    return Modes(
        x[order],
        np.array([peak.metric for peak in peaks]),
        height[order],
        tuple(text for text in warnings if text),
        search,
        _symmetries(state, x[order], np.array([peak.sd for peak in peaks])),
        tuple(state.density.target.names or ()),
    )


def _without_mode(state: Search) -> Modes:
    """The empty record of a search without a mode; its message says why there is none."""
    d = state.density.target.dim
    density = state.density
    reason: SearchEnd = "no mode"
    grows = state.highest is not None and (state.endless or state.at_infinity(state.highest[1]))
    if density.raised is not None and not density.scored:
        message = words.no_mode_message("raises", f"{type(density.raised).__name__}: {density.raised}")
    elif grows:
        reason = "improper"
        message = words.no_mode_message("improper", _place(state))
    elif density.budget.exhausted and state.rounds <= 1:
        reason = density.budget.exhausted
        message = words.no_mode_message("limit", reason)
    elif not density.scored:
        message = words.no_mode_message("not finite")
    elif state.highest is None:
        message = words.no_mode_message("not converged")
    else:
        message = words.no_mode_message("grows", _place(state))
    search = _search_record(state, reason, message)
    return Modes(np.empty((0, d)), np.empty((0, d, d)), np.empty(0), (), search)


def _search_record(state: Search, reason: SearchEnd, message: str) -> ModeSearch:
    return ModeSearch(
        n_starts=state.climbs,
        n_rounds=state.rounds,
        n_evaluations=state.spent,
        n_non_finite=state.density.failures,
        reason=reason,
        message=message,
    )


def _symmetries(state: Search, x: np.ndarray, sd: np.ndarray) -> tuple[SignedPermutation, ...]:
    """The symmetries that take every mode to a mode, and some to another one.

    About a single mode many maps hold exactly to rounding; a symmetry of the density keeps all its modes.
    Where the list is cut off at `max_modes`, half of the images must be in it.
    """
    needed = 0.5 if state.reason == "max_modes" else 1.0
    kept = []
    for g in state.symmetries:
        same = (np.abs(g(x)[:, None] - x) <= 0.01 * sd).all(axis=2)
        if same.any(axis=1).mean() >= needed and not np.diag(same).all():
            kept.append(g)
    return tuple(kept)


def _place(state: Search) -> str:
    """Where the highest unfinished climb is, by the coordinates that went farthest."""
    assert state.highest is not None
    x = state.highest[1]
    names = state.density.target.coordinate_names
    gone = np.abs(x - state.origin.centre) / state.origin.scale
    far = np.argsort(-gone, kind="stable")[:3]
    return ", ".join(f"{names[i]} = {x[i]:.4g}" for i in far[gone[far] >= 0.1 * gone.max()])


class UncorrelatedCoordinates(NamedTuple):
    """x = centre + root z."""

    centre: np.ndarray
    root: np.ndarray

    def inward(self, x: np.ndarray) -> np.ndarray:
        """The coordinates z of the rows of `x`."""
        return standardised(x, self.centre, self.root)

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
            (lambda z: raw_score(target, self.outward(z)) @ self.root) if target.has_score else None,
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
