"""Numbers, lists and locations as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..result import ModeTable

ANSWERS = {True: "no misfit found", False: "misfit found", None: "cannot tell"}
USUAL_LEVELS = (0.01, 0.05, 0.1)


def pvalue_text(p: float, *, smallest: bool = False) -> str:
    """The p-value as it follows the letter p: "= 0.04", or "< 1e-16" where its digits mean nothing.

    "<= 0.001" if it is the `smallest` that a test with finitely many replicates can give, "not available" for
    NaN. Two digits; three where two would look like one of the usual levels.

    Examples
    --------
    >>> [pvalue_text(p) for p in (0.4112, 0.00102, 0.0504, 0.05)]
    ['= 0.41', '= 0.001', '= 0.0504', '= 0.05']
    """
    if np.isnan(p):
        return "not available"
    if p < 1e-16:
        return "< 1e-16"
    text = f"{p:.2g}"
    if float(text) in USUAL_LEVELS:
        text = f"{p:.3g}"
    return f"<= {text}" if smallest else f"= {text}"


def interval_text(interval: Sequence[float], number: str = "{:.3g}") -> str:
    """An interval as "0.15 to 0.16"; one number if both ends are printed alike."""
    low, high = (number.format(end) for end in interval)
    return low if low == high else f"{low} to {high}"


def estimate_text(value: float, interval: Sequence[float], number: str = "{:.3g}") -> str:
    """A number with its interval, "0.14 (0.12 to 0.16)"; the number alone if all three are printed alike."""
    if not np.isfinite(value):
        return "no value: too uncertain"
    ends = interval_text(interval, number)
    text = number.format(value)
    return text if text == ends else f"{text} ({ends})"


def count_text(count: int, noun: str) -> str:
    """A number with its noun: "1 chain", "4 chains"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def mode_descriptions(locations: np.ndarray, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Where modes (M, k) are, in the three coordinates in which they differ most.

    Examples
    --------
    >>> mode_descriptions(np.array([[0.0, 1, 2, 3, 4], [0, 1, 2, -3, 4]]), "abcde")
    ('a = 0, b = 1, d = 3, ...', 'a = 0, b = 1, d = -3, ...')
    """
    names = names or [f"x[{k}]" for k in range(locations.shape[1])]
    size = np.max(np.abs(locations), axis=1, initial=1e-300, keepdims=True)
    rounded = np.where(np.abs(locations) < 1e-6 * np.maximum(size, 1.0), 0.0, locations)
    largest = np.maximum(np.abs(rounded).max(axis=0), 1e-300)
    differ = np.round(np.ptp(rounded, axis=0) / largest, 3)
    chosen = np.sort(np.argsort(-differ, kind="stable")[:3])
    more = ", ..." if locations.shape[1] > len(chosen) else ""
    return tuple(", ".join(f"{names[k]} = {row[k]:.4g}" for k in chosen) + more for row in rounded)


def aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Rows of cells as lines, columns aligned to the left, "<", or right, ">", by the signs in `sides`."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(sides))]
    line = "".join(f"  {{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [line.format(*row).rstrip() for row in rows]


def share_of_density(table: ModeTable, k: int) -> str:
    """The implied share of mode k with its interval; a dash where it is unknown."""
    low, high = table.implied_interval[k]
    if np.isnan(table.implied[k]):
        return "-"
    return f"{table.implied[k]:.1%}" + ("" if np.isnan(low) else f" ({low:.1%} to {high:.1%})")
