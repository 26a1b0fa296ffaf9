"""From cells to rows on disk, in parallel through joblib; a run that was cut resumes."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .cells import Cell, Row, Store, read_rows
from .tables import RESULTS, provenance, replace_file, versions

FIGURES = ("fig1", "fig2", "fig3", "fig4", "table1", "fig6", "fig7", "fig8")


def keep_worker() -> None:
    """Stop loky from replacing a worker whose memory has grown: what has grown is compiled programs.

    A new worker would find the modes and compile everything again, for a minute or more.
    """
    from joblib.externals.loky import process_executor

    process_executor._MAX_MEMORY_LEAK_SIZE = 4e9


def run_cell(figure: str, cell: Cell, methods: Sequence[str]) -> tuple[list[Row], float]:
    """The rows of one cell and the seconds they took; what runs in a worker."""
    keep_worker()
    start = time.perf_counter()
    rows = importlib.import_module(f"experiments.{figure}").run(cell, tuple(methods))
    return rows, time.perf_counter() - start


def run_figure(
    figure: str,
    *,
    repetitions: int | None = None,
    n_jobs: int = 1,
    quick: bool = False,
    methods: Sequence[str] | None = None,
    results: Path = RESULTS,
) -> list[Row]:
    """Compute the missing rows of a figure, then sort its file, write its settings and draw it.

    Returns
    -------
    list of Row
        All rows of the cells asked for.
    """
    module = importlib.import_module(f"experiments.{figure}")
    cells = module.cells(module.REPETITIONS if repetitions is None else repetitions, quick)
    path, record = results / f"{figure}.csv", results / f"{figure}.json"
    settings = json.loads(json.dumps(module.SETTINGS))
    if record.exists() and json.loads(record.read_text())["settings"] != settings:
        raise RuntimeError(f"{record} has other settings than {figure}.py now: move the old results away")

    known = list(dict.fromkeys(m for cell in cells for m in cell.methods))
    if unknown := [m for m in methods or () if m not in known]:
        raise ValueError(f"`methods` must be among {', '.join(known)}, got {', '.join(unknown)}")

    def chosen(cell: Cell) -> list[str]:
        return [m for m in cell.methods if methods is None or m in methods]

    with Store(path) as store:
        if not record.exists():
            _write_settings(record, module, (), 0.0, 0.0, 0)
        done = {(row.setting, row.repetition, row.method) for row in read_rows(path)}
        todo = [
            (cell, missing)
            for cell in cells
            if (missing := [m for m in chosen(cell) if (cell.setting, cell.repetition, m) not in done])
        ]
        start, busy, ready = time.perf_counter(), 0.0, 0
        try:
            for rows, seconds in _shown(_compute(figure, todo, n_jobs), figure, len(todo)):
                store.append(rows)
                busy, ready = busy + seconds, ready + 1
        finally:  # also if the run is cut
            order = dict.fromkeys(cell.setting for cell in module.cells(1))
            store.sort({text: k for k, text in enumerate(order)})
            rows = read_rows(path)
            _write_settings(record, module, rows, time.perf_counter() - start, busy, ready)
    draw(figure, rows, results)
    wanted = {(cell.setting, cell.repetition) for cell in cells}
    return [row for row in rows if (row.setting, row.repetition) in wanted]


def draw(figure: str, rows: Sequence[Row], results: Path) -> None:
    """Draw the figure, without dates, so that the same rows give the same file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    module = importlib.import_module(f"experiments.{figure}")
    with matplotlib.rc_context({"svg.hashsalt": figure, "font.size": 8, "svg.fonttype": "none"}):
        picture = module.figure(rows)
        picture.savefig(results / f"{figure}.svg", dpi=100, metadata={"Date": None, "Creator": None})
        pyplot.close(picture)


def _compute(
    figure: str, todo: Sequence[tuple[Cell, list[str]]], n_jobs: int
) -> Iterator[tuple[list[Row], float]]:
    """Results in the order in which they are ready."""
    if n_jobs == 1 or not todo:
        yield from (run_cell(figure, cell, methods) for cell, methods in todo)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(run_cell)(figure, cell, methods) for cell, methods in todo)


def _shown(results: Iterator[Any], figure: str, total: int) -> Iterator[Any]:
    """The same results, with a progress bar and the time left on a terminal."""
    from rich.console import Console
    from rich.progress import track

    hidden = not sys.stderr.isatty()
    yield from track(results, figure, total, console=Console(stderr=True), disable=hidden)


def _write_settings(
    path: Path, module: Any, rows: Sequence[Row], wall: float, busy: float, cells: int
) -> None:
    """What the rows were made with; times add up over runs that were cut and resumed."""
    old = json.loads(path.read_text()) if path.exists() else {}
    count = {(row.setting, row.repetition) for row in rows}
    record = {
        "figure": module.__name__.rpartition(".")[2],
        "settings": module.SETTINGS,
        "repetitions": 1 + max((row.repetition for row in rows), default=-1),
        "cells": len(count),
        "seed": "SeedSequence of the SHA-256 of 'figure/setting/repetition/purpose'",
        "minutes_of_wall_time": round(old.get("minutes_of_wall_time", 0.0) + wall / 60, 2),
        "minutes_of_work": round(old.get("minutes_of_work", 0.0) + busy / 60, 2),
        "versions": versions("steincheck", "numpy", "scipy", "jax", "python"),
        "provenance": provenance(),
    }
    if not cells and old:
        kept = ("versions", "provenance", "minutes_of_wall_time", "minutes_of_work")
        record |= {name: old[name] for name in kept if name in old}
    replace_file(path, (json.dumps(record, indent=1) + "\n").encode())


def positive(text: str) -> int:
    """A positive integer on a command line."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value
