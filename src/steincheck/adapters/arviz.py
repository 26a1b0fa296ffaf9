"""Results back to where users look: draws, their modes and their weights for ArviZ."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import require_kind
from ..draws import Draws, as_draws
from ..result import Verdict
from ..target import coordinate_names
from ..typing import DrawsLike


def to_arviz(draws: DrawsLike, verdict: Verdict | None = None) -> Any:
    """Draws with what a verdict says of each of them, as ArviZ takes it.

    Parameters
    ----------
    draws : InferenceData, DataTree, or anything that `as_draws` reads
        Groups of the former are kept; the rest becomes the group ``posterior``.
    verdict : Verdict, optional
        Verdict of these draws. The group ``sample_stats`` gets ``mode``, the mode of each draw or -1, and
        ``importance_weight`` where the verdict has weights, of mean 1. Sentence, p-value and seed become
        attributes.

    Returns
    -------
    InferenceData
        Or a DataTree with ArviZ 1.x, or if `draws` is one.

    Examples
    --------
    >>> import numpy as np
    >>> draws = {"mu": np.random.default_rng(0).normal(size=(4, 100))}
    >>> to_arviz(draws).posterior["mu"].shape  # doctest: +SKIP
    (4, 100)
    """
    try:
        import arviz
        import xarray
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install 'steincheck[arviz]'") from None
    groups = _groups(draws, xarray)
    attributes: dict[str, str] = {}
    if verdict is not None:
        require_kind(verdict, Verdict, "verdict")
        attributes = {key: str(getattr(verdict, key)) for key in ("sentence", "pvalue", "seed")}
        groups["sample_stats"] = _statistics(verdict, groups, xarray)
    if not hasattr(arviz, "InferenceData") or isinstance(draws, getattr(xarray, "DataTree", ())):
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs.update(attributes)
        return tree
    return arviz.InferenceData(**groups, attrs=attributes or None)


def _statistics(verdict: Verdict, groups: dict[str, Any], xarray: Any) -> Any:
    """The statistics of the sampler, if any, with the mode and the weight of each draw."""
    posterior = groups["posterior"]
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    added = {"mode": verdict.mode_of_draw}
    if verdict.importance_weights is not None:
        weights = verdict.importance_weights.weights
        added["importance_weight"] = weights / weights.mean()
    for values in added.values():
        if values is not None and len(values) != shape[0] * shape[1]:
            raise ValueError(
                f"`verdict` must be about these {shape[0] * shape[1]} draws, it is about {len(values)}"
            )
    axes = {name: posterior[name] for name in ("chain", "draw") if name in posterior.coords}
    known = {name: values.reshape(shape) for name, values in added.items() if values is not None}
    return groups.get("sample_stats", xarray.Dataset(coords=axes)).assign(
        {name: (("chain", "draw"), values) for name, values in known.items()}
    )


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
