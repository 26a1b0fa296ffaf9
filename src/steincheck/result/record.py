"""What all records share, and a small table: as plain Python values, as JSON, in a notebook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ..wording.numbers import aligned


class Record:
    """What frozen dataclasses share: JSON, one line in a session, all that is printed in a notebook."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).splitlines()[0]}>"

    def _repr_html_(self) -> str:
        return f'<pre style="white-space:pre-wrap">{escape(str(self))}</pre>'

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain(self.__dict__)

    def to_json(self) -> str:
        """JSON text; infinities and NaN become null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def as_plain(value: Any) -> Any:
    """Turn arrays, NumPy scalars and records into lists, numbers and dictionaries; non-finite into None.

    Functions are written by name, kernels, seeds and anything else as they are printed.

    Examples
    --------
    >>> as_plain({"x": np.array([1.0, np.inf]), "f": np.sum, "seed": np.random.SeedSequence(5)})
    {'x': [1.0, None], 'f': 'sum', 'seed': 'SeedSequence( entropy=5, )'}
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return as_plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__name__", " ".join(repr(value).split()))


@dataclass(frozen=True, eq=False, repr=False)
class Table(Record):
    """Rows of values under named columns; the first column names the rows.

    Attributes
    ----------
    columns : tuple of str
    rows : tuple of tuples
        One value per column in every row.

    Examples
    --------
    >>> table = Table(("parameter", "mean"), (("mu", 0.1234), ("tau", 12.0)))
    >>> print(table)
      parameter   mean
      mu         0.123
      tau         12.0
    >>> table["mean"]
    [0.1234, 12.0]
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __getitem__(self, column: str) -> list[Any]:
        if column not in self.columns:
            raise KeyError(f"no column {column!r}; the columns are {', '.join(self.columns)}")
        k = self.columns.index(column)
        return [row[k] for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        words = [any(isinstance(value, str) for value in self[column]) for column in self.columns]
        sides = "".join("<" if left else ">" for left in words)
        return "\n".join(aligned([self.columns, *(list(map(_cell, row)) for row in self.rows)], sides))

    __repr__ = __str__

    def to_dict(self) -> dict[str, list[Any]]:
        """Plain lists, one per column, ready for JSON."""
        return {column: as_plain(self[column]) for column in self.columns}


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if np.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")
