"""Table 1 and Fig. 5: do repelling-attracting Metropolis chains sample the sensor posterior?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from steincheck import models
from steincheck.samplers import repelling_attracting_metropolis

from .cells import Cell, Row, make_cells, parts, setting, stream
from .drawing import LEVEL, STYLE, select
from .methods import ALL, CONSTANTS, Problem, evaluate, label_test, modes_of

REPETITIONS = 10
SCALES = ("0.1", "0.5", "1.08")
SIZES = (1000, 4000)
BURN_IN, KEPT, STEPS = 20_000, 400_000, 1000
CACHE = Path(__file__).parent / "cache"
CHAIN_METHODS = ("modes visited", "ESS of the mode")
SETTINGS = CONSTANTS | {
    "n_steps": STEPS,
    "box": [-1.5, 1.5],
    "chains": "independent; start uniform in [0, 1]^8; burn-in 20,000, 400,000 kept, thinned to n",
    "reshuffle": "chain 0 in every repetition, all other randomness fresh, as in the authors' code",
    "exact": "independent draws of the posterior instead of a chain",
}


def cells(repetitions: int = REPETITIONS, quick: bool = False) -> list[Cell]:
    """Chains of every scale thinned to both sizes, one chain reshuffled, and exact draws."""
    if quick:
        return make_cells("table1", [setting(source="exact", n=1000)], 1, ("KSD", "KSDAgg", "flux"))
    settings = [setting(source=s, n=n) for n in SIZES for s in (*SCALES, "exact")]
    settings += [setting(source=s, n=4000, reshuffle=1) for s in SCALES]
    return [
        Cell(c.figure, c.setting, c.repetition, (*ALL, *CHAIN_METHODS) if is_chain(c) else ALL)
        for c in make_cells("table1", settings, repetitions, ALL)
    ]


def is_chain(cell: Cell) -> bool:
    """Whether the cell has a chain of its own."""
    return "exact" not in cell.setting and "reshuffle" not in cell.setting


@lru_cache
def problem() -> Problem:
    """The posterior and its eight modes."""
    target = models.sensor_network()
    return Problem(target, modes_of(target, (-1.5, 1.5)), STEPS)


@lru_cache
def true_shares() -> np.ndarray:
    """Mass of the eight modes from 200,000 exact draws."""
    labels = models.sensor_labels(problem().target.sample(200_000, stream("table1", "shares")))
    return np.bincount(labels, minlength=8) / len(labels)


@lru_cache
def chains(scale: str) -> np.ndarray:
    """Ten chains side by side, thinned to 40,000 states each; kept on disk, as they take minutes."""
    path = CACHE / f"table1_{scale}.npy"
    if path.exists():
        return np.load(path, mmap_mode="r")
    rng = stream("table1", "chains", scale)
    draws = repelling_attracting_metropolis(
        models.sensor_log_density, rng.uniform(size=(10, 8)), float(scale), BURN_IN + KEPT,
        blocks=[[0, 1], [2, 3], [4, 5], [6, 7]], burn_in=BURN_IN, thin=KEPT // 40_000, rng=rng,
    ).draws  # fmt: skip
    CACHE.mkdir(exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.npy")
    np.save(temporary, draws)
    os.replace(temporary, path)
    return draws


def chain(scale: str, number: int) -> np.ndarray:
    """One chain; every tenth or fortieth of its states make a sample."""
    return np.asarray(chains(scale)[number])


def sample(cell: Cell) -> np.ndarray:
    """The draws of a cell."""
    source, n = parts(cell.setting)["source"], int(cell["n"])
    if source == "exact":
        return problem().target.sample(n, cell.rng("sample"))
    draws = chain(source, cell.repetition if is_chain(cell) else 0)
    thinned = draws[len(draws) // n - 1 :: len(draws) // n]
    return thinned if is_chain(cell) else cell.rng("sample").permutation(thinned)


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample, and for a chain how well it has moved between the modes."""
    x = sample(cell)
    tests = [m for m in methods if m not in CHAIN_METHODS]
    rows = evaluate(cell, tests, problem(), x, lambda: label_test(models.sensor_labels(x), true_shares()))
    if set(methods) & set(CHAIN_METHODS):
        labels = models.sensor_labels(chain(parts(cell.setting)["source"], cell.repetition))
        facts = {"modes visited": float(len(np.unique(labels))), "ESS of the mode": indicator_ess(labels)}
        rows += [Row(cell.setting, cell.repetition, m, facts[m], float("nan")) for m in methods if m in facts]
    return rows


