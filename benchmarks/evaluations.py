"""What `check` costs: ``python -m benchmarks.evaluations`` counts evaluations of the density, and seconds.

Results: benchmarks/results/evaluations.md. Every density has 1000 exact draws, and its modes are given.
"Beyond the draws" are all evaluations but log density and score at every draw and those of the accuracy. The
last density solves a differential equation point by point, in about 10 ms and without a gradient. Its draws
are wrong, and its modes are searched for. Seconds are those of a first and a second call in one process.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy import integrate

import steincheck as sc

from .table import RESULTS, provenance

N = 1000
SECONDS = 20  # allowed for the differential equation


def curved(x: Any) -> Any:
    """A banana."""
    return -0.5 * x[0] ** 2 - 0.5 * (x[1] - x[0] ** 2) ** 2 - 0.5 * x[2] ** 2


def densities() -> dict[str, tuple[sc.Target, np.ndarray, Any]]:
    """Targets, exact draws, modes."""
    rng = np.random.default_rng(0)
    cases = {}
    for means in ([[0.0] * 2], [[0.0] * 10], [[0.0] * 50], [[0.0, 0.0], [6.0, 0.0]]):
        target = sc.models.gaussian_mixture(means)
        cases[f"{len(means)} Gaussian mode(s), d = {target.dim}"] = (target, target.sample(N, rng), means)
    z = rng.normal(size=(N, 3))
    z[:, 1] += z[:, 0] ** 2
    cases["curved, d = 3"] = (sc.from_jax(curved, 3), z, np.zeros((1, 3)))
    return cases


def growth(times: np.ndarray, log_rates: np.ndarray) -> np.ndarray:
    """Logistic growth from `log_rates`: of the rate, of the capacity and of the start."""
    rate, capacity, start = np.exp(log_rates)

    def slope(_: float, y: np.ndarray) -> np.ndarray:
        return rate * y * (1 - y / capacity)

    return integrate.solve_ivp(slope, (0, times[-1]), [start], t_eval=times, rtol=1e-10, atol=1e-12).y[0]


def differential_equation() -> tuple[sc.Target, np.ndarray]:
    """Thirty noisy observations of logistic growth, and draws of a Gaussian at the truth."""
    rng = np.random.default_rng(1)
    times, truth = np.linspace(0.5, 10, 30), np.log([0.8, 10.0, 0.5])
    seen = growth(times, truth) + 0.3 * rng.normal(size=30)

    def log_density(u: np.ndarray) -> float:
        return float(-0.5 * np.sum((seen - growth(times, u)) ** 2) / 0.3**2 - 0.5 * np.sum(u**2) / 9)

    draws = truth + 0.03 * rng.normal(size=(N, 3))
    return sc.Target(log_density, dim=3, vectorized=False), draws


def row(name: str, draws: np.ndarray, target: sc.Target, **options: Any) -> str:
    """One line of the table."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        verdict = sc.check(draws, target, independent=True, rng=0, **options)
        seconds.append(time.perf_counter() - start)
    made = {step.step: step.made for step in verdict.evaluations}
    total = sum(made.values())
    beyond = max(0, total - made["accuracy"] - 2 * N) / N
    times = " | ".join(f"{value:.2f}" for value in seconds)
    unseen = verdict.not_examined
    print(name, made, seconds, verdict.sentence, *unseen, sep="\n  ", flush=True)
    return f"| {name} | {total:,} | {made['accuracy']:,} | {beyond:.1f} | {times} | {len(unseen)} |"


def main() -> None:
    lines = [
        "| density | evaluations | for the accuracy | beyond the draws, per draw | first call, s | again, s "
        "| not examined |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (target, draws, modes) in densities().items():
        lines.append(row(name, draws, target, modes=modes))
    target, draws = differential_equation()
    lines.append(row(f"an equation, max_seconds={SECONDS}", draws, target, max_seconds=SECONDS))
    lines += ["", *(f"- {key}: {value}" for key, value in provenance().items())]
    (RESULTS / "evaluations.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
