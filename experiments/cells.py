"""Cells (one repetition of one setting), rows (what one method says about a cell), and their CSV file."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .tables import as_lines, replace_file, whole_lines

HEADER = ("setting", "repetition", "method", "statistic", "pvalue", "detail")


@dataclass(frozen=True)
class Cell:
    """One repetition of one setting of a figure, and the methods to be run on its sample."""

    figure: str
    setting: str  # "name=value name=value"
    repetition: int
    methods: tuple[str, ...]

    def __getitem__(self, name: str) -> float:
        """A number of the setting."""
        return float(parts(self.setting)[name])

    def rng(self, purpose: str) -> np.random.Generator:
        """The random stream of this cell for `purpose`, in whatever order and process it is asked for."""
        return stream(self.figure, self.setting, str(self.repetition), purpose)


class Row(NamedTuple):
    """What one method says about one cell."""

    setting: str
    repetition: int
    method: str
    statistic: float
    pvalue: float
    detail: str = ""


def setting(**pairs: float | str) -> str:
    """Text of a setting: ``setting(n=100, c0=0.5)`` is "n=100 c0=0.5"."""
    return " ".join(
        f"{name}={value:g}" if not isinstance(value, str) else f"{name}={value}"
        for name, value in pairs.items()
    )


def parts(text: str) -> dict[str, str]:
    """The parts of a setting by name."""
    return dict(part.split("=") for part in text.split())


def stream(*words: str) -> np.random.Generator:
    """A generator seeded by words."""
    digest = hashlib.sha256("/".join(words).encode()).digest()
    return np.random.default_rng(np.random.SeedSequence(np.frombuffer(digest, dtype=np.uint32).tolist()))


def make_cells(figure: str, settings: Sequence[str], repetitions: int, methods: Sequence[str]) -> list[Cell]:
    """All cells, repetition by repetition: a run cut short has all settings, with fewer repetitions."""
    return [Cell(figure, text, k, tuple(methods)) for k in range(repetitions) for text in settings]


class Store:
    """The rows of one figure on disk: whole lines only, one writer, every append flushed to the disk.

    Use as a context manager; a second writer is refused. A line that a kill left unfinished is dropped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Store:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "ab")  # closed by __exit__
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise RuntimeError(f"{self.path} is being written by another run") from None
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole and content[: content.find(b"\n") + 1] != as_lines([HEADER]):
            self._file.close()
            raise ValueError(f"{self.path} must begin with {','.join(HEADER)}: it is no file of rows")
        if whole < len(content):
            self._file.truncate(whole)
        if not whole:
            self._write([HEADER])
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, rows: Iterable[Row]) -> None:
        """Add the rows of one cell."""
        self._write(map(_as_line, rows))

    def sort(self, order: dict[str, int]) -> None:
        """Sort the file by setting (in the given order), repetition and method."""
        rows = sorted(
            read_rows(self.path),
            key=lambda r: (order.get(r.setting, len(order)), r.setting, r.repetition, r.method),
        )
        replace_file(self.path, as_lines([HEADER, *map(_as_line, rows)]))

    def _write(self, lines: Iterable[Iterable[object]]) -> None:
        self._file.write(as_lines(lines))
        self._file.flush()
        os.fsync(self._file.fileno())


def read_rows(path: Path) -> list[Row]:
    """All whole rows of a file, the first of any duplicates; none if there is no file."""
    rows: dict[tuple, Row] = {}
    for line in csv.DictReader(io.StringIO(whole_lines(path).decode())):
        try:
            key = (line["setting"], int(line["repetition"]), line["method"])
            row = Row(*key, float(line["statistic"]), float(line["pvalue"]), line["detail"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path} has a line that is not a row: {list(line.values())}") from None
        rows.setdefault(key, row)
    return list(rows.values())


def number(value: float) -> str:
    """Seven significant digits: more than the comparison of two machines bears."""
    return f"{value:.7g}"


def _as_line(row: Row) -> tuple[object, ...]:
    return (*row[:3], number(row.statistic), number(row.pvalue), row.detail)
