"""Numbers in order: ranks as normal quantiles, autocovariances, Geyer's sequence, places within chains."""

from __future__ import annotations

import numpy as np
from scipy import special


def normal_scores(values: np.ndarray, *, offset: float = 0.5) -> np.ndarray:
    """Normal quantiles of (rank - offset) / (n + 1 - 2 offset) among all values; equal ones share their mean.

    By hand, as `scipy.stats` is slow to import.

    Examples
    --------
    >>> normal_scores(np.array([3.0, 9.0, 3.0, 5.0])).round(2)
    array([-0.67,  1.15, -0.67,  0.32])
    """
    _, place, count = np.unique(values.ravel(), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    return special.ndtri((ranks - offset) / (values.size + 1 - 2 * offset)).reshape(values.shape)


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


def index_in_chain(chain: np.ndarray) -> np.ndarray:
    """The place of each draw within its chain, from 0; `chain` (n,) are labels in ascending order.

    Examples
    --------
    >>> index_in_chain(np.array([0, 0, 0, 1, 1]))
    array([0, 1, 2, 0, 1])
    """
    return np.arange(len(chain)) - np.searchsorted(chain, chain)
