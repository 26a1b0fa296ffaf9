"""Anchors, the Gaussians between which the flux test carries draws, and orbits, where the draws could be.

One Gaussian a mode, with the mode's inverse Hessian, is enough where modes are elliptic. Rings and bananas
need several: short local chains, started at the modes and independent of any draws, are cut into clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._validation import as_generator, as_numbers, check_count
from ..modes.search import Modes, as_modes
from ..target import CHUNKS, Batch, Target, log_density_at, raw_score

ELEMENTS = 4_000_000  # numbers in the largest temporary array
BLOCKS = (64, 1024, 16384)  # draws carried at once: the only shapes ever compiled
EQUAL = 0.01  # covariances that differ by less, relatively, are replaced by their mean
WALKERS = 64  # chains a mode
ROUNDS = 60  # Hamiltonian transitions a chain, the first half to warm up
LEAPS = 16  # leapfrog steps a transition
AIM = 0.65  # share of transitions accepted
START = 0.1  # standard deviations from the mode: low energy, so that no chain is flung into another mode
SWEEPS = 15  # of expectation maximisation


@dataclass(frozen=True, eq=False)
class Anchors:
    """Gaussians between which draws are moved, sorted by mode.

    Attributes
    ----------
    mode : array (K,)
        The mode each belongs to.
    centres, covariances : arrays (K, d), (K, d, d)
    log_weight : array (K,)
        Added to the log density of each Gaussian where draws are assigned to anchors.
    """

    mode: np.ndarray
    centres: np.ndarray
    covariances: np.ndarray
    log_weight: np.ndarray

    def __post_init__(self) -> None:
        shapes = []
        for name in ("mode", "centres", "covariances", "log_weight"):
            values = as_numbers(getattr(self, name), f"anchors.{name}")
            object.__setattr__(self, name, values)
            shapes.append(values.shape)
        count, d = shapes[1] if len(shapes[1]) == 2 else (0, 0)
        if not count or shapes != [(count,), (count, d), (count, d, d), (count,)]:
            text = ", ".join(map(str, shapes))
            raise ValueError(
                f"`anchors` must have arrays of shapes (K,), (K, d), (K, d, d), (K,), got {text}"
            )
        if np.any(self.mode != np.floor(self.mode)):
            raise ValueError(f"`anchors.mode` must hold whole numbers, got {self.mode.tolist()}")
        object.__setattr__(self, "mode", self.mode.astype(int))
        if np.any(np.linalg.eigvalsh(self.covariances)[:, 0] <= 0):
            raise ValueError("`anchors` must have positive definite covariances")

    def __len__(self) -> int:
        return len(self.mode)


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


def mode_anchors(modes: Modes) -> Anchors:
    """One anchor a mode: location, inverse Hessian (their mean where all agree) and Laplace weight."""
    covariances = modes.covariances
    if shape_difference(covariances) <= EQUAL:
        covariances = np.repeat(covariances.mean(axis=0)[None], len(modes), axis=0)
    log_weight = modes.log_density + square_roots(covariances)[2]
    return Anchors(np.arange(len(modes)), modes.locations, covariances, log_weight - log_weight.max())


def local_anchors(
    target: Target, modes: Modes, n_anchors: int = 4, *, rng: np.random.Generator | int | None = None
) -> Anchors:
    """Several anchors a mode, from short Hamiltonian chains that start at the modes.

    The chains know nothing of the tested draws, and need not be exact: whatever the anchors, the flux test
    keeps its level. Points that lie nearer to another mode are dropped; the rest is fitted by a mixture of
    `n_anchors` Gaussians. A mode whose chains left it keeps its single anchor.

    Parameters
    ----------
    target : Target
    modes : Modes
    n_anchors : int
        Gaussians a mode.
    rng : Generator or int, optional

    Examples
    --------
    >>> import steincheck as sc
    >>> from steincheck.flux import local_anchors
    >>> from steincheck.modes.search import as_modes
    >>> target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    >>> len(local_anchors(target, as_modes([[-3.0, 0.0], [3.0, 0.0]], target), 2, rng=0))
    4
    """
    check_count(n_anchors, "n_anchors")
    modes = as_modes(modes, target)
    chain_stream, cluster_stream = as_generator(rng).spawn(2)
    single = mode_anchors(modes)
    with np.errstate(all="ignore"):  # a trajectory that runs away is rejected
        points = _chains(target, modes, chain_stream)
    nearest = assign(points.reshape(-1, target.dim), single).reshape(points.shape[:2])
    parts = []
    for k, cloud in enumerate(points):
        home = cloud[nearest[k] == k]
        enough = (
            len(home) > max(len(cloud) / 2, 4 * n_anchors * target.dim) and np.ptp(home, axis=0).min() > 0
        )
        floor = 0.01 * np.linalg.eigvalsh(modes.covariances[k])[0]
        fit = _mixture(home, n_anchors, floor, cluster_stream) if enough else None
        parts.append(fit or (single.centres[[k]], single.covariances[[k]], np.zeros(1)))
    centres, covariances, log_weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Anchors(
        np.repeat(np.arange(len(parts)), [len(p[0]) for p in parts]), centres, covariances, log_weight
    )


def shape_difference(covariances: np.ndarray) -> float:
    """Largest entry of A^(-1/2) A_k A^(-1/2) - 1, A the mean of the covariances (M, d, d)."""
    whiten = square_roots(covariances.mean(axis=0)[None])[1][0]
    return float(np.abs(whiten @ covariances @ whiten - np.eye(len(whiten))).max())


def square_roots(covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Symmetric A^(1/2) and A^(-1/2), and log det A^(1/2), of a stack of matrices."""
    values, vectors = np.linalg.eigh(covariances)
    spread, back = np.sqrt(values)[:, None, :], vectors.transpose(0, 2, 1)
    return (vectors * spread) @ back, (vectors / spread) @ back, 0.5 * np.log(values).sum(axis=1)


