"""Draws as a test takes them: read, evaluated once, known as chains or as independent draws by their order.

What the order shows are facts with stated thresholds, not tests that share the level. Independent draws are
called dependent with probability at most 1e-4 by construction; docs/theory/chains.md has the measured rates.
Bulk and tail effective sample size and split R-hat, as ArviZ defines them, are context.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from .._validation import as_numbers, check_switch
from .._whitening import normal_scores
from ..draws import Draws, to_unconstrained
from ..draws.nested import Threads
from ..draws.record import chain_of_rows
from ..target import Target, log_density_at
from ..wording import draws as wording
from .blocks import decorrelated, initial_monotone, lagged_products, pair_sums

FALSE_ALARM = 1e-4  # probability that independent draws are called dependent, over all series and lags
MIN_EQUAL = 10  # equal draws in a row that no sampler has which moves at all: fewer are not reported


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


class OrderFacts(NamedTuple):
    """What the order of draws shows; all empty where nothing is wrong."""

    dependence: Dependence | None = None
    stuck: tuple[StuckChain, ...] = ()
    equal: tuple[EqualChains, ...] = ()


class Sample(NamedTuple):
    """Draws and what is evaluated at them, once."""

    x: np.ndarray  #: (n, d)
    log_p: np.ndarray  #: (n,) log density at the draws
    chain: np.ndarray | None = None  #: (n,) chain of each draw, 0, 1, ...; None for independent draws
    scores: np.ndarray = np.empty((0, 0))  #: (n, d) scores at the draws; empty until they are asked for
    weight: np.ndarray | None = None  #: (n,) importance weights, of mean 1 over all draws; None if equal
    group: np.ndarray | None = None  #: (n,) of int; groups are independent, draws of one may be copies
    threads: Threads | None = None  #: independent parts of a run of nested sampling
    order: OrderFacts = OrderFacts()  #: what the order of all draws shows
    warnings: tuple[str, ...] = ()  #: what the user should know

    def rows(self, index: np.ndarray) -> Sample:
        """Some of the draws, their chains numbered anew."""
        scores = self.scores[index] if len(self.scores) else self.scores
        return self._replace(
            x=self.x[index],
            log_p=self.log_p[index],
            chain=chain_of_rows(self.chain, index),
            scores=scores,
            weight=None if self.weight is None else self.weight[index],
            group=chain_of_rows(self.group, index),
            threads=None if self.threads is None else self.threads.rows(index),
        )

    @property
    def effective_size(self) -> float:
        """(sum W)^2 / sum W^2 with the total weights W of groups of copies: Kish's effective sample size."""
        total = np.ones(len(self.x)) if self.weight is None else self.weight
        if self.group is not None and self.threads is None:
            total = np.bincount(self.group, total)
        return float(total.sum() ** 2 / np.sum(total**2))


def read_sample(
    draws: Any,
    target: Target,
    *,
    weights: Any = None,
    log_weights: Any = None,
    independent: bool = False,
    minimum: int = 2,
) -> Sample:
    """Read draws in any form and find out whether they are chains."""
    check_switch(independent, "independent")
    read = to_unconstrained(draws, target, minimum=minimum, weights=weights, log_weights=log_weights)
    return evaluate_sample(read, target, independent=independent)


def evaluate_sample(read: Draws, target: Target, *, independent: bool, known: Any = None) -> Sample:
    """Evaluate the log density at draws, once, and find out whether they are chains.

    Draws that come with chains are chains; an array (n, d) whose order shows autocorrelation is one chain,
    unless it has weights or groups, as those of nested sampling, which stand in the order of their density.
    With `independent` neither is. Identical rows of independent draws are one group: copies are no further
    evidence. Log densities (n,) that are `known` are not evaluated.
    """
    x = read.values
    log_p = log_density_at(target, x) if known is None else _verified_log_density(known, target, read)
    chain = None if independent else read.chain
    dependence = None
    if chain is None and read.weight is None and read.group is None and not independent:
        dependence = find_dependence(x, log_p)
    if dependence is not None:
        chain = np.zeros(len(x), dtype=int)
    found = Sample(x, log_p, chain, weight=read.weight, warnings=read.warnings)
    if chain is not None:
        order = OrderFacts(dependence, stuck_chains(x, chain), equal_chains(x, chain))
        warnings = wording.order_warnings(order, target.coordinate_names)
        return found._replace(order=order, warnings=(*read.warnings, *warnings))
    found = found._replace(group=read.group, threads=read.threads)
    if read.group is not None or len(np.unique(x[:, 0])) == len(x):
        return found
    points, group, count = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    if len(points) == len(x):
        return found
    most = int(np.argmax(count))  # independent draws of a density are never identical
    copies = wording.copies(len(x) - len(points), len(x), points[most], int(count[most]))
    return found._replace(group=group.ravel(), warnings=(*read.warnings, copies))


