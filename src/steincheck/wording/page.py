"""The page that a printed verdict is, its tables, and captions of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .numbers import ANSWERS, aligned, count_text, estimate_text, pvalue_text, share_of_density

if TYPE_CHECKING:
    from ..result import Finding, ModeTable, ParameterAccuracy, Verdict


class TextTable(NamedTuple):
    """A table of words: how it is aligned, and how many rows it does not show."""

    head: tuple[str, ...]
    sides: str
    rows: Sequence[tuple[str, ...]]
    more: str = ""

    @property
    def lines(self) -> list[str]:
        """The table as lines of text."""
        return [*aligned([self.head, *self.rows], self.sides), *([f"  {self.more}"] if self.more else [])]


def verdict_lines(verdict: Verdict) -> list[str]:
    """All that ``print(verdict)`` shows: the answer with the first finding, what qualifies it, the rest."""
    lines = [verdict.sentence]
    lines += [f"  Warning: {text}" for text in verdict.warnings]
    lines += [f"  - {text}" for text in shown_findings(verdict.findings)[1:]]
    if verdict.advice:
        lines += ["", "What to do:", *(f"  - {text}" for text in verdict.advice)]
    tables = [error_table(verdict.accuracy), test_table(verdict)]
    if verdict.mode_table is not None:
        tables.insert(1, share_table(verdict.mode_table, verdict.mode_descriptions))
    for table in tables:
        lines += ["", *table.lines] if table.rows else []
    if verdict.context:
        lines += ["", *verdict.context]
    if verdict.not_examined:
        lines += ["", "Not examined:", *(f"  - {text}" for text in verdict.not_examined)]
    run = f"n = {verdict.n}, d = {verdict.dim}, seed {verdict.seed}, steincheck {verdict.version}"
    return [*lines, "", run]


def shown_findings(findings: Sequence[Finding]) -> list[str]:
    """The first seven findings, and how many more there are."""
    more = len(findings) - 7
    texts = [finding.text for finding in findings[:7]]
    return [*texts, f"and {count_text(more, 'more finding')}: `verdict.findings`"] if more > 0 else texts


def error_table(accuracy: Sequence[ParameterAccuracy], most: int = 10) -> TextTable:
    """The largest errors, at most `most` of them."""
    unknown = [item for item in accuracy if np.isnan(item.largest_error)]
    known = [item for item in accuracy if item not in unknown]
    order = sorted(known, key=lambda item: -item.largest_error) + (unknown if known else [])
    head = ("parameter", "mean", "sd", "error of the mean in sd", "sd: draws / density", "")
    more = f"and {len(order) - most} with smaller errors: `verdict.summary()`" if len(order) > most else ""
    rows = []
    for item in order[:most]:
        mean = estimate_text(item.mean_error, item.mean_error_interval, "{:+.2g}")
        ratio = estimate_text(float(np.exp(item.sd_error)), np.exp(item.sd_error_interval).tolist())
        numbers = (f"{item.draws_mean:.3g}", f"{item.draws_sd:.3g}", mean, ratio)
        rows.append((item.parameter, *numbers, "rough" if item.rough else ""))
    return TextTable(head, "<>>>><", rows, more)


def share_table(table: ModeTable, descriptions: Sequence[str], most: int = 15) -> TextTable:
    """The shares of at most `most` modes, with descriptions of the modes."""
    head = ("mode", "draws", "share of the draws", "share of the density", "")
    rows = [
        (str(k), str(table.n_draws[k]), f"{table.observed[k]:.1%}", share_of_density(table, k), where)
        for k, where in enumerate(descriptions[:most])
    ]
    more = len(table) - most
    return TextTable(head, ">>>><", rows, f"and {count_text(more, 'more mode')}" if more > 0 else "")


def test_table(verdict: Verdict) -> TextTable:
    """The tests, their p-values, adjusted p-values and answers."""
    names = {
        "kernel": "shape (kernel test)",
        "moments": "location, spread, correlation, tails (moment test)",
        "weights": "mode weights (flux test)",
        "chains": "agreement of the chains within modes (block permutation test)",
    }
    rows = []
    for key, result in verdict.tests.items():
        unknown = bool(np.isnan(result.pvalue))
        adjusted = verdict.adjusted_pvalues[key]
        pvalues = (result.pvalue, np.nan if unknown else adjusted)
        texts = [pvalue_text(p, smallest=result.at_floor).removeprefix("= ") for p in pvalues]
        out_of_reach = len(verdict.tests) * result.pvalue_floor > verdict.alpha
        unless_rejected = None if unknown or out_of_reach else True
        fits = False if adjusted <= verdict.alpha else unless_rejected
        rows.append((names[key], *texts, ANSWERS[fits]))
    return TextTable(("what was tested", "p", "adjusted", ""), "<>><", rows)


# --- the report ---


class Captions:
    """Below pictures and tables."""

    errors = "Errors of the draws, with 95 % intervals; of standard deviations log ratios; rough ones hollow."
    shares = "Share of the draws at each mode, and the share the density gives it, with 95 % intervals."
    error_table = (
        "Errors of means are in standard deviations of the density, sds of the draws are divided by those of "
        "the density. In brackets: 95 % intervals. Rough: more than 0.05 sd or 5 % to either side."
    )


def tests_note(alpha: float) -> str:
    """How the p-values are to be read."""
    return f"Adjusted p-values account for the number of tests (Holm's method); the level is {alpha:g}."


def meaning(verdict: Verdict) -> str:
    """What the answer is about, and what it is worth."""
    worth = " No misfit found does not prove a fit; what was not examined is listed below."
    return f"{verdict.n} draws of dimension {verdict.dim}.{worth if verdict.fits else ''}"


def draws_caption(dim: int, drawn: int) -> str:
    """What is in the picture of the draws, of which `drawn` coordinates are drawn."""
    if dim <= 2:
        return "The draws and the density; numbers or dotted lines are at the modes."
    return (
        "The draws, and ellipses of 1 and 2 standard deviations of the density about its means within modes, "
        f"in the {drawn} coordinates that matter most."
    )
