"""Random blocks of independent draws: how many does it take, and what do they cost in level and power?

``python -m experiments block_study`` makes results/block_study.csv in minutes: level and power of sign flips
of q blocks. With q = n every draw has its own sign: the wild bootstrap. Rows of one case come from the same
samples. ``--summary`` prints results/block_study.md.

It reaches into the package, since no public argument says how many blocks there are.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

import steincheck as sc
from steincheck.aggregate import collection, min_p
from steincheck.stein.bootstrap import Resampling, pvalue, random_blocks
from steincheck.stein.kernels import stein_kernel_of_columns
from steincheck.stein.quadratic import flip_signs

from .counting import Case, CountedStudy, Events
from .rows import stream
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


def rejections(case: str, repetition: int) -> dict[tuple[str, int], bool]:
    """Whether the KSD and KSDAgg tests reject at 0.05, for each number of blocks."""
    n, shift, scale = CASES[case]
    rng = stream("block_study", case, str(repetition))
    x = scale * rng.standard_normal((n, DIM))
    x[:, 0] += shift
    widths = np.append(sc.median_bandwidth(x, rng=rng), collection(x, "reference")[::3])
    with jax.enable_x64(True):  # the whole Stein matrices: the draws are few
        matrices = np.array([stein_kernel_of_columns(sc.IMQ(width), x, -x, x.T, -x.T) for width in widths])
    matrices[:, np.arange(n), np.arange(n)] = 0
    found = {}
    for q in dict.fromkeys((*BLOCKS, n)):
        block = random_blocks(n, rng, count=q)
        order = np.argsort(block)
        sizes = np.bincount(block)
        starts = np.cumsum(sizes) - sizes
        rows = np.add.reduceat(matrices[:, order], starts, axis=1)
        table = np.add.reduceat(rows[:, :, order], starts, axis=2)
        how = Resampling("blocks", sc.wild(len(sizes), N_RESAMPLES, rng), block)
        flipped = flip_signs(table[:, None], how)
        found["ksd", q] = pvalue(flipped.statistics[0], flipped.replicates[0]) <= 0.05
        statistics = flipped.statistics[1:]
        every = np.column_stack([flipped.replicates[1:], statistics])
        weights = np.full(len(statistics), 1 / len(statistics))
        found["ksdagg", q] = min_p(statistics, every[:, :-1], every, weights, 0.05).pvalue <= 0.05
    return found


def run(case: str, n: int, rng: np.random.Generator, repetition: int) -> Events:
    """Rejections of one sample."""
    return {f"{test}, {q} blocks": rejected for (test, q), rejected in rejections(case, repetition).items()}


def summary(rows: list[dict[str, str]]) -> str:
    """Rejection rates with 100 blocks and with one sign per draw, in Markdown."""
    rates = {(row["case"], row["event"]): row["rate"] for row in rows}
    lines = [["case", "test", "one sign per draw", "100 blocks", "samples"]]
    for case, (n, *_) in CASES.items():
        for test in ("ksd", "ksdagg"):
            pair = (f"{float(rates[case, f'{test}, {q} blocks']):.3f}" for q in (n, 100))
            lines.append([case, f"`{test}_test`", *pair, str(REPETITIONS[n])])
    return markdown(lines)


STUDIES = (
    CountedStudy(
        "block_study",
        0,  # seeds are made of words
        {case: Case(partial(run, case), (n,), REPETITIONS[n]) for case, (n, *_) in CASES.items()},
        summary,
    ),
)
