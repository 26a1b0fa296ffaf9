"""Autocorrelation time and blocks: null distributions of sums over dependent draws, agreement of chains.

Under H0 the chains are stationary with distribution p and independent of each other. The statistics are
``|sum_t phi(x_t)|^2`` with ``E phi = 0``; sums over a few long blocks are then nearly independent and
symmetric about 0, so that random signs, one per block, reproduce the null distribution (Canay, Romano and
Shaikh 2017, "Randomization tests under an approximate symmetry assumption"). See docs/theory/chains.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..draws.record import index_in_chain
from ..result import AgreementResult, ChainBlocks, cannot_tell
from ..wording import draws as wording

TIMES_PER_CUT = 10  # autocorrelation times per cut: each cut hides tau^2/2 of a variance of N tau, 5 % in all
MAX_SIGN_BLOCKS = 20  # in all: 40 blocks reject .06 to .09 of correct chains, see docs/theory/chains.md
MIN_BLOCKS = 8  # fewer have at most 64 sign patterns, so no p-value below .016


def lagged_products(rows: np.ndarray) -> np.ndarray:
    """Sums of x_ct x_c,t+k over the rows c and times t of x (C, N), for the lags k = 0, ..., N - 1; by FFT.

    Examples
    --------
    >>> lagged_products(np.array([[1.0, 2.0, 3.0]])).round(12)
    array([14.,  8.,  3.])
    """
    n = rows.shape[1]
    spectrum = np.abs(np.fft.rfft(rows, 2 * n, axis=1)) ** 2
    return np.fft.irfft(spectrum.sum(axis=0), 2 * n)[:n]


def pair_sums(series: np.ndarray) -> np.ndarray:
    """Sums of the numbers 0 and 1, 2 and 3, ...; one that is left over is dropped."""
    return series[: len(series) // 2 * 2].reshape(-1, 2).sum(axis=1)


def initial_monotone(pairs: np.ndarray) -> np.ndarray:
    """Geyer's initial monotone sequence: the pair sums before the first that is not positive, made monotone.

    Examples
    --------
    >>> initial_monotone(np.array([3.0, 1.0, 2.0, -1.0, 5.0]))
    array([3., 1., 1.])
    """
    negative = np.flatnonzero(pairs <= 0)
    return np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)


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
    lengths = np.array([len(h)]) if chain is None else np.bincount(chain)
    rows = np.zeros((len(lengths), lengths.max()))  # chains, filled up with zeros
    rows[np.arange(lengths.max()) < lengths[:, None]] = h - h.mean()
    return lagged_products(rows) / len(h)


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


@dataclass(frozen=True, eq=False)
class Blocks:
    """Chains cut into blocks for a statistic whose contributions have autocorrelation time ``tau``.

    Attributes
    ----------
    label : array (n,)
        The block of each draw, 0, 1, ...
    record : ChainBlocks
        What a result says of them.
    times_longer : float
        How many times longer the chains must be for a test; 1 if they are long enough.
    stuck : bool
        Whether a chain is stuck, which longer chains do not cure.
    share : array (q, blocks), optional
        What of the sum over each of the blocks of `label` belongs to each of q independent parts.
    """

    label: np.ndarray
    record: ChainBlocks
    times_longer: float
    stuck: bool = False
    share: np.ndarray | None = None

    @property
    def enough(self) -> bool:
        """Are there enough blocks for a test?"""
        return self.times_longer <= 1

    @property
    def remedy(self) -> str:
        """What to do if there are too few blocks; empty if there are enough."""
        if self.enough:
            return ""
        n_chains, tau = self.record.n_chains, self.record.autocorrelation_time
        return wording.too_few_blocks(len(self.label), n_chains, tau, self.times_longer, stuck=self.stuck)


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
    >>> blocks.record.n_blocks, blocks.enough
    (20, True)
    >>> cut_blocks(30.0, np.repeat([0, 1, 2, 3], 250)).remedy  # doctest: +ELLIPSIS
    'the effective sample size of the 1000 draws is about 33 ... run the chains about 1.2 times as long'
    """
    lengths = np.bincount(chain)
    n_chains = len(lengths)
    if n_chains > max_blocks:
        count = min(n_chains, 100)  # a hundred signs are as good as more, see block_study
        label, longer = chain * count // n_chains, 1.0
    else:
        parts = _parts(lengths, cut_every * tau, max_blocks)
        first = np.cumsum(parts) - parts
        label = first[chain] + index_in_chain(chain) * parts[chain] // lengths[chain]
        longer = _times_longer(lengths, cut_every * tau, max_blocks, min_blocks)
    record = ChainBlocks(n_chains, int(label[-1]) + 1, float(tau), len(chain) / float(tau))
    return Blocks(label, record, longer)


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


