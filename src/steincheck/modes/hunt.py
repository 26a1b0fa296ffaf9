"""The search without a box: rounds of climbs from many scales about the modes known so far.

Each round places starts about the modes found before, climbs from them, adds what is new, and completes it by
the symmetries of the density. It ends when a round finds no new mode of weight above `NEGLIGIBLE_WEIGHT`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from . import starts as kinds
from .atlas import NEGLIGIBLE_WEIGHT, Atlas, Limits
from .climb import MAX_DENSE_DIM, Ends, climb, recognise, squared_lengths
from .merge import Peak
from .screening import Landscape, affordable_points, screen, screened_points
from .settle import TOP_DROP, NoTop, flat_top, settle
from .starts import Base, Starts
from .surface import Stopwatch, Surface
from .symmetry import MAX_SYMMETRIES, SignedPermutation, likely_maps, matching_map, probes, verified_maps

StopReason = Literal["complete", "max_modes", "max_rounds", "max_evaluations", "max_seconds", "no mode"]

MAX_ROUNDS = 16
MIN_EVALUATIONS = 100_000  # before which no search of a fast target ends
STARTS_PER_KIND = 128  # per round
ANNEALED_CHAINS = 64  # per round
CLIMB_ITERATIONS = 200  # per climb of a round; slower ones are settled if they are high
BASES_PER_ROUND = 8  # modes about which the starts of one round are placed, at most
SETTLED_AT_ONCE = 48  # ends per batch of Newton steps
FALSE_FLAT_TOPS = 4  # places without a parabola that are not tops, after which no more are measured
MAX_SCANNED = 2**16  # points on the lines through one mode


class Origin(NamedTuple):
    """Where the search begins, and in which units; what the user added to it."""

    centre: np.ndarray
    scale: np.ndarray
    points: np.ndarray  #: (m, d) points to climb from at first
    extra: np.ndarray  #: (k, d) further starts of the first round


@dataclass
class Hunt:
    """A search in progress, and what it found."""

    surface: Surface
    origin: Origin
    limits: Limits
    rng: np.random.Generator
    atlas: Atlas
    symmetries: list[SignedPermutation] = field(default_factory=list)
    scanned: set[int] = field(default_factory=set)
    rounds: int = 0
    climbs: int = 0
    not_converged: int = 0
    quiet: bool = False
    reason: StopReason | None = None  #: why it ended
    explored: list[int] = field(default_factory=list)
    home: list[int] = field(default_factory=list)  #: modes that the first points climb to
    flat_tops_left: int = FALSE_FLAT_TOPS
    flat: NoTop | None = None  #: why a flat place is not a mode
    highest: tuple[float, np.ndarray] | None = None  #: of the ends of climbs that did not converge

    def stand_in(self) -> Base:
        """What starts are placed about as long as no mode is known."""
        return Base(self.origin.centre, np.diag(self.origin.scale))

    @property
    def message(self) -> str:
        """Why it ended, in words."""
        match self.reason:
            case "max_evaluations" | "max_seconds":
                return f"`{self.reason}` reached in round {self.rounds}"
            case "max_modes":
                return f"there are more than `max_modes` = {self.limits.max_modes} modes"
            case "max_rounds":
                return f"{MAX_ROUNDS} rounds"
            case "complete":
                return f"no mode of weight above 1/{1 / NEGLIGIBLE_WEIGHT:.0f} was new in the last round"
            case None:
                return ""
        return "no mode found"

    @property
    def improper(self) -> bool:
        """Whether the density is improper: it is constant along a line, or grows indefinitely."""
        if not self.surface.scored:
            return False
        if self.flat is not None and self.flat.reason == "constant":
            return True
        return self.highest is not None and bool(self.ran_away(self.highest[1]))

    def why_no_mode(self) -> str:
        """What to tell the user where there is no mode."""
        error = self.surface.raised
        if error is not None and not self.surface.scored:
            return f"the target raises {type(error).__name__}: {error}"
        if self.highest is None and not self.flat:
            return (
                "the density is 0 or not finite at all starts; give `draws` or other starting points inside "
                "its support"
            )
        if not self.surface.scored:
            return "the score is not finite at any start"
        if self.flat is not None and self.flat.reason == "constant":
            return f"the density is constant {self.flat.along}, so it has no maximum and is improper"
        if self.highest is None:
            return "no local optimisation converged"
        grows = f"the density grows towards {self._place()}, where the log density is {self.highest[0]:.4g}"
        if self.ran_away(self.highest[1]):
            return f"{grows}: it appears to be improper, or its sign is reversed"
        if self.surface.exhausted and self.rounds <= 1:
            return f"`{self.surface.exhausted}` was reached before a local optimisation converged"
        if self._at_edge():
            return f"the density is highest at an edge of its support, near {self._place()}"
        return grows

    def _at_edge(self) -> bool:
        """Whether the density is 0 just above the highest unfinished climb."""
        assert self.highest is not None
        x = self.highest[1]
        slope = self.surface.value_and_score(x[None])[1][0] * self.origin.scale
        steepest = np.max(np.abs(slope))
        if steepest == 0:
            return False
        ahead = x + 1e-3 * self.origin.scale * slope / steepest
        return bool(np.isneginf(self.surface.log_density(ahead[None])[0]))

    def ran_away(self, x: np.ndarray) -> np.ndarray:
        """Whether points (..., d) are so far out that by rounding any density looks flat there."""
        return (
            np.max(np.abs(x - self.origin.centre) / self.origin.scale, axis=-1) > 1e9
        )  # standard deviations

    def spike(self) -> str:
        """A warning if a climb went on far above all modes."""
        if self.highest is None or self.highest[0] < max(p.log_density for p in self.atlas.peaks) + 10:
            return ""
        return f"the density is still growing at {self._place()}, far above all modes: it may be unbounded"

    def _place(self) -> str:
        """Where the highest unfinished climb is, by the coordinates that went farthest."""
        assert self.highest is not None
        x = self.highest[1]
        names = self.surface.target.coordinate_names
        gone = np.abs(x - self.origin.centre) / self.origin.scale
        far = np.argsort(-gone, kind="stable")[:3]
        far = far[gone[far] >= 0.1 * gone.max()]
        return ", ".join(f"{names[i]} = {x[i]:.4g}" for i in far)


def hunt(
    surface: Surface,
    origin: Origin,
    limits: Limits,
    rng: np.random.Generator,
    tick: Callable[[str, int, int], object],
) -> Hunt:
    """Find modes in rounds until a round finds no new one of weight above `NEGLIGIBLE_WEIGHT`."""
    state = Hunt(surface, origin, limits, rng, Atlas(limits))
    tick("climbing from the first points", 0, 1)
    _climb_home(state)
    state.home = list(range(len(state.atlas.peaks)))
    for state.rounds in range(1, MAX_ROUNDS + 1):
        before = set(state.atlas.heavy())
        kind = "screening starts" if state.quiet else "climbing"
        text = f"round {state.rounds}: {kind}, {len(before)} modes"
        tick(text, surface.evaluations, _min_evaluations(limits))
        _find_symmetries(state)
        _climb_from(state, _starts_of_round(state))
        _read_symmetries(state)
        _complete_orbits(state)
        heavy = set(state.atlas.heavy())
        screened = state.quiet
        state.quiet = not heavy - before
        state.reason = _reason_to_stop(state, len(heavy), screened)
        if state.reason is not None:
            break
    else:
        state.reason = "max_rounds"
    return state


def effort(surface: Surface, points: np.ndarray, max_seconds: float | None) -> float:
    """Share of the usual search that fits into half the time allowed: 1, or a power of 1/2.

    In hundreds of dimensions it is less. The cost per evaluation is measured on a batch that has been
    compiled before, and once more before a search is shortened.
    """
    # above 100 dimensions the search is smaller: a step costs d^2, and starts meet few basins
    share = min(1.0, surface.max_evaluations / (2 * MIN_EVALUATIONS), 100 / points.shape[1])
    if max_seconds is not None:
        batch = np.resize(points, (32, points.shape[1]))
        surface.value_and_score(batch)
        affordable = 0.5 * max_seconds / (_cost(surface, batch) * MIN_EVALUATIONS)
        if affordable < share:
            affordable = max(affordable, 0.5 * max_seconds / (_cost(surface, batch) * MIN_EVALUATIONS))
        share = min(share, affordable)
    return float(2.0 ** np.floor(np.log2(share)))


def _cost(surface: Surface, batch: np.ndarray) -> float:
    """Seconds per evaluation; the quickest of three calls counts, as anything may delay a single one."""
    before = surface.evaluations
    seconds = []
    for _ in range(3):
        watch = Stopwatch()
        surface.value_and_score(batch)
        seconds.append(watch.seconds())
    return 3 * min(seconds) / (surface.evaluations - before)


def _min_evaluations(limits: Limits) -> int:
    """Points at which a search that nothing stops evaluates the density, at least."""
    return int(limits.effort * MIN_EVALUATIONS)


def _reason_to_stop(state: Hunt, n_heavy: int, screened: bool) -> StopReason | None:
    exhausted = state.surface.exhausted
    if exhausted is not None:
        return exhausted
    if n_heavy >= state.limits.max_modes:
        return "max_modes"
    enough = state.surface.evaluations >= _min_evaluations(state.limits)
    if not state.atlas.peaks:
        return "no mode" if state.rounds >= 2 else None
    return "complete" if state.quiet and screened and enough else None


def _climb_home(state: Hunt) -> None:
    """Climb from the first points, with all the iterations they need; unfinished ends are settled too."""
    base = state.stand_in()
    first = kinds.starts_at(state.origin.points[:16], base.metric)
    ends = _climb(state, first, iterations=1000)
    _absorb(state, ends, np.isfinite(ends.log_density))


def _climb(state: Hunt, first: Starts, iterations: int = CLIMB_ITERATIONS) -> Ends:
    surface = state.surface
    state.climbs += len(first.x)
    ends = climb(
        surface,
        first.x,
        first.shapes,
        first.stride,
        shape=first.shape,
        iterations=iterations,
        known=state.atlas.known(),
        fused=surface.fused,
        dense=surface.dim <= MAX_DENSE_DIM,
    )
    unfinished = ~ends.rest | state.ran_away(ends.x)
    going = np.flatnonzero(unfinished & (ends.mode < 0) & np.isfinite(ends.log_density))
    if len(going):
        best = going[np.argmax(ends.log_density[going])]
        if state.highest is None or ends.log_density[best] > state.highest[0]:
            state.highest = (float(ends.log_density[best]), ends.x[best])
    return ends


def look_from(
    surface: Surface, atlas: Atlas, x: np.ndarray, metric: np.ndarray, rng: np.random.Generator
) -> None:
    """Climb from given points, and add the modes at which they end to the atlas."""
    origin = Origin(x[0], np.sqrt(np.diag(metric)), x, x[:0])
    state = Hunt(surface, origin, atlas.limits, rng, atlas)
    first = kinds.starts_at(x, metric, 0.5)
    ends = _climb(state, first, iterations=1000)
    _absorb(state, ends, ends.rest)


def _climb_from(state: Hunt, first: Starts) -> None:
    """Climb in blocks, so that later blocks stop at the modes that earlier ones found."""
    order = state.rng.permutation(len(first.x))
    for start in range(0, len(order), 256):
        if state.surface.exhausted:
            return
        ends = _climb(state, first.rows(order[start : start + 256]))
        unfinished = np.flatnonzero(~ends.rest & (ends.mode < 0) & np.isfinite(ends.log_density))
        high = unfinished[np.argsort(-ends.log_density[unfinished], kind="stable")][:16]  # the highest
        wanted = ends.rest.copy()
        wanted[high] = True
        state.not_converged += len(unfinished)
        _absorb(state, ends, wanted)


def _starts_of_round(state: Hunt) -> Starts:
    """The starts of one round: all kinds about several modes, chains, scans, images, lattice points."""
    atlas = state.atlas
    rng = state.rng
    surface = state.surface
    heavy = atlas.heavy()
    bases = [atlas.base(k) for k in heavy] or [state.stand_in()]
    per_kind = max(8, int(STARTS_PER_KIND * state.limits.effort))
    parts = []
    used = _least_used(state, heavy)
    heights = [atlas.peaks[k].log_density for k in heavy] or [0.0]
    for kind in kinds.START_KINDS:
        draw = partial(_draw, kind, used, rng)
        if state.quiet:
            known = Landscape(bases, heights)
            many = max(per_kind, screened_points(surface, len(bases), state.limits.effort))
            parts.append(screen(surface, draw, many, per_kind, known, rng))
        else:
            parts.append(draw(per_kind))
    chains = max(4, int(ANNEALED_CHAINS * state.limits.effort))
    parts.append(kinds.annealed_starts(surface, used[0], chains, rng))
    parts += _scans_and_images(state)
    if len(bases) > 2:
        parts.append(kinds.lattice_starts(bases, 32, rng))  # at m_i + m_j - m_k
    if state.rounds == 1 and len(state.origin.extra):
        parts.append(kinds.starts_at(state.origin.extra, state.stand_in().metric))
    return kinds.join(parts)


def _draw(
    kind: Callable[[Base, int, np.random.Generator], Starts],
    bases: list[Base],
    rng: np.random.Generator,
    n: int,
) -> Starts:
    """Starts of one kind, shared among the bases."""
    share = [n // len(bases) + (i < n % len(bases)) for i in range(len(bases))]
    return kinds.join([kind(base, size, rng) for base, size in zip(bases, share, strict=True) if size])


def _least_used(state: Hunt, heavy: list[int]) -> list[Base]:
    """The heavy modes about which the fewest rounds have searched; they are marked as used."""
    if not heavy:
        return [state.stand_in()]
    atlas = state.atlas
    chosen = sorted(heavy, key=lambda k: atlas.uses[k])[:BASES_PER_ROUND]
    for k in chosen:
        atlas.uses[k] += 1
    return [atlas.base(k) for k in chosen]


def _scans_and_images(state: Hunt) -> list[Starts]:
    """Lines through the two heaviest modes not scanned yet, and their images under likely symmetries."""
    atlas = state.atlas
    surface = state.surface
    budget = int(0.1 * _min_evaluations(state.limits))
    scan_points = max(budget, int(state.limits.effort * min(MAX_SCANNED, affordable_points(surface, 1))))
    new = [k for k in atlas.heavy() if k not in state.scanned][: 2 if state.rounds > 1 else 1]
    parts = []
    for k in new:
        state.scanned.add(k)
        base = atlas.base(k)
        parts.append(kinds.scanned_starts(surface, base, scan_points))
        images = np.array([g(base.x) for g in likely_maps(surface.dim)[:budget]]).reshape(-1, surface.dim)
        value = surface.log_density(images)
        value[squared_lengths(images - base.x, atlas.peaks[k].hessian) < 1] = -np.inf
        best = np.argsort(-value, kind="stable")[:32]  # the highest images
        parts.append(kinds.starts_at(images[best[np.isfinite(value[best])]], base.metric))
    return parts


def _find_symmetries(state: Hunt) -> None:
    """Likely symmetries that hold exactly about the heaviest mode; looked for once."""
    atlas = state.atlas
    heavy = atlas.heavy()
    if state.symmetries or not heavy or state.rounds > 2:
        return
    k = heavy[0]
    candidates = likely_maps(state.surface.dim)[: int(0.1 * _min_evaluations(state.limits))]
    at = probes(atlas.peaks[k].x, atlas.roots[k], state.rng)
    state.symmetries = verified_maps(state.surface.log_density, candidates, at)[:MAX_SYMMETRIES]


def _read_symmetries(state: Hunt) -> None:
    """Signed permutations read off pairs of equally high modes, for any order of the coordinates."""
    atlas = state.atlas
    heavy = atlas.heavy()
    if len(heavy) < 2:
        return
    home = heavy[0]
    root = atlas.roots[home]
    width = np.sqrt(np.sum(root**2, axis=1))
    candidates = []
    for k in heavy[1 : 1 + MAX_SYMMETRIES]:
        if abs(atlas.peaks[k].log_density - atlas.peaks[home].log_density) < 1e-5:
            pair = [atlas.peaks[home], atlas.peaks[k]]
            g = matching_map(np.array([p.x for p in pair]), np.array([p.hessian for p in pair]), width)
            if g is not None and g not in state.symmetries:
                candidates.append(g)
    if candidates:
        at = probes(atlas.peaks[home].x, root, state.rng)
        found = verified_maps(state.surface.log_density, candidates, at)
        state.symmetries = (state.symmetries + found)[:MAX_SYMMETRIES]


def _complete_orbits(state: Hunt) -> None:
    """Images of modes under exact symmetries are modes: added without a climb, until none is new."""
    atlas = state.atlas
    queue = atlas.heavy() if state.symmetries else []
    seen = set(queue)
    while queue and len(seen) <= 2 * state.limits.max_modes and not state.surface.exhausted:
        peak = atlas.peaks[queue.pop(0)]
        images = np.array([g(peak.x) for g in state.symmetries])
        known = atlas.known()
        new = np.flatnonzero(recognise(images, np.full(len(images), peak.log_density), known) < 0)
        if not len(new):
            continue
        value, score = state.surface.value_and_score(images[new])
        for i, top, slope in zip(new, value, score, strict=True):
            hessian = state.symmetries[i].conjugate(peak.hessian)
            step = np.linalg.solve(hessian, slope)
            same = abs(top - peak.log_density) < 1e-6 * (1 + abs(peak.log_density))
            if same and (peak.kind == "flat" or 0.5 * step @ slope < 1e-5):
                k = atlas.add(Peak(images[i], float(top), hessian, peak.kind))
                if k is not None and k not in seen:
                    seen.add(k)
                    queue.append(k)


def _absorb(state: Hunt, ends: Ends, wanted: np.ndarray) -> None:
    """Settle the distinct ends, highest first, and add them to the atlas; count starts per mode."""
    atlas = state.atlas
    label = ends.mode.copy()
    left = np.flatnonzero(wanted & (label < 0) & np.isfinite(ends.log_density))
    left = left[np.argsort(-ends.log_density[left], kind="stable")]
    rough = list[int]()
    while len(left) and not state.surface.exhausted and not atlas.full:
        batch = left[_distinct_points(ends.x[left], ends.width[left])]
        done = settle(state.surface, ends.x[batch], ends.width[batch])
        for i, row in enumerate(batch):
            if done.kind[i] == "mode":
                peak = Peak(done.x[i], float(done.log_density[i]), done.hessian[i], "mode")
                k = atlas.add(peak)
                label[row] = -1 if k is None else k
            elif done.kind[i] == "rough" and ends.rest[row]:
                rough.append(int(row))
        left = np.setdiff1d(left, batch, assume_unique=True)
        left = left[np.argsort(-ends.log_density[left], kind="stable")]
        if atlas.peaks:
            label[left] = recognise(ends.x[left], ends.log_density[left], atlas.known())
            left = left[label[left] < 0]
    _absorb_flat(state, ends, rough, label)
    for k, count in zip(*np.unique(label[label >= 0], return_counts=True), strict=True):
        atlas.n_starts[k] += int(count)


def _distinct_points(x: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Positions of the first `SETTLED_AT_ONCE` points that differ from each other."""
    chosen = list[int]()
    for i in range(len(x)):
        apart = np.abs(x[chosen] - x[i]) > 0.05 * width[i]
        if apart.any(axis=1).all():
            chosen.append(i)
        if len(chosen) == SETTLED_AT_ONCE:
            break
    return np.array(chosen)


