"""A small table: rows of values under named columns, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ..wording.numbers import aligned
from .plain import as_plain


@dataclass(frozen=True, eq=False, repr=False)
class Table:
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
        return "\n".join(aligned([self.columns, *self.cells()], self._sides()))

    def cells(self) -> list[list[str]]:
        """The rows as they are printed."""
        return [[_cell(value) for value in row] for row in self.rows]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.columns, self._sides(), self.cells())

    def _sides(self) -> str:
        """One letter per column: numbers to the right, words to the left."""

        def side(k: int) -> str:
            return "l" if any(isinstance(row[k], str) for row in self.rows) else "r"

        return "".join(side(k) for k in range(len(self.columns)))

    def to_dict(self) -> dict[str, list[Any]]:
        """Plain lists, one per column, ready for JSON."""
        return {column: as_plain(self[column]) for column in self.columns}

    def to_pandas(self) -> Any:
        """A pandas DataFrame, indexed by the first column."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame.from_records(self.rows, columns=self.columns, index=self.columns[0])


def html_table(head: Sequence[str], sides: str, rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of text, columns aligned by the letters of `sides`."""
    align = {"l": "left", "r": "right"}

    def line(cells: Sequence[str], tag: str) -> str:
        inner = (
            f'<{tag} style="text-align:{align[side]}">{escape(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr>{''.join(inner)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if np.isnan(number):
            return "-"
        return f"{number:.0f}" if abs(number) >= 1000 else f"{number:#.3g}".rstrip(".")
    return str(value)
