"""One question, one answer: do the draws fit the density, and how far off are their numbers?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._validation import (
    RandomSource,
    as_one_positive,
    check_level,
    check_switch,
    integer_seed,
    recorded,
)
from .._version import __version__
from ..flux import importance_weights
from ..flux.anchors import mode_anchors
from ..flux.orbits import time_within_modes
from ..modes.search import as_box
from ..result import AgreementResult, Finding, ImportanceWeights, StepEvaluations, Verdict
from ..target import Target, require_target, to_constrained
from ..typing import BoundsLike, DrawsLike, ModesLike
from ..wording import verdict as words
from ..wording.verdict import Circumstance
from .case import (
    MIN_DRAWS,
    end_step,
    find_known_modes,
    read_case,
    step_evaluations,
)
from .examine import combine, measure, run_tests
from .findings import Evidence, all_findings, answer


class StepStreams(NamedTuple):
    """One random stream per step."""

    modes: np.random.Generator
    tests: np.random.Generator
    accuracy: np.random.Generator
    support: np.random.Generator


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
    weights: Any = None,
    log_weights: ArrayLike | None = None,
    log_q: ArrayLike | Callable[[np.ndarray], ArrayLike] | None = None,
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
    weights, log_weights : array (n,), optional
        Importance weights of the draws, or their logarithms, up to a constant: of nested sampling, sequential
        Monte Carlo, importance sampling, or ``verdict.importance_weights`` as they are. Give one of them.
    log_q : array (n,) or callable, optional
        Log density of the approximation that the draws come from, in the coordinates of the target, up to a
        constant: values at the draws, or a function of points (n, d). It shows whether importance weights
        can correct the draws (Pareto k-hat), and where they can, how far off the draws' numbers are.
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
    check_level(alpha)
    require_target(target)
    if tolerance is not None:
        as_one_positive(tolerance, "tolerance")
    for name, value in (("independent", independent), ("check_score", check_score)):
        check_switch(value, name)
    check_switch(progress, "progress", optional=True)
    box = as_box(bounds, target.dim, modes)
    settings = recorded(
        modes=modes,
        bounds=bounds,
        alpha=float(alpha),
        tolerance=tolerance,
        independent=bool(independent),
        check_score=bool(check_score),
        weights=weights,
        log_weights=log_weights,
        log_q=log_q,
        max_evaluations=max_evaluations,
        max_seconds=max_seconds,
        rng=integer_seed(0 if rng is None else rng),
    )
    streams = StepStreams(*np.random.default_rng(settings["rng"]).spawn(4))
    case = read_case(draws, target, settings, log_density, streams.support)
    budget = case.budget
    if np.isfinite(budget.max_evaluations):  # this number repeats the run, whatever the clock says
        settings |= {"max_evaluations": int(budget.max_evaluations), "max_seconds": None}
    first = step_evaluations(case, [budget.made], 1, searched=modes is None)
    later = min(budget.left, sum(step.planned for step in first[1:]))
    made = [end_step("draws", budget, progress, left=int(later))]
    known = find_known_modes(case, modes, box, progress=progress, rng=streams.modes)
    made.append(end_step("modes", budget, progress))
    tested = run_tests(case, known, alpha, streams.tests)
    made.append(end_step("tests", budget, progress))
    measured = measure(case, known, tested, streams.accuracy)
    made.append(end_step("accuracy", budget, progress))
    steps = step_evaluations(case, made, len(known.modes), searched=modes is None)
    evidence = Evidence(case, known, tested, combine(tested.tests, alpha), measured, tolerance)
    return _verdict(evidence, settings, steps)


def _verdict(
    evidence: Evidence,
    settings: dict[str, Any],
    steps: tuple[StepEvaluations, ...],
) -> Verdict:
    """The answer, and everything that is known about it in words."""
    case, known, tested, combined, measured, tolerance = evidence
    made = (case.remarks, known.remarks, tested.remarks, measured.remarks, evidence.reasons)
    remarks = tuple(dict.fromkeys(remark for part in made for remark in part))
    texts = {
        kind: tuple(dict.fromkeys(remark.text for remark in remarks if remark.kind == kind))
        for kind in ("warning", "context", "reason", "not examined")
    }
    fits = answer(evidence, texts["reason"])
    findings = all_findings(evidence, case.target.coordinate_names) if fits is False else ()
    mode = _mode_of_every_draw(evidence)
    weights = None if mode is None else _importance_weights(evidence, mode)
    detail = _detail(fits, evidence, findings)
    limited = words.limited_texts(settings["max_evaluations"], sum(max(step[1:]) for step in steps))
    return Verdict(
        fits=fits,
        sentence=words.headline(fits, combined, tolerance, detail, texts["reason"]),
        tests=combined.tests,
        adjusted_pvalues=combined.adjusted_pvalues,
        accuracy=measured.parameters,
        findings=findings,
        advice=() if fits else words.advice(_circumstances(evidence, findings, weights), remarks),
        importance_weights=weights,
        modes=known.modes,
        mode_parameters=to_constrained(known.modes.locations, case.target)[0],
        mode_moments=None if measured.accuracy is None else measured.accuracy.mode_moments,
        mode_of_draw=None if mode is None else _of_all_draws(mode, evidence, -1),
        k_hat=measured.k_hat,
        inconclusive_reasons=texts["reason"],
        not_examined=(*texts["not examined"], *(() if fits is None else texts["reason"]), *limited),
        context=texts["context"],
        warnings=texts["warning"],
        evaluations=steps,
        n=len(case.values),
        effective_sample_size=case.sample.effective_size,
        names=case.target.coordinate_names,
        version=__version__,
        settings=settings,
    )


def _detail(fits: bool | None, evidence: Evidence, findings: tuple[Finding, ...]) -> str:
    """What the answer adds in numbers: the first finding, or how accurate the draws are."""
    if findings:
        return words.sentence(findings[0].text)
    if fits is None:
        return ""
    return words.accuracy_sentence(evidence.measured.parameters, evidence.allowed_error)


def _mode_of_every_draw(evidence: Evidence) -> np.ndarray | None:
    """The mode of each draw by the flux test; those held out belong to the nearest one."""
    if len(evidence.known.modes) == 1:
        return np.zeros(len(evidence.case.values), dtype=int)
    weights = evidence.tested.weights
    if weights is None or weights.mode_of_draw is None:
        return None
    x = evidence.case.sample.x
    nearest = mode_anchors(evidence.known.modes).largest(x)
    return np.where(weights.mode_of_draw < 0, nearest, weights.mode_of_draw)


def _of_all_draws(values: np.ndarray, evidence: Evidence, missing: float) -> np.ndarray:
    """Values (n,) in the user's order, with those of draws of weight 0, which are left out, as `missing`."""
    kept = evidence.case.kept
    if kept is None:
        return values
    of_all = np.full(len(kept), missing, dtype=values.dtype)
    of_all[kept] = values
    return of_all


