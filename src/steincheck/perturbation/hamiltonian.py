"""Hamiltonian transitions: many walkers at once, each step one call of the score."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..target.evaluation import CountedTarget


class Walkers(NamedTuple):
    """Points, and what the density says there."""

    x: np.ndarray  #: (..., d)
    log_p: np.ndarray  #: (...)
    score: np.ndarray  #: (..., d)


class Trajectory(NamedTuple):
    """How walkers move: leapfrog steps in coordinates z with x = root z and standard normal momenta."""

    root: np.ndarray  #: (..., d, d), a root of the metric
    step: float | np.ndarray  #: common to all walkers, or (..., 1)
    n_steps: int


def hamiltonian_transition(
    walkers: Walkers,
    density: CountedTarget,
    trajectory: Trajectory,
    rng: np.random.Generator,
    inside: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[Walkers, np.ndarray]:
    """Move all walkers once, and say which of them moved.

    A leapfrog trajectory preserves volume and is its own inverse once the momenta are reversed. Accepted with
    probability min(1, exp(-change of energy)), it leaves p invariant (Neal 2011, Handbook of MCMC, ch. 5).
    With `inside`, a batch function of truth values, proposals outside are rejected too, which leaves p
    restricted to the inside invariant.
    """
    root, step, n_steps = trajectory
    momentum = rng.standard_normal(walkers.x.shape)
    energy = walkers.log_p - 0.5 * np.sum(momentum**2, axis=-1)
    x, force = walkers.x, _force(walkers.score, root)
    for k in range(n_steps):
        momentum = momentum + 0.5 * step * force
        x = x + (step * momentum) @ root.swapaxes(-1, -2)
        if k < n_steps - 1:
            score = density.score(x)
        else:
            log_p, score = density.log_density_and_score(x)
        force = _force(score, root)
        momentum = momentum + 0.5 * step * force
    with np.errstate(invalid="ignore", over="ignore"):
        gain = log_p - 0.5 * np.sum(momentum**2, axis=-1) - energy
    accepted = -rng.standard_exponential(log_p.shape) < np.where(np.isfinite(log_p), gain, -np.inf)
    accepted &= np.isfinite(score).all(axis=-1)
    if inside is not None:
        accepted &= inside(x)
    taken = accepted[..., None]
    moved = (np.where(taken, x, walkers.x), np.where(accepted, log_p, walkers.log_p))
    return Walkers(*moved, np.where(taken, score, walkers.score)), accepted


def _force(score: np.ndarray, root: np.ndarray) -> np.ndarray:
    """The score in the coordinates of the root, bounded: a trajectory that runs away is rejected anyway."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.clip(np.nan_to_num(score) @ root, -1e6, 1e6)
