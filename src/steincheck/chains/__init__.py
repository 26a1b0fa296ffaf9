"""Dependent draws: autocorrelation time, effective sample size, blocks, and what is wrong with the chains."""

from .blocks import (
    Blocks,
    autocorrelation_time,
    autocovariance,
    block_signs,
    block_standard_error,
    block_sums,
    cut_blocks,
)
from .diagnostics import Convergence, convergence
from .order import (
    Dependence,
    chain_faults,
    invalidating_faults,
    lattice_step,
    looks_dependent,
    standing_chains,
)
from .permutation import Agreement, agreement
from .reading import Sample, chain_of_draws, read_sample

__all__ = [
    "Agreement",
    "Blocks",
    "Convergence",
    "Dependence",
    "Sample",
    "agreement",
    "autocorrelation_time",
    "autocovariance",
    "block_signs",
    "block_standard_error",
    "block_sums",
    "chain_faults",
    "chain_of_draws",
    "convergence",
    "cut_blocks",
    "invalidating_faults",
    "lattice_step",
    "looks_dependent",
    "read_sample",
    "standing_chains",
]
