"""What the user of a quadratic test should know, in sentences."""

from __future__ import annotations


def repeated_draws(n_repeats: int, n: int) -> str:
    """Draws that are given as independent, but repeat others."""
    return (
        f"{n_repeats} of {n} draws repeat others exactly, as those of Markov chains do: identical draws are "
        "put into one block, unless `bootstrap` is a function"
    )


def few_draws(n: int, minimum: int) -> str:
    """A bootstrap of few draws."""
    return (
        f"only {n} draws are tested: below {minimum} their bootstrap rejects correct samples too often; "
        "without `bootstrap` signs are flipped instead"
    )


def one_mode() -> str:
    """A perturbation that does nothing."""
    return "only one mode is known: the perturbation leaves every draw where it is"


def low_acceptance(least: float) -> str:
    """Jumps that are hardly ever accepted."""
    return (
        f"fewer than {least:.0%} of the jumps are accepted at every theta: the perturbation hardly moves the "
        "draws; the modes may be wrong or far from elliptic, or more steps are needed"
    )


def far_origin() -> str:
    """Maps between modes that depend on an origin which is far from all of them."""
    return (
        "the modes have different covariances and lie far from the origin: jumps with theta other than 1 "
        "miss them; centre the draws and shift the target accordingly"
    )
