"""From anything that holds draws to ``Draws`` in the coordinates of a target, or to one clear error.

Objects of other packages are recognised by what they offer; none of the packages is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._series import index_in_chain, normal_scores
from .._validation import as_count, as_host, as_numbers, check_names, listed, listed_rows
from ..target import Target, log_density_anywhere
from ..typing import DrawsLike
from ..wording.draws import doubtful_axes, parameters_as_coordinates
from .names import canonical_name, element_names, positions, variable_of
from .record import Draws, chain_of_rows

# columns of tables that are no coordinates; points before and underscores around the word do not matter
ROLES = ("chain", "iteration", "iter", "draw", "log_weight", "divergent")


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
    found = _selected_columns(read_any(draws, dim, names, name), dim, names, name)
    if weights is not None and log_weights is not None:
        raise ValueError("`weights` and `log_weights` must not both be given")
    if log_weights is not None:
        weights = _weights(as_numbers(log_weights, "log_weights"))
    if weights is not None:
        found = replace(found, weight=weights)
    if found.weight is not None:
        found = _with_positive_weights(found, found.weight > 0)
    _check_draws(found, name, minimum)
    return found


def _with_positive_weights(draws: Draws, kept: np.ndarray) -> Draws:
    """The draws that are `kept` (n,): one of weight 0 may be anywhere, and adds nothing."""
    if kept.all() or draws.weight is None:
        return draws
    return replace(
        draws,
        values=draws.values[kept],
        chain=chain_of_rows(draws.chain, kept),
        weight=draws.weight[kept],
        group=chain_of_rows(draws.group, kept),
        kept=kept,
    )


def read_any(draws: Any, dim: int | None, names: Sequence[str] | None, name: str) -> Draws:
    """The draws in any form; columns are not chosen yet."""
    if isinstance(draws, Draws):
        return draws
    table = _read_container(draws, dim, names, name)
    if table is not None:
        return table
    if _is_chain_list(draws):
        return stack_chains([read_any(part, dim, names, f"{name}[{k}]") for k, part in enumerate(draws)])
    array = as_numbers(draws, name, "an array of real numbers with one draw per row")
    if dim == 1 and array.ndim == 2 and 1 < array.shape[1] > array.shape[0]:
        array = array[..., None]  # its rows are chains
    if array.ndim == 3:
        chain = np.repeat(np.arange(array.shape[0]), array.shape[1])
        return _with_examined_axes(Draws(array.reshape(len(chain), array.shape[2]), chain), name)
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


def stack_chains(tables: Sequence[Draws]) -> Draws:
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


def _read_container(draws: Any, dim: int | None, names: Sequence[str] | None, name: str) -> Draws | None:
    """The draws of an object of another package, or None if it is not such an object."""
    nested = _from_nested_sampling(draws)
    if nested is not None:
        return nested
    if hasattr(draws, "posterior") or hasattr(draws, "data_vars"):
        return _from_arviz(draws, name)
    if hasattr(draws, "dims") and hasattr(draws, "to_dataset"):
        return _from_arviz(draws.to_dataset(name=draws.name or "x"), name)
    if callable(getattr(draws, "get_samples", None)):
        return _from_numpyro(draws, name)
    if callable(getattr(draws, "draws_pd", None)):
        return _from_frame(draws.draws_pd(), name)  # of CmdStanPy
    if isinstance(draws, Mapping):
        return _from_mapping(draws, dim, names, name)
    if hasattr(draws, "columns"):
        return _from_frame(draws, name)
    return None


def _from_nested_sampling(draws: Any) -> Draws | None:
    """Results of dynesty and UltraNest, or a Sampler of nautilus, with their weights; None otherwise.

    The threads of dynesty, one per live point, are groups: they are independent runs (Higson et al. 2018,
    "Sampling errors in nested sampling parameter estimation").
    """
    if hasattr(draws, "logwt") and hasattr(draws, "samples_id"):
        return Draws(draws.samples, weight=_weights(draws.logwt), group=draws.samples_id)
    if isinstance(draws, Mapping) and "weighted_samples" in draws:
        points = draws["weighted_samples"]
        return Draws(points["points"], names=draws.get("paramnames"), weight=points["weights"])
    if type(draws).__module__.partition(".")[0] == "nautilus" and hasattr(draws, "posterior"):
        points, log_weights, *_ = draws.posterior()
        return Draws(points, weight=_weights(log_weights))
    return None


def from_columns(labels: Sequence[Any], columns: Sequence[np.ndarray]) -> Draws:
    """Draws of labelled columns.

    The columns of `ROLES` sort the rows and give weights and divergences. Other columns whose names end in
    two underscores are the sampler's. They are left out, and so are columns of text.
    """
    roles: dict[str, np.ndarray] = {}
    kept: dict[str, np.ndarray] = {}
    for label, column in zip(labels, columns, strict=True):
        name = canonical_name(label)
        role = name.strip("._").lower()
        if role in ROLES:
            roles[role] = column
        elif name in kept or np.ndim(column) != 1:
            raise ValueError(f"there is more than one column {name!r}")
        elif not name.endswith("__") and (numbers := _as_floats(column)) is not None:
            kept[name] = numbers
    n = len(columns[0]) if len(columns) else 0
    order = _row_order(roles, n)
    unnamed = list(kept) == [str(k) for k in range(len(kept))]
    return Draws(
        np.stack([*kept.values()], axis=1)[order] if kept else np.empty((n, 0)),
        np.unique(roles["chain"][order], return_inverse=True)[1] if "chain" in roles else None,
        None if unnamed else tuple(kept),
        int(np.sum(np.asarray(roles["divergent"], dtype=float) > 0)) if "divergent" in roles else None,
        weight=None if "log_weight" not in roles else _weights(roles["log_weight"])[order],
    )


def _as_floats(column: Any) -> np.ndarray | None:
    """A float64 array, or None if the column holds something else."""
    array = np.asarray(column)
    if array.dtype.kind not in "biufO":
        return None
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _row_order(roles: Mapping[str, np.ndarray], n: int) -> np.ndarray:
    """Rows chain by chain and draw by draw; as they stand if there is no column of chains."""
    if "chain" not in roles:
        return np.arange(n)
    chain = roles["chain"]
    unknown = np.flatnonzero(chain != chain)  # NaN
    if len(unknown):
        raise ValueError(f"the column of the chains must have no NaN, {listed_rows(unknown)} do")
    within = next((roles[role] for role in ("iteration", "iter", "draw") if role in roles), np.arange(n))
    return np.lexsort((within, np.unique(chain, return_inverse=True)[1]))


def _weights(logarithms: Any) -> np.ndarray:
    """Weights of which the largest is 1; NaN where the logarithms are no numbers below infinity."""
    numbers = np.asarray(logarithms, dtype=np.float64).ravel()
    with np.errstate(invalid="ignore"):
        return np.asarray(np.exp(numbers - numbers.max()))


def _from_mapping(draws: Mapping[Any, Any], dim: int | None, names: Sequence[str] | None, name: str) -> Draws:
    """A dict of arrays (chain, draw, ...), or (draw, ...) if one is 1-d or only this gives `dim` columns."""
    arrays = {str(key): np.asarray(as_host(value)) for key, value in draws.items()}
    if not arrays:
        raise ValueError(f"`{name}` must hold draws, got an empty {type(draws).__name__}")
    for key, value in arrays.items():
        if value.dtype.kind not in "biuf" or not value.ndim or not value.size:
            got = f"dtype {value.dtype}, shape {value.shape}"
            raise TypeError(f"`{name}`[{key!r}] must be an array of real numbers, one per draw, got {got}")
    wanted = {variable_of(canonical_name(label)) for label in names or ()}
    used = [value.shape for key, value in arrays.items() if variable_of(canonical_name(key)) in wanted]
    shapes = used or [value.shape for value in arrays.values()]
    without_chains = min(map(len, shapes)) == 1 or sum(int(np.prod(shape[1:])) for shape in shapes) == dim
    axes = 1 if without_chains else 2
    if len({shape[:axes] for shape in shapes}) > 1:
        raise ValueError(
            f"`{name}` must contain arrays with the same number of draws, got shapes {shapes[:5]}"
        )
    same = {key: value for key, value in arrays.items() if value.shape[:axes] == shapes[0][:axes]}
    return _from_arrays(same, axes) if axes == 1 else _with_examined_axes(_from_arrays(same, axes), name)


def _from_arrays(
    arrays: Mapping[str, np.ndarray], axes: int, labels: Mapping[str, Any] | None = None
) -> Draws:
    """Arrays with one or two leading axes of draws, one column per element; `labels` of the other axes."""
    names: list[str] = []
    columns: list[np.ndarray] = []
    for key, value in arrays.items():
        names += element_names(key, labels[key] if labels else value.shape[axes:])
        columns += list(value.reshape(int(np.prod(value.shape[:axes])), -1).T)
    table = from_columns(names, columns)
    if axes == 1:
        return table
    n_chains, length = next(iter(arrays.values())).shape[:2]
    return replace(table, chain=np.repeat(np.arange(n_chains), length))


def _from_arviz(draws: Any, name: str) -> Draws:
    """ArviZ InferenceData, DataTree, or an xarray Dataset of draws; labels of text name the elements."""
    arrays: dict[str, np.ndarray] = {}
    labels: dict[str, list[int | list[str]]] = {}
    for key, variable in getattr(draws, "posterior", draws).data_vars.items():
        if "draw" in variable.dims:
            whole = variable if "chain" in variable.dims else variable.expand_dims("chain")
            ordered = whole.transpose("chain", "draw", ...)
            arrays[str(key)] = ordered.values
            labels[str(key)] = [_axis(ordered, dim) for dim in ordered.dims[2:]]
    if not arrays:
        raise ValueError(f"`{name}` has no group or variable with dimensions (chain, draw)")
    statistics = getattr(draws, "sample_stats", {})
    table = replace(_from_arrays(arrays, 2, labels), divergences=_divergences(statistics))
    if "log_weight" in statistics:
        return replace(table, weight=_weights(_per_draw(statistics["log_weight"])))
    if "importance_weight" in statistics:
        return replace(table, weight=_per_draw(statistics["importance_weight"]))
    return table


def _per_draw(variable: Any) -> np.ndarray:
    """A variable of ArviZ with dimensions (chain, draw), one number per draw."""
    return np.asarray(variable.transpose("chain", "draw").values).ravel()


def _axis(array: Any, dim: Any) -> int | list[str]:
    """The labels of a dimension if they are text, otherwise its size."""
    labels = array[dim].values.tolist() if dim in array.coords else []
    return labels if labels and all(isinstance(label, str) for label in labels) else int(array.sizes[dim])


def _from_numpyro(mcmc: Any, name: str) -> Draws:
    """NumPyro's MCMC, or anything whose ``get_samples`` groups by chain."""
    samples = mcmc.get_samples(group_by_chain=True)
    if not samples:
        raise ValueError(f"`{name}` must hold draws, got a {type(mcmc).__name__} without any")
    arrays = {key: np.asarray(as_host(value)) for key, value in samples.items()}
    extra = mcmc.get_extra_fields() if hasattr(mcmc, "get_extra_fields") else {}
    return replace(_from_arrays(arrays, 2), divergences=_divergences(extra))


