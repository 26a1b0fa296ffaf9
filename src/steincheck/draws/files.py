"""Draws from files: text, CmdStan's CSV, NumPy arrays, parquet, netCDF and zarr."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._validation import listed, shown
from .names import close_names
from .reading import read_any, stack_chains
from .record import Draws, from_columns

SUFFIXES = (".csv", ".tsv", ".txt", ".npy", ".npz", ".parquet", ".nc", ".zarr")


def read_draws(paths: str | Path | Sequence[str | Path], *, key: str | None = None) -> Draws:
    r"""Read draws from a file, or from several files with one chain each.

    Parameters
    ----------
    paths : path or sequence of paths
        ``.csv``, ``.tsv``, ``.txt``: one draw per row, separated by commas or blanks, with or without a line
        of column names. Comments (``#``), empty lines and a column without a name (a row index) are skipped.
        CmdStan's CSV files are read without their warm-up. ``.npy`` and ``.npz``: arrays; nothing is ever
        unpickled. ``.parquet`` (needs ``steincheck[parquet]``). ``.nc`` and ``.zarr``, as ArviZ writes them
        (needs ``steincheck[arviz]``).
    key : str, optional
        Which array of an npz file; by default all, as a dict of arrays. Arrays that may be several samples
        are refused without it.

    Returns
    -------
    Draws
        All columns; a test takes those that the target names.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "draws.csv"
    ...     _ = file.write_text("mu,tau\n0.1,2\n0.3,4\n")
    ...     read_draws(file).names
    ('mu', 'tau')
    """
    files = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(files, (list, tuple)) or not all(isinstance(f, (str, os.PathLike)) for f in files):
        raise TypeError(f"`paths` must be a path or a list of paths, got {shown(paths)}")
    if not files:
        raise ValueError("`paths` must name at least one file")
    if key is not None and not isinstance(key, str):
        raise TypeError(f"`key` must be the name of an array, got {shown(key)}")
    tables = [_read_file(Path(path), key) for path in files]
    return tables[0] if len(tables) == 1 else stack_chains(tables)


def _read_file(path: Path, key: str | None) -> Draws:
    kind = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if kind not in SUFFIXES:
        raise ValueError(f"`paths` must end in {', '.join(SUFFIXES)}, got {path.name}")
    if key is not None and kind != ".npz":
        raise ValueError(f"`key` selects an array of an .npz file, but {path.name} is not one")
    try:
        content = _content(path, kind)
        if kind == ".npz" and (key is not None or len(content) == 1):
            chosen = key or next(iter(content))
            if chosen not in content:
                known = f"{close_names(chosen, list(content))}, but {listed(list(content))}"
                raise ValueError(f"it has no array {chosen!r}{known}")
            content = content[chosen]
        elif kind == ".npz":
            _refuse_doubtful_arrays(content)
        return read_any(content)
    except ImportError as error:
        extra = "parquet" if kind == ".parquet" else "arviz"
        raise ImportError(f"{kind} files need more packages: pip install 'steincheck[{extra}]'") from error
    except Exception as error:  # every package has its own kinds
        raise ValueError(f"{path} cannot be read as {kind}: {error}") from None


def _refuse_doubtful_arrays(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise where several arrays may be samples (n, d) as well as parameters (chain, draw, ...)."""
    shapes = [array.shape for array in arrays.values()]
    if min(map(len, shapes), default=0) > 1 and any(shape[0] > shape[1] for shape in shapes):
        got = f"{listed(list(arrays))} of shapes {listed(shapes)}"
        raise ValueError(f"`key` must name one of its arrays, which may be several samples: {got}")


def _content(path: Path, kind: str) -> Any:
    """What a file holds, by the package that reads its kind; nothing is unpickled."""
    if kind == ".npy":
        return np.load(path, allow_pickle=False)
    if kind == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    if kind == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    if kind in (".nc", ".zarr"):
        import xarray

        with xarray.open_datatree(path) as tree:
            return tree.load()
    return _read_text(path.read_text(encoding="utf-8-sig"))


def _read_text(text: str) -> Draws:
    """Draws of comma- or blank-separated text, CmdStan's included."""
    lines = [line.strip() for line in text.splitlines()]
    comments = [line.lstrip("# ") for line in lines if line.startswith("#")]
    rows = [line for line in lines if line and not line.startswith("#")]
    separator = "," if rows and "," in rows[0] else None
    header = None if not rows or _is_number(_cells(rows[0], separator)[0]) else _cells(rows[0], separator)
    body = rows[0 if header is None else 1 + _n_warm_up(comments) :]
    if not body:
        raise ValueError("it holds no draws")
    try:
        values = np.loadtxt(body, delimiter=separator, comments=None, ndmin=2, quotechar='"')
    except ValueError as error:
        what = str(error).partition("; ")[0].rstrip(".")
        raise ValueError(f"{what}, counted from the first draw; commas or blanks separate values") from None
    if header is None:
        return Draws(values)
    if len(header) != values.shape[1]:
        raise ValueError(f"the first line has {len(header)} names, the draws have {values.shape[1]} values")
    named = [k for k, label in enumerate(header) if label]  # pandas writes its index without a name
    table = from_columns([header[k] for k in named], [values[:, k] for k in named])
    one_chain = "lp__" in header and table.chain is None
    return replace(table, chain=np.zeros(len(table), dtype=int)) if one_chain else table


def _cells(line: str, separator: str | None) -> list[str]:
    """The entries of a line."""
    parts = next(csv.reader([line], delimiter=separator)) if separator else line.split()
    return [cell.strip().strip('"') for cell in parts]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _n_warm_up(comments: Sequence[str]) -> int:
    """How many draws of its warm-up a file of CmdStan holds, by the settings in its comments."""
    found = [re.match(r"(save_warmup|num_warmup|thin) *= *(\w+)", comment) for comment in comments]
    settings = {match[1]: match[2] for match in found if match}
    if settings.get("save_warmup") not in ("1", "true"):
        return 0
    return -(-int(settings.get("num_warmup", 0)) // int(settings.get("thin", 1)))
