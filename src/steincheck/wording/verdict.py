"""The answer of `check`, what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .numbers import count_text, estimate_text, interval_text, list_text, pvalue_text, share_of_density

if TYPE_CHECKING:
    from ..result import AgreementResult, ModeTable, ParameterAccuracy
    from ..verdict.combine import Combined


class Phrases:
    """What is said in the same words every time."""

    independent = "The draws were tested as independent."
    modes_given = "The modes were given: none was searched for."
    other_modes = "modes other than those given"
    modes_not_found = "modes that the search did not find"
    no_mode = "no mode was found, so that the mode weights could not be examined"
    improper = "the density appears to be improper, or the sign of the log density is reversed"
    swapped_axes = "draws are correlated across chains, not within them: the axes seem to be swapped"
    unknown_modes = "whether draws belong to unknown modes"
    support = "whether the density jumps or ends abruptly"
    weights = "whether the mode weights are right"
    accuracy = "how far off the means and standard deviations are"
    weights_wrong = "The mode weights are wrong, though no mode by itself stands out"
    few_blocks = "whether the chains agree: there are too few blocks to compare"


# --- how the draws were examined ---


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


def moments_untested(remedy: str | None, least: int) -> str:
    """Too few draws or blocks for the moment test."""
    return f"location, spread and correlation: {remedy or f'this requires at least {least} tested draws'}"


def thinned_kernel_test(n_tested: int, n: int) -> str:
    """A kernel test of some of the draws."""
    return f"the shape at all draws: the kernel test costs n^2 and used {n_tested} of the {n} draws"


def few_scores(n: int, least: int) -> str:
    """Too few evaluations for scores."""
    return (
        f"the evaluations allowed are enough for the score at {n} draws, and at least {least} are needed for "
        "a test of the shape: allow more evaluations; where the target has no score, give it one"
    )


def limited_texts(limit: int | None, enough: int) -> tuple[str, ...]:
    """That the evaluations allowed were not enough for everything."""
    if limit is None or limit >= enough:
        return ()
    return (
        f"what more than {limit:,} evaluations of the density would show: "
        f"`max_evaluations={enough}, max_seconds=None` would be enough",
    )


def few_draws_reason(n: int, least: int) -> str:
    """Too few draws for any answer but a misfit."""
    return f"{n} draws are too few: below {least} a non-rejection is inconclusive"


def level_reason(test: str, alpha: float, floor: float) -> str:
    """A level that the replicates of a test cannot reach."""
    return f"the {test} cannot reach the level {alpha:g}: its smallest adjusted p-value is {floor:.2g}"


def unknown_modes_text(n_unknown: int, n_examined: int, where: str, *, given: bool) -> str:
    """Draws that climb to modes that are not listed."""
    remedy = "give `modes`, or a larger `max_evaluations`"
    if given:
        remedy = "add them to `modes`, or leave `modes` out to have them searched for"
    return (
        f"the weights of modes not listed: {n_unknown} of {n_examined} draws examined belong to unknown "
        f"modes, for example ({where}); {remedy}"
    )


def step_line(name: str, made: int, seconds: float) -> str:
    """The end of a step of `check`, for those who watch it."""
    return f"steincheck: {name} done after {seconds:.1f} s and {made:,} evaluations\n"


# --- the answer ---


def headline(
    fits: bool | None, combined: Combined, tolerance: float | None, detail: str, reasons: Sequence[str]
) -> str:
    """The answer in one or two sentences, with what the numbers say; no p-value where a fact decides."""
    p = f" (p {pvalue_text(combined.pvalue, smallest=combined.at_floor)})"
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
    settled = [item for item in accuracy if not item.rough] or list(accuracy)
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


def more_text(count: int, noun: str, where: str) -> str:
    """Where only the worst modes or parameters are named."""
    return f"And {count_text(count, f'more {noun}')}: see `{where}`"


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


Obstacle = Literal["few draws", "order of the draws", "density", "wide intervals"]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is known about the draws and their misfit when advice is given.

    Attributes
    ----------
    kinds : frozenset of str
        The kinds of the findings.
    chains : bool
        The draws are Markov chains.
    reweightable, stuck, relabelled : bool
        Every mode has draws, so that weights can correct the shares; there are chains at every mode, which
        hardly ever leave it; modes differ by the labels of components alone.
    warm_up, misread : bool, sequence of str
        The beginnings of the chains are what is wrong; parameters that the draws may hold on another scale.
    obstacle : str or None
        What stands in the way of an answer.
    locations : str
        The expression that gives the mode locations in the user's parameters.
    """

    kinds: frozenset[str]
    chains: bool
    reweightable: bool = False
    stuck: bool = False
    relabelled: bool = False
    warm_up: bool = False
    misread: Sequence[str] = ()
    obstacle: Obstacle | None = None
    locations: str = "verdict.modes.locations"

    @property
    def shares_wrong(self) -> bool:
        """Whether a finding is about the weights of the modes."""
        return bool(self.kinds & {"missing mode", "mode share", "flow"})


def advice(fits: bool | None, situation: Situation) -> tuple[str, ...]:
    """Steps that follow from the answer, the most urgent first; none if no misfit was found."""
    if fits:
        return ()
    steps = []
    if situation.misread:
        steps.append(
            f"if the draws hold {list_text(situation.misread)} on the original scale, give them by name, or "
            "map them by `target.unconstrain` first"
        )
    if situation.warm_up:
        steps.append("discard the warm-up: leave out the first draws of every chain, then check again")
    if situation.shares_wrong or situation.stuck:
        steps += _about_shares(situation)
    if not situation.warm_up:
        steps += _about_draws(situation)
    return tuple(steps) or (_about_obstacle(situation),)


def _about_shares(situation: Situation) -> list[str]:
    """To correct the shares of the modes."""
    steps = []
    if situation.relabelled:
        steps.append(
            "decide whether the shares matter: some modes differ by the labels of components alone (label "
            "switching), and quantities that do not depend on the labels do not depend on the shares"
        )
    if situation.reweightable:
        steps.append("weight the draws: `verdict.importance_weights` restore the mode shares of the density")
    if situation.stuck:
        steps.append("use a sampler that moves between modes, such as tempering or sequential Monte Carlo")
    elif not situation.reweightable:
        again = "start chains in every mode" if situation.chains else "sample again from every mode"
        steps.append(f"{again} (locations: `{situation.locations}`), then check again")
    return steps


def _about_draws(situation: Situation) -> list[str]:
    """To correct means, standard deviations and shapes, single draws and single chains."""
    steps = []
    by_numbers = situation.kinds & {"mean", "sd"} and not situation.shares_wrong
    if by_numbers or "shape" in situation.kinds:
        steps.append(
            "do not use these chains: look at step size, divergences and warm-up, and run them longer"
            if situation.chains
            else "if the draws come from an approximation, use a richer family (full rank, a flow) or MCMC; "
            "otherwise compare the density that was sampled with this one"
        )
    if "impossible draws" in situation.kinds:
        steps.append("inspect the draws named above: a few wrong ones can spoil means and sds")
    if "chains" in situation.kinds:
        steps.append("look at the trace of the chain named above, and at where it started")
    return steps


def _about_obstacle(situation: Situation) -> str:
    """To get an answer where there is none."""
    more = "run the chains longer" if situation.chains else "take more draws"
    steps = {
        "few draws": more,
        "order of the draws": "give the draws as the sentence above says",
        "density": "correct or transform the density as the sentence above says",
        "wide intervals": f"allow more evaluations of the density, or {more}",
        None: "remove the obstacle that the sentence above names",
    }
    return f"{steps[situation.obstacle]}, then check again"


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
