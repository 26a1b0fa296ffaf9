"""Draws held by other packages' objects, recognised by what they offer; none of the packages is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._series import normal_scores
from .._validation import as_host, listed_rows
from .names import canonical_name, has_names, reindexed, variable_of

CHAIN_COLUMNS = ("chain", ".chain", "chain__", "chain_id")
DRAW_COLUMNS = ("draw", ".iteration", "iteration", "iter__", ".draw", "draw__")  # the first found sorts
DIVERGENCE_COLUMNS = ("divergent__", "diverging")
DRAW_DIMENSIONS = ("chain", "draw", "sample")  # as ArviZ calls them


@dataclass(eq=False)
class RawDraws:
    """Named columns of numbers, as read; nothing is chosen or checked yet."""

    values: np.ndarray  # (n, k)
    names: list[str] | None = None
    chain: np.ndarray | None = None  # (n,) 0, 1, ... in order
    divergences: int | None = None
    warnings: list[str] = field(default_factory=list)
    axes_swapped: bool = False  # (draw, chain, d) read as (chain, draw, d), by the correlations


def read_container(draws: Any, names: Sequence[str] | None, dim: int | None, name: str) -> RawDraws | None:
    """The draws of an object of another package, or None if it is not such an object."""
    if hasattr(draws, "posterior") or hasattr(draws, "data_vars"):
        return _from_arviz(draws, names, name)
    if callable(getattr(draws, "get_samples", None)):
        return _from_numpyro(draws, names, dim, name)
    if hasattr(draws, "column_names") and callable(getattr(draws, "draws", None)):
        return _from_cmdstanpy(draws, names)
    if hasattr(draws, "constrained_param_names") and hasattr(draws, "sample_and_sampler_param_names"):
        return _from_pystan(draws, names)
    if isinstance(draws, Mapping):
        return from_mapping(draws, names, dim, name)
    if hasattr(draws, "dims") and hasattr(draws, "coords"):
        return _from_labelled_array(draws, names, name)
    if hasattr(draws, "columns"):
        return _from_frame(draws, names, name)
    return None


def from_columns(
    labels: Sequence[Any], columns: Sequence[np.ndarray], names: Sequence[str] | None
) -> RawDraws:
    """Columns with their labels: chain and draw columns sort the rows, sampler columns are set aside."""
    wanted = {canonical_name(name) for name in names or ()}
    rest = [k for k, label in enumerate(labels) if canonical_name(label) not in wanted]
    found = {uncapitalised(labels[k]): k for k in reversed(rest)}

    def special(kinds: Sequence[str]) -> np.ndarray | None:
        return next((columns[found[kind]] for kind in kinds if kind in found), None)

    chain = special(CHAIN_COLUMNS)
    draw = special(DRAW_COLUMNS)
    diverging = special(DIVERGENCE_COLUMNS)
    table = RawDraws(np.empty((len(columns[0]) if columns else 0, 0)), [])
    kept = []
    for label, column in zip(labels, columns, strict=True):
        own = canonical_name(label)
        known = (*CHAIN_COLUMNS, *DRAW_COLUMNS, *DIVERGENCE_COLUMNS)
        aside = uncapitalised(label) in known or own.endswith("__")
        if aside and own not in wanted:
            continue
        numbers = _numbers(column)
        if numbers is None:
            if own in wanted:
                raise TypeError(f"column {label!r} must hold real numbers, got {np.asarray(column).dtype}")
            table.warnings.append(f"column {label!r} does not hold numbers and is not used")
            continue
        kept.append(numbers)
        table.names.append(own)  # type: ignore[union-attr]
    table.values = np.stack(kept, axis=1) if kept else table.values
    if diverging is not None:
        table.divergences = int(np.sum(np.asarray(diverging, dtype=float) > 0))
    return _sorted(table, chain, draw)


def uncapitalised(label: Any) -> str:
    """The label as columns of chains and draws are written here: "chain" for "Chain"."""
    return canonical_name(label).lower()


def from_mapping(
    draws: Mapping[Any, Any],
    names: Sequence[str] | None,
    dim: int | None,
    name: str,
    *,
    chains: bool | None = None,
) -> RawDraws:
    """A dict of arrays (draw, ...), (chain, draw, ...) or (..., draw); `chains` says which, if known."""
    arrays = {str(key): np.asarray(as_host(value)) for key, value in draws.items()}
    if not arrays:
        raise ValueError(f"`{name}` must hold draws, got an empty {type(draws).__name__}")
    for key, value in arrays.items():
        if value.dtype.kind not in "biuf" or not value.ndim:
            raise TypeError(f"`{name}`[{key!r}] must be an array of real numbers with an axis of draws")
        if not value.size:
            raise ValueError(f"`{name}`[{key!r}] must hold draws, got shape {value.shape}")
    wanted = {variable_of(canonical_name(label)) for label in names or ()}
    used = [value.shape for key, value in arrays.items() if variable_of(canonical_name(key)) in wanted]
    layout = "chains" if chains else _layout(used or [a.shape for a in arrays.values()], dim, name)
    if layout == "last":
        arrays = {key: np.moveaxis(value, -1, 0) for key, value in arrays.items()}
    leading = 2 if layout == "chains" else 1
    axes = next(iter(arrays.values())).shape[:leading]
    arrays = {key: value for key, value in arrays.items() if value.shape[:leading] == axes}
    labels, columns = flattened(arrays, leading)
    table = from_columns(labels, columns, names)
    if layout == "chains":
        table.chain = np.repeat(np.arange(axes[0]), axes[1])
    return table if chains or layout != "chains" else examine_axes(table, name)


def examine_axes(table: RawDraws, name: str) -> RawDraws:
    """Warn if chains of one length, whose axes nobody named, seem to be (draw, chain) in fact."""
    if table.chain is None or not table.values.size:
        return table
    n_chains = int(table.chain[-1]) + 1
    length = len(table.chain) // n_chains
    array = table.values.reshape(n_chains, length, -1)
    if n_chains < 2 or length < 2 or not np.isfinite(array).all():
        return table
    along_draws, along_chains = _strengths(array[:, : max(2, 10**5 // n_chains)])  # beginnings tell enough
    # chance makes slow chains alike too, but far less than their own draws
    table.axes_swapped = along_chains > max(5, 2 * along_draws)
    if table.axes_swapped or (n_chains > length and along_draws < 4):  # chains are autocorrelated as a rule
        seen = "only draws of successive chains are" if table.axes_swapped else "successive draws are not"
        table.warnings.append(
            f"`{name}` was read as {n_chains} chains of {length} draws, but {seen} correlated: if its axes "
            "are (draw, chain, ...), swap the first two"
        )
    return table


def _strengths(array: np.ndarray) -> tuple[float, float]:
    """Lag-1 correlations along the second and the first axis of (chain, draw, d), in standard errors."""
    scores = np.stack([normal_scores(array[..., k]) for k in range(array.shape[2])], axis=2)

    def strength(one: np.ndarray, two: np.ndarray) -> float:
        products = (one * two).reshape(-1, array.shape[2])
        return float(np.max(np.abs(products.mean(axis=0))) * np.sqrt(len(products)))

    return strength(scores[:, 1:], scores[:, :-1]), strength(scores[1:], scores[:-1])


def flattened(arrays: Mapping[str, np.ndarray], leading: int) -> tuple[list[str], list[np.ndarray]]:
    """Arrays with `leading` axes of draws as columns: "mu", "theta[0]", "theta[0,1]"."""
    labels = []
    columns = []
    for key, value in arrays.items():
        flat = value.reshape(int(np.prod(value.shape[:leading])), -1)
        for k, index in enumerate(np.ndindex(*value.shape[leading:])):
            labels.append(f"{key}[{','.join(map(str, index))}]" if index else key)
            columns.append(flat[:, k])
    return labels, columns


def _layout(shapes: list[tuple[int, ...]], dim: int | None, name: str) -> str:
    """Which axes of the arrays of a dict are draws: "first", "chains" (the first two) or "last"."""
    sizes = {}
    if len({shape[0] for shape in shapes}) == 1:
        sizes["first"] = sum(int(np.prod(shape[1:])) for shape in shapes)
    if all(len(shape) > 1 for shape in shapes) and len({shape[:2] for shape in shapes}) == 1:
        sizes["chains"] = sum(int(np.prod(shape[2:])) for shape in shapes)
    if len({shape[-1] for shape in shapes}) == 1:
        sizes["last"] = sum(int(np.prod(shape[:-1])) for shape in shapes)
    if not sizes:
        raise ValueError(
            f"`{name}` must contain arrays with the same number of draws, got shapes {shapes[:5]}"
        )
    for layout, size in sizes.items():
        if size == dim:
            return layout
    if "chains" in sizes and shapes[0][0] < shapes[0][1]:
        return "chains"
    return "first" if "first" in sizes else next(iter(sizes))


def _numbers(column: Any) -> np.ndarray | None:
    """A float64 array, or None if the column holds something else."""
    array = np.asarray(column)
    if array.dtype.kind not in "biufO":
        return None
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _sorted(table: RawDraws, chain: Any, draw: Any) -> RawDraws:
    """The rows chain by chain and draw by draw, as far as columns tell."""
    n = len(table.values)
    order = np.arange(n)
    if chain is not None:
        chain = np.asarray(chain)
        unknown = np.flatnonzero(chain != chain)  # NaN
        if len(unknown):
            raise ValueError(f"the column of the chains must have no NaN, {listed_rows(unknown)} do")
        _, table.chain = np.unique(chain, return_inverse=True)
        keys = (table.chain,) if draw is None else (np.asarray(draw), table.chain)
        order = np.lexsort(keys)
        table.chain = table.chain[order]
    elif draw is not None and len(np.unique(np.asarray(draw))) == n:
        order = np.argsort(np.asarray(draw), kind="stable")
    table.values = table.values[order]
    return table


def _from_arviz(draws: Any, names: Sequence[str] | None, name: str) -> RawDraws:
    """ArviZ InferenceData, DataTree, or an xarray Dataset of draws."""
    posterior = getattr(draws, "posterior", draws)
    arrays = {}
    chain = None
    for key in posterior.data_vars:
        variable = posterior[key]
        if "chain" in variable.dims and "draw" in variable.dims:
            values = variable.transpose("chain", "draw", ...).values
            chain = np.repeat(np.arange(values.shape[0]), values.shape[1])
            arrays[str(key)] = values.reshape(-1, *values.shape[2:])
        elif "sample" in variable.dims:
            arrays[str(key)] = variable.transpose("sample", ...).values
            chain = np.asarray(posterior["chain"]) if "chain" in posterior.coords else None
        elif "draw" in variable.dims:
            arrays[str(key)] = variable.transpose("draw", ...).values
    if not arrays:
        raise ValueError(f"`{name}` has no group or variable with dimensions (chain, draw)")
    table = from_columns(*flattened(arrays, 1), names)
    table = _sorted(table, chain, None)
    statistics = getattr(draws, "sample_stats", None)
    if statistics is not None and "diverging" in statistics.data_vars:
        table.divergences = int(np.sum(np.asarray(statistics["diverging"])))
    return table


def _from_labelled_array(array: Any, names: Sequence[str] | None, name: str) -> RawDraws | None:
    """An xarray DataArray with one dimension of parameters, named by its labels; None if there is none."""
    others = [dim for dim in array.dims if dim not in DRAW_DIMENSIONS]
    if len(others) > 1:
        others = [dim for dim in others if _text_labels(array, dim)]
    if len(others) != 1 or array.ndim not in (2, 3):
        return None
    of_draws = [dim for dim in array.dims if dim not in others]
    if "draw" not in of_draws and "sample" not in of_draws:
        array = array.rename(dict(zip(of_draws, ("chain", "draw")[-len(of_draws) :], strict=True)))
    table = _from_arviz(array.to_dataset(name="x"), None, name)
    labels = _text_labels(array, others[0])
    if not labels:
        return replace(table, names=None)
    indexed = [[f"{array.name}[{index}]" for index in own] for own in (labels, range(len(labels)))]
    fits = [own for own in (labels, *indexed) if names is not None and has_names(own, names)]
    return replace(from_columns([*fits, labels][0], list(table.values.T), names), chain=table.chain)


def _text_labels(array: Any, dim: Any) -> list[str]:
    """The labels of a dimension if they are text."""
    labels = array[dim].values.tolist() if dim in array.coords else []
    return labels if all(isinstance(label, str) for label in labels) else []


def _from_numpyro(mcmc: Any, names: Sequence[str] | None, dim: int | None, name: str) -> RawDraws:
    """NumPyro's MCMC, or anything with ``get_samples``."""
    try:
        samples = mcmc.get_samples(group_by_chain=True)
    except TypeError:
        return from_mapping(mcmc.get_samples(), names, dim, name)
    table = from_mapping(samples, names, dim, name, chains=True)
    extra = mcmc.get_extra_fields() if hasattr(mcmc, "get_extra_fields") else {}
    if "diverging" in extra:
        table.divergences = int(np.sum(np.asarray(extra["diverging"])))
    return table


