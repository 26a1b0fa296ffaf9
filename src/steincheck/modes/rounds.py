"""The search without a box: rounds of climbs from many scales about the modes known so far.

Each round places starts about the modes found before, climbs from them, adds what is new, and completes it by
the symmetries of the density. It ends when a round finds no new mode of weight above 1/1000. The figures
behind the numbers are in experiments/results/mode_study.csv and mode_frontier.csv.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..result import SignedPermutation
from ..result.modes import SearchEnd
from ..target.counting import CountedTarget
from .climb import Ends, Starts, climb, join, recognise, squared_lengths, starts_at
from .merge import FoundModes, Peak, merge
from .settle import TOP_DROP, FlatTop, flat_top, settle
from .starts import ellipsoid_starts, isotropic_starts, scanned_starts, screened_starts
from .symmetry import MAX_SYMMETRIES, likely_maps, matching_map, probes, verified_maps

STARTS_PER_KIND = 32  # per round
MAX_BASES = 8  # modes about which the starts of one round are placed, and orbits that lengthen the search


class Thoroughness(NamedTuple):
    """How hard to look for modes that few starts reach."""

    screened: int = 1024  #: points per kind of start and round
    scanned: int = 6144  #: points on lines through the heaviest mode; without them narrow_1 is missed
    per_orbit: int = 14_000  #: evaluations before the search ends, per orbit of modes under the symmetries


USUAL = Thoroughness()
THOROUGH = Thoroughness(4096, 32_768, 90_000)  # finds narrower modes (mode_frontier.csv)


class Origin(NamedTuple):
    """Where the search begins, and in which units; what the user added to it."""

    centre: np.ndarray
    scale: np.ndarray
    points: np.ndarray  #: (m, d) points to climb from at first
    extra: np.ndarray  #: (k, d) further starts of the first round


@dataclass
class Search:
    """A search in progress, and what it found."""

    density: CountedTarget
    origin: Origin
    found: FoundModes
    rng: np.random.Generator
    begin: int  #: evaluations that others had made before
    thoroughness: Thoroughness = USUAL
    symmetries: list[SignedPermutation] = field(default_factory=list)
    mirrored: set[int] = field(default_factory=set)  #: modes whose images under likely maps were looked at
    scanned: bool = False  #: whether lines through the heaviest mode were looked at
    home: list[int] = field(default_factory=list)  #: modes that the first points climb to
    rounds: int = 0
    climbs: int = 0
    not_converged: int = 0
    outside: int = 0  #: climbs that began where the density is 0
    reason: SearchEnd = "no mode"  #: why it ended
    false_tops: int = 0  #: places without a parabola that are not tops
    constant: FlatTop | None = None  #: a place on a line along which the density does not change
    highest: tuple[float, np.ndarray] | None = None  #: place from which log p goes on rising

    @property
    def bases(self) -> list[Peak]:
        """The heavy modes; as long as none is known, what stands in for one."""
        heavy = [self.found.peaks[k] for k in self.found.heavy()]
        return heavy or [Peak(self.origin.centre, 0.0, np.diag(self.origin.scale**-2.0), "flat")]

    def note_unfinished(self, log_density: float, x: np.ndarray) -> None:
        """Remember a place from which log p goes on rising, if it is the highest one."""
        if self.highest is None or log_density > self.highest[0]:
            self.highest = (log_density, x)

    def at_infinity(self, x: np.ndarray) -> np.ndarray:
        """Whether points (..., d) are so far out, 1e9 units, that by rounding any density looks flat."""
        return np.max(np.abs(x - self.origin.centre) / self.origin.scale, axis=-1) > 1e9


def search_in_rounds(state: Search, tick: Callable[[str, int, int], object]) -> None:
    """Find modes in rounds until the reason to stop is known."""
    density, found = state.density, state.found
    begin = state.begin
    tick("climbing from the first points", 0, 1)
    first = starts_at(state.origin.points[:16], state.bases[0].metric)
    ends = climb_from(state, first, iterations=1000)
    absorb(state, ends, np.isfinite(ends.log_density))
    state.home = list(range(len(found.peaks)))
    latest = begin  # evaluations when the latest heavy mode was found
    quiet = False
    while True:
        state.rounds += 1
        before = set(found.heavy())
        tick(f"round {state.rounds}, {len(before)} modes", density.budget.made - begin, _wanted(state))
        climb_and_absorb(state, _starts_of_round(state, quiet))
        _read_symmetries(state)
        _complete_orbits(state)
        screened, quiet = quiet, not set(found.heavy()) - before
        if not quiet:
            latest = density.budget.made
        spent = density.budget.made - begin
        enough = screened and quiet and spent >= max(_wanted(state), 2 * (latest - begin))
        reason = _reason_to_stop(state, enough)
        if reason is not None:
            state.reason = reason
            return


def _reason_to_stop(state: Search, enough: bool) -> SearchEnd | None:
    exhausted = state.density.budget.exhausted
    if exhausted is not None:
        return exhausted
    if not state.found.peaks:
        return "no mode" if state.rounds >= 2 else None
    if len(state.found.heavy()) >= state.found.max_modes:
        return "max_modes"
    return "complete" if enough else None


def _wanted(state: Search) -> int:
    """Evaluations before which the search does not end: in proportion to the orbits of heavy modes."""
    found = state.found
    heavy = [found.peaks[k] for k in found.heavy()]
    orbit = np.arange(len(heavy))
    known = FoundModes(found.dim, found.max_modes, found.beta, heavy).known()
    for g in state.symmetries:
        image = recognise(g(known.x), known.log_density, known)
        for k in np.flatnonzero(image >= 0):
            orbit[orbit == orbit[k]] = orbit[image[k]]
    return state.thoroughness.per_orbit * min(MAX_BASES, max(1, len(np.unique(orbit))))


def _starts_of_round(state: Search, quiet: bool) -> Starts:
    """Starts of each kind about the modes least used; after a quiet round the best of many such starts."""
    bases = state.bases
    used = _least_used(state) or bases
    parts = _images_as_starts(state)
    budget = state.density.budget
    cost = 1 if state.density.compiled else 1 + state.density.score_cost
    many = int(min(state.thoroughness.screened, budget.left / (8 * cost)))
    for kind in (ellipsoid_starts, isotropic_starts):
        if quiet and many > STARTS_PER_KIND:
            drawn = _shared_starts(kind, used, many, state.rng)
            parts.append(screened_starts(state.density, drawn, STARTS_PER_KIND, bases, state.rng))
        else:
            parts.append(_shared_starts(kind, used, STARTS_PER_KIND, state.rng))
    if quiet and not state.scanned:
        state.scanned = True
        points = min(state.thoroughness.scanned, max(512, _wanted(state) - budget.made + state.begin))
        parts.append(scanned_starts(state.density, bases[0], min(int(points), budget.left / 4)))
    if state.rounds == 1 and len(state.origin.extra):
        parts.append(starts_at(state.origin.extra, bases[0].metric))
    return join(parts)


def _shared_starts(
    kind: Callable[[Peak, int, np.random.Generator], Starts],
    bases: list[Peak],
    n: int,
    rng: np.random.Generator,
) -> Starts:
    """`n` starts of one kind, shared among the bases."""
    shares = [len(part) for part in np.array_split(np.arange(n), len(bases))]
    return join([kind(base, size, rng) for base, size in zip(bases, shares, strict=True)])


def _least_used(state: Search) -> list[Peak]:
    """The heavy modes about which the fewest rounds have searched; they are marked as used."""
    found = state.found
    chosen = sorted(found.heavy(), key=lambda k: found.uses[k])[:MAX_BASES]
    for k in chosen:
        found.uses[k] += 1
    return [found.peaks[k] for k in chosen]


def _images_as_starts(state: Search) -> list[Starts]:
    """Images of one more heavy mode under likely symmetries: the highest; exact symmetries are kept."""
    new = [k for k in state.found.heavy() if k not in state.mirrored][:1]
    if not new:
        return []
    state.mirrored.update(new)
    peak = state.found.peaks[new[0]]
    maps = likely_maps(len(peak.x))
    images = np.array([g(peak.x) for g in maps]).reshape(-1, len(peak.x))
    far = np.flatnonzero(squared_lengths(images - peak.x, peak.hessian) > 1)
    far = far[: int(min(len(far), state.density.budget.left / 8))]
    value = state.density.log_density(images[far])
    equal = np.abs(value - peak.log_density) < 1e-6 * (1 + abs(peak.log_density))
    _keep_symmetries(state, peak, [maps[i] for i in far[equal]])
    best = np.argsort(-value, kind="stable")[:STARTS_PER_KIND]
    return [starts_at(images[far[best[np.isfinite(value[best])]]], peak.metric)]


def _keep_symmetries(state: Search, peak: Peak, candidates: list[SignedPermutation]) -> None:
    """Keep those of the maps that are exact symmetries about a mode."""
    new = [g for g in candidates if g not in state.symmetries]
    if new:
        exact = verified_maps(state.density.log_density, new, probes(peak.x, peak.root, state.rng))
        state.symmetries = (state.symmetries + exact)[:MAX_SYMMETRIES]


def _read_symmetries(state: Search) -> None:
    """Signed permutations read off pairs of equally high modes, for any order of the coordinates."""
    heavy = [state.found.peaks[k] for k in state.found.heavy()]
    candidates = []
    for peak in heavy[1 : 1 + MAX_SYMMETRIES]:
        if abs(peak.log_density - heavy[0].log_density) < 1e-5:
            places = np.array([heavy[0].x, peak.x])
            candidates.append(matching_map(places, np.array([heavy[0].hessian, peak.hessian]), heavy[0].sd))
    if candidates:
        _keep_symmetries(state, heavy[0], [g for g in candidates if g is not None])


def _complete_orbits(state: Search) -> None:
    """Images of modes under exact symmetries are modes: added without a climb, until none is new."""
    found = state.found
    queue = found.heavy() if state.symmetries else []
    seen = set(queue)
    while queue and len(seen) <= 2 * found.max_modes and not state.density.budget.exhausted:
        peak = found.peaks[queue.pop(0)]
        images = np.array([g(peak.x) for g in state.symmetries])
        new = np.flatnonzero(recognise(images, np.full(len(images), peak.log_density), found.known()) < 0)
        value, score = state.density.log_density_and_score(images[new])
        for i, top, slope in zip(new, value, score, strict=True):
            hessian = state.symmetries[i].conjugate(peak.hessian)
            same = abs(top - peak.log_density) < 1e-6 * (1 + abs(peak.log_density))
            if same and (peak.kind == "flat" or 0.5 * slope @ np.linalg.solve(hessian, slope) < 1e-5):
                k = found.add(Peak(images[i], float(top), hessian, peak.kind))
                if k is not None and k not in seen:
                    seen.add(k)
                    queue.append(k)


def climb_from(state: Search, starts: Starts, iterations: int) -> Ends:
    """Climb, and remember the highest place at which a climb was not finished."""
    state.climbs += len(starts.x)
    ends = climb(state.density, starts, iterations=iterations, known=state.found.known())
    state.outside += int(np.sum(np.isneginf(ends.log_density)))
    unfinished = ~ends.rest | state.at_infinity(ends.x)
    going = np.flatnonzero(unfinished & (ends.mode < 0) & np.isfinite(ends.log_density))
    if len(going):
        best = going[np.argmax(ends.log_density[going])]
        state.note_unfinished(float(ends.log_density[best]), ends.x[best])
    return ends


def climb_and_absorb(state: Search, starts: Starts, iterations: int = 200) -> None:
    """Climb in blocks, so that later blocks stop at the modes that earlier ones found.

    Climbs that are not finished after so many iterations are settled if they are high.
    """
    order = state.rng.permutation(len(starts.x))
    for start in range(0, len(order), 256):
        if state.density.budget.exhausted:
            return
        ends = climb_from(state, starts.rows(order[start : start + 256]), iterations)
        unfinished = np.flatnonzero(~ends.rest & (ends.mode < 0) & np.isfinite(ends.log_density))
        high = unfinished[np.argsort(-ends.log_density[unfinished], kind="stable")][:16]  # the highest
        wanted = ends.rest.copy()
        wanted[high] = True
        state.not_converged += len(unfinished)
        absorb(state, ends, wanted)


def absorb(state: Search, ends: Ends, wanted: np.ndarray, *, flat: bool = False) -> np.ndarray:
    """Settle the distinct ends, highest first, add them to the modes found, and count climbs per mode.

    Returns the mode of each end, -1 where there is none. Flat and pointed tops are measured as long as no
    smooth mode is known, or always if `flat`.
    """
    found = state.found
    label = ends.mode.copy()
    left = np.flatnonzero(wanted & (label < 0) & np.isfinite(ends.log_density))
    left = left[np.argsort(-ends.log_density[left], kind="stable")]
    rough = list[int]()
    while len(left) and not state.density.budget.exhausted and not found.full:
        batch = left[_distinct_points(ends.x[left], ends.width[left])]
        done = settle(state.density, ends.x[batch], ends.width[batch])
        for i, row in enumerate(batch):
            if done.kind[i] == "mode":
                k = found.add(Peak(done.x[i], float(done.log_density[i]), done.hessian[i]))
                label[row] = -1 if k is None else k
        dull = batch[(done.kind == "rough") & ends.rest[batch]]
        same = (np.abs(ends.x[left, None] - ends.x[dull]) <= 0.05 * ends.width[dull]).all(axis=2).any(axis=1)
        rough += left[same & ends.rest[left]].tolist()
        left = left[~same & ~np.isin(left, batch)]
        label[left] = recognise(ends.x[left], ends.log_density[left], found.known())
        left = left[label[left] < 0]
    if flat or not any(peak.kind == "mode" for peak in found.peaks):
        _absorb_flat(state, ends, rough, label)
    for k in label[label >= 0]:
        found.n_starts[k] += 1
    return label


def _distinct_points(x: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Positions of the first 48 points that differ from each other: as many are settled at once."""
    chosen = list[int]()
    for i in range(len(x)):
        if (np.abs(x[chosen] - x[i]) > 0.05 * width[i]).any(axis=1).all():
            chosen.append(i)
        if len(chosen) == 48:
            break
    return np.array(chosen)


