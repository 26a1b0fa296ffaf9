"""Pictures of results. Every function takes `ax`, or makes one, and returns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ._validation import as_generator, as_positive, check_level, require_kind, shown
from .draws import as_draws, as_matrix
from .moments.table import leading
from .result import (
    GofResult,
    KsdaggResult,
    Modes,
    ModeTable,
    MomentFeature,
    MomentResult,
    OspksdResult,
    SpksdResult,
    pvalue_text,
)
from .stein.kernels import IMQ, median_bandwidth
from .stein.tiles import quadratic_forms
from .target import Target, log_density_at, require_target, score_at

# distinct to colour-blind eyes, in print and on screen
FIRST = "#2a6fb0"
SECOND = "#c2571a"
QUIET = "#8a8f98"
PAPER = "#ffffff"
__all__ = [
    "bandwidth_profile",
    "contributions",
    "draws",
    "effect_sizes",
    "mode_shares",
    "null_distribution",
    "perturbed",
    "theta_profile",
    "witness",
]
MAX_POINTS = 1000  # drawn in a scatter plot, and used for a witness: more hide each other
MAX_BARS = 15  # modes or parameters in one picture: more cannot be read
MAX_ELLIPSES = 20  # modes drawn as ellipses
MAX_NAME_LENGTH = 24  # characters of a parameter's name


def null_distribution(result: GofResult, *, ax: Any = None) -> Any:
    """Histogram of the statistic's simulated null distribution, with the observed statistic.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=1)
    >>> result = sc.ksd_test(np.random.default_rng(0).normal(size=(200, 1)), target, rng=0)
    >>> ax = sc.plot.null_distribution(result)
    """
    require_kind(result, GofResult, "result")
    if result.null_distribution is None or not len(result.null_distribution):
        raise ValueError(f"`result`: the {result.test} has no simulated null distribution to draw")
    ax = _axes(ax)
    ax.hist(np.ravel(result.null_distribution), bins=40, color=QUIET, label="if the draws fit")
    ax.axvline(result.statistic, color=SECOND, lw=2, label=f"observed, p {pvalue_text(result.pvalue)}")
    ax.set(xlabel=f"statistic of the {result.test}", ylabel="replicates")
    ax.margins(x=0.08)
    return _legend(ax)


def mode_shares(table: ModeTable, *, ax: Any = None) -> Any:
    """Observed and implied share of each mode, with intervals; the 15 modes with the largest shares."""
    require_kind(table, ModeTable, "table")
    largest = np.fmax(table.observed, table.implied)
    order = np.sort(np.argsort(-largest, kind="stable")[:MAX_BARS])
    place = np.arange(len(order), dtype=float)
    ax = _axes(ax)
    for share, interval, shift, colour, mark, label in (
        (table.observed, table.observed_interval, -0.12, FIRST, "o", "share of the draws"),
        (table.implied, table.implied_interval, 0.12, SECOND, "s", "share of the density"),
    ):
        centre, ends = 100 * share[order], 100 * interval[order]
        length = np.clip(np.stack([centre - ends[:, 0], ends[:, 1] - centre]), 0, None)
        ax.errorbar(centre, place + shift, xerr=length, fmt=mark, ms=5, lw=1.6, color=colour, label=label)
    ax.set_yticks(place, [f"mode {k}" for k in order])
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
    ax.set_xlabel("share, %")
    return _legend(ax)


def effect_sizes(result: MomentResult, *, alpha: float = 0.05, ax: Any = None) -> Any:
    """Forest plot of the leading findings of the moment test: how much each is off, with its 95 % interval.

    Shifts are in standard deviations, spreads as the logarithm to base 2 of the factor (1: twice too wide),
    so that 0 is no misfit for all. Shapes and constant parameters have no size and are not drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=2)
    >>> wide = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 1.5]
    >>> ax = sc.plot.effect_sizes(sc.moment_test(wide, target, modes=[[0.0, 0.0]], rng=0))
    """
    require_kind(result, MomentResult, "result")
    check_level(alpha)
    rows = [row for row in (_effect(feature) for feature in leading(result, alpha)) if row is not None]
    ax = _axes(ax)
    for place, (_, centre, low, high) in enumerate(rows):
        ends = np.array([[centre - low], [high - centre]]).clip(0)
        ax.errorbar([centre], [place], xerr=ends, fmt="o", ms=5, lw=1.6, color=FIRST)
    ax.axvline(0.0, color=QUIET, lw=1)
    ax.set_yticks(range(len(rows)), [row[0] for row in rows], parse_math=False)
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    ax.set_xlabel("too low, narrow or uncorrelated | too high, wide or correlated")
    if not rows:
        ax.text(0.5, 0.5, "no misfit with a size", transform=ax.transAxes, ha="center", va="center")
    return ax


def _effect(feature: MomentFeature) -> tuple[str, float, float, float] | None:
    """Label, size and interval with 0 for no misfit; None for what has no size."""
    what = {
        "location": "mean of ",
        "scale": "log2 sd of ",
        "correlation": "corr. of ",
        "overall scale": "log2 sd, all",
    }
    if feature.kind not in what:
        return None
    values = np.array([feature.estimate, *feature.interval])
    if "scale" in feature.kind:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log2(values)
    if not np.isfinite(values).all():
        return None
    where = "" if feature.mode is None else f"mode {feature.mode}: "
    subject = ", ".join(feature.parameters) if feature.basis in ("own", "given the others") else feature.basis
    label = where + what[feature.kind] + ("" if feature.kind == "overall scale" else subject)
    label += " | others" if feature.basis == "given the others" else ""
    return label, float(values[0]), float(values[1]), float(values[2])


def draws(
    draws: Any,
    *,
    modes: Any = None,
    coordinates: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    target: Target | None = None,
    ax: Any = None,
) -> Any:
    """The draws and the modes: a histogram of one coordinate, or a scatter of two.

    Parameters
    ----------
    draws : array (n, d)
    modes : Modes or array (M, d), optional
        Modes to number from 0. Those with covariances are drawn as ellipses of 1 and 2 standard deviations:
        an ellipse without draws is a missing mode.
    coordinates : one or two int, optional
        Which to draw; by default the two in which the modes are farthest apart for the spread of the draws.
    names : sequence of str, optional
        Names of all coordinates.
    target : Target, optional
        Its density, normalised by quadrature, is drawn too if it has a single coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    >>> left = np.random.default_rng(0).normal([-3.0, 0.0], 1.0, size=(200, 2))
    >>> ax = sc.plot.draws(left, modes=sc.find_modes(target, draws=left, rng=0))
    """
    x = _matrix(draws, "draws")
    if target is not None:
        require_target(target)
    dim = x.shape[1]
    centres = _locations(modes, dim)
    chosen = _most_apart(x, centres) if coordinates is None else _checked(coordinates, dim)
    labels = _labels(names, dim)
    ax = _axes(ax)
    if len(chosen) == 1:
        _draw_one(ax, x[:, chosen[0]], centres[:, chosen[0]], target)
    else:
        covariances = modes.covariances if isinstance(modes, Modes) else None
        _draw_two(ax, x, centres, covariances, chosen)
        ax.set_ylabel(labels[chosen[1]], parse_math=False)
    ax.set_xlabel(labels[chosen[0]], parse_math=False)
    return _legend(ax)


def _draw_one(ax: Any, x: np.ndarray, centres: np.ndarray, target: Target | None) -> None:
    """Histogram of one coordinate with the modes, and the density if it is all there is."""
    ax.hist(x, bins=50, density=True, color=FIRST, alpha=0.6, label="draws")
    if target is not None and target.dim == 1:
        grid, density = _density(target, np.concatenate([x, centres]), centres)
        ax.plot(grid, density, color=SECOND, lw=1.8, label="density")
    for number, centre in enumerate(centres):
        ax.axvline(centre, color=QUIET, lw=1, ls=":", label=None if number else "modes")
    ax.set_ylabel("density")


def _draw_two(
    ax: Any, x: np.ndarray, centres: np.ndarray, covariances: np.ndarray | None, chosen: tuple[int, ...]
) -> None:
    """Scatter of two coordinates with the modes, as ellipses where their widths are known."""
    points = x[:: max(1, len(x) // MAX_POINTS), list(chosen)]
    flat = centres[:, list(chosen)]
    ax.scatter(points[:, 0], points[:, 1], s=5, color=FIRST, alpha=0.5, lw=0, label="draws")
    extent = np.ptp(np.concatenate([points, flat]), axis=0)
    for k in range(min(len(flat), MAX_ELLIPSES) if covariances is not None else 0):
        assert covariances is not None
        shape = covariances[k][np.ix_(chosen, chosen)]
        for radius, style in ((1, "-"), (2, "--")):
            label = f"modes, {radius} sd" if k == 0 else None
            ax.plot(*_ellipse(flat[k], shape, radius), style, color=SECOND, lw=1.1, label=label)
    if len(flat) and covariances is None:
        ax.scatter(flat[:, 0], flat[:, 1], marker="x", color=SECOND, label="modes")
    _number(ax, flat, extent)


def _ellipse(centre: np.ndarray, covariance: np.ndarray, radius: float) -> np.ndarray:
    """Points (2, 100) of the ellipse at `radius` standard deviations of a Gaussian."""
    angle = np.linspace(0, 2 * np.pi, 100)
    values, vectors = np.linalg.eigh(covariance)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return centre[:, None] + radius * (vectors * np.sqrt(np.maximum(values, 0))) @ circle


def _locations(modes: Any, dim: int) -> np.ndarray:
    if modes is None:
        return np.empty((0, dim))
    if isinstance(modes, Modes):
        return modes.locations
    return as_matrix(modes, dim, minimum=1, name="modes")


def perturbed(
    before: Any,
    after: Any,
    *,
    coordinates: Sequence[int] = (0,),
    names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draws before and after the perturbation: densities of one coordinate, or a scatter of two.

    Parameters
    ----------
    before, after : arrays (n, d)
        The draws, and one of the samples of a `Perturbation`.
    coordinates : one or two int
        Which to draw.
    names : sequence of str, optional
        Names of all coordinates.
    """
    before, after = _matrix(before, "before"), _matrix(after, "after")
    if before.shape[1] != after.shape[1]:
        raise ValueError(
            f"`before` and `after` must have one dimension, got {before.shape} and {after.shape}"
        )
    chosen, labels = _checked(coordinates, before.shape[1]), _labels(names, before.shape[1])
    ax = _axes(ax)
    samples = ((before, FIRST, "before"), (after, SECOND, "after the perturbation"))
    if len(chosen) == 1:
        k = chosen[0]
        edges = np.histogram_bin_edges(np.concatenate([before[:, k], after[:, k]]), bins=60)
        for x, colour, label in samples:
            ax.hist(x[:, k], edges, density=True, histtype="step", color=colour, lw=1.6, label=label)
        ax.set_ylabel("density")
    else:
        for x, colour, label in samples:
            points = x[:MAX_POINTS]
            ax.scatter(
                points[:, chosen[0]], points[:, chosen[1]], s=5, color=colour, alpha=0.5, lw=0, label=label
            )
        ax.set_ylabel(labels[chosen[1]], parse_math=False)
    ax.set_xlabel(labels[chosen[0]], parse_math=False)
    return _legend(ax)


