"""Pictures of the results of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._palette import CONTRAST_COLOUR, MAIN_COLOUR, MAX_BARS
from .._validation import check_level, require_kind
from ..moments.table import leading_features
from ..result import (
    GofResult,
    KsdaggResult,
    ModeTable,
    MomentFeature,
    MomentResult,
    OspksdResult,
    SpksdResult,
    pvalue_text,
)
from .axes import MUTED_COLOUR, axes_or_new, with_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def null_distribution(result: GofResult, *, ax: Axes | None = None) -> Axes:
    """Histogram of the statistic's simulated null distribution, with the observed statistic.

    Parameters
    ----------
    result : GofResult
        Result of a test that simulates its null distribution.
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Axes

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
    ax = axes_or_new(ax)
    ax.hist(np.ravel(result.null_distribution), bins=40, color=MUTED_COLOUR, label="if the draws fit")
    p = pvalue_text(result.pvalue, smallest=result.at_floor)
    ax.axvline(result.statistic, color=CONTRAST_COLOUR, lw=2, label=f"observed, p {p}")
    ax.set(xlabel=f"statistic of the {result.test}", ylabel="replicates")
    ax.margins(x=0.08)
    return with_legend(ax)


def mode_shares(table: ModeTable, *, ax: Axes | None = None) -> Axes:
    """Observed share of each mode and implied one with its interval; the 15 modes with the largest shares.

    Parameters
    ----------
    table : ModeTable
        Table of a verdict or of `flux_test`.
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> result = sc.flux_test(target.sample(300, 0), target, modes=[[-3.0], [3.0]], rng=0)
    >>> ax = sc.plot.mode_shares(result.mode_table)
    """
    require_kind(table, ModeTable, "table")
    largest = np.fmax(table.observed, table.implied)
    order = np.sort(np.argsort(-largest, kind="stable")[:MAX_BARS])
    place = np.arange(len(order), dtype=float)
    ax = axes_or_new(ax)
    observed, implied = 100 * table.observed[order], 100 * table.implied[order]
    ends = 100 * table.implied_interval[order]
    length = np.clip(np.stack([implied - ends[:, 0], ends[:, 1] - implied]), 0, None)
    ax.errorbar(observed, place - 0.12, fmt="o", ms=5, color=MAIN_COLOUR, label="share of the draws")
    density = ax.errorbar(implied, place + 0.12, xerr=length, fmt="s", ms=5, lw=1.6, color=CONTRAST_COLOUR)
    density.set_label("share of the density")
    ax.set_yticks(place, [f"mode {k}" for k in order])
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
    ax.set_xlabel("share, %")
    return with_legend(ax)


