"""Means and log standard deviations of functions of the states, with standard errors and bias terms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .features import Features
from .regression import residuals


class Estimates(NamedTuple):
    """One number per function."""

    value: np.ndarray
    standard_error: np.ndarray
    bias: np.ndarray  #: bound of what the walkers have not yet forgotten: sqrt(drift^2 + gap^2)
    degrees_of_freedom: np.ndarray
    memory: np.ndarray  #: correlation over walkers between the halves of the window, 0 to .95

    @property
    def half_width(self) -> np.ndarray:
        """Of the 95 % interval."""
        return np.hypot(special.stdtrit(self.degrees_of_freedom, 0.975) * self.standard_error, self.bias)


class Moments(NamedTuple):
    """Means and log standard deviations."""

    mean: Estimates
    log_sd: Estimates


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
    q = g.shape[1]
    left = residuals(features, np.concatenate([g, g**2], axis=1), n_walkers)
    best = left.mean(axis=1).var(axis=1).argmin(axis=0)
    chosen = np.take_along_axis(left, best[None, None, None], axis=0)[0]
    plain = _influences(left[0][..., :q], left[0][..., q:])
    corrected = _influences(chosen[..., :q], chosen[..., q:])
    positive = np.isfinite(corrected[1].value)
    corrected = tuple(
        _Influences(np.where(positive, c.value, p.value), np.where(positive, c.influence, p.influence))
        for c, p in zip(corrected, plain, strict=True)
    )
    mean, log_sd = (_estimates(c, p, ordered) for c, p in zip(corrected, plain, strict=True))
    mean = mean._replace(
        value=centre + scale * mean.value,
        standard_error=scale * mean.standard_error,
        bias=scale * mean.bias,
    )
    return Moments(mean, log_sd._replace(value=log_sd.value + np.log(scale)))


def _influences(first: np.ndarray, second: np.ndarray) -> tuple[_Influences, _Influences]:
    """Of mean and log sd, from residual means (2, m, q) of the function and of its square."""
    mean, square = first.mean(axis=(0, 1)), second.mean(axis=(0, 1))
    variance = square - mean**2
    a = first - mean
    with np.errstate(invalid="ignore", divide="ignore"):
        b = (second - square - 2 * mean * a) / (2 * variance)
        log_sd = 0.5 * np.log(variance)
    return _Influences(mean, a), _Influences(log_sd, b)


def _estimates(corrected: _Influences, plain: _Influences, ordered: bool) -> Estimates:
    """The interval's parts: noise between walkers, drift within the window, and what the control moved."""
    early, late = corrected.influence
    whole = corrected.influence.mean(axis=0)
    error, freedom = standard_error(whole, ordered)
    spread = np.maximum(early.std(axis=0) * late.std(axis=0), 1e-300)
    memory = np.clip(np.mean((early - early.mean(0)) * (late - late.mean(0)), axis=0) / spread, 0, 0.95)
    drift = np.abs(np.mean(late - early, axis=0)) * (1 + memory) / (2 * (1 - memory))
    noise, _ = standard_error(plain.influence.mean(axis=0) - whole, False)
    gap = np.maximum(np.abs(plain.value - corrected.value) - 2 * noise, 0)
    return Estimates(corrected.value, error, np.hypot(drift, gap), freedom, memory)


def standard_error(influence: np.ndarray, ordered: bool, n_groups: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors (q,) of means over walkers (m, q) and their degrees of freedom.

    With `ordered`, those of `n_groups` groups of neighbours where these give the longer interval.
    """
    m = len(influence)
    error = influence.std(axis=0, ddof=1) / np.sqrt(m)
    freedom = np.full(error.shape, m - 1.0)
    if not ordered or m < 2 * n_groups:
        return error, freedom
    groups = np.array([part.mean(axis=0) for part in np.array_split(influence, n_groups)])
    coarse = groups.std(axis=0, ddof=1) / np.sqrt(n_groups)
    quantiles = special.stdtrit([m - 1.0, n_groups - 1.0], 0.975)
    longer = quantiles[1] * coarse > quantiles[0] * error
    return np.where(longer, coarse, error), np.where(longer, n_groups - 1.0, freedom)
