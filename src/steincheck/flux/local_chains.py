"""Short Hamiltonian chains that start at the modes and show their shape."""

from __future__ import annotations

from functools import partial

import numpy as np

from .._whitening import symmetric_roots
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
        log_p = _evaluate(partial(log_density_anywhere, target.log_density), x)
        for transition in range(n_transitions):
            parity = transition % 2
            x, log_p, accepted = _transition(target, x, log_p, metrics[parity], steps[parity], rng)
            adapting = transition < n_transitions // 2
            # .65 is optimal for Hamiltonian Monte Carlo (Beskos et al. 2013)
            steps[parity] *= np.exp((0.5 if adapting else 0.05) * (accepted - 0.65))
            if not adapting:
                kept.append(x)
    return np.concatenate(kept, axis=1)


def _transition(
    target: Target,
    x: np.ndarray,
    log_p: np.ndarray,
    metric: np.ndarray,
    step: np.ndarray,
    rng: np.random.Generator,
    n_leapfrog: int = 16,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One Hamiltonian transition of all chains: points, their log density, share accepted per mode."""
    stride = step[:, None, None] * np.exp(rng.uniform(-0.5, 0.2, size=(*x.shape[:2], 1)))
    momentum = rng.standard_normal(x.shape)
    energy = log_p - 0.5 * np.sum(momentum**2, axis=2)
    y = x
    force = _force(target, x, metric)
    for _ in range(n_leapfrog):
        momentum = momentum + 0.5 * stride * force
        y = y + (stride * momentum) @ metric
        force = _force(target, y, metric)
        momentum = momentum + 0.5 * stride * force
    proposed = _evaluate(partial(log_density_anywhere, target.log_density), y)
    gain = proposed - 0.5 * np.sum(momentum**2, axis=2) - energy
    take = -rng.standard_exponential(gain.shape) < np.where(np.isnan(gain), -np.inf, gain)
    moved = np.where(take[:, :, None], y, x)
    return moved, np.where(take, proposed, log_p), take.mean(axis=1)


def _force(target: Target, x: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """The score in the metric's coordinates; bounded, as a trajectory that runs away is rejected anyway."""
    return np.clip(np.nan_to_num(_evaluate(partial(score_anywhere, target), x) @ metric), -1e6, 1e6)


def _evaluate(function: Batch, x: np.ndarray) -> np.ndarray:
    """A batch callable at x (M, walkers, d), in chunks of bounded size."""
    rows = x.reshape(-1, x.shape[2])
    size = BATCH_SIZES[-1] if len(rows) >= BATCH_SIZES[-1] else BATCH_SIZES[-2]  # little is padded
    values = np.concatenate([function(rows[k : k + size]) for k in range(0, len(rows), size)])
    return values.reshape(*x.shape[:2], *values.shape[1:])
