"""Fig. 3: power against the weight of the first of two modes, which is 1/2 in the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import Panel, power_figure
from .fig1 import STEPS, N, problem
from .methods import ALL, CONSTANTS, evaluate, label_test
from .rows import Cell, Row, setting

WEIGHTS = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
CELLS = [([setting(weight=w) for w in WEIGHTS], ALL)]  # weights of the first mode in the sample
QUICK = {"weight=0.4": ("KSD", "KSDAgg", "spKSD", "oracle")}
SETTINGS = CONSTANTS | {
    "n": N,
    "n_steps": STEPS,
    "separation": 6,
    "target_weights": [0.5, 0.5],
    "box": [-10, 10],
}


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample with the wrong weight."""
    case, weight = problem(6), cell["weight"]
    x, labels = case.target.sample_with_labels(N, cell.rng("sample"), weights=[weight, 1 - weight])
    return evaluate(cell, methods, case, x, lambda: label_test(labels, np.array([0.5, 0.5])))


def figure(rows: Sequence[Row]) -> Any:
    """Rejection rates."""
    labels = {"xlabel": r"weight $\pi$ of the first mode in the sample", "xticks": np.linspace(0, 1, 11)}
    return power_figure((5.5, 3.4), Panel(rows, "weight", labels))