def theta_profile(result: GofResult, *, ax: Any = None) -> Any:
    """What a perturbed test saw at each jump scale theta.

    Of `spksd_test`: the statistic at each theta, and that of the unperturbed draws. Of `ospksd_test`: the
    criterion, an estimate of power, and the theta that was chosen by it.
    """
    if not isinstance(result, (SpksdResult, OspksdResult)):
        raise TypeError(
            f"`result` must come from spksd_test or ospksd_test, got {type(result).__name__}: "
            "other tests have no profile over theta"
        )
    ax = _axes(ax)
    if isinstance(result, OspksdResult):
        ax.plot(result.theta, result.criterion, ".-", color=FIRST, label="criterion (training draws)")
        ax.axvline(result.chosen_theta, color=SECOND, lw=1.5, label=f"chosen, {result.chosen_theta:.3g}")
        ax.set_ylabel("criterion")
    else:
        ax.plot(result.theta, result.theta_statistics, ".-", color=FIRST, label="after perturbation")
        ax.axhline(result.identity_statistic, color=SECOND, lw=1.5, ls="--", label="unperturbed draws")
        ax.set_ylabel("statistic")
    ax.set_xlabel("jump scale theta")
    return _legend(ax)


def bandwidth_profile(result: GofResult, *, ax: Any = None) -> Any:
    """Statistics of an aggregated test relative to their thresholds, by the width of the kernel."""
    if not isinstance(result, KsdaggResult):
        raise TypeError(
            f"`result` must come from ksdagg_test or pksdagg_test, got {type(result).__name__}: "
            "other tests have one bandwidth only"
        )
    ratio = result.statistics / np.maximum(result.thresholds, np.finfo(float).tiny)
    ax = _axes(ax)
    widths, position = np.unique(np.sqrt(result.bandwidths), return_inverse=True)
    ax.plot(position, np.maximum(ratio, 0), "o", color=FIRST, label="observed")
    ax.axhline(1, color=SECOND, lw=1.5, ls="--", label="misfit above")
    ax.set(xlabel="width of the kernel", ylabel="statistic / threshold", ylim=(0, None))
    marked = np.unique(np.linspace(0, len(widths) - 1, 5).round().astype(int))
    ax.set_xticks(marked, [f"{widths[k]:.2g}" for k in marked])
    return _legend(ax)


