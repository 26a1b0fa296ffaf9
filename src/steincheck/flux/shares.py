"""Shares of the modes: those of the draws, those that the density implies, and importance weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ..chains.blocks import autocorrelation_time, block_sums, cut_blocks
from ..result import ImportanceWeights, ModeTable
from .orbits import Orbits

MODE_TABLE_LEVEL = 0.05  # of words about single modes in `flux_test`; 1 minus the coverage of the intervals
NEGLIGIBLE_SHARE = 0.01  # of a mode that may have no draws, or go unexamined


class ImpliedShares(NamedTuple):
    """Shares of the density at the modes, estimated from draws with any weights."""

    share: np.ndarray  #: (M,)
    influence: np.ndarray  #: (n, M): the error of the log share is the mean of this over the draws


class Uncertainty(NamedTuple):
    """How well means of influences are known."""

    covariance: np.ndarray  #: (M, M)
    quantile: float  #: half the length of the intervals, in standard errors


def mode_table(
    found: Orbits, group: np.ndarray, locations: np.ndarray, chain: np.ndarray | None = None
) -> ModeTable:
    """Observed shares, and those the density implies, among the modes that exchange draws.

    `group` (M,) numbers the groups of modes that exchange draws; the implied shares are known in the one with
    the most draws. `chain` (n,) is the chain of each draw, None for independent draws. Words come later.
    """
    n_modes = len(group)
    counts = np.bincount(found.mode, minlength=n_modes)
    implied = np.full(n_modes, np.nan)
    interval = np.full((n_modes, 2), np.nan)
    covariance = np.full((n_modes, n_modes), np.nan)
    main = np.flatnonzero(group == np.argmax(np.bincount(group, counts)))
    if len(main) > 1:
        rows = np.isin(found.mode, main)
        mode = np.searchsorted(main, found.mode[rows])
        share, influence = implied_shares(found.log_weight[np.ix_(rows, main)], mode)
        of_logs = influence_covariance(influence, None if chain is None else chain[rows])
        implied[main] = share
        interval[main] = share_intervals(share, of_logs)
        covariance[np.ix_(main, main)] = np.outer(share, share) * of_logs.covariance
    return ModeTable(locations, counts, counts / counts.sum(), implied, interval, covariance, words=())


def implied_shares(log_weight: np.ndarray, mode: np.ndarray) -> ImpliedShares:
    """Shares of the density at M modes from draws at modes `mode` (n,), with masses `log_weight` (n, M).

    Bennett's estimate for many states: the tilts t_k of the weights of the modes with draws maximise the
    likelihood of the modes of the draws given their orbits, with probabilities proportional to t_k w_k. The
    mass of mode k, with draws or without, is then the mean of w_k / sum_l t_l w_l.

    References
    ----------
    Bennett (1976). Efficient estimation of free energy differences from Monte Carlo data. J. Comput. Phys.
    22, 245-268.
    Shirts and Chodera (2008). Statistically optimal analysis of samples from multiple equilibrium states. J.
    Chem. Phys. 129, 124105.
    """
    counts = np.bincount(mode, minlength=log_weight.shape[1])
    sampled = counts > 0
    largest = log_weight[:, sampled].max(axis=1, keepdims=True)
    weight = np.exp(np.minimum(log_weight - largest, 700))
    tilt = _tilts(weight, counts)
    ratio = weight / (weight @ tilt)[:, None]
    total = ratio.sum(axis=0)
    share = total / total.sum()
    return ImpliedShares(share, _influence(ratio, tilt, mode, share))


def _tilts(weight: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Maximum-likelihood factors (M,) of the weights of the modes, 0 where there is no draw, by Newton."""
    tilt = (counts > 0).astype(float)
    for _ in range(50):
        ratio = weight / (weight @ tilt)[:, None]
        step = np.linalg.pinv(_information(ratio, tilt), rcond=1e-10, hermitian=True) @ (
            counts - tilt * ratio.sum(axis=0)
        )
        if np.abs(step).max() < 1e-8:
            break
        tilt *= np.exp(np.clip(step, -2, 2))
    return tilt


def _information(ratio: np.ndarray, tilt: np.ndarray) -> np.ndarray:
    """Information (M, M) about the log tilts."""
    return np.diag(tilt * ratio.sum(axis=0)) - tilt[:, None] * (ratio.T @ ratio) * tilt