def effect_sizes(result: MomentResult, *, alpha: float = 0.05, ax: Axes | None = None) -> Axes:
    """Forest plot of the leading findings of the moment test: how much each is off, with its 95 % interval.

    The position is the shift in standard deviations, the logarithm to base 2 of the factor of a spread (1:
    twice too wide) or the difference of a correlation, so that 0 is no misfit for all; the labels have the
    shift, the factor or the difference itself. Shapes and constant parameters have no size and are not drawn.

    Parameters
    ----------
    result : MomentResult
    alpha : float
        Features with an adjusted p-value up to this level are drawn.
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Axes

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
    rows = [
        row for row in (_effect(feature) for feature in leading_features(result, alpha)) if row is not None
    ]
    ax = axes_or_new(ax)
    for place, (_, centre, low, high) in enumerate(rows):
        ends = np.array([[centre - low], [high - centre]]).clip(0)
        ax.errorbar([centre], [place], xerr=ends, fmt="o", ms=5, lw=1.6, color=MAIN_COLOUR)
    ax.axvline(0.0, color=MUTED_COLOUR, lw=1)
    ax.set_yticks(range(len(rows)), [row[0] for row in rows], parse_math=False)
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    ax.set_xlabel("too small | too large")
    if not rows:
        nothing = "no misfit whose size can be estimated"
        ax.text(0.5, 0.5, nothing, transform=ax.transAxes, ha="center", va="center")
    return ax


def _effect(feature: MomentFeature) -> tuple[str, float, float, float] | None:
    """Label, size and interval with 0 for no misfit; None for what has no size."""
    values = np.array([feature.estimate, *feature.interval])
    what = {"location": "mean", "scale": "sd", "correlation": "corr.", "overall scale": "sd"}
    if feature.kind not in what:
        return None
    size = f"{feature.estimate:+.2g}"
    if feature.kind == "location":
        size += " sd"
    if "scale" in feature.kind:
        size = f"x {feature.estimate:.2g}"
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log2(values)
    if not np.isfinite(values).all():
        return None
    where = "" if feature.mode is None else f"mode {feature.mode}: "
    label = f"{where}{what[feature.kind]} of {_subject(feature)}: {size}"
    return label, float(values[0]), float(values[1]), float(values[2])


def _subject(feature: MomentFeature) -> str:
    """The parameters, with the scale where it is not their own; or the direction."""
    if feature.basis == "all":
        return "all"
    if feature.basis not in ("parameter", "given the others"):
        return feature.basis
    scales = feature.scales or ("",) * len(feature.parameters)
    pairs = zip(scales, feature.parameters, strict=True)
    given = " | others" if feature.basis == "given the others" else ""
    return ", ".join(f"{scale} {name}".strip() for scale, name in pairs) + given


def theta_profile(result: SpksdResult | OspksdResult, *, ax: Axes | None = None) -> Axes:
    """What a perturbed test saw at each jump scale theta.

    Of `spksd_test`: the statistic at each theta, and that of the unperturbed draws. Of `ospksd_test`: the
    criterion, an estimate of power, and the theta that was chosen by it.

    Parameters
    ----------
    result : SpksdResult or OspksdResult
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> options = {"modes": [[-3.0], [3.0]], "theta": [0.9, 1.1], "n_steps": 2, "n_resamples": 19, "rng": 0}
    >>> ax = sc.plot.theta_profile(sc.spksd_test(target.sample(50, 0), target, **options))
    """
    if not isinstance(result, (SpksdResult, OspksdResult)):
        raise TypeError(
            f"`result` must come from spksd_test or ospksd_test, got {type(result).__name__}: "
            "other tests have no profile over theta"
        )
    ax = axes_or_new(ax)
    if isinstance(result, OspksdResult):
        ax.plot(
            result.theta, result.power_criterion, ".-", color=MAIN_COLOUR, label="criterion (training draws)"
        )
        ax.axvline(
            result.chosen_theta, color=CONTRAST_COLOUR, lw=1.5, label=f"chosen, {result.chosen_theta:.3g}"
        )
        ax.set_ylabel("criterion")
    else:
        ax.plot(result.theta, result.theta_statistics, ".-", color=MAIN_COLOUR, label="after perturbation")
        ax.axhline(
            result.identity_statistic, color=CONTRAST_COLOUR, lw=1.5, ls="--", label="unperturbed draws"
        )
        ax.set_ylabel("statistic")
    ax.set_xlabel("jump scale theta")
    return with_legend(ax)


def bandwidth_profile(result: KsdaggResult, *, ax: Axes | None = None) -> Axes:
    """Statistics of an aggregated test relative to their thresholds, by the width of the kernel.

    Parameters
    ----------
    result : KsdaggResult
        Result of `ksdagg_test` or `pksdagg_test`.
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=1)
    >>> draws = np.random.default_rng(0).normal(0.5, 1.0, size=(200, 1))
    >>> ax = sc.plot.bandwidth_profile(sc.ksdagg_test(draws, target, rng=0))
    """
    if not isinstance(result, KsdaggResult):
        raise TypeError(
            f"`result` must come from ksdagg_test or pksdagg_test, got {type(result).__name__}: "
            "other tests have one bandwidth only"
        )
    ratio = result.statistics / np.maximum(result.thresholds, np.finfo(float).tiny)
    ax = axes_or_new(ax)
    widths, position = np.unique(np.sqrt(result.bandwidths), return_inverse=True)
    ax.plot(position, np.maximum(ratio, 0), "o", color=MAIN_COLOUR, label="observed")
    ax.axhline(1, color=CONTRAST_COLOUR, lw=1.5, ls="--", label="misfit above")
    ax.set(xlabel="width of the kernel", ylabel="statistic / threshold", ylim=(0, None))
    marked = np.unique(np.linspace(0, len(widths) - 1, 5).round().astype(int))
    ax.set_xticks(marked, [f"{widths[k]:.2g}" for k in marked])
    return with_legend(ax)
