"""Axes and labels that all pictures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import shown
from ..target.record import coordinate_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_POINTS = 1000  # of draws in a scatter plot: a limit of the eye


def pyplot() -> Any:
    """Matplotlib's module of that name."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'steincheck[plot]'") from None
    return plt


def axes_or_new(ax: Any) -> Axes:
    """The given axes, or new ones; without the frame on top and at the right."""
    if ax is None:
        ax = pyplot().subplots(figsize=(5.6, 3.4), layout="constrained")[1]
    if isinstance(ax, type) or getattr(ax, "name", None) != "rectilinear" or not hasattr(ax, "errorbar"):
        raise TypeError(f"`ax` must be rectilinear axes of matplotlib or None, got {type(ax).__name__}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def with_legend(ax: Any) -> Axes:
    """Above the axes, where it hides nothing."""
    spacing = {"borderaxespad": 0.2, "columnspacing": 1.2, "handlelength": 1.4}
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, **spacing)
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
    return [short_name(str(name)) for name in names]


def short_name(name: str, most: int = 24) -> str:
    """The name, cut where it is long.

    Examples
    --------
    >>> short_name("population_mean", 11)
    'population…'
    """
    return name if len(name) <= most else name[: most - 1] + "…"


def check_coordinates(chosen: Any, dim: int, most: int) -> tuple[int, ...]:
    """The chosen coordinates, if they exist and are different ones."""
    listed = list(chosen) if isinstance(chosen, (list, tuple, np.ndarray)) else []
    whole = all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in listed)
    if not whole or not 1 <= len(set(listed)) == len(listed) <= most or not set(listed) <= set(range(dim)):
        raise ValueError(f"`coordinates` must be up to {most} of 0..{dim - 1}, got {shown(chosen)}")
    return tuple(int(k) for k in listed)
