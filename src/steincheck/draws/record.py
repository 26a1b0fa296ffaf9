"""The record that carries draws, and the objects of other packages that become one.

Objects are recognised by what they offer: none of the packages is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._validation import as_host, as_numbers, as_stored, as_whole, check_names, check_shape, listed, shown
from .._whitening import normal_scores
from ..wording.draws import doubtful_axes
from .names import canonical_name, element_names, variable_of
from .nested import Threads, nested_threads

# columns of tables that are no coordinates; points before and underscores around the word do not matter
ROLES = ("chain", "iteration", "iter", "draw", "log_weight", "divergent")


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """Draws, the chain of each, and the names of the coordinates; made by ``as_draws``.

    Arrays are kept as they are, without a copy. Draws of several chains stand chain after chain: interleaved
    ones are refused and not sorted, since results speak of draws by their rows.

    Attributes
    ----------
    values : array (n, d)
        The draws, chain after chain, each in its order.
    chain : array (n,) of int or None
        The chain of each draw; None if no chains are known.
    names : tuple of str or None
        Coordinate names.
    divergences : int or None
        Divergent transitions, where the source tells.
    warnings : tuple of str
        What the user should know about how the draws were read.
    axes_swapped : bool
        Only draws of successive chains are correlated: the array seems to be (draw, chain, d).
    weight : array (n,) or None
        The importance weight of each draw, of mean 1; None if all are equal. Draws of weight 0 are left out.
    group : array (n,) of int or None
        Draws of one group may depend on each other in any way, groups are independent, as are the threads of
        a run of nested sampling. None if no groups are known.
    kept : array (N,) of bool or None
        Which draws of the source have a positive weight; None if all have.
    threads : Threads or None
        Independent parts of a run of nested sampling.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> draws = sc.as_draws(np.random.default_rng(0).normal(size=(4, 250, 2)))
    >>> draws.shape, draws.n_chains, str(draws)
    ((1000, 2), 4, '4 x 250 draws')
    """

    values: np.ndarray  #: (n, d) float64; chain after chain, each in its order
    chain: np.ndarray | None = None  #: (n,) of int, 0, 1, ... in order; None if no chains are known
    names: tuple[str, ...] | None = None  #: names of the coordinates
    divergences: int | None = None  #: divergent transitions, where the source tells
    warnings: tuple[str, ...] = ()  #: what the user should know about how the draws were read
    axes_swapped: bool = False  #: whether an array (draw, chain, d) seems to have been read as chains
    weight: np.ndarray | None = None  #: (n,) importance weights, of mean 1; None if all are equal
    group: np.ndarray | None = None  #: (n,) of int; draws of different groups are independent
    kept: np.ndarray | None = None  #: (N,) of bool, draws of the source with a positive weight
    threads: Threads | None = None  #: independent parts of a run of nested sampling

    def __post_init__(self) -> None:
        """Shapes and order; that all are finite is checked where draws are read for a test."""
        values = as_stored(self.values, "values")
        if values.ndim != 2:
            raise ValueError(f"`values` must have shape (n, d), one draw per row, got shape {values.shape}")
        object.__setattr__(self, "values", values)
        if self.chain is not None:
            chain = as_whole(self.chain, "chain")
            check_shape(chain, (len(values),), "chain", "the chain of each draw")
            _check_order(chain)
            object.__setattr__(self, "chain", chain)
        if self.names is not None:
            check_names(self.names, "names")
            object.__setattr__(self, "names", tuple(self.names))
            if len(self.names) != values.shape[1]:
                raise ValueError(f"`names` must name all {values.shape[1]} columns, got {shown(self.names)}")
        if self.weight is not None:
            object.__setattr__(self, "weight", _normalised_weights(self.weight, len(values)))
        if self.group is not None:
            group = as_whole(self.group, "group")
            check_shape(group, (len(values),), "group", "the group of each draw")
            object.__setattr__(self, "group", np.unique(group, return_inverse=True)[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)"""
        return self.values.shape[0], self.values.shape[1]

    @property
    def n_chains(self) -> int:
        """Number of chains, 0 if no chains are known."""
        return len(self.lengths)

    @property
    def lengths(self) -> np.ndarray:
        """(n_chains,) number of draws per chain."""
        return np.zeros(0, dtype=int) if self.chain is None else np.bincount(self.chain)

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __str__(self) -> str:
        lengths = self.lengths
        if not len(lengths):
            return f"{len(self)} draws"
        if np.ptp(lengths) == 0:
            return f"{len(lengths)} x {lengths[0]} draws"
        return f"{len(self)} draws of {len(lengths)} chains"

    def __repr__(self) -> str:
        parts = [str(self), f"d = {self.shape[1]}"]
        if self.names is not None:
            parts.append(f"names: {listed(self.names, 3)}")
        return f"<Draws: {', '.join(parts)}>"


