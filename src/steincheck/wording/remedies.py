"""What to do about a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ..result import Finding
from .chains import words_listed
from .moments import SHAPE_KINDS

WEIGHT_KINDS = {"missing mode", "mode share", "trend", "flow"}
SPREAD_KINDS = {"scale", "overall scale", "correlation"}
RIVAL_EFFECT = 0.5  # of the largest effect, from which on the other is advised about too


def advice(
    fits: bool | None,
    findings: Sequence[Finding],
    *,
    chains: bool,
    weighable: bool,
    locations: str,
    stuck: bool = False,
    relabelled: bool = False,
    warm_up: bool = False,
    unreached: bool = False,
    misread: Sequence[str] = (),
    scales: Mapping[str, str] = MappingProxyType({}),
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
        Every mode has draws, so weights can correct the shares.
    locations : str
        The expression that gives the mode locations in the user's parameters.
    stuck : bool
        There are chains at every mode, and they hardly ever leave it.
    relabelled : bool
        Modes are carried upon each other by relabelling components of the model.
    warm_up : bool
        The beginnings of the chains are what is wrong.
    unreached : bool
        Most draws are where the density is negligible.
    misread : sequence of str
        Parameters of which the draws may be values, though they were read as coordinates.
    scales : mapping of str to str
        Per parameter the scale, "log" or "logit", on which the target has it, if not its own.
    """
    if fits:
        return ()
    kinds = {finding.kind for finding in findings}
    steps = _about_reading(misread)
    if kinds & WEIGHT_KINDS:
        steps += _about_labels() if relabelled else []
        steps += _about_weights(chains, weighable, stuck, locations)
    if warm_up:
        steps.append("discard the warm-up: leave out the first draws of every chain, then check again")
    elif "chains" in kinds:
        steps.append(
            "inspect the trace of the chain named above: more warm-up helps a chain that has not yet "
            "converged, more draws do not"
        )
    if unreached:
        steps.append(_about_mass(chains, locations))
    elif "impossible draws" in kinds and not warm_up:
        steps.append("inspect the draws named above: a few wrong ones can make everything else look wrong")
    if kinds & SPREAD_KINDS or "location" in kinds:
        steps += _about_moments(chains, findings, scales)
    if kinds & {*SHAPE_KINDS, "shape"}:
        steps.append(
            "see where draws and density differ, in a report or by `steincheck.plot.pairs`; a transformation "
            "of the parameters or a richer approximation may be needed"
        )
    return tuple(steps)


def _about_reading(misread: Sequence[str]) -> list[str]:
    """Where draws that were read as coordinates of the target may be values of its parameters."""
    if not misread:
        return []
    return [
        f"if the draws hold {words_listed(misread)} on the original scale, give them by name, or map them by "
        "`target.unconstrain` first: without names they are read in the coordinates of the target"
    ]


def _about_mass(chains: bool, locations: str) -> str:
    """Where hardly any draw is near the mass of the density."""
    if chains:
        return (
            "the chains have not reached the mass of the density: start them nearer to a mode "
            f"(locations: `{locations}`) or run them longer, and discard the warm-up"
        )
    return (
        "hardly any draw is where the density has its mass: compare the order, the units and the scale of "
        "the parameters with those of the density"
    )


def _about_labels() -> list[str]:
    """Where modes differ by the labels of components alone, their shares need not matter."""
    return [
        "decide whether the shares matter: some modes differ by the labels of components alone (label "
        "switching), and quantities that do not depend on the labels do not depend on their shares; to "
        "report single components, order or relabel those of every draw first"
    ]


def _about_weights(chains: bool, weighable: bool, stuck: bool, locations: str) -> list[str]:
    """To correct the shares of the modes."""
    steps = []
    if weighable:
        steps.append("weight the draws: `verdict.importance_weights` restore the mode shares of the density")
    if stuck:
        steps.append(
            "use a sampler that moves between modes, such as tempering: there are chains in every mode "
            "already, and the shares are those of the starting points"
        )
        return steps
    again = "start chains in every mode" if chains else "sample again from every mode"
    steps.append(f"{again} (locations: `{locations}`), then check again")
    return steps


def _about_moments(chains: bool, findings: Sequence[Finding], scales: Mapping[str, str]) -> list[str]:
    """To correct means, spreads and correlations: what follows from the largest effects."""
    shift = _largest(findings, {"location"})
    spread = _largest(findings, SPREAD_KINDS)
    steps = []
    if shift >= spread:
        steps += _about_jacobians(findings, scales)
    if chains:
        steps.append(
            "the chains do not have the density as their distribution: check the log density that the "
            "sampler used, its step size and divergences, and its warm-up"
        )
        return steps
    if shift >= RIVAL_EFFECT * spread and not steps:
        steps.append(
            "check the density that the sampler used: omitted or altered priors and Jacobians shift means"
        )
    if spread >= RIVAL_EFFECT * shift:
        advised = (
            "if the draws come from variational inference, use a family with correlations (full rank, a "
            "flow) or MCMC; otherwise check the scale of the proposal and of the parameters"
        )
        steps.insert(0 if spread > shift else len(steps), advised)
    return steps


def size_of_effect(kind: str, estimate: float) -> float:
    """How large a misfit is: in standard deviations, as the logarithm of a factor; 0 for what has no size."""
    if np.isnan(estimate):
        return 0.0
    if kind in ("scale", "overall scale"):
        return float(abs(np.log(estimate))) if estimate > 0 else np.inf
    return abs(estimate) if kind in ("location", "correlation") else 0.0


def _largest(findings: Sequence[Finding], kinds: set[str]) -> float:
    """The largest effect of these kinds; -1 if there is none of them."""
    sizes = [size_of_effect(finding.kind, finding.estimate) for finding in findings if finding.kind in kinds]
    return max(sizes, default=-1.0)


def _about_jacobians(findings: Sequence[Finding], scales: Mapping[str, str]) -> list[str]:
    """Where the mean of a transformed parameter is what is most wrong: is its Jacobian in the density?"""
    moved = [finding for finding in findings if finding.kind == "location"]
    largest = max(moved, key=lambda finding: size_of_effect("location", finding.estimate))
    named = [name for name in largest.parameters if scales.get(name)]
    if not named:
        return []
    name = named[0]
    term = f"log {name}" if scales[name] == "log" else f"log {name} + log(1 - {name})"
    return [
        f"check the Jacobian: the target has {name} on the {scales[name]} scale, where the log density must "
        f"contain + {term} (one made by `unbounded` or from a model does), or the mean is shifted; and check "
        "that the sampler used the same priors"
    ]
