"""What a verdict is about: draws evaluated once within a budget, and the modes of the density."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..chains.blocks import autocorrelation_time
from ..chains.diagnostics import Convergence, convergence
from ..chains.reading import Sample, evaluate_sample, values_per_draw
from ..draws import to_unconstrained
from ..modes.known import (
    as_modes,
    climb_from_draws,
    hold_out,
    modes_with_mass,
    search_from_draws,
)
from ..modes.search import location_and_scale
from ..result import Modes, StepEvaluations
from ..target import Target, discontinuity, score_at, score_warnings, to_constrained
from ..target.evaluation import Budget, affordable_budget, as_budget, counting_target
from ..wording import verdict as words
from ..wording.draws import discontinuity_remedy, discontinuity_text, draws_context, order_reasons
from ..wording.numbers import mode_descriptions
from ..wording.results import search_context
from ..wording.verdict import Remark, remark, remarks_of

MIN_DRAWS = 50  # tested draws below which a non-rejection is inconclusive
USUAL_TOLERANCE = 0.1  # of shares of modes, if the user gives none
COSTS = {  # evaluations of parts of `check` that do not depend on the number of draws
    "support": 3_500,  # edges and jumps: 600 to 3,400 (target/checks.py)
    "search": 14_000,  # of one mode (mode_study.csv)
    "rays": 2_200,  # ranks on rays, 25 x 77, and impossible draws, 20 + 2 x 97 + the score's check
    "climbs": 2_000,  # from 16 draws to modes that are not known
    "walkers": 20_000,  # scores of the first round of `estimate_accuracy` (accuracy_study.csv)
}


class Case(NamedTuple):
    """The draws of a verdict, and what is known of them before any test."""

    target: Target
    counted: Target  #: the target, every evaluation counted in `budget`
    budget: Budget
    sample: Sample
    kept: np.ndarray | None  #: (N,) which of the draws given have a positive weight; None if all
    log_q: np.ndarray | None  #: (n,) log density of the approximation that the draws come from
    scored: np.ndarray  #: rows of the draws whose scores are known
    values: np.ndarray  #: (n, k) the user's own parameters
    names: tuple[str, ...]  #: (k,) of the parameters
    convergence: Convergence | None  #: None for independent draws
    valid: bool  #: whether the order of the draws permits p-values
    smooth: bool  #: whether no edge or jump of the density was found
    remarks: tuple[Remark, ...]

    @property
    def score_cost(self) -> int:
        """Evaluations that a score takes."""
        return 1 if self.target.has_score else 2 * self.target.dim

    @property
    def effective_sizes(self) -> np.ndarray:
        """(k,) number of independent draws that each parameter's mean is worth."""
        n = self.sample.effective_size
        if self.sample.chain is None:
            return np.full(len(self.names), n)
        return n / np.maximum(autocorrelation_time(self.values, self.sample.chain), 1.0)


def read_case(
    draws: Any, target: Target, settings: Mapping[str, Any], log_density: Any, rng: np.random.Generator
) -> Case:
    """Evaluate log density, unless it is known, and score once; look for chains, edges and jumps.

    `settings` are the arguments of `check`.
    """
    by_name = {name: settings[name] for name in ("weights", "log_weights")}
    read = to_unconstrained(draws, target, **by_name)
    log_q = settings["log_q"]
    if log_q is not None:
        log_q = values_per_draw(log_q(read.values) if callable(log_q) else log_q, read, "log_q")
    limits = as_budget(settings["max_evaluations"], settings["max_seconds"])
    budget = affordable_budget(target, read.values, limits)
    counted = counting_target(target, budget)
    sample = evaluate_sample(read, counted, independent=settings["independent"], known=log_density)
    warnings = [*sample.warnings, *score_warnings(counted, sample.x, check=settings["check_score"])]
    scored = _scored_rows(target, len(sample.x), budget)
    sample = sample._replace(scores=np.full(sample.x.shape, np.nan))
    sample.scores[scored] = score_at(counted, sample.x[scored])
    values, names = to_constrained(sample.x, target)
    mixing = None if sample.chain is None else convergence(values, sample.chain)
    warnings += words.sampler_warnings(read.divergences, None if mixing is None else mixing.rhat, names)
    invalid = tuple(Remark("reason", *texts) for texts in order_reasons(sample.order))
    if read.axes_swapped and sample.chain is not None and not sample.order.equal:
        invalid = (remark("swapped axes"),)
    edges = _support_remarks(counted, sample, budget, rng)
    remarks = remarks_of("warning", *warnings) + remarks_of("context", draws_context(sample, mixing))
    return Case(
        *(target, counted, budget, sample, read.kept, log_q, scored, values, names, mixing),
        valid=not invalid,
        smooth=not any(remark.kind == "reason" for remark in edges),
        remarks=remarks + invalid + edges,
    )


