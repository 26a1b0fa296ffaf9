"""The answer in a verdict: shares, errors of means and sds, shape, chains, and what to do about them."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
from scipy import stats

from .._version import __version__
from ..chains.blocks import autocorrelation_time, time_within
from ..flux import importance_weights
from ..flux.orbits import mode_anchors
from ..result import Finding, FluxResult, ImportanceWeights, StepEvaluations, Verdict
from ..target import to_constrained
from ..wording import verdict as words
from ..wording.numbers import mode_descriptions
from ..wording.results import describe_feature
from ..wording.verdict import USUAL_TOLERANCE, RemarkKind, not_examined
from .steps import COSTS, MIN_DRAWS, Case, CaseModes, Measured, Tested


def as_verdict(case: Case, known: CaseModes, tested: Tested, measured: Measured) -> Verdict:
    """The answer, and everything that is known about it in words."""
    steps = _evaluations(case, known, tested, measured)
    remarks = [*case.remarks, *known.remarks, *tested.remarks, *measured.remarks]
    limit, usual = case.settings["max_evaluations"], sum(max(step[1:]) for step in steps)
    if limit is not None and limit < usual:
        remarks.append(not_examined("limit", limit=limit, usual=usual))
    kinds = get_args(RemarkKind)  # per kind each text once, with its remedy
    texts = {kind: {one.text: one.remedy for one in remarks if one.kind == kind} for kind in kinds}
    remedies = texts["reason"]
    fits = measured.answer  # by the errors if there is a tolerance, by tests and facts otherwise
    if case.settings["tolerance"] is None:
        fact = len(tested.improbable_rows) or (tested.weights_untested and measured.wrong_shares.any())
        unless_wrong = None if remedies else True
        fits = False if tested.rejected or fact else unless_wrong
    mode, weights = _mode_of_draws_and_weights(case, known, tested, measured)
    verdict = Verdict(
        fits=fits,
        tests=tested.tests,
        adjusted_pvalues=tested.adjusted_pvalues,
        accuracy=measured.parameters,
        mode_table=measured.mode_table,
        findings=all_findings(case, known, tested, measured) if fits is False else (),
        importance_weights=weights,
        modes=known.modes,
        mode_parameters=to_constrained(known.modes.locations, case.target)[0],
        mode_moments=measured.mode_moments,
        mode_of_draw=mode,
        k_hat=measured.k_hat,
        inconclusive_reasons=tuple(remedies),
        not_examined=(*texts["not examined"], *(() if fits is None else remedies)),
        context=tuple(texts["context"]),
        warnings=tuple(text for text in texts["warning"] if text not in remedies),
        evaluations=steps,
        n=len(case.values),
        effective_sample_size=case.sample.effective_size,
        names=case.target.coordinate_names,
        version=__version__,
        settings=case.settings,
    )
    then = [f"{remedy}, then check again" for remedy in dict.fromkeys(remedies.values())]
    return verdict if fits else replace(verdict, advice=tuple(_advice(case, tested, verdict) or then))


def _evaluations(
    case: Case, known: CaseModes, tested: Tested, measured: Measured
) -> tuple[StepEvaluations, ...]:
    """Per step the evaluations that usually leave nothing out, and those made."""
    n, cost = len(case.values), case.score_cost
    planned = {
        "draws": n * (1 + cost) + COSTS["support"],
        "modes": COSTS["search"] * cost if case.settings["modes"] is None else 0,
        "tests": COSTS["rays"] + COSTS["climbs"] + n * (len(known.modes) - 1),
        "accuracy": COSTS["walkers"] * cost,
    }
    made = np.diff([0, case.made, known.made, tested.made, measured.made]).tolist()
    return tuple(StepEvaluations(*step) for step in zip(planned, planned.values(), made, strict=True))


def all_findings(case: Case, known: CaseModes, tested: Tested, measured: Measured) -> tuple[Finding, ...]:
    """What is wrong, in one order; impossible draws are the finding if no test finds anything else."""
    found = shares = share_findings(case, tested, measured)
    if tested.rejected or case.settings["tolerance"] is not None:
        errors = error_findings(case, tested, measured)
        several = len(known.modes) > 1
        explained = shares if several else errors  # wrong shares bend the shape, and errors are those of all
        found = [*shares, *errors, *([] if explained else shape_findings(tested, several=several))]
        if "chains" in tested.rejected:
            chains = tested.tests["chains"]
            part = "quarter" if chains.chains.n_chains == 1 else "chain"
            name = "beginnings" if chains.starts_differ else part
            text = words.FINDINGS[name].format(chain=chains.odd_chain)
            found.append(Finding("chains", pvalue=tested.adjusted_pvalues["chains"], text=text))
    rows = tested.improbable_rows
    if len(rows) and not found:
        found = [Finding("impossible draws", text=words.impossible_text(rows.tolist(), len(case.values)))]
    return tuple(found)


def share_findings(case: Case, tested: Tested, measured: Measured) -> list[Finding]:
    """Wrong shares: those that the test finds; with a tolerance, or without a test, those that exceed it."""
    flux, table, wrong = tested.weights, measured.mode_table, measured.wrong_shares
    by_fact = tested.weights_untested or case.settings["tolerance"] is not None
    if flux is None or not (by_fact or "weights" in tested.rejected):
        return []
    if table is None or flux.mode_pvalues is None:
        return [] if by_fact else [flow_finding(case, tested, flux)]
    if not by_fact:
        wrong = flux.mode_pvalues <= max(tested.alpha, np.nanmin(flux.mode_pvalues))  # the clearest at least
        if tested.wrong_shape:  # the test may have rejected for that
            low, high = table.error_interval.T
            wrong &= (low > 0) | (high < 0)
    places = mode_descriptions(*to_constrained(table.locations, case.target))
    return [
        Finding(
            "missing mode" if table.n_draws[k] == 0 else "mode share",
            mode=k,
            estimate=float(table.implied[k]),
            interval=(float(table.implied_interval[k, 0]), float(table.implied_interval[k, 1])),
            pvalue=np.nan if by_fact else tested.adjusted_pvalues["weights"],
            text=words.share_text(table, k, places[k]),
        )
        for k in np.argsort(table.error, kind="stable").tolist()
        if wrong[k]
    ]


def flow_finding(case: Case, tested: Tested, flux: FluxResult) -> Finding:
    """The displacement of a lattice of modes along which the flow is farthest from balance."""
    lattice, names = flux.lattice, case.target.coordinate_names
    assert lattice is not None
    error = np.where(lattice.net_flow_se > 0, lattice.net_flow_se, np.inf)
    k = int(np.argmax(np.abs(lattice.net_flow) / error))
    step = lattice.displacements[k] * np.sign(lattice.net_flow[k])
    largest = np.argsort(-np.abs(step), kind="stable")[:3].tolist()
    chosen = {names[j]: step[j] for j in largest if abs(step[j]) > 0.1 * np.abs(step).max()}
    direction = ", ".join(f"{name} {value:+.3g}" for name, value in chosen.items())
    text = words.FINDINGS["flow"].format(direction=direction)
    return Finding("flow", parameters=tuple(chosen), pvalue=tested.adjusted_pvalues["weights"], text=text)


def error_findings(case: Case, tested: Tested, measured: Measured) -> list[Finding]:
    """Means and standard deviations that are off by more than chance allows, the largest errors first.

    The error of a mean has the variance h^2 + 1 / m, h the half-width of its interval over 1.96 and m the
    effective number of draws; that of a log sd has h^2 + (kurtosis - 1) / (4 m). Bonferroni's method allows
    for the number of errors. With a tolerance, an interval outside it decides.
    """
    items = measured.parameters
    errors = np.array([(item.mean_error, item.sd_error) for item in items])
    ends = np.array([item.error_intervals() for item in items])
    pvalues = np.full(errors.shape, np.nan)
    wrong = (ends[..., 0] > case.tolerance) | (ends[..., 1] < -case.tolerance)
    if case.settings["tolerance"] is None:
        pvalues = _error_pvalues(case, errors, ends)
        wrong = pvalues <= tested.alpha
    found = []
    for k, j in sorted(np.argwhere(wrong).tolist(), key=lambda at: -abs(errors[at[0], at[1]])):
        numbers = np.array([errors[k, j], *ends[k, j]])
        estimate, low, high = (np.exp(numbers) if j else numbers).tolist()
        finding = Finding(
            "sd" if j else "mean",
            parameters=(items[k].parameter,),
            estimate=estimate,
            interval=(low, high),
            pvalue=float(pvalues[k, j]),
            text=words.sd_text(items[k]) if j else words.mean_text(items[k]),
        )
        found.append(finding)
    return found


def _error_pvalues(case: Case, errors: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """(k, 2) p-values of the errors of means and log sds, adjusted for their number; NaN for constants."""
    weight = case.sample.weight
    z = case.values - np.average(case.values, axis=0, weights=weight)
    squares, fourth = (np.average(z**power, axis=0, weights=weight) for power in (2, 4))
    kurtosis = fourth / np.where(squares > 0, squares, np.nan) ** 2
    m = np.full(len(errors), case.sample.effective_size)
    if case.sample.chain is not None:
        m = m / np.maximum(autocorrelation_time(case.values, case.sample.chain), 1.0)
    of_draws = np.stack([1 / m, np.maximum(kurtosis - 1, 1.0) / (4 * m)], axis=1)
    variance = (np.ptp(ends, axis=2) / 2 / stats.norm.ppf(0.975)) ** 2 + of_draws
    return np.sum(~np.isnan(errors)) * 2 * stats.norm.sf(np.abs(errors) / np.sqrt(variance))


def shape_findings(tested: Tested, *, several: bool) -> list[Finding]:
    """A wrong shape, with the clearest feature of the moment test."""
    if not tested.wrong_shape:
        return []
    pvalue = min(tested.adjusted_pvalues.get(name, 1.0) for name in ("kernel", "moments"))
    moments = tested.tests.get("moments")
    features = () if moments is None else moments.significant(tested.alpha)[:1]
    seen = "".join(f": {describe_feature(feature)}" for feature in features)
    text = words.FINDINGS["shape"].format(where=" within modes" if several else "", feature=seen)
    parameters = tuple(name for feature in features for name in feature.parameters)
    return [Finding("shape", parameters=parameters, pvalue=pvalue, text=text)]


def _mode_of_draws_and_weights(
    case: Case, known: CaseModes, tested: Tested, measured: Measured
) -> tuple[np.ndarray | None, ImportanceWeights | None]:
    """The mode of each draw, and weights that give the modes the shares of the density.

    Draws that were held out from the flux test belong to the nearest mode. There are no weights if the draws
    would not be enough for a verdict then.
    """
    sample, table = case.sample, measured.mode_table
    if len(known.modes) == 1:
        return _of_all_draws(np.zeros(len(case.values), dtype=int), case, -1), None
    if tested.weights is None or tested.weights.mode_of_draw is None:
        return None, None
    mode = tested.weights.mode_of_draw
    mode = np.where(mode < 0, mode_anchors(known.modes).largest(sample.x), mode)
    found = None
    if table is not None:
        tau = 1.0
        if sample.chain is not None:
            label = np.unique(mode, return_inverse=True)[1]
            tau = time_within(np.column_stack([sample.log_p, sample.x]), label, sample.chain)
        found = importance_weights(table, mode, tau, sample.weight)
    if found is not None:
        enough = found.effective_sample_size >= MIN_DRAWS
        found = replace(found, weights=_of_all_draws(found.weights, case, 0.0)) if enough else None
    return _of_all_draws(mode, case, -1), found


def _of_all_draws(values: np.ndarray, case: Case, missing: float) -> np.ndarray:
    """Values (n,) in the user's order, with those of draws of weight 0, which are left out, as `missing`."""
    kept = case.read.kept
    if kept is None:
        return values
    of_all = np.full(len(kept), missing, dtype=values.dtype)
    of_all[kept] = values
    return of_all


