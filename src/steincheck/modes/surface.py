"""The target as a mode search sees it: there is an answer everywhere, and every evaluation is counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import jax
import numpy as np

from ..target import BATCH_SIZES, Target, outputs_anywhere, raw_score, raw_value_and_score
from ..target.compiled import values_and_scores

MAX_OPERATIONS_IN_LARGE_BATCHES = 3000  # per point: beyond, batches of 4096 take up to four times as long


class Stopwatch:
    """Seconds of work: CPU time, so that a busy machine does not shorten a search, unless others do the work.

    Where the CPU time of this process is a small part of the time that passed, as with a target that runs in
    another process, the time that passed counts.
    """

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.cpu = time.process_time()

    def seconds(self) -> float:
        """Seconds since the stopwatch was made: of the CPU, or of the wall clock if mostly idle."""
        wall = time.perf_counter() - self.wall
        cpu = time.process_time() - self.cpu
        return cpu if cpu > 0.2 * wall else wall


class Surface:
    """log p and its score at the proposals of a search.

    A search looks at absurd points, so NaN, +inf and exceptions of the user's functions count as -inf there;
    `failures` says how often, `raised` is the last exception. `evaluations` counts points, a point with log
    density and score once if both come from one compiled call and twice if not.
    """

    def __init__(
        self, target: Target, max_evaluations: float = np.inf, max_seconds: float | None = None
    ) -> None:
        self.target = target
        self.dim = target.dim
        self.max_evaluations = max_evaluations
        self.max_seconds = np.inf if max_seconds is None else max_seconds
        self.stopwatch = Stopwatch()
        self.evaluations = 0
        self.failures = 0
        self.raised: Exception | None = None  # by the user's functions, the last one
        self.scored = False  # whether there was a finite score anywhere
        # Finite differences cost 2d + 1 evaluations of log p per score.
        self.cost_of_score = 1 if target.has_score else 2 * target.dim + 1

    @property
    def fused(self) -> bool:
        """Whether log density and score come from one compiled call."""
        return self.target.jax_log_density is not None

    @cached_property
    def operations(self) -> float | None:
        """Operations per point of log density and score, by the compiler's count; None if not compiled.

        Unlike a time it is the same on every run. An exponential or logarithm counts as 20.
        """
        if self.target.jax_log_density is None:
            return None
        n = BATCH_SIZES[2]
        with jax.enable_x64(True):
            points = jax.ShapeDtypeStruct((n, self.dim), np.float64)
            count = values_and_scores.lower(self.target.jax_log_density, points).cost_analysis() or {}
        return (count.get("flops", 0.0) + 20 * count.get("transcendentals", 0.0)) / n

    @property
    def exhausted(self) -> Literal["max_evaluations", "max_seconds"] | None:
        """Which limit is reached, if any."""
        if self.evaluations >= self.max_evaluations:
            return "max_evaluations"
        return "max_seconds" if self.stopwatch.seconds() > self.max_seconds else None

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log p (n,), -inf wherever it is not finite."""
        value = np.full(len(x), -np.inf)
        rows = np.flatnonzero(np.isfinite(x).all(axis=1))
        if len(rows):
            raw = self._tolerant(lambda y: (self.target.log_density(y),), x[rows], log_density=())[0]
            value[rows] = self._clean(raw)
        self.evaluations += len(rows)
        return value

    def value_and_score(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p (n,) and score (n, d); where either is not finite log p is -inf and the score 0."""
        value = np.full(len(x), -np.inf)
        score = np.zeros(x.shape)
        rows = np.flatnonzero(np.isfinite(x).all(axis=1))
        if len(rows):
            raw, slope = self._tolerant(
                self._fused_value_and_score, x[rows], log_density=(), score=(self.dim,)
            )
            bad = ~np.isfinite(slope).all(axis=1) & np.isfinite(raw)
            value[rows] = self._clean(np.where(bad, np.nan, raw))
            good = np.isfinite(value[rows])
            score[rows] = np.where(good[:, None], slope, 0.0)
            self.scored |= bool(good.any())
        self.evaluations += len(rows) * (1 if self.fused else 1 + self.cost_of_score)
        return value, score

    def _fused_value_and_score(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Both at once; expensive targets in small batches, whose intermediate arrays fit into the cache."""
        size = BATCH_SIZES[2]
        if len(x) <= size or self.operations is None or self.operations < MAX_OPERATIONS_IN_LARGE_BATCHES:
            return raw_value_and_score(self.target, x)
        parts = [raw_value_and_score(self.target, x[i : i + size]) for i in range(0, len(x), size)]
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def score(self, x: np.ndarray) -> np.ndarray:
        """The score (n, d), NaN in rows where it cannot be had."""
        slope = self._tolerant(lambda y: (raw_score(self.target, y),), x, score=(self.dim,))[0]
        bad = ~np.isfinite(slope).all(axis=1)
        self.failures += int(bad.sum())
        self.scored |= bool((~bad).any())
        self.evaluations += len(x) * self.cost_of_score
        return np.where(bad[:, None], np.nan, slope)

    def _clean(self, value: np.ndarray) -> np.ndarray:
        bad = np.isnan(value) | (value == np.inf)
        self.failures += int(bad.sum())
        return np.where(bad, -np.inf, value)

    def _tolerant(
        self, function: Callable[[np.ndarray], tuple[Any, ...]], x: np.ndarray, **shapes: tuple[int, ...]
    ) -> list[np.ndarray]:
        """The outputs of a batch function, NaN in the rows where it raises."""
        outputs, raised = outputs_anywhere(function, x, shapes)
        self.raised = raised or self.raised
        return outputs