def witness(
    x: Any, target: Target, *, coordinate: int = 0, scales: Any = None, rng: Any = None, ax: Any = None
) -> Any:
    """The Stein witness of one coordinate at the draws.

    g(y) = mean over the draws x of k(x, y) s(x) + grad_x k(x, y) is 0 up to noise where the draws fit. A
    random subset of 1000 draws is used.

    Parameters
    ----------
    x : array (n, d)
    target : Target
    coordinate : int
        Which component of g to draw, against the same coordinate of the draws.
    scales : array (d,), optional
        The kernel measures coordinates in these units; by default the standard deviations of the draws.
    rng : Generator or int, optional
        Chooses the subset.
    """
    require_target(target)
    (k,) = _checked([coordinate], target.dim, "coordinate")
    x, z, s, kernel = _scaled_subset(x, target, scales, rng)
    r2 = np.maximum(np.sum(z**2, axis=1)[:, None] + np.sum(z**2, axis=1) - 2 * z @ z.T, 0.0)
    with jax.enable_x64(True):
        phi, first, _ = (np.asarray(part) for part in kernel.profile(r2))
    gap = z[:, k, None] - z[:, k]  # x - y, one column a y
    values = np.mean(phi * s[:, k, None] + 2 * first * gap, axis=0)
    ax = _axes(ax)
    ax.axhline(0, color=QUIET, lw=1)
    ax.scatter(x[:, k], values, s=6, color=FIRST, alpha=0.6, lw=0)
    ax.set_xlabel(_labels(target.names, target.dim)[k], parse_math=False)
    ax.set_ylabel("Stein witness")
    return ax


