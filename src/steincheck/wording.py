"""Findings and verdicts as sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .result import Finding, FluxResult, ModeTable, Verdict, pvalue_text

MAX_MODES_NAMED = 5  # findings about single modes; the mode table has the rest
MAX_MODES_PRINTED = 15  # rows of the printed mode table
MAX_COORDINATES_NAMED = 3  # of a mode location in a sentence
WHAT = {
    "kernel": ("shape", "kernel test"),
    "moments": ("location, spread, correlation, tails", "moment test"),
    "weights": ("mode weights", "flux test"),
}


def headline(fits: bool | None, alpha: float, pvalue: float, reasons: Sequence[str]) -> str:
    """The answer in one sentence."""
    if fits is None:
        return f"Cannot tell whether the draws fit the density: {'; '.join(reasons)}."
    p = f"p {pvalue_text(pvalue)}"
    if fits:
        return f"No misfit found at level {alpha:g} ({p})."
    return f"The draws do not fit the density: misfit found at level {alpha:g} ({p})."


def place(location: np.ndarray, names: Sequence[str]) -> str:
    """Where a mode is, in its first coordinates: "mu = 2.03, tau = 0.5, ..."."""
    shown = [
        f"{name} = {value:.4g}" for name, value in zip(names[:MAX_COORDINATES_NAMED], location, strict=False)
    ]
    return ", ".join(shown) + (", ..." if len(location) > MAX_COORDINATES_NAMED else "")


def test_rows(verdict: Verdict) -> list[tuple[str, str, str, str]]:
    """The tests as rows of text: what was tested, p-value, adjusted p-value, what it says."""
    rows = []
    several = verdict.modes is not None and len(verdict.modes) > 1
    for key, result in verdict.tests.items():
        what, test = WHAT[key]
        where = " within modes" if several and key != "weights" else ""
        said = "misfit found" if verdict.adjusted[key] <= verdict.alpha else "no misfit found"
        if np.isnan(result.pvalue):
            said = "cannot tell"
        raw = pvalue_text(result.pvalue).removeprefix("= ")
        adjusted = pvalue_text(verdict.adjusted[key]).removeprefix("= ")
        rows.append((f"{what}{where} ({test})", raw, adjusted, said))
    return rows


def mode_rows(table: ModeTable) -> list[tuple[str, str, str, str, str]]:
    """The modes as rows of text: number, draws, observed share, implied share, what that says."""
    rows = []
    for k, said in enumerate(table.words):
        observed = _share(table.observed[k], table.observed_interval[k])
        implied = _share(table.implied[k], table.implied_interval[k])
        words = f"missing, {said}" if table.n_draws[k] == 0 else said
        rows.append((str(k), str(table.n_draws[k]), observed, implied, words))
    return rows


def render(verdict: Verdict) -> str:
    """All that ``print(verdict)`` shows: the answer, what qualifies it, what is wrong, the numbers."""
    lines = [verdict.sentence]
    lines += [f"  Warning: {text}" for text in verdict.warnings]
    lines += [f"  - {finding}" for finding in verdict.findings]
    tests = [("what was tested", "p", "adjusted", ""), *test_rows(verdict)]
    lines += ["", *_aligned(tests, "lrrl")]
    if verdict.mode_table is not None:
        head = ("mode", "draws", "share of the draws", "share of the density", "")
        rows = mode_rows(verdict.mode_table)
        lines += ["", *_aligned([head, *rows[:MAX_MODES_PRINTED]], "rrrrl")]
        if len(rows) > MAX_MODES_PRINTED:
            lines.append(f"  ... and {len(rows) - MAX_MODES_PRINTED} more")
    if verdict.context:
        lines += ["", *verdict.context]
    if verdict.not_examined:
        lines += ["", "Not examined:", *(f"  - {text}" for text in verdict.not_examined)]
    foot = f"n = {verdict.n}, d = {verdict.dim}, seed {verdict.seed}, steincheck {verdict.version}"
    return "\n".join([*lines, "", foot])


def weight_findings(result: FluxResult, names: Sequence[str], pvalue: float) -> list[Finding]:
    """What is wrong with the mode weights, missing modes first."""
    table = result.mode_table
    if table is None:
        return [_wrong_flow(result, names, pvalue)]
    gap = np.nan_to_num(table.observed - table.implied).round(4)  # equal but for rounding is equal
    order = np.lexsort((gap, -np.abs(gap)))
    wrong = [int(k) for k in order if table.words[k].startswith("too")]
    wrong.sort(key=lambda k: table.n_draws[k] > 0)
    if not wrong:
        return [_wrong_as_a_whole(result, table, names, pvalue)]
    found = [_wrong_share(table, k, names, pvalue) for k in wrong[:MAX_MODES_NAMED]]
    if len(wrong) > MAX_MODES_NAMED:
        rest = len(wrong) - MAX_MODES_NAMED
        found.append(_finding("mode share", None, pvalue, f"And {rest} more modes have wrong shares"))
    return found


def kernel_finding(pvalue: float, n_modes: int) -> Finding:
    """The shape is wrong in a way that no moment shows."""
    where = " within modes" if n_modes > 1 else ""
    return _finding("shape", None, pvalue, f"The shape of the distribution{where} is wrong")


def _wrong_share(table: ModeTable, k: int, names: Sequence[str], pvalue: float) -> Finding:
    low, high = table.implied_interval[k]
    known = not np.isnan(low)
    missing = table.n_draws[k] == 0
    kind = "missing mode" if missing else "mode share"
    state = ""
    if missing:
        state = " is missing"
    elif known and table.observed_interval[k, 1] < 0.1 * low:
        state = " is all but missing"
    more = "fewer" if table.words[k] == "too many draws" else "more"
    says = f"{table.implied[k]:.1%} ({low:.1%} to {high:.1%})" if known else more
    text = (
        f"Mode {k} ({place(table.locations[k], names)}){state}: {table.observed[k]:.1%} of the draws, "
        f"the density says {says}"
    )
    return Finding(kind, k, (), float(table.implied[k]), (float(low), float(high)), pvalue, text)


def _wrong_as_a_whole(result: FluxResult, table: ModeTable, names: Sequence[str], pvalue: float) -> Finding:
    text = "The mode weights are wrong, though no mode by itself stands out"
    if not result.trend_pvalue <= result.pvalue:
        return _finding("mode share", None, pvalue, text)
    extent = np.ptp(table.locations, axis=0).clip(1e-300)
    shift = -result.net_flow @ table.locations / extent
    k = int(np.argmax(np.abs(shift)))
    side = "large" if shift[k] > 0 else "small"
    text += f": too many draws at modes with a {side} {names[k]}"
    return _finding("trend", None, pvalue, text, (names[k],))


def _wrong_flow(result: FluxResult, names: Sequence[str], pvalue: float) -> Finding:
    """The displacement of a lattice of modes along which the flow is farthest from balance."""
    assert result.displacements is not None
    error = np.where(result.net_flow_se > 0, result.net_flow_se, np.inf)
    k = int(np.argmax(np.abs(result.net_flow) / error))
    step = result.displacements[k] * np.sign(result.net_flow[k])
    order = np.argsort(-np.abs(step), kind="stable")[:MAX_COORDINATES_NAMED]
    largest = [j for j in order if abs(step[j]) > 0.1 * np.abs(step).max()]
    direction = ", ".join(f"{names[j]} {step[j]:+.3g}" for j in largest)
    text = f"The mode weights are wrong: too little mass in direction ({direction})"
    return _finding("flow", None, pvalue, text, tuple(names[j] for j in largest))


def _finding(
    kind: str, mode: int | None, pvalue: float, text: str, parameters: tuple[str, ...] = ()
) -> Finding:
    return Finding(kind, mode, parameters, np.nan, (np.nan, np.nan), pvalue, text)


def _share(share: float, interval: np.ndarray) -> str:
    if np.isnan(share):
        return "-"
    return f"{share:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Rows of cells as lines, columns aligned to the left or right by the letters of `sides`."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(sides))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines
