"""Fig. 7: a Gaussian-Bernoulli RBM with one dominant mode, noise on its matrix B (the standard benchmark)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from steincheck import models

from .drawing import Panel, power_figure
from .fig8 import one_logarithm
from .methods import ALL, CONSTANTS, Problem, evaluate, modes_of
from .rows import Cell, Row, setting, stream

NOISES = (0, 0.01, 0.02, 0.04, 0.06)
N, DIM, HIDDEN, STEPS = 1000, 50, 5, 50
CELLS = [([setting(noise=s) for s in NOISES], tuple(m for m in ALL if m != "oracle"))]
QUICK = {"noise=0.06": ("KSD", "ospKSD")}
SETTINGS = CONSTANTS | {
    "n": N,
    "dim": DIM,
    "hidden": HIDDEN,
    "n_steps": STEPS,
    "box": [-10, 10],
    "target": "one draw of B from {-1, 1} and b, c from N(0, 1), seed 'fig7/target', for all repetitions",
    "sample": "B plus Gaussian noise, fresh for every repetition",
}


@lru_cache
def parameters() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B, b and c of the target, space turned such that only the first rows of B are not zero.

    All tests look at distances and scores only, which turn with the space; the jumps get cheaper.
    """
    rng = stream("fig7", "target")
    B = rng.choice([-1.0, 1.0], size=(DIM, HIDDEN))
    b, c = rng.standard_normal(DIM), rng.standard_normal(HIDDEN)
    turn, triangle = np.linalg.qr(B, mode="complete")
    return triangle, turn.T @ b, c


@lru_cache
def problem() -> Problem:
    """The target and its modes."""
    target = models.gb_rbm(*parameters())
    return Problem(target, modes_of(target, (-10, 10)), STEPS, formula=triangular)


def triangular(parameters: Any, x: Any) -> Any:
    """The model's log density for a B that has rows for the hidden units only."""
    B, b, c = parameters
    return one_logarithm(0.5 * (x[: len(c)] @ B[: len(c)]) + c, b, x)


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one exact sample of the RBM with noise on B."""
    B, b, c = parameters()
    noisy = B + cell["noise"] * cell.rng("noise").standard_normal(B.shape)
    x = models.gb_rbm(noisy, b, c).sample(N, cell.rng("sample"))
    return evaluate(cell, methods, problem(), x)


def figure(rows: Sequence[Row]) -> Any:
    """Rejection rates."""
    labels = {"xlabel": r"standard deviation $\sigma$ of the noise on B"}
    return power_figure((5.5, 3.4), Panel(rows, "noise", labels))
