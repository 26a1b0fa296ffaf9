"""Sentences about the accuracy of the draws' own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..result.accuracy import ParameterAccuracy

REASONS = {
    "max_evaluations": "accuracy: `max_evaluations` ended the walkers after {n_transitions} transitions; "
    "intervals are longer than they could be",
    "max_rounds": "accuracy: some intervals are still rough after {n_transitions} transitions; give "
    "`max_evaluations` to allow more",
    "low acceptance": "accuracy: only {acceptance:.0%} of the moves were accepted; no numbers are given",
    "light modes": "accuracy: modes with less than 1 % of the density were left out",
    "unknown shares": "accuracy: the shares of the modes are unknown, hence no means over all of them",
}


def accuracy_warnings(reasons: Sequence[str], n_transitions: int, acceptance: float) -> tuple[str, ...]:
    """What was not done."""
    known = {"n_transitions": n_transitions, "acceptance": acceptance}
    return tuple(REASONS[reason].format(**known) for reason in reasons)


def mean_error_words(record: ParameterAccuracy) -> str:
    """The mean of the draws beside that of the density."""
    low, high = record.mean_error_interval
    size = f"off by {record.mean_error:.2g} sd ({low:.2g} to {high:.2g})"
    return f"{record.parameter}: the mean of the draws is {record.draws_mean:.3g}, {size}{_rough(record)}"


def sd_error_words(record: ParameterAccuracy) -> str:
    """The standard deviation of the draws beside that of the density."""
    if not record.has_sd:
        return f"{record.parameter}: no value for the sd, the tails are too heavy"
    low, high = record.sd_interval
    ratio = record.draws_sd / record.sd
    change = f"{abs(ratio - 1):.0%} too {'large' if ratio > 1 else 'small'}"
    if not 1 / 1.5 < ratio < 1.5:
        times = max(ratio, 1 / ratio)
        change = f"{times:.2g} times too {'large' if ratio > 1 else 'small'}"
    sizes = f"the sd of the draws is {record.draws_sd:.3g}, of the density {low:.3g} to {high:.3g}"
    return f"{record.parameter}: {sizes}: {change}{_rough(record)}"


def largest_error_words(record: ParameterAccuracy) -> str:
    """The larger of both errors as a sentence."""
    if record.has_sd and abs(record.sd_error) > abs(record.mean_error):
        return sd_error_words(record)
    return mean_error_words(record)


def _rough(record: ParameterAccuracy) -> str:
    return " (rough: the density is hard to explore there)" if record.rough else ""
