"""Orbits: where else the draws could be, and the shares of the modes that the density implies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ..chains.blocks import autocorrelation_time, block_sums, cut_blocks
from ..chains.reading import Sample
from ..result import ImportanceWeights, ModeTable
from ..target import Target, log_density_at
from .anchors import Anchors

MAX_ELEMENTS = 4_000_000  # numbers in the largest temporary array
NEGLIGIBLE_SHARE = 0.01  # of a mode that may have no draws, or go unexamined


class Orbits(NamedTuple):
    """Where the draws are, and where else they could be."""

    mode: np.ndarray  #: (n,) the mode of each draw
    log_weight: np.ndarray  #: (n, M) log of the mass the density puts on the draw's image at each mode
    weight: np.ndarray  #: (n,) of the draws, with mean square 1


class CountMoments(NamedTuple):
    """Number of draws at each mode, each counted by its weight, and its moments given the orbits."""

    counts: np.ndarray  #: (M,)
    expected: np.ndarray  #: (M,) if the draws fit
    covariance: np.ndarray  #: (M, M)
    probabilities: np.ndarray  #: (n, M) of each mode, given the orbit
    efficiency: float = np.nan  #: share of the variance that the orbits leave open: at 0 nothing moves


def carry_to_anchors(sample: Sample, target: Target, anchors: Anchors) -> Orbits:
    """Carry every draw to all anchors and weigh the images.

    A draw x whose largest Gaussian is k has the standardised position u = A_k^(-1/2) (x - mu_k). Its image at
    l, A_l^(1/2) u + mu_l, counts where l has the largest Gaussian, with the mass p(image) det A_l^(1/2).
    """
    x = sample.x
    n = len(x)
    count, d = anchors.centres.shape
    home = anchors.largest(x)
    log_weight = np.empty((n, count), order="F")  # sums over modes are faster
    rows = max(1, MAX_ELEMENTS // (count * d))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        log_weight[part] = _log_density_of_images(x[part], home[part], anchors, target)
    log_weight[np.arange(n), home] = sample.log_p
    log_weight += anchors.roots.half_log_det
    first = np.flatnonzero(np.diff(anchors.mode, prepend=-1))  # anchor of each mode
    if len(first) < count:
        log_weight = np.logaddexp.reduceat(log_weight, first, axis=1)
    weight = np.ones(n) if sample.weight is None else sample.weight / np.sqrt(np.mean(sample.weight**2))
    return Orbits(anchors.mode[home], log_weight, weight)


def _log_density_of_images(x: np.ndarray, home: np.ndarray, anchors: Anchors, target: Target) -> np.ndarray:
    """log p (n, K) at the images of x (n, d); -inf where another anchor's Gaussian is larger."""
    n, d = x.shape
    root, inverse, _ = anchors.roots
    u = x - anchors.centres[home]
    for k in np.unique(home):
        u[home == k] = u[home == k] @ inverse[k]
    images = (u @ root.transpose(1, 0, 2).reshape(d, -1)).reshape(n, -1, d) + anchors.centres
    counted = np.stack([anchors.largest(images[:, k]) == k for k in range(images.shape[1])], axis=1)
    counted[np.arange(n), home] = False  # the draw itself, whose log density is known
    log_p = np.full(counted.shape, -np.inf)
    if counted.any():
        log_p[counted] = log_density_at(target, images[counted], proposal=True)
    return log_p


class StepFlows(NamedTuple):
    """Moves of every draw along and against each displacement."""

    steps: np.ndarray  #: (V, d)
    accept: np.ndarray  #: (n, 2, V) probability of accepting the move along and against
    clear: np.ndarray  #: (V,) bool: enough draws contribute
    weight: np.ndarray | float = 1.0  #: (n,) of the draws

    @property
    def net(self) -> np.ndarray:
        """Forth minus back, times the weight, (n, V): mean 0 under the target."""
        return np.reshape(self.weight, (-1, 1)) * (self.accept[:, 0] - self.accept[:, 1])