def contributions(
    x: Any, target: Target, *, coordinate: int = 0, scales: Any = None, rng: Any = None, ax: Any = None
) -> Any:
    """What each draw contributes to the KSD statistic, against one of its coordinates.

    The contribution of x_i is the mean of u(x_i, x_j) over j != i; their mean is the statistic. Parameters
    as in `witness`.
    """
    require_target(target)
    (k,) = _checked([coordinate], target.dim, "coordinate")
    x, z, s, kernel = _scaled_subset(x, target, scales, rng)
    sums = quadratic_forms(z[None], s[None], kernel, kernel.bandwidth, row_sums=True).row_sums
    assert sums is not None
    values = sums[0, 0] / (len(x) - 1)
    ax = _axes(ax)
    ax.axhline(0, color=QUIET, lw=1)
    ax.scatter(x[:, k], values, s=6, color=FIRST, alpha=0.6, lw=0)
    ax.axhline(values.mean(), color=SECOND, lw=1.5, label=f"mean = the statistic, {values.mean():.3g}")
    ax.set_xlabel(_labels(target.names, target.dim)[k], parse_math=False)
    ax.set_ylabel("contribution of the draw")
    return _legend(ax)


def __dir__() -> list[str]:
    return __all__


def _scaled_subset(
    x: Any, target: Target, scales: Any, rng: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, IMQ]:
    """At most 1000 draws; themselves and their scores in units of `scales`; the kernel."""
    x = as_matrix(x, target.dim)
    pick, width = as_generator(rng).spawn(2)
    unit = x.std(axis=0) if scales is None else as_positive(scales, "scales")
    if len(unit) not in (1, target.dim):
        raise ValueError(f"`scales` must be one number per coordinate, {target.dim}, got {len(unit)}")
    if not (np.isfinite(unit) & (unit > 0)).all():
        raise ValueError(f"`x` must vary in every coordinate, its standard deviations are {unit.tolist()}")
    x = x[np.sort(pick.choice(len(x), min(len(x), MAX_POINTS), replace=False))]
    z = (x - x.mean(axis=0)) / unit
    return x, z, score_at(target, x) * unit, IMQ(median_bandwidth(z, rng=width))


