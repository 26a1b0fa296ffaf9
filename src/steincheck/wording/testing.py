"""Sentences about tests of samplers."""

from __future__ import annotations

from typing import Any


def failure(verdict: Any, n_draws: int, false_alarm: float) -> str:
    """What is wrong with the draws, and how sure that is."""
    return (
        f"the sampler does not fit the density (false alarms below {false_alarm:.0e}, {n_draws} draws); "
        f"the last {verdict.n} draws:\n{verdict}"
    )


def inconclusive(accuracy: Any, n_draws: int, tolerance: float, evidence: float) -> str:
    """Why neither answer was reached."""
    return (
        f"after {n_draws} draws not every error is within {tolerance:g} and the evidence against the sampler "
        f"is an e-value of {evidence:.3g}; raise `max_draws` or `tolerance`. The errors:\n{accuracy}"
    )
