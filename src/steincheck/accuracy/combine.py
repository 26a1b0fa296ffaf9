"""Moments over several modes from those within them, by the delta method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .intervals import Estimates, Moments


class Shares(NamedTuple):
    """Shares of the density at the modes."""

    share: np.ndarray  #: (M,)
    covariance: np.ndarray  #: (M, M)

    def among(self, kept: list[int]) -> Shares:
        """Shares of some modes among these."""
        part = self.share[kept]
        total = part.sum()
        slope = (np.eye(len(part)) - part[:, None] / total) / total
        return Shares(part / total, slope @ self.covariance[np.ix_(kept, kept)] @ slope.T)


def combine_modes(within: Sequence[Moments], shares: Shares) -> Moments:
    """m = sum w_k m_k and v = sum w_k (v_k + (m_k - m)^2), the latter as log sd.

    With c_k = v_k + (m_k - m)^2 - v and g_k = m_k - m::

        var(m) = g' Cov(w) g + sum w_k^2 var(m_k)
        var(v) = c' Cov(w) c + sum w_k^2 (var(v_k) + 4 g_k^2 var(m_k))

    Bounds of bias are combined in the same way as standard errors.
    """
    if len(within) == 1:
        return within[0]
    w = shares.share[:, None]
    means = Estimates(*(np.array(part) for part in zip(*(one.mean for one in within), strict=True)))
    logs = Estimates(*(np.array(part) for part in zip(*(one.log_sd for one in within), strict=True)))
    mean = np.sum(w * means.value, axis=0)
    g = means.value - mean
    variances = np.exp(2 * logs.value)
    variance = np.sum(w * (variances + g**2), axis=0)
    c = variances + g**2 - variance

    def between(h: np.ndarray) -> np.ndarray:
        return np.einsum("kq,kl,lq->q", h, shares.covariance, h)

    def within_mean(error: np.ndarray) -> np.ndarray:
        return np.sum((w * error) ** 2, axis=0)

    def within_variance(mean_error: np.ndarray, log_error: np.ndarray) -> np.ndarray:
        return np.sum(w**2 * ((2 * variances * log_error) ** 2 + (2 * g * mean_error) ** 2), axis=0)

    freedom = np.minimum(means.degrees_of_freedom, logs.degrees_of_freedom).min(axis=0)
    memory = np.where(w > 0, means.memory, 0).max(axis=0), np.where(w > 0, logs.memory, 0).max(axis=0)
    return Moments(
        Estimates(
            mean,
            np.sqrt(between(g) + within_mean(means.standard_error)),
            np.sqrt(within_mean(means.bias)),
            freedom,
            memory[0],
        ),
        Estimates(
            0.5 * np.log(variance),
            np.sqrt(between(c) + within_variance(means.standard_error, logs.standard_error)) / (2 * variance),
            np.sqrt(within_variance(means.bias, logs.bias)) / (2 * variance),
            freedom,
            memory[1],
        ),
    )
