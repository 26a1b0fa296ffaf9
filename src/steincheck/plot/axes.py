"""Axes, labels and colours that all pictures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import shown
from ..draws.coerce import read_as_draws
from ..target import coordinate_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MUTED_COLOUR = "#8a8f98"
PAPER_COLOUR = "#ffffff"
MAX_POINTS = 1000  # drawn in a scatter plot, and used for a witness: more hide each other
MAX_NAME_LENGTH = 24  # characters of a parameter's name


def axes_or_new(ax: Any) -> Axes:
    """The given axes, or new ones; without the frame on top and at the right."""
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plots need matplotlib: pip install 'steincheck[plot]'") from None
        ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")[1]
    if isinstance(ax, type) or not hasattr(ax, "spines") or not hasattr(ax, "errorbar"):
        raise TypeError(f"`ax` must be axes of matplotlib or None, got {type(ax).__name__}")
    if getattr(ax, "name", "rectilinear") != "rectilinear":
        raise TypeError(f"`ax` must be axes with a horizontal and a vertical scale, got {ax.name} axes")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def with_legend(ax: Any) -> Axes:
    """Above the axes, where it hides nothing."""
    ax.legend(
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=3,
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=1.4,
    )
    for handle in ax.get_legend().legend_handles:
        if hasattr(handle, "get_sizes"):
            handle.set(sizes=[24], alpha=1)
    return ax


def labels_of(names: Sequence[str] | None, dim: int) -> list[str]:
    """Names of the coordinates, cut where they are long."""
    if names is None:
        return coordinate_names(dim)
    if isinstance(names, (str, bytes)) or not isinstance(names, (Sequence, np.ndarray)) or len(names) != dim:
        raise ValueError(f"`names` must have one name per coordinate ({dim}), got {shown(names)}")
    return [
        name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"
        for name in map(str, names)
    ]


def check_coordinates(chosen: Any, dim: int, name: str = "coordinates") -> tuple[int, ...]:
    """One or two coordinates that exist."""
    listed = list(chosen) if isinstance(chosen, (list, tuple, np.ndarray)) else []
    if len(listed) not in (1, 2) or not are_coordinates(listed, dim):
        raise ValueError(f"`{name}` must be one or two of 0..{dim - 1}, got {shown(chosen)}")
    return tuple(int(k) for k in listed)


def are_coordinates(listed: Sequence[Any], dim: int) -> bool:
    """Whether all are whole numbers of 0..dim - 1."""
    return all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) and 0 <= k < dim for k in listed)


def as_points(x: Any, name: str) -> np.ndarray:
    """Draws (n, d) as floats."""
    return read_as_draws(x, name=name, minimum=1).values
