"""Rows of results on disk, the random streams that they are made with, and the record of what made them.

A `Table` is a CSV file whose rows have keys. New rows take the place of those with the same key; the file is
written beside the old one and moved over it, so that a study that is interrupted, even by a kill, loses no
row that was in the file before. A figure has cells, each one repetition of one setting, and a row for what
each method says about a cell.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Table:
    """The rows of one CSV file.

    Attributes
    ----------
    path : Path
    fields : tuple of str
        Names of the columns. A file with others is refused, and left as it is.
    key : tuple of str
        Columns that say which rows a new one replaces, in its place; rows with new keys come last. Where
        several rows share a key, new ones replace all of them.
    """

    path: Path
    fields: tuple[str, ...]
    key: tuple[str, ...]

    def read(self) -> list[dict[str, str]]:
        """All rows; none if there is no file. A line that a kill left unfinished is dropped."""
        content = self.path.read_bytes() if self.path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1].decode()
        lines = list(csv.reader(io.StringIO(whole, newline="")))
        if lines and tuple(lines[0]) != self.fields:
            raise ValueError(f"{self.path} must have the columns {','.join(self.fields)}, got {lines[0]}")
        for line in lines[1:]:
            if len(line) != len(self.fields):
                raise ValueError(f"{self.path} has a line that is not a row: {line}")
        return [dict(zip(self.fields, line, strict=True)) for line in lines[1:]]

    def merge(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Put rows into the file; studies that write at the same time wait for each other."""
        new = [{field: str(row[field]) for field in self.fields} for row in rows]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            merged = self._by_key(self.read()) | self._by_key(new)
            values = [row.values() for group in merged.values() for row in group]
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerows([self.fields, *values])
            replace_file(self.path, text.getvalue().encode())
        finally:
            os.close(folder)

    def _by_key(self, rows: Iterable[dict[str, str]]) -> dict[tuple[str, ...], list[dict[str, str]]]:
        groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
        for row in rows:
            groups.setdefault(tuple(row[name] for name in self.key), []).append(row)
        return groups


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside `path` and move it there: at any time one of them is whole on the disk."""
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


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


class Figure(NamedTuple):
    """How a figure is made."""

    cells: list[tuple[list[str], tuple[str, ...]]]  #: settings, and the methods that are run on them
    quick: dict[str, tuple[str, ...]]  #: a few settings and methods, for tests
    run: Callable[[Cell, Sequence[str]], list[Row]]
    draw: Callable[[Sequence[Row]], Any]


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


def figure_table(path: Path) -> Table:
    """The rows of a figure."""
    return Table(path, Row._fields, ("setting", "repetition", "method"))


def line_of(row: Row) -> dict[str, object]:
    """A row with seven significant digits: more than the comparison of two machines bears."""
    return row._asdict() | {"statistic": f"{row.statistic:.7g}", "pvalue": f"{row.pvalue:.7g}"}


def read_rows(path: Path) -> list[Row]:
    """All rows of a figure; none if there is no file."""
    rows = []
    for line in figure_table(path).read():
        name, repetition, method, *numbers, detail = line.values()
        rows.append(Row(name, int(repetition), method, *map(float, numbers), detail))
    return rows


@cache
def commit() -> str:
    """The commit of the code when it is first asked for, twelve digits of it."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return git.stdout.strip()[:12] or "unknown"


def versions(*names: str) -> dict[str, str]:
    """Versions of packages, and of "python"."""
    return {name: platform.python_version() if name == "python" else version(name) for name in names}
