"""Evaluations of a density, counted and limited."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from .evaluation import outputs_anywhere, raw_score, raw_value_and_score
from .record import Batch, Target


@dataclass
class Budget:
    """Evaluations made so far, by everything that shares this budget, and how many may be made."""

    max_evaluations: float = np.inf
    max_seconds: float = np.inf
    made: int = 0
    seconds_per_evaluation: float = np.inf  #: of the quickest call so far; infinite before the first
    began: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Evaluations that may still be made; infinite without a limit."""
        return max(0, self.max_evaluations - self.made)

    @property
    def exhausted(self) -> Literal["max_evaluations", "max_seconds"] | None:
        """Which limit is reached, if any."""
        if self.made >= self.max_evaluations:
            return "max_evaluations"
        return "max_seconds" if time.perf_counter() - self.began > self.max_seconds else None

    def affordable(self, n: int, cost: int) -> int:
        """Of `n` points with `cost` evaluations each, how many to evaluate before limits are looked at.

        A batch takes a twentieth of the time, if the density is slow; the first one has 8 points.
        """
        n = int(min(n, self.left // cost))
        if self.max_seconds < np.inf:
            seconds = cost * min(self.seconds_per_evaluation, self.max_seconds)
            n = int(min(n, max(8, 0.05 * self.max_seconds / seconds)))
        return max(1, n)


class CountedTarget:
    """A target at the points of a search, where any point has an answer and every evaluation counts.

    NaN, +inf, exceptions of the user's functions and points beyond the budget count as density 0. log p and
    score count once where they come from one compiled call; a score by finite differences counts the points
    at which log p is evaluated for it, 2 d + 1 if its steps suit at once.
    """

    def __init__(self, target: Target, budget: Budget | None = None) -> None:
        self.target = target
        self.budget = Budget() if budget is None else budget
        self.compiled = target.jax_log_density is not None
        self.score_cost = 1 if target.has_score else 2 * target.dim + 1
        self.failures = 0  # points where log p or the score was not finite, or raised
        self.raised: Exception | None = None  # by the user's functions, the last one
        self.scored = False  # whether there was a finite score anywhere
        self._counting = counting_target(target, self.budget)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log p (n,), -inf wherever it is not finite."""
        (value,) = self._outputs(lambda y: (self._counting.log_density(y),), x, 1, log_density=())
        return np.where(np.isfinite(value), value, -np.inf)

    def score(self, x: np.ndarray) -> np.ndarray:
        """The score (n, d), NaN in rows where it cannot be had."""
        if self.compiled:
            value, slope = self.log_density_and_score(x)
            return np.where(np.isfinite(value)[:, None], slope, np.nan)
        shape = (self.target.dim,)
        (slope,) = self._outputs(lambda y: (raw_score(self._counting, y),), x, self.score_cost, score=shape)
        good = np.isfinite(slope).all(axis=1)
        self.scored |= bool(good.any())
        return np.where(good[:, None], slope, np.nan)

    def log_density_and_score(
        self, x: np.ndarray, floor: np.ndarray | float = -np.inf
    ) -> tuple[np.ndarray, np.ndarray]:
        """log p (n,) and score (n, d); where either is not finite, log p is -inf and the score 0.

        A score that needs a call of its own is left 0 where log p is below `floor`.
        """
        if self.compiled:
            shapes: dict[str, tuple[int, ...]] = {"log_density": (), "score": (self.target.dim,)}
            value, slope = self._outputs(self._both, x, 1, **shapes)
        else:
            value = self.log_density(x)
            slope = np.zeros(x.shape)
            rows = np.flatnonzero(np.isfinite(value) & (value >= floor))
            slope[rows] = self.score(x[rows])
        good = np.isfinite(value) & np.isfinite(slope).all(axis=1)
        self.scored |= bool(good.any())
        return np.where(good, value, -np.inf), np.where(good[:, None], slope, 0.0)

    def _both(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.budget.made += len(x)
        return raw_value_and_score(self.target, x)

    def _outputs(
        self, function: Callable[..., tuple[Any, ...]], x: np.ndarray, cost: int, **shapes: tuple[int, ...]
    ) -> list[np.ndarray]:
        """The outputs of a batch function; NaN where it raises, at infinite points, beyond the budget."""
        outputs = [np.full((len(x), *shape), np.nan) for shape in shapes.values()]
        rows = np.flatnonzero(np.isfinite(x).all(axis=1))
        while len(rows) and not self.budget.exhausted:
            part, rows = np.split(rows, [self.budget.affordable(len(rows), cost)])
            begin, before = time.perf_counter(), self.budget.made
            values, raised = outputs_anywhere(function, x[part], shapes)
            seconds = (time.perf_counter() - begin) / (self.budget.made - before)
            self.budget.seconds_per_evaluation = min(self.budget.seconds_per_evaluation, seconds)
            self.raised = raised or self.raised
            for whole, piece in zip(outputs, values, strict=True):
                whole[part] = piece
            bad = [np.isnan(piece) | (piece == np.inf) for piece in values]
            self.failures += int(np.any([b.reshape(len(part), -1).any(axis=1) for b in bad], axis=0).sum())
        return outputs


def counting_target(target: Target, budget: Budget) -> Target:
    """The target with functions that count their evaluations; they never refuse one."""

    def counting(function: Batch) -> Batch:
        def counted(x: np.ndarray) -> np.ndarray:
            budget.made += len(x)
            return function(x)

        return counted

    score = None if target.score is None else counting(target.score)
    return replace(target, log_density=counting(target.log_density), score=score)
