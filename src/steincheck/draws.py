"""Draws: arrays and files become a float64 matrix (n, d), or there is a clear error."""

from __future__ import annotations

import csv
import difflib
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._validation import as_numbers

MOST_LAGS = 100  # distances at which draws of chains, one after another or in turn, are compared
REPEATED = 0.01  # share of repeated draws that is mentioned: draws from a density do not repeat


def as_draws(x: Any, dim: int, *, minimum: int = 2, name: str = "x") -> np.ndarray:
    """Validate draws and return them as a float64 array (n, dim).

    Parameters
    ----------
    x : array-like (n, dim)
        One draw a row; a 1-d array is accepted when ``dim`` is 1.
    dim : int
        Dimension of the target.
    minimum : int
        Fewest draws allowed.
    name : str
        The argument's name, for messages.

    Examples
    --------
    >>> as_draws([1, 2, 3], dim=1).shape
    (3, 1)
    """
    array = as_numbers(x, name, "an array of real numbers with one draw a row")
    if array.ndim == 1:
        if dim != 1:
            raise ValueError(
                f"`{name}` must have shape (n, {dim}), got the 1-d shape {array.shape}; one point is a row: "
                f"{name}.reshape(-1, {dim}) for points stored end to end, {name}[None, :] for a single one"
            )
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != dim:
        hint = f"; it looks transposed, try {name}.T" if array.ndim == 2 and array.shape[0] == dim else ""
        raise ValueError(
            f"`{name}` must have shape (n, {dim}) as the target has dim = {dim}, got {array.shape}{hint}"
        )
    if len(array) < minimum:
        raise ValueError(f"`{name}` must hold at least {minimum} draws, got {len(array)}")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise ValueError(
            f"`{name}` must be finite: {len(bad)} of {len(array)} draws hold NaN or infinity, "
            f"rows {bad[:10].tolist()}"
        )
    return array


