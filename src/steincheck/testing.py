"""Tests of samplers that hardly ever fail by chance, and densities with exact draws to try them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._validation import as_count, as_one_positive, check_fraction, seeded, without_user_warnings
from .accuracy import estimate_accuracy
from .draws import to_unconstrained
from .models import gaussian_mixture
from .modes import find_modes
from .result import AccuracyResult, Verdict
from .target import Target, from_jax, require_target
from .typing import DrawsLike, ModesLike, RandomSource
from .verdict import check
from .wording import verdict as words

Sampler = Callable[[int, np.random.Generator], DrawsLike]


class Outcome(NamedTuple):
    """What a test of a sampler took, and what it saw."""

    n_draws: int
    evidence: float  #: e-value against the sampler: below 1 / false_alarm with probability 1 - false_alarm
    accuracy: AccuracyResult  #: errors of all draws together
    verdict: Verdict  #: on the last batch


class Inconclusive(Exception):
    """The draws ended before their errors were small or the evidence strong."""


class Example(NamedTuple):
    """A density with exact draws."""

    target: Target
    sample: Sampler  #: (n, rng) -> draws (n, d)


def assert_fits(
    sample: Sampler,
    target: Target,
    *,
    false_alarm: float = 1e-6,
    tolerance: float = 0.1,
    n: int = 1000,
    max_draws: int = 20_000,
    modes: ModesLike | None = None,
    rng: RandomSource = 0,
) -> Outcome:
    """Does the sampler produce draws of the density? For a test suite: it hardly ever fails by chance.

    Batches of draws are taken one after the other. The p-value of `check` on each becomes an e-value,
    and their product is the evidence. The function returns as soon as the 95 % interval of every error of
    all draws together is within the tolerance and the evidence is below 20 (no rejection at 5 %). Standard
    deviations of densities with heavy tails, which `estimate_accuracy` does not give, are not asked for.

    Parameters
    ----------
    sample : callable
        ``sample(n, rng)`` returns about n draws, or chains with n draws in all, in any form that `as_draws`
        takes. Batches must be independent of each other: each call starts new chains from `rng`.
    target : Target
    false_alarm : float
        Probability with which a right sampler fails, at most.
    tolerance : float
        Errors that are allowed: .1 is a tenth of an sd for means, 10 % for standard deviations.
    n : int
        Draws of a batch.
    max_draws : int
        Draws in all, after which the outcome is `Inconclusive`.
    modes : Modes, (locations, covariances) or locations, optional
        Searched for once, from no draws, if not given.
    rng : int, Generator or SeedSequence
        Source of randomness; the same seed gives the same batches.

    Raises
    ------
    AssertionError
        The evidence reaches 1 / false_alarm, or a coordinate does not vary within a batch; the message says
        what is wrong with the draws.
    Inconclusive
        After `max_draws` draws neither is so.

    Notes
    -----
    For a valid p-value, e(p) = (1 - p + p log p) / (p log(p)^2) has expectation at most 1. The product over
    independent batches is a nonnegative supermartingale, and by Ville's inequality it ever reaches
    1 / false_alarm with probability at most false_alarm. So the number of batches need not be fixed.

    References
    ----------
    Vovk and Wang (2021). E-values: calibration, combination and applications. Annals of Statistics 49,
    1736-1754.

    Examples
    --------
    >>> from steincheck.testing import assert_fits, targets
    >>> target, sample = targets["skewed"]
    >>> assert_fits(sample, target).n_draws <= 5000
    True
    """
    require_target(target)
    check_fraction(false_alarm, "false_alarm")
    as_one_positive(tolerance, "tolerance")
    as_count(n, "n", minimum=100)
    as_count(max_draws, "max_draws", minimum=n)
    generator, _ = seeded(rng)
    searching, drawing, checking = generator.spawn(3)
    known = find_modes(target, rng=searching) if modes is None else modes
    pooled = np.empty((0, target.dim))
    log_evidence = 0.0
    while len(pooled) < max_draws:
        draws = sample(n, drawing)
        batch = _moving_batch(draws, target)
        verdict = check(draws, target, modes=known, alpha=0.001, rng=checking)
        log_evidence += log_e_value(verdict.pvalue)
        pooled = np.concatenate([pooled, batch])
        if log_evidence >= -np.log(false_alarm):
            raise AssertionError(words.sampler_failure(verdict, len(pooled), false_alarm))
        with without_user_warnings():  # they are in the outcome
            accuracy = estimate_accuracy(pooled, target, modes=known, rng=checking)
        ends = np.array([record.error_intervals() for record in accuracy.parameters])
        known_ends = ~np.isnan(ends).any(axis=2)  # an sd may have none, a mean must
        within = known_ends[:, 0].all() and (np.abs(ends[known_ends]) <= tolerance).all()
        if log_evidence < np.log(20) and within:
            return Outcome(len(pooled), float(np.exp(log_evidence)), accuracy, verdict)
    raise Inconclusive(words.sampler_undecided(accuracy, len(pooled), tolerance, np.exp(log_evidence)))


def _moving_batch(draws: DrawsLike, target: Target) -> np.ndarray:
    """The draws (n, d) in the coordinates of the target; an AssertionError if one does not vary."""
    batch = to_unconstrained(draws, target).values
    for k in np.flatnonzero(np.ptp(batch, axis=0) == 0):
        raise AssertionError(f"the sampler does not move {target.coordinate_names[k]}: all draws are alike")
    return batch


def log_e_value(pvalue: float) -> float:
    """log of e(p), the mean of k p^(k - 1) over k in [0, 1]; no evidence without a p-value.

    >>> round(log_e_value(1e-6), 2)
    8.56
    """
    if np.isnan(pvalue):
        return 0.0
    p = max(float(pvalue), 1e-300)
    if p > 1 - 1e-4:  # the limit of the formula at 1, which cancels there
        return -np.log(2)
    return float(np.log1p(p * np.log(p) - p) - np.log(p) - 2 * np.log(-np.log(p)))


def _skewed() -> Example:
    """Logarithms of gamma variables of shape 1 and 4: a long left tail."""
    shape = np.array([1.0, 4.0])
    target = from_jax(lambda x: jnp.sum(shape * x - jnp.exp(x)), dim=2)
    return Example(target, lambda n, rng: np.log(rng.gamma(shape, size=(n, 2))))


def _curved() -> Example:
    """A banana: x1 given x0 is normal about x0^2 / 2."""

    def log_density(x: jax.Array) -> jax.Array:
        return -0.5 * x[0] ** 2 - 2.0 * (x[1] - 0.5 * x[0] ** 2) ** 2

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        first, noise = rng.normal(size=(2, n))
        return np.stack([first, 0.5 * first**2 + 0.5 * noise], axis=1)

    return Example(from_jax(log_density, dim=2), sample)


def _correlated() -> Example:
    """A Gaussian of three coordinates with different means, widths and correlations up to .9."""
    root = np.array([[1.0, 0.0, 0.0], [1.8, 0.87, 0.0], [0.0, 0.3, 0.1]])
    target = gaussian_mixture([[1.0, -2.0, 5.0]], root @ root.T)
    return Example(target, target.sample)


def _two_modes() -> Example:
    """Gaussians of weights .3 and .7 and different widths, 6 apart."""
    covariances = [np.eye(2), 0.36 * np.eye(2)]
    target = gaussian_mixture([[-3.0, 0.0], [3.0, 1.0]], covariances, [0.3, 0.7])
    return Example(target, target.sample)


def _funnel() -> Example:
    """A log scale of sd .5 and two coordinates of that scale."""

    def log_density(x: jax.Array) -> jax.Array:
        return -0.5 * (x[0] / 0.5) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-2 * x[0]) - 2 * x[0]

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        scale = 0.5 * rng.normal(size=(n, 1))
        return np.concatenate([scale, np.exp(scale) * rng.normal(size=(n, 2))], axis=1)

    return Example(from_jax(log_density, dim=3), sample)


def _heavy_tails() -> Example:
    """Student's t with 7 degrees of freedom in two dimensions."""
    target = from_jax(lambda x: -4.5 * jnp.log1p(jnp.sum(x**2) / 7), dim=2)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=(n, 2)) / np.sqrt(rng.chisquare(7, size=(n, 1)) / 7)

    return Example(target, sample)


#: Densities that show classical errors of samplers, which symmetric Gaussians hide.
targets: dict[str, Example] = {
    make.__name__.removeprefix("_"): make()
    for make in (_skewed, _curved, _correlated, _two_modes, _funnel, _heavy_tails)
}
