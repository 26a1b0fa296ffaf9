"""The answer, and what is wrong by how much: shares, errors of means and sds, shape, chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from ..result import AgreementResult, Finding, FluxResult, MomentResult, ParameterAccuracy
from ..target import to_constrained
from ..wording import verdict as words
from ..wording.numbers import mode_descriptions
from ..wording.results import describe_feature
from ..wording.verdict import Remark
from .case import MIN_DRAWS, USUAL_TOLERANCE, Case, CaseModes
from .examine import Combined, Measured, Tested


class Evidence(NamedTuple):
    """What the steps of `check` found."""

    case: Case
    known: CaseModes
    tested: Tested
    combined: Combined
    measured: Measured
    tolerance: float | None

    @property
    def allowed_error(self) -> float:
        """The tolerance, or the usual one."""
        return USUAL_TOLERANCE if self.tolerance is None else self.tolerance

    @property
    def stuck(self) -> bool:
        """Whether chains change mode too rarely for a test of the mode weights."""
        weights = self.tested.weights
        return weights is not None and weights.chains is not None and bool(np.isnan(weights.pvalue))

    @property
    def wrong_shares(self) -> np.ndarray:
        """Which modes have a share in the draws that is off by more than the allowed error."""
        table = self.tested.mode_table
        low, high = np.empty((2, 0)) if table is None else table.error_interval.T
        return (low > self.allowed_error) | (high < -self.allowed_error)

    @property
    def share_answer(self) -> bool | None:
        """Whether all shares are within the allowed error; True with one mode."""
        table = self.tested.mode_table
        if table is None:
            return True if len(self.known.modes) == 1 else None
        within = np.abs(table.error_interval) <= self.allowed_error
        return False if self.wrong_shares.any() else True if within.all() else None

    @property
    def error_answer(self) -> bool | None:
        """Whether all errors are within the tolerance, if there is one."""
        if self.tolerance is None or self.measured.accuracy is None:
            return None
        if not self.case.valid or self.known.improper:
            return None
        answers = (self.measured.accuracy.answer(self.tolerance), self.share_answer)
        return False if False in answers else True if all(answers) else None

    @property
    def reasons(self) -> tuple[Remark, ...]:
        """Why a non-rejection is inconclusive, beside what the steps say."""
        found = []
        n = self.case.sample.effective_size
        more = "take more draws" if self.case.sample.chain is None else "run the chains longer"
        if n < MIN_DRAWS:
            found.append(words.few_draws(n, MIN_DRAWS, more))
        weights = self.tested.weights
        harmless = [None, "light modes"]  # where all modes but one are light there is nothing to compare
        if self.case.sample.weight is not None and self.share_answer:
            harmless.append("stuck chains")  # weights have set the shares: they are a fact
        if weights is not None and weights.inconclusive_reason not in harmless:
            found.append(words.unexamined_weights(weights))
        tests = self.combined.tests
        for result in tests.values():
            floor = len(tests) * result.pvalue_floor
            if floor > self.combined.alpha:
                found.append(words.level_out_of_reach(result.test, self.combined.alpha, floor))
        if self.tolerance is not None and self.error_answer is None:
            found.append(words.wide_intervals(self.tolerance, more))
        return tuple(found)


def answer(evidence: Evidence, reasons: Sequence[str]) -> bool | None:
    """Whether the draws fit: by the tests and facts, or by the errors if there is a tolerance."""
    if evidence.tolerance is not None:
        return evidence.error_answer
    wrong_by_fact = evidence.stuck and evidence.share_answer is False
    if evidence.combined.rejected or len(evidence.tested.improbable_rows) or wrong_by_fact:
        return False
    return None if reasons else True


def all_findings(evidence: Evidence, names: Sequence[str]) -> tuple[Finding, ...]:
    """What is wrong, in one order; impossible draws are the finding if no test finds anything else."""
    shares = weight_findings(evidence, names)
    found = shares
    if evidence.combined.rejected or evidence.tolerance is not None:
        errors = error_findings(evidence)
        several = len(evidence.known.modes) > 1
        explained = shares if several else errors  # wrong shares bend the shape, and errors are those of all
        found = [*shares, *errors, *([] if explained else shape_findings(evidence.combined, several=several))]
        found += agreement_findings(evidence.combined)
    rows = evidence.tested.improbable_rows
    if len(rows) and not found:
        text = words.impossible_text(rows.tolist(), len(evidence.case.values))
        found = [Finding(kind="impossible draws", text=text)]
    return tuple(found)


def weight_findings(evidence: Evidence, names: Sequence[str]) -> list[Finding]:
    """Wrong shares: those that the test finds; with a tolerance, or without a test, those that exceed it."""
    weights, combined = evidence.tested.weights, evidence.combined
    if weights is None:
        return []
    pvalue = combined.adjusted_pvalues["weights"]
    table = weights.mode_table
    if evidence.stuck or evidence.tolerance is not None:
        wrong, pvalue = evidence.wrong_shares, np.nan
    elif not combined.rejects("weights"):
        return []
    elif table is None or weights.mode_pvalues is None:
        return [flow_finding(weights, names, pvalue)]
    else:
        factor = sum(not result.pvalue < weights.pvalue for result in combined.tests.values())  # Holm's
        wrong = factor * weights.mode_pvalues <= combined.alpha
        if not wrong.any():
            return [Finding(kind="mode share", pvalue=pvalue, text=words.Phrases.weights_wrong)]
    if table is None:
        return []
    places = mode_descriptions(*to_constrained(table.locations, evidence.case.target))
    return [
        Finding(
            kind="missing mode" if table.n_draws[k] == 0 else "mode share",
            mode=int(k),
            estimate=float(table.implied[k]),
            interval=(float(table.implied_interval[k, 0]), float(table.implied_interval[k, 1])),
            pvalue=pvalue,
            text=words.share_text(table, k, places[k]),
        )
        for k in np.argsort(table.error, kind="stable")
        if wrong[k]
    ]


def flow_finding(weights: FluxResult, names: Sequence[str], pvalue: float) -> Finding:
    """The displacement of a lattice of modes along which the flow is farthest from balance."""
    lattice = weights.lattice
    assert lattice is not None
    error = np.where(lattice.net_flow_se > 0, lattice.net_flow_se, np.inf)
    k = int(np.argmax(np.abs(lattice.net_flow) / error))
    step = lattice.displacements[k] * np.sign(lattice.net_flow[k])
    chosen = np.argsort(-np.abs(step), kind="stable")[:3]
    chosen = chosen[np.abs(step[chosen]) > 0.1 * np.abs(step).max()]
    named = tuple(names[j] for j in chosen.tolist())
    return Finding(kind="flow", parameters=named, pvalue=pvalue, text=words.flow_text(step[chosen], named))


def error_findings(evidence: Evidence) -> list[Finding]:
    """Means and standard deviations that are off by more than chance allows, the largest errors first.

    The error of a mean has the variance h^2 + 1 / m, h the half-width of its interval over 1.96 and m the
    effective number of draws; that of a log sd has h^2 + (kurtosis - 1) / (4 m). Bonferroni's method allows
    for the number of errors. With a tolerance, an interval outside it decides.
    """
    items = evidence.measured.parameters
    errors = np.array([(item.mean_error, item.sd_error) for item in items])
    ends = np.array([item.error_intervals() for item in items])
    halves = [(np.ptp(item.mean_error_interval) / 2, item.log_sd_estimate.half_width()) for item in items]
    sizes = evidence.case.effective_sizes
    of_draws = np.stack([1 / sizes, np.maximum(evidence.case.kurtosis - 1, 1.0) / (4 * sizes)], axis=1)
    variance = (np.array(halves) / stats.norm.ppf(0.975)) ** 2 + of_draws
    pvalues = np.sum(~np.isnan(errors)) * 2 * stats.norm.sf(np.abs(errors) / np.sqrt(variance))
    wrong = pvalues <= evidence.combined.alpha
    if evidence.tolerance is not None:
        wrong = (ends[..., 0] > evidence.tolerance) | (ends[..., 1] < -evidence.tolerance)
        pvalues[:] = np.nan
    found = sorted(np.argwhere(wrong).tolist(), key=lambda at: -abs(errors[at[0], at[1]]))
    return [_error_finding(items[k], j == 1, ends[k, j], pvalues[k, j]) for k, j in found]


def _error_finding(item: ParameterAccuracy, of_sd: bool, ends: np.ndarray, pvalue: float) -> Finding:
    """An error of a mean in sds of the density, or the ratio of sds, with its interval."""
    about = (item.parameter,)
    if not of_sd:
        low, high = ends.tolist()
        return Finding("mean", None, about, item.mean_error, (low, high), pvalue, words.mean_text(item))
    ratio, low, high = np.exp([item.sd_error, *ends]).tolist()
    return Finding("sd", None, about, ratio, (low, high), pvalue, words.sd_text(item))


def shape_findings(combined: Combined, *, several: bool) -> list[Finding]:
    """A wrong shape, with the clearest feature of the moment test."""
    pvalue = min(combined.adjusted_pvalues.get(name, 1.0) for name in ("kernel", "moments"))
    if pvalue > combined.alpha:
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
