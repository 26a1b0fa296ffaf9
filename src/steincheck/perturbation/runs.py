"""Three ways to run the jump kernel, with the same distribution for every jump scale.

Step by step for any target; with rejections skipped where steps outnumber pairs of modes; in one compiled
program for JAX targets, 3 to 5 times faster in 50 dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..target import Target, log_density_at
from .maps import Accept, JumpMaps, barker, transition

PROPOSALS_PER_CALL = 400_000  # evaluated at once where rejections are skipped


def run_steps(
    x: np.ndarray,
    log_p: np.ndarray,
    target: Target,
    maps: JumpMaps,
    theta: np.ndarray,
    n_steps: int,
    accept: Accept,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """States after all steps and shares of accepted proposals: the target is called once per step."""
    pair_stream, uniform_stream = rng.spawn(2)
    n_modes = len(maps.centres)
    shape = (len(theta), len(x))
    states = np.repeat(x[None], len(theta), axis=0)
    log_p = np.repeat(log_p[None], len(theta), axis=0)
    accepted = np.zeros(len(theta))
    for _ in range(n_steps):
        i = pair_stream.integers(n_modes, size=len(x))
        j = (i + pair_stream.integers(1, n_modes, size=len(x))) % n_modes
        log_uniform = -uniform_stream.standard_exponential(shape)
        states, log_p, log_alpha = transition(states, log_p, target, maps, theta, (i, j), log_uniform, accept)
        accepted += np.mean(log_uniform < log_alpha, axis=1)
    return states, accepted / n_steps


def skip_rejections(
    x: np.ndarray,
    log_p: np.ndarray,
    target: Target,
    maps: JumpMaps,
    theta: np.ndarray,
    n_steps: int,
    accept: Accept,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The same chain, rejected jumps skipped.

    At a state with acceptance probabilities alpha of its pairs, the next accepted jump comes after a
    geometric number of steps with the mean of alpha, and is pair k with probability proportional to alpha_k.
    """
    samples = np.repeat(x[None], len(theta), axis=0)
    moves = np.zeros(len(theta))
    for k, scale in enumerate(theta):
        states = samples[k]
        densities = log_p.copy()
        left = np.full(len(x), n_steps)
        alive = np.arange(len(x))
        while len(alive):
            images = _all_jumps(states[alive], densities[alive], target, maps, scale, accept)
            jumps, pick, wait = _next_jumps(images.alpha, left[alive], rng)
            who = alive[jumps]
            states[who] = images.points[jumps, pick]
            densities[who] = images.log_p[jumps, pick]
            left[who] -= wait
            moves[k] += len(jumps)
            alive = who[left[who] > 0]
    return samples, moves / (len(x) * n_steps)


