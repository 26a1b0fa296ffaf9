"""What to do about a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from ..result import Finding

WEIGHTS = {"missing mode", "mode share", "trend", "flow"}
SPREADS = {"scale", "overall scale", "correlation"}
SHAPES = {"skewness", "tails", "extremes", "radius", "radius spread", "shape"}


def advice(
    fits: bool | None, findings: Sequence[Finding], *, chains: bool, weighable: bool, locations: str
) -> tuple[str, ...]:
    """Steps that follow from the answer, the most urgent first.

    Parameters
    ----------
    fits : bool or None
        The answer.
    findings : sequence of Finding
        What is wrong.
    chains : bool
        The draws are Markov chains.
    weighable : bool
        Every mode has draws, so that weights can mend the shares.
    locations : str
        The expression that gives the mode locations in the user's parameters.
    """
    if fits:
        return ()
    kinds = {finding.kind for finding in findings}
    steps = []
    if kinds & WEIGHTS:
        steps += _about_weights(chains, weighable, locations)
    if "chains" in kinds:
        steps.append(
            "look at the trace of the chain that is named: more warm-up helps a chain that has not yet "
            "converged, more draws do not"
        )
    if "impossible draws" in kinds:
        steps.append("look at the rows that are named: a few wrong draws can make everything else look wrong")
    if kinds & SPREADS or "location" in kinds:
        steps.append(_about_moments(chains, kinds))
    if kinds & SHAPES:
        steps.append(
            "see `steincheck.plot.pairs` for where draws and density differ; a transformation of the "
            "parameters or a richer approximation may be needed"
        )
    return tuple(steps)


def _about_weights(chains: bool, weighable: bool, locations: str) -> list[str]:
    """To mend the shares of the modes."""
    steps = []
    if weighable:
        steps.append(
            "weight the draws: `verdict.mode_weights` are importance weights that give the modes their shares"
        )
    again = "start chains at every mode" if chains else "sample again from every mode"
    steps.append(f"{again} (`{locations}`), then check again")
    return steps


def _about_moments(chains: bool, kinds: set[str]) -> str:
    if chains:
        return (
            "the chains do not have the density as their distribution: check the log density that the "
            "sampler saw, its step size and divergences, and its warm-up"
        )
    if kinds & SPREADS:
        return (
            "if the draws come from variational inference, use a family with correlations (full rank, a "
            "flow) or MCMC; otherwise check the scale of the proposal and of the parameters"
        )
    return "check the density that the sampler saw: constants such as priors and Jacobians move means"
