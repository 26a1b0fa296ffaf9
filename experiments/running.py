"""From cells to rows on disk, in parallel through joblib; a run that was cut resumes."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rows import (
    RESULTS,
    Cell,
    Figure,
    Row,
    Table,
    commit,
    figure_table,
    line_of,
    make_cells,
    read_rows,
    replace_file,
    versions,
)

FIGURES = {  # modules
    **dict.fromkeys(("fig1", "fig2", "fig3"), "two_gaussians"),
    "fig4": "fig4",
    "table1": "table1",
    "fig6": "two_gaussians",
    **dict.fromkeys(("fig7", "fig8"), "boltzmann"),
}
REPETITIONS = dict.fromkeys(FIGURES, 100) | {"table1": 10}  # the paper's
DATA_FOLDER = "STEINCHECK_DATA"


def data_folder() -> Path:
    """The folder that was named on the command line of a study with READS_DATA."""
    return Path(os.environ[DATA_FOLDER])


def keep_worker() -> None:
    """Stop loky from replacing a worker whose memory has grown: what has grown is compiled programs.

    A new worker would find the modes and compile everything again, for a minute or more.
    """
    from joblib.externals.loky import process_executor

    process_executor._MAX_MEMORY_LEAK_SIZE = 4e9


def in_parallel(function: Callable, tasks: Iterable[tuple], n_jobs: int) -> Iterator[Any]:
    """What the function returns for each task, in the order of the tasks."""
    if n_jobs == 1:
        yield from (_result(function, task) for task in tasks)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)
    yield from parallel(delayed(_in_worker)(function, task) for task in tasks)


def _in_worker(function: Callable, task: tuple) -> Any:
    keep_worker()
    return _result(function, task)


def _result(function: Callable, task: tuple) -> Any:
    with warnings.catch_warnings(action="ignore"):  # what they say is the subject of the studies
        return function(*task)


@dataclass(frozen=True)
class Study:
    """A table whose rows are made cell by cell.

    Attributes
    ----------
    name : str
        Of the file of the rows.
    fields, key : tuple of str
        Columns, and those that name a cell.
    cells : callable
        Returns all cells, tuples of the values of `key`.
    rows : callable
        Makes the rows of a cell.
    summary : callable, optional
        Says in short what all rows say.
    """

    name: str
    fields: tuple[str, ...]
    key: tuple[str, ...]
    cells: Callable[[], Iterable[tuple]]
    rows: Callable[..., list[dict[str, Any]]]
    summary: Callable[[list[dict[str, str]]], str] | None = None

    def table(self, folder: Path = RESULTS) -> Table:
        """The rows on disk."""
        return Table(folder / f"{self.name}.csv", self.fields, self.key)

    def missing(
        self, part: str, old: Sequence[dict[str, str]], options: argparse.Namespace
    ) -> Iterator[list[dict[str, Any]]]:
        """The rows of the cells that are not among the `old` ones and have `part` in their names."""
        done = {tuple(row[name] for name in self.key) for row in old}
        names = {tuple(map(str, cell)): cell for cell in self.cells()}
        todo = [cell for name, cell in names.items() if name not in done and part in ", ".join(name)]
        yield from in_parallel(self.rows, todo, options.n_jobs)


def run_studies(name: str, words: Sequence[str]) -> None:
    """Make what is missing in the tables of a study and print it; at the end, say in short what they say."""
    module = importlib.import_module(f"experiments.{name}")
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if getattr(module, "READS_DATA", False):
        parser.add_argument("data", type=Path, help="folder of the data, which are not in this repository")
    parser.add_argument("part", nargs="?", default="", help="part of the names of the cells to run")
    parser.add_argument(
        "--repetitions", type=positive, help="at most so many of counted events, old included"
    )
    parser.add_argument("--renew", action="store_true", help="begin anew instead of going on")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    parser.add_argument("--n-jobs", type=positive, default=1, help="worker processes, one core each")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the rows")
    options = parser.parse_args(words)
    if "data" in options:
        os.environ[DATA_FOLDER] = str(options.data)  # workers inherit it
    for study in module.STUDIES:
        table = study.table(options.results)
        old = [] if options.renew else table.read()
        for rows in study.missing(options.part, old, options) if not options.summary else ():
            table.merge(rows)
            print(*(" | ".join(map(str, row.values())) for row in rows), sep="\n", flush=True)
        if study.summary is not None:
            print(study.summary(table.read()))


def figure_of(name: str) -> Figure:
    """A figure by its name."""
    return importlib.import_module(f"experiments.{FIGURES[name]}").FIGURES[name]


def cells_of(figure: str, repetitions: int, quick: bool = False) -> list[Cell]:
    """The cells of a figure; `quick` has one repetition of a few settings and methods."""
    known = figure_of(figure)
    groups = [([text], methods) for text, methods in known.quick.items()] if quick else known.cells
    return [
        cell
        for settings, methods in groups
        for cell in make_cells(figure, settings, 1 if quick else repetitions, methods)
    ]


def run_cell(cell: Cell, methods: Sequence[str]) -> tuple[list[Row], float]:
    """The rows of one cell and the seconds they took; what runs in a worker."""
    start = time.perf_counter()
    rows = figure_of(cell.figure).run(cell, tuple(methods))
    return rows, time.perf_counter() - start


def run_figure(
    figure: str,
    *,
    repetitions: int | None = None,
    n_jobs: int = 1,
    quick: bool = False,
    results: Path = RESULTS,
) -> list[Row]:
    """Compute the missing rows of a figure, then write what made them and draw it; all rows asked for."""
    cells = cells_of(figure, repetitions or REPETITIONS[figure], quick)
    path, record = results / f"{figure}.csv", results / f"{figure}.json"
    done = {row[:3] for row in read_rows(path)}
    todo = []
    for cell in cells:
        if left := [m for m in cell.methods if (cell.setting, cell.repetition, m) not in done]:
            todo.append((cell, left))
    table = figure_table(path)
    table.merge([])
    start, busy = time.perf_counter(), 0.0
    try:
        for rows, seconds in _shown(in_parallel(run_cell, todo, n_jobs), figure, len(todo)):
            table.merge(map(line_of, rows))
            busy += seconds
    finally:  # also if the run is cut
        rows = read_rows(path)
        _write_record(record, figure, rows, time.perf_counter() - start, busy)
    draw(figure, rows, results)
    asked = {(cell.setting, cell.repetition) for cell in cells}
    return [row for row in rows if row[:2] in asked]


def draw(figure: str, rows: Sequence[Row], results: Path) -> None:
    """Draw the figure, without dates, so that the same rows give the same file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": figure, "font.size": 8, "svg.fonttype": "none"}):
        picture = figure_of(figure).draw(rows)
        picture.savefig(results / f"{figure}.svg", dpi=100, metadata={"Date": None, "Creator": None})
        pyplot.close(picture)