def _from_cmdstanpy(fit: Any, names: Sequence[str] | None) -> RawDraws:
    values = np.asarray(fit.draws())
    labels = [counted_from_0(label) for label in fit.column_names]
    flat = values.swapaxes(0, 1).reshape(-1, values.shape[-1])  # (draw, chain, column) as CmdStanPy has it
    table = from_columns(labels, list(flat.T), names)
    if values.ndim == 3:
        table.chain = np.repeat(np.arange(values.shape[1]), values.shape[0])
    return table


def _from_pystan(fit: Any, names: Sequence[str] | None) -> RawDraws:
    labels = [*fit.sample_and_sampler_param_names, *map(counted_from_0, fit.constrained_param_names)]
    warm_up = fit.num_warmup // fit.num_thin if fit.save_warmup else 0
    values = np.asarray(fit.values)[:, warm_up:, :]  # (column, draw, chain)
    table = from_columns(labels, list(values.swapaxes(1, 2).reshape(len(labels), -1)), names)
    table.chain = np.repeat(np.arange(values.shape[2]), values.shape[1])
    return table


def counted_from_0(label: str) -> str:
    """Stan's names count from 1, ArviZ's from 0.

    Examples
    --------
    >>> counted_from_0("theta.1.2"), counted_from_0("mu"), counted_from_0("lp__")
    ('theta[0,1]', 'mu', 'lp__')
    """
    return label if label.endswith("__") else reindexed(canonical_name(label), -1)


