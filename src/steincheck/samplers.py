"""Samplers that the paper's experiments need: repelling-attracting Metropolis, and Gibbs for the RBM."""

from __future__ import annotations

import operator
import warnings
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

__all__ = ["Chains", "gibbs_rbm", "repelling_attracting_metropolis"]

MAX_TRIES = 100_000  # of one forced move; beyond it the update is rejected
MAX_INTEGER = 10**9  # iterations, draws, components: more would never end
DRAW_Z, DOWN, UP, DOWN_AGAIN = range(4)  # what a chain is doing


def __dir__() -> list[str]:
    return __all__


class Chains(NamedTuple):
    """Draws of several Markov chains.

    Attributes
    ----------
    draws : array (chains, kept, d)
    acceptance : array (chains, blocks)
        Share of updates accepted, burn-in included.
    given_up : array (chains,)
        Number of updates given up because a forced move took too many tries.
    """

    draws: np.ndarray
    acceptance: np.ndarray
    given_up: np.ndarray


class _State(NamedTuple):
    """One chain between two proposals. A place is a point with its log density appended, (d + 1,)."""

    x: Any
    phase: Any
    block: Any
    centre: Any  # the place from which steps are proposed
    top: Any  # the end of the uphill move: the proposal of the update
    log_z: Any
    tries: Any
    iterations: Any
    accepted: Any  # (blocks,) number of accepted updates
    given_up: Any
    bad: Any  # the last place where the log density was NaN