def _absorb_flat(state: Search, ends: Ends, rough: Iterable[int], label: np.ndarray) -> None:
    """Ends where log p has no parabola: tops are measured, and others joined to them.

    After four places that are not tops no more are measured.
    """
    for row in rough:
        if state.at_infinity(ends.x[row]):
            continue
        k = _flat_top_of(state, ends.x[row], ends.log_density[row])
        if k is None:
            if state.false_tops >= 4 or state.density.budget.exhausted:
                return
            # nats by which a climb may have missed a top, another one or the first
            gain = 0.05 if state.found.peaks else 10.0 * state.found.dim
            top = flat_top(state.density, ends.x[row], state.origin.scale, max_gain=gain)
            if top.constant_along is not None:
                state.constant = top
            if top.peak is None:
                state.note_unfinished(top.log_density, top.x)
                state.false_tops += 1
                continue
            k = state.found.add(top.peak)
        label[row] = -1 if k is None else k


def _flat_top_of(state: Search, x: np.ndarray, log_density: float) -> int | None:
    """The flat top that a point belongs to: within its width, or never `TOP_DROP` lower on the way there."""
    for k, peak in enumerate(state.found.peaks):
        if peak.kind != "flat":
            continue
        if squared_lengths((x - peak.x)[None], peak.hessian)[0] < 1:
            return k
        if abs(log_density - peak.log_density) < TOP_DROP:
            way = x + np.linspace(0, 1, 18)[1:-1, None] * (peak.x - x)
            if state.density.log_density(way).min() > min(log_density, peak.log_density) - TOP_DROP:
                return k
    return None


