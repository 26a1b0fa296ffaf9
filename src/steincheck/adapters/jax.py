"""Rows of numbers as values of variables, and functions of rows, written with JAX, as ones of batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ..target import BATCH_SIZES, Batch, in_chunks, traced


def compiled_map(function: Callable[[Any], Any], width: int) -> Batch:
    """Batch function of a JAX function of one row of this width, in float64."""
    inner, _ = traced(function, width)
    return in_chunks(jax.jit(jax.vmap(inner)), width, BATCH_SIZES)


def split(row: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """One row, an array of NumPy or JAX, as the values of variables.

    Examples
    --------
    >>> split(np.arange(3.0), {"mu": (), "w": (2,)})
    {'mu': array(0.), 'w': array([1., 2.])}
    """
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])
    parts = zip(shapes.items(), np.concatenate([[0], ends]), ends, strict=False)
    return {name: row[start:end].reshape(shape) for (name, shape), start, end in parts}
