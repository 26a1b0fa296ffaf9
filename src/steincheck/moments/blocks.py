"""Blocks of draws whose sums are resampled: of chains, or of independent draws in random order."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._series import index_in_chain
from .._whitening import average_root, whitened, whitened_scores
from ..chains.blocks import Blocks, autocorrelation_time, cut_blocks
from ..result import Modes
from ..stein.kernels import IMQ, median_squared_distance
from ..stein.quadratic import chain_blocks

MAX_RESAMPLED_BLOCKS = 2000  # a limit of time: more draws are summed over blocks of 2, 4, 8, ... first
# Of chains, see the rows of experiments/chain_study.py. Blocks are cut in halves that are resampled; fewer
# than 16 have replicates too heavy in the tails to reject anything; halves of a block of 6 autocorrelation
# times share a twelfth of its variance.
MAX_CHAIN_BLOCKS = 50
MIN_CHAIN_BLOCKS = 16
TIMES_PER_CHAIN_BLOCK = 6


class ResampledBlocks(NamedTuple):
    """The block of each draw."""

    label: np.ndarray  # (n,) 0, 1, ...
    halves: bool  # of blocks of dependent draws: 2 b and 2 b + 1 are neighbours


def resampled_blocks(n: int, blocks: Blocks | None, rng: np.random.Generator) -> ResampledBlocks:
    """Halves of the `blocks` of chains; independent draws one by one, many in random groups."""
    if blocks is not None:
        lengths = np.bincount(blocks.label)
        if lengths.min() < 2:
            return ResampledBlocks(blocks.label, halves=False)
        second = 2 * index_in_chain(blocks.label) >= lengths[blocks.label]
        return ResampledBlocks(2 * blocks.label + second, halves=True)
    size = 1 << max(0, int(np.ceil(np.log2(n / MAX_RESAMPLED_BLOCKS))))
    order = np.arange(n) if size == 1 else rng.permutation(n)  # draws may have been sorted
    return ResampledBlocks(order // size, halves=False)


def blocks_of_chains(
    x: np.ndarray, scores: np.ndarray, modes: Modes, chain: np.ndarray | None
) -> Blocks | None:
    """Blocks of chains, long compared with the autocorrelation times of all moments; None without chains."""
    if chain is None:
        return None
    whiten = average_root(modes.covariances)
    z = whitened(x, whiten)
    slopes = whitened_scores(scores, whiten)
    width = median_squared_distance(z[:: -(-len(z) // 1000)])
    blocks = chain_blocks(chain, [(z[None], slopes[None])], IMQ(), width * np.array([0.25, 1.0, 4.0]))
    return moment_blocks(blocks, plain_features(x, scores, whiten), chain)


def plain_features(x: np.ndarray, scores: np.ndarray, whiten: np.ndarray) -> np.ndarray:
    """t and z t + 1 (n, 2 d) in whitened coordinates: Stein features of mean 0 within every mode."""
    t = whitened_scores(scores, whiten)
    z = whitened(x - np.median(x, axis=0), whiten)
    return np.concatenate([t, z * t + 1], axis=1)


def moment_blocks(blocks: Blocks, features: np.ndarray, chain: np.ndarray) -> Blocks:
    """More and shorter blocks than those of a kernel test: they are resampled, not given signs.

    The slowest feature counts: the largest t may be about a single coordinate, which moves slowly while a
    kernel sees all of them at once.
    """
    tau = max(blocks.autocorrelation_time, float(np.max(autocorrelation_time(features, chain))))
    cut = cut_blocks(
        tau, chain, max_blocks=MAX_CHAIN_BLOCKS, min_blocks=MIN_CHAIN_BLOCKS, cut_every=TIMES_PER_CHAIN_BLOCK
    )
    return replace(cut, stuck=blocks.stuck)
