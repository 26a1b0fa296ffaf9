"""Walkers: draws that move by Hamiltonian transitions which leave the density invariant."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._whitening import symmetric_roots
from ..perturbation.hamiltonian import Trajectory, Walkers, hamiltonian_transition
from ..target.evaluation import CountedTarget
from .cells import Cell

BLOCK = 5  # transitions; the third of each has steps a quarter as long, for necks and curved tails
WINDOW = 10  # transitions of the first window; later ones are twice as long each
MAX_STATES = 4000  # of a window that enter the regressions


class WalkerCoordinates(NamedTuple):
    """Where the density is, as known before a window begins."""

    centre: np.ndarray  #: (d,)
    metric: np.ndarray  #: (d, d)


class Ensemble(NamedTuple):
    """Walkers of one mode and how they move."""

    walkers: Walkers
    coordinates: WalkerCoordinates
    step: float
    cell: Cell
    density: CountedTarget
    rng: np.random.Generator


class Window(NamedTuple):
    """States (T m, d), transition after transition, made with coordinates and step fixed."""

    x: np.ndarray
    scores: np.ndarray
    n_walkers: int
    coordinates: WalkerCoordinates
    acceptance: float


class OutOfBudget(Exception):
    """The next transition would take more evaluations than are left."""


def start_ensemble(
    x: np.ndarray,
    coordinates: WalkerCoordinates,
    cell: Cell,
    density: CountedTarget,
    rng: np.random.Generator,
) -> Ensemble:
    """Walkers at the rows of x (m, d), moved by two adapting blocks."""
    walkers = Walkers(x, *density.log_density_and_score(x))
    ensemble = Ensemble(walkers, coordinates, min(1.0, 1.2 * x.shape[1] ** -0.25), cell, density, rng)
    for _ in range(2):
        ensemble, window = run(ensemble, BLOCK, adapting=True)
        ensemble = ensemble._replace(coordinates=coordinates_of(window))
    return ensemble


def adapt(ensemble: Ensemble) -> Ensemble:
    """One block in which the step adapts."""
    return run(ensemble, BLOCK, adapting=True)[0]


def coordinates_of(window: Window) -> WalkerCoordinates:
    """The coordinates that the states of a window imply."""
    usable = np.isfinite(window.scores).all(axis=1)
    x, scores = window.x[usable], window.scores[usable]
    return WalkerCoordinates(x.mean(axis=0), estimate_metric(x, scores)) if len(x) > 1 else window.coordinates


def run(ensemble: Ensemble, n_transitions: int, *, adapting: bool = False) -> tuple[Ensemble, Window]:
    """Make transitions, and keep their states; at most `MAX_STATES`, and an even number per walker.

    A trajectory is a quarter period long, after which a Gaussian has forgotten its start.
    """
    walkers, step = ensemble.walkers, ensemble.step
    root = np.linalg.cholesky(ensemble.coordinates.metric)
    states, rates = [], []
    for k in range(n_transitions):
        part = 4 if k % BLOCK == 2 else 1
        n_steps = part * min(int(np.ceil(np.pi / 2 / step)), 32)
        walkers, rate = _move(ensemble, walkers, Trajectory(root, step / part, n_steps))
        if adapting and part == 1:
            step *= np.exp(0.5 * (rate - 0.8))  # acceptance .8
        states.append(walkers)
        rates.append(rate)
    n_walkers = len(walkers.x)
    thinning = -(-n_transitions * n_walkers // MAX_STATES)
    kept = states[thinning - 1 :: thinning]
    kept = kept[len(kept) % 2 :]
    x, scores = (np.concatenate([getattr(state, name) for state in kept]) for name in ("x", "score"))
    window = Window(x, scores, n_walkers, ensemble.coordinates, float(np.mean(rates)))
    return ensemble._replace(walkers=walkers, step=step), window


def _move(ensemble: Ensemble, walkers: Walkers, trajectory: Trajectory) -> tuple[Walkers, float]:
    """One transition with a random step, if it can be afforded, and the share of walkers that moved."""
    density, rng = ensemble.density, ensemble.rng
    if (trajectory.n_steps + 1) * len(walkers.x) * density.score_cost > density.budget.left:
        raise OutOfBudget
    trajectory = trajectory._replace(step=trajectory.step * rng.uniform(0.6, 1.2))
    walkers, moved = hamiltonian_transition(walkers, density, trajectory, rng, ensemble.cell.contains)
    return walkers, float(moved.mean())


def estimate_metric(x: np.ndarray, scores: np.ndarray, passes: int = 3) -> np.ndarray:
    """A # B (d, d), the geometric mean of A = cov(x) and B = cov(scores)^-1, for rows x, scores (n, d).

    For a Gaussian density of covariance C and points of any covariance S the scores have covariance
    C^-1 S C^-1, and S # (C S^-1 C) = C: the metric is right although the points are not. Both covariances are
    shrunk to their diagonals by d / (d + n). Every pass works in the coordinates in which the last metric is
    the identity, so that strong correlations are shrunk less and less.
    """
    n, d = x.shape
    kept = 1 - d / (d + n)
    if np.any(scores.std(axis=0) <= 1e-9 * np.abs(scores).mean(axis=0)):  # an edge: the score knows no width
        return _covariance(x, kept) + np.diag(x.std(axis=0) == 0)
    root = np.diag(np.sqrt(np.maximum(x.std(axis=0), 1e-150) / scores.std(axis=0)))
    for _ in range(passes):
        a = _covariance(np.linalg.solve(root, x.T).T, kept)
        b = _covariance(scores @ root, kept)
        half = symmetric_roots(a, floor=1e-12).root
        middle = symmetric_roots(half @ b @ half, floor=1e-12).inverse
        root = root @ np.linalg.cholesky(half @ middle @ half)
    return root @ root.T


def _covariance(x: np.ndarray, kept: float) -> np.ndarray:
    """The covariance of rows, with a part `kept` of its off-diagonal entries."""
    full = np.cov(x, rowvar=False, ddof=0).reshape(x.shape[1], x.shape[1])
    return kept * full + (1 - kept) * np.diag(np.diag(full))
