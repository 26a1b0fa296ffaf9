"""Walkers: draws that move by Hamiltonian transitions which leave the density invariant, mode by mode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._whitening import Gaussians, symmetric_roots
from ..chains.reading import Sample
from ..flux.orbits import mode_anchors
from ..perturbation.hamiltonian import Trajectory, Walkers, hamiltonian_transition
from ..result import Modes
from ..target.evaluation import CountedTarget, OutOfBudget

N_WALKERS = 200
BLOCK = 5  # transitions; the third of each has steps a quarter as long, for necks and curved tails
MAX_STATES = 4000  # of a window that enter the regressions


class Ensemble(NamedTuple):
    """Walkers at one mode, how they move, and the states of their last window."""

    mode: int
    gaussians: Gaussians  #: of all modes; walkers stay where their own is the largest
    walkers: Walkers
    centre: np.ndarray  #: (d,), known before the window began
    metric: np.ndarray  #: (d, d), likewise
    step: float
    states: Walkers  #: T m of them, transition after transition
    acceptance: float
    rng: np.random.Generator


def start_ensembles(
    sample: Sample, density: CountedTarget, modes: Modes, rng: np.random.Generator
) -> list[Ensemble]:
    """Walkers at the draws of every mode, or about the mode itself where it has too few.

    Starts are evenly spaced in the cumulative weight of the draws; those of a group are neighbours.
    """
    d = sample.x.shape[1]
    gaussians = mode_anchors(modes)
    owner = gaussians.largest(sample.x)
    order = np.arange(len(owner)) if sample.group is None else np.argsort(sample.group, kind="stable")
    weight = np.ones(len(owner)) if sample.weight is None else sample.weight
    cost = 50 * np.ceil(np.pi / 2 / 1.2 * d**0.25) * density.score_cost  # per walker, to the first estimate
    ensembles = []
    for k, stream in enumerate(rng.spawn(len(modes))):
        size = int(min(N_WALKERS * max(1 / len(modes), 0.25), density.budget.left / (cost * len(modes))))
        if size < 20:
            raise OutOfBudget
        rows = order[owner[order] == k]
        if len(rows) < 20:
            centre, metric = modes.locations[k], modes.covariances[k]
            x = centre + 0.5 * stream.standard_normal((size, d)) @ np.linalg.cholesky(metric).T
            x[gaussians.largest(x) != k] = centre
        else:
            metric = estimate_metric(sample.x[rows], sample.scores[rows])
            size = min(size, len(rows))
            total = np.cumsum(weight[rows])
            x = sample.x[rows[np.searchsorted(total, (np.arange(size) + 0.5) / size * total[-1])]]
            centre = x.mean(axis=0)
        walkers = Walkers(x, *density.log_density_and_score(x))
        one = Ensemble(
            k, gaussians, walkers, centre, metric, min(1.0, 1.2 * d**-0.25), walkers, np.nan, stream
        )
        one = with_new_metric(move(one, density, BLOCK, adapt=True))
        ensembles.append(move(one, density, BLOCK, adapt=True))
    return ensembles


def move(ensemble: Ensemble, density: CountedTarget, n_transitions: int, *, adapt: bool = False) -> Ensemble:
    """Make transitions and keep their states, at most `MAX_STATES`, an even number per walker.

    A trajectory is a quarter period long, after which a Gaussian has forgotten its start. With `adapt` the
    step changes towards an acceptance of .8.
    """
    walkers, step, rng = ensemble.walkers, ensemble.step, ensemble.rng
    root = np.linalg.cholesky(ensemble.metric)
    m = len(walkers.x)
    states, rates = [], []
    for k in range(n_transitions):
        part = 4 if k % BLOCK == 2 else 1
        n_steps = part * min(int(np.ceil(np.pi / 2 / step)), 32)
        if density.budget.exhausted or (n_steps + 1) * m * density.score_cost > density.budget.left:
            raise OutOfBudget
        trajectory = Trajectory(root, step / part * rng.uniform(0.6, 1.2), n_steps)
        walkers, moved = hamiltonian_transition(
            walkers, density, trajectory, rng, lambda x: ensemble.gaussians.largest(x) == ensemble.mode
        )
        if adapt and part == 1:
            step *= np.exp(0.5 * (moved.mean() - 0.8))
        states.append(walkers)
        rates.append(moved.mean())
    thinning = -(-n_transitions * m // MAX_STATES)
    kept = states[thinning - 1 :: thinning]
    kept = kept[len(kept) % 2 :]
    together = Walkers(*(np.concatenate(parts) for parts in zip(*kept, strict=True)))
    return ensemble._replace(walkers=walkers, step=step, states=together, acceptance=float(np.mean(rates)))


def with_new_metric(ensemble: Ensemble) -> Ensemble:
    """The ensemble with the centre and metric that its last states imply."""
    x, _, scores = ensemble.states
    return ensemble._replace(centre=x.mean(axis=0), metric=estimate_metric(x, scores))


def cutoff(x: np.ndarray, mode: int, gaussians: Gaussians) -> tuple[np.ndarray, np.ndarray]:
    """h (n,), 0 at the border of the mode's cell and nearly 1 inside, and its gradient (n, d).

    h = 1 - exp(-margin), the margin being the log height of the mode's Gaussian less the largest other,
    infinite if there is none.
    """
    centres, inverse = gaussians.centres, gaussians.roots.inverse
    heights = gaussians.heights(x)
    own = heights[:, mode].copy()
    heights[:, mode] = -np.inf
    second = heights.argmax(axis=1)
    slope = np.einsum("nij,nj->ni", (inverse @ inverse)[second], x - centres[second])
    slope -= (x - centres[mode]) @ inverse[mode] @ inverse[mode]
    near = np.exp(-np.maximum(own - heights.max(axis=1), 0))
    return 1 - near, near[:, None] * slope


def estimate_metric(x: np.ndarray, scores: np.ndarray, passes: int = 3) -> np.ndarray:
    """A # B (d, d), the geometric mean of A = cov(x) and B = cov(scores)^-1, for rows x, scores (n, d).

    For a Gaussian density of covariance C and points of any covariance S the scores have covariance
    C^-1 S C^-1, and S # (C S^-1 C) = C: the metric is right although the points are not. Both covariances are
    shrunk to their diagonals by d / (d + n). Every pass works in the coordinates in which the last metric is
    the identity, so that strong correlations are shrunk less and less.
    """
    n, d = x.shape

    def covariance(rows: np.ndarray) -> np.ndarray:
        full = np.cov(rows, rowvar=False, ddof=0).reshape(d, d)
        return (n * full + d * np.diag(np.diag(full))) / (d + n)

    if np.any(scores.std(axis=0) <= 1e-9 * np.abs(scores).mean(axis=0)):  # an edge: the score knows no width
        return covariance(x) + np.diag(np.ptp(x, axis=0) == 0)
    root = np.diag(np.sqrt(np.maximum(x.std(axis=0), 1e-150) / scores.std(axis=0)))
    for _ in range(passes):
        a = covariance(np.linalg.solve(root, x.T).T)
        half = symmetric_roots(a, floor=1e-12).root
        middle = symmetric_roots(half @ covariance(scores @ root) @ half, floor=1e-12).inverse
        root = root @ np.linalg.cholesky(half @ middle @ half)
    return root @ root.T
