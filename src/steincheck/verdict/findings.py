"""The answer in a verdict: shares, errors of means and sds, shape, chains, and what to do about them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from .._version import __version__
from ..chains.blocks import autocorrelation_time
from ..flux import importance_weights
from ..flux.anchors import mode_anchors
from ..flux.orbits import time_within_modes
from ..result import (
    AgreementResult,
    Finding,
    FluxResult,
    ImportanceWeights,
    MomentResult,
    ParameterAccuracy,
    StepEvaluations,
    Verdict,
)
from ..target import to_constrained
from ..wording import verdict as words
from ..wording.numbers import mode_descriptions
from ..wording.results import describe_feature, weight_reason_and_remedy
from ..wording.verdict import Remark, RemarkKind, remark
from .steps import MIN_DRAWS, USUAL_TOLERANCE, Case, CaseModes, Measured, Tested


class Evidence(NamedTuple):
    """What the steps of `check` found, and what it says of shares and errors."""

    case: Case
    known: CaseModes
    tested: Tested
    measured: Measured
    tolerance: float | None
    allowed_error: float  #: the tolerance, or the usual one
    stuck: bool  #: whether chains change mode too rarely for a test of the mode weights
    wrong_shares: np.ndarray  #: (M,) which modes have a share that is off by more than the allowed error
    share_answer: bool | None  #: whether all shares are within the allowed error; True with one mode
    error_answer: bool | None  #: whether all errors are within the tolerance; None without one


def weigh(
    case: Case, known: CaseModes, tested: Tested, measured: Measured, tolerance: float | None
) -> Evidence:
    """Compare shares and errors with the tolerance; what is outside is so for all modes jointly."""
    allowed = USUAL_TOLERANCE if tolerance is None else tolerance
    flux, table = tested.weights, measured.mode_table
    stuck = flux is not None and flux.chains is not None and bool(np.isnan(flux.pvalue))
    wrong = np.empty(0, dtype=bool)
    shares = True if len(known.modes) == 1 else None
    if table is not None:
        wider = stats.norm.ppf(0.025 / len(table)) / stats.norm.ppf(0.025)
        error = table.error[:, None]
        low, high = (error + wider * (table.error_interval - error)).T
        wrong = (low > allowed) | (high < -allowed)
        within = np.abs(table.error_interval) <= allowed
        shares = False if wrong.any() else True if within.all() else None
    errors = None
    if tolerance is not None and measured.accuracy is not None and case.valid:
        answers = (measured.accuracy.answer(tolerance), shares)
        errors = False if False in answers else True if all(answers) else None
    return Evidence(case, known, tested, measured, tolerance, allowed, stuck, wrong, shares, errors)


def as_verdict(evidence: Evidence, settings: dict[str, Any], steps: tuple[StepEvaluations, ...]) -> Verdict:
    """The answer, and everything that is known about it in words."""
    case, known, tested, measured, tolerance, *_ = evidence
    texts = _texts(evidence, settings["max_evaluations"], steps)
    reasons = texts["reason"]
    wrong_by_fact = len(tested.improbable_rows) or (evidence.stuck and evidence.share_answer is False)
    fits = False if tested.rejected or wrong_by_fact else None if reasons else True
    if tolerance is not None:
        fits = evidence.error_answer
    findings = all_findings(evidence) if fits is False else ()
    mode = _mode_of_every_draw(evidence)
    weights = _importance_weights(evidence, mode)
    tests = dict(tested.tests)
    if tested.weights is not None:
        tests["weights"] = replace(tested.weights, mode_table=measured.mode_table)
    advice = [words.ADVICE[name] for name in _advice(evidence, findings, weights)]
    return Verdict(
        fits=fits,
        sentence=words.headline(fits, evidence, findings, tuple(reasons)),
        tests=tests,
        adjusted_pvalues=tested.adjusted_pvalues,
        accuracy=measured.parameters,
        findings=findings,
        advice=() if fits else tuple(advice or words.remedies(reasons.values())),
        importance_weights=weights,
        modes=known.modes,
        mode_parameters=to_constrained(known.modes.locations, case.target)[0],
        mode_moments=None if measured.accuracy is None else measured.accuracy.mode_moments,
        mode_of_draw=None if mode is None else _of_all_draws(mode, evidence, -1),
        k_hat=measured.k_hat,
        inconclusive_reasons=tuple(reasons),
        not_examined=(*texts["not examined"], *(() if fits is None else reasons)),
        context=tuple(texts["context"]),
        warnings=tuple(texts["warning"]),
        evaluations=steps,
        n=len(case.values),
        effective_sample_size=case.sample.effective_size,
        names=case.target.coordinate_names,
        version=__version__,
        settings=settings,
    )


def _texts(
    evidence: Evidence, limit: int | None, steps: tuple[StepEvaluations, ...]
) -> defaultdict[RemarkKind, dict[str, str]]:
    """Per kind of remark its texts, each of them once, with their remedies."""
    case, known, tested, measured, tolerance, *_ = evidence
    remarks = [*case.remarks, *known.remarks, *tested.remarks, *measured.remarks]
    n = case.sample.effective_size
    more = "take more draws" if case.sample.chain is None else "run the chains longer"
    if n < MIN_DRAWS:
        remarks.append(remark("few draws", n=n, least=MIN_DRAWS, more=more))
    harmless = [None, "light modes"]  # where all modes but one are light there is nothing to compare
    if case.sample.weight is not None and evidence.share_answer:
        harmless.append("stuck chains")  # weights have set the shares: they are a fact
    if tested.weights is not None and tested.weights.inconclusive_reason not in harmless:
        remarks.append(Remark("reason", *weight_reason_and_remedy(tested.weights)))
    for result in tested.tests.values():
        floor = len(tested.tests) * result.pvalue_floor
        if floor > tested.alpha:
            remarks.append(remark("level", test=result.test, alpha=tested.alpha, floor=floor))
    if tolerance is not None and evidence.error_answer is None:
        remarks.append(remark("tolerance", tolerance=tolerance, more=more))
    enough = sum(max(step[1:]) for step in steps)
    if limit is not None and limit < enough:
        remarks.append(remark("limit", limit=limit, enough=enough))
    texts: defaultdict[RemarkKind, dict[str, str]] = defaultdict(dict)
    for kind, text, remedy in remarks:
        texts[kind][text] = remedy
    return texts


def all_findings(evidence: Evidence) -> tuple[Finding, ...]:
    """What is wrong, in one order; impossible draws are the finding if no test finds anything else."""
    tested = evidence.tested
    shares = share_findings(evidence)
    found = shares
    if tested.rejected or evidence.tolerance is not None:
        errors = error_findings(evidence)
        several = len(evidence.known.modes) > 1
        explained = shares if several else errors  # wrong shares bend the shape, and errors are those of all
        found = [*shares, *errors, *([] if explained else shape_findings(tested, several=several))]
        chains = tested.tests.get("chains")
        if isinstance(chains, AgreementResult) and "chains" in tested.rejected:
            text = words.FINDINGS["beginnings" if chains.starts_differ else "chain"]
            text = text.format(chain=chains.odd_chain)
            found.append(Finding(kind="chains", pvalue=tested.adjusted_pvalues["chains"], text=text))
    rows = tested.improbable_rows
    if len(rows) and not found:
        text = words.impossible_text(rows.tolist(), len(evidence.case.values))
        found = [Finding(kind="impossible draws", text=text)]
    return tuple(found)


def share_findings(evidence: Evidence) -> list[Finding]:
    """Wrong shares: those that the test finds; with a tolerance, or without a test, those that exceed it."""
    tested, flux, table = evidence.tested, evidence.tested.weights, evidence.measured.mode_table
    by_fact = evidence.stuck or evidence.tolerance is not None
    if flux is None or not (by_fact or "weights" in tested.rejected):
        return []
    if table is None or flux.mode_pvalues is None:
        return [] if by_fact else [flow_finding(evidence, flux)]
    wrong, pvalue = evidence.wrong_shares, np.nan
    if not by_fact:
        pvalue = tested.adjusted_pvalues["weights"]
        factor = sum(not result.pvalue < flux.pvalue for result in tested.tests.values())  # Holm's
        pvalues = factor * flux.mode_pvalues
        wrong = pvalues <= max(tested.alpha, np.nanmin(pvalues))  # at least the clearest one
        if tested.wrong_shape:  # the test may have rejected for that
            low, high = table.error_interval.T
            wrong &= (low > 0) | (high < 0)
    places = mode_descriptions(*to_constrained(table.locations, evidence.case.target))
    return [
        Finding(
            kind="missing mode" if table.n_draws[k] == 0 else "mode share",
            mode=k,
            estimate=float(table.implied[k]),
            interval=(float(table.implied_interval[k, 0]), float(table.implied_interval[k, 1])),
            pvalue=pvalue,
            text=words.share_text(table, k, places[k]),
        )
        for k in np.argsort(table.error, kind="stable").tolist()
        if wrong[k]
    ]


def flow_finding(evidence: Evidence, flux: FluxResult) -> Finding:
    """The displacement of a lattice of modes along which the flow is farthest from balance."""
    lattice, names = flux.lattice, evidence.case.target.coordinate_names
    assert lattice is not None
    error = np.where(lattice.net_flow_se > 0, lattice.net_flow_se, np.inf)
    k = int(np.argmax(np.abs(lattice.net_flow) / error))
    step = lattice.displacements[k] * np.sign(lattice.net_flow[k])
    largest = np.argsort(-np.abs(step), kind="stable")[:3].tolist()
    chosen = {names[j]: step[j] for j in largest if abs(step[j]) > 0.1 * np.abs(step).max()}
    direction = ", ".join(f"{name} {value:+.3g}" for name, value in chosen.items())
    text = words.FINDINGS["flow"].format(direction=direction)
    pvalue = evidence.tested.adjusted_pvalues["weights"]
    return Finding(kind="flow", parameters=tuple(chosen), pvalue=pvalue, text=text)


def error_findings(evidence: Evidence) -> list[Finding]:
    """Means and standard deviations that are off by more than chance allows, the largest errors first.

    The error of a mean has the variance h^2 + 1 / m, h the half-width of its interval over 1.96 and m the
    effective number of draws; that of a log sd has h^2 + (kurtosis - 1) / (4 m). Bonferroni's method allows
    for the number of errors. With a tolerance, an interval outside it decides.
    """
    items, tolerance = evidence.measured.parameters, evidence.tolerance
    errors = np.array([(item.mean_error, item.sd_error) for item in items])
    ends = np.array([item.error_intervals() for item in items])
    if tolerance is None:
        pvalues = _error_pvalues(evidence.case, items, errors)
        wrong = pvalues <= evidence.tested.alpha
    else:
        pvalues = np.full(errors.shape, np.nan)
        wrong = (ends[..., 0] > tolerance) | (ends[..., 1] < -tolerance)
    found = []
    for k, j in sorted(np.argwhere(wrong).tolist(), key=lambda at: -abs(errors[at[0], at[1]])):
        item, numbers = items[k], np.array([errors[k, j], *ends[k, j]])
        estimate, low, high = (np.exp(numbers) if j else numbers).tolist()
        finding = Finding(
            kind="sd" if j else "mean",
            parameters=(item.parameter,),
            estimate=estimate,
            interval=(low, high),
            pvalue=pvalues[k, j],
            text=words.sd_text(item) if j else words.mean_text(item),
        )
        found.append(finding)
    return found


def _error_pvalues(case: Case, items: tuple[ParameterAccuracy, ...], errors: np.ndarray) -> np.ndarray:
    """(k, 2) p-values of the errors of means and log sds, adjusted for their number; NaN for constants."""
    halves = [(np.ptp(item.mean_error_interval) / 2, item.log_sd_estimate.half_width()) for item in items]
    mean, sd = np.array([(item.draws_mean, item.draws_sd) for item in items]).T
    z = (case.values - mean) / np.where(sd > 0, sd, np.nan)
    kurtosis = np.average(z**4, axis=0, weights=case.sample.weight)
    m = np.full(len(items), case.sample.effective_size)
    if case.sample.chain is not None:
        m = m / np.maximum(autocorrelation_time(case.values, case.sample.chain), 1.0)
    of_draws = np.stack([1 / m, np.maximum(kurtosis - 1, 1.0) / (4 * m)], axis=1)
    variance = (np.array(halves) / stats.norm.ppf(0.975)) ** 2 + of_draws
    return np.sum(~np.isnan(errors)) * 2 * stats.norm.sf(np.abs(errors) / np.sqrt(variance))


def shape_findings(tested: Tested, *, several: bool) -> list[Finding]:
    """A wrong shape, with the clearest feature of the moment test."""
    if not tested.wrong_shape:
        return []
    pvalue = min(tested.adjusted_pvalues.get(name, 1.0) for name in ("kernel", "moments"))
    moments = tested.tests.get("moments")
    features = moments.significant(tested.alpha)[:1] if isinstance(moments, MomentResult) else ()
    seen = "".join(f": {describe_feature(feature)}" for feature in features)
    text = words.FINDINGS["shape"].format(where=" within modes" if several else "", feature=seen)
    parameters = tuple(name for feature in features for name in feature.parameters)
    return [Finding(kind="shape", parameters=parameters, pvalue=pvalue, text=text)]


def _mode_of_every_draw(evidence: Evidence) -> np.ndarray | None:
    """The mode of each draw by the flux test; those held out belong to the nearest one."""
    if len(evidence.known.modes) == 1:
        return np.zeros(len(evidence.case.values), dtype=int)
    weights = evidence.tested.weights
    if weights is None or weights.mode_of_draw is None:
        return None
    nearest = mode_anchors(evidence.known.modes).largest(evidence.case.sample.x)
    return np.where(weights.mode_of_draw < 0, nearest, weights.mode_of_draw)


def _of_all_draws(values: np.ndarray, evidence: Evidence, missing: float) -> np.ndarray:
    """Values (n,) in the user's order, with those of draws of weight 0, which are left out, as `missing`."""
    kept = evidence.case.kept
    if kept is None:
        return values
    of_all = np.full(len(kept), missing, dtype=values.dtype)
    of_all[kept] = values
    return of_all


