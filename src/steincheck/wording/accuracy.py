"""Sentences about the accuracy of the draws' own numbers."""

from __future__ import annotations

from collections.abc import Sequence

REASONS = {
    "max_evaluations": "accuracy: `max_evaluations` ended the walkers after {n_transitions} transitions: "
    "intervals are longer than they could be, or there are none",
    "max_rounds": "accuracy: some intervals are still rough after {n_transitions} transitions; give "
    "`max_evaluations` to allow more",
    "low acceptance": "accuracy: only {acceptance:.0%} of the moves were accepted; no numbers are given",
    "light modes": "accuracy: modes with less than 1 % of the density that hardly change an sd were left out",
    "unknown shares": "accuracy: the shares of the modes are unknown, hence no means over all of them",
}


def accuracy_warnings(reasons: Sequence[str], n_transitions: int, acceptance: float) -> tuple[str, ...]:
    """What was not done."""
    known = {"n_transitions": n_transitions, "acceptance": acceptance}
    return tuple(REASONS[reason].format(**known) for reason in reasons)
