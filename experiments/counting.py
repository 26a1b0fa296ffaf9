"""Studies that count how often events happen, case by case.

A case has a function ``run(size, rng, repetition)`` that says which events happened in one repetition. The
seed of a repetition is made of the seed of the study, the case, the size and the number of the repetition:
rows do not depend on the number of workers, a study that was cut resumes, and repetitions can be added.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import steincheck as sc

from .rows import RESULTS, Table, commit
from .running import in_parallel

FIELDS = (
    *("case", "size", "event", "repetitions", "count", "rate", "low", "high"),
    *("seed", "version", "commit"),
)
REPETITIONS_AT_ONCE = 20  # rows are written after so many
Size = int | tuple[int, int]  # draws, or chains and their length
Events = dict[str, bool]


class Case(NamedTuple):
    """One sampling problem, its sizes and repetitions."""

    run: Callable[[Any, np.random.Generator, int], Events]
    sizes: tuple[Size, ...]
    repetitions: int


@dataclass(frozen=True)
class CountedStudy:
    """Cases by name, and the file of their rows; `name` is that of the module, whose only study this is."""

    name: str
    seed: int
    cases: Mapping[str, Case]
    summary: Callable[[list[dict[str, str]]], str] | None = None

    def table(self, folder: Path = RESULTS) -> Table:
        """The rows on disk."""
        return Table(folder / f"{self.name}.csv", FIELDS, ("case", "size", "event"))

    def missing(
        self, part: str, old: Sequence[dict[str, str]], options: argparse.Namespace
    ) -> Iterator[list[dict[str, Any]]]:
        """Bring cases with `part` in their names from the `old` rows to as many repetitions as asked for."""
        for name, case in self.cases.items():
            repetitions = min(case.repetitions, options.repetitions or case.repetitions)
            for size in case.sizes if part in name else ():
                yield from self.extend(name, size, repetitions, options.n_jobs, old)

    def extend(
        self, case: str, size: Size, repetitions: int, n_jobs: int, old: Sequence[dict[str, str]]
    ) -> Iterator[list[dict[str, Any]]]:
        """Bring one case at one size from the `old` rows to so many repetitions; rows after some of them."""
        text = text_of(size)
        counts = {
            row["event"]: (int(row["count"]), int(row["repetitions"]))
            for row in old
            if (row["case"], row["size"]) == (case, text)
        }
        first = max((total for _, total in counts.values()), default=0)
        for start in range(first, repetitions, n_jobs * REPETITIONS_AT_ONCE):
            stop = min(start + n_jobs * REPETITIONS_AT_ONCE, repetitions)
            cuts = np.linspace(start, stop, n_jobs + 1).astype(int).tolist()
            tasks = [(self.name, case, size, *pair) for pair in pairwise(cuts)]
            for events in (events for part in in_parallel(repeat, tasks, n_jobs) for events in part):
                for event, happened in events.items():
                    count, total = counts.get(event, (0, 0))
                    counts[event] = (count + bool(happened), total + 1)
            yield [self._row(case, text, event, *counted) for event, counted in counts.items()]

    def _row(self, case: str, size: str, event: str, count: int, total: int) -> dict[str, Any]:
        interval = stats.binomtest(count, total).proportion_ci()
        rates = (f"{value:.4f}" for value in (count / total, interval.low, interval.high))
        row = (case, size, event, total, count, *rates, self.seed, sc.__version__, commit())
        return dict(zip(FIELDS, row, strict=True))


def text_of(size: Size) -> str:
    """The size as it is written: "1000", or "4x250" for four chains of 250 draws."""
    return "x".join(map(str, np.atleast_1d(size)))


def repeat(study: str, case: str, size: Size, first: int, last: int) -> list[Events]:
    """Repetitions first to last - 1 of a case; a worker finds the study by its module."""
    (known,) = import_module(f"experiments.{study}").STUDIES
    numbers = (known.seed, zlib.crc32(case.encode()), *np.atleast_1d(size).tolist())
    run = known.cases[case].run
    return [run(size, np.random.default_rng([*numbers, k]), k) for k in range(first, last)]
