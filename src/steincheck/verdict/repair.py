"""The mode of every draw, and weights that give the modes the shares of the density."""

from __future__ import annotations

import numpy as np

from ..chains.reading import Sample
from ..flux import importance_weights
from ..flux.anchors import mode_anchors
from ..flux.orbits import time_within_modes
from ..result import FluxResult, ImportanceWeights, Modes, ModeTable

MIN_DRAWS_TO_WEIGHT = 20  # at every mode, before weights are offered


def mode_of_every_draw(x: np.ndarray, known: Modes, weights: FluxResult | None) -> np.ndarray | None:
    """The mode of each draw by the flux test; those held out belong to the nearest one."""
    if weights is None or weights.mode_of_draw is None:
        return None
    mode = weights.mode_of_draw.copy()
    held = np.flatnonzero(mode < 0)
    if len(held):
        mode[held] = mode_anchors(known).largest(x[held])
    return mode


def importance_weights_of(
    sample: Sample, table: ModeTable | None, mode: np.ndarray | None
) -> ImportanceWeights | None:
    """Importance weights of all draws; None where a mode has too few draws or its weight is unknown."""
    if table is None or mode is None or np.isnan(table.implied).any():
        return None
    heavy = table.implied > 0.01
    if np.any(table.n_draws[heavy] < MIN_DRAWS_TO_WEIGHT):
        return None
    tau = 1.0 if sample.chain is None else time_within_modes(sample.x, sample.log_p, mode, sample.chain)
    return importance_weights(table, mode, tau)
