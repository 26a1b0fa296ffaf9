"""Short Hamiltonian chains that start at the modes and show their shape."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from .._whitening import symmetric_roots
from ..perturbation.hamiltonian import Trajectory, Walkers, hamiltonian_transition
from ..target import BATCH_SIZES, Batch, Target, log_density_anywhere, score_anywhere


def local_chains(
    target: Target,
    locations: np.ndarray,
    covariances: np.ndarray,
    rng: np.random.Generator,
    n_transitions: int = 60,
) -> np.ndarray:
    """Points (M, kept transitions * walkers, d) of Hamiltonian chains that start at the modes.

    The first half of the transitions adapts the step. There are 8 to 64 walkers per mode, as far as possible
    1024 in all, which take about 10^6 scores; with four anchors in ten dimensions fewer are too few to fit.

    Transitions alternate between two metrics: the inverse Hessian of the mode, good where the mode is an
    ellipse however narrow, and a multiple of the identity, good where it is a thin ring.
    """
    count, d = locations.shape
    n_walkers = int(np.clip(1024 // count, 8, 64))
    roots = symmetric_roots(covariances).root
    metrics = (roots, np.eye(d) * np.linalg.eigvalsh(roots)[:, :1, None])
    steps = np.array([np.full(count, 0.5), np.ones(count)])
    # near the mode: low energy, so that no chain is flung into another
    x = locations[:, None] + 0.1 * rng.standard_normal((count, n_walkers, d)) @ roots
    kept = []
    with np.errstate(all="ignore"):  # a trajectory that runs away is rejected
        for transition in range(n_transitions):
            parity = transition % 2
            x, accepted = _transition(target, x, metrics[parity], steps[parity], rng)
            adapting = transition < n_transitions // 2
            # .65 is optimal for Hamiltonian Monte Carlo (Beskos et al. 2013)
            steps[parity] *= np.exp((0.5 if adapting else 0.05) * (accepted - 0.65))
            if not adapting:
                kept.append(x)
    return np.concatenate(kept, axis=1)


def _transition(
    target: Target, x: np.ndarray, metric: np.ndarray, step: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """All chains after one Hamiltonian transition, and the share (M,) of walkers that moved."""
    n_modes, n_walkers, d = x.shape
    stride = step[:, None, None] * np.exp(rng.uniform(-0.5, 0.2, size=(n_modes, n_walkers, 1)))
    around = _Surroundings(target, x, metric, stride)
    here = np.zeros((n_modes * n_walkers, d))
    start = Walkers(here, *around.log_density_and_score(here))
    moved, accepted = hamiltonian_transition(start, around, Trajectory(np.eye(d), 1.0, 16), rng)
    return around.points(moved.x), accepted.reshape(n_modes, n_walkers).mean(axis=1)


class _Surroundings(NamedTuple):
    """The density as a function of z (M * walkers, d), with x = origin + stride z metric."""

    target: Target
    origin: np.ndarray  # (M, walkers, d)
    metric: np.ndarray  # (M, d, d), symmetric
    stride: np.ndarray  # (M, walkers, 1)

    def points(self, z: np.ndarray) -> np.ndarray:
        """x (M, walkers, d)."""
        return np.asarray(self.origin + (self.stride * z.reshape(self.origin.shape)) @ self.metric)

    def score(self, z: np.ndarray) -> np.ndarray:
        """(M * walkers, d)"""
        x = self.points(z)
        slope = _values(partial(score_anywhere, self.target), x).reshape(x.shape)
        return np.asarray(self.stride * (slope @ self.metric)).reshape(z.shape)

    def log_density_and_score(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(M * walkers,) and (M * walkers, d)"""
        log_p = _values(partial(log_density_anywhere, self.target.log_density), self.points(z))
        return log_p, self.score(z)


def _values(function: Batch, x: np.ndarray) -> np.ndarray:
    """A batch function at all points of x (M, walkers, d), in chunks of bounded size."""
    rows = x.reshape(-1, x.shape[2])
    size = BATCH_SIZES[-1] if len(rows) >= BATCH_SIZES[-1] else BATCH_SIZES[-2]  # little is padded
    return np.concatenate([function(rows[k : k + size]) for k in range(0, len(rows), size)])
