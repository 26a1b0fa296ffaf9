"""`assert_fits`: false alarms on exact draws, and classical errors of samplers.

    python -m experiments testing_study [CASE] [--repetitions R] [--n-jobs J]

Rows go to results/testing_study.csv, with false_alarm = 1e-3 in all cases. A run on exact draws "failed"
(a false alarm) or was "inconclusive". A run of a wrong sampler was "found" within 20,000 draws, within 5000,
or "passed". Chains start at exact draws, so that nothing but the error leads them away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import steincheck as sc
from steincheck.testing import Inconclusive, Sampler, assert_fits, targets

from .counting import Case, CountedStudy, Events

FALSE_ALARM = 1e-3
Accept = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def metropolis_rule(log_ratio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Accept with probability min(1, ratio)."""
    return np.log(rng.random(len(log_ratio))) < log_ratio


def biased_rule(log_ratio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Accept by the root of the ratio."""
    return metropolis_rule(0.5 * log_ratio, rng)


def accept_all(log_ratio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """No correction of the error of the discretisation."""
    return np.ones(len(log_ratio), dtype=bool)


def hamiltonian(name: str, step: float, accept: Accept = metropolis_rule, kinetic: float = 0.5) -> Sampler:
    """Last states of Hamiltonian chains of 60 trajectories; the kinetic energy is `kinetic` |p|^2."""
    target, exact = targets[name]

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        x = exact(n, rng)
        for _ in range(60):
            p = rng.normal(size=x.shape)
            y, q = x, p + 0.5 * step * target.score(x)
            for _ in range(3):
                y = y + step * q
                q = q + step * target.score(y)
            q = q - 0.5 * step * target.score(y)
            change = kinetic * (np.sum(p**2, axis=1) - np.sum(q**2, axis=1))
            taken = accept(target.log_density(y) - target.log_density(x) + change, rng)
            x = np.where(taken[:, None], y, x)
        return x

    return sample


def no_jacobian(n: int, rng: np.random.Generator) -> np.ndarray:
    """Logarithms of draws of a density that has lost its Jacobian in part: shapes too small."""
    return np.log(rng.gamma([0.5, 3.0], size=(n, 2)))


def one_mode(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of the heavier mode of "two_modes" only."""
    return np.array([3.0, 1.0]) + 0.6 * rng.normal(size=(n, 2))


WRONG: dict[str, tuple[str, Sampler]] = {  # target, sampler
    "wrong Jacobian": ("skewed", no_jacobian),
    "kinetic energy twice": ("heavy_tails", hamiltonian("heavy_tails", 1.2, kinetic=1.0)),
    "biased acceptance": ("heavy_tails", hamiltonian("heavy_tails", 1.2, biased_rule)),
    "no correction": ("skewed", hamiltonian("skewed", 0.7, accept_all)),
    "missing mode": ("two_modes", one_mode),
}


@cache
def modes_of(name: str) -> sc.Modes:
    """Searched for once."""
    return sc.find_modes(targets[name].target, rng=0)


def outcome(name: str, sample: Sampler, rng: np.random.Generator) -> tuple[str, int]:
    """How a run ended, and after how many draws."""
    drawn = []

    def counted(n: int, stream: np.random.Generator) -> Any:
        drawn.append(n)
        return sample(n, stream)

    try:
        assert_fits(counted, targets[name].target, false_alarm=FALSE_ALARM, modes=modes_of(name), rng=rng)
    except AssertionError:
        return "failed", sum(drawn)
    except Inconclusive:
        return "inconclusive", sum(drawn)
    return "passed", sum(drawn)


def right(name: str, size: int, rng: np.random.Generator, repetition: int) -> Events:
    """A run on exact draws."""
    ending, _ = outcome(name, targets[name].sample, rng)
    return {"failed": ending == "failed", "inconclusive": ending == "inconclusive"}


def wrong(error: str, size: int, rng: np.random.Generator, repetition: int) -> Events:
    """A run of a wrong sampler."""
    ending, n_draws = outcome(*WRONG[error], rng)
    found = ending == "failed"
    return {"found": found, "found within 5000": found and n_draws <= 5000, "passed": ending == "passed"}


STUDIES = (
    CountedStudy(
        "testing_study",
        2031,
        {error: Case(partial(wrong, error), (20_000,), 20) for error in WRONG}
        | {f"exact draws, {name}": Case(partial(right, name), (20_000,), 1000) for name in targets},
    ),
)
