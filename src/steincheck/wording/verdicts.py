"""The verdict as a whole, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ..result import Finding, Verdict, pvalue_text
from ..result.mode_table import mode_lines
from ..result.table import aligned
from ..result.verdict import rows_of_tests


def headline(
    fits: bool | None, alpha: float, pvalue: float, reasons: Sequence[str], *, smallest: bool = False
) -> str:
    """The answer in one sentence; `smallest` says that no smaller p-value was possible."""
    if fits is None:
        why = "; ".join(reasons)
        return f"Cannot tell whether the draws fit the density: {why}{'' if why.endswith('?') else '.'}"
    p = f"p {pvalue_text(pvalue, smallest=smallest)}"
    if fits:
        return f"No misfit found at level {alpha:g} ({p})."
    return f"The draws do not fit the density: misfit found at level {alpha:g} ({p})."


def render(verdict: Verdict) -> str:
    """All that ``print(verdict)`` shows: the answer, what qualifies it, what is wrong, the numbers."""
    lines = [verdict.sentence]
    lines += [f"  Warning: {text}" for text in verdict.warnings]
    lines += [f"  - {finding}" for finding in verdict.findings]
    if verdict.advice:
        lines += ["", "What to do:", *(f"  - {text}" for text in verdict.advice)]
    tests = rows_of_tests(verdict)
    if tests:
        lines += ["", *aligned([("what was tested", "p", "adjusted", ""), *tests], "lrrl")]
    if verdict.mode_table is not None:
        lines += ["", *mode_lines(verdict.mode_table, verdict.mode_places)]
    if verdict.context:
        lines += ["", *verdict.context]
    if verdict.not_examined:
        lines += ["", "Not examined:", *(f"  - {text}" for text in verdict.not_examined)]
    foot = f"n = {verdict.n}, d = {verdict.dim}, seed {verdict.seed}, steincheck {verdict.version}"
    return "\n".join([*lines, "", foot])


def shape_finding(pvalue: float, parameters: tuple[str, ...] = (), *, several: bool) -> Finding:
    """The shape is wrong in a way that no single moment shows; `parameters` are those in which it is most."""
    text = f"The shape of the distribution{' within modes' if several else ''} is wrong"
    if parameters:
        text += f", most visibly in {' and '.join(parameters)}"
    return Finding.without_size("shape", None, pvalue, text, parameters)


def unknown_misfit_finding(pvalue: float, *, several: bool) -> Finding:
    """Something is wrong, and without the moment test it cannot be said what."""
    text = (
        f"The draws{' within modes' if several else ''} differ from the density in location, spread or "
        "shape: there are too few of them to say in which"
    )
    return Finding.without_size("shape", None, pvalue, text)
