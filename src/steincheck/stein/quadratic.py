"""U-statistics of the Stein kernel and their replicates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._whitening import whitened
from ..target import Target, score_at
from .bootstrap import normaliser
from .kernels import Kernel, median_squared_distance, takes_bandwidth
from .resampling import Resampling
from .tiles import quadratic_forms, sums_of_block_pairs


def choose_bandwidth(
    x: np.ndarray, kernel: Kernel, whiten: np.ndarray | None, rng: np.random.Generator
) -> float | None:
    """The kernel's own bandwidth, or the median squared distance of the draws `x`; None if it takes none."""
    own = getattr(kernel, "bandwidth", None)
    if own is not None:
        return float(own)
    return median_squared_distance(whitened(x, whiten), rng) if takes_bandwidth(kernel) else None


class Replicated(NamedTuple):
    """U-statistics of the summed matrix of a stack of samples and their replicates, per bandwidth."""

    statistics: np.ndarray  #: (K,)
    replicates: np.ndarray  #: (K, B)
    parts: np.ndarray | None  #: (K, J) contribution of each sample, if asked for


def replicated_statistics(
    samples: np.ndarray,
    scores: np.ndarray,
    kernel: Kernel,
    bandwidths: Any,
    resampled: Resampling,
    *,
    parts: bool = False,
) -> Replicated:
    """Statistics and replicates of samples (J, n, d) of the same draws, in whitened coordinates.

    With blocks, pairs of draws of one block are left out: signs of blocks do not change their sum.
    """
    weights = resampled.weights
    if resampled.block is None:
        n = samples.shape[1]
        forms = quadratic_forms(samples, scores, kernel, bandwidths, weights, row_sums=parts)
        each = None if forms.row_sums is None else forms.row_sums.sum(axis=2) / (n * (n - 1))
        return Replicated(forms.total / (n * (n - 1)), forms.replicates / normaliser(weights), each)
    block = resampled.block
    table = sums_of_block_pairs(samples, scores, kernel, bandwidths, block).table
    return flip_signs(table, np.bincount(block), weights)


def flip_signs(table: np.ndarray, sizes: np.ndarray, signs: np.ndarray) -> Replicated:
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
    return Replicated(each.sum(axis=1), np.array(replicates), each)


def scores_of_moved(target: Target, x: np.ndarray, scores: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Scores (J, n, d) at samples of which most draws may be those of `x`, whose scores are known."""
    moved = np.any(samples != x, axis=2)
    out = np.repeat(scores[None], len(samples), axis=0)
    if moved.any():
        out[moved] = score_at(target, samples[moved])
    return out
