"""Draws as a test takes them: read, evaluated once, and known as Markov chains or as independent draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._validation import check_switch
from ..draws import Draws, to_unconstrained
from ..target import Target, log_density_at
from .order import Dependence, chain_faults, looks_dependent_core


class Sample(NamedTuple):
    """Draws of a test."""

    x: np.ndarray  #: (n, d)
    log_p: np.ndarray  #: (n,) log density at the draws
    chain: np.ndarray | None  #: (n,) chain of each draw, 0, 1, ... in order; None for independent draws
    warnings: list[str]  #: what the user should know
    faults: list[str]  #: those of them about chains that are stuck or the same
    dependence: Dependence | None  #: why draws that were given without chains are taken for one


def read_sample(draws: Any, target: Target, *, independent: bool = False, minimum: int = 2) -> Sample:
    """Read draws in any form and find out whether they are chains."""
    check_switch(independent, "independent")
    return evaluate_sample(to_unconstrained(draws, target, minimum=minimum), target, independent=independent)


def evaluate_sample(read: Draws, target: Target, *, independent: bool) -> Sample:
    """Evaluate the log density at draws, once, and find out whether they are chains.

    Draws that come with chains are chains; an array (n, d) whose order shows autocorrelation is one chain.
    With `independent` neither is.
    """
    x = read.values
    log_p = log_density_at(target, x)
    warnings = list(read.warnings)
    chain = None if independent else read.chain
    dependence = None
    if chain is None and not independent:
        dependence = looks_dependent_core(x, log_p, target.names)
    if dependence is not None:
        warnings.append(_tested_as_one_chain(dependence))
        chain = np.zeros(len(x), dtype=int)
    faults = [] if chain is None else chain_faults(x, chain, target.names)
    return Sample(x, log_p, chain, warnings + faults, faults, dependence)


def _tested_as_one_chain(dependence: Dependence) -> str:
    """A chain that was not declared is warned of."""
    remedy = "if they are independent, shuffle them or give `independent=True`"
    if dependence.lag > 1:
        remedy = f"no p-value is valid for one chain where {dependence.interleaving}"
    return f"{dependence}: they were tested as one chain; {remedy}"
