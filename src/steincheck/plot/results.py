"""Pictures of the results of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._palette import CONTRAST_COLOUR, MAIN_COLOUR, MAX_BARS, MUTED_COLOUR
from .._validation import as_one_positive, require_kind, shown
from ..result import GofResult, KsdaggResult, ModeTable, OspksdResult, SpksdResult
from ..wording.numbers import pvalue_text
from .axes import axes_or_new, short_name, with_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..result import ParameterAccuracy


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


def effect_sizes(
    accuracy: Sequence[ParameterAccuracy], *, tolerance: float | None = None, ax: Axes | None = None
) -> Axes:
    """Forest plot of the errors of the draws' means and standard deviations, with 95 % intervals.

    The error of a mean is in standard deviations of the density, that of a standard deviation is the log of
    the ratio, draws to density, so that 0 is no error for both. Rough ones are hollow. Of many parameters
    the 15 with the largest errors are drawn.

    Parameters
    ----------
    accuracy : sequence of ParameterAccuracy
        ``verdict.accuracy``, or the parameters of `estimate_accuracy`.
    tolerance : float, optional
        Drawn as a band.
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
    >>> ax = sc.plot.effect_sizes(sc.check(wide, target, modes=[[0.0, 0.0]], rng=0).accuracy)
    """
    if not isinstance(accuracy, (list, tuple)) or not all(hasattr(item, "mean_error") for item in accuracy):
        raise TypeError(f"`accuracy` must be that of a verdict, got {shown(accuracy)}")
    width = 0.0 if tolerance is None else as_one_positive(tolerance, "tolerance")
    sizes = [np.fmax(abs(item.mean_error), abs(item.sd_error)) for item in accuracy]
    largest = np.argsort(-np.nan_to_num(sizes), kind="stable")[:MAX_BARS]
    records = [accuracy[k] for k in np.sort(largest)]
    ax = axes_or_new(ax)
    if width:
        ax.axvspan(-width, width, color=MUTED_COLOUR, alpha=0.2, lw=0, label="tolerance")
    ax.axvline(0.0, color=MUTED_COLOUR, lw=1)
    for place, item in enumerate(records):
        _draw_error(ax, place - 0.12, item.mean_error, item.mean_error_interval, MAIN_COLOUR, "o", item.rough)
        _draw_error(ax, place + 0.12, item.sd_error, item.sd_error_interval, CONTRAST_COLOUR, "s", item.rough)
    ax.plot([], [], "o", color=MAIN_COLOUR, label="mean, in sd")
    ax.plot([], [], "s", color=CONTRAST_COLOUR, label="log sd")
    ax.set_yticks(range(len(records)), [short_name(item.parameter) for item in records], parse_math=False)
    ax.set_ylim(max(len(records), 1) - 0.5, -0.5)
    ax.set_xlabel("error of the draws: too small | too large")
    return with_legend(ax)


def _draw_error(
    ax: Axes, place: float, error: float, interval: Sequence[float], colour: str, mark: str, rough: bool
) -> None:
    """An error with its interval; nothing if it is unknown."""
    if np.isfinite([error, *interval]).all():
        ends = [[error - interval[0]], [interval[1] - error]]
        face = "none" if rough else colour
        ax.errorbar([error], [place], xerr=ends, fmt=mark, ms=5, lw=1.6, color=colour, mfc=face)


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
        raise TypeError(f"`result` must come from spksd_test or ospksd_test, got {type(result).__name__}")
    ax = axes_or_new(ax)
    if isinstance(result, OspksdResult):
        ax.plot(result.theta, result.power_criterion, ".-", color=MAIN_COLOUR, label="training draws")
        chosen = result.chosen_theta
        ax.axvline(chosen, color=CONTRAST_COLOUR, lw=1.5, label=f"chosen, {chosen:.3g}")
    else:
        ax.plot(result.theta, result.theta_statistics, ".-", color=MAIN_COLOUR, label="after perturbation")
        ax.axhline(result.identity_statistic, color=CONTRAST_COLOUR, ls="--", label="unperturbed draws")
    ylabel = "criterion" if isinstance(result, OspksdResult) else "statistic"
    ax.set(xlabel="jump scale theta", ylabel=ylabel)
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
        raise TypeError(f"`result` must come from ksdagg_test or pksdagg_test, got {type(result).__name__}")
    ratio = result.statistics / np.maximum(result.thresholds, np.finfo(float).tiny)
    ax = axes_or_new(ax)
    ax.plot(np.sqrt(result.bandwidths), np.maximum(ratio, 0), "o", color=MAIN_COLOUR, label="observed")
    ax.axhline(1, color=CONTRAST_COLOUR, lw=1.5, ls="--", label="misfit above")
    ax.set(xlabel="width of the kernel", ylabel="statistic / threshold", xscale="log", ylim=(0, None))
    return with_legend(ax)
