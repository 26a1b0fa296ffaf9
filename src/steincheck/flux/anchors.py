"""Anchors, the Gaussians between which the flux test carries draws.

One Gaussian per mode, with the mode's inverse Hessian, is enough where modes are elliptic. Rings and bananas
need several: short local chains, started at the modes and independent of any draws, are cut into clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._validation import RandomSource, as_count, as_generator, as_numbers, asymmetries, shown
from .._whitening import SymmetricRoots, log_gaussians, symmetric_roots
from ..modes.arguments import as_modes
from ..modes.symmetry import images_of_modes
from ..result import Modes, SignedPermutation
from ..target import BATCH_SIZES, Target, require_target
from ..typing import ModesLike
from .local_chains import local_chains


@dataclass(frozen=True, eq=False, repr=False)
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
        names = ("mode", "centres", "covariances", "log_weight")
        for name in names:
            values = as_numbers(getattr(self, name), f"anchors.{name}")
            if not np.isfinite(values).all():
                raise ValueError(f"`anchors.{name}` must be finite, got {shown(values.tolist())}")
            object.__setattr__(self, name, values)
        shapes = [getattr(self, name).shape for name in names]
        count, d = (*shapes[1], 0, 0)[:2]
        if not count or shapes != [(count,), (count, d), (count, d, d), (count,)]:
            text = ", ".join(map(str, shapes))
            raise ValueError(
                f"`anchors` must have arrays of shapes (K,), (K, d), (K, d, d), (K,), got {text}"
            )
        if np.any(self.mode != np.floor(self.mode)) or np.any(self.mode < 0):
            raise ValueError(
                f"`anchors.mode` must hold numbers of modes, 0, 1, ..., got {self.mode.tolist()}"
            )
        object.__setattr__(self, "mode", self.mode.astype(int))
        positive = np.linalg.eigvalsh(self.covariances)[:, 0] > 0
        if asymmetries(self.covariances).any() or not positive.all():
            raise ValueError("`anchors` must have symmetric, positive definite covariances")

    @cached_property
    def roots(self) -> SymmetricRoots:
        """Roots of the covariances."""
        return symmetric_roots(self.covariances)

    def __len__(self) -> int:
        return len(self.mode)

    def __repr__(self) -> str:
        return f"<Anchors: {len(self)} for {len(np.unique(self.mode))} modes, d = {self.centres.shape[1]}>"


class Gaussians(NamedTuple):
    """The anchors of one mode."""

    centres: np.ndarray  #: (K, d)
    covariances: np.ndarray  #: (K, d, d)
    log_weight: np.ndarray  #: (K,)

    def moved(self, g: SignedPermutation) -> Gaussians:
        """Their images under a symmetry of the density."""
        return Gaussians(g(self.centres), g.conjugate(self.covariances), self.log_weight)


def mode_anchors(modes: Modes) -> Anchors:
    """One anchor per mode: location, inverse Hessian (their mean where all agree) and Laplace weight."""
    covariances = modes.covariances
    if shape_difference(covariances) <= 0.01:  # equal but for how they were found
        covariances = np.repeat(covariances.mean(axis=0)[None], len(modes), axis=0)
    log_weight = modes.log_density + symmetric_roots(covariances).half_log_det
    return Anchors(np.arange(len(modes)), modes.locations, covariances, log_weight - log_weight.max())


def local_anchors(
    target: Target,
    modes: ModesLike,
    n_anchors: int = 4,
    *,
    rng: RandomSource = None,
) -> Anchors:
    """Several anchors per mode, from short Hamiltonian chains that start at the modes.

    The chains know nothing of the tested draws, and need not be exact: with any anchors the flux test
    keeps its level. Points nearer to another mode are dropped; a mixture of `n_anchors` Gaussians is fitted
    to the others. A mode whose chains left it keeps its single anchor. Where permutations and changes of sign
    of the coordinates leave the density unchanged, chains run at one of the modes that they carry upon each
    other, and the anchors of the others are images.

    Parameters
    ----------
    target : Target
    modes : Modes, (locations, covariances) or locations
    n_anchors : int
        Gaussians per mode.
    rng : int, Generator or SeedSequence, optional

    Returns
    -------
    Anchors

    Examples
    --------
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    >>> len(sc.flux.local_anchors(target, [[-3.0, 0.0], [3.0, 0.0]], 2, rng=0))
    4
    """
    require_target(target)
    n_anchors = as_count(n_anchors, "n_anchors")
    return local_anchors_core(target, as_modes(modes, target), n_anchors, as_generator(rng))


def local_anchors_core(target: Target, modes: Modes, n_anchors: int, rng: np.random.Generator) -> Anchors:
    """As `local_anchors`, all of it validated."""
    chain_stream, cluster_stream, probe_stream = rng.spawn(3)
    single = mode_anchors(modes)
    sources = images_of_modes(target, modes, probe_stream)
    originals = [k for k, source in enumerate(sources) if source is None]
    clouds = local_chains(target, modes.locations[originals], modes.covariances[originals], chain_stream)
    parts: dict[int, Gaussians] = {}
    for k, cloud in zip(originals, clouds, strict=True):
        home = cloud[assign(cloud, single) == k]
        fitted = _fitted_gaussians(home, len(cloud), modes.covariances[k], n_anchors, cluster_stream)
        one = Gaussians(single.centres[[k]], single.covariances[[k]], np.zeros(1))
        parts[k] = fitted or one
    for k, source in enumerate(sources):
        if source is not None:
            parts[k] = parts[source.mode].moved(source.symmetry)
    ordered = [parts[k] for k in range(len(modes))]
    mode = np.repeat(np.arange(len(modes)), [len(part.centres) for part in ordered])
    return Anchors(mode, *(np.concatenate(arrays) for arrays in zip(*ordered, strict=True)))


def assign(x: np.ndarray, anchors: Anchors) -> np.ndarray:
    """The anchor whose Gaussian is largest at each row of x (n, d), chunk by chunk."""
    offset = anchors.log_weight - anchors.roots.half_log_det
    chunks = [x[start : start + BATCH_SIZES[-1]] for start in range(0, len(x), BATCH_SIZES[-1])]
    heights = (log_gaussians(chunk, anchors.centres, anchors.roots.inverse, offset) for chunk in chunks)
    return np.concatenate([height.argmax(axis=1) for height in heights])


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
        _, inverse, half_log_det = symmetric_roots(covariances)
        height = log_gaussians(x, centres, inverse, np.log(size / n) - half_log_det)
        share = np.exp(height - height.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
    return Gaussians(centres, covariances, np.log(size / n))