def _importance_weights(evidence: Evidence, mode: np.ndarray) -> ImportanceWeights | None:
    """Weights that give the modes the shares of the density, if the draws are then enough for a verdict."""
    sample, table = evidence.case.sample, evidence.tested.mode_table
    if table is None or np.isnan(table.implied).any() or np.any(table.n_draws[table.implied > 0.01] == 0):
        return None
    tau = 1.0 if sample.chain is None else time_within_modes(sample.x, sample.log_p, mode, sample.chain)
    found = importance_weights(table, mode, tau, sample.weight)
    if found.effective_sample_size < MIN_DRAWS:
        return None
    return replace(found, weights=_of_all_draws(found.weights, evidence, 0.0))


def _circumstances(
    evidence: Evidence, findings: tuple[Finding, ...], weights: ImportanceWeights | None
) -> list[Circumstance]:
    """What advice depends on."""
    kinds = {finding.kind for finding in findings}
    chains = evidence.combined.tests.get("chains")
    wrong_shares = bool(kinds & {"missing mode", "mode share", "flow"}) or (
        evidence.stuck and weights is not None
    )
    holds: dict[Circumstance, bool] = {
        "wrong shares": wrong_shares,
        "wrong numbers": "shape" in kinds or (bool(kinds & {"mean", "sd"}) and not wrong_shares),
        "impossible draws": "impossible draws" in kinds,
        "odd chain": "chains" in kinds,
        "warm-up": "chains" in kinds and isinstance(chains, AgreementResult) and chains.starts_differ,
        "Markov chains": evidence.case.sample.chain is not None,
        "weighted": evidence.case.sample.weight is not None,
        "approximation": evidence.case.log_q is not None,
        "correctable": evidence.measured.k_hat is not None and evidence.measured.k_hat < 0.7,
        "stuck": evidence.stuck,
        "reweightable": weights is not None,
        "relabelled": any(g.moved for g in evidence.known.modes.symmetries),
    }
    return [name for name, true in holds.items() if true]