def carry_along_steps(sample: Sample, target: Target, steps: np.ndarray) -> StepFlows:
    """Probability of every draw of accepting each of the steps (V, d) along and against it.

    A step is clear if enough draws contribute, (sum a)^2 / sum a^2. The squares are averaged with
    min(r, 1/r), r the ratio of the densities, which has the same mean under H0: so they do not vanish where
    one side of a step happens to have no draws.
    """
    n, d = sample.x.shape
    both = np.stack([steps, -steps])
    log_ratio = np.empty((n, *both.shape[:2]))
    rows = max(1, MAX_ELEMENTS // both.size)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        images = (sample.x[part, None, None] + both).reshape(-1, d)
        there = log_density_at(target, images, proposal=True).reshape(-1, *both.shape[:2])
        log_ratio[part] = there - sample.log_p[part, None, None]
    accept = np.exp(np.minimum(log_ratio, 0.0))
    squares = 0.5 * np.sum(accept**2 + np.exp(-np.abs(log_ratio)), axis=(0, 1))
    # at least 25 draws must contribute to a displacement
    clear = (squares > 0) & (np.sum(accept, axis=(0, 1)) ** 2 >= 25.0 * squares)
    return StepFlows(steps, accept, clear, 1.0 if sample.weight is None else sample.weight)


def count_moments(found: Orbits) -> CountMoments:
    """What the orbits say about the number of draws at each mode."""
    mass = np.exp(found.log_weight - found.log_weight.max(axis=1, keepdims=True))
    probabilities = mass / mass.sum(axis=1, keepdims=True)
    weighted = found.weight[:, None] * probabilities
    expected = weighted.sum(axis=0)
    covariance = np.diag((found.weight[:, None] * weighted).sum(axis=0)) - weighted.T @ weighted
    counts = np.bincount(found.mode, found.weight, minlength=len(expected))
    share = expected / expected.sum()
    whole = len(found.mode) * (1 - np.sum(share**2))
    efficiency = float(np.trace(covariance) / whole) if whole > 0 else 0.0
    return CountMoments(counts, expected, covariance, probabilities, efficiency)


class ImpliedShares(NamedTuple):
    """Shares of the density at the modes, estimated from draws with any weights."""

    share: np.ndarray  #: (M,)
    influence: np.ndarray  #: (n, M): the error of the log share is the mean of this over the draws


class Uncertainty(NamedTuple):
    """How well means of influences are known."""

    covariance: np.ndarray  #: (M, M)
    quantile: float  #: half the length of the 95 % intervals, in standard errors


def mode_table(found: Orbits, group: np.ndarray, locations: np.ndarray, sample: Sample) -> ModeTable:
    """Observed shares, and those the density implies, among the modes that exchange draws.

    `group` (M,) numbers the groups of modes that exchange draws; the implied shares are known in the one with
    the most draws. Words come later.
    """
    n_modes = len(group)
    counts = np.bincount(found.mode, minlength=n_modes)
    observed = np.bincount(found.mode, found.weight, minlength=n_modes) / found.weight.sum()
    implied = np.full(n_modes, np.nan)
    interval = np.full((n_modes, 2), np.nan)
    covariance = np.full((n_modes, n_modes), np.nan)
    main = np.flatnonzero(group == np.argmax(np.bincount(group, counts)))
    if len(main) > 1:
        rows = np.isin(found.mode, main)
        mode = np.searchsorted(main, found.mode[rows])
        share, influence = implied_shares(found.log_weight[np.ix_(rows, main)], mode, found.weight[rows])
        of_logs = influence_covariance(influence, sample.rows(np.flatnonzero(rows)))
        implied[main] = share
        interval[main] = share_intervals(share, of_logs)
        covariance[np.ix_(main, main)] = np.outer(share, share) * of_logs.covariance
    return ModeTable(locations, counts, observed, implied, interval, covariance)


def implied_shares(
    log_weight: np.ndarray, mode: np.ndarray, weight: np.ndarray | float = 1.0
) -> ImpliedShares:
    """Shares of the density at M modes from draws at modes `mode` (n,), with masses `log_weight` (n, M).

    Bennett's estimate for many states: the tilts t_k of the masses of the modes with draws maximise the
    likelihood of the modes of the draws given their orbits, with probabilities proportional to t_k w_k; draws
    count by their `weight` (n,). The mass of mode k, with draws or without, is then the mean of
    w_k / sum_l t_l w_l.

    References
    ----------
    Bennett (1976). Efficient estimation of free energy differences from Monte Carlo data. J. Comput. Phys.
    22, 245-268.
    Shirts and Chodera (2008). Statistically optimal analysis of samples from multiple equilibrium states. J.
    Chem. Phys. 129, 124105.
    """
    n = len(mode)
    weight = np.broadcast_to(weight, n)
    counts = np.bincount(mode, weight, minlength=log_weight.shape[1])
    largest = log_weight[:, counts > 0].max(axis=1, keepdims=True)
    mass = np.exp(np.minimum(log_weight - largest, 700))
    tilt = (counts > 0).astype(float)
    for _ in range(50):  # Newton's method for the log tilts
        ratio = mass / (mass @ tilt)[:, None]
        weighted = weight[:, None] * ratio
        total = weighted.sum(axis=0)
        information = np.diag(tilt * total) - tilt[:, None] * (weighted.T @ ratio) * tilt
        inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
        step = inverse @ (counts - tilt * total)
        if np.abs(step).max() < 1e-8:
            break
        tilt *= np.exp(np.clip(step, -2, 2))
    share = total / total.sum()
    # the influence of a draw: its own term, and that through the tilts
    through_tilts = n * inverse @ (tilt[:, None] * (weighted.T @ ratio) / total)
    influence = ratio @ (np.diag(n / total) + tilt[:, None] * through_tilts) - through_tilts[mode]
    influence = weight[:, None] * (influence - n / weight.sum())
    return ImpliedShares(share, influence - (influence @ share)[:, None])


def influence_covariance(influence: np.ndarray, sample: Sample) -> Uncertainty:
    """Covariance of the means of `influence` (n, M), and the quantile of the intervals that belong to it.

    Chains are cut by the largest autocorrelation time of the columns; groups of draws are blocks as they are.
    Sums over q blocks are nearly independent: Student's t with q - 1 degrees of freedom. A single block says
    nothing.
    """
    n, n_modes = influence.shape
    label = sample.group
    if sample.chain is not None:
        label = cut_blocks(float(np.max(autocorrelation_time(influence, sample.chain))), sample.chain).label
    if label is None:
        return Uncertainty(influence.T @ influence / n**2, float(special.ndtri(0.975)))
    sums = block_sums(influence, label)
    q = len(sums)
    if q < 2:
        return Uncertainty(np.full((n_modes, n_modes), np.inf), 1.0)
    return Uncertainty(q / (q - 1) * sums.T @ sums / n**2, float(special.stdtrit(q - 1, 0.975)))


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
    table: ModeTable,
    mode: np.ndarray,
    autocorrelation_time: float = 1.0,
    weight: np.ndarray | None = None,
) -> ImportanceWeights:
    """Weights per draw that turn draws stuck in known modes into a set with the right shares.

    Draws at mode j, with weights w of their own or none, get w implied_j / sum of w at j. This corrects the
    weights of the modes, not the fit within them, and needs draws at every mode. The variance of a weighted
    mean is that of `effective_sample_size` independent draws, with::

        1 / ESS = sum_j implied_j^2 tau / n_j + max_j Var(implied_j) / (implied_j (1 - implied_j)) :

    Kish's formula (1965, Survey Sampling) for the draws within modes, n_j = (sum w)^2 / sum w^2, and what the
    implied shares themselves are worth: the two errors add up. `mode` (n,) is the mode of each draw, the
    autocorrelation time is that within modes. Raises a ValueError if a mode of non-negligible weight has no
    draws, or the implied share of one with draws is unknown.
    """
    sampled = table.observed > 0
    missing = np.flatnonzero(~sampled & (table.implied > NEGLIGIBLE_SHARE)).tolist()
    if missing:
        raise ValueError(
            f"`table` must have draws at every mode of non-negligible weight, modes {missing} have none"
        )
    unknown = np.flatnonzero(sampled & np.isnan(table.implied)).tolist()
    if unknown:
        raise ValueError(f"`table` must have the implied shares of all draws, those of {unknown} are unknown")
    implied = table.implied[sampled]
    weight = np.ones(len(mode)) if weight is None else weight
    total, squares = (np.bincount(mode, values, minlength=len(sampled)) for values in (weight, weight**2))
    within = np.sum(implied**2 * autocorrelation_time * squares[sampled] / total[sampled] ** 2)
    variance = np.diag(table.implied_covariance)[sampled]
    shared = np.minimum(implied, 1 - implied) > NEGLIGIBLE_SHARE
    between = np.max((variance[shared] / (implied * (1 - implied))[shared]), initial=0.0)
    weights = weight * np.nan_to_num(table.implied)[mode] / np.maximum(total, np.finfo(float).tiny)[mode]
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
