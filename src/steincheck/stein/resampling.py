"""The null distribution of a quadratic test: weights of the draws, or signs of blocks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from .._validation import recorded, shown
from ..chains.blocks import Blocks, autocorrelation_time, block_signs, cut_blocks
from ..chains.order import stuck_chains
from ..result import ChainBlocks, Result, among_all, cannot_tell
from .block_sums import sums_of_block_pairs
from .bootstrap import Bootstrap, random_blocks
from .inputs import Prepared, Streams
from .kernels import Kernel

MAX_WEIGHTS = 2 * 10**10  # of a bootstrap: one byte each, as `multinomial` and `wild` return them
MIN_DRAWS_WITHOUT_BLOCKS = 50  # below, a bootstrap of the draws rejects correct samples too often
MAX_DRAWS_WITHOUT_BLOCKS = 10_000  # beyond, n^2 B for a bootstrap of the draws is most of the cost
MAX_DRAWS_FOR_TAU = 4000  # the autocorrelation time is estimated from evenly spaced draws beyond
MIN_SPACINGS_PER_TAU = 4  # with fewer spacings of such draws per autocorrelation time it is overestimated
MAX_PARTS_FOR_TAU = 3  # parts of a long chain that are examined at a finer spacing


class Resampling(NamedTuple):
    """How the null distribution is simulated."""

    weights: np.ndarray  # (B, n) of the draws, or (B, q) signs of the blocks; B = 0 if there are too few
    block: np.ndarray | None  # (n,) block of each draw
    identity: np.ndarray | None  # (n,) equal for identical draws
    chains: ChainBlocks | None = None
    warnings: tuple[str, ...] = ()


def identical_draws(x: np.ndarray) -> np.ndarray | None:
    """A number per draw, equal for identical ones; None if all differ."""
    _, first, counts = np.unique(x[:, 0], return_inverse=True, return_counts=True)
    rows = np.flatnonzero(counts[first] > 1)  # only these may repeat
    if not len(rows):
        return None
    values, group = np.unique(x[rows], axis=0, return_inverse=True)
    if len(values) == len(rows):
        return None
    identity = np.arange(len(x)) + len(values)
    identity[rows] = group.ravel()
    return identity


def _identity_warnings(identity: np.ndarray | None) -> list[str]:
    """A warning if some draws are identical."""
    if identity is None:
        return []
    n = len(identity)
    return [
        f"{n - len(np.unique(identity))} of {n} draws repeat others exactly, as those of Markov chains do: "
        "pairs of identical draws are left out of the statistic"
    ]


def resampling(
    x: np.ndarray,
    bootstrap: Any,
    default: Bootstrap,
    n_resamples: int,
    streams: Streams,
    blocks: Blocks | None = None,
) -> Resampling:
    """Weights or signs of the null distribution.

    Given `blocks` of chains are used, or a warning says that they are too few; otherwise random blocks if
    `bootstrap` is "blocks", or None and there are many draws or few, which are then a block each; otherwise
    weights of the draws by `bootstrap`, or `default`.
    """
    n = len(x)
    n_resamples = int(n_resamples)
    if blocks is not None:
        return _flipped_chains(x, blocks, n_resamples, streams)
    identity = identical_draws(x)
    warnings = _identity_warnings(identity)
    function = bootstrap_used(bootstrap, default, n)
    if function == "blocks":
        block = random_blocks(n, streams.blocks, identity=identity)
        signs = block_signs(int(block.max()) + 1, n_resamples, streams.bootstrap)
        return Resampling(signs, block, identity, warnings=tuple(warnings))
    if n < MIN_DRAWS_WITHOUT_BLOCKS:
        warnings.append(
            f"only {n} draws are tested: below {MIN_DRAWS_WITHOUT_BLOCKS} their bootstrap rejects correct "
            "samples too often; without `bootstrap` signs are flipped instead"
        )
    if n * n_resamples > MAX_WEIGHTS:
        raise ValueError(
            f"`n_resamples` must be smaller: {n_resamples} weights for each of {n} draws take "
            f"{n * n_resamples / 1e9:.0f} GB; bootstrap='blocks' takes none"
        )
    weights = _bootstrap_weights(function, n, n_resamples, streams.bootstrap)
    return Resampling(weights, None, identity, warnings=tuple(warnings))


def bootstrap_used(
    bootstrap: Any, default: Bootstrap, n: int, *, chains: bool = False
) -> Bootstrap | Literal["blocks"]:
    """The user's bootstrap; without one blocks for chains and for few or many draws, else `default`."""
    if bootstrap is not None:
        return bootstrap
    without_blocks = not chains and MIN_DRAWS_WITHOUT_BLOCKS <= n <= MAX_DRAWS_WITHOUT_BLOCKS
    return default if without_blocks else "blocks"


