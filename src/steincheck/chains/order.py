"""What the order of draws shows: dependence, repeats, chains that stand still or are the same.

These are facts with stated thresholds, not tests that share the level. Independent draws are called dependent
with probability at most 1e-4 by construction; docs/theory/chains.md has the measured rates.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from .._series import lagged_products, normal_scores
from .._whitening import decorrelated

# probability that independent draws are called dependent, Bonferroni over all series and lags
FALSE_ALARM = 1e-4
MIN_EQUAL = (
    10  # equal draws below which nothing is reported: no sampler that moves at all has so many in a row
)


class Dependence(NamedTuple):
    """Where draws that were given without chains are most clearly dependent."""

    lag: int  #: distance of the draws compared
    correlation: float  #: rank correlation at that distance
    series: int | Literal["log density", "draws"]  #: number of the coordinate, or what was compared
    interleaved: bool  #: as in `lag` chains, stored draw by draw


class StuckChain(NamedTuple):
    """A chain that stands still, and its first and last draw at that point."""

    chain: int
    first: int
    last: int


class EqualChains(NamedTuple):
    """Two chains that are equal at many times."""

    one: int
    two: int
    n_equal: int
    length: int  #: number of draws compared


class Repeats(NamedTuple):
    """Draws that repeat others which a continuous density would not."""

    n_repeats: int  #: how many draws repeat an earlier one
    n: int  #: of how many; rejections of chains do not count
    atom: np.ndarray | None  #: the point that most of them are at, if there is one
    n_atom: int  #: number of draws there


class OrderFacts(NamedTuple):
    """What the order of draws shows; all empty where nothing is wrong."""

    dependence: Dependence | None = None
    stuck: tuple[StuckChain, ...] = ()
    equal: tuple[EqualChains, ...] = ()
    repeats: Repeats | None = None


def order_facts(x: np.ndarray, chain: np.ndarray | None, dependence: Dependence | None) -> OrderFacts:
    """The facts about draws (n, d) of the chains `chain` (n,), None for independent draws."""
    if chain is None:
        return OrderFacts(dependence, repeats=repeats(x))
    arrivals = np.ones(len(x), dtype=bool)  # a rejection repeats the draw before it
    arrivals[1:] = np.any(x[1:] != x[:-1], axis=1) | (chain[1:] != chain[:-1])
    return OrderFacts(dependence, stuck_chains(x, chain), equal_chains(x, chain), repeats(x[arrivals]))


def find_dependence(x: np.ndarray, log_p: np.ndarray | None = None) -> Dependence | None:
    """Are draws (n, d) autocorrelated in their order? None if nothing speaks against independence.

    H0: the draws are independent, or were shuffled. Three kinds of series are compared with themselves at
    lags 1 to 100: the normal scores of each coordinate, those of the log density (that of Hamiltonian chains
    is autocorrelated even where the draws are not), and the directions of the decorrelated draws,
    ``r_k = sum_t u_t.u_t+k / sum_t |u_t|^2`` with |u_t| = 1 before centring, which sees a slow direction that
    is no axis. Under H0 every order of the draws is as probable as any other, given their values: r_k has
    mean -1/n and variance tr(C^2) / (n tr(C)^2), C the covariance of the series. Lag 1 takes half of the
    false-alarm rate, the other lags the rest.

    Chains are interleaved if the clearest correlation is positive, and that at lag 1 less than half of it.

    Examples
    --------
    >>> steps = np.random.default_rng(0).normal(size=(500, 2))
    >>> find_dependence(steps) is None
    True
    >>> find_dependence(np.cumsum(steps, axis=0)).lag
    1
    """
    n, d = x.shape
    if n < 30:  # fewer independent draws cannot be told from a chain at the level `FALSE_ALARM`
        return None
    n_lags = min(100, n // 10)  # interleaved chains, draw by draw, are alike at a lag of their number
    scores = np.column_stack([normal_scores(column) for column in x.T])
    series = [column[:, None] for column in scores.T]
    if log_p is not None:
        series.append(normal_scores(log_p)[:, None])
    if d > 1:
        series.append(_directions(scores))
    tests = 2 * len(series) * np.where(np.arange(n_lags) == 0, 1, n_lags - 1)
    correlations, z = np.stack([_autocorrelations(one, n_lags) for one in series], axis=1)
    log_pvalues = np.log(2 * tests) + special.log_ndtr(-np.abs(z))
    row, column = np.unravel_index(np.argmin(log_pvalues), z.shape)
    if log_pvalues[row, column] > np.log(FALSE_ALARM):
        return None
    clearest = float(correlations[row, column])
    interleaved = column > 0 and abs(correlations[row, 0]) < clearest / 2
    which: int | Literal["log density", "draws"] = int(row)
    if row >= d:
        which = "log density" if row == d and log_p is not None else "draws"
    return Dependence(int(column) + 1, clearest, which, bool(interleaved))


def _directions(scores: np.ndarray) -> np.ndarray:
    """Decorrelated scores (n, k), ranked again and projected to the sphere: no draw counts more than another.

    Where two coordinates are nearly equal, their difference has heavy tails, which a second ranking removes.
    """
    white = decorrelated(scores)
    ranked = np.column_stack([normal_scores(column) for column in white.T])
    return ranked / np.linalg.norm(ranked, axis=1, keepdims=True).clip(1e-300)


def _autocorrelations(series: np.ndarray, n_lags: int) -> np.ndarray:
    """Autocorrelations (2, n_lags) of a series (n, k) at lags 1, 2, ..., and in standard errors under H0."""
    n = len(series)
    centred = series - series.mean(axis=0)
    covariance = centred.T @ centred / n
    total = np.trace(covariance)
    if not total > 0:
        return np.zeros((2, n_lags))
    products = sum(lagged_products(column[None])[1 : n_lags + 1] for column in centred.T)
    correlations = products / (n * total)
    return np.stack([correlations, (correlations + 1 / n) * total * np.sqrt(n / np.sum(covariance**2))])


def repeats(x: np.ndarray, *, max_inflation: float = 1.1) -> Repeats | None:
    """Draws (n, d) that repeat others too often to be taken for independent, or None.

    Copies count as further evidence where there is none: with multiplicities m the variance of a mean is
    ``sum m^2 / n`` times that of n independent draws. A tenth more is too much.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 1))
    >>> repeats(np.concatenate([x, x])).n_repeats
    50
    """
    n = len(x)
    if len(np.unique(x[:, 0])) == n:
        return None
    points, count = np.unique(x, axis=0, return_counts=True)
    if np.sum(count**2) <= max_inflation * n or _is_rounded(points):
        return None
    most = int(np.argmax(count))
    one_point = 2 * count[most] ** 2 > np.sum(count[count > 1] ** 2)
    return Repeats(n - len(count), n, points[most] if one_point else None, int(count[most]))


def _is_rounded(points: np.ndarray) -> bool:
    """Whether all numbers have at most four decimals: rounded draws repeat without being copies."""
    scaled = points * 1e4
    return bool(np.all(np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(np.abs(scaled), 1)))


def equal_chains(x: np.ndarray, chain: np.ndarray) -> tuple[EqualChains, ...]:
    """Chains that are equal to an earlier one at a tenth of the times or more: independent chains never are.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 1))
    >>> equal_chains(np.concatenate([x, x]), np.repeat([0, 1], 300))
    (EqualChains(one=0, two=1, n_equal=300, length=300),)
    """
    parts = np.split(x, np.flatnonzero(np.diff(chain)) + 1)
    length = min(len(part) for part in parts)
    stacked = np.stack([part[:length] for part in parts])
    found: dict[int, EqualChains] = {}
    for one in range(len(parts) - 1):
        same = np.sum(np.all(stacked[one] == stacked[one + 1 :], axis=2), axis=1)
        for other in np.flatnonzero(same >= max(MIN_EQUAL, 0.1 * length)).tolist():
            two = one + 1 + other
            found.setdefault(two, EqualChains(one, two, int(same[other]), length))
    return tuple(found.values())


def stuck_chains(x: np.ndarray, chain: np.ndarray) -> tuple[StuckChain, ...]:
    """Chains that spend a quarter of their draws or more at one point in a row.

    Rejections of a working sampler do not explain so many.

    Examples
    --------
    >>> stuck_chains(np.ones((20, 1)), np.zeros(20, dtype=int))
    (StuckChain(chain=0, first=0, last=19),)
    """
    found = []
    for number, part in enumerate(np.split(x, np.flatnonzero(np.diff(chain)) + 1)):
        moves = np.flatnonzero(np.any(part[1:] != part[:-1], axis=1)) + 1
        starts = np.concatenate([[0], moves])
        lengths = np.diff(starts, append=len(part))
        longest = int(np.argmax(lengths))
        if lengths[longest] >= max(MIN_EQUAL, 0.25 * len(part)):
            first = int(starts[longest])
            found.append(StuckChain(number, first, first + int(lengths[longest]) - 1))
    return tuple(found)
