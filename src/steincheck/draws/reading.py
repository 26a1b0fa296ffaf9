"""From anything that holds draws to ``Draws`` in the coordinates of a target, or to one clear error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._validation import as_count, as_numbers, check_names, check_shape, listed, listed_rows
from ..target import Target, log_density_anywhere
from ..typing import DrawsLike
from ..wording.draws import parameters_as_coordinates
from .names import positions
from .record import Draws, chain_of_rows, index_in_chain, read_container, weights_of, with_examined_axes


def as_draws(
    draws: DrawsLike,
    dim: int | None = None,
    *,
    names: Sequence[str] | None = None,
    weights: Any = None,
    log_weights: Any = None,
) -> Draws:
    """Read draws in any of the forms in which users have them.

    Parameters
    ----------
    draws : object
        Arrays (NumPy, JAX, torch) of shape (n, d) or (chain, draw, d); a list of chains, which may differ in
        length; ArviZ InferenceData or DataTree, or an xarray Dataset or DataArray; a pandas, polars or
        PyArrow table, sorted by its columns ``chain`` (``.chain``) and ``draw`` (``.draw``,
        ``.iteration``); a dict of arrays (chain, draw, ...), or (draw, ...) if one of them is 1-d or only
        this gives `dim` columns; NumPyro's MCMC; fits of CmdStanPy; results of dynesty and UltraNest, a
        Sampler of nautilus; ``Draws``. A column ``log_weight`` (``.log_weight``) of a table, or a variable
        ``log_weight`` or ``importance_weight`` of ArviZ's ``sample_stats``, becomes the weights of the draws.
        For anything else that ArviZ converts use ``arviz.convert_to_inference_data``.
    dim : int, optional
        Dimension of the target.
    names : sequence of str, optional
        Coordinates to take, in this order; by default all. Draws that have names are read by name; theta.1,
        theta[1] and ("theta", 1) are one name. Indices from 1 match those from 0, and labels such as
        theta[a] match indices in their order.
    weights, log_weights : array (n,) or (chain, draw), optional
        Importance weights p/q of draws from a density q, up to a constant, or their logarithms: at most one
        of both. ``verdict.importance_weights`` may be given as it is. Draws of weight 0 are left out.

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
    return read_as_draws(draws, dim, names=names, weights=weights, log_weights=log_weights)


def read_as_draws(
    draws: Any,
    dim: int | None = None,
    *,
    names: Sequence[str] | None = None,
    name: str = "draws",
    minimum: int = 2,
    weights: Any = None,
    log_weights: Any = None,
) -> Draws:
    """As `as_draws`, for an argument called `name` that holds at least `minimum` draws."""
    if dim is not None:
        as_count(dim, "dim")
    if names is not None:
        check_names(names, "names")
    found = _selected_columns(read_any(draws, dim, names), dim, names, name)
    if weights is not None and log_weights is not None:
        raise ValueError("`weights` and `log_weights` must not both be given")
    if log_weights is not None:
        numbers = as_numbers(log_weights, "log_weights").ravel()
        check_shape(numbers, (len(found),), "log_weights", "the logarithm of the weight of each draw")
        weights = weights_of(numbers)
    if weights is not None:
        found = replace(found, weight=weights)
    if found.weight is not None and not found.weight.all():
        kept = found.weight > 0  # a draw of weight 0 may be anywhere, and adds nothing
        if kept.sum() < minimum:
            raise ValueError(f"`weights` must be positive for at least {minimum} draws, got {kept.sum()}")
        found = replace(
            found,
            values=found.values[kept],
            chain=chain_of_rows(found.chain, kept),
            weight=found.weight[kept],
            group=chain_of_rows(found.group, kept),
            threads=None if found.threads is None else found.threads.rows(kept),
            kept=kept,
        )
    _check_draws(found, name, minimum)
    return found


def read_any(draws: Any, dim: int | None = None, names: Sequence[str] | None = None) -> Draws:
    """The draws in any form; columns are not chosen yet."""
    if isinstance(draws, Draws):
        return draws
    table = read_container(draws, dim, names)
    if table is not None:
        return table
    # chains are 2-d arrays or tables; numbers in nested lists are one array
    several = isinstance(draws, (list, tuple)) and len(draws) > 0
    if several and all(getattr(part, "ndim", 0) == 2 or hasattr(part, "columns") for part in draws):
        return stack_chains([read_any(part, dim, names) for part in draws])
    array = as_numbers(draws, "draws", "an array of real numbers with one draw per row")
    if dim == 1 and array.ndim == 2 and 1 < array.shape[1] > array.shape[0]:
        array = array[..., None]  # its rows are chains
    if array.ndim == 3:
        chain = np.repeat(np.arange(array.shape[0]), array.shape[1])
        return with_examined_axes(Draws(array.reshape(len(chain), array.shape[2]), chain))
    width = "d" if dim is None else dim
    return Draws(_rows(array, dim, "draws", f"(n, {width}) or (chain, draw, {width})"))


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


