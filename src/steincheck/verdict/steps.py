"""The steps of `check`: draws evaluated once within a budget, modes, tests at one level, accuracy."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._whitening import average_root, whitened, whitened_scores
from ..accuracy import accuracy_core, better_records, importance_accuracy
from ..aggregate import Aggregation, collection, ksdagg_core
from ..chains.blocks import Blocks, agreement
from ..chains.diagnostics import Convergence, convergence
from ..chains.reading import Sample, evaluate_sample, values_per_draw
from ..draws import to_unconstrained
from ..flux import flux_core
from ..modes.known import as_modes, climb_from_draws, hold_out, modes_with_mass, search_from_draws
from ..modes.search import location_and_scale
from ..moments.core import MIN_MOMENT_DRAWS, moment_blocks, moment_core, plain_features, user_parameters
from ..moments.rays import impossible_draws
from ..result import (
    AccuracyResult,
    FluxResult,
    GofResult,
    Modes,
    ModeTable,
    ParameterAccuracy,
    StepEvaluations,
    among_all,
)
from ..stein.kernels import IMQ
from ..stein.quadratic import QuadraticOptions, chain_blocks, spawn_streams, widths_differ
from ..target import Target, discontinuity, score_at, score_warnings, to_constrained
from ..target.evaluation import Budget, affordable_budget, as_budget, counting_target
from ..wording import verdict as words
from ..wording.draws import discontinuity_words, draws_context, effective_size, order_reasons
from ..wording.numbers import mode_descriptions
from ..wording.results import search_context
from ..wording.verdict import Remark, remark, remarks_of

MIN_DRAWS = 50  # tested draws below which a non-rejection is inconclusive
USUAL_TOLERANCE = 0.1  # of shares of modes, if the user gives none
MAX_REPLICATES = 10_000  # where 1,000 leave open on which side of the level a p-value is
MAX_KERNEL_DRAWS = 50_000  # the kernel test costs n^2: beyond, it looks at evenly spaced draws
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
    return np.arange(count) * n // max(count, 1)


def _support_remarks(
    counted: Target, sample: Sample, budget: Budget, rng: np.random.Generator
) -> tuple[Remark, ...]:
    """A reason if the density jumps or ends abruptly, where no test of the shape is valid."""
    jumps = budget.left >= COSTS["support"]
    gap = discontinuity(counted, sample.x, sample.log_p, rng, jumps=jumps)
    if gap is None:
        return () if jumps else (remark("support"),)
    what, need, remedy = discontinuity_words(gap)
    where = mode_descriptions(gap.x[None], counted.coordinate_names)[0]
    return (remark("edge", what=what, where=where, need=need, remedy=remedy),)


class CaseModes(NamedTuple):
    """The modes of the density, and the draws that may be tested with them."""

    modes: Modes
    rows: np.ndarray
    remarks: tuple[Remark, ...]
    improper: bool = False  #: whether the search says that the density is


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
    search = found.search
    assert search is not None
    why = remark("no mode", message=search.message)
    if search.reason in ("max_evaluations", "max_seconds"):
        why = why._replace(kind="not examined")  # no obstacle to the tests of the shape
    centre, scale = location_and_scale(x[held] if len(held) else x, rounded=True)
    spread = Modes(centre[None], np.diag(scale**2)[None], np.zeros(1), search=search)
    return CaseModes(spread, tested, (*remarks, why), improper=search.reason == "improper")


class Run(NamedTuple):
    """A test of some rows of the draws; it takes the number of replicates and a stream."""

    rows: np.ndarray
    test: Callable[..., GofResult]


class Tested(NamedTuple):
    """The tests that ran, taken together at one level, and what else was seen."""

    tests: Mapping[str, GofResult]
    adjusted_pvalues: dict[str, float]  #: by Holm's method
    alpha: float
    improbable_rows: np.ndarray = np.arange(0)  #: draws of negligible probability
    remarks: tuple[Remark, ...] = ()

    @property
    def rejected(self) -> set[str]:
        """Names of the tests that reject."""
        return {name for name, p in self.adjusted_pvalues.items() if p <= self.alpha}

    @property
    def wrong_shape(self) -> bool:
        """Whether a test of the shape rejects."""
        return not self.rejected.isdisjoint(("kernel", "moments"))

    @property
    def weights(self) -> FluxResult | None:
        """The test of the mode weights, if it ran."""
        result = self.tests.get("weights")
        return result if isinstance(result, FluxResult) else None


def holm(pvalues: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values so that comparing each with alpha keeps the family-wise level alpha.

    Examples
    --------
    >>> holm({"a": 0.01, "b": 0.2, "c": 0.04})
    {'a': 0.03, 'c': 0.08, 'b': 0.2}
    """
    adjusted = {}
    largest = 0.0
    for k, name in enumerate(sorted(pvalues, key=lambda name: pvalues[name])):
        largest = max(largest, min(1.0, (len(pvalues) - k) * pvalues[name]))
        adjusted[name] = largest
    return adjusted


