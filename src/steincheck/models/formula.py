"""Targets of formulas with parameters."""

from __future__ import annotations

from typing import Any

from jax.tree_util import Partial

from ..target import Target, jax_target

# the batch shapes compiled: more than for a user's function, which compiles anew
MODEL_CHUNKS = (1, 32, 256, 2048, 8192)


def formula_target(formula: Any, parameters: tuple, dim: int, sample: Any, names: Any = None) -> Target:
    """Target of a JAX formula (parameters, x) -> log p."""
    return jax_target(Partial(formula, parameters), dim, chunks=MODEL_CHUNKS, names=names, sample=sample)
