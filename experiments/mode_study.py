"""Which modes `find_modes` finds from draws of one mode: python -m experiments mode_study [NAME]

Writes experiments/results/mode_study.csv, one row per target, seed and search (usual or thorough). Where
modes are not known in closed form, the truth is the union of the modes of weight above 1e-4 that any seed of
either search finds. In mode_frontier.csv is how often a mode narrower than that of the draws is found, 10
standard deviations away in a random direction.

It reaches into the package for the rule by which points are one mode, as the union over seeds is to use the
rule of the search.
"""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np

import steincheck as sc
from steincheck.modes.climb import peak_at
from steincheck.modes.rounds import Search
from steincheck.target.evaluation import CountedTarget

from .mode_targets import TARGETS, Case, gaussians
from .rows import commit
from .running import Study

FRONTIER = {2: (0.1, 0.03, 0.01), 5: (0.5, 0.3, 0.2), 10: (0.7, 0.5), 20: (0.9, 0.8), 50: (0.9,)}
HEAVY = 1e-3  # modes of this share of the heaviest count as found


def run(name: str, case: Case, search: str, seed: int) -> tuple[dict, sc.Modes]:
    """One search; its CPU time includes compilation with the first seed only."""
    options: dict[str, Any] = {"thorough": search == "thorough", "progress": False, "rng": seed}
    begin = time.process_time()
    modes = sc.find_modes(case.target, draws=case.draws, max_seconds=None, **options)
    seconds = time.process_time() - begin
    weights = modes.laplace_weights
    row = {
        "target": name,
        "search": search,
        "seed": seed,
        "dim": case.target.dim,
        "expected": case.expected,
        "found": int(np.sum(weights > HEAVY * weights.max())),
        "evaluations": modes.search.n_evaluations,
        "cpu_seconds": f"{seconds:.2f}",
        "rounds": modes.search.n_rounds,
        "stopped": modes.search.message,
        "version": sc.__version__,
        "commit": commit(),
    }
    return row, modes


def missed_mass(case: Case, found: list[sc.Modes]) -> list[float]:
    """The share of the mass that each search missed, by known weights or by Laplace weights of the union."""
    if case.locations is not None and case.weights is not None:
        reach = np.broadcast_to(case.tolerance, (len(case.locations),))
        gaps = [
            np.linalg.norm(case.locations[:, None] - modes.locations, axis=2).min(axis=1) for modes in found
        ]
        return [float(case.weights[gap > reach].sum()) for gap in gaps]
    locations = np.concatenate([modes.locations for modes in found])
    covariances = np.concatenate([modes.covariances for modes in found])
    heights = np.concatenate([modes.log_density for modes in found])
    union = Search(CountedTarget(case.target), locations[0], locations[0], np.random.default_rng(0))
    roots = np.linalg.cholesky(covariances)
    label = [union.add(peak_at(*each)) for each in zip(locations, heights, roots, strict=True)]
    log_weight = np.array([peak.log_weight for peak in union.peaks])
    weight = np.exp(log_weight - log_weight.max())
    weight = np.where(weight > 1e-4, weight, 0.0)
    ends = np.cumsum([len(modes) for modes in found])
    shares = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        seen = np.unique(label[start:end])
        shares.append(float(1 - weight[seen].sum() / weight.sum()))
    return shares


def searches(name: str) -> list[dict[str, Any]]:
    """The rows of a target: what it misses is known when all searches are done."""
    case = TARGETS[name]()
    found = [run(name, case, *each) for each in product(("usual", "thorough"), (0, 1, 2))]
    shares = missed_mass(case, [modes for _, modes in found])
    return [row | {"missed_mass": f"{share:.4f}"} for (row, _), share in zip(found, shares, strict=True)]


def how_often(dim: int, ratio: float, search: str, repetitions: int = 5) -> list[dict[str, Any]]:
    """How often a mode of equal mass, `ratio` times as wide, is found from draws of the wider one."""
    found = 0
    evaluations = []
    for seed in range(repetitions):
        way = np.random.default_rng(seed).standard_normal(dim)
        case = gaussians([np.zeros(dim), 10 * way / np.linalg.norm(way)], [1.0, ratio])
        row, modes = run("frontier", case, search, seed)
        found += len(modes) == 2
        evaluations.append(row["evaluations"])
    counts = {"repetitions": repetitions, "found": found, "evaluations": int(np.median(evaluations))}
    made_by = {"version": sc.__version__, "commit": commit()}
    return [{"dim": dim, "ratio": ratio, "search": search} | counts | made_by]


STUDIES = (
    Study(
        "mode_study",
        (
            *("target", "search", "seed", "dim", "expected", "found", "missed_mass", "evaluations"),
            *("cpu_seconds", "rounds", "stopped", "version", "commit"),
        ),
        ("target",),
        lambda: ((name,) for name in TARGETS),
        searches,
    ),
    Study(
        "mode_frontier",
        ("dim", "ratio", "search", "repetitions", "found", "evaluations", "version", "commit"),
        ("dim", "ratio", "search"),
        lambda: ((d, r, s) for s in ("usual", "thorough") for d, ratios in FRONTIER.items() for r in ratios),
        how_often,
    ),
)
