"""Warnings of the aggregated tests and of the finite-set test."""

from __future__ import annotations

UNSEEN_DRAWS = "all locations are too far from the draws to see any of them"


def few_tested_draws(n: int, least: int) -> str:
    """So few draws that the limiting distribution is far off."""
    return f"only {n} draws are tested: below {least} correct samples are rejected too often"


def other_units(smallest: float, largest: float) -> str:
    """Standard deviations for which KSDAgg's published bandwidths are not made."""
    return (
        "the default bandwidths are made for draws of unit scale, these have standard deviations from "
        f"{smallest:.2g} to {largest:.2g}: give `precondition`, as the covariance matrix at "
        'a mode, or bandwidths="paper"'
    )
