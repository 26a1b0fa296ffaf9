"""The accuracy of draws: move some of them until they show the density's own means and spreads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .._validation import RandomSource, announce, as_count, seeded
from ..chains.reading import read_sample
from ..flux import flux_core
from ..modes.held_out import known_modes
from ..result import Modes, ModeTable
from ..result.accuracy import AccuracyReason, AccuracyResult, Estimate, ParameterAccuracy
from ..target import Target, require_target, score_at
from ..target.parameter_scale import to_constrained
from ..typing import DrawsLike, ModesLike
from .cells import Cell, cells_of_modes
from .combine import Shares, combine_modes
from .density import CountedTarget
from .features import stein_features
from .intervals import Estimates, Moments, estimate_moments
from .metric import estimate_metric
from .tails import tail_weights
from .walkers import (
    BLOCK,
    WINDOW,
    CountedDensity,
    Ensemble,
    Frame,
    OutOfBudget,
    Window,
    adapt,
    frame_of,
    run,
    start_ensemble,
)

N_WALKERS = 200
MIN_WALKERS_PER_MODE = 50
ROUGH = 0.05  # half-width, in sds or as log ratio
REMEMBERS = 0.7  # correlation between halves of a window
HEAVY_TAIL = 0.19  # 1 / (tail index + 1): no fourth moment above 1/5
MIN_ACCEPTANCE = 0.3
LIGHT_SHARE = 0.01  # of modes that are left out


class Sample(NamedTuple):
    """Draws, with what is known about them."""

    x: np.ndarray  #: (n, d)
    scores: np.ndarray  #: (n, d)
    chain: np.ndarray | None  #: (n,)
    weight: np.ndarray  #: (n,), sum 1


class Fit(NamedTuple):
    """Moments of all functions after a round, and which have too heavy tails for an sd or a mean."""

    moments: Moments
    tails: np.ndarray

    @property
    def has_sd(self) -> np.ndarray:
        """Whether fourth moments exist."""
        return np.asarray(self.tails < HEAVY_TAIL)

    @property
    def forgotten(self) -> np.ndarray:
        """Whether the walkers have forgotten where they started."""
        sd_memory = np.where(self.has_sd, self.moments.log_sd.memory, 0)
        return np.asarray(np.maximum(self.moments.mean.memory, sd_memory) <= REMEMBERS)

    @property
    def rough(self) -> np.ndarray:
        """Whether an interval is long, or the start not forgotten."""
        mean, log_sd = self.moments
        width = mean.half_width / np.exp(log_sd.value)
        width = np.where(self.has_sd, np.maximum(width, log_sd.half_width), width)
        return ~((width <= ROUGH) & self.forgotten)


class Exploration(NamedTuple):
    """What the walkers found."""

    fit: Fit | None
    windows: list[Window]
    n_walkers: int
    n_transitions: int
    reasons: tuple[AccuracyReason, ...]


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
    Mira, Solgi and Imparato (2013). Zero variance Markov chain Monte Carlo for Bayesian estimators. Statistics
    and Computing 23, 653-662. The method is derived in docs/theory/accuracy.md.

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
    known, _, warnings = known_modes(modes, target, sample.x, None, chain=sample.chain, rng=search)
    warnings = [*sample.warnings, *warnings]
    shares = None
    if len(known) > 1:
        told = flux_core(sample.x, sample.log_p, target, known, chain=sample.chain, rng=flux)
        shares = None if told.mode_table is None else shares_of_table(told.mode_table)
    result = accuracy_core(
        sample.x,
        score_at(target, sample.x),
        target,
        known,
        chain=sample.chain,
        shares=shares,
        max_evaluations=max_evaluations,
        rounds=3 if max_evaluations is None else 5,
        rng=walk,
    )
    announce([*warnings, *result.warnings])
    return result


def shares_of_table(table: ModeTable) -> Shares:
    """The implied shares of a mode table with their covariance."""
    error = np.diff(table.implied_interval, axis=1)[:, 0] / 3.92
    centred = np.eye(len(table)) - table.implied[:, None]
    return Shares(table.implied, centred @ np.diag(error**2) @ centred.T)


def accuracy_core(
    x: np.ndarray,
    scores: np.ndarray,
    target: Target,
    modes: Modes,
    *,
    density: CountedDensity | None = None,
    chain: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    shares: Shares | None = None,
    max_evaluations: float | None = None,
    rounds: int = 3,
    rng: np.random.Generator,
) -> AccuracyResult:
    """The accuracy of draws x (n, d) with their scores, all of it validated.

    `density` counts evaluations and knows its limit; by default the target with `max_evaluations`.
    """
    density = CountedTarget(target, max_evaluations) if density is None else density
    n = len(x)
    weight = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    sample = Sample(x, scores, chain, weight)
    values, names = to_constrained(x, target)
    made = density.made
    found = _explore(sample, target, density, modes, shares, rounds, rng)
    mean = weight @ values
    sd = np.sqrt(weight @ (values - mean) ** 2)
    acceptance = float(np.mean([window.acceptance for window in found.windows])) if found.windows else np.nan
    reasons = found.reasons
    fit = found.fit
    if acceptance < MIN_ACCEPTANCE:
        fit, reasons = None, (*reasons, "low acceptance")
    centres = np.full(modes.locations.shape, np.nan)
    covariances = np.full(modes.covariances.shape, np.nan)
    for k, window in zip(_heavy_modes(modes, shares), found.windows, strict=False):
        centres[k] = window.x.mean(axis=0)
        covariances[k] = np.cov(window.x, rowvar=False).reshape(covariances[k].shape)
    return AccuracyResult(
        _records(names, mean, sd, fit),
        found.n_walkers,
        found.n_transitions,
        acceptance,
        density.made - made,
        reasons,
        centres,
        covariances,
    )


def _heavy_modes(modes: Modes, shares: Shares | None) -> np.ndarray:
    """Modes that are explored."""
    if len(modes) == 1:
        return np.zeros(1, dtype=int)
    if shares is None or not np.isfinite(shares.share).any():
        return np.zeros(0, dtype=int)
    return np.flatnonzero(shares.share > LIGHT_SHARE)


def _explore(
    sample: Sample,
    target: Target,
    density: CountedDensity,
    modes: Modes,
    shares: Shares | None,
    rounds: int,
    rng: np.random.Generator,
) -> Exploration:
    """Move walkers at every mode, round after round, until nothing is rough or no more is allowed."""
    kept = _heavy_modes(modes, shares)
    if not len(kept):
        return Exploration(None, [], 0, 0, ("unknown shares",))
    part = Shares(np.ones(1), np.zeros((1, 1))) if shares is None else shares.among(kept)
    reasons: list[AccuracyReason] = ["light modes"] if len(kept) < len(modes) else []
    grouped = sample.chain is not None
    fit, windows, transitions = None, [], 0
    ensembles: list[Ensemble] = []
    try:
        ensembles = _start(sample, density, modes, kept, part.share, rng)
        for r in range(rounds):
            pairs = [run(adapt(one), WINDOW * 2**r) for one in ensembles]
            windows = [window for _, window in pairs]
            transitions = 2 * BLOCK + (r + 1) * BLOCK + WINDOW * (2 ** (r + 1) - 1)
            fit = _fit(ensembles, windows, target, part, grouped)
            if not fit.rough.any():
                break
            ensembles = [one._replace(frame=frame_of(window)) for one, window in pairs]
        else:
            reasons.append("max_rounds")
    except OutOfBudget:
        reasons.append("max_evaluations")
    n_walkers = sum(len(one.walkers.x) for one in ensembles)
    return Exploration(fit, windows, n_walkers, transitions, tuple(reasons))


def _start(
    sample: Sample,
    density: CountedDensity,
    modes: Modes,
    kept: np.ndarray,
    share: np.ndarray,
    rng: np.random.Generator,
) -> list[Ensemble]:
    """Ensembles of the modes: at their draws, or about the mode itself where it has too few."""
    cells: Sequence[Cell | None] = cells_of_modes(modes) or [None]
    affordable = max(density.left / (120 * density.cost), 0)  # scores per walker up to the first estimate
    ensembles = []
    for k, part, stream in zip(kept, share, rng.spawn(len(kept)), strict=True):
        cell = cells[k]
        rows = np.arange(len(sample.x)) if cell is None else np.flatnonzero(cell.contains(sample.x))
        size = int(min(max(N_WALKERS * part, MIN_WALKERS_PER_MODE), affordable / len(kept)))
        if size < 20:
            raise OutOfBudget
        if len(rows) < 20:
            x, frame = _around_mode(modes, k, cell, size, stream)
        else:
            x = sample.x[rows[_evenly(sample.weight[rows], min(size, len(rows)))]]
            frame = Frame(x.mean(axis=0), estimate_metric(sample.x[rows], sample.scores[rows]))
        ensembles.append(start_ensemble(x, frame, cell, density, stream))
    return ensembles


def _around_mode(
    modes: Modes, k: int, cell: Cell | None, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, Frame]:
    """Starts about a mode without draws, with half of its spread."""
    centre, covariance = modes.locations[k], modes.covariances[k]
    x = centre + 0.5 * rng.standard_normal((size, len(centre))) @ np.linalg.cholesky(covariance).T
    if cell is not None:
        x[~cell.contains(x)] = centre
    return x, Frame(centre, covariance)


def _evenly(weight: np.ndarray, size: int) -> np.ndarray:
    """Rows that lie evenly in the cumulative weight."""
    cumulative = np.cumsum(weight)
    places = (np.arange(size) + 0.5) / size * cumulative[-1]
    return np.searchsorted(cumulative, places).clip(max=len(weight) - 1)


def _fit(
    ensembles: list[Ensemble], windows: list[Window], target: Target, shares: Shares, grouped: bool
) -> Fit:
    """Moments over all modes after a round."""
    functions = None if target.constrain is None else partial(_values, target=target)
    within, tails = [], []
    for one, window in zip(ensembles, windows, strict=True):
        values = window.x if functions is None else functions(window.x)
        cutoff = None if one.cell is None else one.cell.cutoff(window.x)
        z = window.x - window.frame.centre
        features = stein_features(z, window.scores, window.frame.metric, len(z) // 5, cutoff)
        within.append(estimate_moments(values, features, len(one.walkers.x), grouped=grouped))
        tails.append(tail_weights(window.x, window.scores, values, functions))
    return Fit(combine_modes(within, shares), np.max(tails, axis=0))


def _values(x: np.ndarray, target: Target) -> np.ndarray:
    return to_constrained(x, target)[0]


def _records(
    names: Sequence[str], mean: np.ndarray, sd: np.ndarray, fit: Fit | None
) -> tuple[ParameterAccuracy, ...]:
    """One record per parameter; without a fit all numbers of the density are NaN."""
    if fit is None:
        nothing = Estimate(np.nan, np.nan, np.nan, np.nan)
        parts = zip(names, mean.tolist(), sd.tolist(), strict=True)
        return tuple(ParameterAccuracy(*part, nothing, nothing, True, False, False) for part in parts)

    def estimate(estimates: Estimates, k: int) -> Estimate:
        return Estimate(*(float(values[k]) for values in estimates[:4]))

    records = []
    for k, name in enumerate(names):
        log_sd = estimate(fit.moments.log_sd, k)
        known = bool(fit.has_sd[k])
        flags = (bool(fit.rough[k]), bool(fit.forgotten[k]), known)
        if not known:
            log_sd = log_sd._replace(standard_error=np.inf)
        numbers = (float(mean[k]), float(sd[k]), estimate(fit.moments.mean, k), log_sd)
        records.append(ParameterAccuracy(name, *numbers, *flags))
    return tuple(records)
