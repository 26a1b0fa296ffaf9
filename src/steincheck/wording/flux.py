"""What the flux test says about mode weights, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._validation import listed

if TYPE_CHECKING:
    from ..result import FluxResult, ImportanceWeights, ModeTable

NEW_CHAINS = "start chains in every mode, or use a sampler that moves between modes"


def weight_reason(result: FluxResult) -> str:
    """Why the flux test cannot tell, and what would help; empty if it can."""
    if result.inconclusive_reason in ("stuck chains", "few changes"):
        return _reason_of_chains(result)
    apart = [] if result.mode_table is None else np.flatnonzero(np.isnan(result.mode_table.implied)).tolist()
    texts = {
        None: "",
        "nothing moves": "the mode weights could not be compared: no draw can be mapped to another mode with "
        "appreciable probability; check that the modes are those of the draws, or give `flux_test` more "
        "`anchors` per mode",
        "no exchange": f"hardly any draw can be mapped between modes {listed(apart, 10)} and the others, "
        "whose weights were not compared; give `flux_test` more `anchors` per mode",
        "light modes": "all modes but one hold less than 1 % of the draws and of the density",
    }
    return texts[result.inconclusive_reason]


def _reason_of_chains(result: FluxResult) -> str:
    chains, table = result.chains, result.mode_table
    if chains is None or table is None:
        return "the chains move along the displacements between modes too rarely to compare the flows"
    if result.inconclusive_reason == "stuck chains":
        everywhere = bool(np.all(table.n_draws[table.implied > 0.01] > 0))
        remedy = "reweight the draws by the implied shares" if everywhere else NEW_CHAINS
        return f"the chains never change mode: shares of modes are those of the starting points; {remedy}"
    return (
        f"the chains change mode too rarely to compare the weights ({chains.n_changes} changes in all, "
        f"{chains.sojourns.min()} sojourns at the mode visited least): run them longer, or {NEW_CHAINS}"
    )


def few_moving(share: float) -> str:
    """A warning that most draws contribute nothing."""
    return (
        f"only {share:.0%} of the draws can be mapped to another mode; the others contribute nothing: "
        "modes are far from elliptic (`flux_test` takes more `anchors`), or draws belong to unknown modes"
    )


def close_modes(pairs: Sequence[tuple[int, int]]) -> str:
    """A warning that modes overlap."""
    which = listed([f"{i} and {j}" for i, j in pairs], 3)
    return f"modes {which} are closer than they are wide: their shares are not meaningful"


def moved_by_displacements() -> str:
    """A warning that no modes were compared."""
    return "the modes are part of a larger lattice: draws were moved by its displacements, not between modes"


def wrong_share(table: ModeTable, k: int, where: str) -> str:
    """The share of a mode beside that of the density."""
    low, high = table.implied_interval[k]
    nearly = " is nearly missing" if table.observed[k] < 0.1 * low else ""
    state = " is missing" if table.n_draws[k] == 0 else nearly
    more = "fewer" if table.words[k] == "too many draws" else "more"
    says = more if np.isnan(low) else f"{table.implied[k]:.1%} ({low:.1%} to {high:.1%})"
    return f"Mode {k} ({where}){state}: {table.observed[k]:.1%} of the draws, but the density implies {says}"


def wrong_weights(trend: str = "") -> str:
    """No mode stands out; a `trend` is, for instance, "large height"."""
    text = "The mode weights are wrong, though no mode by itself stands out"
    return f"{text}: too many draws at modes with a {trend}" if trend else text


def more_wrong_shares(count: int) -> str:
    """Modes that are not named one by one."""
    return f"And {count} more modes have wrong shares"


def wrong_flow(steps: Sequence[tuple[str, float]]) -> str:
    """The displacement of a lattice along which the flow is farthest from balance."""
    direction = ", ".join(f"{name} {step:+.3g}" for name, step in steps)
    return f"The mode weights are wrong: too little mass in direction ({direction})"


def weight_context(result: FluxResult) -> list[str]:
    """What shares of missing modes rest on."""
    table = result.mode_table
    if table is None or not np.isfinite(table.implied[list(table.missing)]).any():
        return []
    return [
        "The share of a mode without draws is that of the density near draws mapped there: if its tails "
        "are heavier than those of the other modes, it is larger, and its interval is too short."
    ]


def share_context(repair: ImportanceWeights | None, *, shape_is_wrong: bool) -> list[str]:
    """Where mode weights are wrong: what `repair` would make of the draws, what the shares rest on."""
    sentences = []
    if repair is not None:
        sentences.append(
            "Importance weights, verdict.importance_weights, give the modes the shares of the density; the "
            f"effective sample size is then about {repair.effective_sample_size:.0f}."
        )
    if shape_is_wrong:
        sentences.append(
            "The shares that the density implies hold for draws of the right shape within modes, which these "
            "are not: small differences between shares may come from that."
        )
    return sentences
