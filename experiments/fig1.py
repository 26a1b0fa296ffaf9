"""Fig. 1: power against the separation of two modes of which the sample has only the left one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from steincheck import models

from .drawing import key_below, power_curves
from .methods import ALL, CONSTANTS, Problem, evaluate, label_test, modes_of
from .rows import Cell, Row, setting

SEPARATIONS = (1, 2, 4, 6, 8, 10)
N, STEPS = 1000, 10
CELLS = [  # two unit Gaussians up to 2 apart have one mode only, and no flux to test
    ([setting(separation=s) for s in SEPARATIONS if s <= 2], tuple(m for m in ALL if m != "flux")),
    ([setting(separation=s) for s in SEPARATIONS if s > 2], ALL),
]
QUICK = {"separation=6": ("KSD", "spKSD", "ospKSD", "flux")}
SETTINGS = CONSTANTS | {"n": N, "n_steps": STEPS, "weights": [0.5, 0.5], "box": [-10, 10]}


@lru_cache
def problem(separation: float, dim: int = 1) -> Problem:
    """Two unit Gaussians `separation` apart along the first axis, with weight 1/2 each."""
    means = np.zeros((2, dim))
    means[1, 0] = separation
    target = models.gaussian_mixture(means)
    return Problem(target, modes_of(target, (-10, 10)), STEPS)


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample of the left component."""
    case = problem(cell["separation"])
    x, labels = case.target.sample_with_labels(N, cell.rng("sample"), weights=[1, 0])
    return evaluate(cell, methods, case, x, lambda: label_test(labels, np.array([0.5, 0.5])))


def figure(rows: Sequence[Row]) -> Any:
    """Rejection rates, target densities, and the left component before and after the perturbation."""
    from matplotlib import pyplot

    picture, axes = pyplot.subplots(
        1, 3, figsize=(9.5, 2.9), layout="constrained", width_ratios=(1.2, 1, 1.2)
    )
    power_curves(axes[0], rows, "separation").set(xlabel="separation of the modes", xticks=SEPARATIONS)
    x = np.linspace(-4, 14, 300)
    for k, separation in enumerate((2, 6, 10)):
        axes[1].plot(x, mixture(x, separation), color=str(0.65 - 0.3 * k), label=f"separation {separation}")
    axes[1].set(xlabel="x", ylabel="target density p", ylim=(-0.01, 0.32))
    axes[1].legend(frameon=False)
    axes[2].fill_between(x, mixture(x, 6), color="0.85", label="p")
    axes[2].plot(x, normal(x), color="black", label="q, left mode only")
    for theta, colour in ((1.0, "#56B4E9"), (0.8, "#D55E00")):
        grid, density = density_after(STEPS, theta)
        axes[2].plot(grid, density, color=colour, label=rf"after 10 steps, $\theta$ = {theta:g}")
    axes[2].set(xlim=(-4, 12), xlabel="x", ylabel="density")
    axes[2].legend(frameon=False)
    key_below(picture, axes[:1])
    return picture


def normal(x: np.ndarray) -> np.ndarray:
    """Standard normal density."""
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def mixture(x: np.ndarray, separation: float = 6.0) -> np.ndarray:
    """The target's density."""
    return 0.5 * (normal(x) + normal(x - separation))


def density_after(n_steps: int, theta: float, separation: float = 6.0) -> tuple[np.ndarray, np.ndarray]:
    """Exact density of `n_steps` transitions from N(0, 1): jumps by theta * separation stay on a lattice."""
    jump = theta * separation
    cells = 200  # of the grid, a jump
    x = np.arange(-8 * cells, 8 * cells + 1) * (jump / cells)
    p, q = mixture(x, separation), normal(x)

    def moved(values: np.ndarray, by: int) -> np.ndarray:
        """values at x - by * jump."""
        out = np.zeros_like(values)
        source, image = (slice(None, -cells), slice(cells, None))[:: 1 if by > 0 else -1]
        out[image] = values[source]
        return out

    with np.errstate(divide="ignore", invalid="ignore"):
        accept = {by: np.nan_to_num(np.minimum(1.0, moved(p, -by) / p), nan=0.0) for by in (1, -1)}
    for _ in range(n_steps):
        stay = q * (1 - 0.5 * (accept[1] + accept[-1]))
        q = stay + 0.5 * (moved(q * accept[1], 1) + moved(q * accept[-1], -1))
    return x, q
