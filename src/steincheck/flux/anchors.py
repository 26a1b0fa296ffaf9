"""Anchors, the Gaussians between which the flux test carries draws.

One Gaussian per mode, with the mode's inverse Hessian, is enough where modes are elliptic. Rings and bananas
need several: short local chains, started at the modes and independent of any draws, are cut into clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._whitening import Gaussians, symmetric_roots
from ..result import Modes
from ..target import Target
from .local_chains import local_chains


@dataclass(frozen=True, eq=False)
class Anchors(Gaussians):
    """Gaussians between which draws are moved, sorted by mode."""

    mode: np.ndarray  #: (K,) the mode each belongs to

    def __len__(self) -> int:
        return len(self.mode)


def mode_anchors(modes: Modes) -> Anchors:
    """One anchor per mode: location, inverse Hessian (their mean where all agree) and Laplace weight."""
    covariances = modes.covariances
    if shape_difference(covariances) <= 0.01:  # equal but for how they were found
        covariances = np.repeat(covariances.mean(axis=0)[None], len(modes), axis=0)
    log_weight = modes.log_density + symmetric_roots(covariances).half_log_det
    return Anchors(modes.locations, covariances, log_weight - log_weight.max(), np.arange(len(modes)))


def local_anchors(target: Target, modes: Modes, n_anchors: int, rng: np.random.Generator) -> Anchors:
    """Several anchors per mode, from short Hamiltonian chains that start at the modes.

    The chains know nothing of the tested draws, and need not be exact: with any anchors the flux test
    keeps its level. Points nearer to another mode are dropped; a mixture of `n_anchors` Gaussians is fitted
    to the others. A mode whose chains left it keeps its single anchor.
    """
    chain_stream, cluster_stream = rng.spawn(2)
    single = mode_anchors(modes)
    clouds = local_chains(target, modes.locations, modes.covariances, chain_stream)
    parts = []
    for k, cloud in enumerate(clouds):
        home = cloud[single.largest(cloud) == k]
        fitted = _fitted_gaussians(home, len(cloud), modes.covariances[k], n_anchors, cluster_stream)
        parts.append(fitted or Gaussians(single.centres[[k]], single.covariances[[k]], np.zeros(1)))
    return Anchors(
        np.concatenate([part.centres for part in parts]),
        np.concatenate([part.covariances for part in parts]),
        np.concatenate([part.log_weight for part in parts]),
        np.repeat(np.arange(len(modes)), [len(part.centres) for part in parts]),
    )


def shape_difference(covariances: np.ndarray) -> float:
    """Largest entry of A^(-1/2) A_k A^(-1/2) - 1, A the mean of the covariances (M, d, d)."""
    whiten = symmetric_roots(covariances.mean(axis=0)).inverse
    return float(np.abs(whiten @ covariances @ whiten - np.eye(len(whiten))).max())


def _fitted_gaussians(
    home: np.ndarray, n_points: int, covariance: np.ndarray, n_anchors: int, rng: np.random.Generator
) -> Gaussians | None:
    """Gaussians fitted to the points of a mode's chains that stayed at it; None if these are too few."""
    d = len(covariance)
    if len(home) <= max(n_points / 2, 4 * n_anchors * d) or np.ptp(home, axis=0).min() == 0:
        return None
    floor = 0.01 * np.linalg.eigvalsh(covariance)[0]
    return _mixture(home, _nearest_seeds(home, n_anchors, rng), floor)


def _nearest_seeds(x: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Indicators (n, count) of the nearest of `count` rows of x that lie apart (k-means++)."""
    n = len(x)
    z = x / np.maximum(x.std(axis=0), np.finfo(float).tiny)
    seeds = z[[rng.integers(n)]]
    for _ in range(1, count):
        squared = ((z[:, None] - seeds) ** 2).sum(axis=2).min(axis=1)
        seeds = np.concatenate([seeds, z[[rng.choice(n, p=squared / squared.sum())]]])
    return np.eye(count)[((z[:, None] - seeds) ** 2).sum(axis=2).argmin(axis=1)]


def _mixture(x: np.ndarray, share: np.ndarray, floor: float) -> Gaussians | None:
    """Expectation maximisation from `share` (n, K) at x (n, d); None if one is too small or too wide."""
    n, d = x.shape
    for _ in range(15):  # enough for anchors, which need not be the best mixture
        size = share.sum(axis=0)
        if size.min() <= 2 * d:
            return None
        centres = (share.T @ x) / size[:, None]
        gaps = x - centres[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            covariances = (gaps * share.T[:, :, None]).transpose(0, 2, 1) @ gaps / size[:, None, None]
        covariances += floor * np.eye(d)
        if not np.isfinite(covariances).all():  # squares of very heavy tails
            return None
        fitted = Gaussians(centres, covariances, np.log(size / n))
        height = fitted.heights(x)
        share = np.exp(height - height.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
    return fitted