def _advice(case: Case, tested: Tested, verdict: Verdict) -> list[str]:
    """What to do about the findings, the most urgent first."""
    kinds = {finding.kind for finding in verdict.findings}
    weights, k_hat = verdict.importance_weights, verdict.k_hat
    chains = case.sample.chain is not None
    warm_up = "chains" in kinds and tested.tests["chains"].starts_differ
    repairable = tested.weights_untested and weights is not None
    wrong_shares = bool(kinds & {"missing mode", "mode share"}) or repairable
    many = len(tested.improbable_rows) > USUAL_TOLERANCE * len(case.values)
    wrong_numbers = kinds & {"mean", "sd"} and not wrong_shares and "flow" not in kinds
    # outside the tolerance, which no test finds wrong; an sd ratio of 0, draws that do not vary, is no chance
    chance = wrong_numbers and not tested.rejected and all(one.estimate != 0 for one in verdict.findings)
    wrong_draws = "shape" in kinds or wrong_numbers or ("impossible draws" in kinds and many)
    independent = "unknown source" if case.sample.weight is None else "weighted"
    source = "chains" if chains else independent
    rules = [
        (warm_up, "warm-up"),
        (wrong_shares and any(g.moved for g in verdict.modes.symmetries), "labels"),
        (wrong_shares and weights is None, "start chains" if chains else "sample again"),
        (wrong_shares and weights is not None, "mode weights"),
        (wrong_shares and weights is not None and tested.wrong_shape, "weighted shape"),
        (repairable or "flow" in kinds, "few changes"),
        (k_hat is not None and k_hat < 0.7, "p / q"),
        (chance, "few draws"),
        (wrong_draws and not (warm_up or chance), source if case.log_q is None else "approximation"),
        ("impossible draws" in kinds and not wrong_draws, "impossible"),
        ("chains" in kinds and not warm_up, "odd chain"),
    ]
    return [words.ADVICE[name] for applies, name in rules if applies]
