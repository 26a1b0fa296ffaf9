"""The support of a density as the draws see it: impossible draws, hard edges, jumps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._validation import listed_rows
from .evaluation import log_density_anywhere, read_only, rounding_of
from .record import Target

EDGE_HALVINGS = 60  # of a bracket about an edge: down to the resolution of the numbers
EDGE_DROP = 40.0  # nats: a larger drop within a bracket is an edge, whatever the floor beyond it
# Where p vanishes as the distance to the power a, the score has moments of orders below a + 1. Without the
# third, its mean over the draws is far from normal.
MIN_EXPONENT = 2.0
N_LINES = 256  # lines between draws and through them, along which jumps are looked for


class Discontinuity(NamedTuple):
    """Where a density is discontinuous, or almost so: Stein's identity or its normal limit fails there."""

    x: np.ndarray
    drop: float  #: nats by which log p falls; more than `EDGE_DROP` is an edge of the support
    exponent: float = 0.0  #: power of the distance to the edge as which p falls at the nearest draws

    @property
    def kind(self) -> str:
        """What the density does there."""
        if self.exponent > 0:
            return f"vanishes at its edge only about as the distance to the power {self.exponent:.2g}"
        if self.drop >= EDGE_DROP:
            return "ends abruptly"
        return f"jumps by a factor of {np.exp(self.drop):.3g}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        transform = "transform the parameters to unconstrained space, as steincheck.unbounded does"
        if self.exponent > 0:
            return f"need a power of at least {MIN_EXPONENT:g}: {transform}"
        if self.drop >= EDGE_DROP:
            return f"need one that vanishes at its edge: {transform}"
        return "need a continuous one: check the parts on either side separately"


def support_warnings(target: Target, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator) -> list[str]:
    """What a look at the log density of the draws says against Stein tests: impossible draws, hard edges."""
    found = []
    depth = np.median(log_p) - log_p
    limit = 50 * (np.quantile(depth, 0.95) + x.shape[1])
    rows = np.flatnonzero(depth > limit)
    if len(rows):
        found.append(
            f"{len(rows)} of {len(x)} draws have negligible probability: their log density is more than "
            f"{limit:.0f} below the median, {listed_rows(rows)}; a few such draws barely affect the "
            "p-value"
        )
    still = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if len(still):
        found.append(
            f"coordinate {', '.join(map(str, still[:5]))} is the same in all draws: no density produces "
            "this, whatever the p-value"
        )
    gap = discontinuity(target, x, log_p, rng)
    if gap is not None:
        place = np.array2string(gap.x, precision=4, threshold=8)
        found.append(
            f"the density {gap.kind} near x = {place}: Stein tests {gap.remedy}; correct draws may be "
            "rejected and wrong ones accepted"
        )
    return found


def discontinuity(
    target: Target, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator
) -> Discontinuity | None:
    """A point at which the density ends abruptly, vanishes too slowly or jumps, where it matters; or None.

    An edge or a jump matters if log p just inside is not far below its median: Stein's identity is off by the
    jump of the density, which shows against noise of 1/sqrt(n).
    """
    other = rng.spawn(1)[0]
    low = float(np.median(log_p)) - 5 - 0.5 * np.log(len(x))
    ways = _ways_out(x, log_p, rng)
    found = _hard_edge(target, ways, low)
    if found is None:
        found = _slow_edge(target, ways, low)
    if found is None:
        found = _jump(target, x, low, other)
    _refuse_late_failures(target, x[:5], log_p[:5])
    return found


def _refuse_late_failures(target: Target, x: np.ndarray, log_p: np.ndarray) -> None:
    """Raise if log p can no longer be had where it was finite: what was seen is a fault, not an edge."""
    place = np.array2string(x[0], precision=4, threshold=8)
    try:
        again = target.log_density(read_only(x))
    except Exception as error:
        raise ValueError(
            f"`log_density` fails near x = {place}, where it was {log_p[0]:.6g} before; "
            f"{type(error).__name__}: {error}"
        ) from error
    value = np.ravel(np.asarray(again, dtype=float))
    if not np.isfinite(value).all():
        row = int(np.argmin(np.isfinite(value)))
        place = np.array2string(x[row], precision=4, threshold=8)
        raise ValueError(
            "`log_density` must give the same value whenever it is called: at x = "
            f"{place} it was {log_p[row]:.6g} and is {value[row]} now"
        )


