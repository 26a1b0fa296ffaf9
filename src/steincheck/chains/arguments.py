"""The arguments of the functions of chains: they become clean arrays, or there is one clear error."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import as_numbers, shown

MAX_MAGNITUDE = 1e140  # the sum of the squares of more draws than fit into memory is finite


def as_columns(values: Any, name: str) -> np.ndarray:
    """An array (n, k) of finite numbers, one row per draw."""
    array = as_numbers(values, name, "an array of real numbers with one draw per row")
    if array.ndim != 2 or not array.size:
        raise ValueError(f"`{name}` must have shape (n, k), neither of them 0, got {array.shape}")
    _check_finite(array, name)
    return array


def as_series(values: Any, name: str, n: int | None = None) -> np.ndarray:
    """An array (n,) of finite numbers, one per draw."""
    array = as_numbers(values, name, "an array with one real number per draw")
    if array.ndim != 1 or not array.size or n not in (None, len(array)):
        length = "n" if n is None else n
        raise ValueError(f"`{name}` must have shape ({length},), one number per draw, got {array.shape}")
    _check_finite(array, name)
    return array


def as_chain(chain: Any, n: int | None = None, *, minimum: int = 1) -> np.ndarray:
    """The chain (n,) of each draw as integers 0, 1, ... in order, with at least `minimum` draws each."""
    rule = "the chain of each draw, 0, 1, ... in order"
    array = as_numbers(chain, "chain", rule)
    if array.ndim != 1 or not array.size or n not in (None, len(array)):
        length = "n" if n is None else n
        raise ValueError(f"`chain` must have shape ({length},), {rule}, got shape {array.shape}")
    if not np.isfinite(array).all() or array[0] != 0 or not np.isin(np.diff(array), (0, 1)).all():
        raise ValueError(f"`chain` must be {rule}, got {shown(chain)}")
    labels = array.astype(int)
    shortest = int(np.bincount(labels).min())
    if shortest < minimum:
        raise ValueError(f"`chain` must give every chain at least {minimum} draws, got one with {shortest}")
    return labels


def _check_finite(array: np.ndarray, name: str) -> None:
    bad = ~(np.abs(array) <= MAX_MAGNITUDE)
    if bad.any():
        raise ValueError(
            f"`{name}` must be finite and of size at most {MAX_MAGNITUDE:g}, got {array[bad][:5].tolist()}"
        )
