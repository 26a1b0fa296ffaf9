"""What the flux test says about mode weights, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._validation import listed

if TYPE_CHECKING:
    from ..result import FluxResult

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
    return f"modes {which} overlap: their shares depend on where the line between them is drawn"


def moved_by_displacements() -> str:
    """A warning that no modes were compared."""
    return "the modes are part of a larger lattice: draws were moved by its displacements, not between modes"