def _normalised_weights(weight: Any, n: int) -> np.ndarray:
    """Weights (n,) divided by their mean; an error if they are no weights."""
    numbers = as_numbers(getattr(weight, "weights", weight), "weights").ravel()
    check_shape(numbers, (n,), "weights", "the weight of each draw")
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        raise ValueError(
            f"`weights` must be finite and not negative, got {numbers[bad[0]]:g} at row {bad[0]}"
        )
    if not numbers.any():
        raise ValueError(f"`weights` must not be 0 for all draws, got {n} zeros")
    relative = numbers / numbers.max()  # of which the mean is finite
    mean = relative.mean() * numbers.max()
    return numbers if abs(mean - 1) < 1e-12 else np.asarray(relative / relative.mean())


def _check_order(chain: np.ndarray) -> None:
    """Raise unless chains 0, 1, ... follow each other."""
    steps = np.diff(chain, prepend=0)
    wrong = np.flatnonzero((steps < 0) | (steps > (np.arange(len(chain)) > 0)))
    if len(wrong):
        row = wrong[0]
        before = f" after {chain[row - 1]}" if row else ""
        raise ValueError(
            f"`chain` must be 0, 1, ... with the draws of each chain together, got {chain[row]}{before} at "
            f"row {row}; interleaved draws are sorted by np.argsort(chain, kind='stable')"
        )


