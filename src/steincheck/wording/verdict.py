"""The answer of `check`, what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .draws import discontinuity_remedy, discontinuity_text, order_reasons
from .numbers import count_text, estimate_text, interval_text, list_text, pvalue_text, share_of_density
from .results import weight_reason_and_remedy

if TYPE_CHECKING:
    from ..chains.reading import OrderFacts
    from ..result import AgreementResult, FluxResult, ModeTable, ParameterAccuracy
    from ..target import Discontinuity
    from ..verdict.examine import Combined


class Phrases:
    """What is said in the same words every time."""

    modes_given = "The modes were given: none was searched for."
    other_modes = "modes other than those given"
    modes_not_found = "modes that the search did not find"
    unknown_modes = "whether draws belong to unknown modes"
    support = "whether the density jumps or ends abruptly"
    weights = "whether the mode weights are right"
    accuracy = "how far off the means and standard deviations are"
    weights_wrong = "The mode weights are wrong, though no mode by itself stands out"
    few_blocks = "whether the chains agree: there are too few blocks to compare"


RemarkKind = Literal["warning", "context", "reason", "not examined"]


class Remark(NamedTuple):
    """What a step of `check` says beside its result; a reason is one why a non-rejection is inconclusive."""

    kind: RemarkKind
    text: str
    remedy: str = ""  #: what to do about a reason


def remarks_of(kind: RemarkKind, *texts: str) -> tuple[Remark, ...]:
    """Remarks of one kind."""
    return tuple(Remark(kind, text) for text in texts)


# --- how the draws were examined ---


def held_out_text(n_held: int, n_tested: int) -> str:
    """The draws that started the mode search."""
    return f"the {n_held} held-out draws that started the mode search: the other {n_tested} were tested"


def sampler_warnings(divergences: int | None, rhat: np.ndarray | None, names: Sequence[str]) -> list[str]:
    """Divergent transitions, and the parameter with the largest R-hat, if that is above 1.1, as is usual."""
    found = [f"the sampler reports {count_text(divergences, 'divergent transition')}"] if divergences else []
    if rhat is None or not np.nanmax(rhat, initial=1.0) > 1.1:
        return found
    k = int(np.nanargmax(rhat))
    unmixed = f"R-hat of {names[k]} is {rhat[k]:.2f}: the chains have not mixed or are not yet stationary"
    return [*found, unmixed]


def moments_untested(remedy: str | None, least: int) -> str:
    """Too few draws or blocks for the moment test."""
    return f"location, spread and correlation: {remedy or f'this requires at least {least} tested draws'}"


def thinned_kernel_test(n: int) -> str:
    """A kernel test of some of the draws."""
    return f"the shape at all of the {n} draws: the kernel test costs n^2 and looked at some of them"


def limited_texts(limit: int | None, enough: int) -> tuple[str, ...]:
    """That the evaluations allowed were not enough for everything."""
    if limit is None or limit >= enough:
        return ()
    return (
        f"what more than {limit:,} evaluations of the density would show: "
        f"`max_evaluations={enough}, max_seconds=None` would be enough",
    )


def step_line(name: str, made: int, seconds: float, left: int) -> str:
    """The end of a step of `check`, for those who watch it, and how long the rest may take."""
    rest = f"; about {left:,} are left, {seconds * left / max(made, 1):.0f} s" if left else ""
    return f"steincheck: {name} done after {seconds:.1f} s and {made:,} evaluations{rest}\n"


def k_hat_texts(k_hat: float, log_ratio: np.ndarray, mode: np.ndarray | None) -> list[str]:
    """Whether importance weights can correct draws of an approximation; where it is too dense."""
    can = "can" if k_hat < 0.7 else "cannot"
    texts = [f"k-hat = {k_hat:.2g}: importance weights {can} correct these draws."]
    if mode is None:
        return texts
    centred = log_ratio - log_ratio.mean()
    means = [(k, centred[mode == k].mean()) for k in np.unique(mode[mode >= 0]).tolist()]
    listed = list_text([f"{mean:+.2g} at mode {k}" for k, mean in means])
    return [*texts, f"Means of log p - log q, relative to that of all draws: {listed}."]


# --- why there is no answer, and what to do about it ---


def invalid_order(order: OrderFacts, *, swapped: bool) -> tuple[Remark, ...]:
    """Draws whose order permits no p-value; `swapped` are chains and draws the other way round."""
    if swapped and not order.equal:
        text = "draws are correlated across chains, not within them: the axes seem to be swapped"
        return (Remark("reason", text, "swap the first two axes of the draws"),)
    return tuple(Remark("reason", text, remedy) for text, remedy in order_reasons(order))


def no_mode(search_end: str | None) -> Remark:
    """A search without a mode; one that a limit ended is no obstacle to the tests of the shape."""
    if search_end == "improper":
        text = "the density appears to be improper, or the sign of the log density is reversed"
        return Remark("reason", text, "correct the log density: its sign, or a prior that makes it proper")
    text = "no mode was found, so that the mode weights could not be examined"
    limited = search_end in ("max_evaluations", "max_seconds")
    return Remark("not examined" if limited else "reason", text, "give `modes`, or correct the score")


def discontinuity_reason(gap: Discontinuity, where: str) -> Remark:
    """Why the shape of a density with a jump or an edge is not tested."""
    text = f"the density {discontinuity_text(gap)} near ({where}), and tests of the shape need "
    need, remedy = discontinuity_remedy(gap)
    return Remark("reason", text + need, remedy)


def shape_untested(remedy: str) -> Remark:
    """Chains too short for the tests of the shape."""
    return Remark("reason", f"the shape could not be tested: {remedy}", "run longer chains")


def few_scores(n: int, least: int) -> Remark:
    """Too few evaluations for scores."""
    text = (
        f"the evaluations allowed are enough for the score at {n} draws, and tests of the shape need {least}"
    )
    return Remark("reason", text, "allow more evaluations; where the target has no score, give it one")


def few_draws(n: float, least: int, more: str) -> Remark:
    """Too few draws, or too uneven weights, for any answer but a misfit."""
    return Remark("reason", f"{n:.0f} draws are too few: below {least} a non-rejection is inconclusive", more)


def level_out_of_reach(test: str, alpha: float, floor: float) -> Remark:
    """A level that the replicates of a test cannot reach."""
    text = f"the {test} cannot reach the level {alpha:g}: its smallest adjusted p-value is {floor:.2g}"
    return Remark("reason", text, f"choose `alpha` above {floor:.2g}")


def wide_intervals(tolerance: float, more: str) -> Remark:
    """Intervals of errors that are neither within the tolerance nor outside."""
    text = f"the intervals of some errors are not all within {tolerance:g}, and none is outside"
    return Remark("reason", text, f"allow more evaluations of the density, or {more}")


def unexamined_weights(result: FluxResult) -> Remark:
    """Why a flux test cannot tell."""
    return Remark("reason", *weight_reason_and_remedy(result))


def unknown_modes(n_unknown: int, n_examined: int, where: str, *, given: bool) -> Remark:
    """Draws that climb to modes that are not listed."""
    remedy = "add them to `modes`, or leave `modes` out to have them searched for"
    if not given:
        remedy = "give `modes`, or a larger `max_evaluations`"
    text = (
        f"the weights of modes not listed: {n_unknown} of {n_examined} draws examined belong to unknown "
        f"modes, for example ({where})"
    )
    return Remark("reason", text, remedy)


# --- the answer ---


def headline(
    fits: bool | None, combined: Combined, tolerance: float | None, detail: str, reasons: Sequence[str]
) -> str:
    """The answer in one or two sentences, with what the numbers say; no p-value where a fact decides."""
    at_floor = any(
        result.at_floor and combined.adjusted_pvalues[name] == combined.pvalue
        for name, result in combined.tests.items()
    )
    p = f" (p {pvalue_text(combined.pvalue, smallest=at_floor)})"
    if not combined.tests or (fits is False and not combined.rejected):
        p = ""
    if tolerance is not None:
        answers = {
            True: f"The means, sds and mode shares of the draws are within the tolerance {tolerance:g}{p}.",
            False: f"The draws are off by more than the tolerance {tolerance:g}{p}.",
            None: f"Cannot tell whether the draws are within the tolerance {tolerance:g}{p}.",
        }
        why = [sentence(text) for text in reasons[:1] if fits is None]
        return " ".join([answers[fits], *why, detail]).strip()
    if fits is None:
        return f"Cannot tell whether the draws fit the density: {sentence('; '.join(reasons))}"
    answer = f"No misfit found{p}." if fits else f"Misfit found{p}."
    return f"{answer} {detail}".strip()


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends with a mark already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def accuracy_sentence(accuracy: Sequence[ParameterAccuracy], within: float) -> str:
    """How far off the numbers of draws are at most, or which of them is off by more than `within`."""
    accuracy = [item for item in accuracy if np.isfinite(item.largest_error)]
    if not accuracy:
        return ""
    settled = [item for item in accuracy if not item.rough] or accuracy
    worst = max(settled, key=lambda item: abs(item.mean_error))
    low, high = sorted(np.abs(worst.mean_error_interval))
    if low > within and np.prod(worst.mean_error_interval) > 0:
        size = estimate_text(abs(worst.mean_error), (low, high), "{:.2g}")
        return (
            f"But the draws are too few for {within:g} sd: the mean of {worst.parameter} is off by {size} sd."
        )
    means = [max(np.abs(item.mean_error_interval)) for item in settled]
    spreads = [max(np.abs(np.expm1(item.sd_error_interval))) for item in settled if item.has_sd]
    text = f"{_all_of(len(means), len(accuracy), 'mean')} within {max(means):.2g} sd of the density's"
    if spreads:
        text += f", {_all_of(len(spreads), len(accuracy), 'sd').lower()} within {max(spreads):.0%}"
    rough = [item.parameter for item in accuracy if item.rough]
    return text + (f"; the intervals of {list_text(rough, 3)} are rough." if rough else ".")


def _all_of(count: int, total: int, noun: str) -> str:
    """The subject and verb of a sentence about some or all numbers."""
    if count < total:
        return f"{count} of {total} {noun}s {'is' if count == 1 else 'are'}"
    return {1: f"The {noun} is", 2: f"Both {noun}s are"}.get(count, f"All {count} {noun}s are")


# --- what is wrong ---


def mean_text(item: ParameterAccuracy) -> str:
    """A mean that is off; its digits are those that a hundredth of the sd leaves."""
    decimals = int(np.clip(2 - np.floor(np.log10(max(item.draws_sd, 1e-300))), 0, 300))
    number = f"{{:.{decimals}f}}" if decimals < 8 else "{:.3g}"
    return (
        f"{item.parameter}: mean of the draws {number.format(item.draws_mean)}, of the density "
        f"{interval_text(item.mean_interval, number)}: {abs(item.mean_error):.2g} sd too "
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


def share_text(table: ModeTable, k: int, where: str) -> str:
    """A mode whose share is off."""
    observed = f": {table.observed[k]:.1%} of the draws"
    if table.n_draws[k] == 0:
        observed = " is missing: no draws"
    elif table.observed[k] < 0.1 * table.implied_interval[k, 0]:
        observed = f" is nearly missing{observed}"
    return f"Mode {k} ({where}){observed}, {share_of_density(table, k)} of the density"


def flow_text(step: np.ndarray, names: Sequence[str]) -> str:
    """The displacement of a lattice of modes along which the draws are out of balance."""
    direction = ", ".join(f"{name} {value:+.3g}" for name, value in zip(names, step, strict=True))
    return f"The mode weights are wrong: too little mass in direction ({direction})"


def shape_text(feature: str, *, several: bool) -> str:
    """A wrong shape that no mean or sd shows; `feature` says what the moment test sees of it."""
    where = " within modes" if several else ""
    return f"The shape of the distribution{where} is wrong" + (f": {feature}" if feature else "")


def impossible_text(rows: Sequence[int], n: int) -> str:
    """Draws to which the density assigns negligible probability."""
    verb, noun = ("is", "row") if len(rows) == 1 else ("are", "rows")
    which = list_text([str(row) for row in rows], 5)
    return (
        f"{len(rows)} of {n} draws {verb} of negligible probability under the density: {noun} {which}, "
        "counted from 0"
    )


def agreement_text(result: AgreementResult) -> str:
    """Which chain differs, or that the beginnings do."""
    if result.starts_differ:
        return "The beginnings of the chains differ from the rest"
    return f"Chain {result.odd_chain} differs from the others"


# --- what to do ---

Circumstance = Literal[
    "wrong shares",
    "wrong numbers",
    "wrong shape",
    "impossible draws",
    "odd chain",
    "warm-up",
    "Markov chains",
    "weighted",
    "approximation",
    "correctable",
    "stuck",
    "reweightable",
    "relabelled",
]


class Step(NamedTuple):
    """Advice for those draws of which all of `given` holds, and nothing of `unless`."""

    given: tuple[Circumstance, ...]
    unless: tuple[Circumstance, ...]
    text: str


STEPS = (
    Step(("warm-up",), (), "discard the warm-up: leave out the first draws of every chain, then check again"),
    Step(
        ("wrong shares", "relabelled"),
        (),
        "decide whether the shares matter: some modes differ by the labels of components alone (label "
        "switching), and quantities that do not depend on the labels do not depend on the shares",
    ),
    Step(
        ("wrong shares", "reweightable"),
        (),
        "weight the draws: `check(draws, target, weights=verdict.importance_weights)` has the mode shares of "
        "the density",
    ),
    Step(
        ("wrong shares", "reweightable", "stuck"),
        (),
        "use a sampler that moves between modes, such as tempering or sequential Monte Carlo",
    ),
    Step(
        ("wrong shares", "Markov chains"),
        ("reweightable",),
        "start chains in every mode (at `verdict.starting_points`), then check again",
    ),
    Step(
        ("wrong shares",),
        ("reweightable", "Markov chains"),
        "sample again from every mode (at `verdict.starting_points`), then check again",
    ),
    Step(
        ("wrong numbers", "Markov chains"),
        ("warm-up", "approximation", "weighted"),
        "do not use these chains: look at step size, divergences and warm-up, and run them longer",
    ),
    Step(
        ("approximation", "correctable"),
        (),
        "weight the draws: `check(draws, target, log_weights=log_p - log_q)`",
    ),
    Step(
        ("wrong numbers", "approximation"),
        (),
        "use a richer family (full rank, a flow) or MCMC",
    ),
    Step(
        ("wrong numbers", "weighted"),
        ("approximation", "Markov chains"),
        "compare the density that was sampled with this one; more live points or particles shorten the steps "
        "between densities",
    ),
    Step(
        ("wrong numbers",),
        ("Markov chains", "approximation", "weighted"),
        "if the draws come from an approximation, use a richer family (full rank, a flow) or MCMC; otherwise "
        "compare the density that was sampled with this one",
    ),
    Step(
        ("impossible draws",),
        (),
        "inspect the draws named above: a few wrong ones can spoil means and sds",
    ),
    Step(("odd chain",), ("warm-up",), "look at the trace of the chain named above, and at where it started"),
)


def advice(circumstances: Collection[Circumstance], remarks: Sequence[Remark]) -> tuple[str, ...]:
    """What to do about draws that were not found to fit, the most urgent first.

    Where no step applies, the reasons that there is no answer have their remedies.
    """
    steps = [
        step.text
        for step in STEPS
        if all(item in circumstances for item in step.given)
        and not any(item in circumstances for item in step.unless)
    ]
    remedies = [f"{remark.remedy}, then check again" for remark in remarks if remark.kind == "reason"]
    return tuple(steps or dict.fromkeys(remedies))


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
        f"after {n_draws} draws not every error is within {tolerance:g} and the evidence against the sampler "
        f"is an e-value of {evidence:.3g}; raise `max_draws` or `tolerance`. The errors:\n{accuracy}"
    )
