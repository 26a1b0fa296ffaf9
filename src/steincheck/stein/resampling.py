"""The null distribution of a quadratic test: weights of the draws, or signs of blocks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from .._validation import recorded, shown
from ..chains.blocks import Blocks, autocorrelation_time, block_signs, cut_blocks
from ..chains.reading import groups_of_copies, stuck_chains
from ..result import ChainBlocks, Result, among_all, cannot_tell
from ..wording import results as wording
from .bootstrap import Bootstrap, random_blocks
from .inputs import Prepared, Streams
from .kernels import Kernel
from .tiles import sums_of_block_pairs

MIN_DRAWS_WITHOUT_BLOCKS = (
    50  # below, a bootstrap of the draws rejects correct samples too often, see small_samples.csv
)
MAX_DRAWS_FOR_TAU = 4000  # the autocorrelation time is estimated from evenly spaced draws beyond


class Resampling(NamedTuple):
    """How the null distribution is simulated."""

    weights: np.ndarray  # (B, n) of the draws, or (B, q) signs of the blocks; B = 0 if there are too few
    block: np.ndarray | None = None  # (n,) block of each draw
    chains: ChainBlocks | None = None
    warnings: tuple[str, ...] = ()


def resampling(
    x: np.ndarray,
    bootstrap: Any,
    default: Bootstrap,
    n_resamples: int,
    streams: Streams,
    blocks: Blocks | None = None,
) -> Resampling:
    """Weights or signs of the null distribution.

    Given `blocks` of chains are used, or a warning says that they are too few; otherwise random blocks, or
    weights of the draws by a function, see `bootstrap_used`. Identical draws are in one block: they are one
    piece of evidence, and no pair of them counts.
    """
    n = len(x)
    n_resamples = int(n_resamples)
    if blocks is not None:
        return _signs_of_chains(x, blocks, n_resamples, streams)
    identity = groups_of_copies(x)
    function = bootstrap_used(bootstrap, default, x)
    warnings = []
    if function == "blocks":
        block = random_blocks(n, streams.blocks, identity=identity)
        signs = block_signs(int(block.max()) + 1, n_resamples, streams.bootstrap)
        return Resampling(signs, block)
    if n < MIN_DRAWS_WITHOUT_BLOCKS:
        warnings.append(wording.few_draws(n, MIN_DRAWS_WITHOUT_BLOCKS, bootstrap=True))
    if n * n_resamples > 2 * 10**10:  # one byte each, as `multinomial` and `wild` return them
        raise ValueError(
            f"`n_resamples` must be smaller: {n_resamples} weights for each of {n} draws take "
            f"{n * n_resamples / 1e9:.0f} GB; bootstrap='blocks' takes none"
        )
    weights = _bootstrap_weights(function, n, n_resamples, streams.bootstrap)
    return Resampling(weights, warnings=tuple(warnings))


def bootstrap_used(
    bootstrap: Any, default: Bootstrap, x: np.ndarray, *, chains: bool = False
) -> Bootstrap | Literal["blocks"]:
    """The user's bootstrap; without one `default`, but blocks for chains, repeats, and few or many draws.

    Beyond 10,000 draws n^2 B for weights of the draws would be most of the cost.
    """
    if bootstrap is not None:
        return bootstrap
    if chains or not MIN_DRAWS_WITHOUT_BLOCKS <= len(x) <= 10_000 or groups_of_copies(x) is not None:
        return "blocks"
    return default


def _signs_of_chains(x: np.ndarray, blocks: Blocks, n_resamples: int, streams: Streams) -> Resampling:
    """Signs of the blocks of chains; none if there are too few blocks for a test.

    Rejections repeat a draw: the repeats belong to the block where it was first.
    """
    arrives = np.append(True, np.any(x[1:] != x[:-1], axis=1))
    arrival = np.maximum.accumulate(np.where(arrives, np.arange(len(x)), 0))
    _, block = np.unique(blocks.label[arrival], return_inverse=True)
    if blocks.enough:
        signs = block_signs(int(block[-1]) + 1, n_resamples, streams.bootstrap)
        return Resampling(signs, block, blocks.record)
    none = np.empty((0, int(block[-1]) + 1), dtype=np.int8)
    return Resampling(none, block, blocks.record, (cannot_tell(blocks.remedy),))


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

    Of many draws evenly spaced ones are taken. If there are fewer than four spacings per autocorrelation
    time, it is overestimated, and three parts of the chains are looked at more closely: the sum over one of
    them may happen to point along a fast direction.
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
    while step > 1 and spacings < 4:
        step = max(1, min(step - 1, int(spacings * step / 8)))
        length = min(n, MAX_DRAWS_FOR_TAU * step)
        ends = np.linspace(n, length, min(3, n // length)).astype(int)
        spacings = max(slowest(slice(end - length, end, step)) for end in ends)
    return spacings * step


def with_settings(
    result: Result, inputs: Prepared, default: Bootstrap, rows: np.ndarray | None = None, **more: Any
) -> Result:
    """The result of a test of the rows `rows`, or all, with the arguments that run it again.

    These are the bootstrap and the seed that were used, and `more` than what all quadratic tests take.
    """
    x, _, chain, *_ = inputs.sample
    tested = x if rows is None else x[rows]
    settings = recorded(
        **inputs.options._replace(
            bootstrap=bootstrap_used(inputs.options.bootstrap, default, tested, chains=chain is not None)
        )._asdict(),
        **more,
        rng=inputs.seed,
    )
    result = replace(result, settings=settings)
    return result if rows is None else among_all(result, rows, len(x))
