"""Draws from files: text, CmdStan's CSV, NumPy arrays, parquet and netCDF."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .._validation import as_count, listed, shown
from .coerce import TRANSPOSED, check_selection, read_any, select_columns, stacked
from .containers import CHAIN_COLUMNS, RawDraws, counted_from_0, from_columns, uncapitalised
from .names import canonical_name, close_names, has_names
from .record import Draws

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
BINARY_SUFFIXES = (".npy", ".npz", ".parquet", ".nc")
SEPARATORS = (",", ";", "\t", "|")  # blanks if there are none of these
SEPARATOR_LINE = re.compile(r'"?sep=.?"?', re.IGNORECASE)  # the first line of spreadsheets' files
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
FORTRAN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[dD][+-]?\d+")


class ArrayChoiceError(ValueError):
    """An .npz file holds several arrays, or none, and it is not said which of them to read."""

    def __init__(self, message: str, known: Sequence[str]) -> None:
        super().__init__(message)
        self.known = tuple(known)


def read_draws(
    paths: str | Path | Sequence[str | Path],
    *,
    dim: int | None = None,
    names: Sequence[str] | None = None,
    var_names: Sequence[str] | None = None,
    key: str | None = None,
    minimum: int = 2,
) -> Draws:
    r"""Read draws from a file, or from several files with one chain each.

    Parameters
    ----------
    paths : path or sequence of paths
        ``.csv``, ``.tsv``, ``.txt``: one draw per row, separated by commas, semicolons, tabs or blanks, with
        or without a line of column names (which may be a comment, as ``np.savetxt`` writes it); other
        comments (``#``), empty lines and a first column without a name (a row index) are skipped. CmdStan's
        CSV files: warm-up is left out and names count from 0 as in ArviZ. ``.npy`` and ``.npz``: arrays;
        nothing is ever unpickled. ``.parquet`` (needs ``steincheck[parquet]``) and ``.nc``, ArviZ's netCDF
        (needs ``steincheck[arviz]``).
    dim : int, optional
        Number of coordinates there must be.
    names : sequence of str, optional
        When the file names its columns, these are taken, in this order.
    var_names : sequence of str, optional
        Variables or columns to take.
    key : str, optional
        Which array of an npz file; not needed when it holds a single one.
    minimum : int
        Fewest draws allowed.

    Returns
    -------
    Draws

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "draws.csv"
    ...     _ = file.write_text("mu,tau\n0.1,2\n0.3,4\n")
    ...     read_draws(file, names=["tau", "mu"]).values
    array([[2. , 0.1],
           [4. , 0.3]])
    """
    files = _as_paths(paths)
    as_count(minimum, "minimum")
    check_selection(dim, names, var_names)
    if key is not None and not isinstance(key, str):
        raise TypeError(f"`key` must be the name of an array, got {shown(key)}")
    if not files:
        raise ValueError("`paths` must name at least one file")
    width = dim if var_names is None else None  # a file may have more columns than are selected
    tables = [_read_file(path, width, names, key) for path in files]
    table = tables[0] if len(tables) == 1 else stacked(tables)
    title = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    return select_columns(table, dim, names, var_names, title, minimum)


def _as_paths(paths: Any) -> list[Path]:
    single = isinstance(paths, (str, os.PathLike))
    if not single and not isinstance(paths, (list, tuple)):
        raise TypeError(f"`paths` must be a path or a list of paths, got {type(paths).__name__}")
    listed_paths = [paths] if single else list(paths)
    for path in listed_paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"`paths` must be a path or a list of paths, got {shown(path)} in it")
        if "\x00" in os.fspath(path):
            raise ValueError(f"`paths` must not hold a null character, got {shown(path)}")
    return [Path(path) for path in listed_paths]


def _read_file(path: Path, dim: int | None, names: Sequence[str] | None, key: str | None) -> RawDraws:
    kind = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory, not a file of draws")
    if key is not None and kind != ".npz":
        raise ValueError(f"`key` selects an array of an .npz file, but {path.name} is not one")
    if kind in TEXT_SUFFIXES:
        return _read_text(path, dim, names)
    if kind in (".npy", ".npz"):
        return read_any(_read_numpy(path, key), dim, names, str(path))
    if kind == ".parquet":
        return _read_parquet(path, names)
    if kind == ".nc":
        return _read_netcdf(path, names)
    raise ValueError(f"`paths` must end in {', '.join((*TEXT_SUFFIXES, *BINARY_SUFFIXES))}, got {path.name}")


def _read_numpy(path: Path, key: str | None) -> np.ndarray:
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            known = content.files
            if key is None and len(known) == 1:
                key = known[0]
            if key not in known:
                if not known:
                    raise ArrayChoiceError(f"{path} holds no arrays", known)
                what = f"has no array {key!r}{close_names(key, known)}" if key else "holds several arrays"
                text = f"{path} {what}; it holds {', '.join(known)}: name one by `key`"
                raise ArrayChoiceError(text, known)
            return content[key]
    except ArrayChoiceError:
        raise
    except Exception:  # damaged zip, wrong magic number, pickled objects: NumPy raises many kinds
        raise ValueError(
            f"{path} cannot be read as an array of numbers: it is damaged, or holds something else"
        ) from None


def _read_parquet(path: Path, names: Sequence[str] | None) -> RawDraws:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("parquet files need pyarrow: pip install 'steincheck[parquet]'") from None
    try:
        content = parquet.read_table(path)
    except Exception as error:  # pyarrow has its own kinds
        raise ValueError(f"{path} cannot be read as parquet: {error}") from None
    columns = [content.column(k).to_numpy() for k in range(content.num_columns)]
    return from_columns(content.column_names, columns, names)


def _read_netcdf(path: Path, names: Sequence[str] | None) -> RawDraws:
    readers = ("h5netcdf", "netCDF4")
    if not find_spec("xarray") or not any(find_spec(reader) for reader in readers):
        raise ImportError("netCDF files need xarray and h5netcdf: pip install 'steincheck[arviz]'")
    import xarray

    try:
        with xarray.open_datatree(path) as opened:
            tree = opened.load()
    except Exception as error:  # the readers have their own kinds
        raise ValueError(f"{path} cannot be read as netCDF: {error}") from None
    return read_any(tree, None, names, str(path))


@dataclass
class _Layout:
    """How a text file is built, from its comments and first rows."""

    separator: str | None  # None: blanks
    width: int
    names: list[str] | None
    first: int  # number of the line that gave the width
    skip: int  # rows of numbers to be left out: column names or warm-up
    text: list[int]  # columns whose first value is not a number
    cmdstan: bool = False
    warnings: list[str] = field(default_factory=list)


def _read_text(path: Path, dim: int | None, names: Sequence[str] | None) -> RawDraws:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            layout = _layout(path, file, names)
        labels = layout.names or [str(k) for k in range(layout.width)]
        used = _used(layout, labels, names)
        values = _values(path, layout, used)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}") from None
    if not len(values):
        raise ValueError(f"{path} holds no draws")
    if layout.names is None:
        _check_width(path, values, dim, None)
        return RawDraws(values, warnings=layout.warnings)
    columns = list(values.T)
    numbered = [k for k in layout.text if uncapitalised(labels[k]) in CHAIN_COLUMNS and k not in used]
    columns += [_numbered(path, layout, k) for k in numbered]
    table = from_columns([labels[k] for k in [*used, *numbered]], columns, names)
    unused = [labels[k] for k in layout.text if k not in numbered]
    table.warnings += [f"{path}: column {label!r} holds text and is not used" for label in unused]
    if layout.cmdstan:
        table.chain = np.zeros(len(values), dtype=int)
    if names is None and dim is not None:
        _check_width(path, table.values, dim, table.names)
    return table


def _check_width(
    path: Path, values: np.ndarray, dim: int | None, labels: Sequence[str] | None = None
) -> None:
    if dim is None or values.shape[1] == dim:
        return
    named = f" ({listed(labels)})" if labels else ""
    counts = len(values) > 1 and np.all(np.diff(values[:, 0]) == 1)
    hint = "; the first one numbers the rows: remove it" if values.shape[1] == dim + 1 and counts else ""
    if labels is None and len(values) == dim:
        hint = TRANSPOSED
    if labels and values.shape[1] > dim:
        hint = hint or "; select columns by the target's `names`"
    raise ValueError(
        f"{path} has {values.shape[1]} columns{named}, but the target has `dim` = {dim}: "
        f"one column per coordinate is needed{hint}"
    )


def _layout(path: Path, file: Any, names: Sequence[str] | None) -> _Layout:
    """Read comments, column names and the first rows."""
    comments: list[str] = []
    rows = []
    number = 0
    for number, line in enumerate(file, start=1):
        text = line.strip(" \r\n")
        if SEPARATOR_LINE.fullmatch(text):
            continue
        if text.startswith("#"):
            comments.append(text.lstrip("# "))
        elif text:
            rows.append((number, text))
            if len(rows) == 3:
                break
    if not rows:
        raise ValueError(f"{path} holds no draws")
    first, text = rows[0]
    separator = next((mark for mark in SEPARATORS if mark in text), None)
    cells = _cells(text, separator)
    layout = _Layout(separator, len(cells), _header(cells, f"{path}, line {first}"), first, 0, [])
    body = [_cells(line, separator) for _, line in rows[1 if layout.names else 0 :]]
    if layout.names is None:
        layout.names = _commented_header(path, comments, layout, names)
        _judge_counting_row(layout, cells, body[1:], path)
    if layout.names is not None and body:
        layout.text = [k for k, cell in enumerate(body[0][: layout.width]) if cell and not _is_number(cell)]
    _look_for_cmdstan(layout, comments, names)
    return layout


def _cells(text: str, separator: str | None) -> list[str]:
    parts = next(csv.reader([text], delimiter=separator)) if separator else text.split()
    return [cell.strip().strip('"') for cell in parts]


def _header(cells: list[str], where: str) -> list[str] | None:
    """The cells as column names, or None when they are all numbers."""
    for cell in filter(FORTRAN_NUMBER.fullmatch, cells):
        raise ValueError(f"{where}: {cell!r} is a number in Fortran notation: write E instead of D")
    numbers = [cell for cell in cells if _is_number(cell)]
    if len(numbers) == len(cells):
        return None
    unnamed_frame = cells[0] == "" and cells[1:] == [str(k) for k in range(len(cells) - 1)]
    if numbers and not unnamed_frame:
        other = next(cell for cell in cells if not _is_number(cell))
        raise ValueError(
            f"{where}: {other!r} is not a number, but {numbers[0]!r} is: "
            "the first line must hold either names of columns or a draw"
        )
    return cells


def _commented_header(
    path: Path, comments: list[str], layout: _Layout, names: Sequence[str] | None
) -> list[str] | None:
    """A comment before the draws that names the columns, as ``np.savetxt(header=...)`` writes it.

    With `names` it is one that holds all of them, whatever separates them; else the last that looks like a
    header. If it shares no name with `names`, columns are taken by position and a warning says so.
    """
    headers = _possible_headers(comments, layout.width)
    likely = [
        cells
        for separator, cells in headers
        if separator == layout.separator or (separator and not any(" " in cell for cell in cells))
    ]
    if names is None:
        return next(iter(likely), None)
    known = {canonical_name(name) for name in names}
    fits = [cells for _, cells in headers if has_names(cells, names)]
    shares = [cells for cells in likely if known & {canonical_name(cell) for cell in cells}]
    if not fits and not shares:
        unclear = [", ".join(cells) for cells in likely] + [
            text for text in comments if _mentions(text, names)
        ]
        layout.warnings += [
            f"{path}: the comment {shown(text)} does not say which column is which of {listed(names)}: the "
            "columns are taken in the order of these names"
            for text in unclear[:1]
        ]
    return next(iter(fits + shares), None)


def _possible_headers(comments: list[str], width: int) -> list[tuple[str | None, list[str]]]:
    """Comments with one part per column and what separates the parts; the last comment first."""
    divided = [
        (separator, _cells(comment, separator))
        for comment in reversed(comments)
        for separator in (*SEPARATORS, None)
        if separator is None or separator in comment
    ]
    return [
        (separator, cells)
        for separator, cells in divided
        if len(cells) == width and all(cells) and not any(_is_number(cell) for cell in cells)
    ]


def _mentions(comment: str, names: Sequence[str]) -> bool:
    """Whether a comment holds all of several names."""
    found = [re.search(rf"(?<!\w){re.escape(name)}(?!\w)", comment) for name in names]
    return len(found) > 1 and all(found)


def _judge_counting_row(layout: _Layout, cells: list[str], body: list[list[str]], path: Path) -> None:
    """A first row 0, 1, 2, ... may be the header of a data frame without names, or a draw."""
    if layout.names is not None or cells != [str(k) for k in range(layout.width)] or not body:
        return
    fractional = ["." in cell or "e" in cell for row in body for cell in row]
    if all(fractional) and layout.width > 2:
        layout.skip = 1
    elif any(fractional):
        layout.warnings.append(
            f"{path}: the first row ({', '.join(cells)}) was read as a draw; if it is the header of a data "
            "frame without names, remove it"
        )


def _look_for_cmdstan(layout: _Layout, comments: list[str], names: Sequence[str] | None) -> None:
    """CmdStan's CSV: settings in comments, a column lp__, names that count from 1, saved warm-up first.

    Names that count from 1 too, without any 0, are taken as they are in the file.
    """
    if not layout.names or "lp__" not in layout.names:
        return
    settings = dict(
        part.split("(")[0].replace(" ", "").split("=", 1) for part in comments if part.count("=") == 1
    )
    if not any(name.startswith("stan_version") or name == "num_warmup" for name in settings):
        return
    layout.cmdstan = True
    from_1 = names and has_names(layout.names, names) and not any("[0" in name for name in names)
    if not from_1:
        layout.names = [counted_from_0(name) for name in layout.names]
    counts = {name: text for name, text in settings.items() if text.isdigit()}
    if settings.get("save_warmup") in ("1", "true"):
        layout.skip = -(-int(counts.get("num_warmup", 1000)) // int(counts.get("thin", 1)))


def _used(layout: _Layout, labels: Sequence[str], names: Sequence[str] | None) -> list[int]:
    """Columns to be read: all that hold numbers, but a row index."""
    index = {0} if layout.names and labels[0] == "" else set()
    wanted = {canonical_name(name) for name in names or ()}
    text = {k for k in layout.text if canonical_name(labels[k]) not in wanted}
    return [k for k in range(layout.width) if k not in index | text]


def _values(path: Path, layout: _Layout, used: list[int]) -> np.ndarray:
    """The numbers of the columns in use, by NumPy's reader; a second pass explains what it refuses."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = (text for _, text in _rows(path, file, layout))
            first = next(lines, None)
            if first is None:
                return np.empty((0, len(used)))
            return np.loadtxt(
                _again(first, lines),
                delimiter=layout.separator,
                comments=None,
                usecols=used,
                ndmin=2,
                quotechar='"',
            )
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        with path.open(encoding="utf-8-sig", newline="") as file:
            raise ValueError(_complaint(path, _rows(path, file, layout), layout, used, error)) from None


def _numbered(path: Path, layout: _Layout, column: int) -> np.ndarray:
    """A column of text as numbers, in the order in which the texts appear."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        texts = [_cells(text, layout.separator)[column] for _, text in _rows(path, file, layout)]
    number = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    return np.array([number[text] for text in texts])


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _rows(path: Path, file: Any, layout: _Layout) -> Iterator[tuple[int, str]]:
    """Rows of numbers with the number of their line."""
    left_out = layout.skip
    for number, line in enumerate(file, start=1):
        text = line.strip(" \r\n")
        if not text or text.startswith("#") or SEPARATOR_LINE.fullmatch(text):
            continue
        if (
            number == layout.first
            and layout.names
            and _header(_cells(text, layout.separator), "") is not None
        ):
            continue
        if layout.separator is None:
            width = len(text.split())
        elif '"' in text:
            width = len(_cells(text, layout.separator))
        else:
            width = text.count(layout.separator) + 1
        if width != layout.width:
            raise ValueError(
                f"{path}, line {number}: {width} values, but line {layout.first} has {layout.width}"
            )
        if left_out:
            left_out -= 1
            continue
        yield number, text


def _complaint(
    path: Path, rows: Iterator[tuple[int, str]], layout: _Layout, used: list[int], error: ValueError
) -> str:
    """Which cell is not a number."""
    for number, text in rows:
        cells = _cells(text, layout.separator)
        for k in used:
            if not _is_number(cells[k]):
                where = layout.names[k] if layout.names and layout.names[k] else str(k + 1)
                what = f"{cells[k]!r} is not a number" if cells[k] else "the value is missing"
                if FORTRAN_NUMBER.fullmatch(cells[k]):
                    what += " (Fortran notation): write E instead of D"
                elif DECIMAL_COMMA.fullmatch(cells[k]):
                    what += " (a decimal comma): write a point"
                return f"{path}, line {number}, column {where}: {what}"
    return f"{path} cannot be read: {error}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
