"""Choices of the design, measured: useful jump scales, and how many blocks chains are cut into.

    python -m experiments choices [CHOICE]

One process, about half an hour; rows go to results/choices.csv.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import steincheck as sc

from . import fig4, table1
from .running import Study
from .targets import autoregression

SEED = 31
RUNS = 4000  # of chains that are cut into blocks
BLOCKS = (12, 20, 40, 80)  # of all four chains together
CHAINS_IN_BLOCKS = {  # autocorrelation, shift of the first coordinate in standard errors, dimensions
    "AR(1) .9, correct, 4 x 1000": (0.9, 0.0, (1, 5, 20)),
    "AR(1) 0, off by 2.8 standard errors, 4 x 1000": (0.0, 2.8, (1, 5)),
}


def useful_scales() -> list[tuple]:
    """Of the paper's 51 jump scales, those at which true draws of Fig. 4 and of the sensors move."""
    rows = []
    for name, case in (("t-banana, d = 50", fig4.problem(50)), ("sensors", table1.problem())):
        sample, jumps = np.random.default_rng(SEED).spawn(2)
        x = case.target.sample(1000, sample)
        moved = case.perturb(x, jumps).samples
        share = np.any(moved != x, axis=2).mean(axis=1)
        for part, count in (("any", np.sum(share > 0)), ("a tenth", np.sum(share >= 0.1))):
            setting = f"{name}, {part} of 1000 draws moved"
            rows.append((setting, "number of 51 scales", int(count), 1))
    return rows


def chain_blocks() -> list[tuple]:
    """Rejections at level .05 by random signs of blocks of chains, by the number of blocks in all.

    The features are the coordinates of four AR(1) chains of 1000 draws; with autocorrelation .9 these are
    worth 210 independent draws. Shifted chains are independent: their blocks hide no variance.
    """
    rows = []
    for what, (rho, shift, dimensions) in CHAINS_IN_BLOCKS.items():
        for d in dimensions:
            for count in BLOCKS:
                share = share_rejected(rho, shift, d, count)
                rows.append((f"{what}, d = {d}, {count} blocks", "rejected", share, RUNS))
    return rows


def share_rejected(rho: float, shift: float, d: int, count: int, runs: int = RUNS) -> float:
    """The share of runs in which random signs of so many blocks reject."""
    rng = np.random.default_rng([SEED, d, count])
    return round(sum(_signs_reject(rho, shift, d, count, rng) for _ in range(runs)) / runs, 4)


def _signs_reject(rho: float, shift: float, d: int, count: int, rng: np.random.Generator) -> bool:
    """Whether random signs of so many blocks reject; the first coordinate is off by `shift`."""
    x = autoregression(rng.normal(size=(4, 1000, d)), rho)
    x[..., 0] += shift / np.sqrt(4000)
    cuts = np.arange(count // 4) * 1000 // (count // 4)
    sums = np.add.reduceat(x, cuts, axis=1).reshape(count, d)
    forms = np.sum(((2 * rng.integers(2, size=(199, count)) - 1) @ sums) ** 2, axis=1)
    return bool((1 + np.sum(forms >= np.sum(sums.sum(axis=0) ** 2))) / 200 <= 0.05)


CHOICES: dict[str, Callable[[], list[tuple]]] = {
    "jump scales": useful_scales,
    "blocks of chains": chain_blocks,
}
FIELDS = ("choice", "setting", "quantity", "value", "repetitions", "seed", "version")


def rows(choice: str) -> list[dict[str, Any]]:
    """All rows of a choice: they are measured together."""
    made_by = (SEED, sc.__version__)
    return [dict(zip(FIELDS, (choice, *row, *made_by), strict=True)) for row in CHOICES[choice]()]


STUDIES = (Study("choices", FIELDS, ("choice",), lambda: ((name,) for name in CHOICES), rows),)
