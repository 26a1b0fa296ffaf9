"""Studies that count how often events happen, case by case: rows on disk that resume, and a command line.

A case has a function ``run(size, rng, repetition)`` that says which events happened in one repetition. The
seed of a repetition is made of the seed of the study, the case, the size and the number of the repetition:
rows do not depend on the number of workers, a study that was cut resumes, and repetitions can be added.
"""

from __future__ import annotations

import argparse
import warnings
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

from .running import keep_worker, positive
from .tables import RESULTS, Table, commit, position

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
class Study:
    """Cases by name, and the file of their rows; `name` is that of the module, where `STUDY` is this."""

    name: str
    seed: int
    cases: Mapping[str, Case]

    def table(self, folder: Path = RESULTS) -> Table:
        """The rows, in the order of the cases."""
        place = position(list(self.cases))
        key = ("case", "size", "event")
        return Table(folder / f"{self.name}.csv", FIELDS, key, lambda row: place(row["case"]))

    def repeat(self, case: str, size: Size, first: int, last: int) -> list[Events]:
        """Repetitions first to last - 1 of a case; what runs in a worker."""
        keep_worker()
        known = self.cases[case]
        numbers = (self.seed, zlib.crc32(case.encode()), *np.atleast_1d(size).tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say is the subject of the studies
            return [known.run(size, np.random.default_rng([*numbers, k]), k) for k in range(first, last)]

    def extend(
        self, case: str, size: Size, repetitions: int, n_jobs: int, old: Sequence[dict[str, str]]
    ) -> Iterator[list[dict[str, Any]]]:
        """Bring one case at one size from the `old` rows to so many repetitions; rows after some of them."""
        counts = self._counts(old, case, size)
        first = max((total for _, total in counts.values()), default=0)
        for start in range(first, repetitions, n_jobs * REPETITIONS_AT_ONCE):
            stop = min(start + n_jobs * REPETITIONS_AT_ONCE, repetitions)
            for events in _in_parallel(self.name, case, size, np.linspace(start, stop, n_jobs + 1)):
                for event, happened in events.items():
                    count, total = counts.get(event, (0, 0))
                    counts[event] = (count + bool(happened), total + 1)
            yield [self._row(case, size, event, *counted) for event, counted in counts.items()]

    def _counts(self, rows: Sequence[dict[str, str]], case: str, size: Size) -> dict[str, tuple[int, int]]:
        """How often each event happened so far, and in how many repetitions."""
        mine = [row for row in rows if (row["case"], row["size"]) == (case, text_of(size))]
        return {row["event"]: (int(row["count"]), int(row["repetitions"])) for row in mine}

    def _row(self, case: str, size: Size, event: str, count: int, total: int) -> dict[str, Any]:
        interval = stats.binomtest(count, total).proportion_ci()
        rates = (f"{value:.4f}" for value in (count / total, interval.low, interval.high))
        row = (case, text_of(size), event, total, count, *rates, self.seed, sc.__version__, commit())
        return dict(zip(FIELDS, row, strict=True))

    def main(self, about: str | None) -> None:
        """Run what the command line asks for."""
        parser = argparse.ArgumentParser(
            prog=f"python -m experiments {self.name}",
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("case", nargs="?", default="", help="part of the names of the cases to run")
        parser.add_argument(
            "--repetitions", type=positive, help="at most so many per case, old ones included"
        )
        parser.add_argument("--renew", action="store_true", help="begin anew instead of going on")
        parser.add_argument("--n-jobs", type=positive, default=1, help="worker processes")
        parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the rows")
        options = parser.parse_args()
        names = [name for name in self.cases if options.case in name]
        if not names:
            parser.error(f"no case has {options.case!r} in its name; the cases are: {'; '.join(self.cases)}")
        table = self.table(options.results)
        old = [] if options.renew else table.read()
        for name in names:
            known = self.cases[name]
            repetitions = min(known.repetitions, options.repetitions or known.repetitions)
            for size in known.sizes:
                for rows in self.extend(name, size, repetitions, options.n_jobs, old):
                    table.merge(rows)
                    print(
                        *(" | ".join(str(value) for value in row.values()) for row in rows),
                        sep="\n",
                        flush=True,
                    )


def text_of(size: Size) -> str:
    """The size as it is written: "1000", or "4x250" for four chains of 250 draws."""
    return "x".join(map(str, np.atleast_1d(size)))


def repeat(study: str, case: str, size: Size, first: int, last: int) -> list[Events]:
    """Repetitions of a case of the study of that name, which a worker finds by its module."""
    return import_module(f"experiments.{study}").STUDY.repeat(case, size, first, last)


def _in_parallel(study: str, case: str, size: Size, cuts: np.ndarray) -> Iterator[Events]:
    from joblib import Parallel, delayed

    parts = list(pairwise(cuts.astype(int).tolist()))
    tasks = (delayed(repeat)(study, case, size, first, last) for first, last in parts)
    for events in Parallel(len(parts))(tasks):
        yield from events
