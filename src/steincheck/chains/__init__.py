"""Dependent draws: autocorrelation time, effective sample size, blocks, and what is wrong with the chains."""

from .blocks import Blocks, autocorrelation_time, cut_blocks
from .diagnostics import Convergence, convergence
from .order import Dependence, looks_dependent
from .permutation import agreement

__all__ = [
    "Blocks",
    "Convergence",
    "Dependence",
    "agreement",
    "autocorrelation_time",
    "convergence",
    "cut_blocks",
    "looks_dependent",
]


def __dir__() -> list[str]:
    return __all__