def _shown(results: Iterator[Any], figure: str, total: int) -> Iterator[Any]:
    """The same results, with a progress bar and the time left on a terminal."""
    from rich.console import Console
    from rich.progress import track

    hidden = not sys.stderr.isatty()
    yield from track(results, figure, total, console=Console(stderr=True), disable=hidden)


def _write_record(path: Path, figure: str, rows: Sequence[Row], wall: float, busy: float) -> None:
    """What the rows were made with; times add up over runs that were cut and resumed."""
    old = json.loads(path.read_text()) if path.exists() else {}
    record = {
        "figure": figure,
        "repetitions": 1 + max((row.repetition for row in rows), default=-1),
        "cells": len({row[:2] for row in rows}),
        "seed": "SeedSequence of the SHA-256 of 'figure/setting/repetition/purpose'",
        "minutes_of_wall_time": round(old.get("minutes_of_wall_time", 0.0) + wall / 60, 2),
        "minutes_of_work": round(old.get("minutes_of_work", 0.0) + busy / 60, 2),
        "versions": versions("steincheck", "numpy", "scipy", "jax", "python"),
        "provenance": {"commit": commit()},
    }
    if not busy and old:
        kept = ("versions", "provenance", "minutes_of_wall_time", "minutes_of_work")
        record |= {name: old[name] for name in kept if name in old}
    replace_file(path, (json.dumps(record, indent=1) + "\n").encode())


def positive(text: str) -> int:
    """A positive integer on a command line."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value
