"""The null distribution of a quadratic test: weights of the draws, or signs of blocks of them; p-values."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from .._validation import as_count, as_generator, shown
from ..chains.blocks import Blocks, block_signs
from ..chains.reading import Sample
from ..result import ChainBlocks, cannot_tell
from ..wording import results as wording

MIN_DRAWS_WITHOUT_BLOCKS = 50  # below, weights of draws reject correct samples too often (small_samples.csv)


class Bootstrap(Protocol):
    """What a test takes as `bootstrap`: `multinomial`, `wild` or any function of this form.

    Parameters
    ----------
    n, size : int
        Number of draws and of replicates.
    rng : Generator

    Returns
    -------
    array (size, n)
        Weights of the draws, one row per replicate.
    """

    def __call__(self, n: int, size: int, rng: np.random.Generator, /) -> np.ndarray:
        """Weights (size, n)."""


def multinomial(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Centred multinomial weights (paper, eq. 3): rows are Mult(n; 1/n, ..., 1/n) - 1.

    Parameters
    ----------
    n, size : int
        Number of draws and of replicates.
    rng : Generator

    Returns
    -------
    array (size, n) of int8

    Examples
    --------
    >>> import numpy as np
    >>> multinomial(4, 2, np.random.default_rng(0)).shape
    (2, 4)
    """
    rng = _checked_generator(n, size, rng)
    weights = np.empty((size, n), dtype=np.int8)
    for row in weights:
        row[:] = np.bincount(rng.integers(n, size=n, dtype=np.uint32), minlength=n) - 1
    return weights


