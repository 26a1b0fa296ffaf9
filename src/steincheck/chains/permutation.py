"""Do the chains agree with each other, and their beginnings with the rest? A permutation test of blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._series import index_in_chain
from .._whitening import decorrelated
from ..result import AgreementResult, cannot_tell
from .blocks import MAX_SIGN_BLOCKS, Blocks, autocorrelation_time, block_sums, cut_blocks


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
    if blocks.n_chains == 1:
        first[:2] = True  # one block of 20 would have no p-value below .05
        owner = np.arange(blocks.n_blocks) * 4 // blocks.n_blocks  # quarters
    groups = owner == np.unique(owner)[:, None]
    odd_chain = int(np.argmax(np.sum((groups @ sums) ** 2, axis=1) / groups.sum(axis=1)))
    if not blocks.enough or blocks.n_blocks < 1.5 * len(groups):
        reason = blocks.remedy or "there are too few blocks per chain to compare"
        untested = _as_result(features, blocks, odd_chain, np.nan, None, np.full(2, np.nan))
        return replace(untested, warnings=(cannot_tell(reason),))
    ranks = _permutation_ranks(sums @ sums.T, groups, first, rng, n_resamples)
    statistics = -ranks.min(axis=0)
    return _as_result(features, blocks, odd_chain, float(upper_ranks(statistics)[0]), statistics, ranks[:, 0])


def _as_result(
    features: np.ndarray,
    blocks: Blocks,
    odd_chain: int,
    pvalue: float,
    statistics: np.ndarray | None,
    pvalues: np.ndarray,
) -> AgreementResult:
    """The record; `statistics` are those of the observed order and of all permutations."""
    return AgreementResult(
        "agreement of the chains",
        np.nan if statistics is None else float(statistics[0]),
        pvalue,
        None if statistics is None else statistics[1:],
        *features.shape,
        chains=blocks.record,
        between_pvalue=float(pvalues[0]),
        start_pvalue=float(pvalues[1]),
        odd_chain=odd_chain,
    )


def _permutation_ranks(
    gram: np.ndarray,
    groups: np.ndarray,
    first: np.ndarray,
    rng: np.random.Generator,
    n_resamples: int,
) -> np.ndarray:
    """p-values of the comparisons (rows) for the order of the blocks as it is, then for random ones."""
    order = np.tile(np.arange(len(gram)), (n_resamples + 1, 1))
    order[1:] = rng.permuted(order[1:], axis=1)
    metric = (groups.T / groups.sum(axis=1)) @ groups  # 1 / m_c for pairs of blocks of one chain
    between = np.einsum("rab,ab->r", gram[order[:, :, None], order[:, None, :]], metric)
    return np.stack([upper_ranks(between), upper_ranks(np.diag(gram)[order] @ first)])


def _slowest(features: np.ndarray, chain: np.ndarray) -> float:
    """The largest autocorrelation time within chains, at most three times that of their second halves.

    Chains are centred one by one, and a transient is not allowed to pass for slowness: neither a chain
    elsewhere nor burn-in left in must hide by lengthening the blocks.
    """
    late = 2 * index_in_chain(chain) >= np.bincount(chain)[chain]
    whole, half = (
        float(np.max(autocorrelation_time(part - _chain_means(part, label)[label], label)))
        for part, label in ((features, chain), (features[late], chain[late]))
    )
    return min(whole, 3 * half)


def upper_ranks(statistics: np.ndarray) -> np.ndarray:
    """For each replicate the share of replicates that are at least as large, up to rounding."""
    tolerance = 1e-9 * np.max(np.abs(statistics), initial=0.0)
    ordered = np.sort(statistics)
    below = np.searchsorted(ordered, statistics - tolerance, side="left")
    return (len(statistics) - below) / len(statistics)


def _chain_means(values: np.ndarray, chain: np.ndarray) -> np.ndarray:
    return block_sums(values, chain) / np.bincount(chain)[:, None]
