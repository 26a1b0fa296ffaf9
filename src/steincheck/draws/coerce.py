"""From anything that holds draws to ``Draws``, or to one clear error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._series import index_in_chain
from .._validation import as_count, as_numbers, check_names, listed, listed_rows
from ..typing import DrawsLike
from .containers import read_container, with_examined_axes
from .names import positions
from .record import Draws


def as_draws(draws: DrawsLike, dim: int | None = None, *, names: Sequence[str] | None = None) -> Draws:
    """Read draws in any of the forms in which users have them.

    Parameters
    ----------
    draws : object
        Arrays (NumPy, JAX, torch) of shape (n, d) or (chain, draw, d); a list of chains, which may differ in
        length; ArviZ InferenceData or DataTree, or an xarray Dataset or DataArray; a pandas, polars or
        PyArrow table, sorted by its columns ``chain`` (``.chain``) and ``draw`` (``.draw``,
        ``.iteration``); a dict of arrays (chain, draw, ...), or (draw, ...) if one of them is 1-d or only
        this gives `dim` columns; NumPyro's MCMC; fits of CmdStanPy; ``Draws``. A column ``log_weight``
        (``.log_weight``) of a table becomes the weights of the draws. For anything else that ArviZ converts
        use ``arviz.convert_to_inference_data``.
    dim : int, optional
        Dimension of the target.
    names : sequence of str, optional
        Coordinates to take, in this order; by default all. Draws that have names are read by name; theta.1,
        theta[1] and ("theta", 1) are one name. Indices from 1 match those from 0, and labels such as
        theta[a] match indices in their order.

    Returns
    -------
    Draws
        At least two. Columns of the sampler (``lp__``, ``divergent__``, ...) are not coordinates; divergences
        are counted. The scale is that of the source: draws of Stan, PyMC and NumPyro are on the constrained
        scale.

    Examples
    --------
    >>> as_draws({"tau": np.ones((4, 100)), "mu": np.zeros((4, 100))}, names=["mu", "tau"]).values[0]
    array([0., 1.])
    """
    return read_as_draws(draws, dim, names=names)


def read_as_draws(
    draws: Any,
    dim: int | None = None,
    *,
    names: Sequence[str] | None = None,
    name: str = "draws",
    minimum: int = 2,
) -> Draws:
    """As `as_draws`, for an argument called `name` that holds at least `minimum` draws."""
    if dim is not None:
        as_count(dim, "dim")
    if names is not None:
        check_names(names, "names")
    found = _selected_columns(read_any(draws, dim, names, name), dim, names, name)
    _check_draws(found, name, minimum)
    return found


def read_any(draws: Any, dim: int | None, names: Sequence[str] | None, name: str) -> Draws:
    """The draws in any form; columns are not chosen yet."""
    if isinstance(draws, Draws):
        return draws
    table = read_container(draws, dim, names, name)
    if table is not None:
        return table
    if _is_chain_list(draws):
        return stacked([read_any(part, dim, names, f"{name}[{k}]") for k, part in enumerate(draws)])
    array = as_numbers(draws, name, "an array of real numbers with one draw per row")
    if dim == 1 and array.ndim == 2 and 1 < array.shape[1] > array.shape[0]:
        array = array[..., None]  # its rows are chains
    if array.ndim == 3:
        chain = np.repeat(np.arange(array.shape[0]), array.shape[1])
        return with_examined_axes(Draws(array.reshape(len(chain), array.shape[2]), chain), name)
    width = "d" if dim is None else dim
    return Draws(_rows(array, dim, name, f"(n, {width}) or (chain, draw, {width})"))


def as_matrix(x: Any, dim: int, *, minimum: int = 2, name: str = "x") -> np.ndarray:
    """Validate points and return them as a float64 array (n, dim), without chains and names.

    Parameters
    ----------
    x : array-like (n, dim)
        One point per row; a 1-d array is accepted when ``dim`` is 1.
    dim : int
        Dimension of the target.
    minimum : int
        Fewest points allowed.
    name : str
        The argument's name, for messages.

    Examples
    --------
    >>> as_matrix([1, 2, 3], dim=1).shape
    (3, 1)
    """
    array = as_numbers(x, name, "an array of real numbers with one draw per row")
    found = Draws(_rows(array, dim, name, f"(n, {dim})"))
    _check_draws(found, name, minimum)
    return found.values


def _rows(array: np.ndarray, dim: int | None, name: str, shapes: str) -> np.ndarray:
    """An array (n, dim), or an error that says which `shapes` are possible."""
    if array.ndim == 1 and dim in (None, 1):
        return array[:, None]
    if array.ndim == 2 and dim in (None, array.shape[1]):
        return array
    hint = f"; a single point has shape (1, {dim})" if array.ndim == 1 else ""
    if array.ndim == 2 and array.shape[0] == dim:
        hint = "; it looks transposed"
    raise ValueError(f"`{name}` must have shape {shapes}, one point per row, got {array.shape}{hint}")


def _is_chain_list(draws: Any) -> bool:
    """Whether `draws` is a list of 2-d arrays or of tables; numbers in nested lists are an array."""
    if not isinstance(draws, (list, tuple)) or not draws:
        return False
    return all(getattr(part, "ndim", 0) == 2 or hasattr(part, "columns") for part in draws)


def stacked(tables: Sequence[Draws]) -> Draws:
    """Tables of one or more chains each below each other; columns by the names of the first."""
    first = tables[0]
    for k, table in enumerate(tables):
        if not len(table):
            raise ValueError(f"every chain must hold draws, chain {k} of {len(tables)} has none")
        if table.weight is not None:
            raise ValueError(
                f"chains with weights must be one table with a column `chain`, got {len(tables)}"
            )
    values = [_columns_of(table, first) for table in tables]
    chains = [np.zeros(len(table), dtype=int) if table.chain is None else table.chain for table in tables]
    starts = np.cumsum([0, *(chain[-1] + 1 for chain in chains[:-1])])
    known = [table.divergences for table in tables if table.divergences is not None]
    warnings = dict.fromkeys(text for table in tables for text in table.warnings)
    return Draws(
        np.concatenate(values),
        np.concatenate([start + chain for start, chain in zip(starts, chains, strict=True)]),
        first.names,
        sum(known) if known else None,
        tuple(warnings),
    )


def _columns_of(table: Draws, first: Draws) -> np.ndarray:
    """The draws of a table with the columns of the first one."""
    values = table.values
    if first.names is not None and table.names is not None:
        values = values[:, positions(table.names, first.names, "a later chain")]
    if values.shape[1] != first.shape[1]:
        raise ValueError(
            f"all chains must have the same coordinates, got {first.shape[1]} and {values.shape[1]} columns"
        )
    return values


def _selected_columns(table: Draws, dim: int | None, names: Sequence[str] | None, name: str) -> Draws:
    """The columns in the order of the target's `names`."""
    if table.names is not None and names is not None:
        chosen = positions(table.names, names, f"`{name}`")
        table = replace(table, values=table.values[:, chosen], names=tuple(names))
    width = table.shape[1]
    if not width:
        raise ValueError(f"`{name}` must have at least one coordinate")
    expected = dim if names is None else len(names)
    if expected is not None and width != expected:
        named = f" ({listed(table.names)}); select columns by the target's `names`" if table.names else ""
        rule = "coordinate" if names is None else "name of `names`"
        raise ValueError(f"`{name}` must have one column per {rule}, {expected}, got {width}{named}")
    return table if names is None else replace(table, names=tuple(names))


def _check_draws(draws: Draws, name: str, minimum: int) -> None:
    """Raise if there are too few draws, a chain is too short or a draw is not finite."""
    if len(draws) < minimum:
        raise ValueError(f"`{name}` must hold at least {minimum} draws, got {len(draws)}")
    chain = draws.chain
    if chain is not None and draws.lengths.min() < 2:
        shortest = int(np.argmin(draws.lengths))
        raise ValueError(
            f"`{name}` must hold at least 2 draws per chain, chain {shortest} of {draws.n_chains} has "
            f"{draws.lengths[shortest]}; independent draws go together, in shape (n, d)"
        )
    bad = np.flatnonzero(~np.isfinite(draws.values).all(axis=1))
    if not len(bad):
        return
    where = listed_rows(bad)
    if chain is not None:
        index = index_in_chain(chain)
        where = "; ".join(f"chain {chain[row]}, draw {index[row]}" for row in bad[:5]) + " (counted from 0)"
    raise ValueError(
        f"`{name}` must be finite: {len(bad)} of {len(draws)} draws contain NaN or infinity, {where}"
    )
