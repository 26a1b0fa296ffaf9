"""Draws as a test takes them: read, evaluated once, and known as Markov chains or as independent draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._validation import check_switch
from ..draws import Draws, to_unconstrained
from ..target import Target, log_density_at
from .order import chain_faults, looks_dependent_core


class Sample(NamedTuple):
    """Draws of a test."""

    x: np.ndarray  #: (n, d)
    log_p: np.ndarray  #: (n,) log density at the draws
    chain: np.ndarray | None  #: (n,) chain of each draw, 0, 1, ... in order; None for independent draws
    warnings: list[str]  #: what the user should know


def read_sample(draws: Any, target: Target, *, independent: bool = False, minimum: int = 2) -> Sample:
    """Read draws in any form and find out whether they are chains.

    Draws that come with chains are chains; an array (n, d) whose order shows autocorrelation is one chain.
    With `independent` neither is.
    """
    check_switch(independent, "independent")
    read = to_unconstrained(draws, target, minimum=minimum)
    log_p = log_density_at(target, read.values)
    warnings = list(read.warnings)
    chain = chain_of_draws(read, log_p, target.names, independent, warnings)
    if chain is not None:
        warnings.extend(chain_faults(read.values, chain, target.names))
    return Sample(read.values, log_p, chain, warnings)


def chain_of_draws(
    sample: Draws, log_p: np.ndarray, names: Sequence[str] | None, independent: bool, warnings: list[str]
) -> np.ndarray | None:
    """The chain (n,) of each draw, None for independent draws; a chain that was not declared is warned of."""
    if independent:
        return None
    if sample.chain is not None:
        return sample.chain
    found = looks_dependent_core(sample.values, log_p, names)
    if found is None:
        return None
    remedy = "if they are independent, shuffle them or give `independent=True`"
    if found.lag > 1:
        remedy = f"no p-value is valid for one chain where {found.interleaving}"
    warnings.append(f"{found}: they were tested as one chain; {remedy}")
    return np.zeros(len(sample.values), dtype=int)
