"""What is wrong and by how much: facts, shares, errors of means and standard deviations, shape, chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from ..result import AgreementResult, Finding, FluxResult, Modes, MomentResult, ParameterAccuracy
from ..wording import verdict as words
from ..wording.results import describe_feature
from .combine import Combined
from .facts import Facts

MOST_NAMED = 6  # modes, and errors of means and sds; the mode table and the summary have the rest


def all_findings(facts: Facts, names: Sequence[str]) -> list[Finding]:
    """What is wrong, in one order; impossible draws are the finding if no test finds anything else."""
    found = weight_findings(facts, names)
    if facts.combined.rejected or facts.tolerance is not None:
        found += error_findings(facts)
        found += [*shape_findings(facts, sized=bool(found)), *agreement_findings(facts.combined)]
    rows = facts.tested.improbable_rows(facts.case)
    if len(rows) and not found:
        text = words.impossible_text(rows.tolist(), len(facts.case.values))
        found.append(Finding(kind="impossible draws", text=text))
    return found


def weight_findings(facts: Facts, names: Sequence[str]) -> list[Finding]:
    """Wrong shares: those that the test finds; with a tolerance, or without a test, those that exceed it."""
    weights = facts.tested.weights
    if weights is None:
        return []
    table = weights.mode_table
    pvalue = facts.combined.adjusted_pvalues["weights"]
    rejected = facts.combined.rejects("weights")
    if table is None:
        return [flow_finding(weights, names, pvalue)] if rejected else []
    if facts.stuck or facts.tolerance is not None:
        wrong, pvalue = facts.wrong_shares, np.nan
    elif rejected and weights.mode_pvalues is not None:
        wrong = facts.combined.holm_factor("weights") * weights.mode_pvalues <= facts.combined.alpha
        if not wrong.any():
            return [Finding(kind="mode share", pvalue=pvalue, text=words.Phrases.weights_wrong)]
    else:
        return []
    found = [
        Finding(
            kind="missing mode" if table.n_draws[k] == 0 else "mode share",
            mode=int(k),
            estimate=float(table.implied[k]),
            interval=(float(table.implied_interval[k, 0]), float(table.implied_interval[k, 1])),
            pvalue=pvalue,
            text=words.share_text(table, k, facts.known.descriptions[k]),
        )
        for k in np.argsort(table.error, kind="stable")
        if wrong[k]
    ]
    return _shortened(found, "mode", "verdict.mode_table")


def flow_finding(weights: FluxResult, names: Sequence[str], pvalue: float) -> Finding:
    """The displacement of a lattice of modes along which the flow is farthest from balance."""
    lattice = weights.lattice
    assert lattice is not None
    error = np.where(lattice.net_flow_se > 0, lattice.net_flow_se, np.inf)
    k = int(np.argmax(np.abs(lattice.net_flow) / error))
    step = lattice.displacements[k] * np.sign(lattice.net_flow[k])
    largest = np.argsort(-np.abs(step), kind="stable")[:3]
    chosen = [int(j) for j in largest if abs(step[j]) > 0.1 * np.abs(step).max()]
    named = tuple(names[j] for j in chosen)
    return Finding(kind="flow", parameters=named, pvalue=pvalue, text=words.flow_text(step[chosen], named))


def error_findings(facts: Facts) -> list[Finding]:
    """Means and standard deviations that are off by more than chance allows, the largest errors first.

    The error of a mean has the variance h^2 + 1 / m, h the half-width of its interval over 1.96 and m the
    effective number of draws; that of a log sd has h^2 + (kurtosis - 1) / (4 m). Bonferroni's method allows
    for the number of errors. With a tolerance, an interval outside it decides.
    """
    accuracy = facts.measured.parameters
    if not accuracy:
        return []
    sizes = facts.case.effective_sizes
    kurtosis = stats.kurtosis(facts.case.values, axis=0, fisher=False)
    variances = np.stack([1 / sizes, np.maximum(kurtosis - 1, 1.0) / (4 * sizes)], axis=1)
    by_name = dict(zip(facts.case.names, variances, strict=True))
    single = [finding for item in accuracy for finding in _errors(item, by_name[item.parameter])]
    if facts.tolerance is None:
        adjusted = [replace(finding, pvalue=len(single) * finding.pvalue) for finding in single]
        wrong = [finding for finding in adjusted if finding.pvalue <= facts.combined.alpha]
    else:
        wrong = [replace(finding, pvalue=np.nan) for finding in single if _exceeds(finding, facts.tolerance)]
    return _shortened(sorted(wrong, key=_size, reverse=True), "error", "verdict.summary()")


def _errors(item: ParameterAccuracy, variance_of_draws: np.ndarray) -> list[Finding]:
    """Both errors of one parameter, with their p-values."""
    about = (item.parameter,)
    errors = (item.mean_error, item.sd_error)
    intervals = np.array([item.mean_error_interval, item.sd_error_interval])
    halves = np.array([np.ptp(item.mean_error_interval) / 2, item.log_sd_estimate.half_width()])
    widths = halves / stats.norm.ppf(0.975)
    p_mean, p_sd = 2 * stats.norm.sf(np.abs(errors) / np.sqrt(widths**2 + variance_of_draws))
    (low, high), ratios = intervals[0].tolist(), np.exp(intervals[1]).tolist()
    mean = Finding("mean", None, about, item.mean_error, (low, high), p_mean, words.mean_text(item))
    if not item.has_sd:
        return [mean]
    ratio = float(np.exp(item.sd_error))
    return [mean, Finding("sd", None, about, ratio, (ratios[0], ratios[1]), p_sd, words.sd_text(item))]


def _size(finding: Finding) -> float:
    return abs(finding.estimate if finding.kind == "mean" else float(np.log(finding.estimate)))


def _exceeds(finding: Finding, tolerance: float) -> bool:
    """Whether the interval of an error is entirely outside the tolerance."""
    low, high = finding.interval if finding.kind == "mean" else np.log(finding.interval).tolist()
    return low > tolerance or high < -tolerance


def _shortened(found: list[Finding], noun: str, where: str) -> list[Finding]:
    """The first few, and how many more there are."""
    rest = found[MOST_NAMED:]
    if not rest:
        return found
    last = Finding(kind=rest[0].kind, pvalue=rest[-1].pvalue, text=words.more_text(len(rest), noun, where))
    return [*found[:MOST_NAMED], last]


def modes_apart(modes: Modes) -> bool:
    """Whether there are several modes, all so far apart that tests of the shape see nothing of the shares."""
    precision = np.linalg.inv(modes.covariances)
    gap = modes.locations[:, None] - modes.locations
    distance = np.sqrt(np.einsum("kli,kij,klj->kl", gap, precision, gap))
    return len(modes) > 1 and bool(np.min(distance[~np.eye(len(modes), dtype=bool)]) >= 5.0)


def shape_findings(facts: Facts, *, sized: bool) -> list[Finding]:
    """A wrong shape, where no wrong mean, sd or share explains it."""
    combined = facts.combined
    pvalue = min(combined.adjusted_pvalues.get(name, 1.0) for name in ("kernel", "moments"))
    several = len(facts.known.modes) > 1
    if pvalue > combined.alpha or (sized and not modes_apart(facts.known.modes)):
        return []
    moments = combined.tests.get("moments")
    features = moments.significant(combined.alpha) if isinstance(moments, MomentResult) else ()
    parameters = features[0].parameters if features else ()
    text = words.shape_text(describe_feature(features[0]) if features else "", several=several)
    return [Finding(kind="shape", parameters=parameters, pvalue=pvalue, text=text)]


def agreement_findings(combined: Combined) -> list[Finding]:
    """A chain that differs from the others, or beginnings that differ from the rest."""
    chains = combined.tests.get("chains")
    if not isinstance(chains, AgreementResult) or not combined.rejects("chains"):
        return []
    pvalue = combined.adjusted_pvalues["chains"]
    return [Finding(kind="chains", pvalue=pvalue, text=words.agreement_text(chains))]
