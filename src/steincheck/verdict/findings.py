"""What is wrong and by how much: facts, shares, errors of means and standard deviations, shape, chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from ..result import (
    AgreementResult,
    Estimate,
    Finding,
    FluxResult,
    ModeTable,
    MomentResult,
    ParameterAccuracy,
)
from ..wording import verdict as words
from .combine import Combined
from .facts import Facts
from .measure import sd_effective_sizes

MAX_MODES_NAMED = 5  # findings about single modes; the mode table has the rest
MAX_ERRORS_NAMED = 6  # findings about means and sds; the summary has the rest


class DrawSize(NamedTuple):
    """How many independent draws a parameter's mean and standard deviation are worth."""

    mean: np.ndarray  #: (k,) effective sample size for the mean
    sd: np.ndarray  #: (k,) the same for the sd, allowing for the kurtosis of the draws


def all_findings(facts: Facts, names: Sequence[str]) -> list[Finding]:
    """What is wrong, in one order; impossible draws lead only where nothing else explains them."""
    combined = facts.combined
    shares = _weight_findings(facts, names)
    sizes = DrawSize(facts.case.effective_sizes, sd_effective_sizes(facts.case))
    errors = error_findings(facts.measured.parameters, sizes, combined.alpha, facts.tolerance)
    several = len(facts.known.modes) > 1
    found = [*shares, *errors, *shape_findings(combined, several=several, sized=bool(errors))]
    found += agreement_findings(combined)
    rows = facts.tested.impossible_rows
    if rows and not found:
        text = words.impossible_text(rows, len(facts.case.sample.x))
        found.append(Finding(kind="impossible draws", text=text))
    return found


def _weight_findings(facts: Facts, names: Sequence[str]) -> list[Finding]:
    """Wrong shares: those that the test finds, or of chains that cannot be tested, those off by too much."""
    weights = facts.tested.weights
    if weights is None:
        return []
    table = weights.mode_table
    pvalue = facts.combined.adjusted_pvalues["weights"]
    if facts.stuck or facts.tolerance is not None:
        assert table is not None
        low, high = table.error_interval.T
        off = (low > facts.allowed_error) | (high < -facts.allowed_error)
        return share_findings(table, facts.known.descriptions, np.flatnonzero(off).tolist(), np.nan)
    if not facts.combined.rejects("weights"):
        return []
    if table is None or weights.mode_pvalues is None:
        return [flow_finding(weights, names, pvalue)]
    factor = facts.combined.holm_factor("weights")
    wrong = np.flatnonzero(factor * weights.mode_pvalues <= facts.combined.alpha).tolist()
    if not wrong:
        return [Finding(kind="mode share", pvalue=pvalue, text=words.weights_text())]
    return share_findings(table, facts.known.descriptions, wrong, pvalue)


def share_findings(
    table: ModeTable, descriptions: Sequence[str], wrong: Sequence[int], pvalue: float
) -> list[Finding]:
    """Modes whose shares are wrong, those without draws first, then by the size of the error."""
    order = sorted(wrong, key=lambda k: (table.n_draws[k] > 0, -abs(table.error[k])))
    found = [
        Finding(
            kind="missing mode" if table.n_draws[k] == 0 else "mode share",
            mode=int(k),
            estimate=float(table.implied[k]),
            interval=(float(table.implied_interval[k, 0]), float(table.implied_interval[k, 1])),
            pvalue=pvalue,
            text=words.share_text(table, k, descriptions[k]),
        )
        for k in order[:MAX_MODES_NAMED]
    ]
    if len(order) > MAX_MODES_NAMED:
        text = words.more_modes_text(len(order) - MAX_MODES_NAMED)
        found.append(Finding(kind="mode share", pvalue=pvalue, text=text))
    return found


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
    text = words.flow_text(step[chosen], named)
    return Finding(kind="flow", parameters=named, pvalue=pvalue, text=text)


class SizedError(NamedTuple):
    """The error of one mean or standard deviation, and how likely chance makes it as large."""

    finding: Finding
    size: float  #: in standard deviations, or as a logarithm of their ratio


