"""From anything that holds draws to ``Draws``, or to one clear error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._series import index_in_chain
from .._validation import as_count, as_host, as_numbers, check_names, listed, listed_rows
from ..typing import DrawsLike
from .containers import RawDraws, examine_axes, read_container
from .names import canonical_name, close_names, positions, variable_of
from .record import Draws

TRANSPOSED = "; it looks transposed: one row per point is expected"


def as_draws(
    draws: DrawsLike,
    dim: int | None = None,
    *,
    names: Sequence[str] | None = None,
    var_names: Sequence[str] | None = None,
) -> Draws:
    """Read draws in any of the forms in which users have them.

    Parameters
    ----------
    draws : object
        Arrays (NumPy, JAX, torch) of shape (n, d) or (chain, draw, d); a list of chains, which may differ in
        length; ArviZ InferenceData or DataTree, an xarray Dataset or DataArray, whose labels name the
        columns if they are text; a pandas, polars or PyArrow table, sorted by its columns ``chain``
        (``.chain``) and ``draw`` (``.draw``, ``.iteration``); a dict of arrays (draw, ...) or
        (chain, draw, ...); NumPyro's MCMC; fits of CmdStanPy and PyStan; ``Draws``.
    dim : int, optional
        Dimension of the target.
    names : sequence of str, optional
        Names of the target's coordinates. Draws that have names are read by name; theta.1, theta[1] and
        ("theta", 1) are one name, and indices from 1 match those from 0.
    var_names : sequence of str, optional
        Variables or coordinates to take, in this order.

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
    return read_as_draws(draws, dim, names=names, var_names=var_names)


def read_as_draws(
    draws: Any,
    dim: int | None = None,
    *,
    names: Sequence[str] | None = None,
    var_names: Sequence[str] | None = None,
    name: str = "draws",
    minimum: int = 2,
) -> Draws:
    """As `as_draws`, for an argument called `name` that holds at least `minimum` draws."""
    check_selection(dim, names, var_names)
    if isinstance(draws, Draws):
        own = None if draws.names is None else list(draws.names)
        table = RawDraws(
            draws.values, own, draws.chain, draws.divergences, list(draws.warnings), draws.axes_swapped
        )
    else:
        table = read_any(draws, dim, names, name)
    return select_columns(table, dim, names, var_names, name, minimum)


def check_selection(dim: Any, names: Any, var_names: Any) -> None:
    """Raise unless these can say which columns are wanted; None stands for all."""
    if dim is not None:
        as_count(dim, "dim")
    if names is not None:
        check_names(names, "names")
    if var_names is not None and not isinstance(var_names, str):
        check_names(var_names, "var_names")


def select_columns(
    table: RawDraws,
    dim: int | None,
    names: Sequence[str] | None,
    var_names: Sequence[str] | None,
    name: str,
    minimum: int = 2,
) -> Draws:
    """Choose the columns of a table and check them."""
    values, own = _chosen(table, names, var_names, f"`{name}`")
    if not values.shape[1]:
        raise ValueError(f"`{name}` must have at least one coordinate")
    if names is not None and len(names) != values.shape[1] and dim != len(names):
        raise ValueError(
            f"`names` must name every column of `{name}`, {values.shape[1]}, got {listed(names)}"
        )
    if dim is not None and values.shape[1] != dim:
        named = f" ({listed(own)}); select columns by the target's `names`, or by `var_names`" if own else ""
        raise ValueError(
            f"`{name}` must have one column per coordinate, {dim} as the target's dim, got {values.shape[1]}"
            f"{named}"
        )
    if len(values) < minimum:
        raise ValueError(f"`{name}` must hold at least {minimum} draws, got {len(values)}")
    _check_chains(values, table.chain, name)
    labels = tuple(names) if names is not None else (tuple(own) if own else None)
    warnings = tuple(table.warnings)
    return Draws(values, table.chain, labels, table.divergences, warnings, table.axes_swapped)


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
    if array.ndim == 1:
        array = _column(array, dim, name)
    if array.ndim != 2 or array.shape[1] != dim:
        hint = TRANSPOSED if array.ndim == 2 and array.shape[0] == dim else ""
        raise ValueError(
            f"`{name}` must have shape (n, {dim}) as the target has dim = {dim}, got {array.shape}{hint}"
        )
    if len(array) < minimum:
        raise ValueError(f"`{name}` must hold at least {minimum} draws, got {len(array)}")
    _check_chains(array, None, name)
    return array


def _column(array: np.ndarray, dim: int, name: str) -> np.ndarray:
    if dim != 1:
        raise ValueError(
            f"`{name}` must have shape (n, {dim}), one point per row, got the 1-d shape {array.shape}; a "
            f"single point has shape (1, {dim})"
        )
    return array[:, None]


