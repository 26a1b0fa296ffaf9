"""The largest studentised mean of many features: its null distribution, and step-down adjusted p-values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ..stein.bootstrap import multinomial

MIN_SPREAD = 1e-5  # share of the sum of squares left to a replicate's variance


class Maximum(NamedTuple):
    """Studentised means, their adjusted p-values, and replicates of the largest."""

    t: np.ndarray  # (F,)
    adjusted: np.ndarray  # (F,)
    statistic: float
    null: np.ndarray  # (B,)


def max_t(
    sums: np.ndarray,
    kinds: np.ndarray,
    plain: np.ndarray,
    n_resamples: int,
    rng: np.random.Generator,
    *,
    halves: bool = False,
) -> Maximum:
    """Test that all columns of the block sums (q, F) have mean zero; `kinds` (F,) numbers their kinds.

    One statistic: the largest |t| / (reach times handicap). The reach, of positive and of negative t of each
    kind, is how much farther their replicates reach than a Gaussian would: otherwise one kind with skew
    features raises the threshold of all. The handicap depends on numbers of columns only: many that are not
    `plain` (F,) do not raise the threshold of those that are.

    Blocks are resampled. If they are `halves` of blocks of dependent draws, 2 b and 2 b + 1 are neighbours,
    and every t is divided by a factor for the dependence between them, see `_standard_error_factor`. A column
    without spread is never seen under H0 unless it is zero: its t is infinite, or 0.
    """
    t, columns = _studentised(sums, kinds, halves=halves)
    replicates = _replicates(columns, n_resamples, rng)
    # the handicap: the ratio of two-sided thresholds at 2.5 % for as many independent Gaussians
    thresholds = -special.ndtri(0.0125 / np.maximum([plain.sum(), np.sum(~plain)], 1))
    divisor = np.where(plain, 1.0, thresholds[1] / thresholds[0]).astype(np.float32)
    for kind in np.unique(kinds):
        one = np.flatnonzero(kinds == kind)
        # farther quantiles would fit the noise; shorter tails than .9 of a Gaussian's are not believed
        ends = np.quantile(replicates[:, one], [0.98, 0.02]) * [1, -1] / -special.ndtri(0.02)
        positive, negative = np.maximum(ends, 0.9)
        replicates[:, one] /= divisor[one] * np.where(replicates[:, one] > 0, positive, negative)
        divisor[one] *= np.where(t[one] > 0, positive, negative)
    size = np.abs(t) / divisor
    order = np.argsort(-size, kind="stable")
    largest = np.maximum.accumulate(np.abs(replicates[:, order[::-1]]), axis=1)[:, ::-1]
    reached = np.sum(largest >= size[order] * (1 - 1e-5), axis=0)  # replicates are in single precision
    adjusted = np.empty(len(t))
    adjusted[order] = np.maximum.accumulate((1 + reached) / (1 + n_resamples))
    return Maximum(t, adjusted, float(size.max()), largest[:, 0].astype(float))


def _studentised(sums: np.ndarray, kinds: np.ndarray, *, halves: bool) -> tuple[np.ndarray, np.ndarray]:
    """t of each column of block sums as in `max_t`, and the centred columns at unit mean square."""
    size = np.abs(sums).max(axis=0)
    scaled = sums / np.where(size > 0, size, 1.0)
    mean = scaled.mean(axis=0)
    centred = scaled - mean
    sd = centred.std(axis=0)
    still = sd <= 1e-10
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.sqrt(len(sums) - 1) * mean / np.where(still, 0.0, sd)
    t = np.where(still & (np.abs(mean) <= 1e-10), 0.0, t)
    columns = (centred / np.where(still, np.inf, sd)).astype(np.float32)
    return t / _standard_error_factor(columns, kinds) if halves else t, columns


def _standard_error_factor(columns: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """How much larger standard errors (F,) are than those by half blocks, at least 1.

    Half a block ends where its neighbour begins, and what they share is lost to the sum of squares over
    halves, in proportion to the number of cuts. Without any cut the variance would be twice that by whole
    blocks less that by halves (the lugsail estimate). The ratio of the two is averaged over the features of
    a kind, whose dependence is alike: that of a single feature from a few dozen blocks is too rough.
    """
    wholes = columns[::2] + columns[1::2]
    squares = np.sum(columns**2, axis=0)
    known = squares > 0
    log_ratio = np.log(np.maximum(np.sum(wholes**2, axis=0)[known] / squares[known], MIN_SPREAD))
    factor = np.ones(len(kinds))
    for kind in np.unique(kinds[known]):
        ratio = np.exp(log_ratio[kinds[known] == kind].mean())
        factor[kinds == kind] = np.sqrt(max(1.0, 2 * ratio - 1))
    return factor


def _replicates(columns: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """For each resample of the blocks the t of each column, with a standard error of its own, (B, F)."""
    q = len(columns)
    replicates = np.empty((n_resamples, columns.shape[1]), dtype=np.float32)
    for part in np.split(replicates, range(100, n_resamples, 100)):  # of q weights each
        w = multinomial(q, len(part), rng)
        total = w.astype(np.float32) @ columns
        square = (w + np.int8(1)).astype(np.float32) @ columns**2
        rest = np.maximum(square - total**2 / q, MIN_SPREAD * q)
        part[:] = total / np.sqrt(rest) * np.float32(np.sqrt((q - 1) / q))
    return replicates
