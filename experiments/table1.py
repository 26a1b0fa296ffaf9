"""Table 1 and Fig. 5: do repelling-attracting Metropolis chains sample the sensor posterior?

Every chain is tested as the paper does, thinned to n draws that are treated as independent, and in a way that
knows it is a chain: thinned to half its effective sample size, at which lag little correlation is left, and
not at all where this leaves fewer than 10 draws: such a chain is too short to judge.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import steincheck as sc
from steincheck import models

from .methods import ALL, PAPER, Problem, evaluate, label_test, modes_of
from .rows import Cell, Figure, Row, parts, setting, stream

SCALES = ("0.1", "0.5", "1.08")
SOURCES = (*SCALES, "exact")
BURN_IN, KEPT, STEPS = 20_000, 400_000, 1000
LEAST = 10  # draws that a test is made with
CACHE = Path(__file__).parent / "cache"
CLOUDS = Path(__file__).parent / "results" / "table1_clouds.npz"
FACTS = ("modes visited", "ESS of the mode", "split R-hat")
CELLS = [
    ([setting(source=s, n=n) for n in (4000, 1000) for s in SOURCES], ALL),
    ([setting(source=s, n="ESS") for s in SCALES], ("KSD", "spKSD", "ospKSD", "flux", "oracle", *FACTS)),
    ([setting(source=s, n=4000, grid="narrow") for s in SCALES], ("spKSD", "ospKSD")),
    ([setting(source=s, n=4000, reshuffle=1) for s in SCALES], PAPER),
]


@lru_cache
def problem(narrow: bool = False) -> Problem:
    """The posterior and its eight modes."""
    target = models.sensor_network()
    theta = {"theta": np.linspace(0.8, 1.2, 51)} if narrow else {}
    return Problem(target, modes_of(target, (-1.5, 1.5)), STEPS, **theta)


@lru_cache
def true_shares() -> np.ndarray:
    """Mass of the eight modes from 200,000 exact draws."""
    labels = models.sensor_labels(problem().target.sample(200_000, stream("table1", "shares")))
    return np.bincount(labels, minlength=8) / len(labels)


@lru_cache
def chains(scale: str) -> np.ndarray:
    """Ten chains side by side, thinned to 40,000 states each; kept on disk, as they take minutes."""
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"table1_{scale}_{BURN_IN}_{KEPT}.npy"
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker makes them, the others wait
        if not path.exists():
            rng = stream("table1", "chains", scale)
            draws = sc.samplers.repelling_attracting_metropolis(
                models.sensor_log_density, rng.uniform(size=(10, 8)), float(scale), BURN_IN + KEPT,
                blocks=[[0, 1], [2, 3], [4, 5], [6, 7]], burn_in=BURN_IN, thin=KEPT // 40_000, rng=rng,
            ).draws  # fmt: skip
            temporary = path.with_suffix(".part.npy")
            np.save(temporary, draws)
            os.replace(temporary, path)
    return np.load(path, mmap_mode="r")


def sample(cell: Cell) -> np.ndarray:
    """The draws of a cell; none if the chain is too short to judge."""
    setting_ = parts(cell.setting)
    source, size = setting_["source"], setting_["n"]
    if source == "exact":
        return problem().target.sample(int(size), cell.rng("sample"))
    draws = np.asarray(chains(source)[0 if "reshuffle" in setting_ else cell.repetition])
    n = int(size) if size != "ESS" else int(0.5 * indicator_ess(models.sensor_labels(draws)))
    if n < LEAST:
        return draws[:0]
    thinned = draws[np.linspace(0, len(draws), n + 1).astype(int)[1:] - 1]
    return cell.rng("sample").permutation(thinned) if "reshuffle" in setting_ else thinned


def run(cell: Cell, methods: Sequence[str]) -> list[Row]:
    """All methods on one sample, and for a chain how well it has moved between the modes."""
    tests, rows = [m for m in methods if m not in FACTS], []
    if tests:
        x, case, nan = sample(cell), problem("grid" in parts(cell.setting)), float("nan")
        if len(x):
            rows = evaluate(cell, tests, case, x, lambda: label_test(models.sensor_labels(x), true_shares()))
        else:
            rows = [Row(cell.setting, cell.repetition, m, nan, nan, "too short to judge") for m in tests]
    if facts := [m for m in methods if m in FACTS]:
        all_chains = chains(parts(cell.setting)["source"])
        labels = models.sensor_labels(all_chains[cell.repetition])
        values = {"modes visited": float(len(np.unique(labels))), "ESS of the mode": indicator_ess(labels)}
        if "split R-hat" in facts:
            values["split R-hat"] = split_rhat(np.asarray(all_chains))
        rows += [Row(cell.setting, cell.repetition, m, values[m], float("nan")) for m in facts]
    return rows


def indicator_ess(labels: np.ndarray) -> float:
    """Smallest effective sample size of the indicators of the modes visited.

    At most one more than the switches between modes: an excursion or two have little autocorrelation, too.
    """
    indicators = [(labels == k).astype(float) for k in np.unique(labels)]
    switches = int(np.sum(labels[1:] != labels[:-1]))
    return float(min([switches + 1, *(effective_size(s) for s in indicators if len(indicators) > 1)]))


def effective_size(series: np.ndarray) -> float:
    """n over the autocorrelation time, by Geyer's initial positive sequence."""
    n = len(series)
    spectrum = np.fft.rfft(series - series.mean(), 2 * n)
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[:n]
    correlation /= correlation[0]
    pairs = correlation[0 : n - n % 2 : 2] + correlation[1::2]
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return float(n / max(2 * pairs[:stop].sum() - 1, 1 / n))


