"""The answer of `check`, what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._validation import listed
from .numbers import count_text, estimate_text, interval_text, pvalue_text, share_of_density

if TYPE_CHECKING:
    from ..result import ModeTable, ParameterAccuracy, Verdict

USUAL_TOLERANCE = 0.1  # of errors and shares, if the user gives none
RemarkKind = Literal["warning", "context", "reason", "not examined"]


class Remark(NamedTuple):
    """What a step of `check` says beside its result; a reason is one why a non-rejection is inconclusive."""

    kind: RemarkKind
    text: str
    remedy: str = ""  #: what to do about a reason


NOT_EXAMINED = {
    "other modes": "modes other than those given",
    "modes not found": "modes that the search did not find",
    "held-out draws": "the {held} held-out draws that started the mode search: the other {tested} were "
    "tested",
    "support": "whether the density jumps or ends abruptly",
    "score": "whether the score agrees with the log density",
    "given modes": "the modes: to climb to those given takes more evaluations",
    "test": "the test of {test}: it takes more evaluations than are left",
    "climbs": "whether draws belong to unknown modes",
    "weights": "whether the mode weights are right",
    "accuracy": "how far off the means and standard deviations are",
    "kernel": "the shape by the kernel test: {why}",
    "agreement": "whether the chains agree: there are too few blocks to compare",
    "moments": "location, spread and correlation: this requires about {least} independent draws",
    "some draws": "the shape at all of the {n} draws: the kernel test costs n^2 and looked at some of them",
    "limit": "what more than {limit:,} evaluations of the density would show: about {usual:,} are usual, and "
    "hard densities take more; `max_evaluations={usual}, max_seconds=None` allows as many",
}
REASONS = {  # why a non-rejection is inconclusive, and what to do about it
    "swapped axes": (
        "draws are correlated across chains, not within them: the axes seem to be swapped",
        "swap the first two axes of the draws",
    ),
    "no mode": (
        "{message}",
        "give `modes`, or use a non-centred form if this is a hierarchy; otherwise correct the log density",
    ),
    "edge": ("the density {what} near ({where}), and tests of the shape need {need}", "{remedy}"),
    "skew": (
        "the scores of so few draws are too skewed for any test of the shape",
        "take more draws, or transform the parameters so that their tails are alike",
    ),
    "short chains": ("the shape could not be tested: {remedy}", "run longer chains"),
    "stuck chain": ("the shape could not be tested: {remedy}", "fix the sampler"),
    "few scores": (
        "the evaluations allowed are enough for the score at {n} draws, and tests of the shape need {least}",
        "allow more evaluations; where the target has no score, give it one",
    ),
    "few draws": ("the effective sample size is {n:.0f}, and {least} is needed", "take more draws"),
    "level": (
        "the {test} cannot reach the level {alpha:g}: its smallest adjusted p-value is {floor:.2g}",
        "choose `alpha` above {floor:.2g}",
    ),
    "tolerance": (
        "some errors have no value, or an interval that is not within {tolerance:g}, and none is outside",
        "take more draws, allow more evaluations if a limit ended the walkers, or leave out `tolerance` so "
        "that the tests decide",
    ),
    "unknown modes": (
        "some weights could not be tested, as {n} of {examined} draws belong to unknown modes, for example "
        "({where})",
        "give all `modes`, or allow a search more evaluations or a box, `bounds`",
    ),
}


def not_examined(name: str, **fields: Any) -> Remark:
    """What was not done, with its numbers."""
    return Remark("not examined", NOT_EXAMINED[name].format(**fields))


def reason(name: str, **fields: Any) -> Remark:
    """One of the reasons, with its numbers."""
    text, remedy = REASONS[name]
    return Remark("reason", text.format(**fields), remedy.format(**fields))


def remarks_of(kind: RemarkKind, *texts: str) -> tuple[Remark, ...]:
    """Remarks of one kind."""
    return tuple(Remark(kind, text) for text in texts)


def sampler_warnings(divergences: int | None, rhat: np.ndarray, names: Sequence[str]) -> list[str]:
    """Divergent transitions, and the parameter with the largest R-hat, if that is above 1.1, as is usual."""
    found = [f"the sampler reports {count_text(divergences, 'divergent transition')}"] if divergences else []
    if np.nanmax(rhat, initial=1.0) > 1.1:
        k = int(np.nanargmax(rhat))
        effect = "the chains have not mixed or are not yet stationary"
        found.append(f"R-hat of {names[k]} is {rhat[k]:.2f}: {effect}")
    return found


def step_line(name: str, made: int, seconds: float) -> str:
    """The end of a step of `check`, for those who watch it."""
    return f"steincheck: {name} done after {seconds:.1f} s and {made:,} evaluations\n"


def k_hat_text(k_hat: float) -> str:
    """Whether importance weights can correct draws of an approximation."""
    can = "can" if k_hat < 0.7 else "cannot"
    return f"k-hat = {k_hat:.2g}: importance weights {can} correct these draws."


# --- the answer ---


def headline(verdict: Verdict) -> str:
    """The answer in one or two sentences, with what the numbers say; no p-value where a fact decides."""
    fits, tolerance = verdict.fits, verdict.tolerance
    clearest = [verdict.tests[name] for name, p in verdict.adjusted_pvalues.items() if p == verdict.pvalue]
    p = f" (p {pvalue_text(verdict.pvalue, smallest=any(one.at_floor for one in clearest))})"
    if not verdict.tests or (fits is False and verdict.pvalue > verdict.alpha):
        p = ""
    answers = {
        True: f"No misfit found{p}.",
        False: f"Misfit found{p}.",
        None: "Cannot tell whether the draws fit the density:",
    }
    if tolerance is not None:
        answers = {
            True: f"The means, sds and mode shares of the draws are within the tolerance {tolerance:g}{p}.",
            False: f"The draws are off by more than the tolerance {tolerance:g}{p}.",
            None: f"Cannot tell whether the draws are within the tolerance {tolerance:g}{p}:",
        }
    details = {
        True: accuracy_sentence(verdict.accuracy, USUAL_TOLERANCE if tolerance is None else tolerance),
        False: "".join(finding.text for finding in verdict.findings[:1]),
        None: "; ".join(verdict.inconclusive_reasons),
    }
    detail = details[fits]
    stop = "." if detail and not detail.endswith("?") else ""
    return f"{answers[fits]} {detail}{stop}".rstrip()


def accuracy_sentence(accuracy: Sequence[ParameterAccuracy], within: float) -> str:
    """How far off the numbers of draws are at most, or which of them is off by more than `within`."""
    known = [item for item in accuracy if np.isfinite(item.largest_error)]
    if not known:
        return ""
    settled = [item for item in known if not item.rough] or known
    worst = max(settled, key=lambda item: abs(item.mean_error))
    low, high = sorted(np.abs(worst.mean_error_interval))
    if low > within and np.prod(worst.mean_error_interval) > 0:
        size = estimate_text(abs(worst.mean_error), (low, high), "{:.2g}")
        off = f"the mean of {worst.parameter} is off by {size} sd"
        return f"But the draws are too few for {within:g} sd: {off}"
    means = [max(np.abs(item.mean_error_interval)) for item in settled]
    spreads = [max(np.abs(np.expm1(item.sd_error_interval))) for item in settled if item.has_sd]
    text = f"{_all_of(len(means), len(accuracy), 'mean')} within {max(means):.2g} sd of the density's"
    if spreads:
        share = f"{max(spreads):.0%}" if max(spreads) >= 0.01 else f"{100 * max(spreads):.1g}%"
        text += f", {_all_of(len(spreads), len(accuracy), 'sd').lower()} within {share}"
    rough = [item.parameter for item in known if item.rough]
    unknown = [item.parameter for item in accuracy if item not in known]
    text += f"; the intervals of {listed(rough, 3)} are rough" if rough else ""
    return text + (f"; no value for {listed(unknown, 3)}" if unknown else "")


def _all_of(count: int, total: int, noun: str) -> str:
    """The subject and verb of a sentence about some or all numbers."""
    if count < total:
        return f"{count} of {total} {noun}s {'is' if count == 1 else 'are'}"
    return {1: f"The {noun} is", 2: f"Both {noun}s are"}.get(count, f"All {count} {noun}s are")


# --- what is wrong ---


def mean_text(item: ParameterAccuracy) -> str:
    """A mean that is off; its digits are those that a hundredth of the sd leaves."""
    decimals = int(np.clip(2 - np.floor(np.log10(max(item.draws_sd, 1e-300))), 0, 300))
    number = f"{{:z.{decimals}f}}" if decimals < 8 else "{:.3g}"
    own, known = number.format(item.draws_mean), interval_text(item.mean_interval, number)
    off = f"{abs(item.mean_error):.2g} sd too {'high' if item.mean_error > 0 else 'low'}"
    return f"{item.parameter}: mean of the draws {own}, of the density {known}: {off}"


def sd_text(item: ParameterAccuracy) -> str:
    """A standard deviation that is off."""
    known = interval_text(item.sd_interval)
    if item.draws_sd == 0:
        return f"{item.parameter}: the draws do not vary, the sd of the density is {known}"
    ratio = float(np.exp(abs(item.sd_error)))
    factor = f"{ratio:.3g}" if ratio < 2 else f"{ratio:.2g}"
    off = f"{factor} times too {'large' if item.sd_error > 0 else 'small'}"
    return f"{item.parameter}: sd of the draws {item.draws_sd:.3g}, of the density {known}: {off}"


def share_text(table: ModeTable, k: int, where: str) -> str:
    """A mode whose share is off."""
    observed = f": {table.observed[k]:.1%} of the draws"
    if table.n_draws[k] == 0:
        observed = " is missing: no draws"
    elif table.observed[k] < 0.1 * table.implied_interval[k, 0]:
        observed = f" is nearly missing{observed}"
    return f"Mode {k} ({where}){observed}, {share_of_density(table, k)} of the density"


def impossible_text(rows: Sequence[int], n: int) -> str:
    """Draws to which the density assigns negligible probability."""
    verb, noun = ("is", "row") if len(rows) == 1 else ("are", "rows")
    return (
        f"{len(rows)} of {n} draws {verb} of negligible probability under the density: {noun} "
        f"{listed(rows, 5)} (counted from 0)"
    )


FINDINGS = {  # without a number
    "flow": "The mode weights are wrong: too little mass in direction ({direction})",
    "shape": "The shape of the distribution{where} is wrong{feature}",
    "chain": "Chain {chain} differs from the others",
    "quarter": "Quarter {chain} of the chain differs from the others",
    "beginnings": "The beginnings of the chains differ from the rest",
}


# --- what to do ---

ADVICE = {
    "warm-up": "discard the warm-up: leave out the first draws of every chain, then check again",
    "labels": "decide whether the shares matter: some modes differ by the labels of components alone (label "
    "switching), and quantities that do not depend on the labels do not depend on the shares",
    "mode weights": "weight the draws: `check(draws, target, weights=verdict.importance_weights)` has the "
    "mode shares of the density",
    "weighted shape": "check the weighted draws: tests of the shape reject too, and weights repair the mode "
    "shares alone; if these still reject, sample again from every mode (at `verdict.starting_points`)",
    "few changes": "use a sampler that moves between modes, such as tempering or sequential Monte Carlo",
    "start chains": "start chains in every mode (at `verdict.starting_points`), then check again",
    "sample again": "sample again from every mode (at `verdict.starting_points`), then check again",
    "p / q": "weight the draws: `check(draws, target, log_weights=log_p - log_q)`",
    "approximation": "use a richer family (full rank, a flow) or MCMC",
    "chains": "do not use these chains: look at step size, divergences and warm-up, and run them longer",
    "weighted": "compare the density that was sampled with this one; better weights come from a proposal "
    "nearer to it, more live points or more particles",
    "unknown source": "if the draws come from an approximation, use a richer family (full rank, a flow) or "
    "MCMC; otherwise compare the density that was sampled with this one",
    "few draws": "draw a larger sample: no test finds a fault, and errors of this size may be chance",
    "impossible": "inspect the draws named above: a few wrong ones, such as the warm-up of a chain, can "
    "spoil means and sds",
    "odd chain": "look at the trace of what is named above; if the draws are weighted, give `weights`",
}


# --- tests of samplers ---


def sampler_failure(verdict: Any, n_draws: int, false_alarm: float) -> str:
    """What is wrong with the draws, and how sure that is."""
    return (
        f"the sampler does not fit the density (false alarms below {false_alarm:.0e}, {n_draws} draws); "
        f"the last {verdict.n} draws:\n{verdict}"
    )


def sampler_undecided(accuracy: Any, n_draws: int, tolerance: float, evidence: float) -> str:
    """Why neither answer was reached."""
    return (
        f"after {n_draws} draws not every error is within {tolerance:g}, or the evidence against it, "
        f"an e-value of {evidence:.3g}, is above 20; raise `max_draws`. The errors:\n{accuracy}"
    )
