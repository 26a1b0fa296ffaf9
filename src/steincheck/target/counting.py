"""Evaluations of a density, counted and limited."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from .compiled import in_chunks, values_and_scores
from .evaluation import output_anywhere, raw_score
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
        value = self._output("log_density", self._counting.log_density, x, (), 1)
        return np.where(np.isfinite(value), value, -np.inf)

    def score(self, x: np.ndarray) -> np.ndarray:
        """The score (n, d), NaN in rows where it cannot be had."""
        if self.compiled:
            value, slope = self.log_density_and_score(x)
            return np.where(np.isfinite(value)[:, None], slope, np.nan)
        slope = self._output("score", partial(raw_score, self._counting), x, x.shape[1:], self.score_cost)
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
            both = self._output("log_density", self._values_and_scores, x, (1 + x.shape[1],), 1)
            value, slope = both[:, 0], both[:, 1:]
        else:
            value = self.log_density(x)
            slope = np.zeros(x.shape)
            rows = np.flatnonzero(np.isfinite(value) & (value >= floor))
            slope[rows] = self.score(x[rows])
        good = np.isfinite(value) & np.isfinite(slope).all(axis=1)
        self.scored |= bool(good.any())
        return np.where(good, value, -np.inf), np.where(good[:, None], slope, 0.0)

    def _values_and_scores(self, x: np.ndarray) -> np.ndarray:
        """log p and score as columns (n, 1 + d), in one compiled call."""
        self.budget.made += len(x)
        return in_chunks(partial(values_and_scores, self.target.jax_log_density), self.target.dim)(x)

    def _output(
        self, name: str, function: Batch, x: np.ndarray, shape: tuple[int, ...], cost: int
    ) -> np.ndarray:
        """The output of a batch function; NaN where it raises, at infinite points, beyond the budget."""
        output = np.full((len(x), *shape), np.nan)
        rows = np.flatnonzero(np.isfinite(x).all(axis=1))
        while len(rows) and not self.budget.exhausted:
            part, rows = np.split(rows, [self.budget.affordable(len(rows), cost)])
            begin, before = time.perf_counter(), self.budget.made
            output[part], raised = output_anywhere(name, function, x[part], shape)
            seconds = (time.perf_counter() - begin) / (self.budget.made - before)
            self.budget.seconds_per_evaluation = min(self.budget.seconds_per_evaluation, seconds)
            self.raised = raised or self.raised
            bad = np.isnan(output[part]) | (output[part] == np.inf)
            self.failures += int(bad.reshape(len(part), -1).any(axis=1).sum())
        return output


def counting_target(target: Target, budget: Budget) -> Target:
    """The target with functions that count their evaluations; they never refuse one."""

    def counting(function: Batch) -> Batch:
        def counted(x: np.ndarray) -> np.ndarray:
            budget.made += len(x)
            return function(x)

        return counted

    score = None if target.score is None else counting(target.score)
    return replace(target, log_density=counting(target.log_density), score=score)
