"""Targets from JAX functions of pytrees, as BlackJAX users have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from .._validation import as_numbers
from ..target import BATCH_SIZES, Batch, Target, from_jax, in_chunks, traced
from .parameters import element_names


def from_jax_pytree(log_density: Callable[[Any], Any], example: Any) -> Target:
    """Make a `Target` from a JAX function of a pytree, such as a dict of arrays.

    Parameters
    ----------
    log_density : callable
        Pytree -> scalar, written with ``jax.numpy``; on the unconstrained space, as BlackJAX takes it.
    example : pytree of arrays
        One position: it tells structure and shapes.

    Returns
    -------
    Target
        With coordinates named as ArviZ writes them; draws are read by name.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> def log_density(position):
    ...     return -0.5 * position["mu"] ** 2 - 0.5 * jnp.sum(position["theta"] ** 2)
    >>> target = sc.from_jax_pytree(log_density, {"mu": 0.0, "theta": np.zeros(2)})
    >>> target.names
    ('mu', 'theta[0]', 'theta[1]')
    """
    if not callable(log_density):
        raise TypeError(f"`log_density` must be a function, got {type(log_density).__name__}")
    with jax.enable_x64(True):
        doubles = jax.tree.map(lambda leaf: as_numbers(leaf, "example", "a pytree of real numbers"), example)
        flat, restored = ravel_pytree(doubles)
    if not flat.size:
        raise ValueError("`example` must hold at least one number")
    names = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(doubles)[0]:
        variable = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
        names += element_names(variable, np.shape(leaf))
    return from_jax(lambda point: log_density(restored(point)), flat.size, names=names)


def compiled_map(function: Callable[[Any], Any], width: int) -> Batch:
    """Batch function of a JAX function of one row of this width, in float64."""
    inner, _ = traced(function, width)
    return in_chunks(jax.jit(jax.vmap(inner)), width, BATCH_SIZES)
