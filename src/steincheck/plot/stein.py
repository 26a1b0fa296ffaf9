"""Pictures of where the kernel tests see a misfit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._palette import CONTRAST_COLOUR, MAIN_COLOUR
from .._validation import RandomSource, as_generator, as_positive
from ..draws import to_unconstrained
from ..stein.kernels import IMQ, median_squared_distance
from ..stein.tiles import quadratic_forms
from ..target import Target, require_target, score_at
from ..typing import DrawsLike
from .axes import MAX_POINTS, MUTED_COLOUR, axes_or_new, check_coordinates, labels_of, with_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def witness(
    draws: DrawsLike,
    target: Target,
    *,
    coordinate: int = 0,
    scales: ArrayLike | None = None,
    rng: RandomSource = None,
    ax: Axes | None = None,
) -> Axes:
    """The Stein witness of one coordinate at the draws.

    g(y) = mean over the draws x of k(x, y) s(x) + grad_x k(x, y) is 0 up to noise where the draws fit. A
    random subset of 1000 draws is used.

    Parameters
    ----------
    draws : array (n, d), or anything that `as_draws` takes
    target : Target
    coordinate : int
        Which component of g to draw, against the same coordinate of the draws.
    scales : float or array (d,), optional
        The kernel measures coordinates in these units; by default the standard deviations of the draws.
    rng : int, Generator or SeedSequence, optional
        Chooses the subset.
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
    >>> ax = sc.plot.witness(draws, target, rng=0)
    """
    require_target(target)
    (k,) = check_coordinates([coordinate], target.dim, "coordinate")
    x, z, s, kernel = _scaled_subset(draws, target, scales, rng)
    r2 = np.maximum(np.sum(z**2, axis=1)[:, None] + np.sum(z**2, axis=1) - 2 * z @ z.T, 0.0)
    with jax.enable_x64(True):
        phi, first, _ = (np.asarray(part) for part in kernel.profile(r2))
    gap = z[:, k, None] - z[:, k]  # x - y, one column per y
    values = np.mean(phi * s[:, k, None] + 2 * first * gap, axis=0)
    ax = axes_or_new(ax)
    ax.axhline(0, color=MUTED_COLOUR, lw=1)
    ax.scatter(x[:, k], values, s=6, color=MAIN_COLOUR, alpha=0.6, lw=0)
    ax.set_xlabel(labels_of(target.names, target.dim)[k], parse_math=False)
    ax.set_ylabel("Stein witness")
    return ax


def contributions(
    draws: DrawsLike,
    target: Target,
    *,
    coordinate: int = 0,
    scales: ArrayLike | None = None,
    rng: RandomSource = None,
    ax: Axes | None = None,
) -> Axes:
    """What each draw contributes to the KSD statistic, against one of its coordinates.

    The contribution of x_i is the mean of u(x_i, x_j) over j != i; their mean is the statistic.

    Parameters
    ----------
    draws, target, coordinate, scales, rng, ax
        As in `witness`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=1)
    >>> draws = np.random.default_rng(0).normal(0.5, 1.0, size=(200, 1))
    >>> ax = sc.plot.contributions(draws, target, rng=0)
    """
    require_target(target)
    (k,) = check_coordinates([coordinate], target.dim, "coordinate")
    x, z, s, kernel = _scaled_subset(draws, target, scales, rng)
    sums = quadratic_forms(z[None], s[None], kernel, kernel.bandwidth, row_sums=True).row_sums
    assert sums is not None
    values = sums[0, 0] / (len(x) - 1)
    ax = axes_or_new(ax)
    ax.axhline(0, color=MUTED_COLOUR, lw=1)
    ax.scatter(x[:, k], values, s=6, color=MAIN_COLOUR, alpha=0.6, lw=0)
    ax.axhline(
        values.mean(), color=CONTRAST_COLOUR, lw=1.5, label=f"mean = the statistic, {values.mean():.3g}"
    )
    ax.set_xlabel(labels_of(target.names, target.dim)[k], parse_math=False)
    ax.set_ylabel("contribution of the draw")
    return with_legend(ax)


def _scaled_subset(
    draws: Any, target: Target, scales: Any, rng: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, IMQ]:
    """At most 1000 draws; themselves and their scores in units of `scales`; the kernel."""
    x = to_unconstrained(draws, target).values
    pick, width = as_generator(rng).spawn(2)
    unit = x.std(axis=0) if scales is None else as_positive(scales, "scales")
    if np.ndim(scales) and len(unit) != target.dim:
        raise ValueError(f"`scales` must be one number, or one per coordinate, {target.dim}, got {len(unit)}")
    if not (np.isfinite(unit) & (unit > 0)).all():
        raise ValueError(
            f"`draws` must vary in every coordinate, their standard deviations are {unit.tolist()}"
        )
    x = x[np.sort(pick.choice(len(x), min(len(x), MAX_POINTS), replace=False))]
    z = (x - x.mean(axis=0)) / unit
    return x, z, score_at(target, x) * unit, IMQ(median_squared_distance(z, width))