def split_rhat(draws: np.ndarray) -> float:
    """Largest split R-hat of the coordinates over all chains (chains, n, d)."""
    halves = draws.reshape(2 * len(draws), -1, draws.shape[2])
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    return float(np.sqrt(1 + between / within).max())


def clouds(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """1000 draws of every source, before and after the perturbation that ospKSD chose; kept on disk."""
    chosen = {r.setting: r.detail for r in rows if r.method == "ospKSD" and r.repetition == 0}
    stamp = np.array([chosen.get(setting(source=source, n=4000), "") for source in SOURCES])
    if CLOUDS.exists():
        with np.load(CLOUDS) as file:
            if not any(stamp) or np.array_equal(file["stamp"], stamp):
                return dict(file)
    found: dict[str, np.ndarray] = {}
    for source in SOURCES:
        cell = Cell("table1", setting(source=source, n=4000), 0, ())
        if cell.setting not in chosen:
            continue
        found[source], case = sample(cell)[3::4], problem()
        theta = float(chosen[cell.setting].removeprefix("theta="))
        moved = sc.perturb(
            found[source], case.target, case.modes, theta, n_steps=STEPS, rng=cell.rng("cloud")
        )
        found[f"{source} after"] = moved.samples[0]
    if len(found) == 2 * len(SOURCES):
        small = {name: x.astype(np.float32) for name, x in found.items()}
        np.savez_compressed(CLOUDS, stamp=stamp, **small)
    return found


def draw(rows: Sequence[Row]) -> Any:
    """Fig. 5: the locations of the four sensors, from one chain of every scale and from exact draws."""
    from matplotlib import pyplot

    known = np.array([[0.5, 0.3], [0.3, 0.7]])
    truth = np.array([[0.5748, 0.9069], [0.0991, 0.3651], [0.2578, 0.1350], [0.8546, 0.0392]])
    colours = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
    picture, axes = pyplot.subplots(
        2, 4, figsize=(9.5, 5.2), layout="constrained", sharex=True, sharey=True, squeeze=False
    )
    draws = clouds(rows)
    for column, source in enumerate(SOURCES):
        title = "exact draws" if source == "exact" else rf"RAM, $\sigma$ = {source}"
        for ax, name in zip(axes[:, column], (source, f"{source} after"), strict=True):
            for k, colour in enumerate(colours):
                x = draws.get(name, np.empty((0, 8))).reshape(-1, 4, 2)[:, k]
                ax.plot(*x.T, ".", color=colour, markersize=1.5, alpha=0.3, rasterized=True)
            ax.plot(*truth.T, "k+", markersize=8)
            ax.plot(*known.T, "kx", markersize=6)
            ax.set(xlim=(-1.1, 1.9), ylim=(-0.9, 2.1), aspect="equal")
        axes[0, column].set_title(title)
    axes[0, 0].set_ylabel("draws")
    axes[1, 0].set_ylabel("after the perturbation\nchosen by ospKSD")
    return picture


FIGURES = {"table1": Figure(CELLS, {"source=exact n=1000": ("KSD", "KSDAgg", "flux")}, run, draw)}
