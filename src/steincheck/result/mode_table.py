"""Shares of the draws and of the density at the modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._validation import listed
from .plain import as_plain, pvalue_text
from .table import aligned

MAX_MODES_PRINTED = 15  # rows of the printed mode table
TOO_MANY = "too many draws"
TOO_FEW = "too few draws"
AS_EXPECTED = "as expected"
NOT_COMPARED = "not compared"
NOT_EXAMINED = "not examined"
MODE_COLUMNS = ("mode", "draws", "share of the draws", "share of the density", "result", "where")


@dataclass(frozen=True, eq=False, repr=False)
class ModeTable:
    """How many draws are at each mode, and how many the density says there should be.

    Attributes
    ----------
    locations : array (M, d)
        The modes.
    n_draws : array (M,)
        Number of draws at each.
    observed, implied : arrays (M,)
        Share of the draws, and share of the density, at each mode; an implied share is NaN where it cannot
        be estimated.
    observed_interval, implied_interval : arrays (M, 2)
        95 % confidence intervals, each for one mode alone; NaN for the observed share of a mode that no chain
        ever enters or leaves, which is that of the starting points.
    words : tuple of str
        Per mode "too many draws", "too few draws", "as expected", "not compared" (with modes of other groups:
        within its own group the share is as expected) or "not examined".
    n_local : array (M,), optional
        Points of chains started at the mode itself on which its implied share rests too, since it has hardly
        any draws; None if there was no such mode, or the chains would have cost too much.
    """

    locations: np.ndarray
    n_draws: np.ndarray
    observed: np.ndarray
    implied: np.ndarray
    observed_interval: np.ndarray
    implied_interval: np.ndarray
    words: tuple[str, ...]
    n_local: np.ndarray | None = None

    @property
    def missing(self) -> tuple[int, ...]:
        """Modes without a single draw."""
        return tuple(np.flatnonzero(self.n_draws == 0).tolist())

    def __len__(self) -> int:
        return len(self.n_draws)

    def __repr__(self) -> str:
        return f"<ModeTable: {len(self)} modes, {len(self.missing)} without draws>"

    def __str__(self) -> str:
        rounded = [[f"{value:.4g}" for value in location] for location in self.locations]
        return "\n".join(mode_lines(self, [f"({listed(values, 3)})" for values in rounded]))

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        record = {item.name: getattr(self, item.name) for item in fields(self)}
        return as_plain(record | {"missing": self.missing})


@dataclass(frozen=True, eq=False, repr=False)
class ImportanceWeights:
    """Importance weights that give the modes of a set of draws the shares of the density.

    Attributes
    ----------
    weights : array (n,)
        Importance weights of the draws, with mean 1.
    effective_sample_size : float
        Effective sample size of the weighted draws.
    """

    weights: np.ndarray
    effective_sample_size: float

    def __repr__(self) -> str:
        size = f"effective sample size {self.effective_sample_size:.0f}"
        return f"<ImportanceWeights: {len(self.weights)} draws, {size}>"


@dataclass(frozen=True, eq=False, repr=False)
class DisplacementTable:
    """Flows of draws along the displacements of a lattice of modes, and against them.

    Attributes
    ----------
    displacements : array (V, d)
    flow : array (V, 2)
        Mean probability of moving along and against each.
    net_flow, net_flow_se : arrays (V,)
        Along minus against, positive where there are too few draws ahead, and its standard error.
    words : tuple of str
        "too few draws ahead", "too few draws behind", "as expected" or "not examined" per displacement.
    pvalue : float
        p-value of all displacements together.
    degrees_of_freedom : int
    """

    displacements: np.ndarray
    flow: np.ndarray
    net_flow: np.ndarray
    net_flow_se: np.ndarray
    words: tuple[str, ...]
    pvalue: float
    degrees_of_freedom: int

    def __repr__(self) -> str:
        return f"<DisplacementTable: {len(self.words)} displacements, p {pvalue_text(self.pvalue)}>"


def mode_lines(table: ModeTable, descriptions: Sequence[str]) -> list[str]:
    """The table as lines of text, with descriptions of the modes; at most `MAX_MODES_PRINTED` modes."""
    head = ("mode", "draws", "share of the draws", "share of the density", "", "")
    rows = [(*row, where) for row, where in zip(mode_rows(table), descriptions, strict=True)]
    lines = aligned([head, *rows[:MAX_MODES_PRINTED]], "rrrrll")
    if len(rows) > MAX_MODES_PRINTED:
        lines.append(f"  ... and {len(rows) - MAX_MODES_PRINTED} more")
    return lines


def mode_rows(table: ModeTable) -> list[tuple[str, str, str, str, str]]:
    """The modes as rows of text: number, draws, observed share, implied share, what that says."""
    rows = []
    for k, word in enumerate(table.words):
        observed = _share(table.observed[k], table.observed_interval[k])
        implied = _share(table.implied[k], table.implied_interval[k])
        words = f"missing, {word}" if table.n_draws[k] == 0 else word
        rows.append((str(k), str(table.n_draws[k]), observed, implied, words))
    return rows


def _share(share: float, interval: np.ndarray) -> str:
    if np.isnan(share):
        return "-"
    if np.isnan(interval[0]):
        return f"{share:.1%} (no interval)"
    return f"{share:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"
