"""Shares of the modes: those of the draws, and those that the density implies."""

from __future__ import annotations

import numpy as np

from ..result import ModeTable
from .orbits import Orbits

SHARPNESS = 1e-3  # of implied shares: what belongs to a mode is not defined more exactly
LEVEL = 0.05  # of the words about single modes (Bonferroni), and 1 minus the coverage of the intervals


def mode_table(
    found: Orbits, counts: np.ndarray, group: np.ndarray, locations: np.ndarray, words: tuple[str, ...]
) -> ModeTable:
    """Observed shares, and those the density implies, among the modes that exchange draws."""
    from scipy.special import expit, ndtri

    z, n = -ndtri(LEVEL / 2), counts.sum()
    observed = counts / n
    middle = (observed + z**2 / (2 * n)) / (1 + z**2 / n)  # Wilson's interval
    half = z / (1 + z**2 / n) * np.sqrt(observed * (1 - observed) / n + z**2 / (4 * n**2))
    main = np.flatnonzero(group == np.argmax(np.bincount(group, counts)))
    implied, interval = np.full(len(counts), np.nan), np.full((len(counts), 2), np.nan)
    if len(main) > 1:
        rows = np.isin(found.own, main)
        own = np.searchsorted(main, found.own[rows])
        log_share, error = implied_shares(found.log_weight[np.ix_(rows, main)], counts[main], own)
        share = np.minimum(np.exp(log_share), 1 - 1e-12)
        logit, width = log_share - np.log1p(-share), z * error / (1 - share)
        implied[main] = share
        ends = expit(np.stack([logit - width, logit + width], axis=1))
        reach = np.hypot(ends - share[:, None], SHARPNESS)
        interval[main] = np.clip(share[:, None] + reach * [-1, 1], 0, 1)
    intervals = np.clip(np.stack([middle - half, middle + half], axis=1), 0, 1)
    return ModeTable(locations, counts, observed, implied, intervals, interval, words)


def implied_shares(
    log_weight: np.ndarray, counts: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log shares of the density at M modes and their standard errors, from draws with any weights.

    Bennett's estimate for many states: the tilts t_k of the weights of the modes with draws maximise the
    likelihood of the modes of the draws given their orbits, with chances proportional to t_k w_k. The mass of
    mode k, with draws or without, is then the mean of w_k / sum_l t_l w_l. Errors by influence functions.
    """
    n, n_modes, seen = len(own), len(counts), counts > 0
    weight = np.exp(np.minimum(log_weight - log_weight[:, seen].max(axis=1, keepdims=True), 700))
    tilt = seen.astype(float)
    for _ in range(50):
        ratio = weight / (weight @ tilt)[:, None]
        gram, total = ratio.T @ ratio, ratio.sum(axis=0)
        information = np.diag(tilt * total) - tilt[:, None] * gram * tilt
        inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
        step = inverse @ (counts - tilt * total)
        if np.abs(step).max() < 1e-8:
            break
        tilt *= np.exp(np.clip(step, -2, 2))
    share = total / total.sum()
    # The influence of a draw is linear in its ratios, the indicators of its mode and 1: products suffice.
    cross = np.stack([np.bincount(own, column, minlength=n_modes) for column in ratio.T])
    moments = np.block(
        [[gram, cross, total[:, None]], [cross.T, np.diag(counts), counts[:, None]], [total, counts, n]]
    )
    tilted = n * inverse @ (tilt[:, None] * gram / total)
    linear = np.concatenate([np.diag(n / total) + tilt[:, None] * tilted, -tilted, -np.ones((1, n_modes))])
    linear -= (linear @ share)[:, None]
    variance = np.einsum("ik,ij,jk->k", linear, moments, linear) / n**2
    return np.log(share), np.sqrt(np.maximum(variance, 0))
