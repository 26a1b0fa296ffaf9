"""Bulk and tail effective sample size and split R-hat, as ArviZ defines them: context, not tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._whitening import normal_scores
from .blocks import initial_monotone, lagged_products, pair_sums


@dataclass(frozen=True, eq=False)
class Convergence:
    """What is commonly reported about chains, one number per coordinate.

    Attributes
    ----------
    ess_bulk : array (d,)
        Effective sample size for the centre of the distribution.
    ess_tail : array (d,)
        Effective sample size for the 5 % and 95 % quantiles, the smaller one.
    rhat : array (d,)
        Rank-normalised split R-hat: the larger one for location and spread.
    """

    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray


def convergence(values: np.ndarray, chain: np.ndarray) -> Convergence:
    """Bulk and tail ESS and rank-normalised split R-hat of every coordinate of `values` (n, d).

    The definitions are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021),
    "Rank-normalization, folding, and localization", and the numbers those of ArviZ; for a single chain, where
    ArviZ has no R-hat, the halves of the chain are compared. Chains of unequal lengths are truncated to the
    shortest. NaN where a chain has fewer than four draws.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(400, 1))
    >>> found = convergence(x, np.repeat([0, 1], 200))
    >>> [round(float(part[0]), 3) for part in (found.ess_bulk, found.ess_tail, found.rhat)]
    [412.675, 407.213, 1.0]
    """
    lengths = np.bincount(chain)
    shortest = int(lengths.min())
    if shortest < 4:  # halves of two draws are the least that have a variance
        missing = np.full(values.shape[1], np.nan)
        return Convergence(missing, missing, missing)
    starts = np.cumsum(lengths) - lengths
    rows = starts[:, None] + np.arange(shortest)
    columns = [values[rows, k] for k in range(values.shape[1])]
    return Convergence(
        np.array([_ess(normal_scores(_halves(column), offset=3 / 8)) for column in columns]),
        np.array([_ess_tail(column) for column in columns]),
        np.array([_rhat_rank(_halves(column)) for column in columns]),
    )


def _halves(x: np.ndarray) -> np.ndarray:
    """Chains (C, N) cut into halves (2C, N // 2); the middle draw of an odd number is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _rhat_rank(x: np.ndarray) -> float:
    if np.ptp(x) == 0:
        return np.nan
    folded = np.abs(x - np.median(x))
    return max(_rhat(normal_scores(part, offset=3 / 8)) for part in (x, folded))


def _rhat(x: np.ndarray) -> float:
    n = x.shape[1]
    within = x.var(axis=1, ddof=1).mean()
    between = n * x.mean(axis=1).var(ddof=1)
    return float(np.sqrt((between / within + n - 1) / n)) if within > 0 else np.inf


def _ess_tail(x: np.ndarray) -> float:
    low, high = np.quantile(x, [0.05, 0.95])
    return min(_ess(_halves((x <= low).astype(float))), _ess(_halves((x <= high).astype(float))))


def _ess(x: np.ndarray) -> float:
    """Effective sample size of chains (C, N) by Geyer's initial monotone sequence of their joint ACF."""
    if np.ptp(x) < np.finfo(float).resolution:
        return float(x.size)
    n_chains, n = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    covariance = lagged_products(centred) / x.size
    variance = covariance[0] * n / (n - 1)
    total = covariance[0] + (x.mean(axis=1).var(ddof=1) if n_chains > 1 else 0.0)
    rho = 1 - (variance - covariance) / total
    rho[0] = 1.0
    pairs = pair_sums(rho)
    initial = initial_monotone(pairs)
    last = min(len(initial), (n - 1) // 2 - 1)  # the pair of which half is used
    tau = 2 * initial[:last].sum() - 1
    if rho[2 * last] > 0 or pairs[last] >= 0:
        tau += rho[2 * last]
    return float(x.size / max(tau, 1 / np.log10(x.size)))