def _number(ax: Any, places: np.ndarray, extent: np.ndarray) -> None:
    """Number the places, but for those that would be written over another number."""
    written: list[np.ndarray] = []
    for number, place in enumerate(places):
        if all(np.any(np.abs(place - other) > [0.08, 0.11] * extent) for other in written):
            written.append(place)
            ax.annotate(
                str(number),
                place,
                (6, 5),
                textcoords="offset points",
                color=SECOND,
                weight="bold",
                bbox={"boxstyle": "round,pad=0.1", "fc": PAPER, "ec": "none", "alpha": 0.7},
            )


def _density(target: Target, points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A grid over the points and beyond, and the density normalised on it; NaN where there is no mass.

    It is fine near the `centres`: modes may be narrow.
    """
    low, high = points.min(), points.max()
    reach = 0.5 * (high - low)
    near = reach * np.geomspace(1e-8, 1, 161)
    extra = [np.array([c, *(c - near), *(c + near)]) for c in centres]
    grid = np.unique(np.concatenate([np.linspace(low - reach, high + reach, 2001), *extra]))
    grid = grid[(grid >= low - reach) & (grid <= high + reach)]
    log_p = log_density_at(target, grid[:, None], proposal=True)
    p = np.exp(log_p - log_p.max())
    p /= np.trapezoid(p, grid)
    return grid, np.where(p > 1e-3 * p.max(), p, np.nan)


def _most_apart(x: np.ndarray, centres: np.ndarray) -> tuple[int, ...]:
    if x.shape[1] < 3:
        return tuple(range(x.shape[1]))
    spread = np.ptp(centres, axis=0) if len(centres) > 1 else np.zeros(x.shape[1])
    first, second = np.argsort(-spread / np.maximum(x.std(axis=0), np.finfo(float).tiny), kind="stable")[:2]
    return int(first), int(second)


def _matrix(x: Any, name: str) -> np.ndarray:
    return as_draws(x, name=name, minimum=1).values


def _checked(chosen: Any, dim: int, name: str = "coordinates") -> tuple[int, ...]:
    listed = list(chosen) if isinstance(chosen, (list, tuple, np.ndarray)) else []
    whole = all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in listed)
    if len(listed) not in (1, 2) or not whole or not all(0 <= k < dim for k in listed):
        raise ValueError(f"`{name}` must be one or two of 0..{dim - 1}, got {shown(chosen)}")
    return tuple(int(k) for k in listed)


def _labels(names: Sequence[str] | None, dim: int) -> list[str]:
    if names is None:
        return [f"x[{k}]" for k in range(dim)]
    if isinstance(names, (str, bytes)) or not isinstance(names, (Sequence, np.ndarray)) or len(names) != dim:
        raise ValueError(f"`names` must have one name per coordinate ({dim}), got {shown(names)}")
    return [
        name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"
        for name in map(str, names)
    ]


def _axes(ax: Any) -> Any:
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plots need matplotlib: pip install 'steincheck[plot]'") from None
        ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")[1]
    if isinstance(ax, type) or not hasattr(ax, "spines") or not hasattr(ax, "errorbar"):
        raise TypeError(f"`ax` must be axes of matplotlib or None, got {type(ax).__name__}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _legend(ax: Any) -> Any:
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