def _importance_weights(evidence: Evidence, mode: np.ndarray | None) -> ImportanceWeights | None:
    """Weights that give the modes the shares of the density, if the draws are then enough for a verdict."""
    sample, table = evidence.case.sample, evidence.measured.mode_table
    if mode is None or table is None or np.isnan(table.implied).any():
        return None
    if np.any(table.n_draws[table.implied > 0.01] == 0):
        return None
    tau = 1.0 if sample.chain is None else time_within_modes(sample.x, sample.log_p, mode, sample.chain)
    found = importance_weights(table, mode, tau, sample.weight)
    if found.effective_sample_size < MIN_DRAWS:
        return None
    return replace(found, weights=_of_all_draws(found.weights, evidence, 0.0))


def _advice(
    evidence: Evidence, findings: tuple[Finding, ...], weights: ImportanceWeights | None
) -> list[str]:
    """Names of what to do about the findings, the most urgent first."""
    case, k_hat = evidence.case, evidence.measured.k_hat
    kinds = {finding.kind for finding in findings}
    chains = evidence.tested.tests.get("chains")
    warm_up = "chains" in kinds and isinstance(chains, AgreementResult) and chains.starts_differ
    found = ["warm-up"] if warm_up else []
    wrong_shares = bool(kinds & {"missing mode", "mode share", "flow"}) or (evidence.stuck and weights)
    if wrong_shares and any(g.moved for g in evidence.known.modes.symmetries):
        found.append("labels")
    if wrong_shares and weights is None:
        found.append("sample again" if case.sample.chain is None else "start chains")
    elif wrong_shares:
        found += ["mode weights", *(["stuck"] if evidence.stuck else [])]
    if k_hat is not None and k_hat < 0.7:
        found.append("p / q")
    if ("shape" in kinds or (kinds & {"mean", "sd"} and not wrong_shares)) and not warm_up:
        source = "unknown source" if case.sample.weight is None else "weighted"
        source = source if case.sample.chain is None else "chains"
        found.append(source if case.log_q is None else "approximation")
    if "impossible draws" in kinds:
        found.append("impossible")
    return [*found, "odd chain"] if "chains" in kinds and not warm_up else found
