"""Level and power of every test on Gaussian mixtures.

Each row is one test on one case; the seed of a repetition depends on the case and its number alone, so rows
do not depend on the number of workers. Results: experiments/results/calibration.csv.
"""

from __future__ import annotations

import argparse
import csv
import functools
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

from .running import keep_worker, one_thread_each, positive, provenance

RESULTS = Path(__file__).parent / "results" / "calibration.csv"
SEED = 2026
EVERY = ("ksd", "pksd", "spksd", "ospksd", "ksdagg", "pksdagg", "fssd", "flux")
FIVE = {"theta": [0.5, 0.6, 0.7, 0.8, 1.3]}  # options of "ospksd, 5 theta"
BIMODAL = ([[0.0], [6.0]], [[[1.0]], [[1.0]]])
PLANE = (
    [[-3.0, 0.0], [3.0, 1.0], [0.0, 5.0]],
    [[[1, 0.3], [0.3, 0.5]], [[0.4, -0.2], [-0.2, 2]], [[1, 0], [0, 1]]],
)
HIGH = ([[0.0] * 50, [6.0, *[0.0] * 49]], [np.eye(50), np.eye(50)])
# case: components, weights of the target, weights of the sample, shift of the sample, n, repetitions, tests
CASES = {
    "level, 1-d, 6 apart": (BIMODAL, (0.5, 0.5), (0.5, 0.5), 0.0, 1000, 500, EVERY),
    "left component only": (BIMODAL, (0.5, 0.5), (1.0, 0.0), 0.0, 1000, 100, EVERY),
    "weight 0.4": (BIMODAL, (0.5, 0.5), (0.4, 0.6), 0.0, 1000, 100, EVERY),
    "weight 0.3": (BIMODAL, (0.5, 0.5), (0.3, 0.7), 0.0, 1000, 100, EVERY),
    "shift 0.3": (BIMODAL, (0.5, 0.5), (0.5, 0.5), 0.3, 1000, 100, ("ksd", "ksdagg", "fssd")),
    "level, 2-d, unequal covariances": (PLANE, (0.5, 0.3, 0.2), (0.5, 0.3, 0.2), 0.0, 300, 500, EVERY),
    "level, 50-d, 6 apart": (HIGH, (0.5, 0.5), (0.5, 0.5), 0.0, 500, 500, EVERY),
    "level, 50-d, 6 apart, ospKSD again": (
        HIGH,
        (0.5, 0.5),
        (0.5, 0.5),
        0.0,
        500,
        2000,
        ("ospksd, 5 theta",),
    ),
}


@functools.cache
def target_of(case: str) -> Any:
    """The target of a case, compiled once a process."""
    from steincheck import models

    (means, covariances), weights, *_ = CASES[case]
    return models.gaussian_mixture(means, covariances, weights)


def pvalues(case: str, repetition: int, only: str = "") -> dict[str, float]:
    """p-values of the tests of a case on one fresh sample, with the modes given; of `only` one if named."""
    import steincheck as sc  # here: the threads of a worker are set before JAX is imported

    keep_worker()
    (means, covariances), _, drawn, shift, n, _, tests = CASES[case]
    target = target_of(case)
    source = np.random.default_rng([SEED, zlib.crc32(case.encode()), repetition])
    labels = source.choice(len(drawn), size=n, p=drawn)
    roots = np.linalg.cholesky(np.asarray(covariances, dtype=float))
    noise = source.normal(size=(n, target.dim))
    x = np.asarray(means)[labels] + np.einsum("nij,nj->ni", roots[labels], noise) + shift
    out = {}
    for name in tests:
        stream = source.spawn(1)[0]  # also for a test that is left out: the others keep theirs
        if only and name != only:
            continue
        options = FIVE if name.endswith("5 theta") else {}
        moved = {"modes": (means, covariances)} if "pksd" in name or name == "flux" else {}
        resamples = {} if name in ("flux", "fssd") else {"n_resamples": 500}
        if "agg" in name:
            resamples["n_level_resamples"] = 500
        test = getattr(sc, f"{name.partition(',')[0]}_test")
        out[name] = test(x, target, rng=stream, **moved, **resamples, **options).pvalue
    return out


def study(case: str, repetitions: int, n_jobs: int, only: str = "") -> list[dict]:
    """One row per test: how often it rejects at 0.05, with a 95 % interval, and are p-values uniform."""
    from steincheck import __version__

    runs = Parallel(n_jobs=n_jobs, batch_size=4)(delayed(pvalues)(case, r, only) for r in range(repetitions))
    rows = []
    for name in (name for name in CASES[case][6] if not only or name == only):
        p = np.array([run[name] for run in runs])
        count = int(np.sum(p <= 0.05))
        interval = stats.binomtest(count, repetitions).proportion_ci(method="exact")
        rows.append(
            {
                "case": case,
                "test": name,
                "n": CASES[case][4],
                "repetitions": repetitions,
                "rejections": count,
                "rate": round(count / repetitions, 4),
                "low": round(interval.low, 4),
                "high": round(interval.high, 4),
                "uniform_pvalue": float(f"{stats.kstest(p[np.isfinite(p)], 'uniform').pvalue:.3g}"),
                "seed": SEED,
                "version": __version__,
                "commit": provenance()["commit"],
            }
        )
    return rows


def save(rows: list[dict]) -> None:
    """Put the rows in the place of those of the same case and test; cases and tests keep their order."""
    new = {(row["case"], row["test"]) for row in rows}
    old: list[dict] = []
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            old = [row for row in csv.DictReader(file) if (row["case"], row["test"]) not in new]
    order = [(case, test) for case, (*_, tests) in CASES.items() for test in tests]
    partial = RESULTS.with_suffix(".part")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted([*old, *rows], key=lambda row: order.index((row["case"], row["test"]))))
    partial.replace(RESULTS)


def main() -> None:
    """Run all cases, or some, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="", help="part of the names of the cases to run; by default all")
    parser.add_argument("--test", default="", choices=("", *EVERY), help="one test; by default all")
    parser.add_argument("--n-jobs", type=positive, default=2, help="worker processes")
    arguments = parser.parse_args()
    one_thread_each()
    only = arguments.test
    names = [c for c in CASES if arguments.case in c and (not only or only in CASES[c][6])]
    if not names:
        parser.error(f"no case has {arguments.case!r} in its name; the cases are: {'; '.join(CASES)}")
    RESULTS.parent.mkdir(exist_ok=True)
    for case in names:
        save(study(case, CASES[case][5], arguments.n_jobs, only))


if __name__ == "__main__":
    import_module("experiments.calibration").main()  # so that workers find the functions by name
