"""Results back to where users look: draws, their modes and their weights for ArviZ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._validation import as_numbers, require_kind, shown
from ..draws import Draws, as_draws
from ..result import Verdict
from ..target import coordinate_names
from ..typing import DrawsLike


def to_arviz(
    draws: DrawsLike,
    verdict: Verdict | None = None,
    *,
    mode_of_draw: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Any:
    """Draws with what is known of each of them, as ArviZ takes it.

    Parameters
    ----------
    draws : InferenceData, DataTree, or anything that `as_draws` reads
        Groups of the former are kept; the rest becomes the group ``posterior``.
    verdict : Verdict, optional
        Verdict of these draws: the mode and, where it has one, importance weight of each draw, and the answer
        as attributes, unless they are given by the other arguments.
    mode_of_draw : array (n,) of int, optional
        Mode of each draw, -1 for none, chain after chain; becomes ``sample_stats.mode``.
    weights : array (n,), optional
        Importance weight of each draw; becomes ``sample_stats.importance_weight``, divided by their mean.
    attributes : mapping, optional
        Attributes of the result, for instance the sentence of the verdict.

    Returns
    -------
    InferenceData
        Or a DataTree with ArviZ 1.x, or if `draws` is one.

    Examples
    --------
    >>> import numpy as np
    >>> draws = {"mu": np.random.default_rng(0).normal(size=(4, 100))}
    >>> result = to_arviz(draws, mode_of_draw=np.repeat([0, 1], 200))  # doctest: +SKIP
    >>> int(result.sample_stats["mode"].sum())  # doctest: +SKIP
    200
    """
    try:
        import arviz
        import xarray
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install 'steincheck[arviz]'") from None
    if attributes is not None and not isinstance(attributes, Mapping):
        raise TypeError(f"`attributes` must map names to values, got {shown(attributes)}")
    if verdict is not None:
        require_kind(verdict, Verdict, "verdict")
        mode_of_draw, weights, attributes = _of_verdict(verdict, mode_of_draw, weights, attributes)
    groups = _groups(draws, xarray)
    posterior = groups["posterior"]
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    axes = {name: posterior[name] for name in ("chain", "draw") if name in posterior.coords}
    added = {}
    if mode_of_draw is not None:
        added["mode"] = _as_integers(_per_draw(mode_of_draw, shape, "mode_of_draw"))
    if weights is not None:
        values = _per_draw(weights, shape, "weights")
        if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
            raise ValueError("`weights` must be finite and not negative, and not all 0")
        added["importance_weight"] = values / values.mean()
    statistics = groups.get("sample_stats", xarray.Dataset(coords=axes))
    if added:
        groups["sample_stats"] = statistics.assign(
            {name: (("chain", "draw"), values) for name, values in added.items()}
        )
    attributes = {key: str(value) for key, value in (attributes or {}).items()}
    if not hasattr(arviz, "InferenceData") or isinstance(draws, getattr(xarray, "DataTree", ())):
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs.update(attributes)
        return tree
    return arviz.InferenceData(**groups, attrs=attributes or None)


def _of_verdict(
    verdict: Verdict, mode_of_draw: Any, weights: Any, attributes: Mapping[str, Any] | None
) -> tuple[Any, Any, Mapping[str, Any]]:
    """Modes, weights and attributes of a verdict, where they are not given."""
    mode_of_draw = verdict.mode_of_draw if mode_of_draw is None else mode_of_draw
    if weights is None and verdict.importance_weights is not None:
        weights = verdict.importance_weights.weights
    answer = {"sentence": verdict.sentence, "pvalue": verdict.pvalue, "seed": verdict.seed}
    return mode_of_draw, weights, answer | dict(attributes or {})


def _groups(draws: Any, xarray: Any) -> dict[str, Any]:
    """The groups of the source, or a posterior made of the draws."""
    if callable(getattr(draws, "groups", None)):
        return {name: draws[name] for name in draws.groups()}
    if hasattr(draws, "children") and "posterior" in draws.children:
        return {name: node.to_dataset() for name, node in draws.children.items()}
    return {"posterior": _dataset(as_draws(draws), xarray)}


def _dataset(draws: Draws, xarray: Any) -> Any:
    """Dataset with one variable per name: "theta[0]" and "theta[1]" become the variable theta."""
    lengths = draws.lengths if draws.n_chains else np.array([len(draws)])
    if np.ptp(lengths):
        raise ValueError(f"`draws` must have chains of one length for ArviZ, got lengths {lengths.tolist()}")
    values = draws.values.reshape(len(lengths), lengths[0], -1)
    names = coordinate_names(draws.shape[1], draws.names)
    variables: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        variables.setdefault(name.partition("[")[0] if name.endswith("]") else name, []).append(k)
    content = {}
    for variable, columns in variables.items():
        shape = _shape([names[k] for k in columns])
        axes = [f"{variable}_dim_{axis}" for axis in range(len(shape))]
        content[variable] = (
            ("chain", "draw", *axes),
            values[:, :, columns].reshape(*values.shape[:2], *shape),
        )
    coordinates = {"chain": np.arange(len(lengths)), "draw": np.arange(lengths[0])}
    return xarray.Dataset(content, coords=coordinates)


def _shape(names: list[str]) -> tuple[int, ...]:
    """Shape of the array whose elements have these names in row-major order; a vector if they are not."""
    if len(names) == 1 and not names[0].endswith("]"):
        return ()
    indices = [tuple(name.partition("[")[2][:-1].split(",")) for name in names]
    if all(part.isdigit() for index in indices for part in index):
        numbers = [tuple(map(int, index)) for index in indices]
        shape = tuple(1 + max(index[axis] for index in numbers) for axis in range(len(numbers[0])))
        if numbers == list(np.ndindex(*shape)):
            return shape
    return (len(names),)


def _per_draw(values: Any, shape: tuple[int, int], name: str) -> np.ndarray:
    array = as_numbers(values, name)
    if array.size != shape[0] * shape[1]:
        raise ValueError(f"`{name}` must have one value per draw ({shape[0] * shape[1]}), got {array.size}")
    return array.reshape(shape)


def _as_integers(modes: np.ndarray) -> np.ndarray:
    if not (np.isfinite(modes).all() and (modes == np.round(modes)).all()):
        raise ValueError("`mode_of_draw` must hold integers, the mode of each draw or -1 for none")
    return modes.astype(int)