class _Brackets(NamedTuple):
    """Pairs of points, of which the first may be inside the support and the second outside."""

    start: np.ndarray  #: (m, d) draws from which they began
    inside: np.ndarray  #: (m, d)
    outside: np.ndarray  #: (m, d)
    height: np.ndarray  #: (m,) log p at `inside`

    def rows(self, rows: np.ndarray) -> _Brackets:
        """Some of the brackets."""
        return _Brackets(*(part[rows] for part in self))

    def halved(self, target: Target, floor: float) -> _Brackets:
        """Brackets of half the length; a point is inside if log p is above `floor`."""
        middle = 0.5 * (self.inside + self.outside)
        value = log_density_anywhere(target.log_density, middle)
        within = value > floor
        inside = np.where(within[:, None], middle, self.inside)
        outside = np.where(within[:, None], self.outside, middle)
        return _Brackets(self.start, inside, outside, np.where(within, value, self.height))


def _ways_out(x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator) -> _Brackets:
    """Some draws, moved along and against a direction, by 0.3 and by 0.9 standard deviations."""
    rows = np.arange(0, len(x), max(1, len(x) // 1000))
    moves = x.std(axis=0) * rng.standard_normal((len(rows), x.shape[1]))
    outside = np.concatenate([x[rows] + length * moves for length in (0.3, -0.3, 0.9, -0.9)])
    start = np.tile(x[rows], (4, 1))
    return _Brackets(start, start, outside, np.tile(log_p[rows], 4))


def _hard_edge(target: Target, ways: _Brackets, low: float) -> Discontinuity | None:
    """The highest point at which the density drops by more than `EDGE_DROP` below `low`.

    A bracket is given up where log p is below `low` on its inner side.
    """
    floor = low - EDGE_DROP
    left = ways.rows((log_density_anywhere(target.log_density, ways.outside) < floor) & (ways.height > low))
    for _ in range(EDGE_HALVINGS):
        if not len(left.start):
            return None
        left = left.halved(target, floor)
        left = left.rows(left.height > low)
    return Discontinuity(left.inside[np.argmax(left.height)], np.inf) if len(left.start) else None


def _slow_edge(target: Target, ways: _Brackets, low: float) -> Discontinuity | None:
    """The edge of a density that falls towards it more slowly than the distance to the power `MIN_EXPONENT`.

    The power is that by which p falls when the draws nearest to the edge come twice as near. A continuous
    density that is merely steep has no drop left in the last brackets.
    """
    floor = low - 1000  # nats: below every draw, above what users return for log 0
    spread = np.std(ways.start, axis=0)
    left = ways.rows(log_density_anywhere(target.log_density, ways.outside) <= floor)
    for _ in range(EDGE_HALVINGS):
        if not len(left.start):
            return None
        left = _nearest(left.halved(target, floor), np.where(spread > 0, spread, 1.0))
    left = left.rows(left.height - log_density_anywhere(target.log_density, left.outside) > EDGE_DROP)
    if not len(left.start):
        return None
    at_start = log_density_anywhere(target.log_density, left.start)
    halfway = log_density_anywhere(target.log_density, 0.5 * (left.start + left.inside))
    exponent = float(np.median(at_start - halfway) / np.log(2))
    return Discontinuity(left.inside[0], np.inf, max(exponent, 1e-3)) if exponent < MIN_EXPONENT else None


def _nearest(ways: _Brackets, spread: np.ndarray) -> _Brackets:
    """The brackets that may be among the five whose edges are nearest to their draws."""
    near, far = (np.linalg.norm((end - ways.start) / spread, axis=1) for end in (ways.inside, ways.outside))
    last = min(5, len(far)) - 1
    return ways.rows(near <= np.partition(far, last)[last])


class _Lines(NamedTuple):
    """Parts of lines `start` + t `way`, t from `begin` to `begin` + `length`."""

    start: np.ndarray  #: (m, d)
    way: np.ndarray  #: (m, d)
    begin: np.ndarray  #: (m,)
    length: float

    def rows(self, rows: np.ndarray) -> _Lines:
        """Some of the lines."""
        return _Lines(self.start[rows], self.way[rows], self.begin[rows], self.length)


class _Steps(NamedTuple):
    """The least regular part of each line."""

    size: np.ndarray  #: (m,) nats by which log p changes over it
    height: np.ndarray  #: (m,) log p at its higher end
    beside: np.ndarray  #: (m,) the largest change over another part of the line

    def matter(self, least: float, low: float) -> np.ndarray:
        """Whether the density changes by the share `least`, and that lies above `low`."""
        share = np.maximum(-np.expm1(-self.size), 1e-300)
        return (share > least) & (self.height + np.log(share) > low)


def _jump(target: Target, x: np.ndarray, low: float, rng: np.random.Generator) -> Discontinuity | None:
    """The largest jump of log p that matters on lines between draws and beyond them.

    The part of a line that is least like its neighbours is divided again, down to the resolution of the
    numbers: however steep a continuous log density is, its changes become small, or all alike.
    """
    smallest = _smallest_part(target, x)
    if smallest > 1e-4:  # rounded too coarsely to tell a jump
        return None
    least = max(0.02, 0.5 / np.sqrt(len(x)))
    lines, steps = _divided(_lines(x, rng), 24, target, low - EDGE_DROP)
    while lines.length > smallest:
        lines = lines.rows(steps.matter(least, low))
        if not len(lines.start):
            return None
        lines, steps = _divided(lines, 8, target, low - EDGE_DROP)
    rows = np.flatnonzero(steps.matter(least, low) & (steps.size > 10.0 * steps.beside))
    if not len(rows):
        return None
    best = rows[np.argmax(steps.size[rows])]
    return Discontinuity(lines.start[best] + lines.begin[best] * lines.way[best], float(steps.size[best]))


def _divided(lines: _Lines, n_parts: int, target: Target, floor: float) -> tuple[_Lines, _Steps]:
    """The least regular of `n_parts` parts of each line.

    log p is cut off at `floor`, which takes nothing from its continuity.
    """
    t = lines.begin[:, None] + lines.length * np.linspace(0, 1, n_parts + 1)
    points = lines.start[:, None] + t[:, :, None] * lines.way[:, None]
    value = log_density_anywhere(target.log_density, points.reshape(-1, points.shape[2])).reshape(t.shape)
    value = np.maximum(value, floor)
    change = np.diff(value, axis=1)
    k = np.argmax(_irregularity(change), axis=1)
    row = np.arange(len(k))
    change = np.abs(change)
    size = change[row, k]
    change[row, k] = 0.0
    height = np.maximum(value[row, k], value[row, k + 1])
    parts = _Lines(lines.start, lines.way, t[row, k], lines.length / n_parts)
    return parts, _Steps(size, height, change.max(axis=1))


def _irregularity(change: np.ndarray) -> np.ndarray:
    """How far each change (m, k) is from the mean of its neighbours: 0 on a parabola."""
    wide = np.concatenate([change[:, 1:2], change, change[:, -2:-1]], axis=1)
    return np.abs(change - 0.5 * (wide[:, :-2] + wide[:, 2:]))


def _lines(x: np.ndarray, rng: np.random.Generator) -> _Lines:
    """Lines through pairs of draws and beyond them, along coordinates, and in any direction."""
    n, d = x.shape
    pairs = rng.integers(n, size=(2, N_LINES // 2))
    chosen = rng.integers(n, size=N_LINES // 2)
    moves = rng.standard_normal((len(chosen), d)) * min(1.0, 3 / np.sqrt(d))
    half = len(chosen) // 2
    moves[:half] = 2 * np.eye(d)[rng.integers(d, size=half)]
    moves = moves * x.std(axis=0)
    start = np.concatenate([x[pairs[0]], x[chosen] - 0.5 * moves])
    way = np.concatenate([x[pairs[1]] - x[pairs[0]], moves])
    return _Lines(start, way, np.full(len(start), -0.25), 1.5)


def _smallest_part(target: Target, x: np.ndarray) -> float:
    """Of a line: below it, rounded coordinates no longer tell its points apart."""
    spread = x.std(axis=0)
    moving = spread > 0
    if not moving.any():
        return np.inf
    size = np.abs(x).max(axis=0)[moving] / spread[moving]
    # below 1e-13 of a line a continuous log density does not change
    return max(1e-13, 64 * rounding_of(target.log_density(read_only(x[:1]))) * float(size.max()))