def _scored_rows(target: Target, n: int, budget: Budget) -> np.ndarray:
    """Rows of draws whose scores are evaluated: all, or where they are differenced half of the budget's."""
    allowed = budget.left if target.has_score else budget.left / (4 * target.dim)
    count = int(min(n, allowed))
    return np.arange(n) if count == n else (np.arange(count) * n) // max(count, 1)


def _support_remarks(
    counted: Target, sample: Sample, budget: Budget, rng: np.random.Generator
) -> tuple[Remark, ...]:
    """A reason if the density jumps or ends abruptly, where no test of the shape is valid."""
    jumps = budget.left >= COSTS["support"]
    gap = discontinuity(counted, sample.x, sample.log_p, rng, jumps=jumps)
    if gap is not None:
        where = mode_descriptions(gap.x[None], counted.coordinate_names)[0]
        need, remedy = discontinuity_remedy(gap)
        return (remark("edge", text=discontinuity_text(gap), where=where, need=need, remedy=remedy),)
    return () if jumps else (remark("support"),)


class CaseModes(NamedTuple):
    """The modes of the density, and the draws that may be tested with them."""

    modes: Modes
    rows: np.ndarray
    remarks: tuple[Remark, ...]

    @property
    def improper(self) -> bool:
        """Whether the search says that the density is improper."""
        return self.modes.search is not None and self.modes.search.reason == "improper"


def find_known_modes(
    case: Case, modes: Any, box: np.ndarray | None, *, progress: bool | None, rng: np.random.Generator
) -> CaseModes:
    """The modes given or found from held-out draws; without any, the spread of the draws stands in."""
    x, target, budget = case.sample.x, case.target, case.budget
    if modes is not None:
        given = modes_with_mass(as_modes(modes, target, budget), x, 100 * len(x))
        return CaseModes(given, np.arange(len(x)), (remark("other modes"),))
    held, tested = hold_out(len(x), case.sample.chain, case.sample.group)
    later = len(x) + COSTS["rays"] + COSTS["climbs"] + COSTS["walkers"] * case.score_cost
    allowed = Budget(max(budget.left / 2, budget.left - later))
    found = search_from_draws(target, x, held, box, budget=allowed, progress=progress, rng=rng)
    budget.made += allowed.made
    remarks = remarks_of("warning", *found.warnings)
    if len(held):
        remarks += (remark("held-out draws", held=len(held), tested=len(tested)),)
    if len(found):
        remarks += remarks_of("context", *search_context(found, target.coordinate_names))
        return CaseModes(found, tested, (*remarks, remark("modes not found")))
    assert found.search is not None
    why = remark("no mode", message=found.search.message)
    if found.search.reason in ("max_evaluations", "max_seconds"):
        why = why._replace(kind="not examined")  # no obstacle to the tests of the shape
    centre, scale = location_and_scale(x[held] if len(held) else x, rounded=True)
    spread = Modes(centre[None], np.diag(scale**2)[None], np.zeros(1), search=found.search)
    return CaseModes(spread, tested, (*remarks, why))


def unknown_mode_remarks(case: Case, modes: Modes) -> tuple[Remark, ...]:
    """Climb from some draws: a large share at unknown modes makes a non-rejection inconclusive."""
    part = case.sample.rows(case.scored)
    if not len(part.x) or case.budget.left < COSTS["climbs"]:
        return (remark("climbs"),)
    climbed = climb_from_draws(part.x, part.scores, case.target, modes, case.budget)
    if not climbed.n_unknown:
        return ()
    where = mode_descriptions(*to_constrained(climbed.locations[:1], case.target))[0]
    found = remark("unknown modes", n=climbed.n_unknown, examined=len(part.x), where=where)
    many = climbed.n_unknown > USUAL_TOLERANCE * len(part.x)
    return (found if many else found._replace(kind="not examined"),)


def step_evaluations(
    case: Case, made: Sequence[int], n_modes: int, *, searched: bool
) -> tuple[StepEvaluations, ...]:
    """Per step the evaluations that leave nothing out, and those made, by their sums when each step ended."""
    n = len(case.values)
    planned = {
        "draws": n * (1 + case.score_cost) + COSTS["support"],
        "modes": COSTS["search"] * case.score_cost if searched else 0,
        "tests": COSTS["rays"] + COSTS["climbs"] + n * (n_modes - 1),
        "accuracy": COSTS["walkers"] * case.score_cost,
    }
    counts = np.diff(made, prepend=0).tolist()
    return tuple(StepEvaluations(*step) for step in zip(planned, planned.values(), counts, strict=True))


def end_step(name: str, budget: Budget, progress: bool | None) -> int:
    """The evaluations made so far; with `progress` a line on standard error says so."""
    if progress and sys.stderr is not None:
        sys.stderr.write(words.step_line(name, budget.made, time.perf_counter() - budget.began))
    return budget.made
