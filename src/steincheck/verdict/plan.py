"""How many evaluations of the density each step of `check` may make."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..result import StepEvaluations
from ..target import Target
from ..target.counting import Budget

SUPPORT = 3_500  # edges and jumps: 600 to 3,400 (target/support.py)
RAYS = 2_200  # ranks on rays, 25 x 77, and impossible draws, 20 + 2 x 97 + the score's check
CLIMBS = 2_000  # from 16 draws to modes that are not known
MIN_SCORED = 50  # draws with a score, below which the shape is not tested
MIN_WEIGHED = 200  # draws carried between modes, below which the weights are not tested


class Step(NamedTuple):
    """A step that has ended: the evaluations it needs, and those made by everything so far."""

    name: str
    needed: int
    made_so_far: int


def affordable_evaluations(
    target: Target, x: np.ndarray, max_evaluations: float, max_seconds: float
) -> float:
    """The evaluations that both limits allow, to two digits: of the time, by the cost at the first draws.

    Compilation is not counted: a first call that is slow is repeated.
    """
    if np.isinf(max_seconds):
        return max_evaluations
    seconds = np.inf
    for _ in range(2):
        begin = time.perf_counter()
        target.log_density(x[:8])
        seconds = (time.perf_counter() - begin) / len(x[:8])
        if seconds < 1e-4:
            return max_evaluations
    in_time = max_seconds / seconds
    digits = 10 ** np.floor(np.log10(in_time) - 1)
    return float(min(max_evaluations, np.floor(in_time / digits) * digits))


def scored_rows(target: Target, n: int, budget: Budget) -> np.ndarray:
    """Rows of draws whose scores are evaluated: all, or where they are differenced half of the budget's."""
    cost = 1 if target.has_score else 2 * target.dim
    allowed = budget.left if target.has_score else budget.left / 2
    count = int(min(n, allowed // cost))
    return np.arange(n) if count == n else (np.arange(count) * n) // max(count, 1)


def search_allowance(target: Target, n: int, budget: Budget) -> float:
    """Evaluations of the mode search: what the tests and the walkers leave, but at least half."""
    walkers = 20_000 * (1 if target.has_score else 2 * target.dim)
    return float(max(budget.left / 2, budget.left - n - SUPPORT - RAYS - CLIMBS - walkers))


def evaluations(steps: Sequence[Step]) -> tuple[StepEvaluations, ...]:
    """Evaluations per step, from those made when each ended."""
    made = np.diff([step.made_so_far for step in steps], prepend=0).tolist()
    return tuple(
        StepEvaluations(step.name, step.needed, count) for step, count in zip(steps, made, strict=True)
    )
