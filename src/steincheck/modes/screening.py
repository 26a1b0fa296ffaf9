"""Which of very many starts are worth a climb: one score each, compared with what the known modes predict."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .climb import dot
from .starts import Base, Starts, join
from .surface import Surface

MIN_SCREENED = 2**12  # points per kind of start, however expensive the target
MAX_SCREENED = 2**18  # points per kind of start of the cheapest targets
SCREENING_WORK = 5e8  # operations that the screening of one kind may cost, about 0.2 s
SCREENED_AT_ONCE = 2**13  # points: they fit into the cache of a processor
MAX_PREDICTING_MODES = 32  # heaviest modes with which a start is compared
MAX_REWARDING_DIM = 8  # above it, few starts meet a mode half as wide as the known one, and none a narrower
N_SHELLS = 8  # of distance from the mode, each with the same number of starts of largest residual


class Landscape:
    """The known modes as parabolas, and how little a score agrees with any of them."""

    def __init__(self, bases: list[Base], log_density: list[float]) -> None:
        self.bases = bases[:MAX_PREDICTING_MODES]
        self.log_density = log_density
        self.whiten = [np.linalg.inv(base.root).T for base in self.bases]

    def score_residual(self, score: np.ndarray, x: np.ndarray) -> np.ndarray:
        """How little the score points to a known mode: the least of 1 - cos(R's, R^-1 (m - x)) over modes.

        It is 0 anywhere in the basin of an elliptic mode, near or far. Where basins meet, the score of the
        mixture of all parabolas counts as a prediction too.
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            ways = [(base.x - x) @ whiten for base, whiten in zip(self.bases, self.whiten, strict=True)]
            pairs = zip(ways, self.bases, strict=True)
            least = np.min([_disagreement(way, score @ base.root) for way, base in pairs], axis=0)
            if len(ways) == 1:
                return least
            heights = np.array([[top] for top in self.log_density[: len(ways)]])
            own = heights - 0.5 * np.array([dot(way, way) for way in ways])
            share = np.exp(own - own.max(axis=0))
            mixed = np.einsum(
                "kn,kni->ni", share, [way @ w.T for way, w in zip(ways, self.whiten, strict=True)]
            )
            root = self.bases[0].root
            return np.minimum(least, _disagreement(mixed @ root, score @ root))


def _disagreement(way: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """1 - cosine of the angle between rows; 0 where it cannot be had: scores that overflow tell nothing."""
    size = np.sqrt(dot(way, way)) * np.sqrt(dot(slope, slope))
    cosine = dot(way, slope) / np.where(size > 0, size, 1.0)
    return np.where(np.isfinite(cosine) & (size > 0), 1 - cosine, 0.0)


def affordable_points(surface: Surface, n_modes: int) -> int:
    """Points of one kind that `SCREENING_WORK` pays for: a power of 2 that no clock decides."""
    work = surface.operations
    if work is None:
        return MIN_SCREENED
    d = surface.dim
    work = 300 * d + work + 8 * d**2 * min(n_modes, MAX_PREDICTING_MODES)
    return max(MIN_SCREENED, 2 ** int(np.log2(SCREENING_WORK / work)))


def screened_points(surface: Surface, n_modes: int, effort: float) -> int:
    """How many points of each kind are screened: most where they help most, in 3 to 8 dimensions.

    In one or two dimensions fewer reach as far; in more than 8 no affordable number finds narrow modes.
    """
    d = surface.dim
    useful = min(MAX_SCREENED, 2 ** (12 + 2 * d)) if d <= MAX_REWARDING_DIM else MAX_SCREENED // 8
    return max(8, int(effort * min(useful, affordable_points(surface, n_modes))))


def screen(
    surface: Surface,
    draw: Callable[[int], Starts],
    n: int,
    keep: int,
    known: Landscape,
    rng: np.random.Generator,
) -> Starts:
    """Of `n` starts those worth a climb: half of largest residual per shell of distance, half at random."""
    half = keep // 2
    largest = _LargestResiduals(known, -(-half // N_SHELLS))
    parts = list[Starts]()
    for begin in range(0, n, SCREENED_AT_ONCE):
        if begin and surface.exhausted:
            break
        drawn = draw(min(SCREENED_AT_ONCE, n - begin))
        value, score = surface.value_and_score(drawn.x)
        residual = np.where(np.isfinite(value), known.score_residual(score, drawn.x), -np.inf)
        largest.add(drawn, residual)
        if not parts:
            size = min(keep - half, len(drawn.x))
            parts.append(drawn.rows(rng.choice(len(drawn.x), size=size, replace=False)))
    return join([largest.starts(half), *parts])


class _LargestResiduals:
    """Starts of largest score residual so far, equally many per shell of distance from the heaviest mode."""

    def __init__(self, known: Landscape, per_shell: int) -> None:
        self.known = known
        self.per_shell = per_shell
        self.edges: np.ndarray | None = None
        self.parts: list[Starts] = []
        self.residual = np.empty(0)
        self.shell = np.empty(0, dtype=int)

    def add(self, drawn: Starts, residual: np.ndarray) -> None:
        """Look at further starts."""
        z = (drawn.x - self.known.bases[0].x) @ self.known.whiten[0]
        distance = np.log(dot(z, z))
        if self.edges is None:
            self.edges = np.quantile(distance, np.arange(1, N_SHELLS) / N_SHELLS)
        shell = np.searchsorted(self.edges, distance)
        best = self._rows(residual, shell)
        self.parts.append(drawn.rows(best))
        self.residual = np.concatenate([self.residual, residual[best]])
        self.shell = np.concatenate([self.shell, shell[best]])

    def starts(self, n: int) -> Starts:
        """Those of largest residual, `n` at most."""
        return join(self.parts).rows(self._rows(self.residual, self.shell)[:n])

    def _rows(self, residual: np.ndarray, shell: np.ndarray) -> np.ndarray:
        """Rows of the largest residuals in each shell, largest first."""
        chosen = []
        for k in range(N_SHELLS):
            rows = np.flatnonzero(shell == k)
            if len(rows) > self.per_shell:
                rows = rows[np.argpartition(-residual[rows], self.per_shell - 1)[: self.per_shell]]
            chosen.append(rows)
        rows = np.concatenate(chosen)
        return rows[np.argsort(-residual[rows], kind="stable")]
