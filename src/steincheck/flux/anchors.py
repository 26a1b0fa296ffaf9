"""Where the flux test carries draws: to anchors at the modes, or along the displacements of a lattice.

An anchor is a Gaussian. One per mode, with the mode's inverse Hessian, is enough where modes are elliptic.
Rings and bananas need several: short local chains, started at the modes and independent of any draws, are cut
into clusters. Modes on a lattice too large to be listed have displacements in common instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._whitening import Gaussians, average_root, symmetric_roots, whitened
from ..perturbation.hamiltonian import Trajectory, Walkers, hamiltonian_transition
from ..result import Modes
from ..target import Target, log_density_at
from ..target.evaluation import Budget, CountedTarget

MAX_DROP = (
    3.0  # nats by which the next mode of a lattice may be lower, or a draw at a mode higher than its peak
)


@dataclass(frozen=True, eq=False)
class Anchors(Gaussians):
    """Gaussians between which draws are moved, sorted by mode."""

    mode: np.ndarray  #: (K,) the mode each belongs to


def mode_anchors(modes: Modes) -> Anchors:
    """One anchor per mode: location, inverse Hessian (their mean where all agree) and Laplace weight."""
    covariances = modes.covariances
    if shape_difference(covariances) <= 0.01:  # equal but for how they were found
        covariances = np.repeat(covariances.mean(axis=0)[None], len(modes), axis=0)
    log_weight = modes.log_density + symmetric_roots(covariances).half_log_det
    return Anchors(modes.locations, covariances, log_weight - log_weight.max(), np.arange(len(modes)))


def shape_difference(covariances: np.ndarray) -> float:
    """Largest entry of A^(-1/2) A_k A^(-1/2) - 1, A the mean of the covariances (M, d, d)."""
    whiten = symmetric_roots(covariances.mean(axis=0)).inverse
    return float(np.abs(whiten @ covariances @ whiten - np.eye(len(whiten))).max())


def local_anchors(
    target: Target, modes: Modes, n_anchors: int, rng: np.random.Generator, budget: Budget | None = None
) -> Anchors | None:
    """Several anchors per mode, from short Hamiltonian chains; None if a quarter of the budget is too little.

    The chains know nothing of the tested draws, and need not be exact: with any anchors the flux test keeps
    its level. Points nearer to another mode are dropped; a mixture of `n_anchors` Gaussians is fitted to the
    others. A mode whose chains left it keeps its single anchor.
    """
    chain_stream, cluster_stream = rng.spawn(2)
    count, d = modes.locations.shape
    n_walkers = int(np.clip(1024 // count, 8, 64))  # with four anchors in ten dimensions 8 are enough to fit
    if budget is not None:
        cost = 60 * (1 + 16 * (1 if target.has_score else 2 * d + 1))  # of 60 transitions with 16 scores each
        n_walkers = int(min(n_walkers, budget.left / 4 // (count * cost)))
    if n_walkers < 8:
        return None
    single = mode_anchors(modes)
    parts = []
    for k, cloud in enumerate(local_chains(target, modes, n_walkers, chain_stream)):
        home = cloud[single.largest(cloud) == k]
        fitted = _fitted_gaussians(home, len(cloud), modes.covariances[k], n_anchors, cluster_stream)
        parts.append(fitted or Gaussians(single.centres[[k]], single.covariances[[k]], np.zeros(1)))
    return Anchors(
        np.concatenate([part.centres for part in parts]),
        np.concatenate([part.covariances for part in parts]),
        np.concatenate([part.log_weight for part in parts]),
        np.repeat(np.arange(count), [len(part.centres) for part in parts]),
    )


def _fitted_gaussians(
    home: np.ndarray, n_points: int, covariance: np.ndarray, n_anchors: int, rng: np.random.Generator
) -> Gaussians | None:
    """Gaussians fitted to the points of a mode's chains that stayed at it; None if these are too few."""
    n, d = home.shape
    if n <= max(n_points / 2, 4 * n_anchors * d) or np.ptp(home, axis=0).min() == 0:
        return None
    z = home / np.maximum(home.std(axis=0), np.finfo(float).tiny)
    seeds = z[[rng.integers(n)]]
    for _ in range(1, n_anchors):  # seeds that lie apart (k-means++)
        squared = ((z[:, None] - seeds) ** 2).sum(axis=2).min(axis=1)
        seeds = np.concatenate([seeds, z[[rng.choice(n, p=squared / squared.sum())]]])
    nearest = ((z[:, None] - seeds) ** 2).sum(axis=2).argmin(axis=1)
    return fit_mixture(home, np.eye(n_anchors)[nearest], 0.01 * np.linalg.eigvalsh(covariance)[0])


def fit_mixture(x: np.ndarray, share: np.ndarray, floor: float) -> Gaussians | None:
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


