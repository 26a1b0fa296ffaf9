"""What a verdict is about: draws evaluated once, and the modes of the density."""

from __future__ import annotations

from itertools import chain as joined
from typing import Any, NamedTuple

import numpy as np

from ..chains.blocks import autocorrelation_time
from ..chains.diagnostics import Convergence, convergence
from ..chains.reading import Sample, evaluate_sample
from ..draws import Draws
from ..modes.arguments import as_modes
from ..modes.held_out import (
    climb_from_draws,
    hold_out,
    modes_with_mass,
    rounded_location,
    search_from_draws,
)
from ..modes.search import no_mode_reason
from ..result import Modes
from ..target import Target, score_at, score_warnings, to_constrained
from ..target.evaluation import Budget
from ..wording import draws as chain_words
from ..wording import results as mode_words
from ..wording import verdict as words
from ..wording.numbers import mode_descriptions
from .plan import CLIMBS, scored_rows, search_allowance

MAX_UNKNOWN_SHARE = 0.1  # of the draws at unknown modes, beyond which a non-rejection is inconclusive


class Remarks(NamedTuple):
    """What a step says beside its result, in sentences."""

    warnings: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()  #: why a non-rejection is inconclusive
    not_examined: tuple[str, ...] = ()


def join_notes(*parts: Remarks) -> Remarks:
    """All of them, each sentence once."""
    return Remarks(
        *(tuple(dict.fromkeys(joined.from_iterable(column))) for column in zip(*parts, strict=True))
    )


class Case(NamedTuple):
    """The draws of a verdict, and what is known of them before any test."""

    sample: Sample
    scored: np.ndarray  #: rows of the draws whose scores are known
    values: np.ndarray  #: (n, k) the user's own parameters
    names: tuple[str, ...]  #: (k,) of the parameters
    convergence: Convergence | None  #: None for independent draws
    valid: bool  #: whether the order of the draws permits p-values
    notes: Remarks

    @property
    def effective_sizes(self) -> np.ndarray:
        """(k,) number of independent draws that each parameter's mean is worth."""
        n = len(self.values)
        if self.sample.chain is None:
            return np.full(len(self.names), float(n))
        return n / np.maximum(autocorrelation_time(self.values, self.sample.chain), 1.0)


def read_case(
    read: Draws, target: Target, budget: Budget, known: Any, *, independent: bool, check_score: bool
) -> Case:
    """Evaluate log density, unless it is known, and score once, and find out whether the draws are chains."""
    sample = evaluate_sample(read, target, independent=independent, known=known)
    scored = scored_rows(target, len(sample.x), budget)
    warnings = [*sample.warnings, *score_warnings(target, sample.x, check=check_score)]
    scores = np.full(sample.x.shape, np.nan)
    scores[scored] = score_at(target, sample.x[scored])
    sample = sample._replace(scores=scores)
    if read.divergences:
        warnings.append(words.divergence_warning(read.divergences))
    values, names = to_constrained(sample.x, target)
    mixing = None
    context = words.Phrases.independent
    if sample.chain is not None:
        mixing = convergence(values, sample.chain)
        context = chain_words.chain_context(sample.chain, mixing)
        warnings += words.mixing_warnings(mixing.rhat, names)
    reasons = chain_words.invalidity_reasons(sample.order)
    if sample.chain is not None and read.axes_swapped and not sample.order.equal:
        reasons = [words.Phrases.swapped_axes]
    notes = Remarks(tuple(warnings), (context,), tuple(reasons))
    return Case(sample, scored, values, names, mixing, not reasons, notes)


class ModesOfCase(NamedTuple):
    """The modes of the density, and the draws that may be tested with them."""

    modes: Modes
    rows: np.ndarray
    descriptions: tuple[str, ...]
    given: bool
    improper: bool
    notes: Remarks


def find_known_modes(
    case: Case,
    target: Target,
    modes: Any,
    box: np.ndarray | None,
    *,
    budget: Budget,
    progress: bool | None,
    rng: np.random.Generator,
) -> ModesOfCase:
    """The modes given or found from held-out draws; without any, the spread of the draws stands in."""
    x = case.sample.x
    n = len(x)
    if modes is not None:
        notes = Remarks(context=(words.Phrases.modes_given,), not_examined=(words.Phrases.other_modes,))
        given = modes_with_mass(as_modes(modes, target, budget), x, n)
        return ModesOfCase(given, np.arange(n), _descriptions(given, target), True, False, notes)
    held, tested = hold_out(n, case.sample.chain)
    allowed = Budget(search_allowance(target, n, budget))
    found = search_from_draws(target, x, held, box, budget=allowed, progress=progress, rng=rng)
    budget.made += allowed.made
    notes = Remarks(warnings=found.warnings, not_examined=words.held_out_texts(len(held), len(tested)))
    if not len(found):
        end = None if found.search is None else found.search.reason
        reason = words.Phrases.improper if end == "improper" else words.Phrases.no_mode
        limited = end in ("max_evaluations", "max_seconds")
        missing = Remarks(not_examined=(reason,)) if limited else Remarks(reasons=(reason,))
        missing = missing._replace(warnings=(no_mode_reason(found),))
        spread = _spread_of_draws(x[held] if len(held) else x, found)
        descriptions = _descriptions(spread, target)
        return ModesOfCase(spread, tested, descriptions, False, end == "improper", join_notes(notes, missing))
    context = mode_words.search_context(found, target.coordinate_names)
    notes = join_notes(notes, Remarks(context=context, not_examined=(words.Phrases.modes_not_found,)))
    return ModesOfCase(found, tested, _descriptions(found, target), False, False, notes)


def _spread_of_draws(x: np.ndarray, none: Modes) -> Modes:
    """Units for the tests of a density without a known mode."""
    centre, scale = rounded_location(x)
    places = (centre[None], np.diag(scale**2)[None], np.zeros(1))
    return Modes(*places, search=none.search)


def _descriptions(modes: Modes, target: Target) -> tuple[str, ...]:
    return mode_descriptions(*to_constrained(modes.locations, target))


def notes_on_unknown_modes(case: Case, target: Target, known: ModesOfCase, budget: Budget) -> Remarks:
    """Climb from some draws; many that reach unknown modes make a non-rejection inconclusive."""
    part = case.sample.rows(case.scored)
    if not len(part.x) or budget.left < CLIMBS:
        return Remarks(not_examined=(words.Phrases.unknown_modes,))
    climbed = climb_from_draws(part.x, part.scores, target, known.modes, budget)
    if not climbed.n_unknown:
        return Remarks()
    where = mode_descriptions(*to_constrained(climbed.locations[:1], target))[0]
    text = words.unknown_modes_text(climbed.n_unknown, len(part.x), where, given=known.given)
    many = climbed.n_unknown > MAX_UNKNOWN_SHARE * len(part.x)
    return Remarks(reasons=(text,)) if many else Remarks(not_examined=(text,))
