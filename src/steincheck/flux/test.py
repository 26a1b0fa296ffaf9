"""The mode-flux test: is as much of the sample at each mode as the density says? See docs/theory/flux.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import as_generator
from ..draws import as_matrix
from ..modes.search import Modes, known_modes
from ..result import GofResult, note
from ..stein.bootstrap import pvalue
from ..target import Target, log_density_at
from .anchors import Anchors, assign, local_anchors, mode_anchors, shape_difference
from .counts import LEAST, RESAMPLES, compare, directions, groups, jumped_counts, tails
from .displacements import hotelling, lattice_steps, sign_test, step_flows
from .orbits import Exchange, Orbits, exchange, orbits
from .shares import LEVEL, mode_table

VARIANTS = ("expected", "exact")
RARE = 0.02  # part of the level for the counts of modes with a smaller variance than that, if there are any
ENOUGH, FEW = 10.0, 100  # with a smaller variance of a count, or fewer draws, the exact variant is used
EFFICIENT = 0.7  # below this efficiency of one anchor a mode, anchors=None tries several
SEVERAL = 4  # anchors a mode, then
MOVING = 0.01  # a draw contributes if its chance to leave its mode is larger
NEAR, DIP = 6.0, 1.0  # modes nearer than NEAR deviations with a dip below DIP nats between them are not apart
ALIKE = 0.1  # relative difference of covariances up to which modes may be part of a lattice
DRAWS_A_STEP = 10  # at most one displacement for so many draws, the shortest first


def flux_test(
    x: Any,
    target: Target,
    *,
    modes: Any = None,
    bounds: Any = None,
    variant: str = "expected",
    anchors: int | Anchors | None = None,
    n_jobs: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """Mode-flux test: is as much of the sample at each mode as the density says?

    H0: the draws are independent and come from the target. Linear maps carry every draw to all modes. Given
    this orbit, the target puts the draw at mode j with the known chance pi_j(x), proportional to the density
    of the image times the volume factor of the map. With c(x) the mode of x, the net flow into j,

        F_j(x) = pi_j(x) - 1{c(x) = j},    E F = 0,    Cov(F | orbit) = diag(pi) - pi pi',

    has mean zero and a known covariance, so that with V the sum of the covariances

        Q = (sum F)' V^+ (sum F)  ~  chi-square with rank V degrees of freedom.

    If the modes span at most a third as many dimensions, a fifth of the level goes to the part of Q in those
    combinations of F that are linear in the places of the modes: a trend of the weights.

    If the modes are part of a lattice too large to be known, draws are moved by its displacements v instead,
    f_v(x) = min(1, p(x+v)/p(x)) - min(1, p(x-v)/p(x)), and Hotelling's T2 of the means of f_v is used.

    It sees the weights of the modes it knows, nothing else: see `ksd_test` for the fit inside the modes.

    Parameters
    ----------
    x : array (n, d)
        The draws.
    target : Target
        The density; its score is used only to search modes and to run local chains.
    modes : Modes, (locations, covariances) or locations, optional
        At least two. They must not be chosen by looking at the draws; found by `find_modes` from uniform
        starts if not given.
    bounds : (low, high) or d such pairs, optional
        Box of the starts; by default the range of the draws, widened.
    variant : "expected" or "exact"
        How the p-value is found: from the limit law, or from 999 samples in which every draw has jumped
        according to its chances, which is exact for any n. "expected" turns to "exact" by itself where a
        direction of the counts has a variance below 10.
    anchors : int or Anchors, optional
        Gaussians a mode between which draws are moved; 1 takes the mode and its inverse Hessian, more come
        from short local chains (`steincheck.flux.local_anchors`). By default 1, or 4 if 1 is inefficient.
    n_jobs : int, optional
        Search modes in parallel.
    rng : Generator or int, optional
        Only the search, the local chains and the exact variant are random.

    Returns
    -------
    GofResult
        ``pvalue`` is NaN, with a warning, if no draw could be elsewhere: the test cannot tell. Details:
        ``flow`` (M, M), mean chance to go from i to j; ``net_flow`` and ``net_flow_se`` (M,), positive into
        modes with too few draws; ``words`` about each mode; ``acceptance``, mean chance to leave a mode;
        ``contributing``, number of draws for which it exceeds 1 %; ``efficiency``, share of the variance of
        the counts of draws that is left given the orbits; ``features``; ``degrees_of_freedom``;
        ``trend_pvalue``, that of a trend of the weights over the places of the modes, NaN where they have too
        many dimensions for it; ``method``, the variant that gave the p-value; ``shares``, a `ModeTable`;
        ``modes``. With displacements ``displacements`` (V, d), flows by displacement, and ``shares`` is None.

    Examples
    --------
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> draws = target.sample(1000, rng=0, weights=[0.6, 0.4])
    >>> result = sc.flux_test(draws, target, rng=0)
    >>> result.reject(), result.words
    (True, ('too many draws', 'too few draws'))
    """
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")
    if variant not in VARIANTS:
        raise ValueError(f"`variant` must be {' or '.join(map(repr, VARIANTS))}, got {variant!r}")
    x = as_matrix(x, target.dim)
    streams = as_generator(rng).spawn(3)
    notes: list[str] = []
    known, rows = known_modes(modes, target, x, bounds, rng=streams[0], notes=notes)
    x = x[rows]
    _check_modes(known, target, modes is None, notes)
    single = mode_anchors(known)
    steps = None
    if anchors is None and shape_difference(known.covariances) <= ALIKE:
        steps = lattice_steps(target, known.locations, known.covariances.mean(axis=0))
    if steps is not None:
        outcome = _test_steps(x, target, steps[: max(1, len(x) // DRAWS_A_STEP)], variant, notes, streams[2])
    else:
        found, swap, chosen = _choose(x, target, known, single, anchors, streams[1])
        outcome = _test_modes(found, swap, known, len(chosen), variant, notes, streams[2])
    statistic, p, null, details = outcome
    settings = {"variant": variant, "rng": rng if isinstance(rng, (int, np.integer)) else None}
    settings |= {"anchors": anchors if isinstance(anchors, (int, np.integer)) else None, "bounds": bounds}
    return GofResult(
        "flux test",
        statistic,
        p,
        null,
        len(x),
        target.dim,
        tuple(notes),
        settings,
        details | {"modes": known},
    )


def _check_modes(known: Modes, target: Target, searched: bool, notes: list[str]) -> None:
    if len(known) < 2:
        advice = "widen `bounds` or give the `modes` you know" if searched else "give all `modes` you know"
        raise ValueError(
            f"flux_test compares the weights of at least two modes, but {len(known)} is known: {advice}; if "
            "the density has only one there is nothing to compare, see ksd_test for the fit inside of it"
        )
    squared = np.empty((len(known), len(known)))
    for k, hessian in enumerate(np.linalg.inv(known.covariances)):
        gap = known.locations - known.locations[k]
        squared[k] = np.sum((gap @ hessian) * gap, axis=1)
    first, second = np.nonzero(np.triu(squared + squared.T < 2 * NEAR**2, 1))
    if not len(first):
        return
    way = np.linspace(0, 1, 11)[1:-1, None, None]
    between = (1 - way) * known.locations[first] + way * known.locations[second]
    height = log_density_at(target, between.reshape(-1, target.dim), proposal=True).reshape(len(way), -1)
    dip = np.minimum(known.log_density[first], known.log_density[second]) - height.min(axis=0)
    if np.any(dip < DIP):
        pairs = ", ".join(f"{first[k]} and {second[k]}" for k in np.flatnonzero(dip < DIP)[:3])
        note(notes, f"modes {pairs} are closer than they are wide: their shares are not meaningful")


def _choose(
    x: np.ndarray, target: Target, known: Modes, single: Anchors, anchors: Any, rng: np.random.Generator
) -> tuple[Orbits, Exchange, Anchors]:
    """The orbits of the draws, what they say about the counts, and the anchors they are made with."""
    if isinstance(anchors, Anchors):
        full = np.array_equal(np.unique(anchors.mode), range(len(known)))
        if not full or np.any(np.diff(anchors.mode) < 0):
            raise ValueError(f"`anchors` must be sorted by mode, at least one for each of {len(known)} modes")
        if anchors.centres.shape[1:] != (target.dim,):
            raise ValueError(f"`anchors` must have dimension {target.dim}, got {anchors.centres.shape[1:]}")
        home = anchors.mode[assign(known.locations, anchors)]
        if not np.array_equal(home, np.arange(len(known))):
            raise ValueError(f"`anchors` must be made for these `modes`: these lie at modes {home.tolist()}")
        found = orbits(x, target, anchors)
        return found, exchange(found), anchors
    if anchors is not None and (
        not isinstance(anchors, (int, np.integer)) or isinstance(anchors, bool) or anchors < 1
    ):
        raise ValueError(f"`anchors` must be a positive integer, Anchors or None, got {anchors!r}")
    if anchors not in (None, 1):
        several = local_anchors(target, known, int(anchors), rng=rng)
        found = orbits(x, target, several)
        return found, exchange(found), several
    found = orbits(x, target, single)
    swap = exchange(found)
    if anchors is None and swap.efficiency < EFFICIENT:
        several = local_anchors(target, known, SEVERAL, rng=rng)
        other = orbits(x, target, several)
        other_swap = exchange(other)
        if other_swap.efficiency > swap.efficiency:
            return other, other_swap, several
    return found, swap, single


def _test_modes(
    found: Orbits,
    swap: Exchange,
    known: Modes,
    n_anchors: int,
    variant: str,
    notes: list[str],
    rng: np.random.Generator,
) -> tuple[float, float, np.ndarray | None, dict[str, Any]]:
    """Compare the counts of draws at the modes with what the orbits say."""
    counts, expected, covariance, chances = swap
    n, n_modes = chances.shape
    flow = np.stack([np.bincount(found.own, column, minlength=n_modes) for column in chances.T], axis=1) / n
    leave = 1 - chances[np.arange(n), found.own]
    scale, values, trends = directions(covariance, known.locations)
    variance, group, tail = np.diag(covariance), groups(covariance, expected), tails(counts, expected, n)
    linked = np.bincount(group)[group] > 1
    rare = (variance < LEAST) & (linked | (expected < LEAST))
    statistic, p, trend, null, kept = np.nan, np.nan, np.nan, None, len(values)
    if kept:
        smallest = min(values.min(), variance[variance >= LEAST].min(initial=np.inf))
        exact = variant == "exact" or n < FEW or smallest < ENOUGH
        jumped = jumped_counts(chances, rng) - expected if exact else None
        statistic, p, trend, null = compare(counts - expected, scale, trends, jumped)
    known_or_odd = rare & (linked | (tail < 1))  # of others nothing can be said
    if rare.any() and (kept or known_or_odd.any()):
        single = rare.sum() * float(tail[rare].min())
        p = min(1.0, single) if np.isnan(p) else min(1.0, p / (1 - RARE), single / RARE)
        if not kept:
            note(notes, "there are few draws for so many or so rare modes: only a gross excess is noticed")
    net, error = (expected - counts) / n, np.sqrt(variance) / n
    # the normal law is not trusted where the variance is small
    far = np.where(variance >= ENOUGH, _beyond(net, error), tail <= LEVEL / n_modes)
    words = _words(net, far, (variance >= LEAST) | known_or_odd, ("too many draws", "too few draws"))
    _warn(p, leave, group, notes)
    details = {
        "flow": flow - np.diag(np.diag(flow)),
        "net_flow": net,
        "net_flow_se": error,
        "words": words,
        "acceptance": float(leave.mean()),
        "contributing": int(np.sum(leave > MOVING)),
        "efficiency": swap.efficiency,
        "features": f"net flow into {n_modes} modes ({n_anchors} anchors)",
        "degrees_of_freedom": kept,
        "trend_pvalue": trend,
        "method": "exact" if null is not None else "expected",
        "shares": mode_table(found, counts, group, known.locations, words),
    }
    return statistic, p, null, details


def _beyond(net: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Which net flows differ from 0 by a normal law, all of them at one level."""
    from scipy.special import ndtri

    return np.abs(net) > -ndtri(0.5 * LEVEL / len(net)) * error