def _divergences(statistics: Any) -> int | None:
    return int(np.sum(np.asarray(statistics["diverging"]))) if "diverging" in statistics else None


def _from_frame(frame: Any, name: str) -> Draws:
    """A pandas or polars data frame, or another table with names of columns."""
    index_names = getattr(getattr(frame, "index", None), "names", [])
    if any(canonical_name(label).strip("._").lower() == "chain" for label in index_names):
        frame = frame.reset_index()
    labels = list(getattr(frame, "column_names", frame.columns))  # PyArrow's columns are those themselves
    try:
        return from_columns(labels, [np.asarray(frame[label]) for label in labels])
    except (KeyError, TypeError) as error:
        kind = type(frame).__name__
        raise TypeError(f"`{name}` must hold one column of numbers per name, got a {kind}: {error}") from None


def _with_examined_axes(draws: Draws, name: str) -> Draws:
    """The draws, with a warning if chains whose axes nobody named seem to be (draw, chain) in fact."""
    n_chains = draws.n_chains
    length = len(draws) // max(n_chains, 1)
    if min(n_chains, length) < 2 or not draws.values.size or not np.isfinite(draws.values).all():
        return draws
    array = draws.values.reshape(n_chains, length, -1)
    along_draws, along_chains = _lag_1_strengths(array[:, : max(2, 10**5 // n_chains)])  # for speed
    # slow chains resemble each other by chance too, but far less than their own draws do
    swapped = along_chains > max(5, 2 * along_draws)
    if not swapped and (n_chains <= length or along_draws >= 4):  # chains are autocorrelated as a rule
        return draws
    warning = doubtful_axes(name, n_chains, length, swapped=swapped)
    return replace(draws, axes_swapped=swapped, warnings=(*draws.warnings, warning))


def _lag_1_strengths(array: np.ndarray) -> tuple[float, float]:
    """Lag-1 correlations along the second and the first axis of (chain, draw, d), in standard errors."""
    scores = np.stack([normal_scores(array[..., k]) for k in range(array.shape[2])], axis=2)

    def strength(one: np.ndarray, two: np.ndarray) -> float:
        products = (one * two).reshape(-1, array.shape[2])
        return float(np.max(np.abs(products.mean(axis=0))) * np.sqrt(len(products)))

    return strength(scores[:, 1:], scores[:, :-1]), strength(scores[1:], scores[:-1])


def to_unconstrained(
    draws: Any,
    target: Target,
    *,
    name: str = "draws",
    minimum: int = 2,
    weights: Any = None,
    log_weights: Any = None,
) -> Draws:
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
    minimum : int
        Fewest draws allowed.
    weights, log_weights : array (n,), optional
        As in `as_draws`.

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
    weighted = {"weights": weights, "log_weights": log_weights}
    if target.unconstrain is None or names is None:
        return read_as_draws(draws, target.dim, names=target.names, name=name, minimum=minimum, **weighted)
    read = read_as_draws(draws, name=name, minimum=minimum, **weighted)
    coordinates = tuple(target.names or ())
    if read.names is not None and not (coordinates and set(coordinates) <= set(read.names)):
        constrained = read_as_draws(draws, len(names), names=names, name=name, minimum=minimum, **weighted)
        values = np.asarray(target.unconstrain(constrained.values))
        return replace(constrained, values=values, names=coordinates or None)
    taken = read_as_draws(read, target.dim, names=target.names, name=name, minimum=minimum)
    if read.names is not None and not set(coordinates) <= set(names):
        return taken  # the names say what is meant
    parameters, gain = read_as_parameters(taken.values, target)
    # draws of the density have log densities within about d/2 of its maximum: draws that were read rightly
    # gain no more than that, in the coordinates that the other reading changes
    if not gain > 2.0 + 0.5 * len(parameters):
        return taken
    return replace(taken, warnings=(*taken.warnings, parameters_as_coordinates(name, parameters, gain)))


class OtherReading(NamedTuple):
    """What if draws that were read as coordinates of the target are values of its parameters?"""

    parameters: tuple[str, ...]  #: that differ between the readings; none if there is no other reading
    gain: float  #: of the median log density


def read_as_parameters(x: np.ndarray, target: Target) -> OtherReading:
    """What draws (n, d) in the coordinates of the target would gain as values of its parameters."""
    names = target.constrained_names
    if target.unconstrain is None or names is None or len(names) != target.dim:
        return OtherReading((), 0.0)
    some = x[:: -(-len(x) // 200)]  # enough for medians
    try:
        with np.errstate(all="ignore"):
            other = np.asarray(target.unconstrain(some), dtype=np.float64)
    except Exception:  # outside the support a user's function may raise anything
        return OtherReading((), 0.0)
    if not np.isfinite(other).all():
        return OtherReading((), 0.0)
    changed = np.any(np.abs(other - some) > 1e-9 * np.maximum(np.abs(some), 1.0), axis=0)
    here, there = (np.median(log_density_anywhere(target.log_density, part)) for part in (some, other))
    gain = float(there - here) if np.isfinite(there) else 0.0
    return OtherReading(tuple(names[k] for k in np.flatnonzero(changed).tolist()), gain)
