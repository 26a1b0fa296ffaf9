"""Walkers: draws that move by Hamiltonian transitions which leave the density invariant."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ..perturbation.hamiltonian import Density, Trajectory, Walkers, hamiltonian_transition
from .cells import Cell
from .metric import estimate_metric

BLOCK = 5  # transitions; the third of each has steps a quarter as long, for necks and curved tails
WINDOW = 10  # transitions of the first window; later ones are twice as long each
MAX_STATES = 4000  # of a window that enter the regressions
MAX_LEAPFROG = 32
TARGET_ACCEPTANCE = 0.8


class CountedDensity(Density, Protocol):
    """A density that counts what it is asked."""

    @property
    def made(self) -> int:
        """Evaluations so far."""
        ...

    @property
    def left(self) -> float:
        """Evaluations that are still allowed."""
        ...

    @property
    def cost(self) -> int:
        """Evaluations that a score takes."""
        ...


class Frame(NamedTuple):
    """Where the density is, as known before a window begins."""

    centre: np.ndarray  #: (d,)
    metric: np.ndarray  #: (d, d)


class Ensemble(NamedTuple):
    """Walkers of one mode and how they move."""

    walkers: Walkers
    frame: Frame
    step: float
    cell: Cell | None
    density: CountedDensity
    rng: np.random.Generator


class Window(NamedTuple):
    """States (T m, d), transition after transition, made with frame and step fixed."""

    x: np.ndarray
    scores: np.ndarray
    frame: Frame
    acceptance: float


def start_ensemble(
    x: np.ndarray, frame: Frame, cell: Cell | None, density: CountedDensity, rng: np.random.Generator
) -> Ensemble:
    """Walkers at the rows of x (m, d), moved by two adapting blocks."""
    step = min(1.0, 1.2 * x.shape[1] ** -0.25)
    walkers = Walkers(x, *density.log_density_and_score(x))
    ensemble = Ensemble(walkers, frame, step, cell, density, rng)
    for _ in range(2):
        ensemble = adapt(ensemble)
    return ensemble


def adapt(ensemble: Ensemble) -> Ensemble:
    """One block in which the step adapts, then a new frame from its states."""
    ensemble, window = run(ensemble, BLOCK, adapting=True)
    return ensemble._replace(frame=frame_of(window))


def frame_of(window: Window) -> Frame:
    """The frame that the states of a window imply."""
    usable = np.isfinite(window.scores).all(axis=1)
    x, scores = window.x[usable], window.scores[usable]
    return Frame(x.mean(axis=0), estimate_metric(x, scores)) if len(x) > 1 else window.frame


def run(ensemble: Ensemble, n_transitions: int, *, adapting: bool = False) -> tuple[Ensemble, Window]:
    """Make transitions, and keep their states; at most `MAX_STATES`, and an even number per walker."""
    walkers, frame, step, cell, density, rng = ensemble
    root = np.linalg.cholesky(frame.metric)
    states = []
    accepted = 0.0
    for k in range(n_transitions):
        part = 4 if k % BLOCK == 2 else 1
        n_steps = part * min(int(np.ceil(np.pi / 2 / step)), MAX_LEAPFROG)
        trajectory = Trajectory(root, step / part * rng.uniform(0.6, 1.2), n_steps)
        if n_steps * len(walkers.x) * density.cost > density.left:
            raise OutOfBudget
        inside = None if cell is None else cell.contains
        walkers, moved = hamiltonian_transition(walkers, density, trajectory, rng, inside)
        rate = float(moved.mean())
        accepted += rate / n_transitions
        if adapting and part == 1:
            step *= np.exp(0.5 * (rate - TARGET_ACCEPTANCE))
        states.append(walkers)
    thinning = -(-n_transitions * len(walkers.x) // MAX_STATES)
    kept = states[thinning - 1 :: thinning]
    kept = kept[len(kept) % 2 :]
    x, scores = (np.concatenate([getattr(state, name) for state in kept]) for name in ("x", "score"))
    return ensemble._replace(walkers=walkers, step=step), Window(x, scores, frame, accepted)


class OutOfBudget(Exception):
    """The next transition would take more evaluations than are left."""
