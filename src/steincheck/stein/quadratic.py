"""What the quadratic tests share: validated input, one random stream per stage, calibrated statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from .._validation import Seed, as_count, as_numbers, check_switch, is_number, recorded, seeded, shown
from ..chains.blocks import Blocks, autocorrelation_time_core, block_signs, cut_blocks_core
from ..chains.order import standing_chains
from ..chains.reading import read_sample
from ..draws.record import chain_of_rows
from ..result import ChainBlocks
from ..target import Target, require_target, score_at, score_warnings, support_warnings
from .blocks import sums_of_block_pairs
from .bootstrap import Bootstrap, multinomial, normaliser, random_blocks, wild
from .kernels import IMQ, Kernel, check_kernel, median_bandwidth
from .tiles import quadratic_forms

MIN_KERNEL_DRAWS = 50  # with fewer, bootstraps reject correct samples too often
MAX_WEIGHTS = 2 * 10**10  # bytes of a bootstrap's weights that are held at once
MAX_DRAWS_WITHOUT_BLOCKS = 10_000  # beyond, n^2 B for a bootstrap of the draws is most of the cost
MAX_DRAWS_FOR_TAU = 4000  # the autocorrelation time is estimated from evenly spaced draws beyond


class Streams(NamedTuple):
    """One random stream per stage, so that a change of one stage leaves the others alone."""

    bandwidth: np.random.Generator
    bootstrap: np.random.Generator
    modes: np.random.Generator
    perturbation: np.random.Generator
    split: np.random.Generator
    blocks: np.random.Generator
    inspection: np.random.Generator


def spawn_streams(rng: np.random.Generator) -> Streams:
    """The streams of one test."""
    return Streams(*rng.spawn(7))


class Prepared(NamedTuple):
    """Validated input of a quadratic test."""

    x: np.ndarray
    whiten: np.ndarray | None  # L with precondition = L L'
    streams: Streams
    warnings: list[str]
    log_p: np.ndarray  # log density of the draws
    chain: np.ndarray | None  # (n,) chain of each draw; None for independent draws
    seed: Seed
    kernel: Kernel
    bootstrap: Bootstrap | Literal["blocks"] | None
    n_resamples: int
    precondition: Any  # this and what follows as the user said
    check_score: bool
    independent: bool


def prepare(
    draws: Any,
    target: Target,
    precondition: Any,
    n_resamples: int,
    check_score: bool,
    rng: Any,
    *,
    independent: bool = False,
    bootstrap: Any = None,
    kernel: Kernel = IMQ(),
) -> Prepared:
    """Validate what all quadratic tests share and spawn one random stream per stage; nothing is announced."""
    check_kernel(kernel)
    require_target(target)
    as_count(n_resamples, "n_resamples")
    check_bootstrap(bootstrap)
    check_switch(check_score, "check_score")
    sample = read_sample(draws, target, independent=independent)
    if sample.chain is not None:
        _refuse_resampled_draws(bootstrap)
    generator, seed = seeded(rng)
    streams = spawn_streams(generator)
    warnings = sample.warnings
    warnings.extend(support_warnings(target, sample.x, sample.log_p, streams.inspection))
    warn_few_resamples(n_resamples, "n_resamples", warnings)
    n = len(sample.x)
    if n < MIN_KERNEL_DRAWS:
        warnings.append(
            f"only {n} draws: below {MIN_KERNEL_DRAWS} the bootstrap rejects correct samples too often"
        )
    warnings.extend(score_warnings(target, sample.x, check=check_score))
    whiten = None if precondition is None else _root(precondition, target.dim)
    return Prepared(
        sample.x,
        whiten,
        streams,
        warnings,
        sample.log_p,
        sample.chain,
        seed,
        kernel,
        bootstrap,
        n_resamples,
        precondition,
        check_score,
        independent,
    )


def _refuse_resampled_draws(bootstrap: Any) -> None:
    """Raise if dependent draws are to be resampled one by one; a function of the user's may know better."""
    if bootstrap in (multinomial, wild):
        raise ValueError(
            f"`bootstrap` = {bootstrap.__name__} resamples draws one by one, but `draws` are Markov chains: "
            "leave it out to flip the signs of blocks, or give `independent=True` if they are independent"
        )


def warn_few_resamples(count: int, name: str, warnings: list[str]) -> None:
    """Warn if the p-value can never be as small as 0.05."""
    if count < 19:
        warnings.append(f"with `{name}` = {count} no p-value can be below {1 / (int(count) + 1):.3g}")


def warn_units(x: np.ndarray, warnings: list[str]) -> None:
    """Warn if KSDAgg's published bandwidths are not made for the units of the draws."""
    spread = x.std(axis=0)
    if spread.min() < 0.1 or spread.max() > 10:
        warnings.append(
            "the default bandwidths are made for draws of unit scale, these have standard deviations from "
            f"{spread.min():.2g} to {spread.max():.2g}: give `precondition`, as the covariance matrix at "
            'a mode, or bandwidths="paper"'
        )


