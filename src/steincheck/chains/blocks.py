"""Autocorrelation time and blocks: the null distribution of a sum over dependent draws.

Under H0 the chains are stationary with distribution p and independent of each other. The statistics are
``|sum_t phi(x_t)|^2`` with ``E phi = 0``; sums over a few long blocks are then nearly independent and
symmetric about 0, so that random signs, one per block, reproduce the null distribution (Canay, Romano and
Shaikh 2017, "Randomization tests under an approximate symmetry assumption"). See docs/theory/chains.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._series import initial_monotone, lagged_products, pair_sums
from ..result import ChainBlocks
from ..wording import chains as wording

TIMES_PER_CUT = 10  # autocorrelation times per cut: each cut hides tau^2/2 of a variance of N tau, 5 % in all
MAX_SIGN_BLOCKS = 20  # in all: 40 blocks reject .06 to .09 of correct chains, see docs/theory/chains.md
MIN_BLOCKS = 8  # fewer have at most 64 sign patterns, so no p-value below .016


def autocovariance(h: np.ndarray, chain: np.ndarray | None = None) -> np.ndarray:
    """Autocovariances of ``h`` at lags 0, 1, ..., centred by the mean over all chains.

    ``gamma_k = (1/n) sum_c sum_t (h_ct - mean)(h_c,t+k - mean)``, by FFT. Chains that disagree have
    autocovariances that do not vanish: they count as slow.

    Parameters
    ----------
    h : array (n,)
        One number per draw.
    chain : array (n,) of int, optional
        The chain of each draw, 0, 1, ... in order; without it all draws are one chain.

    Returns
    -------
    array (length of the longest chain,)

    Examples
    --------
    >>> autocovariance(np.array([1.0, -1.0, 1.0, -1.0]))
    array([ 1.  , -0.75,  0.5 , -0.25])
    """
    h = np.asarray(h, dtype=float)
    return lagged_products(_rows(h - h.mean(), chain)) / len(h)


def autocorrelation_time(h: np.ndarray, chain: np.ndarray | None = None) -> Any:
    """Integrated autocorrelation time of ``h`` (n,), or of each column of (n, k), at least 1.

    By Geyer's initial monotone sequence: ``tau = -1 + 2 sum_m Gamma_m`` with ``Gamma_m = rho_2m + rho_2m+1``,
    summed while positive and made monotone (Geyer 1992, "Practical Markov chain Monte Carlo"). The variance
    of the mean of ``h`` is that of n / tau independent draws.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=10001)
    >>> bool(1.8 < autocorrelation_time(noise[1:] + noise[:-1]) < 2.2)
    True
    """
    h = np.asarray(h, dtype=float)
    if h.ndim == 2:
        return np.array([autocorrelation_time(column, chain) for column in h.T])
    covariance = autocovariance(h, chain)
    if covariance[0] <= 0:
        return 1.0
    return float(max(1.0, 2 * initial_monotone(pair_sums(covariance) / covariance[0]).sum() - 1))


@dataclass(frozen=True, eq=False, repr=False)
class Blocks:
    """Chains cut into blocks for a statistic whose contributions have autocorrelation time ``tau``.

    Attributes
    ----------
    label : array (n,)
        The block of each draw, 0, 1, ... in order.
    n_blocks : int
        Number of blocks.
    autocorrelation_time : float
        Of the statistic's contributions.
    times_longer : float
        How many times longer the chains must be for a test; 1 if they are long enough.
    n_chains : int
        Number of chains.
    stuck : bool
        Whether a chain is stuck, which longer chains do not cure.
    """

    label: np.ndarray
    n_blocks: int
    autocorrelation_time: float
    times_longer: float
    n_chains: int
    stuck: bool = False

    def __repr__(self) -> str:
        time = f"autocorrelation time {self.autocorrelation_time:.3g}"
        return f"<Blocks: {self.n_blocks} of {len(self.label)} draws, {self.n_chains} chains, {time}>"

    @property
    def enough(self) -> bool:
        """Are there enough blocks for a test?"""
        return self.times_longer <= 1

    @property
    def effective_sample_size(self) -> float:
        """Effective sample size of these draws."""
        return len(self.label) / self.autocorrelation_time

    @property
    def record(self) -> ChainBlocks:
        """What a result says of them."""
        return ChainBlocks(
            self.n_chains, self.n_blocks, self.autocorrelation_time, self.effective_sample_size
        )

    @property
    def remedy(self) -> str:
        """What to do if there are too few blocks; empty if there are enough."""
        if self.enough:
            return ""
        return wording.too_few_blocks(
            len(self.label), self.n_chains, self.autocorrelation_time, self.times_longer, stuck=self.stuck
        )


def cut_blocks(
    tau: float,
    chain: np.ndarray,
    *,
    max_blocks: int = MAX_SIGN_BLOCKS,
    min_blocks: int = MIN_BLOCKS,
    cut_every: int = TIMES_PER_CUT,
) -> Blocks:
    """Cut chains into blocks: one cut per 10 ``tau``, at most 20 blocks in all, at least one per chain.

    A chain of length N becomes ``1 + floor(N / (10 tau))`` blocks. Fewer than 8 blocks in all are not enough
    for a test. With more than 20 chains the chains are the blocks, or groups of them if there are more than
    100.

    Parameters
    ----------
    tau : float
        Autocorrelation time of the draws' contributions to the statistic; the largest of several.
    chain : array (n,) of int
        The chain of each draw, 0, 1, ... in order.
    max_blocks, min_blocks : int
        Most blocks in all, if there are not more chains; fewest for a test.
    cut_every : int
        Autocorrelation times per cut.

    Examples
    --------
    >>> blocks = cut_blocks(3.0, np.repeat([0, 1, 2, 3], 250))
    >>> blocks.n_blocks, blocks.enough
    (20, True)
    >>> cut_blocks(30.0, np.repeat([0, 1, 2, 3], 250)).remedy  # doctest: +ELLIPSIS
    'the effective sample size of the 1000 draws is about 33 ... run the chains about 1.2 times as long'
    """
    lengths = np.bincount(chain)
    n_chains = len(lengths)
    if n_chains > max_blocks:
        count = min(n_chains, 100)  # a hundred signs are as good as more, see block_study
        return Blocks(chain * count // n_chains, count, float(tau), 1.0, n_chains)
    parts = _parts(lengths, cut_every * tau, max_blocks)
    label = np.concatenate(
        [
            first + np.arange(length) * part // length
            for first, length, part in zip(np.cumsum(parts) - parts, lengths, parts, strict=True)
        ]
    )
    longer = _times_longer(lengths, cut_every * tau, max_blocks, min_blocks)
    return Blocks(label, int(parts.sum()), float(tau), longer, n_chains)


def _parts(lengths: np.ndarray, between_cuts: float, max_blocks: int) -> np.ndarray:
    """Number of blocks per chain, with so many draws between two cuts."""
    cap = np.maximum(1, max_blocks * lengths // lengths.sum())
    cuts = np.minimum(lengths // between_cuts, lengths).astype(int)
    return np.minimum(np.minimum(1 + cuts, cap), lengths)


def _times_longer(lengths: np.ndarray, between_cuts: float, max_blocks: int, min_blocks: int) -> float:
    """The smallest factor by which the chains must grow for a test: 1 if none, infinity if it cannot help.

    Blocks of unequal sizes w count as ``(sum w)^2 / sum w^2`` blocks of equal size.
    """
    for factor in 1.1 ** np.arange(97):  # up to 10^4
        grown = np.round(lengths * factor).astype(int)
        parts = _parts(grown, between_cuts, max_blocks)
        if np.round(grown.sum() ** 2 / np.sum(grown**2.0 / parts)) >= min_blocks:
            return float(factor)
    return np.inf


def block_signs(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Random signs, one per block: all patterns if there are at most 11 blocks, else ``size`` random ones.

    The pattern of equal signs is left out of the complete list, and of two opposite patterns one is kept: the
    statistic itself stands for both in ``(1 + #{replicate >= statistic}) / (B + 1)``, which is then exact.

    Parameters
    ----------
    count : int
        Number of blocks.
    size : int
        Number of random patterns if there are more than 11 blocks.
    rng : Generator
        Source of randomness.

    Returns
    -------
    array (2^(count-1) - 1 or size, count) of int8

    Examples
    --------
    >>> block_signs(3, 999, np.random.default_rng(0))
    array([[ 1, -1,  1],
           [ 1,  1, -1],
           [ 1, -1, -1]], dtype=int8)
    """
    if count > 11:  # up to 11 blocks have at most 2^10 patterns: as many as are drawn at random otherwise
        return 2 * rng.integers(2, size=(size, count), dtype=np.int8) - 1
    pattern = np.arange(1, 2 ** (count - 1))[:, None] >> np.arange(count - 1) & 1
    first = np.zeros((len(pattern), 1), dtype=int)
    return (1 - 2 * np.concatenate([first, pattern], axis=1)).astype(np.int8)


def block_sums(values: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Sums of ``values`` (n, ...) over the blocks of ``label`` (n,), which are in order: (blocks, ...).

    Examples
    --------
    >>> block_sums(np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1]))
    array([3., 3.])
    """
    starts = np.flatnonzero(np.diff(label, prepend=-1))
    return np.add.reduceat(values, starts, axis=0)


def block_standard_error(sums: np.ndarray) -> np.ndarray:
    """Standard error (...) of a total from its sums over q nearly independent blocks, (q, ...).

    Examples
    --------
    >>> block_standard_error(np.array([3.0, -3.0]))
    np.float64(6.0)
    """
    q = len(sums)
    return np.sqrt(q / max(q - 1, 1) * np.sum(sums**2, axis=0))


def _rows(h: np.ndarray, chain: np.ndarray | None) -> np.ndarray:
    """``h`` (n,) with one row per chain, filled up with zeros."""
    if chain is None:
        return h[None, :]
    lengths = np.bincount(chain)
    rows = np.zeros((len(lengths), lengths.max()))
    rows[np.arange(lengths.max()) < lengths[:, None]] = h
    return rows
