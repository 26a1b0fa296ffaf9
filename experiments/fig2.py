"""Fig. 2: why it works: p, q and the limit law of the perturbed q, and pKSD against the jump scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import steincheck as sc

from .drawing import STYLE
from .fig1 import STEPS, N, density_after, mixture, normal, problem
from .methods import CONSTANTS, THETA
from .rows import Cell, Row

METHODS = ("KSD", *(f"pKSD {theta:.2f}" for theta in THETA))
CELLS = [(["separation=6"], METHODS)]
QUICK = {"separation=6": METHODS}
SETTINGS = CONSTANTS | {
    "n": N,
    "n_steps": STEPS,
    "separation": 6,
    "statistic": "U-statistic; no p-value is needed",
}


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """The U-statistics before the perturbation and after it, for every jump scale."""
    case = problem(cell["separation"])
    x = case.target.sample(N, cell.rng("sample"), weights=[1, 0])
    moved = case.perturb(x, cell.rng("perturbation"))
    result = sc.spksd_test(x, case.target, perturbation=moved, check_score=False, n_resamples=19, rng=0)
    values = [result.identity_statistic, *result.theta_statistics]
    statistic = dict(zip(METHODS, values, strict=True))
    return [Row(cell.setting, cell.repetition, m, float(statistic[m]), float("nan")) for m in methods]


def figure(rows: Sequence[Row]) -> Any:
    """Densities, scores, and pKSD against theta: averages of the samples and the exact value."""
    from matplotlib import pyplot

    picture, axes = pyplot.subplots(1, 3, figsize=(9.5, 2.9), layout="constrained")
    x = np.linspace(-4, 10, 701)
    limits = {theta: limit_density(x, theta) for theta in (1.0, 0.9, 0.8)}
    colours = dict(zip(limits, ("#56B4E9", "#0072B2", "#D55E00"), strict=True))
    for ax, transform in ((axes[0], lambda f: f), (axes[1], lambda f: np.gradient(np.log(f), x))):
        ax.plot(x, transform(mixture(x)), color="0.6", linewidth=3, label="p")
        ax.plot(x, transform(normal(x)), color="black", linestyle="--", label="q")
        for theta, density in limits.items():
            ax.plot(x, transform(density), color=colours[theta], label=rf"$q^\infty$, $\theta$ = {theta:g}")
    axes[0].set(xlabel="x", ylabel="density")
    axes[1].set(xlabel="x", ylabel="score", ylim=(-8, 8))
    axes[0].legend(frameon=False)
    table = {m: np.array([r.statistic for r in rows if r.method == m]) for m in METHODS}
    mean = np.array([table[m].mean() for m in METHODS])
    error = 1.96 * np.array([table[m].std() / np.sqrt(max(len(table[m]), 1)) for m in METHODS])
    axes[2].fill_between(
        THETA, (mean - error)[1:], (mean + error)[1:], color=STYLE["spKSD"][0], alpha=0.3, linewidth=0
    )
    axes[2].plot(THETA, mean[1:], color=STYLE["spKSD"][0], label="pKSD, samples")
    axes[2].plot(THETA, [population_ksd(theta) for theta in THETA], "k:", linewidth=1, label="pKSD, exact")
    axes[2].axhline(mean[0], color=STYLE["KSD"][0], label="KSD, samples")
    axes[2].set(xlabel=r"jump scale $\theta$", ylabel="discrepancy")
    axes[2].legend(frameon=False)
    return picture


def limit_density(x: np.ndarray, theta: float, separation: float = 6.0) -> np.ndarray:
    """q_infinity of Prop. 5.1: p times the ratio of the masses of q and p on the lattice through x."""
    shifts = theta * separation * np.arange(-6, 7)[:, None]
    return (
        mixture(x, separation) * normal(x + shifts).sum(axis=0) / mixture(x + shifts, separation).sum(axis=0)
    )


def population_ksd(theta: float, separation: float = 6.0) -> float:
    """KSD of the exact density after the steps, by quadrature, with the median bandwidth of a normal law."""
    grid, density = density_after(STEPS, theta, separation)
    keep = density > 1e-12 * density.max()
    x, mass = grid[keep], density[keep] * (grid[1] - grid[0])
    right = 1 / (1 + np.exp(separation * (0.5 * separation - x)))  # responsibility of the right component
    score = -x + separation * right
    width = 2 * 0.4549364231  # twice the median of chi-square with 1 degree of freedom
    gap = x[:, None] - x
    r2 = gap * gap
    q = 1 + r2 / width
    phi, first, second = q**-0.5, -0.5 / width * q**-1.5, 0.75 / width**2 * q**-2.5
    u = phi * score[:, None] * score - 2 * first * ((score[:, None] - score) * gap + 1) - 4 * r2 * second
    return float(mass @ u @ mass)
