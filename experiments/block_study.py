"""How many random blocks do independent draws need? Level and power of sign flips of q blocks.

With q = n every draw has its own sign: the wild bootstrap. Rows of one case come from the same samples.
Results: experiments/results/block_study.csv; ``python -m experiments.block_study`` makes them in minutes.
"""

from __future__ import annotations

import csv
from pathlib import Path

import jax
import numpy as np

from steincheck.aggregate import collection, min_p
from steincheck.stein.bootstrap import pvalue, random_blocks, wild
from steincheck.stein.kernels import IMQ, median_bandwidth, stein_kernel
from steincheck.stein.quadratic import flip_signs

from .cells import stream
from .running import provenance

RESULTS = Path(__file__).parent / "results" / "block_study.csv"
BLOCKS = (20, 50, 100, 200)
REPETITIONS = {200: 400, 1000: 150}  # by n
N_RESAMPLES = 300
DIM = 5
CASES = {  # n, shift of the first coordinate, scale of the draws
    "level, n = 200": (200, 0.0, 1.0),
    "shift, n = 200": (200, 0.22, 1.0),
    "scale, n = 200": (200, 0.0, 1.12),
    "level, n = 1000": (1000, 0.0, 1.0),
    "shift, n = 1000": (1000, 0.1, 1.0),
    "scale, n = 1000": (1000, 0.0, 1.05),
}


def rejections(case: str, repetition: int) -> dict[tuple[str, int], bool]:
    """Whether the KSD and KSDAgg tests reject at 0.05, for each number of blocks."""
    n, shift, scale = CASES[case]
    rng = stream("block_study", case, str(repetition))
    x = scale * rng.standard_normal((n, DIM))
    x[:, 0] += shift
    widths = np.append(median_bandwidth(x, rng=rng), collection(x, None)[::3])
    with jax.enable_x64(True):  # the whole Stein matrices: the draws are few
        matrices = np.array([stein_kernel(IMQ(width), x, -x, x, -x) for width in widths])
    matrices[:, np.arange(n), np.arange(n)] = 0
    found = {}
    for q in dict.fromkeys((*BLOCKS, n)):
        block = random_blocks(n, rng, count=q)
        order = np.argsort(block)
        sizes = np.bincount(block)
        starts = np.cumsum(sizes) - sizes
        rows = np.add.reduceat(matrices[:, order], starts, axis=1)
        table = np.add.reduceat(rows[:, :, order], starts, axis=2)
        flipped = flip_signs(table[:, None], sizes, wild(len(sizes), N_RESAMPLES, rng))
        found["ksd", q] = pvalue(flipped.statistics[0], flipped.replicates[0]) <= 0.05
        statistics = flipped.statistics[1:]
        every = np.column_stack([flipped.replicates[1:], statistics])
        weights = np.full(len(statistics), 1 / len(statistics))
        found["ksdagg", q] = min_p(statistics, every[:, :-1], every, weights, 0.05).pvalue <= 0.05
    return found


def main() -> None:
    """Run all cases and write the table."""
    commit = provenance()["commit"]
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["case", "test", "blocks", "repetitions", "rate", "first_ten", "commit"])
        for case in CASES:
            runs = [rejections(case, repetition) for repetition in range(REPETITIONS[CASES[case][0]])]
            for test, q in runs[0]:
                rejected = [run[test, q] for run in runs]
                first = "".join("01"[value] for value in rejected[:10])
                rate = f"{np.mean(rejected):.3f}"
                writer.writerow([case, test, q, len(runs), rate, f"r{first}", commit])
            file.flush()


if __name__ == "__main__":
    main()
