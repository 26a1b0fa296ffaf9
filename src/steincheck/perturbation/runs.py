"""Three ways to run the jump kernel, with the same distribution for every jump scale.

Step by step for any target; with rejections skipped where steps outnumber pairs of modes; in one compiled
program for JAX targets, 3 to 5 times faster in 50 dimensions. Each takes the draws x (n, d) and their log
density, and returns the states after all steps, (J, n, d), and the share of accepted proposals, (J,).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..target import log_density_at
from .maps import JumpKernel, States, barker, metropolis, transition


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
            images = _all_jumps(kernel, states[alive], densities[alive], scale)
            jumps = _next_jumps(images.alpha, left[alive], rng)
            who = alive[jumps.rows]
            states[who] = images.points[jumps.rows, jumps.pair]
            densities[who] = images.log_p[jumps.rows, jumps.pair]
            left[who] -= jumps.wait
            moves[k] += len(who)
            alive = who[left[who] > 0]
    return samples, moves / (len(x) * kernel.n_steps)


class _Jumps(NamedTuple):
    """The next accepted jumps."""

    rows: np.ndarray  # of the points that jump within the steps that are left
    pair: np.ndarray  # of modes that each takes
    wait: np.ndarray  # number of steps until then


def _next_jumps(alpha: np.ndarray, left: np.ndarray, rng: np.random.Generator) -> _Jumps:
    mean = alpha.mean(axis=1)
    wait = np.full(len(alpha), np.inf)
    wait[mean > 0] = rng.geometric(np.minimum(mean[mean > 0], 1.0))
    rows = np.flatnonzero(wait <= left)
    total = np.cumsum(alpha[rows], axis=1)
    pair = np.sum(total < total[:, -1:] * rng.random((len(rows), 1)), axis=1)
    return _Jumps(rows, pair, wait[rows].astype(int))


class _Images(NamedTuple):
    """Every point under every map."""

    points: np.ndarray  # (n, pairs, d)
    log_p: np.ndarray  # (n, pairs)
    alpha: np.ndarray  # (n, pairs) acceptance probabilities


def _all_jumps(kernel: JumpKernel, x: np.ndarray, log_p: np.ndarray, scale: float) -> _Images:
    maps = kernel.maps
    m, d = maps.centres.shape
    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    points = np.empty((len(x), len(pairs), d))
    for k, (i, j) in enumerate(pairs):
        points[:, k] = maps(x[None], np.array([scale]), np.full(len(x), i), np.full(len(x), j))[0]
    flat = points.reshape(-1, d)
    parts = np.array_split(flat, -(-len(flat) // 400_000))  # evaluated at once
    values = [log_density_at(kernel.target, part, proposal=True) for part in parts]
    image_log_p = np.concatenate(values).reshape(len(x), len(pairs))
    jacobian = np.array([maps.log_jacobian(i, j) for i, j in pairs])
    alpha = np.exp(kernel.accept(image_log_p - log_p[:, None] + jacobian))
    return _Images(points, image_log_p, alpha)


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
            found = steps(x[rows], keys[rows])
            states, moves, invalid = map(np.asarray, found)
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