def error_findings(
    accuracy: Sequence[ParameterAccuracy], sizes: DrawSize, alpha: float, tolerance: float | None
) -> list[Finding]:
    """Means and standard deviations that are off by more than chance allows, the largest errors first.

    The error of a mean has the standard error (se^2 + 1 / m)^(1/2), se that of the density's mean and m the
    effective number of draws; Bonferroni's method allows for the number of errors. With a `tolerance` an
    error counts if it is also outside of that.
    """
    errors = []
    for item, for_mean, for_sd in zip(accuracy, sizes.mean, sizes.sd, strict=True):
        errors.append(_mean_error(item, for_mean))
        if item.has_sd:
            errors.append(_sd_error(item, for_sd))
    adjusted = [min(1.0, len(errors) * error.finding.pvalue) for error in errors]
    wrong = [
        SizedError(_with_pvalue(error.finding, p), error.size)
        for error, p in zip(errors, adjusted, strict=True)
        if p <= alpha and (tolerance is None or abs(error.size) > tolerance)
    ]
    wrong.sort(key=lambda error: -abs(error.size))
    found = [error.finding for error in wrong[:MAX_ERRORS_NAMED]]
    if len(wrong) > MAX_ERRORS_NAMED:
        text = words.more_text(len(wrong) - MAX_ERRORS_NAMED)
        found.append(Finding(kind="mean", pvalue=max(p for p in adjusted if p <= alpha), text=text))
    return found


def _with_pvalue(finding: Finding, pvalue: float) -> Finding:
    return Finding(**{**finding.__dict__, "pvalue": pvalue})


def _mean_error(item: ParameterAccuracy, effective_size: float) -> SizedError:
    finding = Finding(
        kind="mean",
        parameters=(item.parameter,),
        estimate=item.mean_error,
        interval=item.mean_error_interval,
        pvalue=_two_sided(item.mean_error, _half_error(item.mean_estimate, item.sd), effective_size),
        text=words.mean_text(item),
    )
    return SizedError(finding, item.mean_error)


def _sd_error(item: ParameterAccuracy, effective_size: float) -> SizedError:
    low, high = item.sd_error_interval
    finding = Finding(
        kind="sd",
        parameters=(item.parameter,),
        estimate=float(np.exp(item.sd_error)),
        interval=(float(np.exp(low)), float(np.exp(high))),
        pvalue=_two_sided(item.sd_error, _half_error(item.log_sd_estimate, 1.0), effective_size),
        text=words.sd_text(item),
    )
    return SizedError(finding, item.sd_error)


def _half_error(estimate: Estimate, unit: float) -> float:
    """Half the width of the 95 % interval over the normal quantile: standard error and bias together."""
    low, high = estimate.interval()
    return float((high - low) / (2 * stats.norm.ppf(0.975) * unit))


def _two_sided(error: float, standard_error: float, effective_size: float) -> float:
    return float(2 * stats.norm.sf(abs(error) / np.sqrt(standard_error**2 + 1 / effective_size)))


def shape_findings(combined: Combined, *, several: bool, sized: bool) -> list[Finding]:
    """A wrong shape where no mean or sd explains it; within modes the tests of the shape see nothing else."""
    pvalue = min(combined.adjusted_pvalues.get(name, 1.0) for name in ("kernel", "moments"))
    if pvalue > combined.alpha or (sized and not several):
        return []
    moments = combined.tests.get("moments")
    parameters: tuple[str, ...] = ()
    if isinstance(moments, MomentResult):
        named = [feature for feature in moments.significant(combined.alpha) if len(feature.parameters) == 1]
        parameters = tuple(dict.fromkeys(feature.parameters[0] for feature in named))[:2]
    text = words.shape_text(parameters, several=several)
    return [Finding(kind="shape", parameters=parameters, pvalue=pvalue, text=text)]


def agreement_findings(combined: Combined) -> list[Finding]:
    """A chain that differs from the others, or beginnings that differ from the rest."""
    chains = combined.tests.get("chains")
    if not isinstance(chains, AgreementResult) or not combined.rejects("chains"):
        return []
    pvalue = combined.adjusted_pvalues["chains"]
    return [Finding(kind="chains", pvalue=pvalue, text=words.agreement_text(chains))]
