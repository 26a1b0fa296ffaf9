"""Fig. 6: level and power against n for two Gaussians in 50 dimensions, and p-values under the null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .cells import Cell, Row, make_cells, parts, setting
from .drawing import key_below, power_curves, pvalue_curves, select
from .fig1 import STEPS, problem
from .methods import ALL, CONSTANTS, evaluate
from .oracles import label_test

REPETITIONS = 100
DIM = 50
SIZES = (100, 200, 500, 1000)
SETTINGS = CONSTANTS | {
    "dim": DIM,
    "n_steps": STEPS,
    "separation": 6,
    "target_weights": [0.5, 0.5],
    "box": [-10, 10],
}


def cells(repetitions: int = REPETITIONS, quick: bool = False) -> list[Cell]:
    """The null and the left mode alone, for every n."""
    sizes, methods = ((100,), ("KSD", "spKSD", "ospKSD", "flux")) if quick else (SIZES, ALL)
    settings = [setting(case=case, n=n) for n in sizes for case in ("level", "power")]
    return make_cells("fig6", settings, 1 if quick else repetitions, methods)


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
