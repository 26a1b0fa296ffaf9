"""The search without a box: rounds of climbs from many scales about the modes known so far.

Each round places starts about the modes found before, climbs from them, adds what is new, and completes it by
the symmetries of the density. It ends when a round finds no new mode of weight above 1/1000. The figures
behind the numbers are in experiments/results/mode_study.csv and mode_frontier.csv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from ..result import SignedPermutation
from ..result.modes import SearchEnd
from ..target.evaluation import CountedTarget
from .climb import TOP_DROP, Ends, Starts, climb, flat_top, join, settle, starts_at
from .peaks import FoundModes, Peak, dot, recognise
from .symmetry import MAX_SYMMETRIES, matching_map, probes, verified_maps

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
    """Where a search begins, and in which units."""

    centre: np.ndarray
    scale: np.ndarray
    points: np.ndarray  #: (m, d) points to climb from at first, or 16 of them if there are more
    extra: np.ndarray  #: (k, d) further starts of the first round


@dataclass
class Search:
    """A search in progress, and what it found."""

    density: CountedTarget
    origin: Origin
    found: FoundModes
    rng: np.random.Generator
    thoroughness: Thoroughness = USUAL
    symmetries: list[SignedPermutation] = field(default_factory=list)
    uses: Counter[int] = field(default_factory=Counter)  #: rounds that placed starts about each mode
    scanned: bool = False  #: whether lines through the heaviest mode were looked at
    rounds: int = 0
    climbs: int = 0
    reason: SearchEnd = "no mode"  #: why it ended
    false_tops: int = 0  #: places without a parabola that are not tops
    endless: bool = False  #: whether one of them is on a line along which log p does not drop
    highest: tuple[float, np.ndarray] | None = None  #: place from which log p goes on rising

    def __post_init__(self) -> None:
        self.begin = self.density.budget.made  # evaluations that others had made before

    @property
    def spent(self) -> int:
        """Evaluations that this search made."""
        return self.density.budget.made - self.begin

    @property
    def bases(self) -> list[Peak]:
        """The heavy modes; as long as none is known, what stands in for one."""
        heavy = [self.found.peaks[k] for k in self.found.heavy]
        return heavy or [Peak(self.origin.centre, 0.0, np.diag(self.origin.scale**-2.0), "flat")]

    def note_unfinished(self, log_density: float, x: np.ndarray) -> None:
        """Remember a place from which log p goes on rising, if it is the highest one."""
        if self.highest is None or log_density > self.highest[0]:
            self.highest = (log_density, x)

    def at_infinity(self, x: np.ndarray) -> np.ndarray:
        """Whether points (..., d) are so far out, 1e9 units, that by rounding any density looks flat."""
        return np.max(np.abs(x - self.origin.centre) / self.origin.scale, axis=-1) > 1e9


def search_in_rounds(state: Search, tick: Callable[[str, int, int], object]) -> list[int]:
    """Find modes in rounds until the reason to stop is known; the modes that the first points climb to."""
    found = state.found
    tick("climbing from the first points", 0, 1)
    points = state.origin.points
    first = np.linspace(0, len(points) - 1, num=min(16, len(points))).round().astype(int)
    ends = climb_from(state, starts_at(points[first], state.bases[0].metric), iterations=1000)
    absorb(state, ends, np.isfinite(ends.log_density))
    home = found.within(np.inf)
    latest = 0  # evaluations when the latest heavy mode was found
    quiet = False
    while True:
        state.rounds += 1
        before = set(found.heavy)
        tick(f"round {state.rounds}, {len(before)} modes", state.spent, _wanted(state))
        climb_and_absorb(state, _starts_of_round(state, quiet))
        _read_symmetries(state)
        _complete_orbits(state)
        screened, quiet = quiet, not set(found.heavy) - before
        if not quiet:
            latest = state.spent
        enough = screened and quiet and state.spent >= max(_wanted(state), 2 * latest)
        reason = _reason_to_stop(state, enough)
        if reason is not None:
            state.reason = reason
            return home


def _reason_to_stop(state: Search, enough: bool) -> SearchEnd | None:
    exhausted = state.density.budget.exhausted
    if exhausted is not None:
        return exhausted
    if not state.found.peaks:
        return "no mode" if state.rounds >= 2 else None
    if len(state.found.heavy) >= state.found.max_modes:
        return "max_modes"
    return "complete" if enough else None


def _wanted(state: Search) -> int:
    """Evaluations before which the search does not end: in proportion to the orbits of heavy modes."""
    heavy = [state.found.peaks[k] for k in state.found.heavy]
    orbit = np.arange(len(heavy))
    for g in state.symmetries:
        images = np.array([g(peak.x) for peak in heavy])
        image = recognise(images, np.array([peak.log_density for peak in heavy]), heavy)
        for k in np.flatnonzero(image >= 0):
            orbit[orbit == orbit[k]] = orbit[image[k]]
    return state.thoroughness.per_orbit * min(MAX_BASES, max(1, len(np.unique(orbit))))


def _starts_of_round(state: Search, quiet: bool) -> Starts:
    """Starts of each kind about the modes least used; after a quiet round the best of many such starts."""
    bases = state.bases
    least = sorted(state.found.heavy, key=lambda k: state.uses[k])[:MAX_BASES]
    state.uses.update(least)
    used = [state.found.peaks[k] for k in least] or bases
    parts = list[Starts]()
    left = state.density.budget.left
    cost = 1 if state.density.compiled else 1 + state.density.score_cost
    many = int(min(state.thoroughness.screened, left / (8 * cost)))
    for kind in (ellipsoid_starts, isotropic_starts):
        screened = quiet and many > STARTS_PER_KIND
        numbers = np.arange(many if screened else STARTS_PER_KIND)
        shares = zip(used, np.array_split(numbers, len(used)), strict=True)
        drawn = join([kind(base, len(share), state.rng) for base, share in shares])
        if screened:
            drawn = screened_starts(state.density, drawn, STARTS_PER_KIND, bases, state.rng)
        parts.append(drawn)
    if quiet and not state.scanned:
        state.scanned = True
        points = min(state.thoroughness.scanned, max(512, _wanted(state) - state.spent))
        parts.append(scanned_starts(state.density, bases[0], min(points, left / 4)))
    if state.rounds == 1 and len(state.origin.extra):
        parts.append(starts_at(state.origin.extra, bases[0].metric))
    return join(parts)


def ellipsoid_starts(base: Peak, n: int, rng: np.random.Generator) -> Starts:
    """m + 3^u R z: the shape of the mode, blown up, to 2187 standard deviations at most."""
    power = 3.0 ** rng.uniform(0, 7, size=n)
    x = base.x + power[:, None] * (rng.standard_normal((n, len(base.x))) @ base.root.T)
    return starts_at(x, base.metric, 0.3 * power)


def isotropic_starts(base: Peak, n: int, rng: np.random.Generator) -> Starts:
    """Round clouds about the mode or about 0, of the size of the mode's coordinates or of 1."""
    d = len(base.x)
    size = np.sqrt(np.mean(base.x**2 + base.sd**2))
    own = 10 ** rng.uniform(-1, 2, size=n) * size
    scale = np.where(rng.random(n) < 0.5, own, 10 ** rng.uniform(-0.5, 1.5, size=n))
    centre = np.where(rng.random(n) < 0.5, 1.0, 0.0)[:, None] * base.x
    x = centre + scale[:, None] * rng.standard_normal((n, d))
    return starts_at(x, np.eye(d), 0.3 * scale)


