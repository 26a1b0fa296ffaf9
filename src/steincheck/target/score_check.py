"""The score against finite differences."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._validation import as_count, as_numbers, as_one_positive
from .evaluation import differences, log_density_at, read_only, score_at
from .record import Target, require_target

NO_SCORE = "the target has no score: finite differences of its log density are used"


def score_warnings(target: Target, x: np.ndarray, *, check: bool) -> list[str]:
    """Compare score and Hessian with finite differences if `check`; without a score, say so."""
    if not target.has_score:
        if check and target.hessian is not None:
            check_hessian(target, x[0], _widths(x))
        return [NO_SCORE]
    if check:
        check_score(target, x)
    return []


def check_score(target: Target, x: ArrayLike, *, n_points: int = 5, rtol: float = 1e-3) -> np.ndarray:
    """Compare `target.score` with finite differences of `target.log_density` at a few draws.

    Parameters
    ----------
    target : Target
    x : array (n, d)
        Draws; `n_points` of them, evenly spaced, are used.
    n_points : int
        How many draws to look at.
    rtol : float
        Allowed difference relative to the size of the score in that coordinate.

    Returns
    -------
    array (d,)
        The largest difference of each coordinate, relative to the size of the score there.

    Raises
    ------
    ValueError
        If a coordinate disagrees; the message names the coordinates and shows both values.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> wrong = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: x, dim=1)
    >>> sc.check_score(wrong, np.array([[1.0], [2.0]]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: `score` disagrees with finite differences of `log_density` in coordinate 0...
    """
    require_target(target)
    x = np.atleast_2d(as_numbers(x, "x", "an array of real numbers with one draw per row"))
    if x.ndim != 2 or x.shape[1] != target.dim or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"`x` must be finite with shape (n, {target.dim}), got shape {x.shape}")
    n_points = as_count(n_points, "n_points")
    rtol = as_one_positive(rtol, "rtol")
    rows = np.unique(np.linspace(0, len(x) - 1, num=min(n_points, len(x))).astype(int))
    step = 1e-4 * _widths(x)
    given = score_at(target, x[rows])
    log_density_at(target, x[rows])  # says which draws have no density
    found = differences(target.log_density, x[rows], step)
    size = np.maximum(np.abs(given), np.abs(found.central)).max(axis=0)
    # at a kink the score is that of one side or any value between
    gap = np.maximum(np.abs(given - found.central) - found.one_sided, 0.0)
    wrong = (gap > rtol * size + found.rounding).any(axis=0) | np.isnan(gap).any(axis=0)
    if wrong.any():
        raise ValueError(_complaint(target, rows, given, found.central, gap, np.flatnonzero(wrong)))
    if target.hessian is not None and target.jax_log_density is None:
        check_hessian(target, x[rows[0]], _widths(x))
    return gap.max(axis=0) / np.where(size > 0, size, 1.0)


def _widths(x: np.ndarray) -> np.ndarray:
    """Width (d,) of the bulk of the draws: one of Cauchy's may be a thousand times farther out."""
    spread = x.std(axis=0)
    low, high = np.quantile(x, (0.25, 0.75), axis=0)
    bulk = (high - low) / 1.349  # the quartiles of a Gaussian are 1.349 sd apart
    width = np.where(bulk > 0, np.minimum(spread, bulk), spread)
    return np.where(width > 0, width, 1.0)


def _complaint(
    target: Target,
    rows: np.ndarray,
    given: np.ndarray,
    numeric: np.ndarray,
    gap: np.ndarray,
    wrong: np.ndarray,
) -> str:
    """Which coordinates disagree, with both values."""
    lines = []
    for k in wrong[:5]:
        i = int(np.argmax(gap[:, k]))
        label = f" ({target.names[k]})" if target.names else ""
        lines.append(
            f"coordinate {k}{label}: at row {rows[i]} the score is {given[i, k]:.6g}, "
            f"the finite difference {numeric[i, k]:.6g}"
        )
    sign = " (the sign is reversed)" if np.allclose(given, -numeric, rtol=1e-2) else ""
    return (
        "`score` disagrees with finite differences of `log_density` in "
        + "; ".join(lines)
        + (f"; and {len(wrong) - 5} more coordinates" if len(wrong) > 5 else "")
        + f"{sign}. Correct the score; in Python, `check_score=False` makes tests go on regardless"
    )


def check_hessian(target: Target, x: np.ndarray, width: np.ndarray) -> None:
    """Raise if the Hessian at one point is far from differences over steps small against `width` (d,)."""
    assert target.hessian is not None
    given = as_numbers(target.hessian(read_only(x[None])), "hessian", "a function that returns real numbers")
    d = len(x)
    if given.shape != (1, d, d):
        raise ValueError(f"`hessian` must return shape (n, {d}, {d}) for n points, got {given.shape} for one")
    step = width * (1e-4 if target.has_score else 1e-2)
    slopes, rounding = _slopes(target, np.concatenate([x + np.diag(step), x - np.diag(step)]))
    numeric = (slopes[:d] - slopes[d:]) / (2 * step[:, None])
    size = np.abs(numeric).max()
    allowed = 0.1 * size + 1e-6 + rounding.max() / step.min()  # coarse: a slip of sign or a factor of two
    if np.abs(given[0] - numeric).max() <= allowed:
        return
    sign = " (the sign is reversed)" if np.allclose(given[0], -numeric, atol=0.1 * size) else ""
    source = "score" if target.has_score else "log_density"
    raise ValueError(
        f"`hessian` disagrees with finite differences of `{source}`: at "
        f"{np.array2string(x, threshold=8)} its first row is {np.array2string(given[0, 0], threshold=8)}, "
        f"the differences are {np.array2string(numeric[0], threshold=8)}{sign}"
    )


def _slopes(target: Target, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The score (n, d), and what rounding may contribute to it."""
    if target.has_score:
        return score_at(target, x), np.zeros(x.shape)
    found = differences(target.log_density, x)
    return found.central, found.rounding
