"""The accuracy of draws: move some of them until they show the density's own means and spreads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from .._validation import RandomSource, announce, seeded
from ..chains.reading import Sample, read_sample
from ..flux import flux_core
from ..modes.known import known_modes
from ..perturbation.hamiltonian import Walkers
from ..result import AccuracyReason, AccuracyResult, Estimate, Modes, ModeTable, ParameterAccuracy
from ..target import Batch, Target, require_target, score_at, to_constrained
from ..target.evaluation import Budget, CountedTarget, OutOfBudget, as_budget, counting_target
from ..typing import DrawsLike, ModesLike
from ..wording.results import ACCURACY_ENDS
from .control import Moments, add_window, mixture, pareto_k, standard_error, tail_weights, window_moments
from .walkers import BLOCK, Ensemble, move, start_ensembles, with_new_metric

ROUGH = 0.05  # half-width, in sds or as log ratio
REMEMBERS = 0.7  # correlation between the halves of a window
HEAVY_TAIL = 0.19  # 1 / (tail index + 1); without a fourth moment it is above 1/5
MIN_ACCEPTANCE = 0.3  # below, the step did not adapt and nothing can be trusted
Records = tuple[ParameterAccuracy, ...]


class Functionals(NamedTuple):
    """Parameters as functions of the coordinates."""

    draws: list[tuple[str, float, float]]  #: their names, means and standard deviations over the draws
    values: Batch  #: (n, d) -> (n, q)


def estimate_accuracy(
    draws: DrawsLike,
    target: Target,
    *,
    weights: Any = None,
    log_weights: Any = None,
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
    weights, log_weights : array (n,), optional
        Importance weights of the draws, or their logarithms.
    modes : Modes, (locations, covariances) or locations, optional
        Searched for if not given. Walkers stay at their mode; several modes are combined by the shares of
        the density that the walkers imply, as draws do in `flux_test`.
    max_evaluations : int, optional
        Of the density by the walkers. They stop when no interval is rough, by default after at most three
        rounds of 10, 20 and 40 transitions, about 20,000 to 100,000 evaluations, with a limit after at most
        five.
    rng : int, Generator or SeedSequence, optional
        By default the seed 0, so that the same draws get the same numbers.

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
    budget = as_budget(max_evaluations, None)
    search, walk = seeded(0 if rng is None else rng)[0].spawn(2)
    sample = read_sample(draws, target, weights=weights, log_weights=log_weights, minimum=20)
    known, _, told = known_modes(modes, target, sample, None, rng=search)
    sample = sample._replace(scores=score_at(target, sample.x))
    result = accuracy_core(sample, target, known, budget=budget, rng=walk)
    announce([*sample.warnings, *told, *result.warnings])
    return result


def accuracy_core(
    sample: Sample,
    target: Target,
    modes: Modes,
    *,
    mode_table: ModeTable | None = None,
    budget: Budget | None = None,
    rng: np.random.Generator,
) -> AccuracyResult:
    """The accuracy of a sample with scores, all of it validated.

    Several modes are combined by the shares of `mode_table`; without it, by those that the walkers imply,
    which are right whatever the draws are.
    """
    density = CountedTarget(target, budget)
    made = density.budget.made
    ensembles, parameters, n_transitions, reasons, shares = _explore(sample, density, modes, mode_table, rng)
    acceptance = float(np.mean([one.acceptance for one in ensembles])) if ensembles else np.nan
    means = np.full(modes.locations.shape, np.nan)
    covariances = np.full(modes.covariances.shape, np.nan)
    for one in ensembles:
        means[one.mode] = one.states.x.mean(axis=0)
        covariances[one.mode] = np.cov(one.states.x, rowvar=False)
    made = density.budget.made - made
    numbers = {"n_transitions": n_transitions, "acceptance": acceptance}
    told = tuple(ACCURACY_ENDS[reason].format(**numbers) for reason in reasons)
    return AccuracyResult(parameters, n_transitions, made, reasons, (means, covariances), told, shares)


def functionals_of(target: Target, x: np.ndarray, weight: np.ndarray | None = None) -> Functionals:
    """All parameters but those that are constant, such as the diagonal of a correlation matrix.

    A parameter that only the draws x keep constant is none of these, hence the points beside the draws.
    """
    beside = x + 1e-3 * (1 + np.abs(x))
    every, names = to_constrained(np.concatenate([x, beside]), target)
    columns = np.flatnonzero(np.ptp(every, axis=0) > 0)
    kept = every[: len(x), columns]
    mean = np.average(kept, axis=0, weights=weight)
    sd = np.sqrt(np.average((kept - mean) ** 2, axis=0, weights=weight))
    draws = zip((names[k] for k in columns), mean.tolist(), sd.tolist(), strict=True)

    def values(points: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return to_constrained(points, target)[0][:, columns]

    return Functionals(list(draws), values)


class Exploration(NamedTuple):
    """Walkers at all modes after the last whole round, and what they say."""

    ensembles: list[Ensemble]
    records: Records
    n_transitions: int = 0
    reasons: tuple[AccuracyReason, ...] = ()  #: what was not done
    mode_table: ModeTable | None = None  #: shares of the density, where there are several modes


def _explore(
    sample: Sample, density: CountedTarget, modes: Modes, table: ModeTable | None, rng: np.random.Generator
) -> Exploration:
    """Move walkers at every mode, round after round, until nothing is rough."""
    functionals = functionals_of(density.target, sample.x, sample.weight)
    dependent = sample.chain is not None or sample.effective_size < 0.9 * len(sample.x)
    empty = tuple(ParameterAccuracy(*row) for row in functionals.draws)
    found = Exploration([], empty)
    start, carry = rng.spawn(2)
    within: list[Moments] = []
    try:
        ensembles = start_ensembles(sample, density, modes, start)
        for r in range(3 if np.isinf(density.budget.left) else 5):
            window = 2 * BLOCK * 2**r
            adapted = [move(with_new_metric(one), density, BLOCK, adapt=True) for one in ensembles]
            ensembles = [move(one, density, window) for one in adapted]
            shares = walker_shares(ensembles, density, modes, carry) if table is None else table
            found = Exploration(ensembles, empty, (r + 1) * BLOCK + 2 * window, mode_table=shares)
            if min(one.acceptance for one in ensembles) < MIN_ACCEPTANCE:
                return found._replace(reasons=("low acceptance",))
            if len(modes) > 1 and (shares is None or np.isnan(shares.implied).any()):
                return found._replace(reasons=("unknown shares",))
            within = within or [window_moments(one, functionals.values, dependent) for one in adapted]
            windows = [window_moments(one, functionals.values, dependent) for one in ensembles]
            within = [add_window(*pair) for pair in zip(within, windows, strict=True)]
            moments = within[0]
            if shares is not None:
                moments = mixture(within, shares.implied, shares.implied_covariance)
            records = _records(functionals, moments, [one.states for one in ensembles])
            found = found._replace(records=records)
            if not any(record.rough for record in records):
                return found
    except OutOfBudget:
        return found._replace(reasons=("max_evaluations",))
    return found._replace(reasons=("max_rounds",))


def walker_shares(
    ensembles: list[Ensemble], density: CountedTarget, modes: Modes, rng: np.random.Generator
) -> ModeTable | None:
    """Shares of the density that the walkers imply, about a thousand of their last states; None for one mode.

    Within a mode the states come from the density, whatever the draws are. Those of one walker are a group.
    """
    if len(modes) == 1:
        return None
    sizes = [len(one.walkers.x) for one in ensembles]
    kept = max(1, 1000 // sum(sizes))  # states per walker
    parts = [one.states.x[-kept * m :] for one, m in zip(ensembles, sizes, strict=True)]
    log_p = [one.states.log_p[-kept * m :] for one, m in zip(ensembles, sizes, strict=True)]
    firsts = np.cumsum(sizes) - sizes
    group = [np.tile(first + np.arange(m), kept) for first, m in zip(firsts, sizes, strict=True)]
    states = Sample(np.concatenate(parts), np.concatenate(log_p), group=np.concatenate(group))
    target = counting_target(density.target, density.budget)
    return flux_core(states, target, modes, budget=density.budget, rng=rng).mode_table


def _records(functionals: Functionals, moments: Moments, states: list[Walkers]) -> Records:
    """One record per parameter: no mean without second moments, no sd without fourth ones.

    Such an sd is a unit for errors of means, and no more.
    """
    x, _, scores = map(np.concatenate, zip(*states, strict=True))
    tails = tail_weights(x, scores, functionals.values)
    value, error, bias, freedom = moments.estimate
    known = np.stack([tails < 1 / 3, tails < HEAVY_TAIL])
    width = moments.estimate.half_width() / np.stack([np.exp(value[1]), np.ones_like(tails)])
    forgotten = moments.memory <= REMEMBERS
    rough = ~(known[0] & forgotten & ((width <= ROUGH) | ~known).all(axis=0))
    estimate = Estimate(value, np.where(known, error, np.inf), bias, freedom)
    estimate.value[0, ~known[0]] = np.nan
    flags = zip(rough.tolist(), forgotten.tolist(), known[1].tolist(), strict=True)
    return tuple(
        ParameterAccuracy(*row, estimate.at((0, k)), estimate.at((1, k)), *told)
        for k, (row, told) in enumerate(zip(functionals.draws, flags, strict=True))
    )


def importance_accuracy(sample: Sample, target: Target, log_q: np.ndarray) -> tuple[float, Records]:
    """Pareto k-hat and one record per parameter, by weights p / q of draws from a density q.

    `log_q` (n,) is the log density of the draws, up to a constant. The moments are self-normalised, with
    standard errors by the delta method; tails are those of draws that are resampled by their weights.
    """
    log_weights = sample.log_p - log_q
    weight = special.softmax(log_weights)
    n = len(weight)
    functionals = functionals_of(target, sample.x)
    values = functionals.values(sample.x)
    mean = weight @ values
    variance = weight @ (values - mean) ** 2
    on_both = np.stack([values - mean, (values - mean) ** 2 / (2 * variance) - 0.5], axis=1)
    error = standard_error(n * weight[:, None, None] * on_both, sample.chain is not None)
    freedom = np.full(error.shape, max(1 / np.sum(weight**2) - 1, 1.0))  # Kish
    estimate = Estimate(np.stack([mean, 0.5 * np.log(variance)]), error, np.zeros_like(error), freedom)
    rows = np.searchsorted(np.cumsum(weight), (np.arange(n) + 0.5) / n).clip(max=n - 1)
    states = [Walkers(sample.x[rows], sample.log_p[rows], sample.scores[rows])]
    records = _records(functionals, Moments(estimate, np.zeros_like(mean)), states)
    return pareto_k(log_weights), tuple(replace(record, source="importance weights") for record in records)


def better_records(walkers: Records, k_hat: float, weighted: Records) -> Records:
    """Per parameter the record with the shorter intervals; weights count if `k_hat` is below .7."""

    def width(record: ParameterAccuracy) -> float:
        return float(np.fmax.reduce(np.ptp(record.error_intervals(), axis=1)))

    if k_hat >= 0.7:
        return walkers
    pairs = zip(walkers, weighted, strict=True)
    return tuple(one if width(one) <= width(other) else other for one, other in pairs)
