"""Anchors, the Gaussians between which the flux test carries draws.

One Gaussian a mode, with the mode's inverse Hessian, is enough where modes are elliptic. Rings and bananas
need several: short local chains, started at the modes and independent of any draws, are cut into clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from .._validation import as_generator, as_numbers, check_count
from ..modes.search import Modes, as_modes
from ..target import CHUNKS, Batch, Target, raw_score

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
