"""What mode searches, single tests and the accuracy of draws say, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import listed
from .numbers import ANSWERS, count_text, pvalue_text

if TYPE_CHECKING:
    from ..result import ChainBlocks, FluxResult, GofResult, MomentFeature
    from ..result.modes import Modes, ModeSearch, SignedPermutation


# --- mode searches ---


SEARCH_ENDS = {
    "complete": "no mode of weight above 1/1000 was new in the last round",
    "max_modes": "there are more modes than `max_modes` of `find_modes`",
    "max_evaluations": "`max_evaluations` or `max_seconds` reached",
    "max_seconds": "`max_seconds` reached",
    "one round": "all starts were climbed from",
}
WHY_NO_MODE = {
    "raises": "the target raises {}",
    "not finite": "the density or its score is 0 or not finite at all starts; begin inside its support",
    "limit": "`max_evaluations` or `max_seconds` was reached before a local optimisation converged",
    "not converged": "no local optimisation converged",
    "improper": "the density does not fall off near {}: it is improper, or its sign is reversed",
    "grows": "the density grows towards {}",
}


def no_mode_message(kind: str, detail: str = "") -> str:
    """Why a search found no mode."""
    return "no mode found: " + WHY_NO_MODE[kind].format(detail)


def search_sentence(search: ModeSearch | None, dim: int) -> str:
    """How thorough a search was, and what it could not have found."""
    if search is None:
        return "the modes were given"
    text = f"evaluated {search.n_evaluations:,} points; {search.message}"
    if dim >= 10:
        text += f". A mode much narrower than these in {dim} dimensions would not have been found"
    return text


def search_context(modes: Modes, names: Sequence[str]) -> tuple[str, ...]:
    """How the search went and which symmetries it found, as sentences of a verdict."""
    sentence = f"Mode search: {search_sentence(modes.search, modes.locations.shape[1])}."
    if not modes.symmetries:
        return (sentence,)
    symmetries = "; ".join(symmetry_words(symmetry, names) for symmetry in modes.symmetries)
    return (sentence, f"Symmetries of the density: {symmetries}.")


def symmetry_words(g: SignedPermutation, names: Sequence[str] = ()) -> str:
    """A symmetry as what takes the place of each coordinate that it changes.

    Examples
    --------
    >>> from steincheck.result.modes import SignedPermutation
    >>> symmetry_words(SignedPermutation((1, 0, 2), (1, 1, -1)), "abc")
    '(a, b, c) -> (b, a, -c)'
    """
    label = names or [f"x[{k}]" for k in range(len(g.order))]
    changed = [k for k, (i, sign) in enumerate(zip(g.order, g.sign, strict=True)) if i != k or sign < 0]
    images = ["-" * (g.sign[k] < 0) + label[g.order[k]] for k in changed]
    return f"({', '.join(label[k] for k in changed)}) -> ({', '.join(images)})"


# --- every test ---


WARNINGS = {  # of models, mode searches and tests
    "single precision": "the parameters of `log_density` are {dtype}: precision is lost, module.double() "
    "keeps it",
    "inexact score": "the score differs from finite differences by up to {percent:.2g}% of its size: expect "
    "errors of this size",
    "constant": "coordinate {coordinates} is the same in all draws: no density produces this",
    "search ended early": "the mode search ended early: {message}; modes may be missing",
    "flat tops": "{flat} of {total} modes have a flat or pointed top: their width is where the log density "
    "has dropped by 1/2",
    "growth": "the density is still growing at {place}, far above all modes: it may be unbounded",
    "floor": "The smallest attainable p-value is {floor:.2g}, above the level {alpha:g}.",
    "few groups": "the draws are only {count} independent groups, and {least} are needed",
    "unseen draws": "all locations are too far from the draws to see any of them",
    "other units": "the default bandwidths are made for draws of unit scale, these have standard deviations "
    "from {smallest:.2g} to {largest:.2g}: give `precondition`",
    "few perturbed": "`max_evaluations` and `max_seconds` allow {count} of {n} draws to be perturbed and "
    "tested",
    "one mode": "only one mode is known: the perturbation leaves every draw where it is",
    "low acceptance": "fewer than {least:.0%} of the jumps are accepted at every theta: the modes may be "
    "wrong or far from elliptic, or more steps are needed",
    "far origin": "modes of different widths lie far from the origin, jumps miss them: centre draws and "
    "target",
    "skew scores": "the scores of the {n} draws are so skewed that a few unseen draws would decide, and "
    "correct draws are rejected too often: draw a larger sample",
    "left out": "{count} of {total} moments were left out: they are too skewed in so few draws; draw a "
    "larger sample",
    "overflow": "{count} of {total} moments overflow and were left out",
    "pairs": "correlations were examined for the {count} pairs of parameters most correlated at the modes",
    "few moving": "only {share:.0%} of the draws can be mapped to another mode: modes are far from elliptic "
    "(`flux_test` takes more `anchors`), or draws belong to unknown modes",
    "displacements": "the modes are part of a larger lattice: draws were moved by its displacements, not "
    "between modes",
}


def warning(name: str, **numbers: Any) -> str:
    """One of the warnings, with its numbers."""
    return WARNINGS[name].format(**numbers)


def cannot_tell(reason: str) -> str:
    """The warning of a test without a p-value."""
    return f"cannot tell: {reason}"


def result_sentence(result: GofResult, alpha: float) -> str:
    """The answer of a test at a level, with its numbers."""
    p = pvalue_text(result.pvalue, smallest=result.at_floor)
    statistic = "" if np.isnan(result.statistic) else f"statistic = {result.statistic:.4g}, "
    n = f"n = {result.n}" if result.tested_rows is None else f"n = {result.n}, {result.n_tested} tested"
    fits = None if result.inconclusive(alpha) else not result.reject(alpha)
    return f"{ANSWERS[fits]} at level {alpha:g} (p {p}, {statistic}{n}, d = {result.dim})"


def chains_text(chains: Any) -> str:
    """How chains were cut into blocks, or where they were not, how often they change mode."""
    count = count_text(chains.n_chains, "chain")
    if not chains.n_blocks:
        return f"{count} with {count_text(chains.n_changes, 'mode change')} in all"
    size = f"effective sample size about {chains.effective_sample_size:.0f}"
    how = f"autocorrelation time {chains.autocorrelation_time:.3g}, {chains.n_blocks} blocks"
    return f"tested as {count}, {size} ({how})"


def shape_context(n: int, chains: ChainBlocks) -> str:
    """How many draws count as for the tests within modes."""
    return f"The shape of the {n} draws was {chains_text(chains)}."


# --- kernel tests ---


def few_draws(n: int, least: int, *, bootstrap: bool = False) -> str:
    """So few draws that the null distribution is far off."""
    remedy = "; without `bootstrap` signs are flipped instead" if bootstrap else ""
    return f"only {n} draws are tested: below {least} correct samples are rejected too often{remedy}"


# --- the moment test ---


SENTENCES = {  # with the word for positive t, and for negative
    "location": ("the mean of {0} is too {word}", "high", "low"),
    "scale": ("{0} is too {word}", "wide", "narrow"),
    "correlation": ("the correlation of {0} and {1} is too {word}", "high", "low"),
    "overall scale": ("the draws are too {word} in all directions", "wide", "narrow"),
    "skewness": ("{0} is too skewed to the {word}", "right", "left"),
    "tails": ("the tails of {0} are {word} than the density's", "heavier", "lighter"),
    "extremes": ("the extremes of {0} lie too far {word}", "out", "in"),
    "curvature": ("{1} is too {word} where {0} is far from its middle", "high", "low"),
    "radius": ("the draws lie too {word} the mode", "far from", "close to"),
}


def describe_feature(feature: MomentFeature) -> str:
    """What a feature says, without a size: "mode 1: the tails of tau (log scale) are heavier than ..."."""
    sentence, high, low = SENTENCES[feature.kind]
    mode = "" if feature.mode is None else f"mode {feature.mode}: "
    return mode + sentence.format(*_subjects(feature), word=high if feature.t > 0 else low)


def _subjects(feature: MomentFeature) -> list[str]:
    """The parameter or the two of a pair, or the axis: "principal axis 1 (0.71 a -0.71 log b)"."""
    scales = feature.scales or ("",) * len(feature.parameters)
    if feature.basis == "all":
        return ["the distances from the mode"]
    if feature.loadings:
        parts = zip(feature.loadings, scales, feature.parameters, strict=True)
        terms = " ".join(f"{value:+.2f} {f'{scale} {name}'.strip()}" for value, scale, name in parts)
        return [f"principal {feature.basis} ({terms.removeprefix('+')})"]
    pairs = zip(feature.parameters, scales, strict=True)
    names = [f"{name} ({scale} scale)" if scale else name for name, scale in pairs]
    which = {"parameter": "", "given the others": " given the others"}.get(feature.basis, "")
    return [name + which for name in names] or [f"principal {feature.basis}"]


def feature_lines(features: Sequence[MomentFeature]) -> list[str]:
    """The first five significant features of a printed result."""
    lines = [f"{describe_feature(feature)} (t = {feature.t:.1f})" for feature in features[:5]]
    more = len(features) - 5
    return [*lines, f"and {more} more in `features`"] if more > 0 else lines


# --- the flux test ---


WEIGHT_REASONS = {  # why a flux test cannot tell, and what would help
    "nothing moves": (
        "the mode weights could not be compared: no draw can be mapped to another mode",
        "make sure that the modes are those of the density; `flux_test` takes more `anchors` per mode",
    ),
    "no exchange": (
        "hardly any draw can be mapped between modes {apart} and the others, whose weights were not compared",
        "make sure that the modes are those of the density; `flux_test` takes more `anchors` per mode",
    ),
    "few groups": ("there are fewer than 8 independent groups of draws", "take more independent draws"),
    "light modes": ("all modes but one hold less than 1 % of the draws and of the density", ""),
    "stuck chains": (
        "the chains never change mode: shares of modes are those of the starting points",
        "start chains in every mode, or use a sampler that moves between modes",
    ),
    "few changes": (
        "the chains change mode too rarely to compare the weights ({changes})",
        "run them longer, or use a sampler that moves between modes",
    ),
}


def weight_reason_and_remedy(result: FluxResult) -> tuple[str, str]:
    """Why the flux test cannot tell, and what would help; empty if it can."""
    text, remedy = WEIGHT_REASONS.get(result.inconclusive_reason or "", ("", ""))
    implied = np.empty(0) if result.mode_table is None else result.mode_table.implied
    apart = listed(np.flatnonzero(np.isnan(implied)).tolist(), 10)
    changes = "along the displacements of a lattice" if result.chains is None else chains_text(result.chains)
    return text.format(apart=apart, changes=changes), remedy


# --- accuracy ---


ACCURACY_ENDS = {
    "max_evaluations": "accuracy: `max_evaluations` or `max_seconds` ended the walkers after {n_transitions} "
    "transitions",
    "max_rounds": "accuracy: intervals are rough after {n_transitions} transitions; give `max_evaluations`",
    "low acceptance": "accuracy: only {acceptance:.0%} of the moves were accepted; no numbers are given",
    "unknown shares": "accuracy: the shares of the modes are unknown, hence no means over all of them",
}
