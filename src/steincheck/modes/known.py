"""The modes that a test uses: those the user gives, or those that a search finds from held-out draws."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._validation import as_numbers, check_covariances, listed, listed_rows
from .._whitening import Gaussians
from ..chains.reading import Sample
from ..draws import as_matrix
from ..result import Modes
from ..target import Target, log_density_at
from ..target.evaluation import Budget, CountedTarget, OutOfBudget, counting_target
from .climb import Ends, hessians_at, peak_at, starts_at
from .rounds import Search, climb_and_add, score_residuals, settle_and_add
from .search import require_mode, search_modes, with_uniform


def hold_out(
    n: int, chain: np.ndarray | None = None, group: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of n draws to search from and rows to test, by a rule that no seed decides.

    min(max(n/10, 20), 100) draws are held out: evenly spaced, or whole groups, where `group` (n,) says which
    draws may depend on each other. Where `chain` (n,) says to which chain each draw belongs, it is the last
    ones of every chain in proportion to its length; of many short chains, whole ones. Below n = 100 none is:
    the search then gets median and MAD of all draws only, which a rare mode cannot move.

    Examples
    --------
    >>> hold_out(100)[0][:4].tolist()
    [2, 7, 12, 17]
    """
    rows = np.arange(n)
    if n < 100:
        return rows[:0], rows
    size = int(min(max(n / 10, 20), 100))
    owner = rows if group is None else group
    owner = owner if chain is None else chain
    labels = owner[np.sort(np.unique(owner, return_index=True)[1])]  # in the order of the draws
    if chain is None or size < 5 * len(labels):  # whole ones, evenly spaced
        count = min(int(np.ceil(size * len(labels) / n)), len(labels) // 2)
        some = labels[((np.arange(count) + 0.5) * len(labels) / count).astype(int)]
        held = np.flatnonzero(np.isin(owner, some))
    else:
        chains = [np.flatnonzero(chain == label) for label in labels]
        last = [members[len(members) - round(size * len(members) / n) :] for members in chains]
        held = np.concatenate(last)
    return held, np.setdiff1d(rows, held)


class KnownModes(NamedTuple):
    """The modes that a test uses, and the draws that it may test with them."""

    modes: Modes
    rows: np.ndarray  # of the draws that the modes do not depend on
    warnings: tuple[str, ...]


def known_modes(
    modes: Any,
    target: Target,
    sample: Sample,
    box: np.ndarray | None,
    *,
    rng: np.random.Generator,
    budget: Budget | None = None,
) -> KnownModes:
    """The user's modes, or those found from some of the draws, which are not tested.

    The search takes half of the budget.
    """
    x = sample.x
    budget = Budget() if budget is None else budget
    if modes is not None:
        given = modes_with_mass(as_modes(modes, target, budget), x, 100 * len(x))
        return KnownModes(given, np.arange(len(x)), ())
    held, tested = hold_out(len(x), sample.chain, sample.group)
    part = Budget(budget.left / 2)
    found = search_from_draws(target, x, held, box, rng=rng, budget=part)
    budget.made += part.made
    require_mode(found)
    return KnownModes(found, tested, found.warnings)


def modes_with_mass(modes: Modes, x: np.ndarray, n: int) -> Modes:
    """The modes that should hold one of `n` draws, by their Laplace weight, or that hold some of `x` (m, d).

    A mode of less than 1/n of the weight of the heaviest can neither be tested nor be missed. Where it holds
    draws, its weight is larger than Laplace's. If `x` are the draws to be tested, `n` must be a hundred times
    their number: modes that are known only in samples that have a draw there raise the level otherwise.
    """
    if not len(modes):
        return modes
    weight = modes.laplace_weights
    log_weight = np.log(np.maximum(weight, 1e-300))
    home = Gaussians(modes.locations, modes.covariances, log_weight).largest(x)
    kept = (weight * n >= weight.max()) | np.isin(np.arange(len(modes)), home)
    arrays = {name: getattr(modes, name)[kept] for name in ("locations", "covariances", "log_density")}
    return replace(modes, **arrays)


def search_from_draws(
    target: Target,
    x: np.ndarray,
    held: np.ndarray,
    box: np.ndarray | None,
    *,
    starts: np.ndarray | None = None,
    progress: bool | None = None,
    rng: np.random.Generator,
    budget: Budget | None = None,
) -> Modes:
    """Search from the rows `held` of the draws `x` (n, d); about the location of all if none is held out.

    Modes without mass are left out; which of them hold draws, only the held-out draws say.
    """
    extra = with_uniform(starts, box, 256, target.dim, rng)
    density = CountedTarget(target, budget)
    points = x[held] if len(held) else x
    found = search_modes(density, points, extra, rng, from_points=len(held) > 0, progress=progress)
    return modes_with_mass(found, x[held], len(x))


def climb_from_draws(
    x: np.ndarray, scores: np.ndarray, target: Target, known: Modes, budget: Budget | None = None
) -> tuple[int, np.ndarray]:
    """Climb from the 16 draws whose score points least to a known mode, to see whether they reach others.

    How many draws belong to modes that are not known, and these modes (K, d).
    A draw belongs to the mode whose parabola is highest there. Only smooth, curved maxima count: on rings and
    plateaus every climb ends somewhere else. For warnings only: modes found in this way depend on the draws,
    and a test must not be made with them.
    """
    roots = np.linalg.cholesky(known.covariances)
    peaks = list(map(peak_at, known.locations, known.log_density, roots))
    first = x[np.argsort(-score_residuals(peaks, scores, x), kind="stable")[:16]]
    metric = known.covariances.mean(axis=0)
    density = CountedTarget(target, budget)
    state = Search(density, x[0], np.sqrt(np.diag(metric)), np.random.default_rng(0), len(peaks) + 16)
    state.peaks = list(peaks)
    climb_and_add(state, starts_at(first, metric, 0.5), iterations=1000)
    unknown = [k for k in state.within(20 + target.dim / 2) if k >= len(peaks)]
    heights = [peak.log_density - peak.drop(x) for peak in state.peaks]
    n_unknown = int(np.isin(np.argmax(heights, axis=0), unknown).sum())
    return n_unknown, np.array([state.peaks[k].x for k in unknown]).reshape(-1, target.dim)


def as_modes(modes: Any, target: Target, budget: Budget | None = None) -> Modes:
    """Validate a user's modes, in the user's order: `Modes`, a tuple (locations, covariances), or locations.

    Locations alone are climbed to their maxima, and the inverse Hessians of -log p there are taken.
    """
    if isinstance(modes, Modes) and modes.names and target.names and modes.names != tuple(target.names):
        raise ValueError(
            f"`modes` must have the coordinates of the target in its order, {listed(target.names)}, got "
            f"{listed(modes.names)}"
        )
    locations, covariances = as_pair(modes)
    if not np.size(locations):
        raise ValueError("`modes` must hold at least one location, got none")
    x = as_matrix(locations, target.dim, minimum=1, name="modes")
    counted = target if budget is None else counting_target(target, budget)
    log_density = log_density_at(counted, x, where="every row of `modes`")
    if covariances is None:
        return _maxima(x, log_density, CountedTarget(target, budget))
    matrices = as_covariances(covariances, x.shape)
    state = Search(CountedTarget(target), x[0], x[0], np.random.default_rng(0), len(x), beta=1e-6)
    peaks = map(peak_at, x, log_density, np.linalg.cholesky(matrices))
    _refuse_duplicates(np.array([state.add(peak) for peak in peaks]))
    if isinstance(modes, Modes):  # found for another constant, perhaps: the heights are those of this target
        return replace(modes, locations=x, covariances=matrices, log_density=log_density)
    return Modes(x, matrices, log_density)


def _maxima(x: np.ndarray, log_density: np.ndarray, density: CountedTarget) -> Modes:
    """The modes at locations: Newton steps from each, and a climb where these lead nowhere."""
    scale = hessians_at(density, x, np.ones(x.shape))[1].min(axis=0)
    state = Search(density, x[0], scale, np.random.default_rng(0), len(x))
    at_rest = np.ones(len(x), bool)
    here = Ends(x, log_density, at_rest, np.full(len(x), -1), np.broadcast_to(scale, x.shape))
    label = settle_and_add(state, here, at_rest, flat=True)
    lost = np.flatnonzero(label < 0)
    if len(lost):
        ends = climb_and_add(state, starts_at(x[lost], np.diag(scale**2)), iterations=1000, flat=True)
        label[lost] = ends.mode
    if (label < 0).any() and density.budget.exhausted:
        raise OutOfBudget(
            f"`max_evaluations` or `max_seconds` must allow more than {density.budget.made} evaluations to "
            "climb to the maxima of `modes`; or give `modes` as a pair (locations, covariances)"
        )
    brief = partial(np.array2string, precision=4, threshold=8)
    for row in np.flatnonzero(label[lost] < 0)[:1]:
        raise ValueError(
            f"`modes` must be local maxima: ascending from row {lost[row]}, {brief(x[lost[row]])}, leads "
            f"to {brief(ends.x[row])}, where the log density is {ends.log_density[row]:.4g}, and to no "
            "maximum; correct it, or give `modes` as a pair (locations, covariances)"
        )
    _refuse_duplicates(label)
    peaks = [state.peaks[k] for k in label]
    covariances = np.array([peak.root @ peak.root.T for peak in peaks])
    return Modes(np.array([peak.x for peak in peaks]), covariances, np.array([p.log_density for p in peaks]))


def _refuse_duplicates(label: np.ndarray) -> None:
    twins = np.flatnonzero(np.bincount(label)[label] > 1)
    if len(twins):
        raise ValueError(f"`modes` must lead to different maxima, but {listed_rows(twins)} lead to one")


def as_pair(modes: Any) -> tuple[Any, Any]:
    """Locations, and covariances or None: a tuple of two is a pair if its first member has two axes."""
    if isinstance(modes, Modes):
        return modes.locations, modes.covariances
    if isinstance(modes, tuple) and len(modes) == 2 and np.ndim(modes[0]) == 2:
        return modes
    return modes, None


def as_covariances(covariances: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Covariance matrices (M, d, d) of modes of this shape (M, d), or one clear error."""
    matrices = as_numbers(covariances, "modes", "given with covariances that are numbers")
    expected = (*shape, shape[1])
    if matrices.shape != expected or not np.isfinite(matrices).all():
        raise ValueError(
            f"the covariances of `modes` must be finite, of shape {expected}, got shape {matrices.shape}"
        )
    check_covariances(matrices, "the covariances of `modes`")
    return matrices
