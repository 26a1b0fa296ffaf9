"""The score against finite differences."""

from __future__ import annotations

import numpy as np

from .._validation import as_numbers, listed
from ..wording.target import NO_SCORE
from .evaluation import Differences, differences, log_density_at, read_only, score_at
from .parameter_scale import probe_points
from .record import Target


def score_warnings(target: Target, x: np.ndarray, *, check: bool) -> list[str]:
    """Compare score and Hessian with finite differences if `check`; without a score, say so."""
    if check and target.has_score:
        check_score(target, x)
    if check and target.hessian is not None and target.jax_log_density is None:
        check_hessian(target, x[0], _widths(x))
    return [] if target.has_score else [NO_SCORE]


def check_score(target: Target, x: np.ndarray, *, rtol: float = 1e-3) -> None:
    """Raise if the score disagrees with finite differences of log p at five of the draws `x` (n, d).

    At each, log p is differenced along all coordinates, or along ten directions if there are more of them: at
    most 105 evaluations. Where log p is noisy, as the solution of a differential equation is, it bends at
    random over a step; three times the second largest bend along a direction is allowed. At a kink the score
    may be that of either side.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> wrong = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: x, dim=1)
    >>> check_score(wrong, np.array([[1.0], [2.0]]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: `score` disagrees with finite differences of `log_density` in coordinate 0...
    """
    rows = np.unique(np.linspace(0, len(x) - 1, num=min(5, len(x))).astype(int))
    width = _widths(x)
    given = score_at(target, x[rows])
    directions = np.diag(width) if target.dim <= 10 else probe_points(target.dim, 10) * width
    found = differences(target.log_density, x[rows], 3e-4, directions)
    gap = _excess(given @ directions.T, found, rtol)
    if np.isnan(gap).any():
        log_density_at(target, x[rows])  # says which draws have no density
    if (gap <= 0).all():
        return
    worst = int(np.argmax(np.nan_to_num(gap, nan=np.inf).max(axis=1)))
    raise ValueError(_complaint(target, int(rows[worst]), x[rows[worst]], given[worst], width, rtol))


def _excess(given: np.ndarray, found: Differences, rtol: float) -> np.ndarray:
    """By how much slopes (n, m) differ from differences beyond what is allowed: positive if they disagree."""
    size = np.maximum(np.abs(given), np.abs(found.central)).max(axis=0)
    usual = np.sort(found.bend, axis=0)[-2:][0]  # the second largest: one draw may be beside a kink
    noise = (0.5 * found.bend + 3 * usual) / found.step
    return np.abs(given - found.central) - (rtol * size + found.rounding + noise)


def _widths(x: np.ndarray) -> np.ndarray:
    """Width (d,) of the bulk of the draws: one of Cauchy's may be a thousand times farther out."""
    spread = x.std(axis=0)
    low, high = np.quantile(x, (0.25, 0.75), axis=0)
    bulk = (high - low) / 1.349  # the quartiles of a Gaussian are 1.349 sd apart
    width = np.where(bulk > 0, np.minimum(spread, bulk), spread)
    return np.where(width > 0, width, 1.0)


def _complaint(
    target: Target, row: int, x: np.ndarray, given: np.ndarray, width: np.ndarray, rtol: float
) -> str:
    """Which coordinates disagree at one draw, with both values."""
    found = differences(target.log_density, x[None], 3e-4 * width)
    numeric = found.central[0]
    gap = np.nan_to_num(_excess(given[None], found, rtol)[0] * width, nan=np.inf)
    wrong = np.flatnonzero((gap > 0) | (gap == gap.max()))
    lines = [
        f"coordinate {k}{f' ({target.names[k]})' if target.names else ''}: the score is {given[k]:.6g}, the "
        f"finite difference {numeric[k]:.6g}"
        for k in wrong.tolist()
    ]
    sign = " (the sign is reversed)" if np.allclose(given, -numeric, rtol=1e-2) else ""
    return (
        "`score` disagrees with finite differences of `log_density` in "
        f"{listed(lines, 5)} at row {row}{sign}. Correct the score; `check_score=False` makes tests go on "
        "regardless"
    )


def check_hessian(target: Target, x: np.ndarray, width: np.ndarray) -> None:
    """Raise if the Hessian at one point is far from differences over steps small against `width` (d,)."""
    assert target.hessian is not None
    given = as_numbers(target.hessian(read_only(x[None])), "hessian", "a function that returns real numbers")
    d = len(x)
    if given.shape != (1, d, d):
        raise ValueError(f"`hessian` must return shape (n, {d}, {d}) for n points, got {given.shape} for one")
    step = width * (1e-4 if target.has_score else 1e-2)
    points = np.concatenate([x + np.diag(step), x - np.diag(step)])
    found = None if target.has_score else differences(target.log_density, points)
    slopes = score_at(target, points) if found is None else found.central
    numeric = (slopes[:d] - slopes[d:]) / (2 * step[:, None])
    rounding = 0.0 if found is None else found.rounding.max() / step.min()
    allowed = 0.1 * np.abs(numeric).max() + 1e-6 + rounding  # coarse: a slip of sign or a factor of two
    gap = np.abs(given[0] - numeric)
    if gap.max() > allowed:
        i, j = np.unravel_index(np.argmax(gap), gap.shape)
        raise ValueError(
            f"`hessian` disagrees with finite differences at {np.array2string(x, threshold=8)}: in row {i}, "
            f"column {j} it is {given[0, i, j]:.6g}, the difference {numeric[i, j]:.6g}"
        )
