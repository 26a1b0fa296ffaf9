"""The paper's search (Alg. 2): uniform starts in a box, and merging."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._validation import RandomSource, announce, as_count, as_one_positive, integer_seed
from ..result import Modes
from ..target import Target, require_target
from ..target.evaluation import Budget, CountedTarget, as_budget
from ..typing import BoundsLike
from .climb import starts_at
from .peaks import FoundModes
from .rounds import Origin, Search, climb_and_absorb
from .search import (
    as_box,
    as_starts,
    modes_record,
    require_mode,
    with_seed,
    with_uniform,
)


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
    box = None if bounds is None else as_box(bounds, target.dim)
    given = None if starts is None else as_starts(starts, target.dim)
    stream = np.random.default_rng(seed)
    modes = box_search_core(
        target, box, given, stream, n_starts=n_starts, max_modes=max_modes, beta=beta, budget=budget
    )
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
    origin = Origin(box.mean(axis=0), width, x, x[:0])
    state = Search(density, origin, FoundModes(max_modes, beta), rng, rounds=1)
    climb_and_absorb(state, starts_at(x, np.diag(width**2), 0.1), iterations=1000)
    chosen = state.found.within(20 + target.dim / 2)
    state.reason = density.budget.exhausted or ("max_modes" if len(chosen) > max_modes else "one round")
    found = modes_record(state, chosen[:max_modes])
    require_mode(found)
    return found