def read_any(draws: Any, dim: int | None, names: Sequence[str] | None, name: str) -> RawDraws:
    """A table of the draws in any form; columns are not chosen yet."""
    table = read_container(draws, names, dim, name)
    if table is not None:
        return table
    chains = _chain_list(draws, dim)
    if chains is not None:
        return stacked([read_any(part, dim, names, f"{name}[{k}]") for k, part in enumerate(chains)])
    array = as_numbers(draws, name, "an array of real numbers with one draw per row")
    rows_are_chains = dim == 1 and array.ndim == 2 and 1 < array.shape[1] > array.shape[0]
    if array.ndim == 3 or rows_are_chains:
        return _from_chain_array(array[..., None] if array.ndim == 2 else array, name)
    if array.ndim == 1 and dim is None:
        array = array[:, None]
    if dim is None and array.ndim == 2:
        return RawDraws(array)
    if dim is None:
        raise ValueError(f"`{name}` must have shape (n, d) or (chain, draw, d), got {array.shape}")
    return RawDraws(_shaped(array, dim, name))


def _shaped(array: np.ndarray, dim: int, name: str) -> np.ndarray:
    if array.ndim == 1:
        return _column(array, dim, name)
    if array.ndim != 2 or array.shape[1] != dim:
        hint = TRANSPOSED if array.ndim == 2 and array.shape[0] == dim else ""
        raise ValueError(
            f"`{name}` must have shape (n, {dim}) or (chain, draw, {dim}) as the target has dim = {dim}, "
            f"got {array.shape}{hint}"
        )
    return array


def _chain_list(draws: Any, dim: int | None) -> list[Any] | None:
    """The chains if `draws` is a list of them, else None: numbers in nested lists are an array."""
    if isinstance(draws, np.ndarray) and draws.dtype == object and draws.ndim == 1:
        draws = list(draws)
    if not isinstance(draws, (list, tuple)) or not draws:
        return None
    if all(hasattr(part, "columns") for part in draws):
        return list(draws)
    try:
        shapes = [np.shape(as_host(part)) for part in draws]
    except ValueError:
        return None
    flat_chains = dim in (None, 1) and all(len(shape) == 1 for shape in shapes) and len(set(shapes)) > 1
    if all(len(shape) == 2 for shape in shapes) or flat_chains:
        return list(draws)
    return None


def stacked(tables: Sequence[RawDraws]) -> RawDraws:
    """Tables of one or more chains each below each other; columns by the names of the first."""
    columns = tables[0].names
    values = []
    chains = []
    count = 0
    for k, table in enumerate(tables):
        own = table.values
        if not len(own):
            raise ValueError(f"every chain must hold draws, chain {k} of {len(tables)} has none")
        if columns is not None and table.names is not None and table.names != columns:
            own = own[:, positions(table.names, columns, "a later chain")]
        if own.shape[1] != tables[0].values.shape[1]:
            raise ValueError(
                "all chains must have the same coordinates, got "
                f"{tables[0].values.shape[1]} and {own.shape[1]} columns"
            )
        values.append(own)
        chains.append(count + (np.zeros(len(own), dtype=int) if table.chain is None else table.chain))
        count = int(chains[-1][-1]) + 1
    known = [table.divergences for table in tables if table.divergences is not None]
    return RawDraws(
        np.concatenate(values),
        columns,
        np.concatenate(chains),
        sum(known) if known else None,
        list(dict.fromkeys(text for table in tables for text in table.warnings)),
    )


def _from_chain_array(array: np.ndarray, name: str) -> RawDraws:
    n_chains, length, dim = array.shape
    table = RawDraws(array.reshape(n_chains * length, dim), None, np.repeat(np.arange(n_chains), length))
    return examine_axes(table, name)


def _chosen(
    table: RawDraws, names: Sequence[str] | None, var_names: Sequence[str] | None, what: str
) -> tuple[np.ndarray, list[str] | None]:
    """The columns asked for by `var_names`, then in the order of the target's `names`."""
    values = table.values
    own = table.names
    if own is None:
        if var_names is not None:
            raise ValueError(f"`var_names` selects by name, but {what} has no names")
        return values, None
    if var_names is not None:
        picked = _picked(own, [var_names] if isinstance(var_names, str) else var_names, what)
        values = values[:, picked]
        own = [own[k] for k in picked]
    if names is not None:
        order = positions(own, names, what)
        return values[:, order], list(names)
    return values, own


def _picked(columns: Sequence[str], var_names: Sequence[str], what: str) -> list[int]:
    picked = []
    for wanted in map(canonical_name, var_names):
        found = [k for k, column in enumerate(columns) if wanted in (column, variable_of(column))]
        if not found:
            raise ValueError(
                f"`var_names`: {what} has no variable {wanted!r}{close_names(wanted, columns)}; "
                f"its columns are {listed(columns)}"
            )
        picked += found
    return picked


def _check_chains(values: np.ndarray, chain: np.ndarray | None, name: str) -> None:
    """Raise if a chain is too short or a draw is not finite."""
    if chain is not None:
        lengths = np.bincount(chain)
        if lengths.min() < 2:
            raise ValueError(
                f"`{name}` must hold at least 2 draws per chain, chain {int(np.argmin(lengths))} of "
                f"{len(lengths)} has {lengths.min()}; independent draws go together, in shape (n, d)"
            )
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if not len(bad):
        return
    where = listed_rows(bad)
    if chain is not None:
        index = index_in_chain(chain)
        where = "; ".join(f"chain {chain[row]}, draw {index[row]}" for row in bad[:5]) + " (counted from 0)"
    raise ValueError(
        f"`{name}` must be finite: {len(bad)} of {len(values)} draws contain NaN or infinity, {where}"
    )
