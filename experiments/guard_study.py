"""How often independent draws are taken for interleaved chains, or their axes for swapped.

    python -m experiments guard_study [CASE] [--repetitions R]

Rows go to results/guard_study.csv: "dependent" counts independent draws that are called dependent in their
order, "interleaved" those that are called interleaved chains, "swapped axes" those that are read as four
chains, or as chains of four draws, and said to have swapped axes.

It reaches into the package for the dependence, which is found within `check` and the tests only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import steincheck as sc
from steincheck.chains.reading import find_dependence

from .counting import Case, CountedStudy, Events

REPETITIONS = {100: 2000, 1000: 1000, 10_000: 50}  # by n
SHAPES = ((1, 0.0), (2, 0.99999), (10, 0.0), (10, 0.99), (10, 0.99999), (50, 0.0), (50, 0.99999))
KINDS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "Gaussian": lambda x, rng: x,
    "t2": lambda x, rng: x / np.sqrt(rng.chisquare(2, size=(len(x), 1)) / 2),
    "log-normal": lambda x, rng: np.exp(1.5 * x),
    "bimodal": lambda x, rng: x + rng.choice([-10.0, 10.0], size=(len(x), 1)),
}


def independent_draws(kind: str, d: int, correlation: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (n, d) whose coordinates, before their shape is changed, have equal correlations."""
    x = np.sqrt(1 - correlation) * rng.normal(size=(n, d))
    x += np.sqrt(correlation) * rng.normal(size=(n, 1))
    return KINDS[kind](x, rng)


def run(kind: str, d: int, correlation: float, n: int, rng: np.random.Generator, repetition: int) -> Events:
    """What the guards say of one sample."""
    x = independent_draws(kind, d, correlation, n, rng)
    dependence = find_dependence(x, -np.sum(x**2, axis=1))
    return {
        "dependent": dependence is not None,
        "interleaved": dependence is not None and dependence.interleaved,
        "swapped axes, four chains": sc.as_draws(x.reshape(4, -1, d)).axes_swapped,
        "swapped axes, chains of four": sc.as_draws(x.reshape(-1, 4, d)).axes_swapped,
    }


STUDIES = (
    CountedStudy(
        "guard_study",
        2030,
        {
            f"{kind}, d={d}, correlation {correlation:g}, n={n}": Case(
                partial(run, kind, d, correlation), (n,), repetitions
            )
            for n, repetitions in REPETITIONS.items()
            for d, correlation in SHAPES
            for kind in KINDS
        },
    ),
)
