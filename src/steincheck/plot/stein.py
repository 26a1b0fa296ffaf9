"""A picture of where the kernel tests see a misfit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from .._palette import MAIN_COLOUR, MUTED_COLOUR
from .._validation import RandomSource, as_generator
from ..draws import to_unconstrained
from ..stein.kernels import IMQ, median_squared_distance
from ..target import Target, require_target, score_at
from ..typing import DrawsLike
from .axes import MAX_POINTS, axes_or_new, check_coordinates, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def witness(
    draws: DrawsLike,
    target: Target,
    *,
    coordinate: int = 0,
    rng: RandomSource = None,
    ax: Axes | None = None,
) -> Axes:
    """The Stein witness of one coordinate at the draws.

    g(y) = mean over the draws x of k(x, y) s(x) + grad_x k(x, y) is 0 up to noise where the draws fit.
    Coordinates are in units of the draws' standard deviations. A random subset of 1000 draws is used.

    Parameters
    ----------
    draws : array (n, d), or anything that `as_draws` takes
    target : Target
    coordinate : int
        Which component of g to draw, against the same coordinate of the draws.
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
    (k,) = check_coordinates([coordinate], target.dim, 1, "coordinate")
    x = to_unconstrained(draws, target).values
    unit = x.std(axis=0)
    if not (np.isfinite(unit) & (unit > 0)).all():
        raise ValueError(f"`draws` must vary in every coordinate, their sds are {unit.tolist()}")
    pick, width = as_generator(rng).spawn(2)
    x = x[np.sort(pick.choice(len(x), min(len(x), MAX_POINTS), replace=False))]
    z = (x - x.mean(axis=0)) / unit
    scores = score_at(target, x) * unit
    r2 = np.maximum(np.sum(z**2, axis=1)[:, None] + np.sum(z**2, axis=1) - 2 * z @ z.T, 0.0)
    with jax.enable_x64(True):
        profile = IMQ(median_squared_distance(z, width)).profile(r2)
        phi, slope, _ = (np.asarray(part) for part in profile)
    gap = z[:, k, None] - z[:, k]  # x - y, one column per y
    values = np.mean(phi * scores[:, k, None] + 2 * slope * gap, axis=0)
    ax = axes_or_new(ax)
    ax.axhline(0, color=MUTED_COLOUR, lw=1)
    ax.scatter(x[:, k], values, s=6, color=MAIN_COLOUR, alpha=0.6, lw=0)
    ax.set_xlabel(labels_of(target.names, target.dim)[k], parse_math=False)
    ax.set_ylabel("Stein witness")
    return ax
