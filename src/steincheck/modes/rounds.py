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
from ..target import Batch
from ..target.evaluation import CountedTarget
from .climb import TOP_DROP, Ends, Peak, Start, climb, flat_top, peak_at, recognise, settle, starts_at

NEGLIGIBLE_WEIGHT = 1e-3  # a mode of a smaller share of the heaviest does not keep the search going
STARTS_PER_KIND = 32  # per round
MAX_BASES = 8  # modes about which the starts of one round are placed, and orbits that lengthen the search
MAX_SYMMETRIES = 64  # kept, at most
EQUAL_SHAPE = 0.01  # standard deviations, and relative differences of Hessians, left by the search for a mode


class Thoroughness(NamedTuple):
    """How hard to look for modes that few starts reach."""

    screened: int = 1024  #: points per kind of start and round
    scanned: int = 6144  #: points on lines through the heaviest mode; without them narrow_1 is missed
    per_orbit: int = 13_500  #: evaluations before the search ends, per orbit of modes under the symmetries


USUAL = Thoroughness()
THOROUGH = Thoroughness(4096, 32_768, 90_000)  # finds narrower modes (mode_frontier.csv)


@dataclass
class Search:
    """A search in progress, and what it found."""

    density: CountedTarget
    centre: np.ndarray
    scale: np.ndarray  #: units of the coordinates
    rng: np.random.Generator
    max_modes: int = 64
    beta: float = 1.0  #: two modes closer than this are one (paper, Alg. 2)
    thoroughness: Thoroughness = USUAL
    peaks: list[Peak] = field(default_factory=list)  #: the modes found so far
    symmetries: list[SignedPermutation] = field(default_factory=list)
    uses: Counter[int] = field(default_factory=Counter)  #: rounds that placed starts about each mode
    scanned: bool = False  #: whether lines through the heaviest mode were looked at
    rounds: int = 0
    climbs: int = 0
    reason: SearchEnd = "no mode"  #: why it ended
    false_tops: int = 0  #: places without a parabola that are not tops
    endless: bool = False  #: whether one of them is on a line along which log p does not drop
    highest: tuple[float, np.ndarray] | None = None  #: place from which log p goes on rising

    def within(self, cut: float = -np.log(NEGLIGIBLE_WEIGHT)) -> list[int]:
        """Modes whose log weight is less than `cut` below the largest, heaviest first."""
        weight = np.array([peak.log_weight for peak in self.peaks])
        order = np.argsort(-weight, kind="stable")
        return [int(k) for k in order if weight[k] > weight.max() - cut]

    def add(self, peak: Peak) -> int:
        """The number of the known mode that this one belongs to, or its own.

        It belongs to the nearest if d' (H_i + H_j)/2 d < beta, d their difference and H the Hessians of
        -log p, and takes its place if its log density is larger.
        """
        gaps = peak.x - np.array([known.x for known in self.peaks]).reshape(-1, len(peak.x))
        own = np.sum((gaps @ peak.whiten) ** 2, axis=1)
        theirs = [np.sum((gap @ known.whiten) ** 2) for gap, known in zip(gaps, self.peaks, strict=True)]
        distance = 0.5 * (own + theirs)
        k = int(np.argmin(distance)) if len(distance) else 0
        if not len(distance) or distance[k] >= self.beta:
            self.peaks.append(peak)
            return len(distance)
        if peak.log_density > self.peaks[k].log_density:
            self.peaks[k] = peak
        return k

    @property
    def over(self) -> bool:
        """Whether the budget is exhausted or the list full; minor modes must not fill it for ever."""
        full = len(self.within()) >= max(64, self.max_modes) or len(self.peaks) >= 16 * self.max_modes
        return full or self.density.budget.exhausted is not None

    def at_infinity(self, x: np.ndarray) -> np.ndarray:
        """Whether points (..., d) are so far out, 1e9 units, that by rounding any density looks flat."""
        return np.max(np.abs(x - self.centre) / self.scale, axis=-1) > 1e9