def neighbours_first(state: Search, order: list[int]) -> list[int]:
    """Modes in this order, but the first one and those nearest to it before the others.

    Only where most modes have the Hessian of the first, as on a lattice: its steps can then be read off the
    list, though all its modes are too many. A start part of the way to another mode, one standard deviation
    aside, is in the basin of a mode between the two; from many of them the nearest neighbours are found.
    """
    found = state.found
    base = found.peaks[order[0]]
    shapes = [base.root.T @ found.peaks[k].hessian @ base.root for k in order[: found.max_modes]]
    if np.median([np.abs(shape - np.eye(found.dim)).max() for shape in shapes]) > 0.1:
        return order
    others = np.array([found.peaks[k].x for k in found.heavy()])
    ways = others[state.rng.integers(len(others), size=1024)] - base.x
    share = state.rng.uniform(0.2, 0.45, size=(1024, 1))
    aside = state.rng.standard_normal(ways.shape) @ base.root.T
    ends = climb_from(state, starts_at(base.x + share * ways + aside, base.metric), iterations=200)
    rows = np.flatnonzero(ends.rest & (ends.mode < 0))
    rows = rows[np.argsort(squared_lengths(ends.x[rows] - base.x, base.hessian), kind="stable")]
    kept = merge(ends.x[rows], np.broadcast_to(base.hessian, (len(rows), *base.hessian.shape)), -rows)[0]
    absorb(state, ends, np.isin(np.arange(1024), rows[kept[: found.max_modes]]))
    heavy = np.array(found.heavy())
    length = squared_lengths(np.array([found.peaks[k].x - base.x for k in heavy]), base.hessian)
    return list(dict.fromkeys([order[0], *heavy[np.argsort(length, kind="stable")].tolist(), *order]))
