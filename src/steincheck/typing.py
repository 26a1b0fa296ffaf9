"""Types of arguments, for annotations of functions that pass them on to steincheck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ._validation import RandomSource
from .result import Modes

__all__ = ["BoundsLike", "DrawsLike", "ModesLike", "RandomSource"]


class SupportsArray(Protocol):
    """An array of NumPy, JAX or torch, an xarray DataArray, `Draws`: what NumPy takes for an array."""

    def __array__(self) -> np.ndarray: ...


class HasColumns(Protocol):
    """A table of pandas, polars or PyArrow."""

    @property
    def columns(self) -> Any:
        """The columns or their names."""


class HasSamples(Protocol):
    """NumPyro's MCMC."""

    @property
    def get_samples(self) -> Any:
        """The method that returns the draws."""


class HasFrame(Protocol):
    """A fit of CmdStanPy."""

    @property
    def draws_pd(self) -> Any:
        """The method that returns the draws as a data frame."""


# NumPy's ArrayLike takes a single number and text too
Number = float | SupportsArray
Numbers = SupportsArray | Sequence[Number | Sequence[Number | Sequence[Number]]]

#: What `as_draws` takes: arrays and nested lists of numbers, lists of chains, mappings (ArviZ has such),
#: tables, NumPyro's MCMC, fits of CmdStanPy, `Draws`.
DrawsLike = Numbers | Mapping[Any, Any] | HasColumns | Sequence[HasColumns] | HasSamples | HasFrame

#: `Modes`, locations (M, d), or a tuple of locations and covariances (M, d, d).
ModesLike = Modes | Numbers | tuple[Numbers, Numbers]

#: A pair (low, high), or one such pair per coordinate.
BoundsLike = SupportsArray | Sequence[Number | Sequence[Number]]