def search_in_rounds(
    state: Search, points: np.ndarray, extra: np.ndarray, tick: Callable[[str, int, int], object]
) -> list[int]:
    """Find modes in rounds until the reason to stop is known; the modes that the first points climb to.

    The first climbs are from 16 of the `points` (m, d), those of the first round from `extra` (k, d) too.
    """
    budget = state.density.budget
    tick("climbing from the first points", 0, 1)
    first = points[np.linspace(0, len(points) - 1, num=min(16, len(points))).round().astype(int)]
    climb_and_add(state, starts_at(first, np.diag(state.scale**2)), iterations=1000)
    home = state.within(np.inf)
    latest = 0  # evaluations when the latest heavy mode was found
    quiet = False
    while True:
        state.rounds += 1
        before = set(state.within())
        wanted = _wanted(state)
        tick(f"round {state.rounds}, {len(before)} modes", budget.made, wanted)
        starts = _starts_of_round(state, quiet, wanted)
        if state.rounds == 1:
            starts += starts_at(extra, starts[0].metric)
        climb_and_add(state, starts, iterations=200)
        _add_images(state)
        screened, quiet = quiet, not set(state.within()) - before
        latest = latest if quiet else budget.made
        if budget.exhausted is not None:
            state.reason = budget.exhausted
        elif len(state.within()) >= state.max_modes:
            state.reason = "max_modes"
        elif state.peaks and screened and quiet and budget.made >= max(_wanted(state), 2 * latest):
            state.reason = "complete"
        elif state.peaks or state.rounds < 2:
            continue
        return home


def _wanted(state: Search) -> int:
    """Evaluations before which the search does not end: in proportion to the orbits of heavy modes."""
    heavy = [state.peaks[k] for k in state.within()]
    orbit = np.arange(len(heavy))
    for g in state.symmetries:
        images = np.array([g(peak.x) for peak in heavy])
        image = recognise(images, np.array([peak.log_density for peak in heavy]), heavy)
        for k in np.flatnonzero(image >= 0):
            orbit[orbit == orbit[k]] = orbit[image[k]]
    return state.thoroughness.per_orbit * min(MAX_BASES, max(1, len(np.unique(orbit))))


def _starts_of_round(state: Search, quiet: bool, wanted: int) -> list[Start]:
    """Starts of each kind about the modes least used; after a quiet round the best of many such starts.

    In the first quiet round lines are scanned too, with what is then missing to the `wanted` evaluations.
    """
    density = state.density
    heavy = [state.peaks[k] for k in state.within()] or [peak_at(state.centre, 0.0, np.diag(state.scale))]
    least = sorted(state.within(), key=lambda k: state.uses[k])[:MAX_BASES]
    state.uses.update(least)
    used = [state.peaks[k] for k in least] or heavy
    cost = 1 if density.compiled else 1 + density.score_cost
    many = int(min(state.thoroughness.screened, density.budget.left / (8 * cost)))
    screened = quiet and many > STARTS_PER_KIND
    numbers = np.arange(many if screened else STARTS_PER_KIND)
    starts = list[Start]()
    for kind in (ellipsoid_starts, isotropic_starts):
        shares = zip(used, np.array_split(numbers, len(used)), strict=True)
        drawn = [start for base, share in shares for start in kind(base, len(share), state.rng)]
        starts += screened_starts(density, drawn, STARTS_PER_KIND, heavy, state.rng) if screened else drawn
    if quiet and not state.scanned:
        state.scanned = True
        missing = max(512, wanted - density.budget.made)
        points = min(state.thoroughness.scanned, missing, density.budget.left / 4)
        starts += scanned_starts(density, heavy[0], points)
    return starts


def ellipsoid_starts(base: Peak, n: int, rng: np.random.Generator) -> list[Start]:
    """m + 3^u R z: the shape of the mode, blown up, to 2187 standard deviations at most."""
    power = 3.0 ** rng.uniform(0, 7, size=n)
    x = base.x + power[:, None] * (rng.standard_normal((n, len(base.x))) @ base.root.T)
    return starts_at(x, base.root @ base.root.T, 0.3 * power)


def isotropic_starts(base: Peak, n: int, rng: np.random.Generator) -> list[Start]:
    """Round clouds about the mode or about 0, of the size of the mode's coordinates or of 1."""
    d = len(base.x)
    size = np.sqrt(np.mean(base.x**2 + np.sum(base.root**2, axis=1)))
    own = 10 ** rng.uniform(-1, 2, size=n) * size
    scale = np.where(rng.random(n) < 0.5, own, 10 ** rng.uniform(-0.5, 1.5, size=n))
    centre = np.where(rng.random(n) < 0.5, 1.0, 0.0)[:, None] * base.x
    x = centre + scale[:, None] * rng.standard_normal((n, d))
    return starts_at(x, np.eye(d), 0.3 * scale)


