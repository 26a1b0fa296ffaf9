"""The answer of `check`, what is wrong, and the page that a printed verdict is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .numbers import aligned, count_text, estimate_text, interval_text, list_text, pvalue_text

if TYPE_CHECKING:
    from ..result import AgreementResult, GofResult, ModeTable, ParameterAccuracy, Verdict
    from ..verdict.combine import Combined

MAX_MODES_PRINTED = 15  # rows of the printed mode table
ANSWERS = {True: "no misfit found", False: "misfit found", None: "cannot tell"}
ACCURACY_COLUMNS = ("parameter", "mean", "sd", "error of the mean in sd", "sd: draws / density", "")
MODE_COLUMNS = ("mode", "draws", "share of the draws", "share of the density")
EXAMINED_BY_TEST = {
    "kernel": "shape (kernel test)",
    "moments": "location, spread, correlation, tails (moment test)",
    "weights": "mode weights (flux test)",
    "chains": "agreement of the chains (block permutation test)",
}


INDEPENDENT = "The draws were tested as independent."
MODES_GIVEN = "The modes were given: none was searched for."
OTHER_MODES_THAN_GIVEN = "modes other than those given"
MODES_NOT_FOUND = "modes that the search did not find"
NO_MODE = "no mode was found, so that the mode weights could not be examined"
IMPROPER = "the density appears to be improper, or the sign of the log density is reversed"
SWAPPED_AXES = "draws are correlated across chains, not within them: the axes seem to be swapped"
UNKNOWN_MODES = "whether draws belong to unknown modes"
SUPPORT = "whether the density jumps or ends abruptly"
ACCURACY = "how far off the means and standard deviations are"
WEIGHTS_WRONG = "The mode weights are wrong, though no mode by itself stands out"
TOO_FEW_BLOCKS_TO_AGREE = "whether the chains agree: there are too few blocks to compare"


def held_out_texts(n_held: int, n_tested: int) -> tuple[str, ...]:
    """The draws that started the mode search."""
    if not n_held:
        return ()
    return (f"the {n_held} held-out draws that started the mode search: the other {n_tested} were tested",)


def divergence_warning(count: int) -> str:
    """Divergent transitions that the sampler reports."""
    return f"the sampler reports {count_text(count, 'divergent transition')}"


def mixing_warnings(rhat: np.ndarray, names: Sequence[str]) -> list[str]:
    """A sentence about the parameter with the largest R-hat, if that is above 1.1, the usual threshold."""
    k = int(np.argmax(np.nan_to_num(rhat, nan=1.0)))
    if not rhat[k] > 1.1:
        return []
    return [f"R-hat of {names[k]} is {rhat[k]:.2f}: the chains have not mixed or are not yet stationary"]


def discontinuity_reason(what: str, where: str, remedy: str) -> str:
    """Why the shape of a density with a jump or an edge is not tested."""
    return f"the density {what} near ({where}), and tests of the shape {remedy}"


def shape_untested(remedy: str) -> str:
    """Chains too short for the tests of the shape."""
    return f"the shape could not be tested: {remedy}"


def moments_untested(remedy: str) -> str:
    """Too few draws for the moment test."""
    return f"location, spread and correlation by themselves: {remedy}"


def few_for_moments(least: int) -> str:
    """What the moment test requires."""
    return f"this requires at least {least} tested draws"


def thinned_kernel_test(n_tested: int, n: int) -> str:
    """A kernel test of some of the draws."""
    return f"the shape at all draws: the kernel test costs n^2 and used {n_tested} of the {n} draws"


def pvalue_in_brackets(combined: Combined, fits: bool | None) -> str:
    """The p-value beside the answer; nothing where a fact and no test says that the draws do not fit."""
    if fits is False and not combined.rejected:
        return ""
    return f" (p {pvalue_text(combined.pvalue, smallest=combined.at_floor)})"


def headline(fits: bool | None, p: str, tolerance: float | None, detail: str, reasons: Sequence[str]) -> str:
    """The answer in one or two sentences; `p` is the p-value in brackets, `detail` what the numbers say."""
    if tolerance is not None:
        answers = {
            True: f"The draws' means, sds and shares are within the tolerance {tolerance:g}{p}.",
            False: f"The draws' numbers are off by more than the tolerance {tolerance:g}{p}.",
            None: f"Cannot tell whether the draws' numbers are within the tolerance {tolerance:g}{p}.",
        }
        return " ".join([answers[fits], *(sentence(text) for text in reasons[:1] if fits is None), detail])
    if fits is None:
        return f"Cannot tell whether the draws fit the density: {sentence('; '.join(reasons))}"
    answer = f"No misfit found{p}." if fits else f"Misfit found{p}."
    return f"{answer} {detail}".strip()


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends with a mark already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def accuracy_sentence(accuracy: Sequence[ParameterAccuracy], within: float) -> str:
    """How far off the numbers of draws are at most, or which of them is off by more than `within`."""
    settled = [item for item in accuracy if not item.rough]
    if not settled:
        return "The density is hard to explore, so that the errors of the means and sds are rough."
    worst = max(settled, key=lambda item: abs(item.mean_error))
    if min(np.abs(worst.mean_error_interval)) > within and np.prod(worst.mean_error_interval) > 0:
        interval = interval_text(sorted(np.abs(worst.mean_error_interval)), "{:.2g}")
        return (
            f"The draws are too few for {within:g} sd: the mean of {worst.parameter} is off by "
            f"{abs(worst.mean_error):.2g} sd ({interval})."
        )
    mean = max(max(np.abs(item.mean_error_interval)) for item in settled)
    spreads = [max(np.abs(item.sd_error_interval)) for item in settled if item.has_sd]
    text = f"{_all_of(len(settled), 'mean', 'The', 'All')} within {mean:.2g} sd of the density's"
    if spreads:
        text += f", {_all_of(len(spreads), 'sd', 'the', 'all')} within {np.expm1(max(spreads)):.0%}"
    rough = [item.parameter for item in accuracy if item.rough]
    return text + (f"; those of {list_text(rough, 3)} are rough." if rough else ".")


def _all_of(count: int, noun: str, one: str, many: str) -> str:
    """The subject and verb of a sentence about one or many numbers."""
    return f"{one} {noun} is" if count == 1 else f"{many} {count} {noun}s are"


def mean_text(item: ParameterAccuracy) -> str:
    """A mean that is off."""
    return (
        f"{item.parameter}: mean of the draws {item.draws_mean:.3g}, of the density "
        f"{interval_text(item.mean_interval)}: {abs(item.mean_error):.2g} sd too "
        f"{'high' if item.mean_error > 0 else 'low'}"
    )


def sd_text(item: ParameterAccuracy) -> str:
    """A standard deviation that is off."""
    ratio = float(np.exp(abs(item.sd_error)))
    factor = f"{ratio:.3g}" if ratio < 2 else f"{ratio:.2g}"
    return (
        f"{item.parameter}: sd of the draws {item.draws_sd:.3g}, of the density "
        f"{interval_text(item.sd_interval)}: {factor} times too {'large' if item.sd_error > 0 else 'small'}"
    )


def more_text(count: int) -> str:
    """Where only the worst parameters are named."""
    return f"And {count_text(count, 'more error')} of means and sds: see `verdict.summary()`"


def share_text(table: ModeTable, k: int, where: str) -> str:
    """A mode whose share is off."""
    low, high = table.implied_interval[k]
    state = ""
    if table.n_draws[k] == 0:
        state = " is missing"
    elif table.observed[k] < 0.1 * low:
        state = " is nearly missing"
    implied = f"{table.implied[k]:.1%}" + ("" if np.isnan(low) else f" ({low:.1%} to {high:.1%})")
    return f"Mode {k} ({where}){state}: {table.observed[k]:.1%} of the draws, {implied} of the density"


def more_modes_text(count: int) -> str:
    """Where only the worst modes are named."""
    return f"And {count_text(count, 'more mode')} with a wrong share: see `verdict.mode_table`"


def flow_text(step: np.ndarray, names: Sequence[str]) -> str:
    """The displacement of a lattice of modes along which the draws are out of balance."""
    direction = ", ".join(f"{name} {value:+.3g}" for name, value in zip(names, step, strict=True))
    return f"The mode weights are wrong: too little mass in direction ({direction})"


def shape_text(parameters: Sequence[str], *, several: bool) -> str:
    """A wrong shape that no mean or sd shows."""
    where = " within modes" if several else ""
    visible = f", most visibly in {list_text(parameters)}" if parameters else ""
    return f"The shape of the distribution{where} is wrong{visible}"


def impossible_text(rows: Sequence[int], n: int) -> str:
    """Draws to which the density assigns negligible probability."""
    which = f"row{'' if len(rows) == 1 else 's'} {list_text([str(row) for row in rows], 5)}"
    verb = "is" if len(rows) == 1 else "are"
    return f"{count_text(len(rows), 'draw')} of {n} {verb} of negligible probability: {which}"


def agreement_text(result: AgreementResult) -> str:
    """Which chain differs, or that the beginnings do."""
    if result.starts_differ:
        return "The beginnings of the chains differ from the rest"
    return f"Chain {result.odd_chain} differs from the others"


def few_draws_reason(n: int, least: int) -> str:
    """Too few draws for any answer but a misfit."""
    return f"{n} draws are too few: below {least} a non-rejection is inconclusive"


def level_reason(test: str, alpha: float, floor: float) -> str:
    """A level that the replicates of a test cannot reach."""
    return f"the {test} cannot reach the level {alpha:g}: its smallest adjusted p-value is {floor:.2g}"


def unknown_modes_text(n_unknown: int, n_examined: int, where: str, *, given: bool) -> str:
    """Draws that climb to modes that are not listed."""
    remedy = (
        "add them to `modes`, or leave `modes` out to have them searched for"
        if given
        else "give `modes`, or a larger `max_evaluations`"
    )
    return (
        f"the weights of modes not listed: {n_unknown} of {n_examined} draws examined belong to unknown "
        f"modes, for example ({where}); {remedy}"
    )


def verdict_lines(verdict: Verdict) -> list[str]:
    """All that ``print(verdict)`` shows: the answer, what qualifies it, what is wrong, the numbers."""
    lines = [verdict.sentence]
    lines += [f"  Warning: {text}" for text in verdict.warnings]
    lines += [f"  - {finding.text}" for finding in verdict.findings]
    if verdict.advice:
        lines += ["", "What to do:", *(f"  - {text}" for text in verdict.advice)]
    if verdict.accuracy:
        lines += ["", *accuracy_lines(verdict.accuracy)]
    if verdict.mode_table is not None:
        lines += ["", *mode_lines(verdict.mode_table, verdict.mode_descriptions)]
    tests = test_rows(verdict)
    if tests:
        lines += ["", *aligned([("what was tested", "p", "adjusted", ""), *tests], "lrrl")]
    if verdict.context:
        lines += ["", *verdict.context]
    if verdict.not_examined:
        lines += ["", "Not examined:", *(f"  - {text}" for text in verdict.not_examined)]
    return [*lines, "", foot(verdict)]


def foot(verdict: Verdict) -> str:
    """What identifies the run."""
    return f"n = {verdict.n}, d = {verdict.dim}, seed {verdict.seed}, steincheck {verdict.version}"


def test_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """The tests as rows of text: what was tested, p-value, adjusted p-value, what it says."""
    rows = []
    for key, result in verdict.tests.items():
        adjusted = verdict.adjusted_pvalues[key]
        texts = [
            pvalue_text(p, smallest=result.at_floor).removeprefix("= ") for p in (result.pvalue, adjusted)
        ]
        rows.append((EXAMINED_BY_TEST[key], *texts, _test_answer(result, adjusted, verdict)))
    return rows


def _test_answer(result: GofResult, adjusted: float, verdict: Verdict) -> str:
    if adjusted <= verdict.alpha:
        return "misfit found"
    out_of_reach = len(verdict.tests) * result.pvalue_floor > verdict.alpha
    return "cannot tell" if out_of_reach or np.isnan(result.pvalue) else "no misfit found"


def accuracy_lines(accuracy: Sequence[ParameterAccuracy], most: int = 10) -> list[str]:
    """The largest errors as lines of text, at most `most` of them."""
    order = sorted(accuracy, key=lambda item: -max(abs(item.mean_error), abs(item.sd_error)))
    rows = [ACCURACY_COLUMNS, *(accuracy_row(item) for item in order[:most])]
    lines = aligned(rows, "lrrrrl")
    if len(order) > most:
        lines.append(f"  and {len(order) - most} with smaller errors: `verdict.summary()`")
    return lines


def accuracy_row(item: ParameterAccuracy) -> tuple[str, ...]:
    """One parameter as a row of text."""
    mean = estimate_text(item.mean_error, item.mean_error_interval, "{:+.2g}")
    ratio = "no value: heavy tails"
    if item.has_sd:
        ratio = estimate_text(float(np.exp(item.sd_error)), np.exp(item.sd_error_interval).tolist())
    state = "rough" if item.rough else ""
    return (item.parameter, f"{item.draws_mean:.3g}", f"{item.draws_sd:.3g}", mean, ratio, state)


def mode_lines(table: ModeTable, descriptions: Sequence[str]) -> list[str]:
    """The mode table as lines of text, with descriptions of the modes."""
    head = (*MODE_COLUMNS, "")
    rows = [(*row, where) for row, where in zip(mode_rows(table), descriptions, strict=True)]
    lines = aligned([head, *rows[:MAX_MODES_PRINTED]], "rrrrl")
    if len(rows) > MAX_MODES_PRINTED:
        lines.append(f"  and {len(rows) - MAX_MODES_PRINTED} more modes")
    return lines


def mode_rows(table: ModeTable) -> list[tuple[str, str, str, str]]:
    """The modes as rows of text: number, draws, share of the draws, share of the density."""
    return [
        (str(k), str(table.n_draws[k]), f"{table.observed[k]:.1%}", _share(table, k))
        for k in range(len(table))
    ]


def _share(table: ModeTable, k: int) -> str:
    if np.isnan(table.implied[k]):
        return "-"
    low, high = table.implied_interval[k]
    return f"{table.implied[k]:.1%}" + ("" if np.isnan(low) else f" ({low:.1%} to {high:.1%})")


def few_scores(n: int, least: int) -> str:
    """Too few evaluations for scores."""
    return (
        f"the evaluations allowed are enough for the score at {n} draws, and at least {least} are needed for "
        "a test of the shape: give the target a score, or a larger `max_evaluations`"
    )


def limited_texts(limit: int | None, enough: int) -> tuple[str, ...]:
    """That the evaluations allowed were not enough for everything."""
    if limit is None or limit >= enough:
        return ()
    return (f"what {limit:,} evaluations do not cover: `max_evaluations={enough}` would be enough",)