def _flat_top_of(state: Hunt, x: np.ndarray, log_density: float) -> int | None:
    """The flat top that a point belongs to: within its width, or never `TOP_DROP` lower on the way there."""
    atlas = state.atlas
    for k, peak in enumerate(atlas.peaks):
        if peak.kind != "flat":
            continue
        if squared_lengths((x - peak.x)[None], peak.hessian)[0] < 1:
            return k
        if abs(log_density - peak.log_density) < TOP_DROP:
            way = x + np.linspace(0, 1, 18)[1:-1, None] * (peak.x - x)
            if state.surface.log_density(way).min() > min(log_density, peak.log_density) - TOP_DROP:
                return k
    return None


def _absorb_flat(state: Hunt, ends: Ends, rough: list[int], label: np.ndarray) -> None:
    """Ends where log p has no parabola: tops are measured, a few per round, and others joined to them."""
    atlas = state.atlas
    for row in rough:
        if state.ran_away(ends.x[row]):
            continue
        k = _flat_top_of(state, ends.x[row], ends.log_density[row])
        if k is not None:
            label[row] = k
            continue
        if state.flat_tops_left <= 0 or state.surface.exhausted:
            break
        # once other modes are known, a climb may have missed a flat or pointed top by so many nats
        gain = 0.05 if atlas.peaks else np.inf
        peak, reason = flat_top(state.surface, ends.x[row], state.origin.scale, max_gain=gain)
        if peak is None:
            state.flat = state.flat or reason
            state.flat_tops_left -= 1
            continue
        k = atlas.add(peak)
        if k is not None:
            label[row] = k