def _from_frame(frame: Any, names: Sequence[str] | None, name: str) -> RawDraws:
    """A pandas or polars data frame, or another table with names of columns."""
    index_names = getattr(getattr(frame, "index", None), "names", [])
    if any(uncapitalised(label) in CHAIN_COLUMNS for label in index_names):
        frame = frame.reset_index()
    own = list(getattr(frame, "column_names", frame.columns))  # PyArrow's columns are those themselves
    try:
        columns = _columns(frame, own)
    except (KeyError, TypeError):
        columns = []
    if len(columns) != len(own) or any(np.ndim(column) != 1 for column in columns):
        kind = type(frame).__name__
        raise TypeError(f"`{name}` must hold one column of numbers per name in memory, got a {kind}")
    table = from_columns([_label(label) for label in own], columns, names)
    if [str(label) for label in own] == [str(k) for k in range(len(own))]:
        table.names = None  # a frame that was given no names
    return table


def _columns(frame: Any, labels: Sequence[Any]) -> list[np.ndarray]:
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, k].to_numpy() for k in range(len(labels))]
    if hasattr(frame, "to_series"):
        return [frame.to_series(k).to_numpy() for k in range(len(labels))]
    if hasattr(frame, "__getitem__"):
        return [np.asarray(frame[label]) for label in labels]
    return list(np.asarray(frame).T) if np.ndim(frame) else []


def _label(label: Any) -> Any:
    """ArviZ's ``to_dataframe`` has columns ("posterior", "theta[0]", "a"): group, name, coordinates."""
    if not isinstance(label, tuple):
        return label
    if label[0] == "sample_stats":
        return label[1] if label[1] in DIVERGENCE_COLUMNS else f"{label[1]}__"
    parts = label[1:] if label[0] == "posterior" else label
    return parts[0] if "[" in str(parts[0]) else tuple(parts)
