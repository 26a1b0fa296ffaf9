"""Orbits: where the draws could be, and what that says about the number of draws at each mode."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..target import Target, log_density_at
from .anchors import Anchors, log_gaussians, square_roots

ELEMENTS = 4_000_000  # numbers in the largest temporary array
BLOCKS = (64, 1024, 16384)  # draws carried at once: the only shapes ever compiled


class Orbits(NamedTuple):
    """Where the draws are, and where else they could be."""

    own: np.ndarray  #: (n,) the mode of each draw
    log_weight: np.ndarray  #: (n, M) log of the mass the density puts on the draw's image at each mode

    def chances(self) -> np.ndarray:
        """Chance (n, M) of each mode, given the orbit, if the draw comes from the density."""
        weight = np.exp(self.log_weight - self.log_weight.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)


class Exchange(NamedTuple):
    """Number of draws at each mode, and its mean and covariance, given the orbits, if the draws fit."""

    counts: np.ndarray  #: (M,)
    expected: np.ndarray  #: (M,)
    covariance: np.ndarray  #: (M, M)
    chances: np.ndarray  #: (n, M)

    @property
    def efficiency(self) -> float:
        """Share of the variance of the counts that the orbits leave open: 1 is ideal, at 0 nothing moves."""
        share = self.expected / self.expected.sum()
        whole = self.expected.sum() * (1 - np.sum(share**2))
        return float(np.trace(self.covariance) / whole) if whole > 0 else 0.0


def orbits(x: np.ndarray, target: Target, anchors: Anchors) -> Orbits:
    """Carry every draw to all anchors and weigh the images.

    A draw x with the largest Gaussian k has the standardised place u = A_k^(-1/2) (x - mu_k). Its image at l,
    A_l^(1/2) u + mu_l, counts where l has the largest Gaussian, with the mass p(image) det A_l^(1/2).
    """
    n, (count, d) = len(x), anchors.centres.shape
    most = next((size for size in BLOCKS[:0:-1] if size * count * d <= ELEMENTS), BLOCKS[0])
    roots, inverse, half_log_det = square_roots(anchors.covariances)
    offset = anchors.log_weight - half_log_det
    safe = _safe_radii(anchors.centres, roots, inverse, offset) ** 2
    own, log_weight = np.empty(n, dtype=int), np.empty((n, count), order="F")  # sums over modes are faster
    for start in range(0, n, most):
        block = x[start : start + most]
        part = slice(start, start + len(block))
        own[part], squared, images = _carried(block, anchors.centres, roots, inverse, offset)
        counts = np.ones((len(block), count), dtype=bool)
        for m in range(count):
            doubt = np.flatnonzero((squared > safe[m]) & (own[part] != m))
            heights = log_gaussians(images[doubt, m], anchors.centres, inverse, offset)
            counts[doubt, m] = heights.argmax(axis=1) == m
        if counts.mean() > 0.9:  # evaluating a few images in vain is cheaper than picking the others
            log_p = log_density_at(target, images.reshape(-1, d), proposal=True).reshape(-1, count)
            log_p[~counts] = -np.inf
        else:
            log_p = np.full(counts.shape, -np.inf)
            log_p[counts] = log_density_at(target, images[counts], proposal=True)
        here = log_p[np.arange(len(block)), own[part]]
        if not np.isfinite(here).all():
            log_density_at(target, block)  # says which draws have no density
        log_weight[part] = log_p + half_log_det
    first = np.flatnonzero(np.diff(anchors.mode, prepend=-1))  # anchor of each mode
    if len(first) < count:
        log_weight = np.logaddexp.reduceat(log_weight, first, axis=1)
    return Orbits(anchors.mode[own], log_weight)


def _carried(
    x: np.ndarray, centres: np.ndarray, roots: np.ndarray, inverse: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Anchor (n,), |u|^2 (n,) and images (n, K, d) of draws, padded so that a new n compiles nothing."""
    n = len(x)
    size = next(size for size in BLOCKS if n <= size)
    padded = x if n == size else np.concatenate([x, np.broadcast_to(x[-1], (size - n, x.shape[1]))])
    with jax.enable_x64(True):
        own, squared, images = _carry(padded, centres, roots, inverse, offset)
    return np.asarray(own)[:n], np.asarray(squared)[:n], np.asarray(images)[:n]


@jax.jit
def _carry(x: Any, centres: Any, roots: Any, inverse: Any, offset: Any) -> tuple[Any, Any, Any]:
    count, d = centres.shape
    there, back = (jnp.transpose(m, (1, 0, 2)).reshape(d, count * d) for m in (roots, inverse))
    middle = jnp.mean(centres, axis=0)
    shift = jnp.einsum("kd,kde->ke", centres - middle, inverse)
    z = ((x - middle) @ back).reshape(-1, count, d) - shift
    squared = jnp.sum(z * z, axis=2)
    own = jnp.argmax(offset - 0.5 * squared, axis=1)
    u = jnp.take_along_axis(z, own[:, None, None], axis=1)[:, 0]
    images = (u @ there).reshape(-1, count, d) + centres
    images = jnp.where((own[:, None] == jnp.arange(len(centres)))[:, :, None], x[:, None], images)
    return own, jnp.take_along_axis(squared, own[:, None], axis=1)[:, 0], images


def exchange(found: Orbits) -> Exchange:
    """What the orbits say about the number of draws at each mode."""
    chances = found.chances()
    expected = chances.sum(axis=0)
    covariance = np.diag(expected) - chances.T @ chances
    return Exchange(np.bincount(found.own, minlength=len(expected)), expected, covariance, chances)


def _safe_radii(
    centres: np.ndarray, roots: np.ndarray, inverse: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    """Radius |u| up to which the image at l certainly has the largest Gaussian l, (K,): saves most look-ups.

    With D = |A_m^(-1/2) (mu_l - mu_m)| and T = ||A_m^(-1/2) A_l^(1/2)|| the Gaussian m is smaller than l as
    long as (D - T |u|)^2 > |u|^2 + 2 (offset_m - offset_l).
    """
    gaps = centres[:, None] - centres
    distance = np.linalg.norm(np.einsum("mij,lmj->lmi", inverse, gaps), axis=2)
    stretch = np.linalg.norm(inverse[None] @ roots[:, None], ord=2, axis=(2, 3))
    head_start = 2 * (offset[None] - offset[:, None])
    low, high = np.zeros(distance.shape), distance / stretch
    for _ in range(40):
        middle = 0.5 * (low + high)
        holds = distance - stretch * middle > np.sqrt(np.maximum(middle**2 + head_start, 0))
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    np.fill_diagonal(low, np.inf)
    return (1 - 1e-6) * low.min(axis=1)
