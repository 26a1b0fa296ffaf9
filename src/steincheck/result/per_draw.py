"""What is known of each draw, as ArviZ takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def per_draw_group(
    lengths: Sequence[int], mode: np.ndarray | None, weights: np.ndarray | None, attributes: Mapping[str, Any]
) -> Any:
    """InferenceData, or a DataTree, with the group ``steincheck``: variables over chain and draw."""
    try:
        import arviz
        import xarray
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install 'steincheck[arviz]'") from None
    if min(lengths) < max(lengths):
        raise ValueError(f"ArviZ needs chains of one length, got lengths {list(lengths)}")
    shape = (len(lengths), lengths[0])
    content = {}
    for name, values in (("mode", mode), ("importance_weight", weights)):
        if values is not None:
            content[name] = (("chain", "draw"), values.reshape(shape))
    axes = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
    dataset = xarray.Dataset(content, coords=axes, attrs=dict(attributes))
    if hasattr(arviz, "InferenceData"):
        return arviz.InferenceData(steincheck=dataset)
    return xarray.DataTree.from_dict({"steincheck": dataset})
