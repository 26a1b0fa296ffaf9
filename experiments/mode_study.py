"""Which modes `find_modes` finds from draws of one mode: python -m experiments.mode_study [names | frontier]

Writes experiments/results/mode_study.csv, one row per target, seed and search (usual or thorough) as it goes;
rows of other targets are kept. Where modes are not known in closed form, the truth is the union of the modes
of weight above 1e-4 that any seed of either search finds. `frontier` writes mode_frontier.csv: how often a
mode narrower than that of the draws is found, 10 standard deviations away in a random direction.

It reaches into the package for the rule by which points are one mode, as the union over seeds is to use the
rule of the search.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np

import steincheck as sc
from steincheck.modes.peaks import FoundModes, Peak

from .mode_targets import TARGETS, Case, gaussians
from .tables import RESULTS, Table, commit

FIELDS = (
    *("target", "search", "seed", "dim", "expected", "found", "missed_mass", "evaluations", "cpu_seconds"),
    *("rounds", "stopped", "version", "commit"),
)
SEARCHES = Table(RESULTS / "mode_study.csv", FIELDS, ("target", "search", "seed"))
NARROW_MODES = Table(
    RESULTS / "mode_frontier.csv",
    ("dim", "ratio", "search", "repetitions", "found", "evaluations", "version", "commit"),
    ("dim", "ratio", "search"),
)
RUNS = tuple((search, seed) for search in ("usual", "thorough") for seed in (0, 1, 2))
FRONTIER = {2: (0.1, 0.03, 0.01), 5: (0.5, 0.3, 0.2), 10: (0.7, 0.5), 20: (0.9, 0.8), 50: (0.9,)}
HEAVY = 1e-3  # modes of this share of the heaviest count as found


def run(name: str, case: Case, search: str, seed: int) -> tuple[dict, sc.Modes]:
    """One search; its CPU time includes compilation with the first seed only."""
    options: dict[str, Any] = {"thorough": search == "thorough", "progress": False, "rng": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
    union = FoundModes(len(locations))
    hessians = np.linalg.inv(covariances)
    label = [union.add(Peak(*each)) for each in zip(locations, heights, hessians, strict=True)]
    log_weight = np.array([peak.log_weight for peak in union.peaks])
    weight = np.exp(log_weight - log_weight.max())
    weight = np.where(weight > 1e-4, weight, 0.0)
    ends = np.cumsum([len(modes) for modes in found])
    shares = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        seen = np.unique(label[start:end])
        shares.append(float(1 - weight[seen].sum() / weight.sum()))
    return shares


def study(names: list[str]) -> None:
    """Run all targets with the first seed, then with the next, and write the table after each run."""
    cases = {}
    rows: dict[str, list[dict]] = {name: [] for name in names}
    found: dict[str, list[sc.Modes]] = {name: [] for name in names}
    for search, seed in RUNS:
        for name in names:
            if name not in cases:
                cases[name] = TARGETS[name]()
            row, modes = run(name, cases[name], search, seed)
            rows[name].append(row)
            found[name].append(modes)
            for earlier, share in zip(rows[name], missed_mass(cases[name], found[name]), strict=True):
                earlier["missed_mass"] = f"{share:.4f}"
            SEARCHES.merge(rows[name])
            print(*(row[key] for key in FIELDS[:11]), flush=True)


def how_often(dim: int, ratio: float, search: str, repetitions: int) -> dict:
    """One row of the frontier: how often a mode `ratio` times as wide is found."""
    found = 0
    evaluations = []
    for seed in range(repetitions):
        way = np.random.default_rng(seed).standard_normal(dim)
        case = gaussians([np.zeros(dim), 10 * way / np.linalg.norm(way)], [1.0, ratio])
        row, modes = run("frontier", case, search, seed)
        found += len(modes) == 2
        evaluations.append(row["evaluations"])
    counts = {"repetitions": repetitions, "found": found, "evaluations": int(np.median(evaluations))}
    return {"dim": dim, "ratio": ratio, "search": search} | counts


def frontier(repetitions: int = 5) -> None:
    """Two Gaussians of equal mass, draws of the wider one: how often the narrower is found."""
    for search in ("usual", "thorough"):
        for dim, ratios in FRONTIER.items():
            for ratio in ratios:
                row = how_often(dim, ratio, search, repetitions)
                NARROW_MODES.merge([row | {"version": sc.__version__, "commit": commit()}])
                print(row, flush=True)


def main() -> None:
    """Run the targets that are named, all by default, or the frontier."""
    if sys.argv[1:] == ["frontier"]:
        frontier()
    else:
        study(sys.argv[1:] or list(TARGETS))


if __name__ == "__main__":
    main()
