"""Dependent draws: autocorrelation time, effective sample size, blocks, and what is wrong with the chains."""

from .agreement import Agreement, agreement
from .blocks import Blocks, autocorrelation_time, autocovariance, block_signs, block_sums, cut_blocks
from .convergence import Convergence, convergence
from .order import Dependence, chain_faults, looks_dependent, repeated_draws

__all__ = [
    "Agreement",
    "Blocks",
    "Convergence",
    "Dependence",
    "agreement",
    "autocorrelation_time",
    "autocovariance",
    "block_signs",
    "block_sums",
    "chain_faults",
    "convergence",
    "cut_blocks",
    "looks_dependent",
    "repeated_draws",
]
