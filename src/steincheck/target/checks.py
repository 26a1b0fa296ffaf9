"""What speaks against tests of draws: a score that disagrees with log p, edges and jumps of the density."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from .._validation import listed
from ..wording.draws import NO_SCORE, discontinuity_warning
from ..wording.results import warning
from .evaluation import Differences, call_batch, differences, log_density_anywhere, log_density_at, score_at
from .record import Target, probe_points

# relative: solvers of differential equations are this inexact (Lotka-Volterra of posteriordb by up to 4 %)
MAX_SCORE_ERROR = 0.05
EDGE_DROP = 40.0  # nats: a larger drop within the smallest bracket is an edge, whatever the floor beyond it


def score_warnings(target: Target, x: np.ndarray, *, check: bool = True) -> list[str]:
    """A warning if there is no score; if `check`, an error or a warning if it disagrees with log p.

    It is compared with finite differences at five of the draws `x` (n, d), along all coordinates, or along
    ten directions if there are more of them: at most 105 evaluations. Where log p is noisy, it bends at
    random over a step; three times the second largest bend along a direction is allowed. At a kink the score
    may be that of either side. Noise of 1e-6 raised no error in 720 targets of dimension 1 to 40; a score
    with the wrong sign or 1.5 times too large was an error in all 480. A disagreement of up to
    `MAX_SCORE_ERROR`, or at one draw only, is a warning.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> wrong = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: x, dim=1)
    >>> score_warnings(wrong, np.array([[1.0], [2.0]]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: `score` disagrees with finite differences of `log_density` in coordinate 0...
    """
    if not target.has_score or not check:
        return [] if target.has_score else [NO_SCORE]
    rows = np.unique(np.linspace(0, len(x) - 1, num=min(5, len(x))).astype(int))
    low, high = np.quantile(x, (0.25, 0.75), axis=0)
    bulk = (high - low) / 1.349  # a Gaussian's sd; one draw of Cauchy's may be far out
    spread = x.std(axis=0)
    width = np.where(bulk > 0, np.minimum(spread, bulk), spread)
    width = np.where(width > 0, width, 1.0)
    given = score_at(target, x[rows])
    directions = np.diag(width) if target.dim <= 10 else probe_points(target.dim, 10) * width
    found = differences(target.log_density, x[rows], 3e-4, directions)
    gap = _excess(given @ directions.T, found)
    if np.isnan(gap).any():
        log_density_at(target, x[rows])  # says which draws have no density
    largest = np.nan_to_num(gap, nan=np.inf).max(axis=1)  # per draw
    if np.sort(largest)[-2:][0] <= MAX_SCORE_ERROR:
        return [warning("inexact score", percent=100 * largest.max())] if largest.max() > 0 else []
    worst = int(np.argmax(largest))
    raise ValueError(_complaint(target, int(rows[worst]), x[rows[worst]], given[worst], width))


def _excess(given: np.ndarray, found: Differences) -> np.ndarray:
    """By how much slopes (n, m) differ from differences beyond what is allowed: positive if they disagree.

    In units of the largest slope along the direction, or of 1 if that is larger.
    """
    size = np.maximum(np.abs(given), np.abs(found.central)).max(axis=0)
    usual = np.sort(found.bend, axis=0)[-2:][0]  # the second largest: one draw may be beside a kink
    noise = (0.5 * found.bend + 3 * usual) / found.step
    excess = np.abs(given - found.central) - (1e-3 * size + found.rounding + noise)
    return excess / np.maximum(size, 1.0)


def _complaint(target: Target, row: int, x: np.ndarray, given: np.ndarray, width: np.ndarray) -> str:
    """Which coordinates disagree at one draw, with both values."""
    found = differences(target.log_density, x[None], 3e-4 * width)
    numeric = found.central[0]
    gap = np.nan_to_num(_excess(given[None], found)[0] * width, nan=np.inf)
    lines = [
        f"coordinate {k}{f' ({target.names[k]})' if target.names else ''}: the score is {given[k]:.6g}, the "
        f"finite difference {numeric[k]:.6g}"
        for k in np.flatnonzero((gap > 0) | (gap == gap.max())).tolist()
    ]
    sign = " (the sign is reversed)" if np.allclose(given, -numeric, rtol=1e-2) else ""
    return (
        "`score` disagrees with finite differences of `log_density` in "
        f"{listed(lines, 5)} at row {row}{sign}. Correct the score; `check_score=False` makes tests go on "
        "regardless"
    )


class Discontinuity(NamedTuple):
    """Where a density is discontinuous, or almost so: Stein's identity or its normal limit fails there."""

    kind: Literal["edge", "slow edge", "jump"]
    x: np.ndarray
    drop: float  #: nats by which log p falls
    exponent: float = 0.0  #: power of the distance to the edge as which p falls at the nearest draws


def support_warnings(target: Target, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator) -> list[str]:
    """What the draws and the log density near them say against Stein tests."""
    still = np.flatnonzero(np.ptp(x, axis=0) == 0).tolist()
    gap = discontinuity(target, x, log_p, rng)
    constant = [warning("constant", coordinates=listed(still, 5))] if still else []
    return constant + ([discontinuity_warning(gap)] if gap else [])


def discontinuity(
    target: Target, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator, *, jumps: bool = True
) -> Discontinuity | None:
    """A point at which the density ends abruptly, vanishes too slowly or jumps, where it matters; or None.

    Without `jumps` only edges are looked for, which takes a fifth of the evaluations.

    An edge or a jump matters if log p just inside is not far below its median: Stein's identity is off by the
    jump of the density, which shows against noise of 1/sqrt(n).
    """
    of_lines = rng.spawn(1)[0]
    low = float(np.median(log_p)) - 5 - 0.5 * np.log(len(x))
    found = _edge(target, x, low, rng) or (_jump(target, x, low, of_lines) if jumps else None)
    log_density_at(target, x[:5])  # what fails now is a fault of the function, not an edge
    return found


def _edge(target: Target, x: np.ndarray, low: float, rng: np.random.Generator) -> Discontinuity | None:
    """An edge at which the density ends above `low`, or falls too slowly; some draws are moved to find it.

    Where p vanishes as the distance to the power a, the score has moments of orders below a + 1: without the
    third, its mean over the draws is far from normal. The power is that by which p falls when points as near
    to the edge as the nearest draws come twice as near. A continuous density that is merely steep has no drop
    left in the last brackets.
    """
    start, inside, outside = _brackets(target, x, low - 1000, rng)  # below every draw, above users' log 0
    height = log_density_anywhere(target.log_density, inside)
    ends = np.flatnonzero(log_density_anywhere(target.log_density, outside) < height - EDGE_DROP)
    if not len(ends):
        return None
    highest = ends[np.argmax(height[ends])]
    if height[highest] > low:
        return Discontinuity("edge", inside[highest], np.inf)
    near = (start - inside)[ends] * min(1, 125 / len(x))  # as near as the nearest of all draws
    near_and_halfway = np.concatenate([inside[ends] + near, inside[ends] + 0.5 * near])
    fall = -np.diff(log_density_anywhere(target.log_density, near_and_halfway).reshape(2, -1), axis=0)
    exponent = float(np.median(fall) / np.log(2))
    return Discontinuity("slow edge", inside[ends[0]], np.inf, exponent) if exponent < 2 else None


def _brackets(target: Target, x: np.ndarray, floor: float, rng: np.random.Generator) -> np.ndarray:
    """Draws, and pairs of points between which log p falls below `floor`, (3, m, d).

    Draws are moved to and fro; where that leads below the floor the way is halved down to the resolution of
    the numbers, for the draws that may be among the five nearest to an edge.
    """
    rows = np.unique(np.linspace(0, len(x) - 1, num=125).astype(int))
    spread = x.std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    moves = 0.9 * spread * rng.standard_normal((len(rows), x.shape[1]))
    start = np.tile(x[rows], (2, 1))
    outside = start + np.concatenate([moves, -moves])
    found = np.stack([start, start, outside])[:, log_density_anywhere(target.log_density, outside) <= floor]
    for _ in range(60 if found.size else 0):
        start, inside, outside = found
        middle = 0.5 * (inside + outside)
        within = (log_density_anywhere(target.log_density, middle) > floor)[:, None]
        found = np.stack([start, np.where(within, middle, inside), np.where(within, outside, middle)])
        near, far = np.linalg.norm((found[1:] - start) / unit, axis=2)
        found = found[:, near <= np.sort(far)[:5][-1]]
    return found


def _jump(target: Target, x: np.ndarray, low: float, rng: np.random.Generator) -> Discontinuity | None:
    """The largest jump of log p that matters on lines between draws and beyond them.

    The part of a line that is least like its neighbours is divided again, down to the resolution of the
    numbers: however steep a continuous log density is, its changes become small, or all alike.
    """
    start, way, smallest = _lines(target, x, rng)
    if smallest > 1e-4:  # rounded too coarsely to tell a jump
        return None
    begin, length, n_parts = np.full(len(start), -0.25), 1.5, 12
    while True:
        t = begin[:, None] + length * np.linspace(0, 1, n_parts + 1)
        points = start[:, None] + t[:, :, None] * way[:, None]
        value = log_density_anywhere(target.log_density, points.reshape(-1, x.shape[1])).reshape(t.shape)
        part, drop, beside, matter = _steps(value, max(0.02, 0.5 / np.sqrt(len(x))), low)
        begin = np.take_along_axis(t, part[:, None], axis=1)[:, 0]
        length /= n_parts
        if length <= smallest or not matter.any():
            break
        start, way, begin, n_parts = start[matter], way[matter], begin[matter], 8
    sizes = np.where(matter & (drop > 10.0 * beside), drop, 0.0)
    best = int(np.argmax(sizes))
    if not sizes[best]:
        return None
    return Discontinuity(
        "edge" if sizes[best] >= EDGE_DROP else "jump",
        start[best] + begin[best] * way[best],
        float(sizes[best]),
    )


def _steps(value: np.ndarray, least: float, low: float) -> tuple[np.ndarray, ...]:
    """The part of each line on which log p changes least like on its neighbours; `value` (m, k + 1).

    Its number, the nats by which log p changes over it, the largest change over another part, and whether it
    matters: the density changes by the share `least`, and that lies above `low`.
    """
    value = np.maximum(value, low - EDGE_DROP)  # the cut takes nothing from continuity
    change = np.diff(value, axis=1)
    wide = np.concatenate([change[:, 1:2], change, change[:, -2:-1]], axis=1)
    unlike = np.abs(change - 0.5 * (wide[:, :-2] + wide[:, 2:]))  # 0 on a parabola
    unlike[:, [0, -1]] *= 0.75  # which have one neighbour: a jump in it must count for more than they do
    part = np.argmax(unlike, axis=1)
    row = np.arange(len(part))
    change = np.abs(change)
    size = change[row, part]
    change[row, part] = 0.0
    height = np.maximum(value[row, part], value[row, part + 1])
    share = np.maximum(-np.expm1(-size), 1e-300)
    return part, size, change.max(axis=1), (share > least) & (height + np.log(share) > low)


def _lines(target: Target, x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Start and way of 32 lines through pairs of draws, 16 along coordinates, 16 in any direction.

    Also the part of a line below which rounded coordinates do not tell points apart, and 1e-13 at least:
    there a continuous log density does not change.
    """
    n, d = x.shape
    first, second, chosen = rng.integers(n, size=(3, 32))
    moves = rng.standard_normal((32, d)) * min(1.0, 3 / np.sqrt(d))
    moves[:16] = 2 * np.eye(d)[rng.integers(d, size=16)]
    spread = x.std(axis=0)
    moves = moves * spread
    start = np.concatenate([x[first], x[chosen] - 0.5 * moves])
    way = np.concatenate([x[second] - x[first], moves])
    if not spread.any():
        return start, way, np.inf
    size = float((np.abs(x).max(axis=0) / np.where(spread > 0, spread, np.inf)).max())
    rounding = call_batch("log_density", target.log_density, x[:1])[1]
    return start, way, max(1e-13, 64 * rounding * size)