def combine(tests: Mapping[str, GofResult], alpha: float) -> Tested:
    """Adjust the p-values by Holm's method; a test without a p-value counts as one with p = 1."""
    pvalues = {name: 1.0 if np.isnan(result.pvalue) else result.pvalue for name, result in tests.items()}
    return Tested(dict(tests), holm(pvalues), float(alpha))


def close_to_level(tested: Tested) -> list[str]:
    """Tests whose adjusted p-value is within 3 Monte Carlo standard errors of the level."""
    found = []
    for name, result in tested.tests.items():
        adjusted = tested.adjusted_pvalues[name]
        error = adjusted * np.sqrt(result.pvalue_floor / max(result.pvalue, 1e-300))
        if result.pvalue_floor > 0 and abs(adjusted - tested.alpha) < 3 * error:
            found.append(name)
    return found


def run_tests(case: Case, known: CaseModes, alpha: float, rng: np.random.Generator) -> Tested:
    """The tests that apply; with more replicates where it is open on which side of the level they are."""
    improbable = _improbable_rows(case, known.modes)
    unknown = _unknown_mode_remarks(case, known.modes)
    if known.improper or not case.valid:
        return combine({}, alpha)._replace(improbable_rows=improbable, remarks=unknown)
    runs, remarks = _applicable_tests(case, known, alpha)
    names = ("kernel", "moments", "weights", "chains")
    streams, more = (dict(zip(names, rng.spawn(4), strict=True)) for _ in range(2))
    n, dim = case.sample.x.shape

    def results(chosen: Iterable[str], size: int, rngs: Mapping[str, Any]) -> dict[str, GofResult]:
        made = {name: runs[name].test(n_resamples=size - 1, rng=rngs[name]) for name in chosen}
        return {k: replace(among_all(result, runs[k].rows, n), dim=dim) for k, result in made.items()}

    size = int(np.clip(50 / alpha, 1000, MAX_REPLICATES))  # enough for the smallest threshold of Holm
    tests = results(runs, size, streams)
    if size < MAX_REPLICATES:
        tests |= results(close_to_level(combine(tests, alpha)), MAX_REPLICATES, more)
    if "chains" in tests and np.isnan(tests["chains"].pvalue):
        del tests["chains"]
        remarks += (remark("agreement"),)
    remarks += remarks_of("warning", *(text for result in tests.values() for text in result.warnings))
    return combine(tests, alpha)._replace(improbable_rows=improbable, remarks=remarks + unknown)


def _unknown_mode_remarks(case: Case, modes: Modes) -> tuple[Remark, ...]:
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


