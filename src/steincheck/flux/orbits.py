"""Orbits: where the draws could be, and what that says about the number of draws at each mode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..target import Target, log_density_at
from .anchors import Anchors

MAX_ELEMENTS = 4_000_000  # numbers in the largest temporary array


class Orbits(NamedTuple):
    """Where the draws are, and where else they could be."""

    mode: np.ndarray  #: (n,) the mode of each draw
    log_weight: np.ndarray  #: (n, M) log of the mass the density puts on the draw's image at each mode

    def probabilities(self) -> np.ndarray:
        """Probability (n, M) of each mode, given the orbit, if the draw comes from the density."""
        weight = np.exp(self.log_weight - self.log_weight.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)


class CountMoments(NamedTuple):
    """Number of draws at each mode, and its mean and covariance, given the orbits, if the draws fit."""

    counts: np.ndarray  #: (M,)
    expected: np.ndarray  #: (M,)
    covariance: np.ndarray  #: (M, M)
    probabilities: np.ndarray  #: (n, M)

    @property
    def efficiency(self) -> float:
        """Share of the variance of the counts that the orbits leave open: 1 is ideal, at 0 nothing moves."""
        share = self.expected / self.expected.sum()
        whole = self.expected.sum() * (1 - np.sum(share**2))
        return float(np.trace(self.covariance) / whole) if whole > 0 else 0.0


def orbits(x: np.ndarray, log_p: np.ndarray, target: Target, anchors: Anchors) -> Orbits:
    """Carry every draw, with log density `log_p` (n,), to all anchors and weigh the images.

    A draw x whose largest Gaussian is k has the standardised position u = A_k^(-1/2) (x - mu_k). Its image at
    l, A_l^(1/2) u + mu_l, counts where l has the largest Gaussian, with the mass p(image) det A_l^(1/2).
    """
    n = len(x)
    count, d = anchors.centres.shape
    home = anchors.largest(x)
    log_weight = np.empty((n, count), order="F")  # sums over modes are faster
    rows = max(1, MAX_ELEMENTS // (count * d))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        log_weight[part] = _log_density_of_images(x[part], home[part], anchors, target)
    log_weight[np.arange(n), home] = log_p
    log_weight += anchors.roots.half_log_det
    first = np.flatnonzero(np.diff(anchors.mode, prepend=-1))  # anchor of each mode
    if len(first) < count:
        log_weight = np.logaddexp.reduceat(log_weight, first, axis=1)
    return Orbits(anchors.mode[home], log_weight)


def count_moments(found: Orbits) -> CountMoments:
    """What the orbits say about the number of draws at each mode."""
    probabilities = found.probabilities()
    expected = probabilities.sum(axis=0)
    covariance = np.diag(expected) - probabilities.T @ probabilities
    counts = np.bincount(found.mode, minlength=len(expected))
    return CountMoments(counts, expected, covariance, probabilities)


def _log_density_of_images(x: np.ndarray, home: np.ndarray, anchors: Anchors, target: Target) -> np.ndarray:
    """log p (n, K) at the images of x (n, d); -inf where another anchor's Gaussian is larger."""
    n, d = x.shape
    root, inverse, _ = anchors.roots
    u = x - anchors.centres[home]
    for k in np.unique(home):
        u[home == k] = u[home == k] @ inverse[k]
    images = (u @ root.transpose(1, 0, 2).reshape(d, -1)).reshape(n, -1, d) + anchors.centres
    counted = np.stack([anchors.largest(images[:, k]) == k for k in range(len(anchors))], axis=1)
    counted[np.arange(n), home] = False  # the draw itself, whose log density is known
    log_p = np.full(counted.shape, -np.inf)
    if counted.any():
        log_p[counted] = log_density_at(target, images[counted], proposal=True)
    return log_p