def _influence(ratio: np.ndarray, tilt: np.ndarray, mode: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Influence (n, M) of the draws on the log shares: their own term, and that through the tilts."""
    n = len(ratio)
    total = ratio.sum(axis=0)
    inverse = np.linalg.pinv(_information(ratio, tilt), rcond=1e-10, hermitian=True)
    through_tilts = n * inverse @ (tilt[:, None] * (ratio.T @ ratio) / total)
    influence = ratio @ (np.diag(n / total) + tilt[:, None] * through_tilts) - through_tilts[mode] - 1
    return influence - (influence @ share)[:, None]


def influence_covariance(influence: np.ndarray, chain: np.ndarray | None) -> Uncertainty:
    """Covariance of the means of `influence` (n, M), and the quantile of the intervals that belong to it.

    Chains are cut by the largest autocorrelation time of the columns. Sums over the q blocks are nearly
    independent: Student's t with q - 1 degrees of freedom. A single block says nothing.
    """
    n, n_modes = influence.shape
    upper = 1 - MODE_TABLE_LEVEL / 2
    if chain is None:
        return Uncertainty(influence.T @ influence / n**2, float(special.ndtri(upper)))
    numbered = np.unique(chain, return_inverse=True)[1]
    blocks = cut_blocks(float(np.max(autocorrelation_time(influence, numbered))), numbered)
    sums = block_sums(influence, blocks.label)
    q = len(sums)
    if q < 2:
        return Uncertainty(np.full((n_modes, n_modes), np.inf), 1.0)
    return Uncertainty(q / (q - 1) * sums.T @ sums / n**2, float(special.stdtrit(q - 1, upper)))


def share_intervals(share: np.ndarray, of_logs: Uncertainty) -> np.ndarray:
    """Intervals (M, 2) of shares on the logit scale, never narrower than the assignment to modes is sharp."""
    logit = np.log(share)
    share = np.minimum(share, 1 - 1e-12)
    logit -= np.log1p(-share)
    width = of_logs.quantile * np.sqrt(np.diag(of_logs.covariance)) / (1 - share)
    ends = special.expit(np.stack([logit - width, logit + width], axis=1))
    # where a mode ends is not defined more exactly than to .001 of the shares
    reach = np.hypot(ends - share[:, None], 1e-3)
    return np.clip(share[:, None] + reach * [-1, 1], 0, 1)


def importance_weights(
    table: ModeTable, mode: np.ndarray, autocorrelation_time: float = 1.0
) -> ImportanceWeights:
    """Weights per draw that turn draws stuck in known modes into a set with the right shares.

    A draw at mode j has the weight implied_j / observed_j. This corrects the weights of the modes, not the
    fit within them, and needs draws at every mode. The variance of a weighted mean is that of
    `effective_sample_size` independent draws, with::

        1 / ESS = sum_j implied_j^2 tau / n_j + max_j Var(implied_j) / (implied_j (1 - implied_j)) :

    Kish's formula (1965, Survey Sampling) for the draws within modes, and what the implied shares themselves
    are worth: the two errors add up. `mode` (n,) is the mode of each draw, the autocorrelation time is that
    within modes. Raises a ValueError if a mode of non-negligible weight has no draws, or the implied share of
    one with draws is unknown.
    """
    sampled = table.n_draws > 0
    missing = np.flatnonzero(~sampled & (table.implied > NEGLIGIBLE_SHARE)).tolist()
    if missing:
        raise ValueError(
            f"`table` must have draws at every mode of non-negligible weight, modes {missing} have none"
        )
    unknown = np.flatnonzero(sampled & np.isnan(table.implied)).tolist()
    if unknown:
        raise ValueError(f"`table` must have the implied shares of all draws, those of {unknown} are unknown")
    implied = table.implied[sampled]
    n_draws = np.bincount(mode, minlength=len(sampled))  # draws that were not tested included
    within = np.sum(implied**2 * autocorrelation_time / n_draws[sampled])
    variance = np.diag(table.implied_covariance)[sampled]
    shared = np.minimum(implied, 1 - implied) > NEGLIGIBLE_SHARE
    between = np.max((variance[shared] / (implied * (1 - implied))[shared]), initial=0.0)
    weights = np.nan_to_num(table.implied)[mode] / n_draws[mode]
    size = 1 / max(within + between, 1 / len(mode))
    return ImportanceWeights(weights / weights.mean(), float(size))


def time_within_modes(x: np.ndarray, log_p: np.ndarray, mode: np.ndarray, chain: np.ndarray) -> float:
    """Largest autocorrelation time of log density and coordinates, each relative to its mean at the mode."""
    values = np.column_stack([log_p, x])
    sizes = np.bincount(mode)
    for column in values.T:
        means = np.bincount(mode, column) / np.maximum(sizes, 1)
        column -= means[mode]
    return float(np.max(autocorrelation_time(values, chain)))
