"""`assert_fits`: classical errors of samplers, and false alarms on exact draws.

    python -m experiments testing_study [CASE]

Rows go to results/testing_study.csv. A row of a classical error or of exact draws is a run of `assert_fits`
with false_alarm = 1e-3: how it ended, and after how many draws. Chains start at exact draws, so that nothing
but the error leads them away.

A row of "batches" holds the p-values of 20 batches of exact draws, the most that a run may take, however
small the errors are: its evidence reaches 1000 more often than that of a run, which ends earlier. Where 999
replicates give a p-value above .1, it is not computed again with the 9999 of `assert_fits`: that costs a
quarter, and what counts as evidence is the same. The summary has the mean e-value, at most 1 if p-values are
valid, and how often the evidence of 10^5 runs of 20 batches, drawn from all those of a density, ever reaches
1000.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import steincheck as sc
from steincheck.testing import Inconclusive, Sampler, assert_fits, log_e_value, targets

from .rows import commit
from .running import Study
from .summary import markdown

FALSE_ALARM = 1e-3
BATCHES = 20
SEEDS = 10  # of every error and of exact draws
RUNS_OF_BATCHES = 25
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


def run(name: str, sample: Sampler, rng: np.random.Generator) -> tuple[str, int]:
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


def pvalue(name: str, rng: np.random.Generator) -> float:
    """Of `check` on 1000 exact draws, without the accuracy, which needs more evaluations."""
    target, exact = targets[name]
    draws, seed = exact(1000, rng), int(rng.integers(2**31))
    options: dict[str, Any] = {"modes": modes_of(name), "max_evaluations": 7000, "max_seconds": None}
    p = sc.check(draws, target, rng=seed, **options).pvalue
    return p if p > 0.1 else sc.check(draws, target, alpha=FALSE_ALARM, rng=seed, **options).pvalue


def rows(case: str, name: str, seed: int) -> list[dict[str, Any]]:
    """One run, or the p-values of 20 batches."""
    rng = np.random.default_rng([2031, seed, *case.encode(), *name.encode()])
    ending, n_draws, pvalues = "", BATCHES * 1000, ""
    if case == "batches":
        pvalues = " ".join(f"{pvalue(name, rng):.4g}" for _ in range(BATCHES))
    else:
        sample = WRONG[case][1] if case in WRONG else targets[name].sample
        ending, n_draws = run(name, sample, rng)
    return [dict(zip(FIELDS, (case, name, seed, ending, n_draws, pvalues, commit()), strict=True))]


def cells() -> list[tuple[str, str, int]]:
    """Case, density and seed of every row."""
    runs = [(error, name) for error, (name, _) in WRONG.items()]
    runs += [("exact draws", name) for name in targets]
    return [(*case, seed) for case in runs for seed in range(SEEDS)] + [
        ("batches", name, seed) for seed in range(RUNS_OF_BATCHES) for name in targets
    ]


def summary(rows: list[dict[str, str]]) -> str:
    """Runs by their ends, and the evidence of batches of exact draws, in Markdown."""
    runs = [["case", "density", "runs", "failed", "inconclusive", "draws, median", "at most"]]
    batches = [
        ["density", "batches", "p <= .01", "p <= .001", "mean e-value", "runs", "reach 1000", "of 10^5"]
    ]
    for case, name in dict.fromkeys((row["case"], row["target"]) for row in rows):
        chosen = [row for row in rows if (row["case"], row["target"]) == (case, name)]
        if case == "batches":
            p = np.array([row["pvalues"].split() for row in chosen], dtype=float)
            log_e = np.vectorize(log_e_value)(p)
            drawn = np.random.default_rng(0).choice(log_e.ravel(), size=(100_000, BATCHES))
            reached = (np.sum(e.cumsum(axis=1).max(axis=1) >= np.log(1000)) for e in (log_e, drawn))
            counts = map(str, (p.size, np.sum(p <= 0.01), np.sum(p <= 0.001)))
            batches.append([name, *counts, f"{np.exp(log_e).mean():.2f}", str(len(p)), *map(str, reached)])
        else:
            ends = [row["outcome"] for row in chosen]
            draws = [int(row["draws"]) for row in chosen]
            counts = map(str, (len(ends), ends.count("failed"), ends.count("inconclusive")))
            runs.append([case, name, *counts, f"{np.median(draws):.0f}", str(max(draws))])
    return markdown(runs) + "\n\n" + markdown(batches)


FIELDS = ("case", "target", "seed", "outcome", "draws", "pvalues", "commit")
STUDIES = (Study("testing_study", FIELDS, ("case", "target", "seed"), cells, rows, summary),)
