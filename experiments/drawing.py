"""What the figures share: rejection rates with 95 % intervals, one colour a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .rows import Row, parts

LEVEL = 0.05
# colour-blind safe (Okabe and Ito); the paper's tests warm, those beyond it blue, benchmarks grey to green
STYLE: dict[str, tuple[str, str, str]] = {
    "KSD": ("#999999", "o", "-"),
    "KSDAgg": ("#009E73", "s", "-"),
    "FSSD": ("#CC79A7", "v", "-"),
    "spKSD": ("#D55E00", "^", "-"),
    "ospKSD": ("#E69F00", "D", "-"),
    "pKSDAgg": ("#56B4E9", "P", "-"),
    "flux": ("#0072B2", "X", "-"),
    "oracle": ("#000000", "", "--"),
}


def wilson(rejections: Any, n: Any, z: float = 1.959964) -> tuple[np.ndarray, np.ndarray]:
    """95 % score interval of a rejection rate."""
    rejections, n = np.asarray(rejections, dtype=float), np.asarray(n, dtype=float)
    centre = (rejections + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * np.sqrt(rejections * (n - rejections) / n + z * z / 4)
    return centre - half, centre + half


def rates(rows: Sequence[Row], name: str, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of the setting's `name`, and rejections and repetitions there, of one method."""
    mine = [row for row in rows if row.method == method]
    values = np.array([float(parts(row.setting)[name]) for row in mine])
    rejected = np.array([row.pvalue <= LEVEL for row in mine])
    x, place = np.unique(values, return_inverse=True)
    return x, np.bincount(place, rejected), np.bincount(place)


def select(rows: Sequence[Row], **wanted: float | str) -> list[Row]:
    """Rows whose setting has these parts."""
    texts = {name: value if isinstance(value, str) else f"{value:g}" for name, value in wanted.items()}
    return [row for row in rows if texts.items() <= parts(row.setting).items()]


class Panel(NamedTuple):
    """Rows, the part of the setting that they are drawn against, and what is written at the axes."""

    rows: Sequence[Row]
    name: str
    labels: dict[str, Any]
    even: bool = False


def power_figure(figsize: tuple[float, float], *panels: Panel) -> Any:
    """Panels of rejection rates side by side, with one legend below."""
    from matplotlib import pyplot

    picture, axes = pyplot.subplots(1, len(panels), figsize=figsize, layout="constrained", sharey=True)
    for ax, panel in zip(np.ravel(axes), panels, strict=True):
        power_curves(ax, panel.rows, panel.name, even=panel.even).set(**panel.labels)
    key_below(picture, axes)
    return picture


def power_curves(ax: Any, rows: Sequence[Row], name: str, *, even: bool = False) -> Any:
    """Rejection rate against a part of the setting, 95 % intervals shaded; `even` spaces values evenly."""
    for method, (colour, marker, line) in STYLE.items():
        x, rejections, n = rates(rows, name, method)
        if not len(x):
            continue
        at = np.arange(len(x)) if even else x
        low, high = wilson(rejections, n)
        ax.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
        style = {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 1.2}
        ax.plot(at, rejections / n, line, **style, label=method)
        if even:
            ax.set_xticks(at, [f"{value:g}" for value in x])
    ax.axhline(LEVEL, color="black", linewidth=0.6, linestyle=":")
    ax.set(ylim=(-0.03, 1.03), ylabel="rejection rate")
    return ax


def pvalue_curves(ax: Any, rows: Sequence[Row]) -> Any:
    """Empirical distribution functions of the p-values beside the uniform one."""
    for method, (colour, _, line) in STYLE.items():
        p = np.sort([row.pvalue for row in rows if row.method == method])
        if len(p):
            steps = np.arange(1, len(p) + 1) / len(p)
            ax.step([0, *p, 1], [0, *steps, 1], line, where="post", color=colour, linewidth=1, label=method)
    ax.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=0.8)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="p-value", ylabel="empirical CDF")
    return ax


def key_below(picture: Any, axes: Any) -> None:
    """One legend for all axes, below them."""
    found: dict[str, Any] = {}
    for ax in np.ravel(axes):
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    order = [name for name in STYLE if name in found]
    columns = min(len(order), int(picture.get_figwidth() / 1.1))
    picture.legend(
        [found[name] for name in order], order, loc="outside lower center", ncols=columns, frameon=False
    )
