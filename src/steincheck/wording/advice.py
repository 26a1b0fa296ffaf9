"""What to do about a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .numbers import list_text

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
