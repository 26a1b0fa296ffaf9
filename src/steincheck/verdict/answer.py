"""One question, one answer: do the draws fit the density, and how far off are their numbers?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._validation import (
    RandomSource,
    as_count,
    as_one_positive,
    check_level,
    check_switch,
    integer_seed,
    recorded,
)
from .._version import __version__
from ..draws import to_unconstrained
from ..modes.held_out import box_beside
from ..result import Finding, StepEvaluations, Verdict
from ..target import Target, require_target
from ..target.evaluation import counting_target
from ..typing import BoundsLike, DrawsLike, ModesLike
from ..wording import verdict as words
from .case import Remarks, find_known_modes, join_notes, notes_on_unknown_modes, read_case
from .combine import combine
from .examine import run_tests
from .facts import Facts
from .findings import all_findings
from .measure import measure
from .plan import affordable_budget, end_step, evaluations
from .repair import importance_weights_of, mode_of_every_draw


class StepStreams(NamedTuple):
    """One random stream per step."""

    modes: np.random.Generator
    tests: np.random.Generator
    accuracy: np.random.Generator


@np.errstate(under="ignore")  # whatever the user has set
def check(
    draws: DrawsLike,
    target: Target,
    *,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    alpha: float = 0.05,
    tolerance: float | None = None,
    independent: bool = False,
    check_score: bool = True,
    log_density: ArrayLike | None = None,
    max_evaluations: int | None = None,
    max_seconds: float | None = 60.0,
    progress: bool | None = None,
    rng: RandomSource = None,
) -> Verdict:
    """Do the draws fit the density? How far off are their means, standard deviations and mode shares?

    H0: the draws are independent and come from the target; or, for Markov chains, the chains are stationary
    with the target as their distribution. The mode search starts from held-out draws; the others are
    tested: the shape by `ksdagg_test`, location, spread, correlation and tails by `moment_test`, the mode
    weights by `flux_test`, and whether the chains agree. Holm's method combines them at the level `alpha`.
    Then some draws are moved by transitions that leave the density invariant, which shows what the means and
    standard deviations of the density are (`estimate_accuracy`).

    Parameters
    ----------
    draws : array (n, d), array (chain, draw, d), or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as one
        chain.
    target : Target
        The density.
    modes : Modes, (locations, covariances) or locations, optional
        Modes you know; otherwise they are searched for, and no box is needed.
    bounds : (low, high), or one such pair per coordinate, optional
        A box that is searched as well. Mutually exclusive with `modes`.
    alpha : float
        The level; below about 0.001 there are too few replicates, and the answer is "cannot tell".
    tolerance : float, optional
        The errors that you allow: 0.1 is a tenth of a standard deviation for means, 10 % for standard
        deviations and .1 for shares of modes. The answer is then by the errors: True if every 95 % interval
        is within the tolerance, False if one, widened for their number, is outside, None otherwise. By
        default the tests decide.
    independent : bool
        The draws are independent, whatever their order or shape suggests.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    log_density : array (n,), optional
        The log density of the target at the draws, up to a constant, where the sampler has recorded it. It is
        compared with the target's at five draws and used instead of evaluating it.
    max_evaluations : int, optional
        Points at which the density may be evaluated, everything included; the draws are always.
    max_seconds : float or None
        Seconds after which nothing more is evaluated. With None a verdict never depends on the clock.
    progress : bool, optional
        Show the progress of the mode search, by default on a terminal; with True also a line per step.
    rng : int, Generator or SeedSequence, optional
        Source of randomness; by default the seed 0, so that the same draws get the same answer.

    Returns
    -------
    Verdict
        ``verdict.fits`` is False (misfit found), True (no misfit found, which is no proof) or None (cannot
        tell); ``print(verdict)`` says it in words. Warnings are in ``verdict.warnings``: none is raised as a
        Python warning.

    Notes
    -----
    docs/verdict.md says what it does and what its words mean.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> left = np.random.default_rng(0).normal(-3.0, 1.0, size=(1000, 1))
    >>> sc.check(left, target, rng=0).fits
    False
    """
    _check_arguments(target, alpha, tolerance, max_evaluations, max_seconds)
    for name, value in (("independent", independent), ("check_score", check_score)):
        check_switch(value, name)
    check_switch(progress, "progress", optional=True)
    box = box_beside(modes, bounds, target.dim)
    settings = recorded(
        modes=modes,
        bounds=bounds,
        alpha=float(alpha),
        tolerance=tolerance,
        independent=bool(independent),
        check_score=bool(check_score),
        max_evaluations=max_evaluations,
        max_seconds=max_seconds,
        rng=integer_seed(0 if rng is None else rng),
    )
    streams = StepStreams(*np.random.default_rng(settings["rng"]).spawn(3))
    read = to_unconstrained(draws, target)
    budget = affordable_budget(target, read.values, max_evaluations, max_seconds)
    if np.isfinite(budget.max_evaluations):  # this number repeats the run, whatever the clock says
        settings |= {"max_evaluations": int(budget.max_evaluations), "max_seconds": None}
    counted = counting_target(target, budget)
    case = read_case(read, counted, budget, log_density, independent=independent, check_score=check_score)
    made = [end_step("draws", budget, progress)]
    known = find_known_modes(case, target, modes, box, budget=budget, progress=progress, rng=streams.modes)
    made.append(end_step("modes", budget, progress))
    tested = run_tests(case, counted, known, alpha, budget, streams.tests)
    unknown = notes_on_unknown_modes(case, target, known, budget)
    made.append(end_step("tests", budget, progress))
    measured = measure(case, target, known, tested, budget=budget, rng=streams.accuracy)
    made.append(end_step("accuracy", budget, progress))
    steps = evaluations(target, len(read.values), len(known.modes), made)
    facts = Facts(case, known, tested, combine(tested.tests, alpha), measured, tolerance)
    notes = join_notes(case.notes, known.notes, tested.notes, unknown, measured.notes, facts.notes)
    return _compose(facts, target, notes, settings, steps)


def _check_arguments(target: Any, alpha: Any, tolerance: Any, max_evaluations: Any, max_seconds: Any) -> None:
    """Raise unless level, tolerance and limits are valid; None is no tolerance and no limit."""
    check_level(alpha)
    require_target(target)
    if tolerance is not None:
        as_one_positive(tolerance, "tolerance")
    if max_evaluations is not None:
        as_count(max_evaluations, "max_evaluations", maximum=10**12)
    if max_seconds is not None:
        as_one_positive(max_seconds, "max_seconds")


def _compose(
    facts: Facts,
    target: Target,
    notes: Remarks,
    settings: dict[str, Any],
    steps: tuple[StepEvaluations, ...],
) -> Verdict:
    """The answer, and everything that is known about it in words."""
    case, known, tested, combined, measured, tolerance = facts
    fits = facts.answer(notes.reasons)
    findings = all_findings(facts, target.coordinate_names) if fits is False else ()
    mode = mode_of_every_draw(case.sample.x, known.modes, tested.weights)
    weights = importance_weights_of(case.sample, tested.mode_table, mode)
    return Verdict(
        fits=fits,
        sentence=words.headline(fits, combined, tolerance, _detail(fits, facts, findings), notes.reasons),
        pvalue=combined.pvalue,
        alpha=combined.alpha,
        tolerance=tolerance,
        tests=combined.tests,
        adjusted_pvalues=combined.adjusted_pvalues,
        accuracy=measured.parameters,
        mode_table=tested.mode_table,
        findings=tuple(findings),
        advice=words.advice(fits, facts.situation(target, findings, reweightable=weights is not None)),
        importance_weights=weights,
        modes=known.modes,
        mode_descriptions=known.descriptions,
        mode_means=measured.mode_means,
        mode_covariances=measured.mode_covariances,
        mode_of_draw=mode,
        parameter_table=measured.table,
        inconclusive_reasons=notes.reasons,
        not_examined=(
            *notes.not_examined,
            *(() if fits is None else notes.reasons),
            *words.limited_texts(settings["max_evaluations"], sum(max(step[1:]) for step in steps)),
        ),
        context=notes.context,
        warnings=notes.warnings,
        evaluations=steps,
        n=len(case.sample.x),
        dim=target.dim,
        names=target.coordinate_names,
        seed=settings["rng"],
        version=__version__,
        settings=settings,
    )


def _detail(fits: bool | None, facts: Facts, findings: Sequence[Finding]) -> str:
    """What the answer adds in numbers: the first finding, or how accurate the draws are."""
    if findings:
        return words.sentence(findings[0].text)
    if fits is None or not facts.measured.parameters:
        return ""
    return words.accuracy_sentence(facts.measured.parameters, facts.allowed_error)