def _root(precondition: Any, dim: int) -> np.ndarray:
    matrix = as_numbers(precondition, "precondition", f"a matrix of numbers, shape {(dim, dim)}")
    if matrix.shape != (dim, dim):
        raise ValueError(f"`precondition` must have shape {(dim, dim)}, got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("`precondition` must be finite")
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0):
        raise ValueError("`precondition` must be symmetric")
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise ValueError(
            f"`precondition` must be positive definite, its smallest eigenvalue is {smallest:.3g}"
        ) from None


def split_rows(
    n: int, train_fraction: Any, rng: np.random.Generator, chain: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a part of n draws to train with, and of the others.

    The part is random for independent draws. Of Markov chains it is the beginning of every one: the two parts
    touch once per chain, and are nearly independent.
    """
    if not is_number(train_fraction) or not 0 < train_fraction < 1:
        raise ValueError(f"`train_fraction` must lie strictly between 0 and 1, got {shown(train_fraction)}")
    n_train = round(train_fraction * n)
    if min(n_train, n - n_train) < 2:
        raise ValueError(
            f"`train_fraction` must leave at least 2 draws on either side, but {train_fraction} of {n} "
            f"draws is {n_train}"
        )
    if chain is None:
        order = rng.permutation(n)
        return order[:n_train], order[n_train:]
    lengths = np.bincount(chain)
    position = np.arange(n) - (np.cumsum(lengths) - lengths)[chain]
    early = position < np.round(train_fraction * lengths)[chain]
    return np.flatnonzero(early), np.flatnonzero(~early)


def whitened(x: np.ndarray, whiten: np.ndarray | None) -> np.ndarray:
    """z = L^-1 x for rows of x (..., d)."""
    if whiten is None:
        return x
    return np.ascontiguousarray(np.linalg.solve(whiten, x.reshape(-1, x.shape[-1]).T).T).reshape(x.shape)


def whitened_scores(scores: np.ndarray, whiten: np.ndarray | None) -> np.ndarray:
    """Scores L's of the whitened density, for rows of `scores` (..., d)."""
    return scores if whiten is None else scores @ whiten


def choose_bandwidth(
    x: np.ndarray, kernel: Kernel, whiten: np.ndarray | None, rng: np.random.Generator
) -> float:
    """The kernel's own bandwidth, or the median squared distance of the draws `x`."""
    width = getattr(kernel, "bandwidth", 1.0)
    if width is None:
        width = median_bandwidth(whitened(x, whiten), rng=rng)
    return float(width)


def identical_draws(x: np.ndarray, warnings: list[str]) -> np.ndarray | None:
    """A number per draw, equal for identical ones, which are warned of; None if all differ."""
    _, first, counts = np.unique(x[:, 0], return_inverse=True, return_counts=True)
    rows = np.flatnonzero(counts[first] > 1)  # only these may repeat
    if not len(rows):
        return None
    values, group = np.unique(x[rows], axis=0, return_inverse=True)
    repeated = len(rows) - len(values)
    if not repeated:
        return None
    warnings.append(
        f"{repeated} of {len(x)} draws repeat others exactly, as those of Markov chains do: pairs of "
        "identical draws are left out of the statistic"
    )
    identity = np.arange(len(x)) + len(values)
    identity[rows] = group.ravel()
    return identity


class Resampling(NamedTuple):
    """How the null distribution is simulated."""

    bootstrap: Bootstrap | Literal["blocks"]  # that made the weights
    weights: np.ndarray  # (B, n) of the draws, or (B, q) signs of the blocks; B = 0 if there are too few
    block: np.ndarray | None  # (n,) block of each draw
    identity: np.ndarray | None  # (n,) equal for identical draws
    chains: ChainBlocks | None = None


def check_bootstrap(bootstrap: Any) -> None:
    """Raise unless `bootstrap` is a function, "blocks" or None."""
    if not (
        bootstrap is None or callable(bootstrap) or (isinstance(bootstrap, str) and bootstrap == "blocks")
    ):
        raise TypeError(
            f"`bootstrap` must be a function (n, size, rng) -> weights, or 'blocks', got {bootstrap!r}"
        )


def resampling(
    x: np.ndarray,
    bootstrap: Any,
    default: Bootstrap,
    n_resamples: int,
    streams: Streams,
    *,
    warnings: list[str],
    blocks: Blocks | None = None,
) -> Resampling:
    """Weights or signs of the null distribution.

    Given `blocks` of chains are used, or a warning says that they are too few; otherwise random blocks if
    `bootstrap` is "blocks", or None and there are many draws; otherwise weights of the draws by `bootstrap`,
    or `default`.
    """
    n = len(x)
    n_resamples = int(n_resamples)
    if blocks is not None:
        return _flipped_chains(x, blocks, n_resamples, streams, warnings)
    identity = identical_draws(x, warnings)
    if bootstrap == "blocks" or (bootstrap is None and n > MAX_DRAWS_WITHOUT_BLOCKS):
        block = random_blocks(n, streams.blocks, identity=identity)
        signs = block_signs(int(block.max()) + 1, n_resamples, streams.bootstrap)
        return Resampling("blocks", signs, block, identity)
    function = default if bootstrap is None else bootstrap
    if n * n_resamples > MAX_WEIGHTS:
        raise ValueError(
            f"`n_resamples` must be smaller: {n_resamples} weights for each of {n} draws take "
            f"{n * n_resamples / 1e9:.0f} GB; bootstrap='blocks' takes none"
        )
    weights = _weights(function, n, n_resamples, streams.bootstrap)
    return Resampling(function, weights, None, identity)


def _flipped_chains(
    x: np.ndarray, blocks: Blocks, n_resamples: int, streams: Streams, warnings: list[str]
) -> Resampling:
    """Signs of the blocks of chains; none if there are too few blocks for a test."""
    signs = np.empty((0, blocks.count), dtype=np.int8)
    if blocks.enough:
        signs = block_signs(blocks.count, n_resamples, streams.bootstrap)
    else:
        warnings.append(f"cannot tell: {blocks.remedy}")
    return Resampling("blocks", signs, blocks.label, identical_draws(x, []), blocks.summary)


def _weights(function: Bootstrap, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
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
    step = -(-len(chain) // MAX_DRAWS_FOR_TAU)
    some = chain_of_rows(chain, np.arange(0, len(chain), step))
    assert some is not None
    whole = np.zeros(len(some), dtype=int)  # the row sums are those of one block too
    slowest = 1.0
    for samples, scores in stacks:
        part = sums_of_block_pairs(
            samples[:, ::step], scores[:, ::step], kernel, bandwidths, whole, row_sums=True
        )
        assert part.row_sums is not None
        slowest = max(slowest, float(np.max(autocorrelation_time_core(part.row_sums.T, some))))
    standing = bool(standing_chains(stacks[0][0][0], chain))
    return replace(cut_blocks_core(slowest * step, chain), standing=standing)


class Calibrated(NamedTuple):
    """U-statistics of the summed matrix of a stack of samples and their replicates, per bandwidth."""

    statistics: np.ndarray  #: (K,)
    replicates: np.ndarray  #: (K, B)
    parts: np.ndarray | None  #: (K, J) contribution of each sample, if asked for


def calibrated_statistics(
    samples: np.ndarray,
    scores: np.ndarray,
    kernel: Kernel,
    bandwidths: Any,
    resampled: Resampling,
    *,
    parts: bool = False,
) -> Calibrated:
    """Statistics and replicates of samples (J, n, d) of the same draws, in whitened coordinates.

    With blocks, pairs of draws of one block are left out: signs of blocks do not change their sum.
    """
    weights = resampled.weights
    if resampled.block is None:
        n = samples.shape[1]
        forms = quadratic_forms(
            samples, scores, kernel, bandwidths, weights, identity=resampled.identity, row_sums=parts
        )
        each = None if forms.row_sums is None else forms.row_sums.sum(axis=2) / (n * (n - 1))
        return Calibrated(forms.total / (n * (n - 1)), forms.replicates / normaliser(weights), each)
    block = resampled.block
    sums = sums_of_block_pairs(samples, scores, kernel, bandwidths, block, identity=resampled.identity)
    return flip_signs(sums.table, np.bincount(block), weights)


def flip_signs(table: np.ndarray, sizes: np.ndarray, signs: np.ndarray) -> Calibrated:
    """U-statistics over pairs of draws in different blocks, and what they become with signs of the blocks.

    Parameters
    ----------
    table : array (K, J, q, q)
        Sums of the Stein kernel over pairs of blocks.
    sizes : int array (q,)
        Numbers of draws of the blocks.
    signs : array (B, q)
    """
    pairs = float(sizes.sum() ** 2 - np.sum(sizes**2)) or np.nan  # a single block has none
    between = table * (1 - np.eye(len(sizes))) / pairs
    signs = signs.astype(float)
    replicates = [np.einsum("bq,bq->b", signs @ one, signs) for one in between.sum(axis=1)]
    each = between.sum(axis=(2, 3))
    return Calibrated(each.sum(axis=1), np.array(replicates), each)


def scores_of_moved(target: Target, x: np.ndarray, scores: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Scores (J, n, d) at samples of which most draws may be those of `x`, whose scores are known."""
    moved = np.any(samples != x, axis=2)
    out = np.repeat(scores[None], len(samples), axis=0)
    if moved.any():
        out[moved] = score_at(target, samples[moved])
    return out


def settings(inputs: Prepared, resampled: Resampling, **more: Any) -> dict[str, Any]:
    """The arguments to run the test again with, the bootstrap and the seed being those that were used."""
    return recorded(
        kernel=inputs.kernel,
        precondition=inputs.precondition,
        bootstrap=resampled.bootstrap,
        n_resamples=inputs.n_resamples,
        **more,
        check_score=inputs.check_score,
        independent=inputs.independent,
        rng=inputs.seed,
    )