def local_chains(target: Target, modes: Modes, n_walkers: int, rng: np.random.Generator) -> np.ndarray:
    """Points (M, 30 * walkers, d) of Hamiltonian chains that start at the modes.

    The first half of the 60 transitions adapts the step. Transitions alternate between two metrics: the
    inverse Hessian of the mode, good where the mode is an ellipse however narrow, and a multiple of the
    identity, good where it is a thin ring.
    """
    count, d = modes.locations.shape
    roots = symmetric_roots(modes.covariances).root
    metrics = (roots, np.eye(d) * np.linalg.eigvalsh(roots)[:, :1, None])
    steps = np.array([np.full(count, 0.5), np.ones(count)])
    density = CountedTarget(target)
    # near the mode: low energy, so that no chain is flung into another
    x = modes.locations[:, None] + 0.1 * rng.standard_normal((count, n_walkers, d)) @ roots
    kept = []
    with np.errstate(all="ignore"):  # a trajectory that runs away is rejected
        walkers = Walkers(x, *density.log_density_and_score(x))
        for transition in range(60):
            parity = transition % 2
            stride = steps[parity][:, None, None] * np.exp(rng.uniform(-0.5, 0.2, size=(count, n_walkers, 1)))
            trajectory = Trajectory(metrics[parity], stride, 16)
            walkers, accepted = hamiltonian_transition(walkers, density, trajectory, rng)
            adapting = transition < 30
            # .65 is optimal for Hamiltonian Monte Carlo (Beskos et al. 2013)
            steps[parity] *= np.exp((0.5 if adapting else 0.05) * (accepted.mean(axis=1) - 0.65))
            if not adapting:
                kept.append(walkers.x)
    return np.concatenate(kept, axis=1)


def lattice_steps(target: Target, modes: Modes) -> np.ndarray | None:
    """The shortest displacements that generate all others between modes of one shape, (V, d).

    None unless they are fewer than the M - 1 that generate the displacements between any M points by integer
    combinations, and one of them leads to a mode of non-negligible weight that is not listed: then the modes
    are part of a larger lattice. Lengths are measured by the covariance of the modes, no axis is special.
    """
    if shape_difference(modes.covariances) > 0.1:  # the modes of a lattice have one shape
        return None
    root = average_root(modes.covariances)
    z = whitened(modes.locations, root)
    basis = _generators(z)
    if basis is None or not _leads_further(target, modes, z, basis, root):
        return None
    return basis @ root.T


def _generators(z: np.ndarray) -> np.ndarray | None:
    """Differences of points z (M, d), the shortest first, none an integer combination of those before."""
    first, second = np.triu_indices(min(len(z), 256), 1)  # pairs of the first 256 modes
    left = z[second] - z[first]
    left = left[np.argsort(np.linalg.norm(left, axis=1), kind="stable")]
    basis = np.empty((0, z.shape[1]))
    while len(left):
        basis = np.concatenate([basis, left[:1]])
        if len(basis) >= len(z) - 1:
            return None
        whole = np.rint(left @ np.linalg.pinv(basis))
        # equal up to .3 standard deviations
        left = left[np.linalg.norm(left - whole @ basis, axis=1) > 0.3]
    return basis


def _leads_further(target: Target, modes: Modes, z: np.ndarray, basis: np.ndarray, root: np.ndarray) -> bool:
    """Whether a displacement leads from a listed mode to one of non-negligible weight that is not listed."""
    both = np.concatenate([basis, -basis])
    ahead = (z[:, None] + both).reshape(-1, z.shape[1])
    unlisted = np.array([np.min(np.sum((z - point) ** 2, axis=1)) > 1 for point in ahead])
    here = np.repeat(modes.log_density, len(both))
    along = np.tile(both / np.linalg.norm(both, axis=1, keepdims=True), (len(z), 1))
    before, there, behind = (
        log_density_at(target, (ahead + shift * along) @ root.T, proposal=True) for shift in (-1, 0, 1)
    )
    another = unlisted & (there > here - MAX_DROP) & (there > np.maximum(before, behind))
    # modes that are 7 nats lower have 1/1000 of the weight of the highest
    return bool(np.any(another & (there > modes.log_density.max() - 7)))


def share_at_listed_modes(x: np.ndarray, log_p: np.ndarray, modes: Modes) -> float:
    """Share of the draws whose log density is not far above the Gaussian of the nearest listed mode."""
    anchors = mode_anchors(modes)
    home = anchors.largest(x)
    gap = np.einsum("nij,nj->ni", anchors.roots.inverse[home], x - anchors.centres[home])
    height = modes.log_density[home] - 0.5 * np.sum(gap**2, axis=1)
    return float(np.mean(log_p - height < MAX_DROP))