def scanned_starts(density: CountedTarget, base: Peak, n_points: float) -> Starts:
    """The highest inner maxima of log p on lines through a mode, .5 to 81 standard deviations from it."""
    rays = scan_rays(base)
    rays = np.concatenate([rays, -rays])
    d = len(base.x)
    radii = np.geomspace(0.5, 81, num=max(3, int(n_points / len(rays))))
    places = base.x + radii[:, None, None] * rays
    value = density.log_density(places.reshape(-1, d)).reshape(places.shape[:2])
    with np.errstate(invalid="ignore"):
        inner = (value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:])
    value = np.where(inner, value[1:-1], -np.inf).ravel()
    best = np.argsort(-value, kind="stable")[:32]
    return starts_at(places[1:-1].reshape(-1, d)[best[np.isfinite(value[best])]], base.metric)


def scan_rays(base: Peak) -> np.ndarray:
    """Directions of lines: diagonals, the coordinates, and from four dimensions on the principal axes.

    Densities that treat their coordinates alike have modes on the main diagonal; up to three dimensions all
    diagonals are taken.
    """
    d = len(base.x)
    if d == 1:
        return base.root
    if d > 3:
        return np.concatenate([base.sd[None] / np.sqrt(d), np.diag(base.sd), base.root.T])[:64]
    signs = np.array(list(product([1.0], *[[1.0, -1.0]] * (d - 1))))
    return np.concatenate([signs * base.sd / np.sqrt(d), np.diag(base.sd)])