def _next_jumps(
    alpha: np.ndarray, left: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that jump within the steps `left`, the pair each takes, and after how many steps."""
    mean = alpha.mean(axis=1)
    wait = np.full(len(alpha), np.inf)
    wait[mean > 0] = rng.geometric(np.minimum(mean[mean > 0], 1.0))
    jumps = np.flatnonzero(wait <= left)
    total = np.cumsum(alpha[jumps], axis=1)
    pick = np.sum(total < total[:, -1:] * rng.random((len(jumps), 1)), axis=1)
    return jumps, pick, wait[jumps].astype(int)


class _Images(NamedTuple):
    """Every point under every map."""

    points: np.ndarray  # (n, pairs, d)
    log_p: np.ndarray  # (n, pairs)
    alpha: np.ndarray  # (n, pairs) acceptance probabilities


def _all_jumps(
    x: np.ndarray, log_p: np.ndarray, target: Target, maps: JumpMaps, scale: float, accept: Accept
) -> _Images:
    m, d = maps.centres.shape
    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    points = np.empty((len(x), len(pairs), d))
    for k, (i, j) in enumerate(pairs):
        turn = maps.inverse_roots[i] @ maps.roots[j]
        points[:, k] = (x - scale * maps.centres[i]) @ turn + scale * maps.centres[j]
    flat = points.reshape(-1, d)
    parts = [
        log_density_at(target, flat[start : start + PROPOSALS_PER_CALL], proposal=True)
        for start in range(0, len(flat), PROPOSALS_PER_CALL)
    ]
    image_log_p = np.concatenate(parts).reshape(len(x), len(pairs))
    jacobian = np.array([maps.log_jacobian(i, j) for i, j in pairs])
    alpha = np.exp(accept(image_log_p - log_p[:, None] + jacobian))
    return _Images(points, image_log_p, alpha)


class _CompiledMaps(NamedTuple):
    """The maps between modes for the compiled chain: a full product only for the coupled coordinates."""

    centres: np.ndarray  # (M, d)
    diagonal: np.ndarray  # (M, d) of A^(1/2)
    inverse_diagonal: np.ndarray  # (M, d) of A^(-1/2)
    corners: np.ndarray  # (M, M, c, c) A_i^(-1/2) A_j^(1/2) of the leading coordinates
    half_log_det: np.ndarray  # (M,)


def _compiled_maps(maps: JumpMaps) -> _CompiledMaps:
    full = _n_coupled(maps.roots)
    corners = np.einsum("iab,jbc->ijac", maps.inverse_roots[:, :full, :full], maps.roots[:, :full, :full])
    diagonal, inverse = (np.einsum("mdd->md", a) for a in (maps.roots, maps.inverse_roots))
    return _CompiledMaps(maps.centres, diagonal, inverse, corners, maps.half_log_det)


def _n_coupled(matrices: np.ndarray) -> int:
    """How many leading coordinates are coupled; the matrices are diagonal in all others (to rounding)."""
    d = matrices.shape[1]
    off = np.abs(matrices * (1 - np.eye(d))).max(axis=0) > 1e-12 * np.abs(matrices).max()
    coupled = np.flatnonzero(off.any(axis=0))
    return int(coupled[-1]) + 1 if len(coupled) else 0


def run_compiled(
    x: np.ndarray,
    target: Target,
    maps: JumpMaps,
    theta: np.ndarray,
    n_steps: int,
    accept: Accept,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The same chain, all steps of some points in one compiled call."""
    n, d = x.shape
    size = int(np.clip(1250 // d, 25, 250))  # few enough that the states at all theta stay in the cache
    samples = np.empty((len(theta), n, d))
    accepted = np.zeros(len(theta))
    seed = int(rng.integers(2**63))
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), n)
        run = partial(_chains, target.jax_log_density, _compiled_maps(maps), theta, n_steps, accept)
        for start in range(0, n, size):
            rows = np.minimum(np.arange(start, start + size), n - 1)  # the last call repeats its last point
            states, moves, invalid = run(x[rows], keys[rows])
            _check_proposals(target, np.asarray(invalid))
            keep = min(size, n - start)
            samples[:, start : start + keep] = np.asarray(states)[:keep].transpose(1, 0, 2)
            accepted += np.asarray(moves)[:keep].sum(axis=0)
    return samples, accepted / (n * n_steps)


def _check_proposals(target: Target, invalid: np.ndarray) -> None:
    """Raise for proposals with log density NaN or +inf, kept by the chains in the rows of `invalid`."""
    bad = ~np.isnan(invalid).any(axis=1)
    if bad.any():
        log_density_at(target, invalid[bad], proposal=True)


@partial(jax.jit, static_argnums=4)
def _chains(
    log_density: Any, maps: _CompiledMaps, theta: Any, n_steps: Any, accept: Accept, x: Any, keys: Any
) -> tuple[Any, Any, Any]:
    """States (points, theta, d), numbers of accepted proposals, and one impossible proposal per point."""
    n_modes = len(maps.centres)
    full = maps.corners.shape[2]
    scale = theta[:, None]

    def step(_: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: PLR0914 (one transition)
        y, log_p, moves, invalid, key = carry
        key, pair, acceptance = jax.random.split(key, 3)
        number = jax.random.randint(pair, (), 0, n_modes * (n_modes - 1))
        i = number // (n_modes - 1)
        j = (i + 1 + number % (n_modes - 1)) % n_modes
        centred = y - scale * maps.centres[i]
        moved = centred * (maps.inverse_diagonal[i] * maps.diagonal[j])
        if full:
            moved = moved.at[:, :full].set(centred[:, :full] @ maps.corners[i, j])
        proposal = moved + scale * maps.centres[j]
        proposed = jax.vmap(log_density)(proposal)
        log_ratio = proposed - log_p + maps.half_log_det[j] - maps.half_log_det[i]
        if accept is barker:
            log_ratio = -jnp.logaddexp(0.0, -log_ratio)
        take = jnp.log(jax.random.uniform(acceptance, theta.shape)) < log_ratio
        bad = jnp.isnan(proposed) | (proposed == jnp.inf)
        invalid = jnp.where(bad.any(), proposal[jnp.argmax(bad)], invalid)
        states = jnp.where(take[:, None], proposal, y)
        return states, jnp.where(take, proposed, log_p), moves + take, invalid, key

    def chain(x: Any, key: Any) -> tuple[Any, Any, Any]:
        start = jnp.repeat(x[None], len(theta), axis=0)
        log_p = jnp.repeat(log_density(x), len(theta))
        carry = (start, log_p, jnp.zeros(len(theta), int), jnp.full(x.shape, jnp.nan), key)
        states, _, moves, invalid, _ = jax.lax.fori_loop(0, n_steps, step, carry)
        return states, moves, invalid

    return jax.vmap(chain)(x, keys)