def _flipped_chains(x: np.ndarray, blocks: Blocks, n_resamples: int, streams: Streams) -> Resampling:
    """Signs of the blocks of chains; none if there are too few blocks for a test."""
    identity = identical_draws(x)
    if blocks.enough:
        signs = block_signs(blocks.n_blocks, n_resamples, streams.bootstrap)
        return Resampling(signs, blocks.label, identity, blocks.record)
    none = np.empty((0, blocks.n_blocks), dtype=np.int8)
    return Resampling(none, blocks.label, identity, blocks.record, (cannot_tell(blocks.remedy),))


def _bootstrap_weights(function: Bootstrap, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """The weights of a bootstrap, checked where it may be the user's."""
    try:
        weights = np.asarray(function(n, size, rng))
    except TypeError as error:
        raise TypeError(f"`bootstrap` must be a function (n, size, rng) -> weights: {error}") from error
    if weights.shape != (size, n):
        raise ValueError(f"`bootstrap` must return weights of shape {(size, n)}, got {weights.shape}")
    if weights.dtype.kind not in "biuf" or not np.isfinite(weights).all():
        raise ValueError(f"`bootstrap` must return finite real numbers, got {shown(weights.flat[0])}")
    return weights


Stack = tuple[np.ndarray, np.ndarray]  # samples (J, n, d) of the same draws and their scores, whitened


def chain_blocks(
    chain: np.ndarray | None, bootstrap: Any, stacks: Sequence[Stack], kernel: Kernel, bandwidths: Any
) -> Blocks | None:
    """Blocks of chains for statistics of `stacks`; None for independent draws or the user's own bootstrap.

    Their length is given by the autocorrelation time of the draws' contributions h_t, the row sums of the
    Stein matrix. These show the slow directions along which the sum over all draws happens to point. The
    slowest of the statistics counts.
    """
    if chain is None or callable(bootstrap):
        return None
    tau = _time_of_contributions(chain, stacks, kernel, bandwidths)
    stuck = bool(stuck_chains(stacks[0][0][0], chain))
    return replace(cut_blocks(tau, chain), stuck=stuck)


def _time_of_contributions(
    chain: np.ndarray, stacks: Sequence[Stack], kernel: Kernel, bandwidths: Any
) -> float:
    """The autocorrelation time of the slowest row sums, from at most `MAX_DRAWS_FOR_TAU` draws at a time.

    Of many draws evenly spaced ones are taken. If they turn out to be nearly independent, the time is about
    their spacing or less, and parts of the chains are looked at more closely: several, since the sum over one
    of them may happen to point along a fast direction.
    """

    def slowest(rows: slice) -> float:
        some = np.unique(chain[rows], return_inverse=True)[1]
        whole = np.zeros(len(some), dtype=int)  # the row sums are those of one block too
        times = [1.0]
        for samples, scores in stacks:
            part = sums_of_block_pairs(
                samples[:, rows], scores[:, rows], kernel, bandwidths, whole, row_sums=True
            )
            assert part.row_sums is not None
            times.extend(autocorrelation_time(part.row_sums.T, some))
        return float(max(times))

    n = len(chain)
    step = -(-n // MAX_DRAWS_FOR_TAU)
    spacings = slowest(slice(0, None, step))
    while step > 1 and spacings < MIN_SPACINGS_PER_TAU:
        step = max(1, min(step - 1, int(spacings * step / (2 * MIN_SPACINGS_PER_TAU))))
        length = min(n, MAX_DRAWS_FOR_TAU * step)
        ends = np.linspace(n, length, min(MAX_PARTS_FOR_TAU, n // length)).astype(int)
        spacings = max(slowest(slice(end - length, end, step)) for end in ends)
    return spacings * step


def with_settings(
    result: Result, inputs: Prepared, default: Bootstrap, rows: np.ndarray | None = None, **more: Any
) -> Result:
    """The result of a test of the rows `rows`, or all, with the arguments that run it again.

    These are the bootstrap and the seed that were used, and `more` than what all quadratic tests take.
    """
    dependent = inputs.chain is not None
    settings = recorded(
        kernel=inputs.kernel,
        precondition=inputs.precondition,
        bootstrap=bootstrap_used(inputs.bootstrap, default, result.n_tested, chains=dependent),
        n_resamples=inputs.n_resamples,
        **more,
        check_score=inputs.check_score,
        independent=inputs.independent,
        rng=inputs.seed,
    )
    result = replace(result, settings=settings)
    return result if rows is None else among_all(result, rows, len(inputs.x))
