"""Control variates: features of mean 0 under the density, and residuals of a cross-fitted regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from .cells import Cutoff

RIDGE = 1e-3  # in units of the features' variances


class Features(NamedTuple):
    """Features in cumulative orders."""

    values: np.ndarray  #: (n, p)
    sizes: list[int]  #: the number of features up to each order


def stein_features(
    z: np.ndarray, scores: np.ndarray, metric: np.ndarray, cutoff: Cutoff, limit: int
) -> Features:
    """Features at states less their centre z (n, d); orders are added while there are at most `limit`.

    With u_i = z_i / sqrt(M_ii), the vector field h g(u_i) M e_j / sqrt(M_jj) has the feature::

        g(u_i) t_j + h g'(u_i) R_ij,    t_j = (M (h s + grad h))_j / sqrt(M_jj),

    R being the correlation matrix of M. h ends at the border of the walkers' cell.
    """
    d = len(metric)
    width = np.sqrt(np.diag(metric))
    correlation = metric / np.outer(width, width)
    u = z / width
    h = cutoff.value[:, None]
    t = (h * scores + cutoff.gradient) @ (metric / width)
    q = 1 + u**2 / 9  # squares and cubes are damped beyond three standard deviations
    square, slope = u**2 / q, 2 * u / q**2
    low, high = np.triu_indices(d, 1)
    i, j = np.hstack([low, high]), np.hstack([high, low])
    orders: tuple[Callable[[], np.ndarray], ...] = (
        lambda: t,
        lambda: u * t + h,
        lambda: np.hstack([square * t + h * slope, (u / q**0.5) ** 3 * t + 3 * h * u**2 / q**2.5]),
        lambda: u[:, low] * t[:, high] + u[:, high] * t[:, low] + 2 * h * correlation[low, high],
        lambda: square[:, i] * t[:, j] + h * slope[:, i] * correlation[i, j],
    )
    sizes = [size for size in np.cumsum([d, d, 2 * d, len(low), len(i)]).tolist() if size <= limit]
    return Features(np.hstack([t[:, :0], *(order() for order in orders[: len(sizes)])]), sizes)


def residuals(features: Features, targets: np.ndarray, n_walkers: int, n_folds: int = 5) -> np.ndarray:
    """Means (orders + 1, 2, m, c) of targets less control variates, per half of the window and walker.

    `targets` (T m, c) and the features stand transition after transition. The coefficients of a walker come
    from walkers of other folds, so that a feature of mean 0 leaves the mean of a target unchanged. Sums of
    products are made once per fold. Orders are nested, hence so are the Cholesky factors. Order 0 is no
    control variate.
    """
    p = features.values.shape[1]
    shape = (len(targets) // n_walkers, n_walkers, -1)
    spread = features.values.std(axis=0)
    constant = spread <= 1e-9 * np.abs(features.values).mean(axis=0)  # as for a density with an edge
    f = (features.values / np.where(constant, 1.0, spread)).reshape(*shape[:2], p)
    y = (targets - targets.mean(axis=0)).reshape(shape)
    f_halves, y_halves = (np.array([part.mean(axis=0) for part in np.split(both, 2)]) for both in (f, y))
    left = np.repeat(y_halves[None], len(features.sizes) + 1, axis=0)
    folds = np.array_split(np.arange(n_walkers), n_folds) if p else []
    sums = [_products(f[:, fold].reshape(-1, p), y[:, fold].reshape(-1, y.shape[2])) for fold in folds]
    for fold, own in zip(folds, sums, strict=True):
        factor, half_solved = _factorise(sum(sums) - own, p)
        for order, size in enumerate(features.sizes, start=1):
            beta = linalg.solve_triangular(factor[:size, :size], half_solved[:size], trans=1, lower=True)
            left[order][:, fold] -= f_halves[:, fold, :size] @ beta
    return left + targets.mean(axis=0)


def _products(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sums (p + 1, p + 1 + c) of products of features and 1 with features, 1 and targets."""
    left = np.concatenate([f, np.ones((len(f), 1))], axis=1)
    return left.T @ np.concatenate([left, y], axis=1)


def _factorise(sums: np.ndarray, p: int) -> tuple[np.ndarray, np.ndarray]:
    """The Cholesky factor L of the features' covariance plus ridge, and L^-1 cov(features, targets)."""
    n = sums[p, p]
    centred = sums[:p] / n - np.outer(sums[:p, p], sums[p]) / n**2
    factor = np.linalg.cholesky(centred[:, :p] + RIDGE * np.eye(p))
    return factor, linalg.solve_triangular(factor, centred[:, p + 1 :], lower=True)