def scanned_starts(density: CountedTarget, base: Peak, n_points: float) -> list[Start]:
    """The highest inner maxima of log p on lines through a mode, .5 to 81 standard deviations from it.

    The lines are along diagonals, the coordinates, and from four dimensions on the principal axes. Densities
    that treat their coordinates alike have modes on the main diagonal; up to three dimensions all diagonals
    are taken.
    """
    d = len(base.x)
    sd = np.sqrt(np.sum(base.root**2, axis=1))
    signs = np.array(list(product([1.0], *[[1.0, -1.0]] * (d - 1)))) if d <= 3 else np.ones((1, d))
    rays = np.concatenate([signs * sd / np.sqrt(d), np.diag(sd), base.root.T])
    rays = rays[:64] if d > 3 else rays[: -d if d > 1 else 1]
    rays = np.concatenate([rays, -rays])
    radii = np.geomspace(0.5, 81, num=max(3, int(n_points / len(rays))))
    places = base.x + radii[:, None, None] * rays
    value = density.log_density(places.reshape(-1, d)).reshape(places.shape[:2])
    with np.errstate(invalid="ignore"):
        inner = (value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:])
    value = np.where(inner, value[1:-1], -np.inf).ravel()
    best = np.argsort(-value, kind="stable")[:32]
    x = places[1:-1].reshape(-1, d)[best[np.isfinite(value[best])]]
    return starts_at(x, base.root @ base.root.T)