def _improbable_rows(case: Case, modes: Modes) -> np.ndarray:
    """Rows of draws whose log density is nearer to that of impossible draws than to the median.

    Draws of little weight may lie anywhere. As E_q[w f] = E_p[f], those of weight .01 and more hold an
    impossible one with at most 100 times the probability that draws without weights do.
    """
    if not case.valid or case.budget.left < COSTS["rays"]:
        return np.arange(0)
    sample = case.sample
    rows = np.arange(len(sample.x)) if sample.weight is None else np.flatnonzero(sample.weight >= 0.01)
    log_p = sample.log_p[rows]
    impossible = impossible_draws(case.counted.log_density, sample.x[rows], log_p, modes)
    lowest = log_p[list(impossible)].max(initial=-np.inf)
    return rows[log_p <= 0.5 * (np.median(log_p) + lowest)]


def _applicable_tests(
    case: Case, known: CaseModes, alpha: float
) -> tuple[dict[str, Run], tuple[Remark, ...]]:
    """The tests that draws and budget allow, in the order of the verdict, and why others are not made."""
    rows = np.intersect1d(known.rows, case.scored)
    part = case.sample.rows(rows)
    least = min(MIN_DRAWS, len(known.rows))
    runs: dict[str, Run] = {}
    remarks: tuple[Remark, ...] = ()
    if len(rows) < least:
        remarks = (remark("few scores", n=len(rows), least=MIN_DRAWS),)
    elif case.smooth:
        runs, remarks = _shape_tests(case, rows, known.modes, alpha)
    if len(known.modes) > 1 and case.budget.left < least * (len(known.modes) - 1):
        remarks += (remark("weights"),)
    elif len(known.modes) > 1:
        tested = case.sample.rows(known.rows)
        runs["weights"] = Run(
            known.rows, partial(flux_core, tested, case.counted, known.modes, budget=case.budget)
        )
    if part.chain is not None and len(rows):  # in the means of Stein features, which are 0 within every mode
        features = plain_features(part, average_root(known.modes.covariances))
        runs["chains"] = Run(rows, partial(agreement, features, part.chain))
    return runs, remarks