def _words(
    net: np.ndarray, far: np.ndarray, examined: np.ndarray, choice: tuple[str, str]
) -> tuple[str, ...]:
    """What the net flows say one by one; `choice` is said of a flow out and of a flow in."""
    said = np.where(far, np.where(net < 0, *choice), "as expected")
    return tuple(np.where(examined, said, "not examined").tolist())


def _warn(p: float, leave: np.ndarray, group: np.ndarray, notes: list[str]) -> None:
    if np.isnan(p):
        note(
            notes,
            "cannot tell: no draw could be at another mode by these maps, so the weights were not examined; "
            "give more `anchors` a mode, or check that the modes are those of the draws",
        )
        return
    if group.max() > 0:
        parts = "; ".join(
            ", ".join(map(str, np.flatnonzero(group == g)[:10])) for g in range(min(group.max() + 1, 5))
        )
        text = "hardly any exchange between these groups of modes, whose weights were not compared"
        note(notes, f"{text}: {parts}")
    moving = np.mean(leave > MOVING)
    if moving < 0.5:
        note(
            notes,
            f"only {moving:.0%} of the draws could be at another mode, the others do not count: modes are "
            "far from elliptic (give more `anchors`), or draws lie at modes that are not known",
        )


def _test_steps(
    x: np.ndarray, target: Target, steps: np.ndarray, variant: str, notes: list[str], rng: np.random.Generator
) -> tuple[float, float, np.ndarray | None, dict[str, Any]]:
    """Compare the flows along the displacements of a lattice with those against them."""
    accept, clear = step_flows(x, target, steps)
    flow = accept[:, 0] - accept[:, 1]
    null = None
    if variant == "expected" and clear.any() and len(x) >= DRAWS_A_STEP * clear.sum():
        statistic, p, freedom = hotelling(flow[:, clear])
    else:
        statistic, null, freedom = sign_test(accept, RESAMPLES, rng)
        p = pvalue(statistic * (1 - 1e-9), null) if freedom else np.nan
    net, error = flow.mean(axis=0), np.std(flow, axis=0) / np.sqrt(len(x))
    leave = accept.max(axis=(1, 2))
    note(notes, "the modes are part of a larger lattice: draws were moved by its displacements, not to modes")
    _warn(p, leave, np.zeros(1), notes)
    return (
        statistic,
        p,
        null,
        {
            "flow": accept.mean(axis=0).T,
            "net_flow": net,
            "net_flow_se": error,
            "words": _words(net, _beyond(net, error), clear, ("too few draws behind", "too few draws ahead")),
            "acceptance": float(accept.mean()),
            "contributing": int(np.sum(leave > MOVING)),
            "features": f"net flow along {len(steps)} displacements, {clear.sum()} of them with enough draws",
            "degrees_of_freedom": freedom,
            "method": "expected" if null is None else "exact",
            "displacements": steps,
            "shares": None,
        },
    )
