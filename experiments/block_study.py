"""Random blocks of independent draws: how many does it take, and what do they cost in level and power?

``python -m experiments block_study`` makes two tables, in minutes and half an hour:

- results/block_study.csv: level and power of sign flips of q blocks. With q = n every draw has its own sign:
  the wild bootstrap. Rows of one case come from the same samples.
- results/block_tests.csv: p-values of every quadratic test on the same samples, with the wild bootstrap and
  with blocks.

The alternatives were chosen after pilot runs so that there is power to compare. At a scale of 1.12 with
n = 200 the KSD test rejected in .117 of the samples with blocks and in .128 with one sign per draw: the
scale became 1.25.

``python -m experiments block_study --summary`` prints both in short; block_tests.md is what it prints.

It reaches into the package, since no public argument says how many blocks there are, and since the committed
p-values belong to perturbations drawn from the stream that goes on to seed the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import steincheck as sc
from steincheck.aggregate import collection, min_p
from steincheck.chains.reading import Sample
from steincheck.perturbation.move import Jumps, perturb_core
from steincheck.stein.bootstrap import pvalue, random_blocks
from steincheck.stein.kernels import stein_kernel
from steincheck.stein.quadratic import flip_signs

from .rows import commit, stream
from .running import Study
from .summary import markdown

BLOCKS = (20, 50, 100, 200)
REPETITIONS = {200: 400, 1000: 200}  # by n
N_RESAMPLES = 300
DIM = 5
CASES = {  # n, shift of the first coordinate, scale of the draws
    "level, n = 200": (200, 0.0, 1.0),
    "shift, n = 200": (200, 0.22, 1.0),
    "scale, n = 200": (200, 0.0, 1.25),
    "level, n = 1000": (1000, 0.0, 1.0),
    "shift, n = 1000": (1000, 0.1, 1.0),
    "scale, n = 1000": (1000, 0.0, 1.1),
}
MODES = (np.array([[-2.5, 0.0], [2.5, 0.0]]), np.array([np.eye(2)] * 2))
TEST_CASES = {  # n, weight of the first of two modes (the target's is 0.5), scale of the draws, repetitions
    "level, n = 200": (200, 0.5, 1.0, 300),
    "wrong weights, n = 200": (200, 0.8, 1.0, 150),
    "scale, n = 200": (200, 0.5, 1.28, 150),
    "level, n = 1000": (1000, 0.5, 1.0, 100),
    "wrong weights, n = 1000": (1000, 0.64, 1.0, 50),
    "scale, n = 1000": (1000, 0.5, 1.12, 50),
}
THETA = np.linspace(0.5, 1.5, 5)
BOOTSTRAPS: dict[str, Any] = {"wild": sc.wild, "blocks": "blocks"}
TESTS = ("ksd", "ksdagg", "spksd", "ospksd", "pksdagg")
COLUMNS = tuple(f"{test} {name}" for name in BOOTSTRAPS for test in TESTS)


def rejections(case: str, repetition: int) -> dict[tuple[str, int], bool]:
    """Whether the KSD and KSDAgg tests reject at 0.05, for each number of blocks."""
    n, shift, scale = CASES[case]
    rng = stream("block_study", case, str(repetition))
    x = scale * rng.standard_normal((n, DIM))
    x[:, 0] += shift
    widths = np.append(sc.median_bandwidth(x, rng=rng), collection(x, None)[::3])
    with jax.enable_x64(True):  # the whole Stein matrices: the draws are few
        matrices = np.array([stein_kernel(sc.IMQ(width), x, -x, x, -x) for width in widths])
    matrices[:, np.arange(n), np.arange(n)] = 0
    found = {}
    for q in dict.fromkeys((*BLOCKS, n)):
        block = random_blocks(n, rng, count=q)
        order = np.argsort(block)
        sizes = np.bincount(block)
        starts = np.cumsum(sizes) - sizes
        rows = np.add.reduceat(matrices[:, order], starts, axis=1)
        table = np.add.reduceat(rows[:, :, order], starts, axis=2)
        flipped = flip_signs(table[:, None], sizes, sc.wild(len(sizes), N_RESAMPLES, rng))
        found["ksd", q] = pvalue(flipped.statistics[0], flipped.replicates[0]) <= 0.05
        statistics = flipped.statistics[1:]
        every = np.column_stack([flipped.replicates[1:], statistics])
        weights = np.full(len(statistics), 1 / len(statistics))
        found["ksdagg", q] = min_p(statistics, every[:, :-1], every, weights, 0.05).pvalue <= 0.05
    return found


def rates(case: str) -> list[dict[str, Any]]:
    """Rejection rates of both tests by the number of blocks, and the first ten decisions."""
    runs = [rejections(case, repetition) for repetition in range(REPETITIONS[CASES[case][0]])]
    rows = []
    for test, q in runs[0]:
        rejected = [run[test, q] for run in runs]
        first = "r" + "".join("01"[value] for value in rejected[:10])
        values = (case, test, q, len(runs), f"{np.mean(rejected):.3f}", first, commit())
        rows.append(dict(zip(RATES.fields, values, strict=True)))
    return rows


def pvalues(case: str, repetition: int) -> dict[str, float]:
    """P-values of every test with either bootstrap, on the same draws and perturbed draws."""
    n, weight, scale, _ = TEST_CASES[case]
    rng = stream("block_tests", case, str(repetition))
    target = sc.models.gaussian_mixture(*MODES)
    x = MODES[0][(rng.random(n) > weight).astype(int)] + scale * rng.standard_normal((n, 2))
    known = sc.Modes(*MODES, target.log_density(MODES[0]))
    jumps = Jumps(THETA, 10, sc.metropolis)
    moved = perturb_core(Sample(x, target.log_density(x)), target, known, jumps, rng)
    seed = int(rng.integers(2**32))
    found = {}
    for name, bootstrap in BOOTSTRAPS.items():
        common = {"bootstrap": bootstrap, "check_score": False, "rng": seed}
        perturbed = {**common, "perturbation": moved}
        found[f"ksd {name}"] = sc.ksd_test(x, target, **common).pvalue
        fewer = {"n_resamples": 1000, "n_level_resamples": 1000}
        found[f"ksdagg {name}"] = sc.ksdagg_test(x, target, **common, **fewer).pvalue
        found[f"spksd {name}"] = sc.spksd_test(x, target, **perturbed).pvalue
        found[f"ospksd {name}"] = sc.ospksd_test(x, target, **perturbed).pvalue
        found[f"pksdagg {name}"] = sc.pksdagg_test(x, target, **perturbed, **fewer).pvalue
    return found


def row(case: str, repetition: int) -> list[dict[str, Any]]:
    """P-values of one sample."""
    found = {name: f"{p:.4g}" for name, p in pvalues(case, repetition).items()}
    return [{"case": case, "repetition": repetition, **found}]


def samples() -> Iterator[tuple[str, int]]:
    """Case and repetition, so that a study that is cut has something of every case."""
    for k in range(max(count for *_, count in TEST_CASES.values())):
        yield from ((case, k) for case in TEST_CASES if k < TEST_CASES[case][3])


def summary(rows: list[dict[str, str]]) -> str:
    """Rejection rates with 100 blocks and with one sign per draw, and how p-values differ, in Markdown."""
    rates = {
        (row["case"], row["test"], int(row["blocks"])): (row["rate"], row["repetitions"])
        for row in RATES.table().read()
    }
    numbers = [["case", "test", "one sign per draw", "100 blocks", "samples"]]
    for (case, test, q), (rate, count) in rates.items():
        if q == CASES[case][0]:
            numbers.append([case, f"`{test}_test`", rate, rates[case, test, 100][0], count])
    table = np.array([[float(row[name]) for name in COLUMNS] for row in rows])
    tests = [["case", "samples", *(f"`{test}_test`" for test in TESTS)]]
    for case in TEST_CASES:
        chosen = table[[row["case"] == case for row in rows]] <= 0.05
        rejected = {name: f"{rate:.3f}" for name, rate in zip(COLUMNS, chosen.mean(axis=0), strict=True)}
        pairs = [" / ".join(rejected[f"{test} {name}"] for name in BOOTSTRAPS) for test in TESTS]
        tests.append([case, str(len(chosen)), *pairs])
    differences = [["test", "median difference of p", "only one rejects", "samples"]]
    for test in TESTS:
        one, other = (table[:, COLUMNS.index(f"{test} {name}")] for name in BOOTSTRAPS)
        only_one = np.mean((one <= 0.05) != (other <= 0.05))
        median = np.median(np.abs(one - other))
        differences.append([f"`{test}_test`", f"{median:.3f}", f"{only_one:.1%}", str(len(table))])
    words = "Rejected with the wild bootstrap / with blocks, two modes:"
    return "\n\n".join([markdown(numbers), words, markdown(tests), markdown(differences)])


RATES = Study(
    "block_study",
    ("case", "test", "blocks", "repetitions", "rate", "first_ten", "commit"),
    ("case",),
    lambda: ((case,) for case in CASES),
    rates,
)
PVALUES = Study(
    "block_tests", ("case", "repetition", *COLUMNS), ("case", "repetition"), samples, row, summary
)
STUDIES = (RATES, PVALUES)
