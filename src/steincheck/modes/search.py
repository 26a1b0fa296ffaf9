"""Modes of a target: the search that needs no box."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._progress import progress_bar
from .._validation import RandomSource, announce, as_count, as_one_positive, check_switch, integer_seed
from ..draws import to_unconstrained
from ..result import Modes
from ..target import Target, require_target
from ..target.counting import Budget, CountedTarget
from ..typing import BoundsLike, DrawsLike
from .arguments import as_box, as_starts
from .coordinates import uncorrelated_coordinates
from .merge import FoundModes
from .record import modes_record, without_mode
from .rounds import THOROUGH, USUAL, Origin, Search, Thoroughness, neighbours_first, search_in_rounds

MAX_EVALUATIONS = 1_000_000  # most searches end before 100,000 (mode_study.csv)
MAX_SECONDS = 60.0


def find_modes(
    target: Target,
    *,
    draws: DrawsLike | None = None,
    bounds: BoundsLike | None = None,
    starts: ArrayLike | None = None,
    n_starts: int = 256,
    max_modes: int = 64,
    thorough: bool = False,
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
    n_starts : int
        Number of uniform starts in `bounds`.
    max_modes : int
        Modes returned, at most: the heaviest by Laplace weight.
    thorough : bool
        Look harder for modes much narrower than those known, at about six times the evaluations.
    max_evaluations : int
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
    budget = as_budget(max_evaluations, max_seconds)
    seed = integer_seed(rng)
    stream = np.random.default_rng(seed)
    extra = None if starts is None else as_starts(starts, target.dim)
    box = None if bounds is None else as_box(bounds, target.dim)
    sample = None if draws is None else to_unconstrained(draws, target, minimum=1)
    modes = search_modes(
        CountedTarget(target, budget),
        Beginning(None if sample is None else sample.values, None, extra, box, n_starts),
        SearchOptions(max_modes, None, THOROUGH if thorough else USUAL, progress),
        stream,
    )
    require_mode(modes)
    announce([*(() if sample is None else sample.warnings), *modes.warnings])
    return with_seed(modes, seed)


def as_budget(max_evaluations: Any, max_seconds: Any) -> Budget:
    """The budget of a function that has both limits among its arguments."""
    number = as_count(max_evaluations, "max_evaluations", maximum=10**12)
    return Budget(number, np.inf if max_seconds is None else as_one_positive(max_seconds, "max_seconds"))


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


class Beginning(NamedTuple):
    """What a search may begin with: held-out draws, or centre and scale, starts, a box of more starts."""

    held: np.ndarray | None = None
    location: tuple[np.ndarray, np.ndarray] | None = None  #: for a search that must not know single draws
    starts: np.ndarray | None = None
    box: np.ndarray | None = None
    n_starts: int = 256


class SearchOptions(NamedTuple):
    """What a search returns, and how hard it looks."""

    max_modes: int = 64
    cut: float | None = None  #: nats of weight below the heaviest mode; modes beyond are left out; 20 + d/2
    thoroughness: Thoroughness = USUAL
    progress: bool | None = None


def search_modes(
    density: CountedTarget, beginning: Beginning, options: SearchOptions, rng: np.random.Generator
) -> Modes:
    """The core of `find_modes`: no validation, no warning; no mode is an empty record that says why.

    Modes that the first points climb to are never left out because of their weight.
    """
    target = density.target
    extra = _extra_starts(beginning, target.dim, rng)
    plane = uncorrelated_coordinates(beginning.held)
    if plane is not None and beginning.held is not None:
        inner = CountedTarget(plane.target(target), density.budget)
        within = Beginning(plane.inward(beginning.held), None, plane.inward(extra) if len(extra) else None)
        return plane.modes(search_modes(inner, within, options, rng), target.names)
    origin = _origin(beginning, extra, target.dim, rng)
    state = Search(density, origin, FoundModes(target.dim, options.max_modes), rng, density.budget.made)
    state.thoroughness = options.thoroughness
    with progress_bar(options.progress) as tick:
        search_in_rounds(state, tick)
        order = state.found.within(20 + target.dim / 2 if options.cut is None else options.cut)
        weight = state.found.log_weight
        order = list(dict.fromkeys([*sorted(state.home, key=lambda k: -weight[k]), *order]))
        if state.reason == "max_modes":
            order = neighbours_first(state, order)
    return modes_record(state, order[: options.max_modes]) if order else without_mode(state)


def _origin(beginning: Beginning, extra: np.ndarray, dim: int, rng: np.random.Generator) -> Origin:
    """Where to begin and in which units: by the draws, a given location, the starts, or 0 and 1."""
    held = beginning.held
    if held is not None:
        first = np.linspace(0, len(held) - 1, num=min(16, len(held))).round().astype(int)
        return Origin(*median_and_mad(held), held[first], extra)
    centre, scale = np.zeros(dim), np.ones(dim)
    if beginning.location is not None:
        centre, scale = beginning.location
    elif len(extra):
        centre, scale = median_and_mad(extra)
    return Origin(centre, scale, centre + scale * rng.standard_normal((16, dim)), extra)


def _extra_starts(beginning: Beginning, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Starts that the user gave, and uniform ones in the box."""
    extra = np.empty((0, dim)) if beginning.starts is None else beginning.starts
    if beginning.box is None:
        return extra
    low, high = beginning.box
    return np.concatenate([extra, rng.uniform(low, high, size=(beginning.n_starts, dim))])


def median_and_mad(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and 1.4826 times the median absolute deviation of each coordinate, the latter never 0."""
    centre = np.median(x, axis=0)
    spread = 1.4826 * np.median(np.abs(x - centre), axis=0)
    return centre, np.where(spread > 0, spread, np.maximum(1.0, np.abs(centre)))