def repelling_attracting_metropolis(  # noqa: PLR0914 (a clean value of every argument)
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
        JAX function of one point, (d,) -> scalar: log p up to a constant.
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
        ``draws`` of shape (chains, (n_iterations - burn_in) // thin, d), ``acceptance`` (chains, blocks) and
        ``given_up`` (chains,).

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
    if not callable(log_density):
        raise TypeError(
            f"`log_density` must be a JAX function of one point, got {type(log_density).__name__}"
        )
    start = np.atleast_2d(as_numbers(x0, "x0"))
    start = as_matrix(start, start.shape[-1], minimum=1, name="x0")
    chains, d = start.shape
    steps = _as_steps(scale, blocks, d)
    _check_counts(n_iterations, burn_in, thin)
    kept = (n_iterations - burn_in) // thin
    streams = as_generator(rng).spawn(chains)  # a chain does not depend on how many others there are
    draws = np.empty((chains, kept, d))
    filled = np.zeros(chains, dtype=int)
    # bounds memory; a new n_iterations compiles nothing
    segment = min(4096, max(64, 2**19 // (chains * d)))  # proposals per call
    with jax.enable_x64(True):
        state = _start(log_density, jnp.asarray(start), len(steps))
        while filled.min() < kept:
            normals = np.stack([g.standard_normal((segment, steps.shape[1])) for g in streams], axis=1)
            log_uniforms = np.stack([-g.standard_exponential((segment, 2)) for g in streams], axis=1)
            state, (states, keep) = _run(
                log_density, state, steps, burn_in, thin, kept, normals, log_uniforms
            )
            states = np.asarray(states)
            keep = np.asarray(keep)
            for c in range(chains):
                new = states[keep[:, c], c]
                draws[c, filled[c] : filled[c] + len(new)] = new
                filled[c] += len(new)
            _check_numbers(state)
    iterations = burn_in + kept * thin
    given_up = np.asarray(state.given_up)
    if given_up.sum() > 1e-5 * chains * iterations * len(steps):
        warnings.warn(
            f"{given_up.sum()} updates were given up: a forced move found no step it could accept in "
            f"{MAX_TRIES} tries; `scale` is far from the width of the modes, got {scale!r}",
            stacklevel=2,
        )
    return Chains(draws, np.asarray(state.accepted) / iterations, given_up)


def _start(log_density: Any, x: Any, blocks: int) -> _State:
    try:
        log_x = jax.vmap(log_density)(x)
    except (TypeError, ValueError, IndexError) as error:
        reason = str(error).partition("\n")[0]
        raise TypeError(f"`log_density` must be a JAX function of one point: {reason}") from error
    scalar = getattr(log_x, "shape", None) == (len(x),) and jnp.issubdtype(log_x.dtype, jnp.floating)
    if not scalar or not np.isfinite(log_x).all():
        raise ValueError(
            "`log_density` must map one point of shape (d,) to a scalar that is finite at every row of `x0`, "
            f"it returns {shown(log_x)}"
        )
    place = jnp.column_stack([x, log_x])
    zero = jnp.zeros(len(x), dtype=jnp.int64)
    accepted = jnp.zeros((len(x), blocks), dtype=jnp.int64)
    return _State(place, zero, zero, place, place, place[:, -1], zero, zero, accepted, zero, place)


@partial(jax.jit, static_argnums=0)
def _run(
    log_density: Any,
    state: Any,
    steps: Any,
    burn_in: Any,
    thin: Any,
    kept: Any,
    normals: Any,
    log_uniforms: Any,
) -> tuple[Any, tuple[Any, Any]]:
    """As many proposals of every chain as there are random numbers: states, and which of them to keep."""

    def one(state: _State, normal: Any, log_uniform: Any) -> tuple[_State, tuple[Any, Any]]:
        new = _propose(log_density, steps, kept * thin + burn_in, state, normal, log_uniform)
        past = new.iterations - burn_in
        keep = (new.iterations > state.iterations) & (past > 0) & (past % thin == 0)
        return new, (new.x[:-1], keep)

    return lax.scan(lambda s, draw: jax.vmap(one)(s, *draw), state, (normals, log_uniforms))


def _propose(log_density: Any, steps: Any, last: Any, s: _State, normal: Any, log_uniform: Any) -> _State:
    """One proposal of one chain.

    The forced moves take a random number of proposals: chains that waited for each other at every move
    would all go at the pace of the slowest, so each keeps its own place in the update.
    """
    # a sum, not a product of matrices: XLA fuses it with what follows
    point = s.centre[:-1] + jnp.sum(normal[:, None] * steps[s.block], axis=0)
    log_new = log_density(point)
    new = jnp.append(point, log_new)
    rise = _log_ratio(log_new, s.centre[-1])
    forced = log_uniform[0] < jnp.where(s.phase == UP, rise, -rise)
    give_up = s.tries >= MAX_TRIES
    moved = ((s.phase == DRAW_Z) | forced) & ~give_up
    ended = moved & (s.phase == DOWN_AGAIN)
    log_accept = (
        s.top[-1]
        - s.x[-1]
        + jnp.minimum(0.0, _log_ratio(s.x[-1], s.log_z))
        - jnp.minimum(0.0, -rise)  # at the end `new` is z* and `centre` is x*
    )
    accept = ended & (log_uniform[1] < log_accept)
    x = jnp.where(accept, s.top, s.x)
    over = ended | give_up
    walks = moved & ((s.phase == DOWN) | (s.phase == UP))
    block = jnp.where(over, (s.block + 1) % len(steps), s.block)
    running = s.iterations < last
    return _State(
        x=x,
        phase=jnp.where(over, DRAW_Z, s.phase + moved),
        block=block,
        centre=jnp.where(over, x, jnp.where(walks, new, s.centre)),
        top=jnp.where(moved & (s.phase == UP), new, s.top),
        log_z=jnp.where(s.phase == DRAW_Z, log_new, s.log_z),
        tries=jnp.where(moved | over, 0, s.tries + 1),
        iterations=s.iterations + (running & over & (block == 0)),
        accepted=s.accepted + (accept & running & (jnp.arange(len(steps)) == s.block)),
        given_up=s.given_up + (give_up & running),
        bad=jnp.where(jnp.isnan(log_new), new, s.bad),
    )


def _log_ratio(a: Any, b: Any) -> Any:
    """log of the ratio of two densities given by their logs; two zero densities are equal."""
    return jnp.where(a == b, 0.0, a - b)


def _as_steps(scale: Any, blocks: Any, d: int) -> np.ndarray:
    """Array (blocks, width, d): the step that each of `width` standard normals makes in each block."""
    size = as_numbers(scale, "scale")
    if size.shape not in ((), (d,)) or not (np.isfinite(size).all() and (size > 0).all()):
        raise ValueError(f"`scale` must be positive and finite, one number or {d} of them, got {scale!r}")
    groups = [list(range(d))] if blocks is None else _as_groups(blocks, d)
    steps = np.zeros((len(groups), max(map(len, groups)), d))
    for k, block in enumerate(groups):
        steps[k, range(len(block)), block] = np.broadcast_to(size, d)[block]
    return steps


def _as_groups(blocks: Any, d: int) -> list[list[int]]:
    """Lists of coordinates that hold each of 0..d - 1 once."""
    try:
        groups = [[operator.index(i) for i in block if not isinstance(i, bool)] for block in blocks]
    except TypeError:
        groups = []
    if sorted(i for block in groups for i in block) != list(range(d)) or not all(groups):
        raise ValueError(
            f"`blocks` must hold every coordinate 0..{d - 1} once and none empty, got {shown(blocks)}"
        )
    return groups


def _check_counts(n_iterations: Any, burn_in: Any, thin: Any) -> None:
    for name, value, least in (("n_iterations", n_iterations, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
        as_count(value, name, minimum=least, maximum=MAX_INTEGER)
    if n_iterations - burn_in < thin:
        raise ValueError(
            "`n_iterations` must exceed `burn_in` by at least `thin` for one draw to be kept, "
            f"got {n_iterations}, {burn_in} and {thin}"
        )


def _check_numbers(state: _State) -> None:
    bad = np.asarray(state.bad)
    chains = np.flatnonzero(np.isnan(bad[:, -1]))
    if len(chains):
        point = np.array2string(bad[chains[0], :-1], threshold=8)
        raise ValueError(
            f"`log_density` must not be NaN: in chain {chains[0]} it is, at the proposal {point}"
        )


def gibbs_rbm(
    B: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    n: int,
    *,
    burn_in: int = 2000,
    rng: RandomSource = None,
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
    B, b, c = as_rbm(B, b, c)
    as_count(n, "n", maximum=MAX_INTEGER)
    if not has_exact_draws(B):
        raise ValueError(f"`B` must have orthogonal columns, or at most 16, for exact draws, got {len(c)}")
    rng = as_generator(rng)
    gram = B.T @ B
    field = c + 0.5 * (b @ B)
    if _has_orthogonal_columns(B):
        h = _signs(np.broadcast_to(2 * field, (n, len(c))), rng)
    else:
        states = 1 - 2 * ((np.arange(2 ** len(c))[:, None] >> np.arange(len(c))) & 1)
        logs = 0.125 * np.sum((states @ gram) * states, axis=1) + states @ field
        weights = np.exp(logs - logs.max())
        h = states[rng.choice(len(states), size=n, p=weights / weights.sum())]
    return 0.5 * (h @ B.T) + b + rng.standard_normal((n, len(b))), h.astype(np.int8)


def has_exact_draws(B: np.ndarray) -> bool:
    """Whether `exact_rbm` has a way for this matrix (d, d_h)."""
    return _has_orthogonal_columns(B) or B.shape[1] <= 16  # 2^16 states can be enumerated


def _has_orthogonal_columns(B: np.ndarray) -> bool:
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