def read_draws(
    path: str | Path, *, dim: int | None = None, names: Sequence[str] | None = None, key: str | None = None
) -> np.ndarray:
    """Read draws from a file, one draw a row.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv`` or ``.txt``: numbers separated by commas, semicolons, tabs or blanks, with or
        without a line of column names; empty lines and lines starting with ``#`` are skipped, and so is a
        first column without a name (a row index). ``.npy`` and ``.npz``: arrays; nothing is ever unpickled.
    dim : int, optional
        Number of columns there must be.
    names : sequence of str, optional
        When the file names its columns, these are taken, in this order.
    key : str, optional
        Which array of an npz file; not needed when it holds a single one.

    Returns
    -------
    array

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "draws.csv"
    ...     _ = file.write_text("mu,tau\\n0.1,2\\n0.3,4\\n")
    ...     read_draws(file, names=["tau", "mu"])
    array([[2. , 0.1],
           [4. , 0.3]])
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory, not a file of draws")
    columns: list[str] | None = None
    if key is not None and path.suffix != ".npz":
        raise ValueError(f"`key` names an array of an .npz file, {path.name} holds one only")
    if path.suffix in (".npy", ".npz"):
        draws = _read_numpy(path, key)
    elif path.suffix in (".csv", ".tsv", ".txt"):
        draws, columns = _read_text(path)
    else:
        raise ValueError(f"draws are read from .csv, .tsv, .txt, .npy or .npz files, got {path.name}")
    if columns is not None and names is not None:
        draws = draws[:, _choose(columns, list(names), path)]
    elif dim is not None and draws.ndim == 2 and draws.shape[1] != dim:
        named = f" ({', '.join(columns[:10])}{', ...' if len(columns) > 10 else ''})" if columns else ""
        counts = len(draws) > 1 and np.all(np.diff(draws[:, 0]) == 1)
        hint = "; the first one counts rows: remove it" if draws.shape[1] == dim + 1 and counts else ""
        raise ValueError(
            f"{path} has {draws.shape[1]} columns{named}, but the target has dim = {dim}: "
            f"one column a coordinate is needed{hint}"
        )
    return draws


def _read_numpy(path: Path, key: str | None) -> np.ndarray:
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            names = content.files
            if key is None and len(names) == 1:
                key = names[0]
            if key not in names:
                what = f"has no array {key!r}{_near(key, names)}" if key else "holds several arrays"
                raise KeyError(f"{path} {what}; it holds {', '.join(names) or 'nothing'}: name one by `key`")
            return content[key]
    except KeyError as error:
        raise ValueError(error.args[0]) from None
    except Exception as error:  # damaged zip, wrong magic number, pickled objects: NumPy raises many kinds
        raise ValueError(f"{path} cannot be read as an array of numbers: {error}") from None


def _read_text(path: Path) -> tuple[np.ndarray, list[str] | None]:
    values, columns, width, separator, first = array("d"), None, 0, None, 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in _lines(file):
                if not width:
                    separator = next((mark for mark in ",;\t" if mark in line), None)
                if separator and '"' in line:
                    parts = next(csv.reader([line], delimiter=separator))
                else:
                    parts = line.split(separator)
                cells = [cell.strip().strip('"') for cell in parts]
                if not width:
                    width, first, columns = len(cells), number, _header(cells, f"{path}, line {number}")
                    if columns:
                        continue
                if len(cells) != width:
                    raise ValueError(
                        f"{path}, line {number}: {len(cells)} values, but line {first} has {width}"
                    )
                try:
                    values.extend(map(float, cells))
                except ValueError:
                    k, cell = next((k, cell) for k, cell in enumerate(cells) if not _is_number(cell))
                    where = columns[k] if columns and columns[k] else str(k + 1)
                    what = f"{cell!r} is not a number" if cell else "the value is missing"
                    raise ValueError(f"{path}, line {number}, column {where}: {what}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}") from None
    draws = np.array(values).reshape(-1, max(width, 1))
    whole = np.array_equal(draws[:1], [range(width)]) and (draws != np.round(draws)).any()
    if columns is None and len(draws) > 1 and whole:
        draws = draws[1:]  # a data frame without names writes 0,1,2,... as its header
    if not len(draws):
        raise ValueError(f"{path} holds no draws")
    if columns and columns[0] == "":
        return draws[:, 1:], columns[1:]
    return draws, columns


def _lines(file: Any) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, start=1):
        text = line.strip(" \r\n")
        if text and not text.startswith("#"):
            yield number, text


def _header(cells: list[str], where: str) -> list[str] | None:
    """The cells as column names, or None when they are all numbers."""
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


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _choose(columns: list[str], names: list[str], path: Path) -> list[int]:
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(
            f"{path} has no column {missing[0]!r}{_near(missing[0], columns)}; its columns are "
            f"{', '.join(columns[:10])}{', ...' if len(columns) > 10 else ''}, the target's names "
            f"{', '.join(names[:10])}{', ...' if len(names) > 10 else ''}"
        )
    twice = [name for name in names if columns.count(name) > 1]
    if twice:
        raise ValueError(f"{path} has more than one column {twice[0]!r}")
    return [columns.index(name) for name in names]


def _near(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def signs_of_chains(x: np.ndarray, names: Sequence[str] | None) -> list[str]:
    """What says that draws (n, d) are those of Markov chains: likeness at some distance, repetitions."""
    found, n = [], len(x)
    lags = min(MOST_LAGS, n // 10)
    limit = np.maximum(0.1, np.where(np.arange(1, lags + 1) == 1, 5, 6) / np.sqrt(n))
    worst = (0.0, 0, 0)
    for k, column in enumerate(x.T):
        spectrum = np.abs(np.fft.rfft(column - column.mean(), 2 * n)) ** 2
        covariance = np.fft.irfft(spectrum)[: lags + 1]
        likeness = covariance[1:] / (covariance[0] if covariance[0] > 0 else 1.0)
        lag = int(np.argmax(likeness - limit))
        if likeness[lag] > max(limit[lag], worst[0]):
            worst = (float(likeness[lag]), lag + 1, k)
    if worst[0]:
        name = names[worst[2]] if names else f"x[{worst[2]}]"
        which = "successive draws" if worst[1] == 1 else f"draws {worst[1]} apart"
        found.append(
            f"{which} are correlated ({worst[0]:.2f} in {name}), as those of Markov chains: the p-values "
            "assume independent draws and are too small; thin the chains until this warning is gone"
        )
    repeated = n - len(np.unique(x, axis=0))
    if repeated > REPEATED * n:
        found.append(
            f"{repeated} of {n} draws repeat others, as those of Markov chains that stand still or of a "
            "resampled sample: the p-values assume independent draws and are too small"
        )
    return found
