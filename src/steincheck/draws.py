"""At the door: draws become a float64 matrix (n, d), seeds become generators, or there is a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_draws(x: Any, dim: int, *, minimum: int = 2, name: str = "x") -> np.ndarray:
    """Validate draws and return them as a float64 array (n, dim).

    Parameters
    ----------
    x : array-like (n, dim)
        One draw a row; a 1-d array is accepted when ``dim`` is 1.
    dim : int
        Dimension of the target.
    minimum : int
        Fewest draws allowed.
    name : str
        The argument's name, for messages.

    Examples
    --------
    >>> as_draws([1, 2, 3], dim=1).shape
    (3, 1)
    """
    try:
        array = np.asarray(x)
        if array.dtype.kind not in "biuf":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`{name}` must be an array of real numbers with one draw a row, got {_describe(x)}"
        ) from None
    if array.ndim == 1:
        if dim != 1:
            raise ValueError(
                f"`{name}` must have shape (n, {dim}), got the 1-d shape {array.shape}; one draw is a row: "
                f"use x.reshape(-1, {dim}) for draws stored end to end, x[None, :] for a single draw"
            )
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != dim:
        hint = "; it looks transposed, try x.T" if array.ndim == 2 and array.shape[0] == dim else ""
        raise ValueError(
            f"`{name}` must have shape (n, {dim}) as the target has dim = {dim}, got {array.shape}{hint}"
        )
    if len(array) < minimum:
        raise ValueError(f"`{name}` must hold at least {minimum} draws, got {len(array)}")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise ValueError(
            f"`{name}` must be finite: {len(bad)} of {len(array)} draws hold NaN or infinity, "
            f"rows {bad[:10].tolist()}"
        )
    return array


def as_generator(rng: Any) -> np.random.Generator:
    """A Generator from an int, a Generator or None."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise TypeError(f"`rng` must be a non-negative int, a numpy Generator or None, got {rng!r}")


def _describe(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"an array of dtype {x.dtype}"
    return f"a {type(x).__name__}" + (f" ({x!r})" if isinstance(x, (str, bytes)) and len(x) < 40 else "")
