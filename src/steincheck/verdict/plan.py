"""How many evaluations of the density each step of `check` may make."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np

from ..result import StepEvaluations
from ..target import Target
from ..target.evaluation import Budget, call_batch
from ..wording import verdict as words

SUPPORT = 3_500  # edges and jumps: 600 to 3,400 (target/checks.py)
RAYS = 2_200  # ranks on rays, 25 x 77, and impossible draws, 20 + 2 x 97 + the score's check
WALKERS = 20_000  # scores of the first round of `estimate_accuracy` (accuracy_study.csv)
CLIMBS = 2_000  # from 16 draws to modes that are not known
MIN_SCORED = 50  # draws with a score, below which the shape is not tested
MIN_WEIGHED = 200  # draws carried between modes, below which the weights are not tested


def affordable_budget(
    target: Target, x: np.ndarray, max_evaluations: int | None, max_seconds: float | None
) -> Budget:
    """The evaluations that both limits allow, to two digits: of the time, by the cost at the first draws.

    Where an evaluation takes less than a hundredth of a millisecond, the time sets no limit.
    """
    limit = np.inf if max_evaluations is None else float(max_evaluations)
    if limit < len(x):
        raise ValueError(
            f"`max_evaluations` must be at least the number of draws, {len(x)}, got {max_evaluations}"
        )
    if max_seconds is None:
        return Budget(limit)
    seconds = np.inf
    for call, size in enumerate((8, 8, 256, 256)[: 2 if limit <= 10_000 else 4]):  # a first call may compile
        begin = time.perf_counter()
        call_batch("log_density", target.log_density, x[:size])
        seconds = min(seconds, (time.perf_counter() - begin) / len(x[:size]))
        if call == 1 and seconds > 2e-3:
            break
    if seconds < 1e-5:
        return Budget(limit)
    in_time = max_seconds / seconds
    digits = 10 ** np.floor(np.log10(in_time) - 1)
    return Budget(min(limit, float(np.floor(in_time / digits) * digits)))


def scored_rows(target: Target, n: int, budget: Budget) -> np.ndarray:
    """Rows of draws whose scores are evaluated: all, or where they are differenced half of the budget's."""
    cost = 1 if target.has_score else 2 * target.dim
    allowed = budget.left if target.has_score else budget.left / 2
    count = int(min(n, allowed // cost))
    return np.arange(n) if count == n else (np.arange(count) * n) // max(count, 1)


def search_allowance(target: Target, n: int, budget: Budget) -> float:
    """Evaluations of the mode search: what the tests and the walkers leave, but at least half."""
    walkers = WALKERS * (1 if target.has_score else 2 * target.dim)
    return float(max(budget.left / 2, budget.left - n - SUPPORT - RAYS - CLIMBS - walkers))


def evaluations(target: Target, n: int, n_modes: int, made: Sequence[int]) -> tuple[StepEvaluations, ...]:
    """Evaluations planned and made per step, from those made when each ended."""
    cost = 1 if target.has_score else 2 * target.dim
    planned = {
        "draws": n * (1 + cost),
        "modes": 14_000 * cost,
        "tests": SUPPORT + RAYS + n * (n_modes - 1),
        "accuracy": WALKERS * cost,
    }
    counts = np.diff(made, prepend=0).tolist()
    return tuple(StepEvaluations(*step) for step in zip(planned, planned.values(), counts, strict=True))


def end_step(name: str, budget: Budget, progress: bool | None) -> int:
    """The evaluations made so far; with `progress` a line on standard error says so."""
    if progress and sys.stderr is not None:
        seconds = time.perf_counter() - budget.began
        sys.stderr.write(words.step_line(name, budget.made, seconds))
    return budget.made