def stack_chains(tables: Sequence[Draws]) -> Draws:
    """Tables of one or more chains each below each other; columns by the names of the first."""
    first = tables[0]
    values = []
    for k, table in enumerate(tables):
        if not len(table):
            raise ValueError(f"every chain must hold draws, chain {k} of {len(tables)} has none")
        if table.weight is not None:
            raise ValueError(
                f"chains with weights must be one table with a column `chain`, got {len(tables)}"
            )
        order = list(range(table.shape[1]))
        if first.names is not None and table.names is not None:
            order = positions(table.names, first.names, "a later chain")
        if len(order) != first.shape[1]:
            got = f"{first.shape[1]} and {len(order)} columns"
            raise ValueError(f"all chains must have the same coordinates, got {got}")
        values.append(table.values[:, order])
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


def _selected_columns(table: Draws, dim: int | None, names: Sequence[str] | None, name: str) -> Draws:
    """The columns in the order of the target's `names`."""
    if table.names is not None and names is not None:
        chosen = positions(table.names, names, f"`{name}`")
        table = replace(table, values=table.values[:, chosen], names=tuple(names))
    width = table.values.shape[1]
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
    if len(bad):
        where = listed_rows(bad)
        if chain is not None:
            index = index_in_chain(chain)
            places = "; ".join(f"chain {chain[row]}, draw {index[row]}" for row in bad[:5])
            where = f"{places} (counted from 0)"
        raise ValueError(
            f"`{name}` must be finite: {len(bad)} of {len(draws)} rows contain NaN or infinity, {where}"
        )


def to_unconstrained(draws: Any, target: Target, *, name: str = "draws", **options: Any) -> Draws:
    """Draws as their owner has them, in the coordinates of the target.

    Parameters
    ----------
    draws : object
        Whatever `as_draws` reads. Draws with names are those of the model's parameters, matched by name;
        arrays without names are taken to be in the coordinates of the target already, and so are draws that
        have the names of the coordinates.
    target : Target
        The density; where it has no `unconstrain` the draws are only read. Those that are taken to be in its
        coordinates, but have a far larger density as values of the parameters, come with a warning.
    name : str
        The argument's name, for messages.
    **options
        Further arguments of `read_as_draws`: `minimum`, `weights`, `log_weights`.

    Returns
    -------
    Draws
        Values (n, d) and the names of the coordinates; chains, divergences and warnings are kept.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(
    ...     lambda u: u[:, 0] - np.exp(u[:, 0]), dim=1, names=["log tau"], constrained_names=["tau"],
    ...     constrain=np.exp, unconstrain=np.log,
    ... )
    >>> to_unconstrained({"tau": np.array([1.0, np.e])}, target).values.ravel()
    array([0., 1.])
    """
    names = target.constrained_names
    coordinates = tuple(target.names or ())
    if target.unconstrain is None or names is None:
        return read_as_draws(draws, target.dim, names=target.names, name=name, **options)
    read = read_any(draws).names
    if read is not None and not (coordinates and set(coordinates) <= set(read)):
        constrained = read_as_draws(draws, len(names), names=names, name=name, **options)
        values = np.asarray(target.unconstrain(constrained.values))
        return replace(constrained, values=values, names=coordinates or None)
    taken = read_as_draws(draws, target.dim, names=target.names, name=name, **options)
    if read is not None and not set(coordinates) <= set(names):
        return taken  # the names say what is meant
    parameters, gain = read_as_parameters(taken.values, target)
    # draws of the density have log densities within about d/2 of its maximum: draws that were read rightly
    # gain no more than that, in the coordinates that the other reading changes
    if not gain > 2.0 + 0.5 * len(parameters):
        return taken
    return replace(taken, warnings=(*taken.warnings, parameters_as_coordinates(name, parameters, gain)))


def read_as_parameters(x: np.ndarray, target: Target) -> tuple[tuple[str, ...], float]:
    """What if draws (n, d) that were read as coordinates of the target are values of its parameters?

    The parameters that differ between the readings, none if there is no other reading, and the gain of the
    median log density.
    """
    names = target.constrained_names
    if target.unconstrain is None or names is None or len(names) != target.dim:
        return (), 0.0
    some = x[:: -(-len(x) // 200)]  # enough for medians
    try:
        with np.errstate(all="ignore"):
            other = np.asarray(target.unconstrain(some), dtype=np.float64)
    except Exception:  # outside the support a user's function may raise anything
        other = np.full_like(some, np.nan)
    if not np.isfinite(other).all():
        return (), 0.0
    changed = np.any(np.abs(other - some) > 1e-9 * np.maximum(np.abs(some), 1.0), axis=0)
    here, there = (np.median(log_density_anywhere(target.log_density, part)) for part in (some, other))
    gain = float(there - here) if np.isfinite(there) else 0.0
    return tuple(names[k] for k in np.flatnonzero(changed).tolist()), gain
