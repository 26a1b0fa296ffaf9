"""Draws as a test takes them: read, evaluated once, and known as Markov chains or as independent draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._validation import as_numbers, check_switch, shown
from ..draws import Draws, to_unconstrained
from ..draws.record import chain_of_rows
from ..target import Target, log_density_at
from ..wording import chains as wording
from .order import OrderFacts, find_dependence, order_facts


class Sample(NamedTuple):
    """Draws and what is evaluated at them, once."""

    x: np.ndarray  #: (n, d)
    log_p: np.ndarray  #: (n,) log density at the draws
    chain: np.ndarray | None = None  #: (n,) chain of each draw, 0, 1, ...; None for independent draws
    scores: np.ndarray = np.empty((0, 0))  #: (n, d) scores at the draws; empty until they are asked for
    order: OrderFacts = OrderFacts()  #: what the order of all draws shows
    warnings: tuple[str, ...] = ()  #: what the user should know

    def rows(self, index: np.ndarray) -> Sample:
        """Some of the draws, their chains numbered anew."""
        scores = self.scores[index] if len(self.scores) else self.scores
        chain = chain_of_rows(self.chain, index)
        return self._replace(x=self.x[index], log_p=self.log_p[index], chain=chain, scores=scores)


def read_sample(draws: Any, target: Target, *, independent: bool = False, minimum: int = 2) -> Sample:
    """Read draws in any form and find out whether they are chains."""
    check_switch(independent, "independent")
    return evaluate_sample(to_unconstrained(draws, target, minimum=minimum), target, independent=independent)


def evaluate_sample(read: Draws, target: Target, *, independent: bool, known: Any = None) -> Sample:
    """Evaluate the log density at draws, once, and find out whether they are chains.

    Draws that come with chains are chains; an array (n, d) whose order shows autocorrelation is one chain.
    With `independent` neither is. Log densities (n,) that are `known` are not evaluated.
    """
    x = read.values
    log_p = log_density_at(target, x) if known is None else _verified_log_density(known, target, x)
    chain = None if independent else read.chain
    dependence = None
    if chain is None and not independent:
        dependence = find_dependence(x, log_p)
    if dependence is not None:
        chain = np.zeros(len(x), dtype=int)
    order = order_facts(x, chain, dependence)
    warnings = (*read.warnings, *_order_warnings(order, target.coordinate_names))
    return Sample(x, log_p, chain, order=order, warnings=warnings)


def _verified_log_density(known: Any, target: Target, x: np.ndarray) -> np.ndarray:
    """Known log densities, shifted by the constant in which they differ from the target's at five draws."""
    values = as_numbers(known, "log_density").ravel()
    if values.shape != (len(x),) or not np.isfinite(values).all():
        raise ValueError(f"`log_density` must be a finite number per draw, {len(x)}, got {shown(known)}")
    rows = np.linspace(0, len(x) - 1, 5).astype(int)
    gap = log_density_at(target, x[rows]) - values[rows]
    if np.ptp(gap) > 1e-3 * (1 + np.ptp(values)):
        raise ValueError(
            "`log_density` must be that of the target up to a constant (in its coordinates, with the "
            f"Jacobian), but at rows {rows.tolist()} it is off by {np.round(gap, 3).tolist()}"
        )
    return values + float(np.median(gap))


def _order_warnings(order: OrderFacts, names: Sequence[str]) -> list[str]:
    """What every test says of the order of the draws; repeats are reported where they matter."""
    stuck = [wording.stuck_chain(*fact) for fact in order.stuck]
    equal = [wording.equal_chains(*fact) for fact in order.equal]
    if order.dependence is None:
        return stuck + equal
    lag, correlation, series, interleaved = order.dependence
    if interleaved:
        return [wording.interleaved_chains(lag), *stuck, *equal]
    label = names[series] if isinstance(series, int) else f"the {series}"
    return [wording.tested_as_one_chain(lag, correlation, label), *stuck, *equal]