def values_per_draw(values: Any, draws: Draws, name: str) -> np.ndarray:
    """Finite numbers (n,), one per draw; of draws that were left out there may be values too."""
    numbers = as_numbers(values, name).ravel()
    if draws.kept is not None and numbers.shape == draws.kept.shape:
        numbers = numbers[draws.kept]
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(numbers) != len(draws) or len(bad):
        found = f"{numbers[bad[0]]:g} at row {bad[0]}" if len(bad) else f"shape {np.shape(values)}"
        raise ValueError(f"`{name}` must be a finite number per draw, {len(draws)}, got {found}")
    return numbers


def _verified_log_density(known: Any, target: Target, draws: Draws) -> np.ndarray:
    """Known log densities, shifted by the constant in which they differ from the target's at five draws."""
    x = draws.values
    values = values_per_draw(known, draws, "log_density")
    rows = np.linspace(0, len(x) - 1, 5).astype(int)
    gap = log_density_at(target, x[rows]) - values[rows]
    if np.ptp(gap) > 1e-3 * (1 + np.ptp(values)):
        raise ValueError(
            "`log_density` must be that of the target up to a constant (in its coordinates, with the "
            f"Jacobian), but at rows {rows.tolist()} it is off by {np.round(gap, 3).tolist()}"
        )
    return values + float(np.median(gap))


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
        # of nearly equal coordinates the difference has heavy tails, which a second ranking removes
        ranked = np.column_stack([normal_scores(column) for column in decorrelated(scores).T])
        series.append(ranked / np.linalg.norm(ranked, axis=1, keepdims=True).clip(1e-300))
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


def convergence(values: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """Bulk and tail ESS and rank-normalised split R-hat (3, d) of every coordinate of `values` (n, d).

    The definitions are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021),
    "Rank-normalization, folding, and localization", and the numbers those of ArviZ; for a single chain, where
    ArviZ has no R-hat, the halves of the chain are compared. Chains of unequal lengths are truncated to the
    shortest. NaN where a chain has fewer than four draws.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(400, 1))
    >>> convergence(x, np.repeat([0, 1], 200))[:, 0].round(3)
    array([412.675, 407.213,   1.   ])
    """
    lengths = np.bincount(chain)
    shortest = int(lengths.min())
    if shortest < 4:  # halves of two draws are the least that have a variance
        return np.full((3, values.shape[1]), np.nan)
    starts = np.cumsum(lengths) - lengths
    rows = starts[:, None] + np.arange(shortest)
    found = np.empty((3, values.shape[1]))
    for k in range(values.shape[1]):
        column = values[rows, k]
        halves = _halves(column)
        tails = [_halves((column <= end).astype(float)) for end in np.quantile(column, [0.05, 0.95])]
        bulk = _ess(normal_scores(halves, offset=3 / 8))
        found[:, k] = bulk, min(map(_ess, tails)), _rhat(halves)
    return found


def _halves(x: np.ndarray) -> np.ndarray:
    """Chains (C, N) cut into halves (2C, N // 2); the middle draw of an odd number is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _rhat(x: np.ndarray) -> float:
    """The larger R-hat of the ranks of the values and of their distances from the median."""
    if np.ptp(x) == 0:
        return np.nan
    n, found = x.shape[1], []
    for part in (x, np.abs(x - np.median(x))):
        scores = normal_scores(part, offset=3 / 8)
        within = scores.var(axis=1, ddof=1).mean()
        between = n * scores.mean(axis=1).var(ddof=1)
        found.append(float(np.sqrt((between / within + n - 1) / n)) if within > 0 else np.inf)
    return max(found)


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
