"""Weights whose quadratic forms in H imitate the null distribution, random blocks, and the p-value."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from .._validation import as_count, as_generator

N_RANDOM_BLOCKS = 100  # of independent draws: the power is that of one sign per draw, see experiments


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
    n: int, rng: np.random.Generator, *, identity: np.ndarray | None = None, count: int = N_RANDOM_BLOCKS
) -> np.ndarray:
    """Put independent draws into `count` random blocks of nearly equal size; identical draws stay together.

    Returns
    -------
    int array (n,)
        The block of each draw; each draw is a block of its own if there are no more than `count`.

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(random_blocks(250, np.random.default_rng(0), count=100)).max()
    np.int64(3)
    """
    if identity is None:
        return rng.permutation(n) % min(count, n)
    groups, group = np.unique(identity, return_inverse=True)
    return (rng.permutation(len(groups)) % min(count, len(groups)))[group]


def normaliser(weights: np.ndarray) -> float:
    """What w'Hw is divided by: n^2 for centred weights (rows sum to 0), else n(n-1) as the statistic."""
    n = weights.shape[1]
    centred = np.allclose(weights.sum(axis=1, dtype=float), 0, atol=1e-6 * n)
    return float(n * n if centred else n * (n - 1))


def pvalue(statistic: float, null_distribution: np.ndarray) -> float:
    """(1 + #{replicate >= statistic}) / (B + 1), never 0; NaN, "cannot tell", if there is no replicate.

    Examples
    --------
    >>> pvalue(3.0, np.array([1.0, 2.0, 3.0]))
    0.5
    """
    null_distribution = np.asarray(null_distribution)
    if not len(null_distribution):
        return np.nan
    return float((1 + np.sum(null_distribution >= statistic)) / (1 + len(null_distribution)))


class MinP(NamedTuple):
    """Outcome of the aggregation of K statistics."""

    pvalue: float
    floor: float  #: the smallest p-value that is possible with these replicates
    pvalues: np.ndarray  #: (K,) of the single tests
    levels: np.ndarray  #: (K,) at which they are made, for the level asked for
    thresholds: np.ndarray  #: (K,) of the statistics at these levels
    null: np.ndarray  #: (B2,) minus the smallest weighted p-value of each level replicate


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
    below = np.sort(null)
    allowed = int(np.floor(alpha * level_size + 1e-9))  # replicates that may reject
    u = min(below[allowed] if allowed < level_size else np.inf, 1 / weights.max())
    # largest number of values at or above a statistic with which its test rejects: less than u w size
    most = np.maximum(np.ceil(u * weights * size - 1e-9).astype(int) - 1, 0)
    thresholds = ordered[np.arange(len(ordered)), size - 1 - np.minimum(most, size - 1)]
    floor = 1 / (weights.max() * size)
    return MinP(_rank(smallest, null), _rank(floor, null), own / size, most / size, thresholds, -null)


def _rank(smallest: float, null: np.ndarray) -> float:
    """Share of the replicates whose smallest weighted p-value is at most `smallest`, never 0."""
    count = int(np.sum(null <= smallest * (1 + 1e-12)))  # equal but for the rounding of weights is equal
    return count / len(null) if count else 1 / (len(null) + 1)
