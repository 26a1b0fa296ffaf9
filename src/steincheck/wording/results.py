"""What a single test says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .numbers import pvalue_text

if TYPE_CHECKING:
    from ..result import ChainBlocks, ChainWeights, GofResult


def cannot_tell(reason: str) -> str:
    """The warning of a test without a p-value."""
    return f"cannot tell: {reason}"


def result_sentence(result: GofResult, alpha: float) -> str:
    """The answer of a test at a level, with its numbers."""
    p = pvalue_text(result.pvalue, smallest=result.at_floor)
    statistic = "" if np.isnan(result.statistic) else f"statistic = {result.statistic:.4g}, "
    n = f"n = {result.n}" if result.tested_rows is None else f"n = {result.n}, {result.n_tested} tested"
    answer = "misfit found" if result.reject(alpha) else "no misfit found"
    if result.inconclusive(alpha):
        answer = "cannot tell"
    return f"{answer} at level {alpha:g} (p {p}, {statistic}{n}, d = {result.dim})"


def floor_remark(floor: float, alpha: float) -> str:
    """A level that the replicates of a test cannot reach."""
    return f"The smallest attainable p-value is {floor:.2g}, above the level {alpha:g}."


def blocks_text(blocks: ChainBlocks) -> str:
    """How chains were cut into blocks."""
    chains = "one chain" if blocks.n_chains == 1 else f"{blocks.n_chains} chains"
    return (
        f"tested as {chains}, effective sample size about {blocks.effective_sample_size:.0f} "
        f"(autocorrelation time {blocks.autocorrelation_time:.3g}, {blocks.n_blocks} blocks)"
    )


def changes_text(chains: ChainWeights) -> str:
    """How often chains change mode."""
    count = "one chain" if chains.n_chains == 1 else f"{chains.n_chains} chains"
    changes = "1 mode change" if chains.n_changes == 1 else f"{chains.n_changes or 'no'} mode changes"
    return f"{count} with {changes} in all"