def log_gaussians(x: np.ndarray, centres: np.ndarray, inverse: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """offset_k - |A_k^(-1/2) (x - mu_k)|^2 / 2 at every row of x (n, d), shape (n, K)."""
    count, d = centres.shape
    if np.all(inverse == inverse[0]):  # |x|^2 is common to all and left out
        flat = (centres - centres.mean(axis=0)) @ inverse[0]
        return (x - centres.mean(axis=0)) @ (inverse[0] @ flat.T) + (offset - 0.5 * np.sum(flat**2, axis=1))
    middle = centres.mean(axis=0)
    z = (x - middle) @ inverse.transpose(1, 0, 2).reshape(d, count * d)  # symmetric: one product for all
    z -= np.einsum("kij,kj->ki", inverse, centres - middle).ravel()
    z *= z
    return offset - 0.5 * (z @ np.repeat(np.eye(count), d, axis=0))


def assign(x: np.ndarray, anchors: Anchors) -> np.ndarray:
    """The anchor whose Gaussian is largest at each row of x (n, d), block by block."""
    _, inverse, half_log_det = square_roots(anchors.covariances)
    offset = anchors.log_weight - half_log_det
    blocks = [x[start : start + CHUNKS[-1]] for start in range(0, len(x), CHUNKS[-1])]
    return np.concatenate([log_gaussians(b, anchors.centres, inverse, offset).argmax(axis=1) for b in blocks])


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


def implied_shares(
    log_weight: np.ndarray, counts: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log shares of the density at M modes and their standard errors, from draws with any weights.

    Bennett's estimate for many states: the tilts t_k of the weights of the modes with draws maximise the
    likelihood of the modes of the draws given their orbits, with chances proportional to t_k w_k. The mass of
    mode k, with draws or without, is then the mean of w_k / sum_l t_l w_l. Errors by influence functions.
    """
    n, n_modes, seen = len(own), len(counts), counts > 0
    weight = np.exp(np.minimum(log_weight - log_weight[:, seen].max(axis=1, keepdims=True), 700))
    tilt = seen.astype(float)
    for _ in range(50):
        ratio = weight / (weight @ tilt)[:, None]
        gram, total = ratio.T @ ratio, ratio.sum(axis=0)
        information = np.diag(tilt * total) - tilt[:, None] * gram * tilt
        inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
        step = inverse @ (counts - tilt * total)
        if np.abs(step).max() < 1e-8:
            break
        tilt *= np.exp(np.clip(step, -2, 2))
    share = total / total.sum()
    # The influence of a draw is linear in its ratios, the indicators of its mode and 1: products suffice.
    cross = np.stack([np.bincount(own, column, minlength=n_modes) for column in ratio.T])
    moments = np.block(
        [[gram, cross, total[:, None]], [cross.T, np.diag(counts), counts[:, None]], [total, counts, n]]
    )
    tilted = n * inverse @ (tilt[:, None] * gram / total)
    linear = np.concatenate([np.diag(n / total) + tilt[:, None] * tilted, -tilted, -np.ones((1, n_modes))])
    linear -= (linear @ share)[:, None]
    variance = np.einsum("ik,ij,jk->k", linear, moments, linear) / n**2
    return np.log(share), np.sqrt(np.maximum(variance, 0))


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


def _chains(target: Target, modes: Modes, rng: np.random.Generator) -> np.ndarray:
    """Points (M, walkers * kept rounds, d) of Hamiltonian chains that start at the modes.

    Transitions take turns with two metrics: the inverse Hessian of the mode, good where the mode is an
    ellipse however narrow, and a multiple of the identity, good where it is a thin ring.
    """
    count, d = modes.locations.shape
    roots = square_roots(modes.covariances)[0]
    metrics = roots, np.eye(d) * np.linalg.eigvalsh(roots)[:, :1, None]
    steps = np.array([np.full(count, 0.5), np.ones(count)])
    x = modes.locations[:, None] + START * rng.standard_normal((count, WALKERS, d)) @ roots
    log_p, kept = _evaluate(target.log_density, x), []
    for round_ in range(ROUNDS):
        metric, step = metrics[round_ % 2], steps[round_ % 2]
        stride = step[:, None, None] * np.exp(rng.uniform(-0.5, 0.2, size=(count, WALKERS, 1)))
        momentum = rng.standard_normal(x.shape)
        energy = log_p - 0.5 * np.sum(momentum**2, axis=2)
        y, force = x, _force(target, x, metric)
        for _ in range(LEAPS):
            momentum = momentum + 0.5 * stride * force
            y = y + (stride * momentum) @ metric
            force = _force(target, y, metric)
            momentum = momentum + 0.5 * stride * force
        proposed = _evaluate(target.log_density, y)
        gain = proposed - 0.5 * np.sum(momentum**2, axis=2) - energy
        take = -rng.standard_exponential(gain.shape) < np.where(np.isnan(gain), -np.inf, gain)
        x, log_p = np.where(take[:, :, None], y, x), np.where(take, proposed, log_p)
        warm = round_ < ROUNDS // 2
        step *= np.exp((0.5 if warm else 0.05) * (take.mean(axis=1) - AIM))
        if not warm:
            kept.append(x)
    return np.concatenate(kept, axis=1)


def _force(target: Target, x: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """The score in the metric's coordinates; bounded, as a trajectory that runs away is rejected anyway."""
    return np.clip(np.nan_to_num(_evaluate(partial(raw_score, target), x) @ metric), -1e6, 1e6)


def _evaluate(function: Batch, x: np.ndarray) -> np.ndarray:
    """A batch callable at x (M, walkers, d), in blocks that compiled targets evaluate without padding."""
    rows, block = x.reshape(-1, x.shape[2]), CHUNKS[2]
    values = np.concatenate([function(rows[k : k + block]) for k in range(0, len(rows), block)])
    return values.reshape(*x.shape[:2], *values.shape[1:])


def _mixture(
    x: np.ndarray, count: int, floor: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Centres, covariances, log weights of Gaussians fitted to x (n, d); None if a cluster gets too small."""
    n, d = x.shape
    z = x / np.maximum(x.std(axis=0), np.finfo(float).tiny)
    seeds = z[[rng.integers(n)]]
    for _ in range(1, count):  # the seeds of k-means++
        squared = ((z[:, None] - seeds) ** 2).sum(axis=2).min(axis=1)
        seeds = np.concatenate([seeds, z[[rng.choice(n, p=squared / squared.sum())]]])
    share = np.eye(count)[((z[:, None] - seeds) ** 2).sum(axis=2).argmin(axis=1)]
    for _ in range(SWEEPS):
        size = share.sum(axis=0)
        if size.min() <= 2 * d:
            return None
        centres = (share.T @ x) / size[:, None]
        gaps = x - centres[:, None]
        covariances = (gaps * share.T[:, :, None]).transpose(0, 2, 1) @ gaps / size[:, None, None]
        covariances += floor * np.eye(d)
        _, inverse, half_log_det = square_roots(covariances)
        height = log_gaussians(x, centres, inverse, np.log(size / n) - half_log_det)
        share = np.exp(height - height.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
    return centres, covariances, np.log(size / n)
