"""The largest studentised mean of many features: its null distribution, and step-down adjusted p-values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..stein.bootstrap import multinomial, wild

FEW_BLOCKS = 100  # up to which signs are flipped: a multinomial sample of few blocks leaves too many out
REPLICATES_AT_ONCE = 100
SMALLEST_SPREAD = 1e-5  # share of the sum of squares left to a replicate's variance


class Maximum(NamedTuple):
    """Studentised means, their adjusted p-values, and replicates of the largest."""

    t: np.ndarray  # (F,)
    adjusted: np.ndarray  # (F,)
    null: np.ndarray  # (B,)


def max_t(sums: np.ndarray, n_resamples: int, rng: np.random.Generator) -> Maximum:
    """Test that all columns of the block sums (q, F) have mean zero.

    A column without spread is never seen under H0 unless it is zero: its t is infinite, or 0.
    """
    size = np.abs(sums).max(axis=0)
    scaled = sums / np.where(size > 0, size, 1.0)
    mean = scaled.mean(axis=0)
    centred = scaled - mean
    sd = centred.std(axis=0)
    still = sd <= 1e-10 * np.abs(scaled).max(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.sqrt(len(sums) - 1) * mean / np.where(still, 0.0, sd)
    t = np.where(still & (np.abs(mean) < 1e-10), 0.0, t)
    order = np.argsort(-np.abs(t), kind="stable")
    flips = len(sums) <= FEW_BLOCKS
    around = scaled if flips else centred
    root = np.sqrt(np.mean(around**2, axis=0))
    columns = (around / np.where(still | (root == 0), np.inf, root))[:, order].astype(np.float32)
    weights = wild if flips else multinomial
    reached = np.zeros(len(t))
    null = []
    for start in range(0, n_resamples, REPLICATES_AT_ONCE):
        count = min(REPLICATES_AT_ONCE, n_resamples - start)
        w = weights(len(sums), count, rng)
        largest = _replicates(columns, w, flips)
        reached += np.sum(largest >= np.abs(t[order]) * (1 - 1e-6), axis=0)
        null.append(largest[:, 0])
    adjusted = np.empty(len(t))
    adjusted[order] = np.maximum.accumulate((1 + reached) / (1 + n_resamples))
    return Maximum(t, adjusted, np.concatenate(null))


def _replicates(columns: np.ndarray, w: np.ndarray, flips: bool) -> np.ndarray:
    """For each row of weights the running maximum of |t*| from the last column to the first, (B, F)."""
    q = len(columns)
    total = w.astype(np.float32) @ columns
    if flips:
        square = np.float32(q)
    else:
        square = (w + np.int8(1)).astype(np.float32) @ columns**2
    rest = square - total**2 / q
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(total) / np.sqrt(np.maximum(rest, SMALLEST_SPREAD * q)) * np.sqrt((q - 1) / q)
    return np.maximum.accumulate(t[:, ::-1], axis=1)[:, ::-1]