def chain_of_rows(chain: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """The chains, or groups, of some of the draws, numbered anew."""
    return None if chain is None else np.unique(chain[rows], return_inverse=True)[1]


def index_in_chain(chain: np.ndarray) -> np.ndarray:
    """The place of each draw within its chain, from 0; `chain` (n,) are labels in ascending order.

    Examples
    --------
    >>> index_in_chain(np.array([0, 0, 0, 1, 1]))
    array([0, 1, 2, 0, 1])
    """
    return np.arange(len(chain)) - np.searchsorted(chain, chain)


def read_container(draws: Any, dim: int | None, names: Sequence[str] | None) -> Draws | None:
    """The draws of an object of another package, or None if it is not such an object."""
    if hasattr(draws, "logwt") and hasattr(draws, "samples_id"):  # dynesty: bundles of its threads are groups
        weight = weights_of(draws.logwt)
        bundle, threads = nested_threads(draws.samples_id, draws.logvol, weight)
        return Draws(draws.samples, weight=weight, group=bundle, threads=threads)
    if isinstance(draws, Mapping) and "weighted_samples" in draws:  # UltraNest
        points = draws["weighted_samples"]
        return Draws(points["points"], names=draws.get("paramnames"), weight=points["weights"])
    if type(draws).__module__.partition(".")[0] == "nautilus" and hasattr(draws, "posterior"):
        points, log_weights, *_ = draws.posterior()
        return Draws(points, weight=weights_of(log_weights))
    if hasattr(draws, "posterior") or hasattr(draws, "data_vars"):
        return _from_arviz(draws)
    if hasattr(draws, "dims") and hasattr(draws, "to_dataset"):
        return _from_arviz(draws.to_dataset(name=draws.name or "x"))
    if callable(getattr(draws, "get_samples", None)):
        return _from_numpyro(draws)
    if callable(getattr(draws, "draws_pd", None)):
        return _from_frame(draws.draws_pd())  # of CmdStanPy
    if isinstance(draws, Mapping):
        return _from_mapping(draws, dim, names)
    if hasattr(draws, "columns"):
        return _from_frame(draws)
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
    order = np.arange(n)
    if "chain" in roles:  # chain by chain and draw by draw
        unknown = np.flatnonzero(roles["chain"] != roles["chain"]).tolist()  # NaN
        if unknown:
            raise ValueError(f"the column of the chains must have no NaN, rows {listed(unknown)} do")
        within = next((roles[role] for role in ("iteration", "iter", "draw") if role in roles), order)
        order = np.lexsort((within, np.unique(roles["chain"], return_inverse=True)[1]))
    unnamed = list(kept) == [str(k) for k in range(len(kept))]
    return Draws(
        np.stack([*kept.values()], axis=1)[order] if kept else np.empty((n, 0)),
        np.unique(roles["chain"][order], return_inverse=True)[1] if "chain" in roles else None,
        None if unnamed else tuple(kept),
        int(np.sum(np.asarray(roles["divergent"], dtype=float) > 0)) if "divergent" in roles else None,
        weight=None if "log_weight" not in roles else weights_of(roles["log_weight"])[order],
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


def weights_of(logarithms: Any) -> np.ndarray:
    """Weights of which the largest is 1; an error if a logarithm is NaN or infinity, or none is finite."""
    numbers = np.asarray(logarithms, dtype=np.float64).ravel()
    bad = np.flatnonzero(~(numbers < np.inf))
    if len(bad):
        raise ValueError(f"`log_weights` must be below infinity, got {numbers[bad[0]]:g} at row {bad[0]}")
    if np.all(numbers == -np.inf):
        raise ValueError(f"`log_weights` must not be -inf for all draws, got {len(numbers)} times -inf")
    return np.asarray(np.exp(numbers - numbers.max()))


def _from_mapping(draws: Mapping[Any, Any], dim: int | None, names: Sequence[str] | None) -> Draws:
    """A dict of arrays (chain, draw, ...), or (draw, ...) if one is 1-d or only this gives `dim` columns."""
    arrays = {str(key): np.asarray(as_host(value)) for key, value in draws.items()}
    if not arrays:
        raise ValueError(f"`draws` must hold draws, got an empty {type(draws).__name__}")
    for key, value in arrays.items():
        if value.dtype.kind not in "biuf" or not value.ndim or not value.size:
            got = f"dtype {value.dtype}, shape {value.shape}"
            raise TypeError(f"`draws`[{key!r}] must be an array of real numbers, one per draw, got {got}")
    wanted = {variable_of(canonical_name(label)) for label in names or ()}
    used = [value.shape for key, value in arrays.items() if variable_of(canonical_name(key)) in wanted]
    shapes = used or [value.shape for value in arrays.values()]
    without_chains = min(map(len, shapes)) == 1 or sum(int(np.prod(shape[1:])) for shape in shapes) == dim
    axes = 1 if without_chains else 2
    if len({shape[:axes] for shape in shapes}) > 1:
        raise ValueError(
            f"`draws` must contain arrays with the same number of draws, got shapes {shapes[:5]}"
        )
    same = {key: value for key, value in arrays.items() if value.shape[:axes] == shapes[0][:axes]}
    return _from_arrays(same, axes) if axes == 1 else with_examined_axes(_from_arrays(same, axes))


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


def _from_arviz(draws: Any) -> Draws:
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
        raise ValueError("`draws` has no group or variable with dimensions (chain, draw)")
    statistics = getattr(draws, "sample_stats", {})
    table = replace(_from_arrays(arrays, 2, labels), divergences=_divergences(statistics))
    for name in ("log_weight", "importance_weight"):
        if name in statistics:
            weight = statistics[name].transpose("chain", "draw").values
            return replace(table, weight=weights_of(weight) if name == "log_weight" else weight)
    return table


def _axis(array: Any, dim: Any) -> int | list[str]:
    """The labels of a dimension if they are text, otherwise its size."""
    labels = array[dim].values.tolist() if dim in array.coords else []
    return labels if labels and all(isinstance(label, str) for label in labels) else int(array.sizes[dim])


def _from_numpyro(mcmc: Any) -> Draws:
    """NumPyro's MCMC, or anything whose ``get_samples`` groups by chain."""
    samples = mcmc.get_samples(group_by_chain=True)
    if not samples:
        raise ValueError(f"`draws` must hold draws, got a {type(mcmc).__name__} without any")
    arrays = {key: np.asarray(as_host(value)) for key, value in samples.items()}
    extra = mcmc.get_extra_fields() if hasattr(mcmc, "get_extra_fields") else {}
    return replace(_from_arrays(arrays, 2), divergences=_divergences(extra))


def _divergences(statistics: Any) -> int | None:
    return int(np.sum(np.asarray(statistics["diverging"]))) if "diverging" in statistics else None


def _from_frame(frame: Any) -> Draws:
    """A pandas or polars data frame, or another table with names of columns."""
    index_names = getattr(getattr(frame, "index", None), "names", [])
    if any(canonical_name(label).strip("._").lower() == "chain" for label in index_names):
        frame = frame.reset_index()
    labels = list(getattr(frame, "column_names", frame.columns))  # PyArrow's columns are those themselves
    try:
        return from_columns(labels, [np.asarray(frame[label]) for label in labels])
    except (KeyError, TypeError) as error:
        kind = type(frame).__name__
        raise TypeError(f"`draws` must hold one column of numbers per name, got a {kind}: {error}") from None


def with_examined_axes(draws: Draws) -> Draws:
    """The draws, with a warning if chains whose axes nobody named seem to be (draw, chain) in fact."""
    n_chains = draws.n_chains
    length = len(draws) // max(n_chains, 1)
    if min(n_chains, length) < 2 or not draws.values.size or not np.isfinite(draws.values).all():
        return draws
    array = draws.values.reshape(n_chains, length, -1)
    some = array[:, : max(2, 10**5 // n_chains)]  # for speed
    scores = np.stack([normal_scores(some[..., k]) for k in range(some.shape[2])], axis=2)
    strengths = []  # lag-1 correlations along both axes, in standard errors
    for products in (scores[:, 1:] * scores[:, :-1], scores[1:] * scores[:-1]):
        rows = products.reshape(-1, some.shape[2])
        strengths.append(float(np.max(np.abs(rows.mean(axis=0))) * np.sqrt(len(rows))))
    along_draws, along_chains = strengths
    # slow chains resemble each other by chance too, but far less than their own draws do
    twins = np.any(np.all(array[1:] == array[:-1], axis=(1, 2)))
    swapped = along_chains > max(5, 2 * along_draws) and not twins
    if not swapped and (n_chains <= length or along_draws >= 4):  # chains are autocorrelated as a rule
        return draws
    warning = doubtful_axes(n_chains, length, swapped=swapped)
    return replace(draws, axes_swapped=swapped, warnings=(*draws.warnings, warning))
