"""What to do about a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .numbers import list_text

SHARE_KINDS = {"missing mode", "mode share", "flow"}


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is known about the draws and their misfit when advice is given.

    Attributes
    ----------
    kinds : frozenset of str
        The kinds of the findings.
    chains, from_model : bool
        The draws are Markov chains; the target was made from a model by an adapter.
    few : bool
        Nothing is wrong but that the draws are too few.
    reweightable, stuck, relabelled : bool
        Every mode has draws, so that weights can correct the shares; there are chains at every mode, which
        hardly ever leave it; modes differ by the labels of components alone.
    warm_up, misread : bool, sequence of str
        The beginnings of the chains are what is wrong; parameters that the draws may hold on another scale.
    locations : str
        The expression that gives the mode locations in the user's parameters.
    """

    kinds: frozenset[str]
    chains: bool
    from_model: bool = False
    few: bool = False
    reweightable: bool = False
    stuck: bool = False
    relabelled: bool = False
    warm_up: bool = False
    misread: Sequence[str] = ()
    locations: str = "verdict.modes.locations"


def advice(fits: bool | None, situation: Situation) -> tuple[str, ...]:
    """Steps that follow from the answer, the most urgent first."""
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
    steps += _about_shares(situation)
    by_shares = bool(situation.kinds & SHARE_KINDS)
    if "shape" in situation.kinds or (situation.kinds & {"mean", "sd"} and not by_shares):
        steps += [] if situation.warm_up else [_about_numbers(situation)]
    if "impossible draws" in situation.kinds and not situation.warm_up:
        steps.append("inspect the draws named above: a few wrong ones can spoil means and sds")
    if "chains" in situation.kinds and not situation.warm_up:
        steps.append("look at the trace of the chain named above, and at where it started")
    if situation.few or not steps:
        again = "run the chains longer" if situation.chains else "take more draws"
        steps.append(f"{again}, then check again")
    return tuple(steps)


def _about_shares(situation: Situation) -> list[str]:
    """To correct the shares of the modes."""
    if not situation.kinds & SHARE_KINDS and not situation.stuck:
        return []
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


def _about_numbers(situation: Situation) -> str:
    """To correct means, standard deviations and shapes."""
    if situation.chains:
        return (
            "do not use these chains: moves that leave the density invariant carry their draws elsewhere; "
            "look at step size, divergences and warm-up, and run them longer"
        )
    check = "" if situation.from_model else "; otherwise compare the density that was sampled with this one"
    return "if the draws come from an approximation, use a richer family (full rank, a flow) or MCMC" + check