def _shape_tests(
    case: Case, rows: np.ndarray, modes: Modes, alpha: float
) -> tuple[dict[str, Run], tuple[Remark, ...]]:
    """Kernel and moment test, unless the chains are too short."""
    part = case.sample.rows(rows)
    whiten = average_root(modes.covariances)
    blocks = cut = None
    remarks: tuple[Remark, ...] = ()
    if part.chain is not None:
        blocks = _blocks_of_chains(part, whiten)
        if not blocks.enough:
            return {}, (remark("short chains", remedy=blocks.remedy),)
        remarks = remarks_of("context", effective_size(len(rows), blocks.record))
        cut = moment_blocks(blocks, plain_features(part, whiten), part.chain)
    some = np.arange(0, len(rows), -(-len(rows) // MAX_KERNEL_DRAWS))
    if len(some) < len(rows):
        remarks += (remark("some draws", n=len(rows)),)
    cut_some = None if blocks is None else replace(blocks, label=blocks.label[some])
    units = modes if widths_differ(modes) else None  # of each mode, or of the average covariance

    def kernel_test(n_resamples: int, rng: np.random.Generator) -> GofResult:
        options = QuadraticOptions(bootstrap="blocks", n_resamples=n_resamples + 1)
        aggregation = Aggregation(n_level_resamples=n_resamples + 1, alpha=alpha)
        chosen, streams = part.rows(some), spawn_streams(rng)
        return ksdagg_core(
            chosen, options, aggregation, streams, whiten=whiten, modes=units, blocks=cut_some
        )[0]

    runs = {"kernel": Run(rows[some], kernel_test)}
    if len(rows) < MIN_MOMENT_DRAWS or (cut is not None and not cut.enough):
        return runs, (*remarks, remark("moments", least=MIN_MOMENT_DRAWS))
    rays = case.counted.log_density if case.budget.left >= COSTS["rays"] else None
    test = partial(moment_core, part, modes, user_parameters(case.target), blocks=cut, log_density=rays)
    return runs | {"moments": Run(rows, test)}, remarks


def _blocks_of_chains(part: Sample, whiten: np.ndarray) -> Blocks:
    """Blocks for the tests of the shape, by the autocorrelation time of the draws' contributions."""
    z = whitened(part.x, whiten)
    slopes = whitened_scores(part.scores, whiten)
    widths = collection(z, "reference", evenly=True)[::3]  # neighbours are alike
    assert part.chain is not None
    return chain_blocks(part.chain, [(z[None], slopes[None])], IMQ(), widths, part.weight)


class Measured(NamedTuple):
    """How far off the draws' own numbers are."""

    accuracy: AccuracyResult | None  #: None where it could not be estimated
    parameters: tuple[ParameterAccuracy, ...]  #: one per parameter of the user, NaN where unknown
    mode_table: ModeTable | None  #: shares of the modes, if there are several
    remarks: tuple[Remark, ...] = ()
    k_hat: float | None = None  #: None without log q


def measure(case: Case, known: CaseModes, tested: Tested, rng: np.random.Generator) -> Measured:
    """Means and standard deviations of the density beside those of the draws.

    Walkers do not start at improbable draws; the means and sds of the draws are those of all of them. Where
    the shape is wrong, the shares of the density are those that the walkers imply, not the draws; walkers
    that remember where they started do not know them either.
    """
    table = None if tested.weights is None else tested.weights.mode_table
    unknown = len(known.modes) > 1 and table is None
    if known.improper or unknown or len(case.scored) < len(case.values):
        return Measured(None, _parameters(case, ()), table, (remark("accuracy"),))
    sample = case.sample.rows(np.setdiff1d(np.arange(len(case.values)), tested.improbable_rows))
    shares = None if tested.wrong_shape else table
    found = accuracy_core(sample, case.target, known.modes, mode_table=shares, budget=case.budget, rng=rng)
    k_hat = None
    remarks = remarks_of("not examined", *found.warnings)
    if case.log_q is not None:
        k_hat, weighted = importance_accuracy(case.sample, case.target, case.log_q)
        found = replace(found, parameters=better_records(found.parameters, k_hat, weighted))
        remarks += remarks_of("context", words.k_hat_text(k_hat))
    records = found.parameters if found.largest is not None else ()
    if tested.wrong_shape and table is not None and found.mode_table is not None:
        certain = 1.0 if all(record.forgotten for record in records) else np.nan
        fields = ("implied", "implied_interval", "implied_covariance")
        table = replace(table, **{name: certain * getattr(found.mode_table, name) for name in fields})
    parameters = _parameters(case, records)
    names = {item.parameter for item in records}
    found = replace(found, parameters=tuple(item for item in parameters if item.parameter in names))
    return Measured(found, parameters, table, remarks, k_hat)


def _parameters(case: Case, records: tuple[ParameterAccuracy, ...]) -> tuple[ParameterAccuracy, ...]:
    """One record per parameter, with the numbers of all draws and of the chains."""
    by_name = {item.parameter: item for item in records}
    mean = np.average(case.values, axis=0, weights=case.sample.weight)
    sd = np.sqrt(np.average((case.values - mean) ** 2, axis=0, weights=case.sample.weight))
    mixing = case.convergence
    of_chains = np.full((3, len(case.names)), np.nan)
    if mixing is not None:
        of_chains = np.array([mixing.ess_bulk, mixing.ess_tail, mixing.rhat])
    columns = ("draws_mean", "draws_sd", "ess_bulk", "ess_tail", "r_hat")
    numbers = np.stack([mean, sd, *of_chains], axis=1).tolist()
    return tuple(
        replace(by_name.get(name, ParameterAccuracy(name)), **dict(zip(columns, row, strict=True)))
        for name, row in zip(case.names, numbers, strict=True)
    )


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