def block_sums(values: np.ndarray, label: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """Sums of ``values`` (n, k) over the blocks of ``label`` (n,), 0, 1, ... in any order: (blocks, k).

    With ``share`` (q, blocks) they are divided among q parts: (q, k).

    Examples
    --------
    >>> block_sums(np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]))
    array([2., 4.])
    """
    order = np.argsort(label, kind="stable")
    starts = np.flatnonzero(np.diff(label[order], prepend=-1))
    sums = np.add.reduceat(values[order], starts, axis=0)
    return sums if share is None else share @ sums


def block_standard_error(sums: np.ndarray) -> np.ndarray:
    """Standard error (...) of a total from its sums over q nearly independent blocks, (q, ...).

    Examples
    --------
    >>> block_standard_error(np.array([3.0, -3.0]))
    np.float64(6.0)
    """
    q = len(sums)
    return np.sqrt(q / max(q - 1, 1) * np.sum(sums**2, axis=0))


def decorrelated(values: np.ndarray) -> np.ndarray:
    """Columns of `values` (n, k) centred, scaled and turned to unit covariance; constant ones are left out.

    With fewer than five rows per column the covariance is too rough, and columns are scaled only.
    """
    n, k = values.shape
    centred = values - values.mean(axis=0)
    spread = centred.std(axis=0)
    centred = centred[:, spread > 0] / spread[spread > 0]
    if not centred.shape[1]:
        return np.zeros((n, 1))
    if 5 * k > n:
        return centred
    eigenvalues, vectors = np.linalg.eigh(centred.T @ centred / n)
    kept = eigenvalues > 1e-8 * eigenvalues[-1]
    return centred @ (vectors[:, kept] / np.sqrt(eigenvalues[kept]))


def agreement(
    features: np.ndarray, chain: np.ndarray, rng: np.random.Generator, *, n_resamples: int = 999
) -> AgreementResult:
    """Test whether chains agree, and whether their beginnings agree with the rest.

    H0: the chains are stationary with one distribution. Long blocks are then nearly exchangeable, and
    permuting them gives the null distribution of

    ``sum_c |sum_{b in c} Y_b|^2 / m_c`` (a chain elsewhere) and ``sum_c |Y_c1|^2`` (burn-in left in),

    where Y_b is the sum of the whitened features over block b divided by the root of its length and m_c the
    number of blocks of chain c. A single chain is compared in quarters, and its first two blocks with the
    rest. The smaller of the two p-values is adjusted in the same permutations.

    Parameters
    ----------
    features : array (n, k)
        Functions of the draws, for instance Stein features with mean 0 under the target: scores s and
        x s + 1. These do not differ between well-separated modes, so that chains in different modes agree.
    chain : array (n,) of int
        The chain of each draw, 0, 1, ... in order; at least two draws each.
    rng : Generator
    n_resamples : int
        Number of random permutations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 2))
    >>> chain = np.repeat([0, 1, 2, 3], 250)
    >>> agreement(x, chain, rng).pvalue > 0.05
    True
    >>> found = agreement(x + (chain == 2)[:, None], chain, rng)
    >>> found.pvalue <= 0.01, found.odd_chain
    (True, 2)
    """
    white = decorrelated(features)
    # as for the sign flips, but two blocks per chain; more than 100 chains have too few draws each
    max_blocks = max(MAX_SIGN_BLOCKS, 2 * min(int(chain[-1]) + 1, 100))
    blocks = cut_blocks(_slowest(white, chain), chain, max_blocks=max_blocks)
    sums = block_sums(white, blocks.label) / np.sqrt(np.bincount(blocks.label))[:, None]
    owner = chain[np.flatnonzero(np.diff(blocks.label, prepend=-1))]
    first = np.diff(owner, prepend=-1) > 0
    if blocks.record.n_chains == 1:
        first[:2] = True  # one block of 20 would have no p-value below .05
        owner = np.arange(len(owner)) * 4 // len(owner)  # quarters
    groups = owner == np.unique(owner)[:, None]
    enough = blocks.enough and len(owner) >= 1.5 * len(groups)
    reason = blocks.remedy or "there are too few blocks per chain to compare"
    ranks = np.full((2, 1), np.nan)
    if enough:
        # p-values of both comparisons for the order of the blocks as it is, then for random ones
        order = np.tile(np.arange(len(owner)), (n_resamples + 1, 1))
        order[1:] = rng.permuted(order[1:], axis=1)
        gram = sums @ sums.T
        metric = (groups.T / groups.sum(axis=1)) @ groups  # 1 / m_c for pairs of blocks of one chain
        between = np.einsum("rab,ab->r", gram[order[:, :, None], order[:, None, :]], metric)
        ranks = np.stack([upper_ranks(between), upper_ranks(np.diag(gram)[order] @ first)])
    statistics = -ranks.min(axis=0)
    return AgreementResult(
        "agreement of the chains",
        float(statistics[0]),
        float(upper_ranks(statistics)[0]) if enough else np.nan,
        statistics[1:] if enough else None,
        n=len(features),
        dim=features.shape[1],
        warnings=() if enough else (cannot_tell(reason),),
        chains=blocks.record,
        between_pvalue=float(ranks[0, 0]),
        start_pvalue=float(ranks[1, 0]),
        odd_chain=int(np.argmax(np.sum((groups @ sums) ** 2, axis=1) / groups.sum(axis=1))),
    )


def _slowest(features: np.ndarray, chain: np.ndarray) -> float:
    """The largest autocorrelation time within chains, at most three times that of their second halves.

    Chains are centred one by one, and a transient is not allowed to pass for slowness: neither a chain
    elsewhere nor burn-in left in must hide by lengthening the blocks.
    """
    late = 2 * index_in_chain(chain) >= np.bincount(chain)[chain]
    of_late = time_within(features[late], chain[late], chain[late])
    return min(time_within(features, chain, chain), 3 * of_late)


def time_within(values: np.ndarray, label: np.ndarray, chain: np.ndarray) -> float:
    """Largest autocorrelation time of the columns of `values` less their means at each label 0, 1, ..."""
    means = block_sums(values, label) / np.bincount(label)[:, None]
    return float(np.max(autocorrelation_time(values - means[label], chain)))


def upper_ranks(statistics: np.ndarray) -> np.ndarray:
    """For each replicate the share of replicates that are at least as large, up to rounding."""
    tolerance = 1e-9 * np.max(np.abs(statistics), initial=0.0)
    ordered = np.sort(statistics)
    below = np.searchsorted(ordered, statistics - tolerance, side="left")
    return (len(statistics) - below) / len(statistics)