def wild(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Wild bootstrap: independent random signs, +1 or -1.

    Parameters
    ----------
    n, size : int
        Number of draws and of replicates.
    rng : Generator

    Returns
    -------
    array (size, n) of int8

    Examples
    --------
    >>> import numpy as np
    >>> wild(4, 2, np.random.default_rng(0)).shape
    (2, 4)
    """
    rng = _checked_generator(n, size, rng)
    return 2 * rng.integers(2, size=(size, n), dtype=np.int8) - 1


def _checked_generator(n: Any, size: Any, rng: Any) -> np.random.Generator:
    as_count(n, "n", maximum=10**9)
    as_count(size, "size")
    return as_generator(rng)


def random_blocks(
    n: int, rng: np.random.Generator, group: np.ndarray | None = None, *, count: int = 100
) -> np.ndarray:
    """Put independent draws into `count` random blocks of nearly equal size; draws of a group stay together.

    A hundred signs are as powerful as one per draw, see block_study.

    Parameters
    ----------
    n : int
        Number of draws.
    rng : Generator
    group : int array (n,), optional
        The group of each draw, 0, 1, ...
    count : int
        Number of blocks; if there are no more draws, or groups, each is a block of its own.

    Returns
    -------
    int array (n,)
        The block of each draw.

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(random_blocks(250, np.random.default_rng(0))).max()
    np.int64(3)
    """
    if group is None:
        return rng.permutation(n) % min(count, n)
    n_groups = int(group.max()) + 1
    return (rng.permutation(n_groups) % min(count, n_groups))[group]


def check_bootstrap(bootstrap: Any, *, chains: bool) -> None:
    """Raise unless `bootstrap` is a function, "blocks" or None.

    `multinomial` and `wild` must not resample dependent draws one by one; a function of the user's may know
    better.
    """
    if chains and bootstrap in (multinomial, wild):
        raise ValueError(
            f"`bootstrap` = {bootstrap.__name__} resamples draws one by one, but `draws` are Markov chains: "
            "leave it out to flip the signs of blocks, or give `independent=True` if they are independent"
        )
    if not (bootstrap is None or callable(bootstrap) or bootstrap == "blocks"):
        raise TypeError(
            f"`bootstrap` must be a function (n, size, rng) -> weights, or 'blocks', got {bootstrap!r}"
        )


class Resampling(NamedTuple):
    """How the null distribution is simulated."""

    bootstrap: Bootstrap | Literal["blocks"]
    multipliers: np.ndarray  # (B, n) of the draws, or (B, q) signs of the blocks; B = 0 if there are too few
    block: np.ndarray | None = None  # (n,) block of each draw
    share: np.ndarray | None = None  # (q, blocks) of the blocks in q independent parts, which have the signs
    centred: bool = False  # whether the multipliers of every replicate sum to 0
    chains: ChainBlocks | None = None
    warnings: tuple[str, ...] = ()


def resampling(
    sample: Sample,
    bootstrap: Bootstrap | Literal["blocks"] | None,
    default: Bootstrap,
    n_resamples: int,
    rng: np.random.Generator,
    blocks_rng: np.random.Generator,
) -> Resampling:
    """Signs of random blocks of independent draws, or their weights by the user's bootstrap or `default`.

    Without a bootstrap of the user's, signs are flipped where draws are few, have weights or are in groups,
    and where they are many: beyond 10,000 draws n^2 B for weights of the draws would be most of the cost.
    Draws of one group share their weight or their sign.
    """
    n, group = len(sample.x), sample.group
    if bootstrap is None:
        plain = sample.weight is None and group is None and MIN_DRAWS_WITHOUT_BLOCKS <= n <= 10_000
        bootstrap = default if plain else "blocks"
    if bootstrap == "blocks" and sample.threads is not None:
        cell, share = sample.threads
        return Resampling("blocks", block_signs(len(share), n_resamples, rng), cell, share)
    if bootstrap == "blocks":
        block = random_blocks(n, blocks_rng, group)
        return Resampling("blocks", block_signs(int(block.max()) + 1, n_resamples, rng), block)
    if n * n_resamples > 2 * 10**10:  # one byte each, as `multinomial` and `wild` return them
        raise ValueError(
            f"`n_resamples` must be smaller: {n_resamples} weights for each of {n} draws take "
            f"{n * n_resamples / 1e9:.0f} GB; bootstrap='blocks' takes none"
        )
    units = n if group is None else int(group.max()) + 1
    try:  # it may be the user's
        weights = np.asarray(bootstrap(units, n_resamples, rng))
    except TypeError as error:
        raise TypeError(f"`bootstrap` must be a function (n, size, rng) -> weights: {error}") from error
    if weights.shape != (n_resamples, units):
        shape = (n_resamples, units)
        raise ValueError(f"`bootstrap` must return weights of shape {shape}, got {weights.shape}")
    if weights.dtype.kind not in "biuf" or not np.isfinite(weights).all():
        raise ValueError(f"`bootstrap` must return finite real numbers, got {shown(weights.flat[0])}")
    centred = np.allclose(weights.sum(axis=1, dtype=float), 0, atol=1e-6 * units)
    weights = weights if group is None else weights[:, group]
    found = Resampling(bootstrap, weights, centred=centred)
    if n >= MIN_DRAWS_WITHOUT_BLOCKS:
        return found
    return found._replace(warnings=(wording.few_draws(n, MIN_DRAWS_WITHOUT_BLOCKS, bootstrap=True),))


def signs_of_chains(x: np.ndarray, blocks: Blocks, n_resamples: int, rng: np.random.Generator) -> Resampling:
    """Signs of the blocks of chains; none if there are too few blocks for a test.

    Rejections repeat a draw: the repeats belong to the block where it was first.
    """
    arrives = np.append(True, np.any(x[1:] != x[:-1], axis=1))
    arrival = np.maximum.accumulate(np.where(arrives, np.arange(len(x)), 0))
    _, block = np.unique(blocks.label[arrival], return_inverse=True)
    count = int(block[-1]) + 1
    signs = block_signs(count, n_resamples, rng) if blocks.enough else np.empty((0, count), dtype=np.int8)
    few = () if blocks.enough else (cannot_tell(blocks.remedy),)
    return Resampling("blocks", signs, block, chains=blocks.record, warnings=few)


def pvalue(statistic: float, null_distribution: np.ndarray) -> float:
    """(1 + #{replicate >= statistic}) / (B + 1), never 0; NaN, "cannot tell", if there is no replicate.

    Examples
    --------
    >>> pvalue(3.0, np.array([1.0, 2.0, 3.0]))
    0.5
    """
    if not len(null_distribution):
        return np.nan
    return float((1 + np.sum(null_distribution >= statistic)) / (1 + len(null_distribution)))


class MinP(NamedTuple):
    """Outcome of the aggregation of K statistics."""

    pvalue: float
    pvalue_floor: float  #: the smallest p-value that is possible with these replicates
    pvalues: np.ndarray  #: (K,) of the single tests
    levels: np.ndarray  #: (K,) at which they are made, for the level asked for
    thresholds: np.ndarray  #: (K,) of the statistics at these levels
    null_distribution: np.ndarray | None  #: (B2,) minus the smallest weighted p-value of each level replicate


def min_p(
    statistics: np.ndarray, first: np.ndarray, second: np.ndarray, weights: np.ndarray, alpha: float
) -> MinP:
    """Aggregate K tests by their smallest weighted p-value.

    Parameters
    ----------
    statistics : array (K,)
    first, second : arrays (K, B1), (K, B2)
        Replicates for the single p-values and for the level; column b of either is one bootstrap for all K.
    weights : array (K,)
        Positive, with sum 1.
    alpha : float
        Level of `levels` and `thresholds`.
    """
    size = first.shape[1] + 1
    level_size = second.shape[1]
    ordered = np.sort(np.column_stack([first, statistics]), axis=1)
    # number of values of the first set, observed statistic included, that are at least as large
    own = np.array([size - np.searchsorted(row, t) for row, t in zip(ordered, statistics, strict=True)])
    theirs = np.stack([size - np.searchsorted(row, t) for row, t in zip(ordered, second, strict=True)])
    smallest = np.min(own / weights) / size
    null = np.min(theirs / weights[:, None], axis=0) / size
    allowed = int(np.floor(alpha * level_size + 1e-9))  # replicates that may reject
    u = min(np.sort(null)[allowed] if allowed < level_size else np.inf, 1 / weights.max())
    # largest number of values at or above a statistic with which its test rejects: less than u w size
    most = np.maximum(np.ceil(u * weights * size - 1e-9).astype(int) - 1, 0)
    thresholds = ordered[np.arange(len(ordered)), size - 1 - np.minimum(most, size - 1)]
    # the observed value and the least that is possible; equal but for the rounding of weights is equal
    both = np.array([smallest, 1 / (weights.max() * size)]) * (1 + 1e-12)
    ranks = np.sum(null <= both[:, None], axis=1) / level_size
    p, floor = np.where(ranks > 0, ranks, 1 / (level_size + 1)).tolist()
    return MinP(p, floor, own / size, most / size, thresholds, -null)
