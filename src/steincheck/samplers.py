"""Samplers that the paper's experiments need: repelling-attracting Metropolis, and Gibbs for the RBM."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from ._validation import RandomSource, as_count, as_generator, as_numbers, shown
from .draws import as_matrix
from .target import from_jax, log_density_at

__all__ = ["Chains", "gibbs_rbm", "repelling_attracting_metropolis"]

MAX_TRIES = 100_000  # of one forced move; beyond it the update is rejected
MAX_INTEGER = 10**9  # iterations, draws, components: more would never end


def __dir__() -> list[str]:
    return __all__


class Chains(NamedTuple):
    """Draws of several Markov chains.

    Attributes
    ----------
    draws : array (chains, kept, d)
    acceptance : array (chains, blocks)
        Share of updates accepted, burn-in included.
    """

    draws: np.ndarray
    acceptance: np.ndarray


def repelling_attracting_metropolis(
    log_density: Callable[[Any], Any],
    x0: ArrayLike,
    scale: ArrayLike,
    n_iterations: int,
    *,
    blocks: Sequence[Sequence[int]] | None = None,
    burn_in: int = 0,
    thin: int = 1,
    rng: RandomSource = None,
) -> Chains:
    """Repelling-attracting Metropolis (RAM): random walks that go down a mode before they go up the next.

    One update of a block of coordinates: from x a forced downhill move to x', from x' a forced uphill move
    to the proposal x*, from x* a forced downhill move to z*, where "forced" means that Gaussian steps are
    proposed until one is accepted (down: with probability min(1, p(x)/p(x')), up: min(1, p(x*)/p(x'))).
    With z a plain Gaussian step from x, the update is accepted with probability::

        min(1, p(x*) min(1, p(x)/p(z)) / (p(x) min(1, p(x*)/p(z*))))

    which leaves p(x) N(z; x, scale^2) and hence p invariant. z is drawn anew before every update: carried
    over from another block, as in the authors' script, it does not have this distribution, and p is not
    invariant.

    Parameters
    ----------
    log_density : callable
        JAX function of one point, (d,) -> scalar: log p up to a constant. No step to a point where it is NaN
        is accepted.
    x0 : array (d,) or (chains, d)
        Where the chains start; they run side by side.
    scale : float or array (d,)
        Standard deviation of the Gaussian steps.
    n_iterations : int
        Iterations of every chain, burn-in included; one iteration updates every block once.
    blocks : sequence of index sequences, optional
        Coordinates updated together, by default all; for the sensors ``[[0, 1], [2, 3], [4, 5], [6, 7]]``.
    burn_in : int
        Iterations dropped at the start.
    thin : int
        Keep one state every `thin` iterations.
    rng : int, Generator or SeedSequence, optional
        Source of randomness.

    Returns
    -------
    Chains
        ``draws`` of shape (chains, (n_iterations - burn_in) // thin, d) and ``acceptance`` (chains, blocks).
        An update is rejected if one of its forced moves takes 100,000 tries.

    References
    ----------
    Tak, Meng and van Dyk (2018). A repelling-attracting Metropolis algorithm for multimodality. J. Comput.
    Graph. Statist. 27, 479-490.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from steincheck.samplers import repelling_attracting_metropolis
    >>> two_modes = lambda x: jnp.logaddexp(-jnp.sum((x - 5) ** 2), -jnp.sum((x + 5) ** 2))
    >>> chains = repelling_attracting_metropolis(two_modes, [[5.0], [-5.0]], 4.0, 2000, thin=10, rng=0)
    >>> chains.draws.shape
    (2, 200, 1)
    """
    start = np.atleast_2d(as_numbers(x0, "x0"))
    start = as_matrix(start, start.shape[-1], minimum=1, name="x0")
    log_density_at(from_jax(log_density, start.shape[1]), start, where="every row of `x0`")
    steps = _as_steps(scale, blocks, start.shape[1])
    for name, value, least in (("n_iterations", n_iterations, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
        as_count(value, name, minimum=least, maximum=MAX_INTEGER)
    if n_iterations - burn_in < thin:
        raise ValueError(
            "`n_iterations` must exceed `burn_in` by at least `thin` for one draw to be kept, "
            f"got {n_iterations}, {burn_in} and {thin}"
        )
    kept = (n_iterations - burn_in) // thin
    # a chain does not depend on how many others there are
    seeds = [stream.integers(2**63) for stream in as_generator(rng).spawn(len(start))]
    with jax.enable_x64(True):
        chains = jax.vmap(partial(_chain, log_density, steps, burn_in, thin), in_axes=(0, 0, None))
        end, draws = jax.jit(chains, static_argnums=2)(jnp.asarray(seeds), jnp.asarray(start), kept)
    return Chains(np.asarray(draws), np.asarray(end.accepted) / (burn_in + kept * thin))


class _State(NamedTuple):
    """One chain between two iterations."""

    x: Any
    log_p: Any
    iteration: Any
    accepted: Any  # (blocks,) number of accepted updates


def _chain(
    log_density: Any, steps: Any, burn_in: int, thin: int, seed: Any, x: Any, kept: int
) -> tuple[_State, Any]:
    """One chain: its last state, and the states that are kept."""
    key = jax.random.key(seed)
    update = partial(_update, log_density)

    def iterate(_: Any, state: _State) -> _State:
        x, log_p, iteration, accepted = state
        keys = jax.random.split(jax.random.fold_in(key, iteration), len(steps))
        (x, log_p), accepts = lax.scan(update, (x, log_p), (steps, keys))  # every block once
        return _State(x, log_p, iteration + 1, accepted + accepts)

    def advance(state: _State, count: int) -> _State:
        return lax.fori_loop(0, count, iterate, state)

    def next_kept(state: _State, _: None) -> tuple[_State, Any]:
        state = advance(state, thin)
        return state, state.x

    start = _State(x, log_density(x), 0, jnp.zeros(len(steps), int))
    return lax.scan(next_kept, advance(start, burn_in), length=kept)


def _update(log_density: Any, place: tuple[Any, Any], block: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
    """Update one block: the place after it, and whether it was accepted."""
    (x, log_x), (step, key) = place, block
    keys = jax.random.split(key, 5)
    log_z = log_density(x + jax.random.normal(keys[0], step.shape[:1]) @ step)
    low = _forced_move(log_density, step, keys[1], x, log_x, -1)
    top = _forced_move(log_density, step, keys[2], low.x, low.log_p, 1)
    end = _forced_move(log_density, step, keys[3], top.x, top.log_p, -1)
    log_ratio = top.log_p - log_x + jnp.minimum(0.0, _log_ratio(log_x, log_z))
    log_ratio -= jnp.minimum(0.0, _log_ratio(top.log_p, end.log_p))
    accepted = low.made & top.made & end.made & (-jax.random.exponential(keys[4]) < log_ratio)
    after = (jnp.where(accepted, top.x, x), jnp.where(accepted, top.log_p, log_x))
    return after, accepted


class _Move(NamedTuple):
    """A forced move while it goes on."""

    x: Any
    log_p: Any
    made: Any
    tries: Any


def _forced_move(log_density: Any, step: Any, key: Any, x: Any, log_x: Any, sign: int) -> _Move:
    """Propose steps from x until one is accepted, uphill with `sign` 1 and downhill with -1."""

    def propose(move: _Move) -> _Move:
        to_point, accept = jax.random.split(jax.random.fold_in(key, move.tries))
        point = x + jax.random.normal(to_point, step.shape[:1]) @ step
        log_p = log_density(point)
        made = -jax.random.exponential(accept) < sign * _log_ratio(log_p, log_x)
        return _Move(point, log_p, made, move.tries + 1)

    start = _Move(x, log_x, jnp.asarray(False), 0)
    return lax.while_loop(lambda move: ~move.made & (move.tries < MAX_TRIES), propose, start)


def _log_ratio(a: Any, b: Any) -> Any:
    """log of the ratio of two densities given by their logs; two zero densities are equal."""
    return jnp.where(a == b, 0.0, a - b)


def _as_steps(scale: Any, blocks: Any, d: int) -> np.ndarray:
    """Array (blocks, width, d): the step that each of `width` standard normals makes in each block."""
    size = as_numbers(scale, "scale")
    if size.shape not in ((), (d,)) or not (np.isfinite(size).all() and (size > 0).all()):
        raise ValueError(f"`scale` must be positive and finite, one number or {d} of them, got {scale!r}")
    given = [range(d)] if blocks is None else blocks
    try:
        groups = [[operator.index(i) for i in block if not isinstance(i, bool)] for block in given]
    except TypeError:
        groups = []
    if sorted(i for block in groups for i in block) != list(range(d)) or not all(groups):
        raise ValueError(
            f"`blocks` must hold every coordinate 0..{d - 1} once and none empty, got {shown(blocks)}"
        )
    steps = np.zeros((len(groups), max(map(len, groups)), d))
    for k, block in enumerate(groups):
        steps[k, range(len(block)), block] = np.broadcast_to(size, d)[block]
    return steps


def gibbs_rbm(
    B: ArrayLike, b: ArrayLike, c: ArrayLike, n: int, *, burn_in: int = 2000, rng: RandomSource = None
) -> tuple[np.ndarray, np.ndarray]:
    """Gibbs sampler of the Gaussian-Bernoulli RBM, one chain per draw.

    The joint density is p(x, h) ~ exp(x'Bh/2 + b'x + c'h - |x|^2/2), h in {-1, 1}^d_h. Both conditionals
    are independent over coordinates::

        P(h_j = 1 | x) = 1 / (1 + exp(-(B'x)_j - 2 c_j)),      x | h ~ N(Bh/2 + b, I).

    The n chains start from independent random signs and run side by side for `burn_in` sweeps; only their
    last states are returned, so the draws are independent, and from the model as far as `burn_in` sweeps
    suffice. With modes far apart (columns of B much longer than 4) they never do: the weights of the
    modes stay those of the start. Where B'B is diagonal, run the sampler on ``0 * B`` with c + B'b/2 and
    add Bh/2 to x (the paper's lambda' = 0 trick, there with b = 0); it then is exact after one sweep, as are
    the draws of `steincheck.models.gb_rbm`.

    Parameters
    ----------
    B : array (d, d_h)
    b : array (d,)
    c : array (d_h,)
    n : int
        Number of draws.
    burn_in : int
        Sweeps of every chain.
    rng : int, Generator or SeedSequence, optional
        Source of randomness.

    Returns
    -------
    x : array (n, d)
    h : array (n, d_h) of int8, entries -1 and 1

    Examples
    --------
    >>> import numpy as np
    >>> from steincheck.samplers import gibbs_rbm
    >>> x, h = gibbs_rbm(np.eye(3, 2), np.zeros(3), np.zeros(2), n=5, burn_in=10, rng=0)
    >>> x.shape, h.shape
    ((5, 3), (5, 2))
    """
    B, b, c = as_rbm(B, b, c)
    as_count(n, "n", maximum=MAX_INTEGER)
    as_count(burn_in, "burn_in", maximum=MAX_INTEGER)
    rng = as_generator(rng)
    h = 2.0 * rng.integers(2, size=(n, len(c))) - 1
    for _ in range(burn_in):
        x = rng.standard_normal((n, len(b)))
        x += 0.5 * (h @ B.T) + b
        h = _signs(x @ B + 2 * c, rng)
    return x, h.astype(np.int8)


def exact_rbm(B: Any, b: Any, c: Any, n: int, rng: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Exact independent draws of the Gaussian-Bernoulli RBM, as `gibbs_rbm` returns them.

    h has weights exp(|Bh/2 + b|^2/2 + c'h). Where the columns of B are orthogonal, |Bh| is the same for all h
    and the signs are independent, for any d_h; otherwise the 2^d_h weights are enumerated, for d_h <= 16.
    """
    as_count(n, "n", maximum=MAX_INTEGER)
    rng = as_generator(rng)
    field = c + 0.5 * (b @ B)
    if has_orthogonal_columns(B):
        h = _signs(np.broadcast_to(2 * field, (n, len(c))), rng)
    else:
        states = 1 - 2 * ((np.arange(2 ** len(c))[:, None] >> np.arange(len(c))) & 1)
        logs = 0.125 * np.sum((states @ (B.T @ B)) * states, axis=1) + states @ field
        weights = np.exp(logs - logs.max())
        h = states[rng.choice(len(states), size=n, p=weights / weights.sum())]
    return 0.5 * (h @ B.T) + b + rng.standard_normal((n, len(b))), h.astype(np.int8)


def has_orthogonal_columns(B: np.ndarray) -> bool:
    """Whether B'B is diagonal up to rounding."""
    gram = B.T @ B
    return bool(np.abs(gram - np.diag(np.diag(gram))).max() <= 1e-12 * np.abs(gram).max())


def _signs(log_odds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """1 with the given log odds, -1 otherwise: a logistic variable is below a with odds exp(a)."""
    return np.where(rng.logistic(size=log_odds.shape) < log_odds, 1.0, -1.0)


def as_rbm(B: Any, b: Any = None, c: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Validate the parameters of an RBM; `b` and `c` are zero by default."""
    B = as_numbers(B, "B", "a finite matrix (d, d_h)")
    if B.ndim != 2 or 0 in B.shape or not np.isfinite(B).all():
        raise ValueError(f"`B` must be a finite matrix (d, d_h), got shape {B.shape}")
    vectors = []
    for name, value, size in (("b", b, B.shape[0]), ("c", c, B.shape[1])):
        vector = np.zeros(size) if value is None else as_numbers(value, name)
        if vector.shape != (size,) or not np.isfinite(vector).all():
            raise ValueError(
                f"`{name}` must be finite with shape {(size,)} to go with `B`, got {shown(value)}"
            )
        vectors.append(vector)
    return B, vectors[0], vectors[1]
