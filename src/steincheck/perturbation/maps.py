"""Maps between modes, rules of acceptance, and one step of the jump kernel (paper, Sec. 5)."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from .._validation import as_numbers
from .._whitening import symmetric_roots
from ..target import Target, log_density_at


class Accept(Protocol):
    """What a perturbed test takes as `accept`: `metropolis`, `barker` or any rule of acceptance.

    Parameters
    ----------
    log_ratio : array
        log t, the log of the ratio of target densities times Jacobian.

    Returns
    -------
    array
        Log of the acceptance probability.
    """

    def __call__(self, log_ratio: np.ndarray, /) -> np.ndarray:
        """Log of the acceptance probability."""


class JumpMaps(NamedTuple):
    """What the maps h(x | i, j) = A_j^(1/2) A_i^(-1/2) (x - theta mu_i) + theta mu_j need."""

    centres: np.ndarray  #: (M, d) mu, the modes
    roots: np.ndarray  #: (M, d, d) symmetric A^(1/2)
    inverse_roots: np.ndarray  #: (M, d, d) A^(-1/2)
    half_log_det: np.ndarray  #: (M,) log det A^(1/2)
    shift_only: bool  #: all A are equal, so the maps are translations

    def __call__(self, x: np.ndarray, theta: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Map point k of every sample of x (J, n, d) from mode i[k] to mode j[k]."""
        scale = theta[:, None, None]
        if self.shift_only:
            return x + scale * (self.centres[j] - self.centres[i])
        y = _by_mode(self.inverse_roots, x - scale * self.centres[i], i)
        return _by_mode(self.roots, y, j) + scale * self.centres[j]

    def log_jacobian(self, i: Any, j: Any) -> Any:
        """log |det dh/dx| of the maps i -> j."""
        return self.half_log_det[j] - self.half_log_det[i]


def jump_maps(centres: np.ndarray, covariances: np.ndarray) -> JumpMaps:
    """Prepare the maps between modes at `centres` (M, d) with `covariances` (M, d, d).

    Covariances that agree to a millionth (those of a lattice of modes, found numerically) are taken as equal:
    any choice leaves the target invariant, and translations are cheap.
    """
    scale = np.sqrt(np.einsum("kii->ki", covariances)[0])
    shift_only = bool(np.all(np.abs(covariances - covariances[0]) <= 1e-6 * np.outer(scale, scale)))
    if shift_only:
        covariances = np.broadcast_to(covariances[0], covariances.shape)
    found = symmetric_roots(covariances)
    return JumpMaps(centres, found.root, found.inverse, found.half_log_det, shift_only)


def _by_mode(matrices: np.ndarray, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """matrices[index[k]] @ x[:, k] for all k, one product per mode."""
    out = np.empty_like(x)
    for m in np.unique(index):
        rows = index == m
        out[:, rows] = x[:, rows] @ matrices[m]  # symmetric
    return out


def metropolis(log_ratio: np.ndarray) -> np.ndarray:
    """Metropolis rule: the log acceptance probability min(0, log t).

    Parameters
    ----------
    log_ratio : array
        log t, the log of the ratio of target densities times Jacobian.

    Returns
    -------
    array
        log of the acceptance probability.

    Examples
    --------
    >>> metropolis(np.array([0.0])).round(3)
    array([0.])
    """
    return np.minimum(as_numbers(log_ratio, "log_ratio"), 0.0)


def barker(log_ratio: np.ndarray) -> np.ndarray:
    """Barker's rule: the log acceptance probability log(t / (1 + t)).

    Parameters
    ----------
    log_ratio : array
        log t, the log of the ratio of target densities times Jacobian.

    Returns
    -------
    array
        log of the acceptance probability.

    Examples
    --------
    >>> barker(np.array([0.0])).round(3)
    array([-0.693])
    """
    return -np.logaddexp(0.0, -as_numbers(log_ratio, "log_ratio"))


class JumpKernel(NamedTuple):
    """The jump kernel for every jump scale, and how many of its transitions are made."""

    target: Target
    maps: JumpMaps
    theta: np.ndarray  #: (J,) jump scales
    n_steps: int
    accept: Accept = metropolis


class States(NamedTuple):
    """States of the jump kernel."""

    x: np.ndarray  #: (J, n, d)
    log_p: np.ndarray  #: (J, n) their log densities
    log_alpha: np.ndarray = np.empty(0)  #: (J, n) log acceptance probabilities of the last proposals


def transition(
    kernel: JumpKernel, states: States, pairs: tuple[np.ndarray, np.ndarray], log_uniform: np.ndarray
) -> States:
    """One step of the jump kernel for all samples of a stack.

    Parameters
    ----------
    kernel : JumpKernel
    states : States
    pairs : arrays (n,), (n,)
        Modes i and j of each point's map, shared by all jump scales.
    log_uniform : array (J, n)
        Accepted where it is below the log acceptance probability.
    """
    x, log_p, _ = states
    i, j = pairs
    proposal = kernel.maps(x, kernel.theta, i, j)
    flat = proposal.reshape(-1, x.shape[2])
    proposed = log_density_at(kernel.target, flat, proposal=True).reshape(log_p.shape)
    log_alpha = kernel.accept(proposed - log_p + kernel.maps.log_jacobian(i, j))
    take = log_uniform < log_alpha
    return States(np.where(take[:, :, None], proposal, x), np.where(take, proposed, log_p), log_alpha)
