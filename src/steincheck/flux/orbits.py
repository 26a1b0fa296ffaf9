"""Orbits: where the draws could be, and what that says about the number of draws at each mode."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._whitening import symmetric_roots
from ..target import Target, log_density_at
from .anchors import Anchors, log_gaussians

MAX_ELEMENTS = 4_000_000  # numbers in the largest temporary array
DRAWS_PER_BATCH = (64, 1024, 16384)  # draws carried at once: the only shapes ever compiled


class Orbits(NamedTuple):
    """Where the draws are, and where else they could be."""

    mode: np.ndarray  #: (n,) the mode of each draw
    log_weight: np.ndarray  #: (n, M) log of the mass the density puts on the draw's image at each mode
    #: (n,) distance from the draw's anchor in its standard deviations, same for all images
    radius: np.ndarray

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


class _Maps(NamedTuple):
    """The anchors in the form in which draws are carried between them."""

    centres: np.ndarray  #: (K, d)
    roots: np.ndarray  #: (K, d, d)
    inverse: np.ndarray  #: (K, d, d) inverse roots
    offset: np.ndarray  #: (K,) log weight minus log det of the root


def orbits(x: np.ndarray, log_p: np.ndarray, target: Target, anchors: Anchors) -> Orbits:
    """Carry every draw, with log density `log_p` (n,), to all anchors and weigh the images.

    A draw x whose largest Gaussian is k has the standardised position u = A_k^(-1/2) (x - mu_k). Its image at
    l, A_l^(1/2) u + mu_l, counts where l has the largest Gaussian, with the mass p(image) det A_l^(1/2).
    """
    n = len(x)
    count, d = anchors.centres.shape
    rows = next(
        (size for size in DRAWS_PER_BATCH[:0:-1] if size * count * d <= MAX_ELEMENTS), DRAWS_PER_BATCH[0]
    )
    roots, inverse, half_log_det = symmetric_roots(anchors.covariances)
    maps = _Maps(anchors.centres, roots, inverse, anchors.log_weight - half_log_det)
    safe = _safe_radii(maps) ** 2
    home = np.empty(n, dtype=int)
    squared = np.empty(n)
    log_weight = np.empty((n, count), order="F")  # sums over modes are faster
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        home[part], squared[part], images = _carried(x[part], maps)
        log_weight[part] = _log_density_of_images(images, home[part], squared[part], safe, maps, target)
    log_weight[np.arange(n), home] = log_p
    log_weight += half_log_det
    first = np.flatnonzero(np.diff(anchors.mode, prepend=-1))  # anchor of each mode
    if len(first) < count:
        log_weight = np.logaddexp.reduceat(log_weight, first, axis=1)
    return Orbits(anchors.mode[home], log_weight, np.sqrt(squared))


def count_moments(found: Orbits) -> CountMoments:
    """What the orbits say about the number of draws at each mode."""
    probabilities = found.probabilities()
    expected = probabilities.sum(axis=0)
    covariance = np.diag(expected) - probabilities.T @ probabilities
    counts = np.bincount(found.mode, minlength=len(expected))
    return CountMoments(counts, expected, covariance, probabilities)


def _log_density_of_images(
    images: np.ndarray, home: np.ndarray, squared: np.ndarray, safe: np.ndarray, maps: _Maps, target: Target
) -> np.ndarray:
    """log p at the images (n, K, d) that lie where their anchor's Gaussian is largest, else -inf, (n, K)."""
    n, count, _ = images.shape
    counted = np.ones((n, count), dtype=bool)
    counted[np.arange(n), home] = False  # the draw itself, whose log density is known
    for anchor in range(count):
        unsure = np.flatnonzero((squared > safe[anchor]) & (home != anchor))
        heights = log_gaussians(images[unsure, anchor], maps.centres, maps.inverse, maps.offset)
        counted[unsure, anchor] = heights.argmax(axis=1) == anchor
    log_p = np.full((n, count), -np.inf)
    if counted.any():
        log_p[counted] = log_density_at(target, images[counted], proposal=True)
    return log_p


def _carried(x: np.ndarray, maps: _Maps) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Anchor (n,), |u|^2 (n,) and images (n, K, d) of draws, padded so that a new n compiles nothing."""
    n = len(x)
    size = next(size for size in DRAWS_PER_BATCH if n <= size)
    padded = x if n == size else np.concatenate([x, np.broadcast_to(x[-1], (size - n, x.shape[1]))])
    with jax.enable_x64(True):
        home, squared, images = _carry(padded, *maps)
    return np.asarray(home)[:n], np.asarray(squared)[:n], np.asarray(images)[:n]


@jax.jit
def _carry(x: Any, centres: Any, roots: Any, inverse: Any, offset: Any) -> tuple[Any, Any, Any]:
    count, d = centres.shape
    there, back = (jnp.transpose(m, (1, 0, 2)).reshape(d, count * d) for m in (roots, inverse))
    middle = jnp.mean(centres, axis=0)
    shift = jnp.einsum("kd,kde->ke", centres - middle, inverse)
    z = ((x - middle) @ back).reshape(-1, count, d) - shift
    squared = jnp.sum(z * z, axis=2)
    home = jnp.argmax(offset - 0.5 * squared, axis=1)
    u = jnp.take_along_axis(z, home[:, None, None], axis=1)[:, 0]
    images = (u @ there).reshape(-1, count, d) + centres
    return home, jnp.take_along_axis(squared, home[:, None], axis=1)[:, 0], images


def _safe_radii(maps: _Maps) -> np.ndarray:
    """Radius |u| up to which the image at l certainly has the largest Gaussian l, (K,): saves most look-ups.

    With D = |A_m^(-1/2) (mu_l - mu_m)| and T = ||A_m^(-1/2) A_l^(1/2)|| the Gaussian m is smaller than l as
    long as (D - T |u|)^2 > |u|^2 + 2 (offset_m - offset_l).
    """
    gaps = maps.centres[:, None] - maps.centres
    distance = np.linalg.norm(np.einsum("mij,lmj->lmi", maps.inverse, gaps), axis=2)
    stretch = np.linalg.norm(maps.inverse[None] @ maps.roots[:, None], ord=2, axis=(2, 3))
    head_start = 2 * (maps.offset[None] - maps.offset[:, None])
    low = np.zeros(distance.shape)
    high = distance / stretch
    for _ in range(40):
        middle = 0.5 * (low + high)
        holds = distance - stretch * middle > np.sqrt(np.maximum(middle**2 + head_start, 0))
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    np.fill_diagonal(low, np.inf)
    return (1 - 1e-6) * low.min(axis=1)
