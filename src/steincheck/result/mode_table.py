"""Shares of the draws and of the density at the modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..wording.numbers import mode_descriptions
from ..wording.verdict import TextTable, share_table
from .plain import Record, as_plain

ModeWord = Literal["too many draws", "too few draws", "as expected", "not examined"]


@dataclass(frozen=True, eq=False, repr=False)
class ModeTable(Record):
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
    implied_interval : array (M, 2)
        95 % confidence intervals of the implied shares, each for one mode alone.
    implied_covariance : array (M, M)
        Covariance of the estimated implied shares, NaN where these are.
    words : tuple of ModeWord
        What the net flow into each mode says at the level .05.
    """

    locations: np.ndarray
    n_draws: np.ndarray
    observed: np.ndarray
    implied: np.ndarray
    implied_interval: np.ndarray
    implied_covariance: np.ndarray
    words: tuple[ModeWord, ...]

    @property
    def error(self) -> np.ndarray:
        """Realised error (M,) of the shares of the draws: observed minus implied."""
        return self.observed - self.implied

    @property
    def error_interval(self) -> np.ndarray:
        """95 % confidence intervals (M, 2) of the errors, each for one mode alone."""
        return self.observed[:, None] - self.implied_interval[:, ::-1]

    @property
    def missing(self) -> tuple[int, ...]:
        """Modes without a single draw."""
        return tuple(np.flatnonzero(self.n_draws == 0).tolist())

    def __len__(self) -> int:
        return len(self.n_draws)

    def __repr__(self) -> str:
        return f"<ModeTable: {len(self)} modes, {len(self.missing)} without draws>"

    @property
    def text(self) -> TextTable:
        """The table in words, with the locations in the coordinates of the target."""
        names = [f"x[{k}]" for k in range(self.locations.shape[1])]
        return share_table(self, mode_descriptions(self.locations, names))

    def __str__(self) -> str:
        return "\n".join(self.text.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain(self.__dict__ | {"missing": self.missing})


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
    net_flow, net_flow_se : arrays (V,)
        Along minus against, positive where there are too few draws ahead, and its standard error.
    """

    displacements: np.ndarray
    net_flow: np.ndarray
    net_flow_se: np.ndarray

    def __repr__(self) -> str:
        return f"<DisplacementTable: {len(self.net_flow)} displacements>"


def mode_words(
    net_flow: np.ndarray, pvalues: np.ndarray, level: float, *, comparable: bool
) -> tuple[ModeWord, ...]:
    """What the net flow into each mode (M,) says at a level, by the p-values of the modes.

    No share is as expected unless the weights of all modes that matter are `comparable`.
    """

    def word(flow: float, p: float) -> ModeWord:
        if p <= level:
            return "too many draws" if flow < 0 else "too few draws"
        return "as expected" if comparable and np.isfinite(p) else "not examined"

    return tuple(word(flow, p) for flow, p in zip(net_flow, pvalues, strict=True))
