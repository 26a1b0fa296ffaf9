"""Markov kernels that leave the target invariant and carry draws from mode to mode (paper, Sec. 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._validation import as_generator, as_positive, check_count
from .draws import as_matrix
from .modes.search import as_modes
from .result import note
from .target import Target, log_density_at

Accept = Callable[[np.ndarray], np.ndarray]
LOW_ACCEPTANCE = 0.01
FAR = 3.0  # distance of the modes' middle from the origin, relative to their distance from the middle


@dataclass(frozen=True, eq=False)
class Perturbation:
    """Draws after the perturbation.

    Attributes
    ----------
    samples : array (J, n, d)
        The perturbed draws, one sample a jump scale.
    theta : array (J,)
        The jump scales.
    acceptance : array (J,)
        Share of proposals accepted at each jump scale.
    warnings : tuple of str
    """

    samples: np.ndarray
    theta: np.ndarray
    acceptance: np.ndarray
    warnings: tuple[str, ...] = ()


def note_moves(moved: Perturbation, notes: list[str]) -> None:
    """Pass on to the `notes` of a test what its user should know about the perturbation."""
    notes.extend(moved.warnings)
    if not moved.warnings and moved.acceptance.max() < LOW_ACCEPTANCE:
        note(
            notes,
            f"fewer than {LOW_ACCEPTANCE:.0%} of the jumps are accepted at every theta: the perturbation "
            "hardly moves the draws; the modes may be wrong or far from elliptic, or more steps are needed",
        )


@dataclass(frozen=True, eq=False)
class JumpMaps:
    """What the maps h(x | i, j) = A_j^(1/2) A_i^(-1/2) (x - theta mu_i) + theta mu_j need.

    Attributes
    ----------
    centres : array (M, d)
        mu, the modes.
    roots, inverse_roots : arrays (M, d, d)
        Symmetric A^(1/2) and A^(-1/2).
    half_log_det : array (M,)
        log det A^(1/2).
    shift_only : bool
        All A are equal, so the maps are translations.
    """

    centres: np.ndarray
    roots: np.ndarray
    inverse_roots: np.ndarray
    half_log_det: np.ndarray
    shift_only: bool

    def __call__(self, x: np.ndarray, theta: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Map point k of every sample of x (J, n, d) from mode i[k] to mode j[k]."""
        scale = theta[:, None, None]
        if self.shift_only:
            return x + scale * (self.centres[j] - self.centres[i])
        y = _by_mode(self.inverse_roots, x - scale * self.centres[i], i)
        return _by_mode(self.roots, y, j) + scale * self.centres[j]

    def log_jacobian(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
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
    values, vectors = np.linalg.eigh(covariances)
    roots = (vectors * np.sqrt(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    inverse = (vectors / np.sqrt(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return JumpMaps(centres, roots, inverse, 0.5 * np.log(values).sum(axis=1), shift_only)


def _by_mode(matrices: np.ndarray, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """matrices[index[k]] @ x[:, k] for all k, one product a mode."""
    if x.shape[2] == 1:
        return x * matrices[index, :, 0]
    out = np.empty_like(x)
    for m in np.unique(index):
        rows = index == m
        out[:, rows] = x[:, rows] @ matrices[m]  # symmetric
    return out


def metropolis(log_ratio: np.ndarray) -> np.ndarray:
    """log of min(1, t) at log t."""
    return np.minimum(log_ratio, 0.0)


def barker(log_ratio: np.ndarray) -> np.ndarray:
    """log of t / (1 + t) at log t."""
    return -np.logaddexp(0.0, -log_ratio)


def transition(
    x: np.ndarray,
    log_p: np.ndarray,
    target: Target,
    maps: JumpMaps,
    theta: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
    log_uniform: np.ndarray,
    accept: Accept = metropolis,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step of the jump kernel for all samples of a stack.

    Parameters
    ----------
    x, log_p : arrays (J, n, d), (J, n)
        States and their log densities.
    theta : array (J,)
        Jump scales.
    pairs : arrays (n,), (n,)
        Modes i and j of each point's map, shared by all jump scales.
    log_uniform : array (J, n)
        Accepted where it is below the log acceptance probability.

    Returns
    -------
    states (J, n, d), their log densities (J, n), log acceptance probabilities (J, n)
    """
    i, j = pairs
    proposal = maps(x, theta, i, j)
    proposed = log_density_at(target, proposal.reshape(-1, x.shape[2]), proposal=True).reshape(log_p.shape)
    log_alpha = accept(proposed - log_p + maps.log_jacobian(i, j))
    take = log_uniform < log_alpha
    return np.where(take[:, :, None], proposal, x), np.where(take, proposed, log_p), log_alpha


def perturb(
    x: Any,
    target: Target,
    modes: Any,
    theta: Any,
    *,
    n_steps: int,
    accept: Accept = metropolis,
    rng: np.random.Generator | int | None = None,
) -> Perturbation:
    """Apply `n_steps` transitions of the jump kernel to every draw, for all jump scales at once.

    The kernel draws an ordered pair of modes (i, j) uniformly, proposes the map of `JumpMaps` with jump scale
    theta, and accepts by `accept` of p(x')/p(x) |A_j|^(1/2)/|A_i|^(1/2): it leaves the target invariant. One
    pair is drawn a point and step and shared by all theta; the uniforms of the acceptance are independent.
    With a single mode there is nowhere to go: the draws come back as they are, with a warning. Where the
    covariances differ the maps depend on the origin of x, unless theta is 1; a warning says if it is far.

    Parameters
    ----------
    x : array (n, d)
    target : Target
    modes : Modes, (locations, covariances) or locations
    theta : float or array (J,)
        Jump scales, positive.
    n_steps : int
        T, the number of transitions.
    accept : callable
        `metropolis` or `barker`: a function of the log ratio that returns the log acceptance probability.
    rng : Generator or int, optional

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> draws = target.sample(200, np.random.default_rng(0))
    >>> sc.perturb(draws, target, [[-3.0], [3.0]], 1.0, n_steps=10, rng=0).samples.shape
    (1, 200, 1)
    """
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")
    x = as_matrix(x, target.dim, minimum=1)
    theta = as_positive(theta, "theta")
    check_count(n_steps, "n_steps")
    if not callable(accept):
        raise TypeError(f"`accept` must be a function of the log ratio, got {accept!r}")
    modes = as_modes(modes, target)
    n_modes, n = len(modes.locations), len(x)
    pair_stream, uniform_stream = as_generator(rng).spawn(2)
    states = np.repeat(x[None], len(theta), axis=0)
    notes: list[str] = []
    if n_modes < 2:
        note(notes, "only one mode is known: the perturbation leaves every draw where it is")
        return Perturbation(states, theta, np.zeros(len(theta)), tuple(notes))
    maps = jump_maps(modes.locations, modes.covariances)
    middle = modes.locations.mean(axis=0)
    reach = np.linalg.norm(modes.locations - middle, axis=1).max()
    if not maps.shift_only and np.linalg.norm(middle) > FAR * reach and np.any(theta != 1):
        note(
            notes,
            "the modes have different covariances and lie far from the origin: jumps with theta other than 1 "
            "miss them; subtract a common centre from the draws, and add it to what the density is given",
        )
    log_p = np.repeat(log_density_at(target, x)[None], len(theta), axis=0)
    accepted = np.zeros(len(theta))
    for _ in range(n_steps):
        i = pair_stream.integers(n_modes, size=n)
        j = (i + pair_stream.integers(1, n_modes, size=n)) % n_modes
        log_uniform = -uniform_stream.standard_exponential((len(theta), n))
        states, log_p, log_alpha = transition(states, log_p, target, maps, theta, (i, j), log_uniform, accept)
        accepted += np.mean(log_uniform < log_alpha, axis=1)
    return Perturbation(states, theta, accepted / n_steps, tuple(notes))
