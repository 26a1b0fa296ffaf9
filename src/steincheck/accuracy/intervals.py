"""Means and log standard deviations of functionals, with standard errors and bounds of bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from ..result import Estimate, ModeTable
from .control import Features, residuals


class Moments(NamedTuple):
    """Means and log standard deviations (q,) of functionals."""

    mean: Estimate
    log_sd: Estimate
    memory: np.ndarray  #: correlation over walkers between the halves of the window, the larger of both


class Shares(NamedTuple):
    """Shares of the density at the modes."""

    share: np.ndarray  #: (M,)
    covariance: np.ndarray  #: (M, M)

    @classmethod
    def of(cls, table: ModeTable) -> Shares:
        """The shares that the density implies."""
        return cls(table.implied, table.implied_covariance)

    def among(self, kept: list[int]) -> Shares:
        """Shares of some modes among these."""
        part = self.share[kept]
        slope = (np.eye(len(part)) - part[:, None] / part.sum()) / part.sum()
        return Shares(part / part.sum(), slope @ self.covariance[np.ix_(kept, kept)] @ slope.T)


class _Influences(NamedTuple):
    """Estimates (q,) and the influences (2, m, q) of halves of walkers on them."""

    value: np.ndarray
    influence: np.ndarray


def estimate_moments(values: np.ndarray, features: Features, n_walkers: int, *, ordered: bool) -> Moments:
    """Moments of the columns of values (T m, q) over a window.

    Per column and power the order of control variates is the one whose walker means vary least. With
    `ordered`, walkers that started at neighbouring draws of chains may be dependent.
    """
    centre, scale = values.mean(axis=0), values.std(axis=0)
    g = (values - centre) / scale
    left = residuals(features, np.concatenate([g, g**2], axis=1), n_walkers)
    best = left.mean(axis=1).var(axis=1).argmin(axis=0)
    chosen = np.take_along_axis(left, best[None, None, None], axis=0)[0]
    usable = np.isfinite(_influences(chosen)[1].value)  # else the variance is not positive
    chosen = np.where(np.tile(usable, 2), chosen, left[0])
    parts = zip(_influences(chosen), _influences(left[0]), strict=True)
    (mean, early), (log_sd, late) = (_estimate(corrected, plain, ordered) for corrected, plain in parts)
    mean = Estimate(centre + scale * mean.value, scale * mean.standard_error, scale * mean.bias, mean[3])
    return Moments(mean, log_sd._replace(value=log_sd.value + np.log(scale)), np.maximum(early, late))


def _influences(means: np.ndarray) -> tuple[_Influences, _Influences]:
    """Of mean and log sd, from residual means (2, m, 2 q) of functionals and of their squares."""
    first, second = np.split(means, 2, axis=2)
    mean, square = first.mean(axis=(0, 1)), second.mean(axis=(0, 1))
    variance = square - mean**2
    with np.errstate(invalid="ignore", divide="ignore"):
        influence = (second - square - 2 * mean * (first - mean)) / (2 * variance)
        return _Influences(mean, first - mean), _Influences(0.5 * np.log(variance), influence)


def _estimate(corrected: _Influences, plain: _Influences, ordered: bool) -> tuple[Estimate, np.ndarray]:
    """Noise between walkers, drift within the window, what the control moved; and the memory."""
    early, late = corrected.influence
    whole = corrected.influence.mean(axis=0)
    spread = np.maximum(early.std(axis=0) * late.std(axis=0), 1e-300)
    memory = np.clip(np.mean((early - early.mean(0)) * (late - late.mean(0)), axis=0) / spread, 0, 0.95)
    drift = np.abs(np.mean(late - early, axis=0)) * (1 + memory) / (2 * (1 - memory))
    noise, _ = standard_error(plain.influence.mean(axis=0) - whole, False)
    gap = np.maximum(np.abs(plain.value - corrected.value) - 2 * noise, 0)
    error, freedom = standard_error(whole, ordered)
    return Estimate(corrected.value, error, np.hypot(drift, gap), freedom), memory


def standard_error(influence: np.ndarray, ordered: bool, n_groups: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors (q,) of means over walkers (m, q), and their degrees of freedom.

    With `ordered`, those of groups of neighbours where these give the longer interval.
    """
    m = len(influence)
    error = influence.std(axis=0, ddof=1) / np.sqrt(m)
    if not ordered or m < 2 * n_groups:
        return error, np.full(error.shape, m - 1.0)
    groups = np.array([part.mean(axis=0) for part in np.array_split(influence, n_groups)])
    coarse = groups.std(axis=0, ddof=1) / np.sqrt(n_groups)
    fine_quantile, coarse_quantile = special.stdtrit([m - 1.0, n_groups - 1.0], 0.975)
    longer = coarse_quantile * coarse > fine_quantile * error
    return np.where(longer, coarse, error), np.where(longer, n_groups - 1.0, m - 1.0)


def combine_modes(within: Sequence[Moments], shares: Shares) -> Moments:
    """m = sum w_k m_k and v = sum w_k (v_k + (m_k - m)^2), the latter as log sd, by the delta method.

    With c_k = v_k + (m_k - m)^2 - v and g_k = m_k - m::

        var(m) = g' Cov(w) g + sum w_k^2 var(m_k)
        var(v) = c' Cov(w) c + sum w_k^2 (var(v_k) + 4 g_k^2 var(m_k))

    Bounds of bias are combined as standard errors are.
    """
    if len(within) == 1:
        return within[0]
    w = shares.share[:, None]
    mean = Estimate(*(np.array(part) for part in zip(*(one.mean for one in within), strict=True)))
    log_sd = Estimate(*(np.array(part) for part in zip(*(one.log_sd for one in within), strict=True)))
    total = np.sum(w * mean.value, axis=0)
    g, v = mean.value - total, np.exp(2 * log_sd.value)
    variance = np.sum(w * (v + g**2), axis=0)

    def combined(add: float, means: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors of mean and log sd, from those within modes; `add` 1 adds those of the shares."""
        of_mean = np.sum((w * means) ** 2, axis=0) + add * between(g)
        of_variance = np.sum((2 * w) ** 2 * ((v * logs) ** 2 + (g * means) ** 2), axis=0)
        return np.sqrt(of_mean), np.sqrt(of_variance + add * between(v + g**2 - variance)) / (2 * variance)

    def between(c: np.ndarray) -> np.ndarray:
        return np.einsum("kq,kl,lq->q", c, shares.covariance, c)

    error = combined(1.0, mean.standard_error, log_sd.standard_error)
    bias = combined(0.0, mean.bias, log_sd.bias)
    freedom = np.minimum(mean.degrees_of_freedom, log_sd.degrees_of_freedom).min(axis=0)
    memory = np.max([one.memory for one in within], axis=0)
    log_total = Estimate(0.5 * np.log(variance), error[1], bias[1], freedom)
    return Moments(Estimate(total, error[0], bias[0], freedom), log_total, memory)
