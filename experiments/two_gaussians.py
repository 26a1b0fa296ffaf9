"""Figs. 1, 2, 3 and 6: two unit Gaussians, of which the sample has one only or both with wrong weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import steincheck as sc

from .drawing import STYLE, Panel, key_below, power_curves, power_figure, pvalue_curves, select
from .methods import ALL, THETA, Problem, evaluate_mixture, modes_of
from .rows import Cell, Figure, Row, parts, setting

SEPARATIONS = (1, 2, 4, 6, 8, 10)
WEIGHTS = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
SIZES = (100, 200, 500, 1000)
N, STEPS = 1000, 10
HALVES = [0.5, 0.5]
METHODS = ("KSD", *(f"pKSD {theta:.2f}" for theta in THETA))  # of Fig. 2


@lru_cache
def problem(separation: float, dim: int = 1) -> Problem:
    """Two unit Gaussians `separation` apart along the first axis, with weight 1/2 each."""
    means = np.zeros((2, dim))
    means[1, 0] = separation
    target = sc.models.gaussian_mixture(means)
    return Problem(target, modes_of(target, (-10, 10)), STEPS)


def run_separation(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample of the left component."""
    return evaluate_mixture(cell, methods, problem(cell["separation"]), N, [1, 0], HALVES)


def run_weight(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample with the wrong weight."""
    weight = cell["weight"]
    return evaluate_mixture(cell, methods, problem(6), N, [weight, 1 - weight], HALVES)


def run_size(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample in 50 dimensions, correct or of the left component."""
    weights = HALVES if parts(cell.setting)["case"] == "level" else [1, 0]
    return evaluate_mixture(cell, methods, problem(6, 50), int(cell["n"]), weights, HALVES)


def run_scales(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """The U-statistics before the perturbation and after it, for every jump scale."""
    case = problem(cell["separation"])
    x = case.target.sample(N, cell.rng("sample"), weights=[1, 0])
    moved = case.perturb(x, cell.rng("perturbation"))
    result = sc.spksd_test(x, case.target, perturbation=moved, check_score=False, n_resamples=19, rng=0)
    values = [result.identity_statistic, *result.theta_statistics]
    statistic = dict(zip(METHODS, values, strict=True))
    return [Row(cell.setting, cell.repetition, m, float(statistic[m]), float("nan")) for m in methods]


def draw_separations(rows: Sequence[Row]) -> Any:
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


def draw_scales(rows: Sequence[Row]) -> Any:
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


def draw_weights(rows: Sequence[Row]) -> Any:
    """Rejection rates."""
    labels = {"xlabel": r"weight $\pi$ of the first mode in the sample", "xticks": np.linspace(0, 1, 11)}
    return power_figure((5.5, 3.4), Panel(rows, "weight", labels))


def draw_sizes(rows: Sequence[Row]) -> Any:
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


CASES = [setting(case=case, n=n) for n in SIZES for case in ("level", "power")]
FIGURES = {
    "fig1": Figure(
        [  # two unit Gaussians up to 2 apart have one mode only, and no flux to test
            ([setting(separation=s) for s in SEPARATIONS if s <= 2], tuple(m for m in ALL if m != "flux")),
            ([setting(separation=s) for s in SEPARATIONS if s > 2], ALL),
        ],
        {"separation=6": ("KSD", "spKSD", "ospKSD", "flux")},
        run_separation,
        draw_separations,
    ),
    "fig2": Figure(
        [(["separation=6"], METHODS)],
        {"separation=6": METHODS},
        run_scales,
        draw_scales,
    ),
    "fig3": Figure(
        [([setting(weight=w) for w in WEIGHTS], ALL)],  # weights of the first mode in the sample
        {"weight=0.4": ("KSD", "KSDAgg", "spKSD", "oracle")},
        run_weight,
        draw_weights,
    ),
    "fig6": Figure(
        [(CASES, ALL)],
        dict.fromkeys(CASES[:2], ("KSD", "spKSD", "ospKSD", "flux")),
        run_size,
        draw_sizes,
    ),
}