def screened_starts(
    density: CountedTarget, drawn: list[Start], keep: int, known: list[Peak], rng: np.random.Generator
) -> list[Start]:
    """Of many starts those worth a climb, by one score each: half of largest residual, half at random."""
    x = np.array([start.x for start in drawn])
    value, score = density.log_density_and_score(x)
    residual = np.where(np.isfinite(value), score_residuals(known, score, x), -np.inf)
    largest = np.argsort(-residual, kind="stable")[: keep // 2]
    others = rng.choice(len(x), size=min(keep - keep // 2, len(x)), replace=False)
    return [drawn[k] for k in (*largest, *others)]


def score_residuals(known: list[Peak], score: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How little each score points to a known mode: the least of 1 - cos(R's, R^-1 (m - x)) over modes.

    It is 0 anywhere in the basin of an elliptic mode, near or far. Where basins meet, the score of the
    mixture of all parabolas counts as a prediction too. The 32 first modes are looked at.
    """
    known = known[:32]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        ways = [(peak.x - x) @ peak.whiten for peak in known]
        pairs = [(way, score @ peak.root) for way, peak in zip(ways, known, strict=True)]
        if len(known) > 1:
            heights = [peak.log_density - peak.drop(x) for peak in known]
            share = np.exp(heights - np.max(heights, axis=0))
            pulls = [way @ peak.whiten.T for way, peak in zip(ways, known, strict=True)]
            pairs.append((np.einsum("kn,kni->ni", share, pulls) @ known[0].root, score @ known[0].root))
        angles = []
        for way, slope in pairs:
            size = np.linalg.norm(way, axis=1) * np.linalg.norm(slope, axis=1)
            cosine = np.sum(way * slope, axis=1) / np.where(size > 0, size, 1.0)
            # scores that overflow tell nothing
            angles.append(np.where(np.isfinite(cosine) & (size > 0), 1 - cosine, 0.0))
        return np.min(angles, axis=0)


def _add_images(state: Search) -> None:
    """Read symmetries off pairs of equally high modes, and add the images of modes, which need no climb."""
    heavy = [state.peaks[k] for k in state.within()]
    maps = [matching_map(heavy[0], peak) for peak in heavy[1 : 1 + MAX_SYMMETRIES]]
    candidates = [g for g in maps if g is not None and g not in state.symmetries]
    if candidates:
        exact = verified_maps(state.density.log_density, candidates, heavy[0], state.rng)
        state.symmetries = (state.symmetries + exact)[:MAX_SYMMETRIES]
    queue = state.within() if state.symmetries else []
    seen = set(queue)
    while queue and len(seen) <= 2 * state.max_modes and not state.density.budget.exhausted:
        peak = state.peaks[queue.pop(0)]
        images = np.array([g(peak.x) for g in state.symmetries])
        new = np.flatnonzero(recognise(images, np.full(len(images), peak.log_density), state.peaks) < 0)
        value, score = state.density.log_density_and_score(images[new])
        for i, top, slope in zip(new, value, score, strict=True):
            root = state.symmetries[i](peak.root.T).T
            same = abs(top - peak.log_density) < 1e-6 * (1 + abs(peak.log_density))
            if same and (peak.kind == "flat" or 0.5 * np.sum((slope @ root) ** 2) < 1e-5):
                k = state.add(peak_at(images[i], top, root, peak.kind))
                if k not in seen:
                    seen.add(k)
                    queue.append(k)


def matching_map(first: Peak, second: Peak) -> SignedPermutation | None:
    """The signed permutation that carries a mode and its Hessian upon another one; None if there is none."""
    from scipy.optimize import linear_sum_assignment

    scale = np.sqrt(np.sum(first.root**2) / len(first.x))  # standard deviation of a coordinate
    gaps = np.abs(np.abs(second.x)[:, None] - np.abs(first.x))
    heights = abs(first.log_density - second.log_density)
    if heights > 1e-5 or np.max(np.sort(gaps, axis=1)[:, 0]) > EQUAL_SHAPE * scale:
        return None
    rows = np.sort(np.abs([first.hessian, second.hessian]), axis=2)
    cost = gaps / scale + np.abs(rows[1][:, None] - rows[0]).max(axis=2) / rows[0].max()
    moving = 0.01 * EQUAL_SHAPE * (1 - np.eye(len(gaps)))  # coordinates that may stay do
    order = linear_sum_assignment(cost + moving)[1]
    moved = first.x[order]
    sign = np.where((moved * second.x < 0) & (np.abs(moved) > EQUAL_SHAPE * scale), -1, 1)
    g = SignedPermutation(tuple(order.tolist()), tuple(sign.tolist()))
    if np.abs(g(first.x) - second.x).max() > EQUAL_SHAPE * scale:
        return None
    gap = np.abs(g.conjugate(first.hessian) - second.hessian).max()
    return g if gap <= EQUAL_SHAPE * np.abs(second.hessian).max() else None


def verified_maps(
    log_density: Batch, maps: list[SignedPermutation], mode: Peak, rng: np.random.Generator
) -> list[SignedPermutation]:
    """Maps under which log p is the same at points 3, 9, 27 and 81 standard deviations from a mode."""
    z = rng.standard_normal((4, len(mode.x))) / np.sqrt(len(mode.x))
    points = mode.x + np.array([[3.0], [9.0], [27.0], [81.0]]) * (z @ mode.root.T)
    value = log_density(points)
    finite = np.isfinite(value)
    for point, own in zip(points[finite], value[finite], strict=True):
        image = log_density(np.array([g(point) for g in maps]).reshape(-1, len(point)))
        with np.errstate(invalid="ignore"):
            same = np.abs(image - own) < 1e-8 * (1 + abs(own))
        maps = [g for g, holds in zip(maps, same, strict=True) if holds]
    return maps if finite.sum() > 1 else []


def climb_and_add(state: Search, starts: list[Start], iterations: int, *, flat: bool = False) -> Ends:
    """Climb in blocks, so that later blocks stop at the modes that earlier ones found; add what is new.

    Climbs that are not finished after so many iterations are settled if they are among the 16 highest, and
    the highest place at which one was not finished is remembered. Returns the ends, with their modes.
    """
    parts = list[Ends]()
    for begin in range(0, len(starts), 256):
        if parts and state.over:
            break
        block = starts[begin : begin + 256]
        state.climbs += len(block)
        ends = climb(state.density, block, state.peaks, iterations=iterations)
        free = (ends.mode < 0) & np.isfinite(ends.log_density)
        going = np.flatnonzero(free & (~ends.rest | state.at_infinity(ends.x)))
        going = going[np.argsort(-ends.log_density[going], kind="stable")]
        if len(going):
            _note_unfinished(state, float(ends.log_density[going[0]]), ends.x[going[0]])
        wanted = ends.rest.copy()
        wanted[going[~ends.rest[going]][:16]] = True
        parts.append(ends._replace(mode=settle_and_add(state, ends, wanted, flat=flat)))
    return Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _note_unfinished(state: Search, log_density: float, x: np.ndarray) -> None:
    """Remember a place from which log p goes on rising, if it is the highest one."""
    if state.highest is None or log_density > state.highest[0]:
        state.highest = (log_density, x)


def settle_and_add(state: Search, ends: Ends, wanted: np.ndarray, *, flat: bool = False) -> np.ndarray:
    """Settle the distinct ends, highest first, and add them to the modes found.

    Returns the mode of each end, -1 where there is none. Flat and pointed tops are measured as long as no
    smooth mode is known, or always if `flat`.
    """
    label = ends.mode.copy()
    left = np.flatnonzero(wanted & (label < 0) & np.isfinite(ends.log_density))
    left = left[np.argsort(-ends.log_density[left], kind="stable")]
    rough = list[int]()
    while len(left) and not state.over:
        batch = left[distinct_points(ends.x[left], ends.width[left], 48)]
        done = settle(state.density, ends.x[batch], ends.width[batch])
        for i, row in enumerate(batch):
            if done.kind[i] == "mode":
                label[row] = state.add(peak_at(done.x[i], done.log_density[i], done.root[i]))
        dull = batch[(done.kind == "rough") & ends.rest[batch]]
        same = (np.abs(ends.x[left, None] - ends.x[dull]) <= 0.05 * ends.width[dull]).all(axis=2).any(axis=1)
        rough += left[same & ends.rest[left]].tolist()
        left = left[~same & ~np.isin(left, batch)]
        label[left] = recognise(ends.x[left], ends.log_density[left], state.peaks)
        left = left[label[left] < 0]
    if flat or not any(peak.kind == "mode" for peak in state.peaks):
        for row in rough:
            label[row] = _flat_mode(state, ends.x[row], ends.log_density[row])
    return label


def distinct_points(x: np.ndarray, width: np.ndarray, most: int) -> np.ndarray:
    """Positions of the first points that differ from each other."""
    chosen = list[int]()
    for i in range(len(x)):
        if (np.abs(x[chosen] - x[i]) > 0.05 * width[i]).any(axis=1).all():
            chosen.append(i)
        if len(chosen) == most:
            break
    return np.array(chosen, dtype=int)


def _flat_mode(state: Search, x: np.ndarray, log_density: float) -> int:
    """The mode with a flat or pointed top that a point belongs to, known or measured now; -1 if none.

    It belongs to a known one if it is within its width, or log p never `TOP_DROP` lower on the way there.
    After four places that are not tops no more are measured.
    """
    for k, peak in enumerate(state.peaks):
        if peak.kind == "flat" and peak.drop(x[None])[0] < 0.5:
            return k
        if peak.kind == "flat" and abs(log_density - peak.log_density) < TOP_DROP:
            way = x + np.linspace(0, 1, 18)[1:-1, None] * (peak.x - x)
            if state.density.log_density(way).min() > min(log_density, peak.log_density) - TOP_DROP:
                return k
    if state.at_infinity(x) or state.false_tops >= 4 or state.density.budget.exhausted:
        return -1
    # nats by which a climb may have missed a top, another one or the first
    gain = 0.05 if state.peaks else 10.0 * len(x)
    top = flat_top(state.density, x, state.scale, max_gain=gain)
    if top.peak is not None:
        return state.add(top.peak)
    state.endless |= top.endless
    _note_unfinished(state, top.log_density, top.x)
    state.false_tops += 1
    return -1


def neighbours_first(state: Search, order: list[int]) -> list[int]:
    """Modes in this order, but the first one and those nearest to it before the others.

    Only where most modes have the Hessian of the first, as on a lattice: its steps can then be read off the
    list, though all its modes are too many. A start part of the way to another mode, one standard deviation
    aside, is in the basin of a mode between the two; from many of them the nearest neighbours are found.
    """
    base = state.peaks[order[0]]
    shapes = [base.root.T @ state.peaks[k].hessian @ base.root for k in order[: state.max_modes]]
    if np.median([np.abs(shape - np.eye(len(base.x))).max() for shape in shapes]) > 0.1:
        return order
    others = np.array([state.peaks[k].x for k in state.within()])
    ways = others[state.rng.integers(len(others), size=1024)] - base.x
    share = state.rng.uniform(0.2, 0.45, size=(1024, 1))
    aside = state.rng.standard_normal(ways.shape) @ base.root.T
    starts = starts_at(base.x + share * ways + aside, base.root @ base.root.T)
    ends = climb(state.density, starts, state.peaks, iterations=200)
    state.climbs += len(starts)
    rows = np.flatnonzero(ends.rest & (ends.mode < 0))
    rows = rows[np.argsort(base.drop(ends.x[rows]), kind="stable")]
    nearest = rows[distinct_points(ends.x[rows], ends.width[rows], state.max_modes)]
    done = settle(state.density, ends.x[nearest], ends.width[nearest])
    for i in np.flatnonzero(done.kind == "mode"):
        state.add(peak_at(done.x[i], done.log_density[i], done.root[i]))
    heavy = np.array(state.within())
    length = base.drop(np.array([state.peaks[k].x for k in heavy]))
    return list(dict.fromkeys([order[0], *heavy[np.argsort(length, kind="stable")].tolist(), *order]))
