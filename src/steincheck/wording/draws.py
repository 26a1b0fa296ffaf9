"""What draws, their order and the density at them say, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._validation import listed

if TYPE_CHECKING:
    from ..chains.reading import OrderFacts, Sample
    from ..target import Discontinuity


# --- how draws and models were read ---


def doubtful_axes(n_chains: int, length: int, *, swapped: bool) -> str:
    """Chains and draws may be the other way round; `swapped` if correlations say so."""
    seen = "only draws of successive chains are" if swapped else "successive draws are not"
    remedy = "if its axes are (draw, chain, ...), swap the first two"
    return f"`draws` was read as {n_chains} chains of {length} draws, but {seen} correlated: {remedy}"


def parameters_as_coordinates(name: str, parameters: Sequence[str], gain: float) -> str:
    """Draws that were read as coordinates fit far better as values of the parameters."""
    better = f"if it holds {listed(parameters)} itself, the median log density is {gain:.3g} larger"
    remedy = "give the parameters by name, or map them by `target.unconstrain` first"
    return f"`{name}` was read in the unconstrained coordinates of the target, but {better}: {remedy}"


# --- their order, and chains ---


def order_warnings(order: OrderFacts, names: Sequence[str]) -> list[str]:
    """What every test says of the order of the draws: autocorrelated as they came, stuck, equal."""
    texts = []
    if order.dependence is not None and order.dependence.interleaved:
        texts.append(interleaved_chains(order.dependence.lag))
    elif order.dependence is not None:
        lag, correlation, series, _ = order.dependence
        which = "successive draws" if lag == 1 else f"draws {lag} apart"
        seen = f"{correlation:.2f} in {names[series] if isinstance(series, int) else f'the {series}'}"
        remedy = "if they are independent, shuffle them or give `independent=True`"
        texts.append(f"{which} are correlated ({seen}): they were tested as one chain; {remedy}")
    remedy = "fix the sampler; running it longer will not help"
    for chain, first, last in order.stuck:
        texts.append(f"chain {chain} is stuck from draw {first} to draw {last}: {remedy}")
    return texts + [equal_chains(*fact) for fact in order.equal]


def equal_chains(one: int, two: int, n_equal: int, length: int) -> str:
    """Two chains that are the same."""
    return f"chains {one} and {two} are the same in {n_equal} of {length} draws: was one seed used twice?"


def interleaved_chains(lag: int) -> str:
    """Why draws whose autocorrelation is largest at a lag of more than 1 have no valid p-value."""
    seen = f"draws {lag} apart are correlated, successive draws are not"
    return f"{lag} chains seem to be interleaved ({seen}): give them in shape (chain, draw, d)"


def copies(n_copies: int, n: int, point: np.ndarray, n_equal: int) -> str:
    """Independent draws of which some are identical, with the point at which most are."""
    place = np.array2string(point, precision=4, threshold=8)
    most = f"; {n_equal} of them are at {place}: were they clipped or padded?" if n_equal > 10 else ""
    return f"{n_copies} of {n} draws repeat others exactly: identical draws count as one block{most}"


def order_reasons(order: OrderFacts) -> list[tuple[str, str]]:
    """Why no p-value of draws in this order would be valid, each with its remedy."""
    reasons = [(equal_chains(*fact), "run every chain with a seed of its own") for fact in order.equal]
    if order.dependence is not None and order.dependence.interleaved:
        remedy = "give the chains in shape (chain, draw, d)"
        reasons.append((interleaved_chains(order.dependence.lag), remedy))
    return reasons


def too_few_blocks(n: int, n_chains: int, tau: float, times_longer: float, *, stuck: bool) -> str:
    """What to do where there are too few blocks."""
    if stuck:
        return "a chain is stuck: fix the sampler; running it longer will not help"
    if np.isinf(times_longer):
        return "the chains differ too much in length: run them all to the length of the longest one"
    size = f"{n / tau:.0f} (autocorrelation time {tau:.3g}), and about {n / tau * times_longer:.0f} is needed"
    run = f"run the {'chain' if n_chains == 1 else 'chains'} about {times_longer:.2g} times as long"
    return f"the effective sample size of the {n} draws is about {size}: {run}"


def draws_context(sample: Sample, mixing: np.ndarray) -> str:
    """How the draws were treated; of chains the bulk ESS, tail ESS and R-hat (3, k) of their parameters."""
    n, chain = len(sample.x), sample.chain
    worth = ""
    if sample.weight is not None or sample.group is not None:
        weights = "the groups of identical draws" if sample.weight is None else "their weights"
        worth = f" Kish's effective sample size of {weights} is {sample.effective_size:.0f}."
    if chain is None:
        return f"The draws were tested as independent.{worth}"
    chains = "one chain" if chain[-1] == 0 else f"{chain[-1] + 1} chains"
    treated = f"The {n} draws were tested as {chains}: H0 is that they are stationary at the density.{worth}"
    if not np.isfinite(mixing).all():  # chains of a few draws have none
        return treated
    sizes = f"bulk ESS is at least {mixing[0].min():.0f}, tail ESS {mixing[1].min():.0f}"
    return f"{treated} Over all coordinates {sizes}, R-hat at most {mixing[2].max():.3f}."


# --- the density at the draws ---


NO_SCORE = "the target has no score: finite differences of its log density are used"


def discontinuity_warning(gap: Discontinuity) -> str:
    """Where a density is discontinuous, and what that does to Stein tests."""
    where = np.array2string(gap.x, precision=4, threshold=8)
    what, need, remedy = discontinuity_words(gap)
    effect = f"Stein tests need {need}, and correct draws may be rejected and wrong ones accepted"
    return f"the density {what} near x = {where}: {effect}; {remedy}"


def discontinuity_words(gap: Discontinuity) -> tuple[str, str, str]:
    """What the density does there, what tests of the shape need instead, and how to get it."""
    transform = "transform the parameters to unconstrained space, as steincheck.unbounded does"
    if gap.kind == "jump":
        jump = f"jumps by a factor of {np.exp(gap.drop):.3g}"
        return jump, "a continuous one", "check the parts on either side separately"
    if gap.kind == "edge":
        return "ends abruptly", "one that vanishes at its edge", transform
    slow = f"vanishes at its edge only about as the distance to the power {gap.exponent:.2g}"
    return slow, "a power of at least 2", transform
