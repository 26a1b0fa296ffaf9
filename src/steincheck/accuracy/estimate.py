"""The accuracy of draws: move some of them until they show the density's own means and spreads."""

from __future__ import annotations

import numpy as np

from .._validation import RandomSource, announce, as_count, seeded
from ..chains.reading import read_sample
from ..flux import flux_core
from ..modes.held_out import known_modes
from ..result import AccuracyResult, Estimate, Modes, ParameterAccuracy
from ..target import Target, require_target, score_at
from ..target.evaluation import Budget, CountedTarget
from ..typing import DrawsLike, ModesLike
from ..wording.results import accuracy_warnings
from .exploration import MIN_ACCEPTANCE, DrawsWithScores, Exploration, Fit, explore
from .functionals import Functionals, functionals_of
from .intervals import Shares


def estimate_accuracy(
    draws: DrawsLike,
    target: Target,
    *,
    modes: ModesLike | None = None,
    max_evaluations: int | None = None,
    rng: RandomSource = None,
) -> AccuracyResult:
    """How far off are the draws' means and standard deviations?

    Some of the draws are moved by Hamiltonian transitions that leave the density invariant, and Stein's
    identity takes the noise out of their averages. If the draws are right nothing changes; if not, they move
    to where the density's own numbers are. Nothing is assumed about how the draws were made.

    Parameters
    ----------
    draws : array (n, d) or (chain, draw, d), a list of chains, or anything that `as_draws` takes
    target : Target
        The density.
    modes : Modes, (locations, covariances) or locations, optional
        Searched for if not given. Walkers stay at their mode; several modes are combined by the shares that
        `flux_test` implies.
    max_evaluations : int, optional
        Of the density by the walkers. By default they stop after at most three rounds of 10, 20 and 40
        transitions, about 20,000 to 100,000 evaluations; with a limit after at most five.
    rng : int, Generator or SeedSequence, optional

    Returns
    -------
    AccuracyResult
        One record per parameter, on its own scale.

    References
    ----------
    Mira, Solgi and Imparato (2013). Zero variance Markov chain Monte Carlo for Bayesian estimators.
    Statistics and Computing 23, 653-662. The method is derived in docs/theory/accuracy.md.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2, names=["mu", "sigma"])
    >>> draws = np.random.default_rng(0).normal(size=(1000, 2)) * [1.0, 0.5]
    >>> result = sc.estimate_accuracy(draws, target, modes=[[0.0, 0.0]], rng=0)
    >>> result.largest.parameter, round(result.largest.sd, 2), result.answer(0.1)
    ('sigma', 1.0, False)
    """
    require_target(target)
    if max_evaluations is not None:
        as_count(max_evaluations, "max_evaluations", maximum=10**12)
    generator, _ = seeded(rng)
    sample = read_sample(draws, target, minimum=20)
    search, flux, walk = generator.spawn(3)
    known, _, told = known_modes(modes, target, sample.x, None, chain=sample.chain, rng=search)
    warnings = [*sample.warnings, *told]
    shares = None
    if len(known) > 1:
        tested = flux_core(sample.x, sample.log_p, target, known, chain=sample.chain, rng=flux)
        shares = None if tested.mode_table is None else Shares.of(tested.mode_table)
    result = accuracy_core(
        sample.x,
        score_at(target, sample.x),
        target,
        known,
        chain=sample.chain,
        shares=shares,
        budget=Budget() if max_evaluations is None else Budget(max_evaluations),
        rounds=3 if max_evaluations is None else 5,
        rng=walk,
    )
    announce([*warnings, *result.warnings])
    return result


def accuracy_core(
    x: np.ndarray,
    scores: np.ndarray,
    target: Target,
    modes: Modes,
    *,
    chain: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    shares: Shares | None = None,
    budget: Budget | None = None,
    rounds: int = 3,
    rng: np.random.Generator,
) -> AccuracyResult:
    """The accuracy of draws x (n, d) with their scores, all of it validated.

    `shares` are needed where there are several modes.
    """
    density = CountedTarget(target, budget)
    made = density.budget.made
    weight = np.full(len(x), 1 / len(x)) if weight is None else weight / weight.sum()
    functionals = functionals_of(target, x)
    draws = DrawsWithScores(x, scores, weight, chain is not None)
    found = explore(draws, functionals, density, modes, shares, rounds, rng)
    acceptance = float(np.mean([window.acceptance for window in found.windows])) if found.windows else np.nan
    fit, reasons = found.fit, found.reasons
    if acceptance < MIN_ACCEPTANCE:
        fit, reasons = None, (*reasons, "low acceptance")
    mean, covariance = _moments_of_modes(found, modes)
    return AccuracyResult(
        _records(draws, functionals, fit),
        found.n_walkers,
        found.n_transitions,
        acceptance,
        density.budget.made - made,
        reasons,
        mean,
        covariance,
        accuracy_warnings(reasons, found.n_transitions, acceptance),
    )


def _moments_of_modes(found: Exploration, modes: Modes) -> tuple[np.ndarray, np.ndarray]:
    """Means (M, d) and covariances (M, d, d) of the states at each mode; NaN where there are none."""
    means = np.full(modes.locations.shape, np.nan)
    covariances = np.full(modes.covariances.shape, np.nan)
    for cell, window in zip(found.cells, found.windows, strict=True):
        means[cell.own] = window.x.mean(axis=0)
        covariances[cell.own] = np.cov(window.x, rowvar=False)
    return means, covariances


def _records(
    draws: DrawsWithScores, functionals: Functionals, fit: Fit | None
) -> tuple[ParameterAccuracy, ...]:
    """One record per parameter; without a fit all numbers of the density are NaN."""
    values = functionals.values(draws.x)
    mean = draws.weight @ values
    sd = np.sqrt(draws.weight @ (values - mean) ** 2)
    nothing = Estimate(np.nan, np.inf, 0.0, 1.0)
    records = []
    for k, name in enumerate(functionals.names):
        told = (nothing, nothing, True, False, False)
        if fit is not None:
            density_mean = fit.moments.mean.at(k) if fit.has_mean[k] else nothing
            log_sd = fit.moments.log_sd.at(k)
            if not fit.has_sd[k]:  # a unit for errors of means, but no more than that
                log_sd = log_sd._replace(standard_error=np.inf)
            flags = (bool(fit.rough[k]), bool(fit.forgotten[k]), bool(fit.has_sd[k]))
            told = (density_mean, log_sd, *flags)
        records.append(ParameterAccuracy(name, float(mean[k]), float(sd[k]), *told))
    return tuple(records)
