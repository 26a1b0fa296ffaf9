"""What the order of draws tells: dependence, repeats, chains that stand still or are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .._series import lagged_products, normal_scores
from .._validation import check_names
from ..target import coordinate_names
from .arguments import as_columns, as_series

# probability that independent draws are taken for a chain, Bonferroni over all that is seen
FALSE_ALARM = 1e-4
MIN_EQUAL = 10  # equal draws below which nothing is reported
MAX_REPETITION = 1.1  # mean multiplicity of a draw beyond which draws are not treated as independent


@dataclass(frozen=True)
class Dependence:
    """Where draws that are given without chains are most clearly dependent.

    Attributes
    ----------
    lag : int
        Distance of the draws compared.
    correlation : float
        Rank correlation at that distance.
    where : str
        The coordinate, "the log density" or "all coordinates together".
    pvalue : float
        p-value of independence, adjusted for all lags and coordinates.
    """

    lag: int
    correlation: float
    where: str
    pvalue: float

    @property
    def interleaving(self) -> str:
        """What a lag of more than 1 means."""
        return (
            f"the autocorrelation is larger at lag {self.lag} than at lag 1, as where {self.lag} chains are "
            "interleaved: separate the chains, as in shape (chain, draw, d)"
        )

    def __str__(self) -> str:
        which = "successive draws" if self.lag == 1 else f"draws {self.lag} apart"
        return f"{which} are correlated ({self.correlation:.2f} in {self.where}), as in a Markov chain"


def looks_dependent(
    values: ArrayLike, log_density: ArrayLike | None = None, names: Sequence[str] | None = None
) -> Dependence | None:
    """Are draws that are given as an (n, d) array autocorrelated in their order?

    H0: the draws are independent, or were shuffled. Looked at are the autocorrelations of the normal scores
    of every coordinate and of the log density, and their sum over whitened coordinates, which sees slow
    directions that are not axes. Lag 1 takes half of the false alarm rate of 1e-4, lags 2 to 100 the rest.

    Parameters
    ----------
    values : array (n, d)
        The draws in the order in which they were made.
    log_density : array (n,), optional
        The log density at the draws: that of Hamiltonian chains is autocorrelated even where the draws
        are not.
    names : sequence of str, optional
        Names of the coordinates.

    Returns
    -------
    Dependence or None
        None if nothing speaks against independence.

    Examples
    --------
    >>> steps = np.random.default_rng(0).normal(size=(500, 2))
    >>> looks_dependent(steps) is None
    True
    >>> print(looks_dependent(np.cumsum(steps, axis=0)))
    successive draws are correlated (0.97 in all coordinates together), as in a Markov chain
    """
    x = as_columns(values, "values")
    if log_density is not None:
        log_density = as_series(log_density, "log_density", len(x))
    if names is not None:
        check_names(names, "names")
        if len(names) != x.shape[1]:
            raise ValueError(f"`names` must name {x.shape[1]} coordinates, got {len(names)} names")
    return looks_dependent_core(x, log_density, names)


def looks_dependent_core(
    values: np.ndarray, log_density: np.ndarray | None = None, names: Sequence[str] | None = None
) -> Dependence | None:
    """As `looks_dependent`, with validated arguments."""
    n, d = values.shape
    if n < 30:  # fewer independent draws cannot be told from a chain at the level `FALSE_ALARM`
        return None
    labels = coordinate_names(d, names)
    columns = np.empty((d, n))
    for k, column in enumerate(values.T):
        columns[k] = _standard_scores(column)
    found = [_autocorrelations(column) for column in columns]
    if log_density is not None:
        labels.append("the log density")
        found.append(_autocorrelations(_standard_scores(log_density)))
    scale = np.ones(len(labels))
    if 1 < d < n / 10:
        labels.append("all coordinates together")
        scale = np.append(scale, np.sqrt(d))
        white = [_autocorrelations(direction @ columns) for direction in _whitening(columns)]
        found.append(np.mean(white, axis=0))
    return _clearest(np.array(found), scale, n, labels)


def _clearest(
    correlations: np.ndarray, scale: np.ndarray, n: int, labels: Sequence[str]
) -> Dependence | None:
    """The smallest adjusted p-value of correlations (columns, lags), if small enough."""
    rows, lags = correlations.shape
    tests = rows * np.where(np.arange(lags) == 0, 2, 2 * max(1, lags - 1))
    z = np.abs(correlations + 1 / n) * scale[:, None] * np.sqrt(n)
    log_p = np.log(2 * tests) + special.log_ndtr(-z)
    row, lag = divmod(int(np.argmin(log_p)), lags)
    if log_p[row, lag] > np.log(FALSE_ALARM):
        return None
    return Dependence(
        int(lag) + 1, float(correlations[row, lag]), labels[row], float(np.exp(log_p[row, lag]))
    )


def _standard_scores(column: np.ndarray) -> np.ndarray:
    """Ranks as normal quantiles: heavy tails have no say; zeros if all values are equal."""
    scores = normal_scores(column)
    spread = scores.std()
    return (scores - scores.mean()) / spread if spread > 0 else np.zeros(len(column))


def _autocorrelations(column: np.ndarray) -> np.ndarray:
    n = len(column)
    lags = min(100, n // 10)  # interleaved chains, draw by draw, are alike at a lag of their number
    return lagged_products(column[None])[1 : lags + 1] / n


def _whitening(columns: np.ndarray) -> np.ndarray:
    """Combinations (k, d) of centred columns (d, n) with unit covariance, where there is any variation."""
    eigenvalues, vectors = np.linalg.eigh(columns @ columns.T / columns.shape[1])
    if not eigenvalues[-1] > 0:
        return np.zeros((1, len(columns)))
    kept = eigenvalues > 1e-12 * eigenvalues[-1]
    return (vectors[:, kept] / np.sqrt(eigenvalues[kept])).T


def invalidating_faults(values: np.ndarray, chain: np.ndarray | None) -> list[str]:
    """What makes every p-value invalid: chains that are copies, draws that repeat too often.

    Draws of a chain may repeat the one before them, but none farther back. Copies count as further evidence
    where there is none. A tenth more variance than that of independent draws, ``sum m^2 / n`` for
    multiplicities m, is too much.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 1))
    >>> invalidating_faults(np.concatenate([x, x]), None)
    ['50 of 100 draws repeat others exactly: they are not independent; give the chains in their order']
    """
    if chain is None:
        remedy = "they are not independent; give the chains in their order"
        return _copies(values, remedy)
    same = _equal_chains(values, chain)
    if same:
        return same
    arrives = np.ones(len(values), dtype=bool)  # a rejection repeats the draw before it
    arrives[1:] = np.any(values[1:] != values[:-1], axis=1) | (chain[1:] != chain[:-1])
    return _copies(
        values[arrives], "a chain of a continuous density does not revisit a point; give every draw once"
    )


def _copies(values: np.ndarray, remedy: str) -> list[str]:
    """A sentence if draws repeat others too often, with what is to be done."""
    if len(np.unique(values[:, 0])) == len(values):
        return []
    points, multiplicity = np.unique(values, axis=0, return_counts=True)
    if np.sum(multiplicity**2) <= MAX_REPETITION * len(values):
        return []
    if all(rounding_step(column) for column in values.T):  # rounded draws repeat without being copies
        return []
    most = int(np.argmax(multiplicity))
    if 2 * multiplicity[most] ** 2 > np.sum(multiplicity[multiplicity > 1] ** 2):
        place = np.array2string(points[most], precision=4, threshold=8)
        return [
            f"{multiplicity[most]} of {len(values)} draws are identical, {place}: a "
            "continuous distribution has no atoms; were the draws clipped or padded?"
        ]
    return [f"{len(values) - len(multiplicity)} of {len(values)} draws repeat others exactly: {remedy}"]


def rounding_step(column: np.ndarray) -> float:
    """The distance between neighbouring values if all are multiples of one apart, as rounded ones are; or 0.

    Examples
    --------
    >>> rounding_step(np.array([0.25, 0.5, 1.25]))
    0.25
    """
    steps = np.diff(np.unique(column))
    if not len(steps):
        return 0.0
    whole = steps / steps.min()
    return float(steps.min()) if np.allclose(whole, np.round(whole), rtol=0, atol=1e-6) else 0.0


def chain_faults(values: np.ndarray, chain: np.ndarray, names: Sequence[str] | None = None) -> list[str]:
    """Chains that stand still and chains that are the same, one sentence each.

    A chain is stuck if a quarter of it or more is one and the same point in a row; two chains are the
    same if a tenth of their draws or more are equal at the same times. Chains of a continuous density that
    are independent do neither.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 1))
    >>> chain_faults(np.concatenate([x, x]), np.repeat([0, 1], 300))
    ['chains 0 and 1 are the same in 300 of 300 draws: were they started with the same seed?']
    """
    parts = np.split(values, np.flatnonzero(np.diff(chain)) + 1)
    labels = coordinate_names(values.shape[1], names)
    faults = [
        f"chain {number} is stuck from draw {start} to draw {end}: running it longer will not help; check "
        "the sampler's step size and the starting point"
        for number, start, end in stuck_chains(values, chain)
    ]
    for number, part in enumerate(parts):
        still = not np.any(np.ptp(part, axis=0))
        constant = (np.ptp(part, axis=0) == 0) & (np.ptp(values, axis=0) > 0) & (not still)
        for k in np.flatnonzero(constant):
            faults.append(f"{labels[k]} never changes in chain {number}")
    return faults + _equal_chains(values, chain)


def _equal_chains(values: np.ndarray, chain: np.ndarray) -> list[str]:
    """A sentence about every chain that is the same as an earlier one at many times."""
    parts = np.split(values, np.flatnonzero(np.diff(chain)) + 1)
    shortest = min(len(part) for part in parts)
    stacked = np.stack([part[:shortest] for part in parts])
    found: dict[int, str] = {}
    for one in range(len(parts) - 1):
        same = np.sum(np.all(stacked[one] == stacked[one + 1 :], axis=2), axis=1)
        # a tenth of the draws equal at the same times is no accident
        for two in one + 1 + np.flatnonzero(same >= max(MIN_EQUAL, 0.1 * shortest)):
            text = f"chains {one} and {two} are the same in {same[two - one - 1]} of {shortest} draws"
            found.setdefault(int(two), f"{text}: were they started with the same seed?")
    return list(found.values())


class StuckChain(NamedTuple):
    """A chain, and its first and last draw at the point where it is stuck."""

    number: int
    first: int
    last: int


def stuck_chains(values: np.ndarray, chain: np.ndarray) -> list[StuckChain]:
    """Chains that spend a quarter of their draws or more at one point in a row.

    Examples
    --------
    >>> stuck_chains(np.ones((20, 1)), np.zeros(20, dtype=int))
    [StuckChain(number=0, first=0, last=19)]
    """
    found = []
    for number, part in enumerate(np.split(values, np.flatnonzero(np.diff(chain)) + 1)):
        start, length = _longest_run(part)
        # a quarter of a chain at one point: far more than rejections of a working sampler explain
        if length >= max(MIN_EQUAL, 0.25 * len(part)):
            found.append(StuckChain(number, start, start + length - 1))
    return found


def _longest_run(part: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of equal rows."""
    changes = np.flatnonzero(np.any(part[1:] != part[:-1], axis=1)) + 1
    starts = np.concatenate([[0], changes])
    lengths = np.diff(np.concatenate([starts, [len(part)]]))
    longest = int(np.argmax(lengths))
    return int(starts[longest]), int(lengths[longest])
