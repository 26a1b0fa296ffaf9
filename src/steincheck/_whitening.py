"""Standard scales: ranks as normal quantiles, roots of covariances, coordinates of unit covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special


def normal_scores(values: np.ndarray, *, offset: float = 0.5) -> np.ndarray:
    """Normal quantiles of (rank - offset) / (n + 1 - 2 offset) among all values; equal ones share their mean.

    By hand, as `scipy.stats` is slow to import.

    Examples
    --------
    >>> normal_scores(np.array([3.0, 9.0, 3.0, 5.0])).round(2)
    array([-0.67,  1.15, -0.67,  0.32])
    """
    _, place, count = np.unique(values.ravel(), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    return special.ndtri((ranks - offset) / (values.size + 1 - 2 * offset)).reshape(values.shape)


class SymmetricRoots(NamedTuple):
    """Roots of a matrix, or of a stack of them."""

    root: np.ndarray  #: (..., d, d), A^(1/2)
    inverse: np.ndarray  #: (..., d, d), A^(-1/2)
    half_log_det: np.ndarray  #: (...), log det A^(1/2)


def symmetric_roots(covariances: np.ndarray, *, floor: float = 0.0) -> SymmetricRoots:
    """Symmetric roots of matrices (..., d, d); eigenvalues below `floor` times the largest are raised to it.

    Examples
    --------
    >>> symmetric_roots(np.diag([4.0, 9.0])).root
    array([[2., 0.],
           [0., 3.]])
    """
    values, vectors = np.linalg.eigh(covariances)
    if floor:
        values = np.maximum(values, floor * values.max(axis=-1, keepdims=True)).clip(1e-280)
    spread = np.sqrt(values)[..., None, :]
    back = vectors.swapaxes(-1, -2)
    half_log_det = 0.5 * np.log(values).sum(axis=-1)
    return SymmetricRoots((vectors * spread) @ back, (vectors / spread) @ back, half_log_det)


def average_root(covariances: np.ndarray) -> np.ndarray:
    """L with L L' the average of the covariances (M, d, d): the unit of all modes together."""
    return np.linalg.cholesky(np.mean(covariances, axis=0))


def whitened(x: np.ndarray, whiten: np.ndarray | None) -> np.ndarray:
    """z = L^-1 x for rows of x (..., d)."""
    if whiten is None:
        return x
    return np.ascontiguousarray(np.linalg.solve(whiten, x.reshape(-1, x.shape[-1]).T).T).reshape(x.shape)


def whitened_scores(scores: np.ndarray, whiten: np.ndarray | None) -> np.ndarray:
    """Scores L's of the whitened density, for rows of `scores` (..., d)."""
    return scores if whiten is None else scores @ whiten


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Gaussians with weights, and what they say of points: which is largest, and by how much."""

    centres: np.ndarray  #: (K, d)
    covariances: np.ndarray  #: (K, d, d)
    log_weight: np.ndarray  #: (K,)

    @cached_property
    def roots(self) -> SymmetricRoots:
        """Roots of the covariances."""
        return symmetric_roots(self.covariances)

    def heights(self, x: np.ndarray) -> np.ndarray:
        """Log of weight times density (n, K) at the rows of x, up to a number per row.

        Their softmax along the last axis are the responsibilities of the Gaussians.
        """
        count, d = self.centres.shape
        inverse = self.roots.inverse
        offset = self.log_weight - self.roots.half_log_det
        middle = self.centres.mean(axis=0)
        if np.all(inverse == inverse[0]):  # |x|^2 is common to all and left out
            flat = (self.centres - middle) @ inverse[0]
            return (x - middle) @ (inverse[0] @ flat.T) + (offset - 0.5 * np.sum(flat**2, axis=1))
        z = (x - middle) @ inverse.transpose(1, 0, 2).reshape(d, count * d)  # symmetric: one product for all
        z -= np.einsum("kij,kj->ki", inverse, self.centres - middle).ravel()
        z = z.reshape(-1, count, d)
        return offset - 0.5 * np.einsum("nkd,nkd->nk", z, z)

    def largest(self, x: np.ndarray) -> np.ndarray:
        """The Gaussian (n,) that is largest at each row of x, some thousand rows at a time."""
        chunks = np.split(x, range(4096, len(x), 4096))
        return np.concatenate([self.heights(chunk).argmax(axis=1) for chunk in chunks])
