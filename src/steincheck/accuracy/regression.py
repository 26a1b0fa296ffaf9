"""Cross-fitted control variates: what functions of the states average to once noise is taken out."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .features import Features

RIDGE = 1e-3  # in units of the features' variances


def residuals(features: Features, targets: np.ndarray, n_walkers: int, n_folds: int = 5) -> np.ndarray:
    """Means (orders + 1, 2, m, c) of targets less control variates, per half of the window and walker.

    `targets` (T m, c) and the features stand transition after transition. The coefficients of a walker come
    from walkers of other folds, so that a feature of mean 0 leaves the mean of a target unchanged. Sums of
    products are made once per fold. Orders are nested, hence so are the Cholesky factors. Order 0 is no
    control variate.
    """
    f = _by_transition(features.values / np.maximum(features.values.std(axis=0), 1e-300), n_walkers)
    y = _by_transition(targets - targets.mean(axis=0), n_walkers)
    f_halves, y_halves = _halves(f), _halves(y)
    left = np.repeat(y_halves[None], len(features.sizes) + 1, axis=0)
    folds = np.array_split(np.arange(n_walkers), n_folds) if features.sizes else []
    parts = [_products(f[:, fold], y[:, fold]) for fold in folds]
    total = sum(parts)
    for fold, part in zip(folds, parts, strict=True):
        factor, half_solved = _factorise(total - part, len(features.values.T))
        for order, size in enumerate(features.sizes, start=1):
            beta = linalg.solve_triangular(factor[:size, :size], half_solved[:size], trans=1, lower=True)
            left[order][:, fold] -= f_halves[:, fold, :size] @ beta
    return left + targets.mean(axis=0)


def _by_transition(values: np.ndarray, n_walkers: int) -> np.ndarray:
    return values.reshape(-1, n_walkers, values.shape[1])


def _halves(values: np.ndarray) -> np.ndarray:
    """Means (2, m, c) of values (T, m, c) over the halves of the window."""
    half = len(values) // 2
    return np.stack([values[:half].mean(axis=0), values[half:].mean(axis=0)])


def _products(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sums (p + 1, p + 1 + c) of products of features and 1 with features, 1 and targets."""
    rows = f.reshape(-1, f.shape[2])
    left = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    return left.T @ np.concatenate([left, y.reshape(-1, y.shape[2])], axis=1)


def _factorise(sums: np.ndarray, p: int) -> tuple[np.ndarray, np.ndarray]:
    """The Cholesky factor L of the features' covariance plus ridge, and L^-1 cov(features, targets)."""
    n = sums[p, p]
    centred = sums[:p] / n - np.outer(sums[:p, p], sums[p]) / n**2
    factor = np.linalg.cholesky(centred[:, :p] + RIDGE * np.eye(p))
    return factor, linalg.solve_triangular(factor, centred[:, p + 1 :], lower=True)
