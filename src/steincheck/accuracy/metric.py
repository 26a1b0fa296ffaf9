"""The metric in which walkers move: the covariance of the density, from draws that may be wrong."""

from __future__ import annotations

import numpy as np

from .._whitening import symmetric_roots


def estimate_metric(x: np.ndarray, scores: np.ndarray, passes: int = 3) -> np.ndarray:
    """A # B (d, d), the geometric mean of A = cov(x) and B = cov(scores)^-1, for rows x, scores (n, d).

    For a Gaussian density of covariance C and points of any covariance S the scores have covariance
    C^-1 S C^-1, and S # (C S^-1 C) = C: the metric is right although the points are not. Both covariances are
    shrunk to their diagonals by d / (d + n). Every pass works in the coordinates in which the last metric is
    the identity, so that strong correlations are shrunk less and less.
    """
    n, d = x.shape
    kept = 1 - d / (d + n)
    root = np.diag(np.sqrt(_spread(x) / _spread(scores)))
    for _ in range(passes):
        a = _covariance(np.linalg.solve(root, x.T).T, kept)
        b = _covariance(scores @ root, kept)
        half = symmetric_roots(a, floor=1e-12).root
        middle = symmetric_roots(half @ b @ half, floor=1e-12).inverse
        root = root @ np.linalg.cholesky(half @ middle @ half)
    return root @ root.T


def _spread(x: np.ndarray) -> np.ndarray:
    return np.maximum(x.std(axis=0), 1e-150)


def _covariance(x: np.ndarray, kept: float) -> np.ndarray:
    """The covariance of rows, with a part `kept` of its off-diagonal entries."""
    full = np.cov(x, rowvar=False, ddof=0).reshape(x.shape[1], x.shape[1])
    return kept * full + (1 - kept) * np.diag(np.diag(full))
