"""The case of a verdict: draws evaluated once, the modes of the density, and what is collected on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..chains.diagnostics import Convergence, convergence_core
from ..chains.order import invalidating_faults, rounding_step
from ..chains.reading import evaluate_sample
from ..draws import Draws
from ..draws.record import chain_of_rows
from ..modes.arguments import as_modes
from ..modes.held_out import climb_from_draws, hold_out, rounded_location, search_from_draws
from ..modes.search import no_mode_reason
from ..result import Modes
from ..target import Target, score_at, score_warnings
from ..target.counting import Budget
from ..wording import chain_context, mixing_warnings, mode_description
from ..wording.modes import symmetry_words

MAX_ROUNDING_STEP = 0.1  # standard deviations between neighbouring values of rounded draws
MAX_UNKNOWN_SHARE = 0.1  # of the draws at unknown modes, beyond which a non-rejection is inconclusive
MAX_SECONDS_OF_CLIMBS = 10.0  # from draws to unknown modes, of which there are only warnings


class Case(NamedTuple):
    """Draws and what is evaluated at them, once."""

    x: np.ndarray  # (n, d)
    log_p: np.ndarray  # (n,)
    scores: np.ndarray  # (n, d)
    chain: np.ndarray | None  # (n,) chain of each draw, 0, 1, ...; None for independent draws
    convergence: Convergence | None = None  # ESS and R-hat of all draws; None for independent draws

    def rows(self, index: np.ndarray) -> Case:
        """Some of the draws, their chains numbered anew."""
        chain = chain_of_rows(self.chain, index)
        return Case(self.x[index], self.log_p[index], self.scores[index], chain)


class SearchLimits(NamedTuple):
    """Of the mode search, as in `check`."""

    max_evaluations: int
    max_seconds: float | None


@dataclass(frozen=True, eq=False)
class Remarks:
    """What is collected for the verdict beside the tests."""

    warnings: list[str] = field(default_factory=list)
    context: list[str] = field(default_factory=list)
    inconclusive_reasons: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)  # why no p-value would be valid
    not_examined: list[str] = field(default_factory=list)


def evaluate_case(
    read: Draws, target: Target, independent: bool, check_score: bool, remarks: Remarks
) -> Case:
    """Evaluate log density and score once, and find out whether the draws are chains."""
    sample = evaluate_sample(read, target, independent=independent)
    x = sample.x
    chain = sample.chain
    remarks.warnings.extend(sample.warnings)
    remarks.warnings.extend(score_warnings(target, x, check=check_score))
    remarks.inconclusive_reasons.extend(sample.faults)
    convergence = None
    if chain is None:
        remarks.context.append("The draws were tested as independent.")
    else:
        convergence = convergence_core(x, chain)
        remarks.warnings.extend(mixing_warnings(convergence, target.coordinate_names))
        remarks.context.append(chain_context(chain, convergence))
    remarks.invalid.extend(invalidating_faults(x, chain))
    if sample.dependence is not None and sample.dependence.lag > 1:
        remarks.invalid.append(sample.dependence.interleaving)
    if chain is not None and read.axes_swapped:
        remarks.invalid.append(
            "draws are correlated across chains, not within them: the axes seem to be swapped"
        )
    if read.divergences:
        remarks.warnings.append(f"the sampler reports {read.divergences} divergent transitions")
    remarks.inconclusive_reasons.extend(rounding_reasons(x, target.coordinate_names))
    return Case(x, sample.log_p, score_at(target, x), chain, convergence)


def rounding_reasons(x: np.ndarray, names: Sequence[str]) -> list[str]:
    """Whether coordinates lie on a coarse lattice, as counts or rounded numbers do: densities never do so."""
    found = []
    for k, name in enumerate(names):
        count = len(np.unique(x[:, k]))
        step = rounding_step(x[:, k])
        if count <= len(x) / 5 and step > MAX_ROUNDING_STEP * x[:, k].std():
            found.append(f"{name} takes {count} values {step:.3g} apart")
    if not found:
        return []
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return [f"the draws are discrete, or rounded too much for a density: {', '.join(found[:3])}{more}"]


def search(
    case: Case,
    target: Target,
    modes: Any,
    box: np.ndarray | None,
    limits: SearchLimits,
    progress: bool | None,
    rng: np.random.Generator,
    remarks: Remarks,
) -> tuple[Modes, np.ndarray]:
    """The modes and the rows to test; without a mode, a stand-in where the held-out draws are."""
    if modes is not None:
        remarks.context.append("The modes were given: none was searched for.")
        remarks.not_examined.append("modes other than those given")
        return as_modes(modes, target), np.arange(len(case.x))
    held, tested = hold_out(len(case.x), case.chain)
    known = search_from_draws(
        target,
        case.x,
        held,
        box,
        budget=Budget(limits.max_evaluations, limits.max_seconds or np.inf),
        progress=progress,
        rng=rng,
    )
    remarks.warnings.extend(known.warnings)
    if len(held):
        remarks.context.append(
            f"{len(held)} held-out draws started the mode search; the other {len(tested)} were tested."
        )
        remarks.not_examined.append(f"the {len(held)} held-out draws, except for impossible values")
    if not len(known):
        remarks.warnings.append(no_mode_reason(known))
        remarks.inconclusive_reasons.append("no mode was found, so the mode weights could not be examined")
        return _stand_in(case.x[held] if len(held) else case.x, known), tested
    remarks.context.append(f"Mode search: {known.search_sentence}.")
    remarks.not_examined.append("modes that the search did not find")
    if known.symmetries:
        words = "; ".join(symmetry_words(g, known.names) for g in known.symmetries)
        remarks.context.append(f"Symmetries of the density: {words}.")
    return known, tested


def _stand_in(x: np.ndarray, none: Modes) -> Modes:
    """Units for the tests of a density without a mode: median and spread of the held-out draws."""
    centre, scale = rounded_location(x)
    covariances = np.diag(scale**2)[None]
    return Modes(centre[None], covariances, np.zeros(1), np.zeros(1, dtype=int), search=none.search)


def is_improper(known: Modes) -> bool:
    """Whether the search says that the density is improper: nothing can be a sample of it."""
    return known.search is not None and known.search.reason == "improper"


def look_for_unknown_modes(
    case: Case, target: Target, known: Modes, limits: SearchLimits, remarks: Remarks
) -> None:
    """Climb from some draws; many that reach unknown modes make a non-rejection inconclusive."""
    seconds = None if limits.max_seconds is None else min(limits.max_seconds, MAX_SECONDS_OF_CLIMBS)
    climbed = climb_from_draws(case.x, case.scores, target, known, Budget(max_seconds=seconds or np.inf))
    if not climbed.n_unknown:
        return
    example = mode_description(climbed.locations[0], target.coordinate_names)
    remedy = "give `modes`, or a larger `max_evaluations`"
    if known.search is None:
        remedy = "add them to `modes`, or leave `modes` out to have them searched for"
    text = (
        f"the weights of modes not listed: {climbed.n_unknown} of {len(case.x)} draws belong to "
        f"unknown modes, for example ({example}); {remedy}"
    )
    many = climbed.n_unknown > MAX_UNKNOWN_SHARE * len(case.x)
    (remarks.inconclusive_reasons if many else remarks.not_examined).append(text)
