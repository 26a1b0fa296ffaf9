"""Results back to where users look: draws, their modes and their weights for ArviZ."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import needs, require_kind
from ..draws import as_draws
from ..result import Verdict
from ..target.record import coordinate_names
from ..typing import DrawsLike


def to_arviz(draws: DrawsLike, verdict: Verdict | None = None) -> Any:
    """Draws with what a verdict says of each of them, as ArviZ takes it.

    Parameters
    ----------
    draws : InferenceData, DataTree, or anything that `as_draws` reads
        Groups of the former are kept. The rest becomes the group ``posterior``, a variable per coordinate.
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
    with needs("to_arviz", "ArviZ", "arviz"):
        import arviz
        import xarray
    groups = _groups(draws, xarray)
    attributes: dict[str, str] = {}
    if verdict is not None:
        require_kind(verdict, Verdict, "verdict")
        attributes = {key: str(getattr(verdict, key)) for key in ("sentence", "pvalue", "seed")}
        posterior = groups["posterior"]
        shape = (posterior.sizes["chain"], posterior.sizes["draw"])
        added = {} if verdict.mode_of_draw is None else {"mode": verdict.mode_of_draw}
        if verdict.importance_weights is not None:
            weights = verdict.importance_weights.weights
            added["importance_weight"] = weights / weights.mean()
        for values in added.values():
            if values.size != shape[0] * shape[1]:
                raise ValueError(
                    f"`verdict` must be about these {shape[0] * shape[1]} draws, not about {values.size}"
                )
        axes = {name: posterior[name] for name in ("chain", "draw") if name in posterior.coords}
        own_statistics = groups.get("sample_stats", xarray.Dataset(coords=axes))
        columns = {key: (("chain", "draw"), values.reshape(shape)) for key, values in added.items()}
        groups["sample_stats"] = own_statistics.assign(columns)
    own = getattr(arviz, "InferenceData", xarray.DataTree)  # another name of DataTree from ArviZ 1 on
    if own is xarray.DataTree or isinstance(draws, xarray.DataTree):
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs.update(attributes)
        return tree
    return own(**groups, attrs=attributes or None)


def _groups(draws: Any, xarray: Any) -> dict[str, Any]:
    """The groups of the source, or a posterior made of the draws, with one variable per coordinate."""
    if callable(getattr(draws, "groups", None)):
        return {name: draws[name] for name in draws.groups()}
    if hasattr(draws, "children") and "posterior" in draws.children:
        return {name: node.to_dataset() for name, node in draws.children.items()}
    read = as_draws(draws)
    lengths = read.lengths if read.n_chains else np.array([len(read)])
    if np.ptp(lengths):
        raise ValueError(f"`draws` must have chains of one length for ArviZ, got lengths {lengths.tolist()}")
    names = coordinate_names(read.shape[1], read.names)
    columns = read.values.T.reshape(len(names), len(lengths), lengths[0])
    content = {name: (("chain", "draw"), column) for name, column in zip(names, columns, strict=True)}
    coordinates = {"chain": np.arange(len(lengths)), "draw": np.arange(lengths[0])}
    return {"posterior": xarray.Dataset(content, coords=coordinates)}
