"""The jump kernel (paper, Sec. 5): maps between modes, rules of acceptance, and three ways to run it.

Step by step for any target; with rejections skipped where steps outnumber pairs of modes; in one compiled
program for JAX targets, 3 to 5 times faster in 50 dimensions. The distribution is the same for every jump
scale. Each way takes the draws x (n, d) and their log density, and returns the states after all steps,
(J, n, d), and the share of accepted proposals, (J,).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
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
    return JumpMaps(centres, *symmetric_roots(covariances), shift_only)


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


def run(
    kernel: JumpKernel, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The fastest way that the target and the acceptance rule permit."""
    n_modes = len(kernel.maps.centres)
    if kernel.n_steps > 10 * n_modes * (n_modes - 1):  # with fewer steps per pair, skipping takes longer
        return skip_rejections(kernel, x, log_p, rng)
    if kernel.target.jax_log_density is not None and kernel.accept in (metropolis, barker):
        return run_compiled(kernel, x, log_p, rng)
    return run_steps(kernel, x, log_p, rng)


def run_steps(
    kernel: JumpKernel, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Step by step: the target is called once per step."""
    pair_stream, uniform_stream = rng.spawn(2)
    n_modes = len(kernel.maps.centres)
    shape = (len(kernel.theta), len(x))
    states = States(np.broadcast_to(x, (*shape, x.shape[1])), np.broadcast_to(log_p, shape))
    accepted = np.zeros(len(kernel.theta))
    for _ in range(kernel.n_steps):
        i = pair_stream.integers(n_modes, size=len(x))
        j = (i + pair_stream.integers(1, n_modes, size=len(x))) % n_modes
        log_uniform = -uniform_stream.standard_exponential(shape)
        states = transition(kernel, states, (i, j), log_uniform)
        accepted += np.mean(log_uniform < states.log_alpha, axis=1)
    return states.x, accepted / kernel.n_steps


def skip_rejections(
    kernel: JumpKernel, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The same chain, rejected jumps skipped.

    At a state with acceptance probabilities alpha of its pairs, the next accepted jump comes after a
    geometric number of steps with the mean of alpha, and is pair k with probability proportional to alpha_k.
    """
    samples = np.repeat(x[None], len(kernel.theta), axis=0)
    moves = np.zeros(len(kernel.theta))
    for k, scale in enumerate(kernel.theta):
        states = samples[k]
        densities = log_p.copy()
        left = np.full(len(x), kernel.n_steps)
        alive = np.arange(len(x))
        while len(alive):
            points, image_log_p, alpha = _all_jumps(kernel, states[alive], densities[alive], scale)
            mean = alpha.mean(axis=1)
            wait = np.full(len(alpha), np.inf)  # steps until the next accepted jump
            wait[mean > 0] = rng.geometric(np.minimum(mean[mean > 0], 1.0))
            rows = np.flatnonzero(wait <= left[alive])
            total = np.cumsum(alpha[rows], axis=1)
            pair = np.sum(total < total[:, -1:] * rng.random((len(rows), 1)), axis=1)
            who = alive[rows]
            states[who], densities[who] = points[rows, pair], image_log_p[rows, pair]
            left[who] -= wait[rows].astype(int)
            moves[k] += len(who)
            alive = who[left[who] > 0]
    return samples, moves / (len(x) * kernel.n_steps)


def _all_jumps(
    kernel: JumpKernel, x: np.ndarray, log_p: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, pairs, d) of x (n, d) under every map, their log densities and acceptance probabilities."""
    maps = kernel.maps
    i, j = np.nonzero(1 - np.eye(len(maps.centres)))
    shape = (len(x), len(i))
    repeated = np.repeat(x, len(i), axis=0)[None]
    points = maps(repeated, np.array([scale]), np.tile(i, len(x)), np.tile(j, len(x)))[0]
    parts = np.array_split(points, -(-len(points) // 400_000))  # evaluated at once
    values = [log_density_at(kernel.target, part, proposal=True) for part in parts]
    image_log_p = np.concatenate(values).reshape(shape)
    alpha = np.exp(kernel.accept(image_log_p - log_p[:, None] + maps.log_jacobian(i, j)))
    return points.reshape(*shape, -1), image_log_p, alpha


def run_compiled(
    kernel: JumpKernel, x: np.ndarray, log_p: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The same chain, all steps of some points in one compiled call."""
    n, d = x.shape
    size = int(np.clip(1250 // d, 25, 250))  # few enough that the states at all theta stay in the cache
    samples = np.empty((len(kernel.theta), n, d))
    accepted = np.zeros(len(kernel.theta))
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(int(rng.integers(2**63))), n)
        traced = (kernel.target.jax_log_density, kernel.maps, kernel.theta, kernel.n_steps)
        steps = partial(_chains, traced, by_barker=kernel.accept is barker, shift=kernel.maps.shift_only)
        for start in range(0, n, size):
            rows = np.minimum(np.arange(start, start + size), n - 1)  # the last call repeats its last point
            states, moves, invalid = map(np.asarray, steps(x[rows], keys[rows]))
            bad = ~np.isnan(invalid).any(axis=1)
            if bad.any():  # log density NaN or +inf, which is an error
                log_density_at(kernel.target, invalid[bad], proposal=True)
            keep = min(size, n - start)
            samples[:, start : start + keep] = states[:keep].transpose(1, 0, 2)
            accepted += moves[:keep].sum(axis=0)
    return samples, accepted / (n * kernel.n_steps)


@partial(jax.jit, static_argnames=("by_barker", "shift"))
def _chains(kernel: Any, x: Any, keys: Any, *, by_barker: bool, shift: bool) -> tuple[Any, Any, Any]:
    """States (points, theta, d), numbers of accepted proposals, and one impossible proposal per point."""
    log_density, maps, theta, n_steps = kernel
    n_modes = len(maps.centres)
    scale = theta[:, None]

    def proposal(y: Any, key: Any) -> tuple[Any, Any]:
        number = jax.random.randint(key, (), 0, n_modes * (n_modes - 1))
        i = number // (n_modes - 1)
        j = (i + 1 + number % (n_modes - 1)) % n_modes
        if shift:
            return y + scale * (maps.centres[j] - maps.centres[i]), 0.0
        standard = (y - scale * maps.centres[i]) @ maps.inverse_roots[i]
        return standard @ maps.roots[j] + scale * maps.centres[j], maps.log_jacobian(i, j)

    def step(_: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        y, log_p, moves, invalid, key = carry
        key, pair, acceptance = jax.random.split(key, 3)
        there, log_jacobian = proposal(y, pair)
        proposed = jax.vmap(log_density)(there)
        log_ratio = proposed - log_p + log_jacobian
        if by_barker:
            log_ratio = -jnp.logaddexp(0.0, -log_ratio)
        take = jnp.log(jax.random.uniform(acceptance, theta.shape)) < log_ratio
        bad = jnp.isnan(proposed) | (proposed == jnp.inf)
        invalid = jnp.where(bad.any(), there[jnp.argmax(bad)], invalid)
        states = jnp.where(take[:, None], there, y)
        return states, jnp.where(take, proposed, log_p), moves + take, invalid, key

    def chain(x: Any, key: Any) -> tuple[Any, Any, Any]:
        start = jnp.repeat(x[None], len(theta), axis=0)
        log_p = jnp.repeat(log_density(x), len(theta))
        carry = (start, log_p, jnp.zeros(len(theta), int), jnp.full(x.shape, jnp.nan), key)
        states, _, moves, invalid, _ = jax.lax.fori_loop(0, n_steps, step, carry)
        return states, moves, invalid

    return jax.vmap(chain)(x, keys)
