"""The largest studentised mean of many features: its null distribution, and step-down adjusted p-values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ..stein.bootstrap import multinomial, wild

OWN_TIME = 0.25  # weight of a feature's own autocorrelation time beside that of its kind
REPLICATES_AT_ONCE = 100
MIN_REACH = 0.9  # of replicates, relative to a Gaussian, that is believed
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
    first_part: np.ndarray,
    n_resamples: int,
    rng: np.random.Generator,
    *,
    squares: np.ndarray | None = None,
) -> Maximum:
    """Test that all columns of the block sums (q, F) have mean zero; `kinds` (F,) numbers their kinds.

    Those of `first_part` (F,) get half of the level, the others the other half: many columns in one part do
    not raise the threshold of the other.

    Blocks are resampled, as single draws with skew features must be. A few long blocks of dependent draws get
    random signs instead, and `squares` (F,) are then the sums of squares of the features over single draws:
    each sum is divided by a standard error that is steadied by those of its kind, see `_steadied`.

    A column without spread is never seen under H0 unless it is zero: its t is infinite, or 0. Positive and
    negative t of each kind are divided by how much farther their replicates reach than a Gaussian would:
    otherwise one kind with skew features raises the threshold of all.
    """
    flips = squares is not None
    t, columns = _studentise(sums)
    if squares is not None:
        columns = _steadied(sums, squares, kinds)
    draw = wild if flips else multinomial
    replicates = np.concatenate(
        [
            _replicates(columns, draw(len(sums), min(REPLICATES_AT_ONCE, n_resamples - start), rng), flips)
            for start in range(0, n_resamples, REPLICATES_AT_ONCE)
        ]
    )
    balanced = np.where(np.isfinite(t) & flips, columns.sum(axis=0), t)
    for kind in np.unique(kinds):
        one = np.flatnonzero(kinds == kind)
        reach = _reach(replicates[:, one], len(t))
        balanced[one] /= np.where(t[one] > 0, *reach)
        replicates[:, one] /= np.where(replicates[:, one] > 0, *reach)
    handicap = _handicap(np.abs(replicates), first_part)
    replicates /= handicap
    size = np.abs(balanced) / handicap
    order = np.argsort(-size, kind="stable")
    largest = np.maximum.accumulate(np.abs(replicates[:, order[::-1]]), axis=1)[:, ::-1]
    reached = np.sum(largest >= size[order] * (1 - 1e-5), axis=0)
    adjusted = np.empty(len(t))
    adjusted[order] = np.maximum.accumulate((1 + reached) / (1 + n_resamples))
    return Maximum(t, adjusted, float(size.max()), largest[:, 0].astype(float))


def _handicap(sizes: np.ndarray, first_part: np.ndarray) -> np.ndarray:
    """Divisors (F,) that give the largest |t| of either part the same threshold, that of the first part.

    At the level of 2.5 % for each, if their largest replicates (B, F) are those of H0.
    """
    thresholds = [
        np.quantile(sizes[:, part].max(axis=1, initial=0.0), 0.975) for part in (first_part, ~first_part)
    ]
    ratio = thresholds[1] / thresholds[0] if min(thresholds) > 0 else 1.0
    return np.where(first_part, 1.0, ratio).astype(np.float32)


def _studentise(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t of each column, and the centred columns at unit mean square."""
    size = np.abs(sums).max(axis=0)
    scaled = sums / np.where(size > 0, size, 1.0)
    mean = scaled.mean(axis=0)
    centred = scaled - mean
    sd = centred.std(axis=0)
    still = sd <= 1e-10
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.sqrt(len(sums) - 1) * mean / np.where(still, 0.0, sd)
    t = np.where(still & (np.abs(mean) <= 1e-10), 0.0, t)
    root = np.sqrt(np.mean(centred**2, axis=0))
    columns = centred / np.where(still | (root == 0), np.inf, root)
    return t, columns.astype(np.float32)


def _steadied(sums: np.ndarray, squares: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Block sums (q, F) in units of a standard error of the whole sum that no change of signs alters.

    The sum of squares of 20 block sums is a rough variance, and small by chance where the sums are skew and
    their mean is far off: the largest of many t would be too large too often. Its ratio to `squares`, the
    autocorrelation time of the feature, is averaged with the geometric mean over the features of its kind.
    """
    own = np.sum(sums**2, axis=0)
    known = (own > 0) & (squares > 0)
    log_time = np.log(np.where(known, own, 1.0) / np.where(known, squares, 1.0))
    variance = OWN_TIME * own
    for kind in np.unique(kinds):
        one = np.flatnonzero((kinds == kind) & known)
        if len(one):
            variance[one] += (1 - OWN_TIME) * squares[one] * np.exp(log_time[one].mean())
    return (sums / np.where(known, np.sqrt(variance), np.inf)).astype(np.float32)


def _replicates(columns: np.ndarray, w: np.ndarray, flips: bool) -> np.ndarray:
    """For each row of weights the sum of each column, or its t with a standard error of its own, (B, F)."""
    q = len(columns)
    total = w.astype(np.float32) @ columns
    if flips:
        return total
    square = (w + np.int8(1)).astype(np.float32) @ columns**2
    rest = np.maximum(square - total**2 / q, MIN_SPREAD * q)
    return total / np.sqrt(rest) * np.float32(np.sqrt((q - 1) / q))


def _reach(replicates: np.ndarray, n_columns: int) -> tuple[float, float]:
    """Far quantiles of positive and of negative replicates, over those of a Gaussian."""
    level = max(0.05 / n_columns, 10 / replicates.size)
    gaussian = -special.ndtri(level)
    ends = np.quantile(replicates, [1 - level, level])
    return max(ends[0] / gaussian, MIN_REACH), max(-ends[1] / gaussian, MIN_REACH)
