"""JAX functions of pytrees, as BlackJAX users have them, as functions of points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from .._validation import as_numbers


class FlatFunction(NamedTuple):
    """A function of a pytree as one of points (d,)."""

    function: Callable[[Any], Any]
    dim: int
    names: tuple[str, ...]  #: of the coordinates, as ArviZ writes them


def flat_function(function: Callable[[Any], Any], example: Any) -> FlatFunction:
    """The function of points (d,), with structure and shapes of one pytree.

    Examples
    --------
    >>> flat_function(lambda tree: tree["mu"] ** 2, {"mu": 0.0, "theta": np.zeros(2)}).names
    ('mu', 'theta[0]', 'theta[1]')
    """
    with jax.enable_x64(True):
        doubles = jax.tree.map(lambda leaf: as_numbers(leaf, "example", "a pytree of real numbers"), example)
        flat, restored = ravel_pytree(doubles)
    if not flat.size:
        raise ValueError("`example` must hold at least one number")
    names: list[str] = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(doubles)[0]:
        variable = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
        indices = [",".join(map(str, index)) for index in np.ndindex(*np.shape(leaf))]
        names += [f"{variable}[{index}]" if index else variable for index in indices]
    return FlatFunction(lambda point: function(restored(point)), flat.size, tuple(names))