def screened_starts(
    density: CountedTarget, drawn: Starts, keep: int, known: list[Peak], rng: np.random.Generator
) -> Starts:
    """Of many starts those worth a climb, by one score each: half of largest residual, half at random."""
    value, score = density.log_density_and_score(drawn.x)
    residual = np.where(np.isfinite(value), score_residuals(known, score, drawn.x), -np.inf)
    largest = np.argsort(-residual, kind="stable")[: keep // 2]
    others = rng.choice(len(drawn.x), size=min(keep - keep // 2, len(drawn.x)), replace=False)
    return join([drawn.rows(largest), drawn.rows(others)])


def score_residuals(known: list[Peak], score: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How little each score points to a known mode: the least of 1 - cos(R's, R^-1 (m - x)) over modes.

    It is 0 anywhere in the basin of an elliptic mode, near or far. Where basins meet, the score of the
    mixture of all parabolas counts as a prediction too. The 32 first modes are looked at.
    """
    known = known[:32]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        ways = [(peak.x - x) @ peak.whiten for peak in known]
        least = np.min(
            [_disagreement(way, score @ peak.root) for way, peak in zip(ways, known, strict=True)], axis=0
        )
        if len(known) == 1:
            return least
        own = [peak.log_density - peak.drop(x) for peak in known]
        share = np.exp(own - np.max(own, axis=0))
        pulls = [way @ peak.whiten.T for way, peak in zip(ways, known, strict=True)]
        root = known[0].root
        mixed = np.einsum("kn,kni->ni", share, pulls)
        return np.minimum(least, _disagreement(mixed @ root, score @ root))


def _disagreement(way: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """1 - cosine of the angle between rows; 0 where it cannot be had: scores that overflow tell nothing."""
    size = np.sqrt(dot(way, way)) * np.sqrt(dot(slope, slope))
    cosine = dot(way, slope) / np.where(size > 0, size, 1.0)
    return np.where(np.isfinite(cosine) & (size > 0), 1 - cosine, 0.0)


def _read_symmetries(state: Search) -> None:
    """Signed permutations read off pairs of equally high modes; those that are exact symmetries are kept."""
    first, *others = state.bases
    candidates = list[SignedPermutation]()
    for peak in others[:MAX_SYMMETRIES]:
        if abs(peak.log_density - first.log_density) < 1e-5:
            hessians = np.array([first.hessian, peak.hessian])
            g = matching_map(np.array([first.x, peak.x]), hessians, first.sd)
            if g is not None and g not in state.symmetries:
                candidates.append(g)
    if candidates:
        points = probes(first.x, first.root, state.rng)
        exact = verified_maps(state.density.log_density, candidates, points)
        state.symmetries = (state.symmetries + exact)[:MAX_SYMMETRIES]


def _complete_orbits(state: Search) -> None:
    """Images of modes under exact symmetries are modes: added without a climb, until none is new."""
    found = state.found
    queue = found.heavy if state.symmetries else []
    seen = set(queue)
    while queue and len(seen) <= 2 * found.max_modes and not state.density.budget.exhausted:
        peak = found.peaks[queue.pop(0)]
        images = np.array([g(peak.x) for g in state.symmetries])
        new = np.flatnonzero(recognise(images, np.full(len(images), peak.log_density), found.peaks) < 0)
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
    ends = climb(state.density, starts, iterations=iterations, known=state.found.peaks)
    unfinished = ~ends.rest | state.at_infinity(ends.x)
    going = np.flatnonzero(unfinished & (ends.mode < 0) & np.isfinite(ends.log_density))
    if len(going):
        best = going[np.argmax(ends.log_density[going])]
        state.note_unfinished(float(ends.log_density[best]), ends.x[best])
    return ends


def climb_and_absorb(state: Search, starts: Starts, iterations: int = 200) -> None:
    """Climb in blocks, so that later blocks stop at the modes that earlier ones found.

    Climbs that are not finished after so many iterations are settled if they are among the 16 highest.
    """
    order = state.rng.permutation(len(starts.x))
    for start in range(0, len(order), 256):
        if state.density.budget.exhausted:
            return
        ends = climb_from(state, starts.rows(order[start : start + 256]), iterations)
        unfinished = np.flatnonzero(~ends.rest & (ends.mode < 0) & np.isfinite(ends.log_density))
        wanted = ends.rest.copy()
        wanted[unfinished[np.argsort(-ends.log_density[unfinished], kind="stable")][:16]] = True
        absorb(state, ends, wanted)


def absorb(state: Search, ends: Ends, wanted: np.ndarray, *, flat: bool = False) -> np.ndarray:
    """Settle the distinct ends, highest first, and add them to the modes found.

    Returns the mode of each end, -1 where there is none. Flat and pointed tops are measured as long as no
    smooth mode is known, or always if `flat`.
    """
    found = state.found
    label = ends.mode.copy()
    left = np.flatnonzero(wanted & (label < 0) & np.isfinite(ends.log_density))
    left = left[np.argsort(-ends.log_density[left], kind="stable")]
    rough = list[int]()
    while len(left) and not state.density.budget.exhausted and not found.full:
        batch = left[_distinct_points(ends.x[left], ends.width[left], 48)]
        done = settle(state.density, ends.x[batch], ends.width[batch])
        for i, row in enumerate(batch):
            if done.kind[i] == "mode":
                k = found.add(Peak(done.x[i], float(done.log_density[i]), done.hessian[i]))
                label[row] = -1 if k is None else k
        dull = batch[(done.kind == "rough") & ends.rest[batch]]
        same = (np.abs(ends.x[left, None] - ends.x[dull]) <= 0.05 * ends.width[dull]).all(axis=2).any(axis=1)
        rough += left[same & ends.rest[left]].tolist()
        left = left[~same & ~np.isin(left, batch)]
        label[left] = recognise(ends.x[left], ends.log_density[left], found.peaks)
        left = left[label[left] < 0]
    if flat or not any(peak.kind == "mode" for peak in found.peaks):
        for row in rough:
            k = _flat_mode(state, ends.x[row], ends.log_density[row])
            label[row] = -1 if k is None else k
    return label


def _distinct_points(x: np.ndarray, width: np.ndarray, most: int) -> np.ndarray:
    """Positions of the first points that differ from each other."""
    chosen = list[int]()
    for i in range(len(x)):
        if (np.abs(x[chosen] - x[i]) > 0.05 * width[i]).any(axis=1).all():
            chosen.append(i)
        if len(chosen) == most:
            break
    return np.array(chosen, dtype=int)


def _flat_mode(state: Search, x: np.ndarray, log_density: float) -> int | None:
    """The mode with a flat or pointed top that a point belongs to: a known one, or one that is measured now.

    It belongs to a known one if it is within its width, or log p never `TOP_DROP` lower on the way there.
    After four places that are not tops no more are measured.
    """
    for k, peak in enumerate(state.found.peaks):
        if peak.kind == "flat" and peak.drop(x[None])[0] < 0.5:
            return k
        if peak.kind == "flat" and abs(log_density - peak.log_density) < TOP_DROP:
            way = x + np.linspace(0, 1, 18)[1:-1, None] * (peak.x - x)
            if state.density.log_density(way).min() > min(log_density, peak.log_density) - TOP_DROP:
                return k
    if state.at_infinity(x) or state.false_tops >= 4 or state.density.budget.exhausted:
        return None
    # nats by which a climb may have missed a top, another one or the first
    gain = 0.05 if state.found.peaks else 10.0 * len(x)
    top = flat_top(state.density, x, state.origin.scale, max_gain=gain)
    if top.peak is not None:
        return state.found.add(top.peak)
    state.endless |= top.endless
    state.note_unfinished(top.log_density, top.x)
    state.false_tops += 1
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
    if np.median([np.abs(shape - np.eye(len(base.x))).max() for shape in shapes]) > 0.1:
        return order
    others = np.array([found.peaks[k].x for k in found.heavy])
    ways = others[state.rng.integers(len(others), size=1024)] - base.x
    share = state.rng.uniform(0.2, 0.45, size=(1024, 1))
    aside = state.rng.standard_normal(ways.shape) @ base.root.T
    ends = climb_from(state, starts_at(base.x + share * ways + aside, base.metric), iterations=200)
    rows = np.flatnonzero(ends.rest & (ends.mode < 0))
    rows = rows[np.argsort(base.drop(ends.x[rows]), kind="stable")]
    nearest = rows[_distinct_points(ends.x[rows], ends.width[rows], found.max_modes)]
    absorb(state, ends, np.isin(np.arange(1024), nearest))
    heavy = np.array(found.heavy)
    length = base.drop(np.array([found.peaks[k].x for k in heavy]))
    return list(dict.fromkeys([order[0], *heavy[np.argsort(length, kind="stable")].tolist(), *order]))
