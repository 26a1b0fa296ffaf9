"""The record that carries draws through the package."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._validation import (
    as_count,
    as_numbers,
    as_stored,
    as_texts,
    as_whole,
    check_names,
    check_shape,
    listed,
    shown,
)


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """Draws, the chain of each, and the names of the coordinates; made by ``as_draws``.

    Arrays are kept as they are, without a copy. Draws of several chains stand chain after chain: interleaved
    ones are refused and not sorted, since results speak of draws by their rows.

    Attributes
    ----------
    values : array (n, d)
        The draws, chain after chain, each in its order.
    chain : array (n,) of int or None
        The chain of each draw; None if no chains are known.
    names : tuple of str or None
        Coordinate names.
    divergences : int or None
        Divergent transitions, where the source tells.
    warnings : tuple of str
        What the user should know about how the draws were read.
    axes_swapped : bool
        Only draws of successive chains are correlated: the array seems to be (draw, chain, d).
    weight : array (n,) or None
        The importance weight of each draw, of mean 1; None if all are equal. Draws of weight 0 are left out.
    group : array (n,) of int or None
        Draws of one group may depend on each other in any way, groups are independent, as are the threads of
        a run of nested sampling. None if no groups are known.
    kept : array (N,) of bool or None
        Which draws of the source have a positive weight; None if all have.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> draws = sc.as_draws(np.random.default_rng(0).normal(size=(4, 250, 2)))
    >>> draws.shape, draws.n_chains, str(draws)
    ((1000, 2), 4, '4 x 250 draws')
    """

    values: np.ndarray  #: (n, d) float64; chain after chain, each in its order
    chain: np.ndarray | None = None  #: (n,) of int, 0, 1, ... in order; None if no chains are known
    names: tuple[str, ...] | None = None  #: names of the coordinates
    divergences: int | None = None  #: divergent transitions, where the source tells
    warnings: tuple[str, ...] = ()  #: what the user should know about how the draws were read
    axes_swapped: bool = False  #: whether an array (draw, chain, d) seems to have been read as chains
    weight: np.ndarray | None = None  #: (n,) importance weights, of mean 1; None if all are equal
    group: np.ndarray | None = None  #: (n,) of int; draws of different groups are independent
    kept: np.ndarray | None = None  #: (N,) of bool, draws of the source with a positive weight

    def __post_init__(self) -> None:
        """Shapes and order; that all are finite is checked where draws are read for a test."""
        values = as_stored(self.values, "values")
        if values.ndim != 2:
            raise ValueError(f"`values` must have shape (n, d), one draw per row, got shape {values.shape}")
        object.__setattr__(self, "values", values)
        if self.chain is not None:
            chain = as_whole(self.chain, "chain")
            check_shape(chain, (len(values),), "chain", "the chain of each draw")
            _check_order(chain)
            object.__setattr__(self, "chain", chain)
        if self.names is not None:
            check_names(self.names, "names")
            object.__setattr__(self, "names", tuple(self.names))
            if len(self.names) != values.shape[1]:
                raise ValueError(f"`names` must name all {values.shape[1]} columns, got {shown(self.names)}")
        if self.divergences is not None:
            as_count(self.divergences, "divergences", minimum=0, maximum=sys.maxsize)
        if self.weight is not None:
            object.__setattr__(self, "weight", _normalised_weights(self.weight, len(values)))
        if self.group is not None:
            group = as_whole(self.group, "group")
            check_shape(group, (len(values),), "group", "the group of each draw")
            object.__setattr__(self, "group", np.unique(group, return_inverse=True)[1])
        object.__setattr__(self, "warnings", as_texts(self.warnings, "warnings"))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)"""
        return self.values.shape[0], self.values.shape[1]

    @property
    def n_chains(self) -> int:
        """Number of chains, 0 if no chains are known."""
        return 0 if self.chain is None or not len(self.chain) else int(self.chain[-1]) + 1

    @property
    def lengths(self) -> np.ndarray:
        """(n_chains,) number of draws per chain."""
        return np.zeros(0, dtype=int) if self.chain is None else np.bincount(self.chain)

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __str__(self) -> str:
        lengths = self.lengths
        if not len(lengths):
            return f"{len(self)} draws"
        if np.ptp(lengths) == 0:
            return f"{len(lengths)} x {lengths[0]} draws"
        return f"{len(self)} draws of {len(lengths)} chains"

    def __repr__(self) -> str:
        parts = [str(self), f"d = {self.shape[1]}"]
        if self.names is not None:
            parts.append(f"names: {listed(self.names, 3)}")
        return f"<Draws: {', '.join(parts)}>"


def _normalised_weights(weight: Any, n: int) -> np.ndarray:
    """Weights (n,) divided by their mean; an error if they are no weights."""
    numbers = as_numbers(getattr(weight, "weights", weight), "weights").ravel()
    check_shape(numbers, (n,), "weights", "the weight of each draw")
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        found = f"{numbers[bad[0]]:g} at row {bad[0]}"
        raise ValueError(f"`weights` must be finite and not negative, got {found}")
    if not numbers.any():
        raise ValueError(f"`weights` must not be 0 for all draws, got {n} zeros")
    relative = numbers / numbers.max()  # of which the mean is finite
    mean = relative.mean() * numbers.max()
    return numbers if abs(mean - 1) < 1e-12 else np.asarray(relative / relative.mean())


def _check_order(chain: np.ndarray) -> None:
    """Raise unless chains 0, 1, ... follow each other."""
    steps = np.diff(chain, prepend=0)
    wrong = np.flatnonzero((steps < 0) | (steps > (np.arange(len(chain)) > 0)))
    if len(wrong):
        row = wrong[0]
        before = f" after {chain[row - 1]}" if row else ""
        raise ValueError(
            f"`chain` must be 0, 1, ... with the draws of each chain together, got {chain[row]}{before} at "
            f"row {row}; interleaved draws are sorted by np.argsort(chain, kind='stable')"
        )


def chain_of_rows(chain: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """The chains, or groups, of some of the draws, numbered anew."""
    return None if chain is None else np.unique(chain[rows], return_inverse=True)[1]


def index_in_chain(chain: np.ndarray) -> np.ndarray:
    """The place of each draw within its chain, from 0; `chain` (n,) are labels in ascending order.

    Examples
    --------
    >>> index_in_chain(np.array([0, 0, 0, 1, 1]))
    array([0, 1, 2, 0, 1])
    """
    return np.arange(len(chain)) - np.searchsorted(chain, chain)
