"""Fig. 6: level and power against n for two Gaussians in 50 dimensions, and p-values under the null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .drawing import key_below, power_curves, pvalue_curves, select
from .fig1 import STEPS, problem
from .methods import ALL, CONSTANTS, evaluate, label_test
from .rows import Cell, Row, parts, setting

DIM = 50
SIZES = (100, 200, 500, 1000)
CELLS = [([setting(case=case, n=n) for n in SIZES for case in ("level", "power")], ALL)]
QUICK = dict.fromkeys(CELLS[0][0][:2], ("KSD", "spKSD", "ospKSD", "flux"))
SETTINGS = CONSTANTS | {
    "dim": DIM,
    "n_steps": STEPS,
    "separation": 6,
    "target_weights": [0.5, 0.5],
    "box": [-10, 10],
}


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample."""
    problem_, weights = problem(6, DIM), [0.5, 0.5] if parts(cell.setting)["case"] == "level" else [1, 0]
    x, labels = problem_.target.sample_with_labels(int(cell["n"]), cell.rng("sample"), weights=weights)
    return evaluate(cell, methods, problem_, x, lambda: label_test(labels, np.array([0.5, 0.5])))


def figure(rows: Sequence[Row]) -> Any:
    """Level, power, and the distribution of the p-values under the null at the largest n."""
    from matplotlib import pyplot

    picture, axes = pyplot.subplots(1, 3, figsize=(9.5, 3.1), layout="constrained")
    level = select(rows, case="level")
    power_curves(axes[0], level, "n", even=True).set(xlabel="n", ylim=(-0.01, 0.21), title="level")
    power_curves(axes[1], select(rows, case="power"), "n", even=True).set(
        xlabel="n", title="power, left mode only"
    )
    pvalue_curves(axes[2], select(level, n=max(float(parts(r.setting)["n"]) for r in level)))
    axes[2].set_title("p-values under the null, largest n")
    key_below(picture, axes)
    return picture