def indicator_ess(labels: np.ndarray) -> float:
    """Smallest effective sample size of the indicators of the eight modes; 1 if one was never visited."""
    indicators = (labels[:, None] == np.arange(8)).astype(float)
    if not indicators.any(axis=0).all():
        return 1.0
    return float(min(effective_size(column) for column in indicators.T))


def effective_size(series: np.ndarray) -> float:
    """n over the autocorrelation time, by Geyer's initial positive sequence."""
    n = len(series)
    spectrum = np.fft.rfft(series - series.mean(), 2 * n)
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[:n]
    correlation /= correlation[0]
    pairs = correlation[0 : n - n % 2 : 2] + correlation[1::2]
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return float(n / max(2 * pairs[:stop].sum() - 1, 1 / n))


def rejections(rows: Sequence[Row], method: str) -> str:
    """Rejections out of repetitions."""
    p = [row.pvalue for row in rows if row.method == method]
    return f"{sum(v <= LEVEL for v in p)}/{len(p)}" if p else "-"


def figure(rows: Sequence[Row]) -> Any:
    """Fig. 5: clouds of one chain of every scale and of exact draws; below, Table 1."""
    from matplotlib import pyplot

    known = np.array([[0.5, 0.3], [0.3, 0.7]])
    truth = np.array([[0.5748, 0.9069], [0.0991, 0.3651], [0.2578, 0.1350], [0.8546, 0.0392]])
    colours = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
    picture, axes = pyplot.subplots(
        2, 4, figsize=(9.5, 5.6), layout="constrained", height_ratios=(1.25, 1), sharex="row", sharey="row"
    )
    for ax, source in zip(axes[0], (*SCALES, "exact"), strict=True):
        ax.set_title("exact draws" if source == "exact" else rf"RAM, $\sigma$ = {source}, chain 0")
        ax.set(xlim=(-0.7, 1.4), ylim=(-0.7, 1.3), aspect="equal")
        if source != "exact" and not (CACHE / f"table1_{source}.npy").exists():
            ax.text(0.35, 0.3, "chains not run", ha="center")  # minutes of work: not for a picture alone
            continue
        x = sample(Cell("table1", setting(source=source, n=4000), 0, ())).reshape(-1, 4, 2)
        for k, colour in enumerate(colours):
            ax.plot(*x[:, k].T, ".", color=colour, markersize=1, alpha=0.25, rasterized=True)
        ax.plot(*truth.T, "k+", markersize=8)
        ax.plot(*known.T, "kx", markersize=6)
    for ax in axes[1]:
        ax.remove()
    table_ax = picture.add_subplot(2, 1, 2)
    table_ax.axis("off")
    lines = [(s, 4000, 0) for s in (*SCALES, "exact")] + [(s, 1000, 0) for s in (*SCALES, "exact")]
    lines += [(s, 4000, 1) for s in SCALES]
    text, labels = [], []
    methods = [m for m in STYLE if any(row.method == m for row in rows)]
    for source, n, again in lines:
        mine = [
            row for row in select(rows, source=source, n=n) if ("reshuffle" in row.setting) == bool(again)
        ]
        ess = [row.statistic for row in mine if row.method == "ESS of the mode"]
        visited = [row.statistic for row in mine if row.method == "modes visited"]
        facts = (
            [f"{min(visited):.0f}-{max(visited):.0f}", f"{min(ess):.0f}-{max(ess):.0f}"]
            if ess
            else ["-", "-"]
        )
        text.append([rejections(mine, m) for m in methods] + facts)
        name = "exact" if source == "exact" else rf"$\sigma$ = {source}"
        labels.append(f"{name}, n = {n}" + (", one chain reshuffled" if again else ""))
    table = table_ax.table(
        text,
        rowLabels=labels,
        colLabels=[*methods, "modes of 8", "ESS of mode"],
        loc="center",
        cellLoc="center",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(7.5)
    return picture
