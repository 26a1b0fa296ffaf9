"""What is known of each draw, as ArviZ takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .table import Table


def per_draw_group(
    lengths: Sequence[int],
    per_draw: Mapping[str, np.ndarray | None],
    per_parameter: Table,
    attributes: Mapping[str, Any],
) -> Any:
    """InferenceData, or a DataTree, with the group ``steincheck``: variables over draws and parameters."""
    try:
        import arviz
        import xarray
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install 'steincheck[arviz]'") from None
    if min(lengths) < max(lengths):
        raise ValueError(f"ArviZ needs chains of one length, got lengths {list(lengths)}")
    shape = (len(lengths), lengths[0])
    content: dict[str, Any] = {
        name: (("chain", "draw"), values.reshape(shape))
        for name, values in per_draw.items()
        if values is not None
    }
    content |= {name: (("parameter",), per_parameter[name]) for name in per_parameter.columns[1:]}
    axes = {
        "chain": np.arange(shape[0]),
        "draw": np.arange(shape[1]),
        "parameter": per_parameter["parameter"],
    }
    dataset = xarray.Dataset(content, coords=axes, attrs=dict(attributes))
    if hasattr(arviz, "InferenceData"):
        return arviz.InferenceData(steincheck=dataset)
    return xarray.DataTree.from_dict({"steincheck": dataset})
