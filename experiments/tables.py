"""Tables of results on disk, and the record of what made their rows.

A `Table` is a CSV file whose rows have keys. New rows take the place of those with the same key; the file is
written beside the old one and moved over it, so that a study that is interrupted, even by a kill, loses no
row that was in the file before.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

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
        Columns that say which rows a new one replaces. Where several rows share a key, new ones replace all
        of them.
    order : callable, optional
        Sorting key of a row, a dict of strings; by default rows stay where they are, and rows with new keys
        come last.
    """

    path: Path
    fields: tuple[str, ...]
    key: tuple[str, ...]
    order: Callable[[dict[str, str]], Any] | None = None

    def read(self) -> list[dict[str, str]]:
        """All rows; none if there is no file. A line that a kill left unfinished is dropped."""
        lines = list(csv.reader(io.StringIO(whole_lines(self.path).decode(), newline="")))
        if lines and tuple(lines[0]) != self.fields:
            raise ValueError(f"{self.path} must have the columns {','.join(self.fields)}, got {lines[0]}")
        for line in lines[1:]:
            if len(line) != len(self.fields):
                raise ValueError(f"{self.path} has a line that is not a row: {line}")
        return [dict(zip(self.fields, line, strict=True)) for line in lines[1:]]

    def keys(self) -> set[tuple[str, ...]]:
        """The keys of all rows, as text."""
        return {self._key(row) for row in self.read()}

    def merge(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Put rows into the file; studies that write at the same time wait for each other."""
        new = [{field: str(row[field]) for field in self.fields} for row in rows]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _only_writer(self.path.parent):
            merged = self._by_key(self.read()) | self._by_key(new)
            ordered = [row for group in merged.values() for row in group]
            if self.order is not None:
                ordered.sort(key=self.order)
            lines = as_lines([self.fields, *(row.values() for row in ordered)], end=self._line_end())
            replace_file(self.path, lines)

    def _by_key(self, rows: Iterable[dict[str, str]]) -> dict[tuple[str, ...], list[dict[str, str]]]:
        groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
        for row in rows:
            groups.setdefault(self._key(row), []).append(row)
        return groups

    def _key(self, row: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(row[name] for name in self.key)

    def _line_end(self) -> str:
        """That of the file: some were written with CRLF."""
        return "\r\n" if whole_lines(self.path).endswith(b"\r\n") else "\n"


def position(names: Sequence[str]) -> Callable[[str], int]:
    """The place of a name in a list, for sorting; names that are not in it come last."""
    places = {name: k for k, name in enumerate(names)}
    return lambda name: places.get(name, len(places))


def whole_lines(path: Path) -> bytes:
    """The content of a file up to the end of its last whole line; nothing if there is no file."""
    if not path.exists():
        return b""
    content = path.read_bytes()
    return content[: content.rfind(b"\n") + 1]


def as_lines(rows: Iterable[Iterable[object]], end: str = "\n") -> bytes:
    """Rows as lines of a CSV file."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows(rows)
    return text.getvalue().encode()


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside `path` and move it there: at any time one of them is whole on the disk."""
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Wait until nobody else merges rows into a table of the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@cache
def commit() -> str:
    """The commit of the code when it is first asked for, twelve digits of it."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return git.stdout.strip()[:12] or "unknown"


def provenance() -> dict[str, str]:
    """The commit that makes the rows, and a hash of all sources they may depend on."""
    digest = hashlib.sha256()
    for path in sorted([*ROOT.glob("src/steincheck/**/*.py"), *ROOT.glob("experiments/*.py")]):
        digest.update(path.read_bytes())
    return {"commit": commit(), "sources": digest.hexdigest()[:12]}


def versions(*names: str) -> dict[str, str]:
    """Versions of packages, and of "python"."""
    return {name: platform.python_version() if name == "python" else version(name) for name in names}
