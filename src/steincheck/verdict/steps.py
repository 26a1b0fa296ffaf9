"""The steps of `check`: draws evaluated once within a budget, modes, tests at one level, accuracy."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from .._whitening import average_root
from ..accuracy import accuracy_core, better_records, importance_accuracy
from ..adapters.parameters import user_parameters
from ..aggregate import Aggregation, blocks_of_chains, ksdagg_core
from ..chains.blocks import agreement
from ..chains.reading import Sample, convergence, evaluate_sample, values_per_draw
from ..draws import Draws, to_unconstrained
from ..flux import flux_core
from ..modes.known import as_modes, climb_from_draws, hold_out, modes_with_mass, search_from_draws
from ..modes.search import spread_as_mode
from ..moments.core import MIN_MOMENT_DRAWS, moment_blocks, moment_core, plain_features
from ..moments.rays import impossible_draws
from ..result import FluxResult, GofResult, Modes, ModeTable, ParameterAccuracy, among_all
from ..stein.quadratic import QuadraticOptions, Streams, skew_warnings, widths_differ
from ..target import Target, discontinuity, score_at, score_warnings, to_constrained
from ..target.evaluation import Budget, OutOfBudget, affordable_budget, as_budget, call_batch, counting_target
from ..wording import draws as draws_words
from ..wording import verdict as words
from ..wording.numbers import mode_descriptions
from ..wording.results import search_context, shape_context, weight_reason_and_remedy
from ..wording.verdict import USUAL_TOLERANCE, Remark, not_examined, reason, remarks_of

MIN_DRAWS = 50  # tested draws below which a non-rejection is inconclusive
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

    settings: Mapping[str, Any]  #: arguments of `check` that give the verdict again
    progress: bool | None
    target: Target
    counted: Target  #: the target, every evaluation counted in `budget`
    budget: Budget
    read: Draws
    sample: Sample
    log_q: np.ndarray | None  #: (n,) log density of the approximation that the draws come from
    values: np.ndarray  #: (n, k) the user's own parameters
    names: tuple[str, ...]  #: (k,) of the parameters
    mixing: np.ndarray  #: (3, k) bulk ESS, tail ESS and R-hat; NaN for independent draws
    scored: np.ndarray  #: rows of the draws whose scores are known
    score_cost: int  #: evaluations that a score takes
    tolerance: float  #: the error that the user allows, or the usual one
    valid: bool = True  #: whether the order of the draws permits p-values
    smooth: bool = True  #: whether no edge or jump of the density was found
    remarks: tuple[Remark, ...] = ()
    made: int = 0  #: evaluations when the step ended

    def end(self, step: str) -> int:
        """The evaluations made so far; with `progress` a line on standard error says so.

        Steps take points where the density raises for impossible ones, hence the first draw once more.
        """
        with suppress(OutOfBudget):
            call_batch("log_density", self.counted.log_density, self.sample.x[:1])
        if self.progress and sys.stderr is not None:
            seconds = time.perf_counter() - self.budget.began
            sys.stderr.write(words.step_line(step, self.budget.made, seconds))
        return self.budget.made


def read_case(arguments: Mapping[str, Any], settings: dict[str, Any], rng: np.random.Generator) -> Case:
    """Evaluate log density, unless it is known, and score once; look for chains, edges and jumps.

    `settings` are those of the arguments of `check` that give the verdict again.
    """
    case = _evaluate(arguments, settings)
    sample = case.sample
    warnings = [*sample.warnings]
    unseen = [not_examined("score")]
    with suppress(OutOfBudget):
        warnings += score_warnings(case.counted, sample.x, check=settings["check_score"])
        unseen = []
    warnings += words.sampler_warnings(case.read.divergences, case.mixing[2], case.names)
    remarks = [Remark("reason", *texts) for texts in draws_words.order_reasons(sample.order)]
    if case.read.axes_swapped and sample.chain is not None and not sample.order.equal:
        remarks = [reason("swapped axes")]
    valid = not remarks
    edges = _support_remarks(case, rng)
    remarks += edges
    if sample.effective_size < MIN_DRAWS:
        remarks.append(reason("few draws", n=sample.effective_size, least=MIN_DRAWS))
    remarks += [*unseen, *remarks_of("warning", *warnings)]
    remarks += remarks_of("context", draws_words.draws_context(sample, case.mixing))
    smooth = not any(remark.kind == "reason" for remark in edges)
    return case._replace(valid=valid, smooth=smooth, remarks=tuple(remarks), made=case.end("draws"))


def _evaluate(arguments: Mapping[str, Any], settings: dict[str, Any]) -> Case:
    """The draws with their log densities, and as many of their scores as the budget allows."""
    target, log_q = arguments["target"], settings["log_q"]
    weights: dict[str, Any] = {name: settings[name] for name in ("weights", "log_weights")}
    read = to_unconstrained(arguments["draws"], target, **weights)
    if target.names is None and target.constrained_names is None:
        target = replace(target, names=read.names)
    if log_q is not None and read.weight is not None:
        raise ValueError("`log_q` and weights must not both be given: the weights of draws from q are p / q")
    if log_q is not None:
        log_q = values_per_draw(log_q(read.values) if callable(log_q) else log_q, read, "log_q")
    limits = (settings["max_evaluations"], settings["max_seconds"])
    budget = affordable_budget(target, read.values, as_budget(*limits))
    if np.isfinite(budget.max_evaluations):  # this number repeats the run, whatever the clock says
        settings = settings | {"max_evaluations": int(budget.max_evaluations), "max_seconds": None}
    counted = counting_target(target, budget)
    known = arguments["log_density"]
    sample = evaluate_sample(read, counted, independent=settings["independent"], known=known)
    sample, scored = _with_scores(sample, counted, budget)
    values, names = to_constrained(sample.x, target)
    no_chains = np.full((3, len(names)), np.nan)
    return Case(
        settings=settings,
        progress=arguments["progress"],
        target=target,
        counted=counted,
        budget=budget,
        read=read,
        sample=sample,
        log_q=log_q,
        values=values,
        names=names,
        mixing=no_chains if sample.chain is None else convergence(values, sample.chain),
        scored=scored,
        score_cost=1 if target.has_score else 2 * target.dim,
        tolerance=settings["tolerance"] or USUAL_TOLERANCE,  # positive, if given
    )


def _with_scores(sample: Sample, target: Target, budget: Budget) -> tuple[Sample, np.ndarray]:
    """Scores, and the rows that have them: where they are differenced, they get half of the budget."""
    n = len(sample.x)
    count = int(min(n, budget.left if target.has_score else budget.left / (4 * target.dim)))
    rows = np.arange(count) * n // max(count, 1)
    scores = np.full(sample.x.shape, np.nan)
    scores[rows] = score_at(target, sample.x[rows])
    return sample._replace(scores=scores), rows


def _support_remarks(case: Case, rng: np.random.Generator) -> tuple[Remark, ...]:
    """A reason if the density jumps or ends abruptly, where no test of the shape is valid."""
    jumps = case.budget.left >= COSTS["support"]
    gap, unseen = None, True
    with suppress(OutOfBudget):
        gap = discontinuity(case.counted, case.sample.x, case.sample.log_p, rng, jumps=jumps)
        unseen = not jumps
    if gap is None:
        return (not_examined("support"),) if unseen else ()
    what, need, remedy = draws_words.discontinuity_words(gap)
    where = mode_descriptions(gap.x[None], case.counted.coordinate_names)[0]
    return (reason("edge", what=what, where=where, need=need, remedy=remedy),)


class CaseModes(NamedTuple):
    """The modes of the density, and the draws that may be tested with them."""

    modes: Modes
    rows: np.ndarray  #: of the draws that are tested, those held out are not
    remarks: tuple[Remark, ...]
    improper: bool = False  #: whether the search says that the density is
    made: int = 0  #: evaluations when the step ended


def modes_of_case(case: Case, box: np.ndarray | None, rng: np.random.Generator) -> CaseModes:
    """The modes given or found from held-out draws; without any, the spread of the draws stands in.

    Tests alone leave held-out draws out: improbable draws and accuracy take all.
    """
    x, target, budget = case.sample.x, case.target, case.budget
    if case.settings["modes"] is not None:
        given, unseen = spread_as_mode(x), "given modes"
        with suppress(OutOfBudget):
            given = modes_with_mass(as_modes(case.settings["modes"], target, budget), x, 100 * len(x))
            unseen = "other modes"
        return CaseModes(given, np.arange(len(x)), (not_examined(unseen),), made=case.end("modes"))
    held, tested = hold_out(len(x), case.sample.chain, case.sample.group)
    later = len(x) + COSTS["rays"] + COSTS["climbs"] + COSTS["walkers"] * case.score_cost
    allowed = Budget(max(budget.left / 2, budget.left - later))
    found = search_from_draws(target, x, held, box, budget=allowed, progress=case.progress, rng=rng)
    budget.made += allowed.made
    search = found.search
    assert search is not None
    remarks = [*remarks_of("warning", *found.warnings)]
    if len(held):
        remarks.append(not_examined("held-out draws", held=len(held), tested=len(tested)))
    if len(found):
        remarks += remarks_of("context", *search_context(found, target.coordinate_names))
        remarks.append(not_examined("modes not found"))
    else:
        why = reason("no mode", message=search.message)
        ended = search.reason == "max_evaluations"  # no obstacle to the tests of the shape
        remarks.append(why._replace(kind="not examined") if ended else why)
        found = replace(spread_as_mode(x[held] if len(held) else x), search=search)
    improper = search.reason == "improper"
    return CaseModes(found, tested, tuple(remarks), improper, case.end("modes"))


class Tested(NamedTuple):
    """The tests that ran, taken together at one level, and what else was seen."""

    tests: Mapping[str, Any]  #: results by name
    adjusted_pvalues: dict[str, float]  #: by Holm's method
    alpha: float
    rejected: set[str]  #: names of the tests that reject
    wrong_shape: bool  #: whether a test of the shape rejects
    weights: FluxResult | None  #: the test of the mode weights, if it ran
    weights_untested: bool  #: whether chains change mode too rarely for a test of the mode weights
    improbable_rows: np.ndarray = np.arange(0)  #: draws of negligible probability, among all of them
    remarks: tuple[Remark, ...] = ()
    made: int = 0  #: evaluations when the step ended


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
    adjusted = holm(pvalues)
    rejected = {name for name, p in adjusted.items() if p <= alpha}
    wrong_shape = not rejected.isdisjoint(("kernel", "moments"))
    flux: Any = tests.get("weights")
    untested = flux is not None and flux.chains is not None and bool(np.isnan(flux.pvalue))
    return Tested(dict(tests), adjusted, float(alpha), rejected, wrong_shape, flux, untested)


def close_to_level(tested: Tested) -> list[str]:
    """Tests whose adjusted p-value is within 3 Monte Carlo standard errors of the level."""
    found = []
    for name, result in tested.tests.items():
        adjusted = tested.adjusted_pvalues[name]
        error = adjusted * np.sqrt(result.pvalue_floor / max(result.pvalue, 1e-300))
        if result.pvalue_floor > 0 and abs(adjusted - tested.alpha) < 3 * error:
            found.append(name)
    return found


Run = tuple[np.ndarray, Callable[..., GofResult]]  # rows, and their test by number of replicates and stream


def run_tests(case: Case, known: CaseModes, rng: np.random.Generator) -> Tested:
    """The tests that apply; with more replicates where it is open on which side of the level they are."""
    improbable = _improbable_rows(case, known.modes)
    unknown = _unknown_mode_remarks(case, known.modes)
    alpha, (n, dim) = case.settings["alpha"], case.sample.x.shape
    runs, remarks = _applicable_tests(case, known)
    names = ("kernel", "moments", "weights", "chains")
    streams, more = (dict(zip(names, rng.spawn(4), strict=True)) for _ in range(2))
    tests: dict[str, GofResult] = {}

    def make(chosen: Iterable[str], size: int, rngs: Mapping[str, np.random.Generator]) -> None:
        for name in chosen:
            rows, test = runs[name]
            with suppress(OutOfBudget):
                made = test(n_resamples=size - 1, rng=rngs[name])
                tests[name] = replace(among_all(made, rows, n), dim=dim)

    size = int(np.clip(50 / alpha, 1000, MAX_REPLICATES))  # enough for the smallest threshold of Holm
    make(runs, size, streams)
    remarks += tuple(not_examined("test", test=name) for name in runs if name not in tests)
    if size < MAX_REPLICATES:
        make(close_to_level(combine(tests, alpha)), MAX_REPLICATES, more)
    if "chains" in tests and np.isnan(tests["chains"].pvalue):
        del tests["chains"]
        remarks += (not_examined("agreement"),)
    if "moments" in tests and np.isnan(tests["moments"].pvalue):
        remarks += remarks_of("not examined", *tests.pop("moments").warnings)
        remarks += () if "kernel" in tests else (reason("skew"),)
    for one in tests.values():
        remarks += remarks_of("warning", *one.warnings)
        floor = len(tests) * one.pvalue_floor
        if floor > alpha:
            remarks += (reason("level", test=one.test, alpha=alpha, floor=floor),)
    found = combine(tests, alpha)
    return found._replace(improbable_rows=improbable, remarks=remarks + unknown, made=case.end("tests"))


def _unknown_mode_remarks(case: Case, modes: Modes) -> tuple[Remark, ...]:
    """Climb from some draws: a large share at unknown modes makes a non-rejection inconclusive."""
    part = case.sample.rows(case.scored)
    if not len(part.x) or case.budget.left < COSTS["climbs"]:
        return (not_examined("climbs"),)
    n_unknown, places = climb_from_draws(part.x, part.scores, case.target, modes, case.budget)
    if not n_unknown:
        return ()
    where = mode_descriptions(*to_constrained(places[:1], case.target))[0]
    found = reason("unknown modes", n=n_unknown, examined=len(part.x), where=where)
    many = n_unknown > USUAL_TOLERANCE * len(part.x)
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


def _applicable_tests(case: Case, known: CaseModes) -> tuple[dict[str, Run], tuple[Remark, ...]]:
    """The tests that draws and budget allow, in the order of the verdict, and why others are not made."""
    few = case.sample.effective_size < MIN_DRAWS <= len(case.values)  # a few heavy weights decide
    if known.improper or not case.valid or few:
        return {}, ()
    modes, budget = known.modes, case.budget
    rows = np.intersect1d(known.rows, case.scored)
    part = case.sample.rows(rows)
    least = min(MIN_DRAWS, len(known.rows))
    runs: dict[str, Run] = {}
    remarks: tuple[Remark, ...] = ()
    if len(rows) < least:
        remarks = (reason("few scores", n=len(rows), least=MIN_DRAWS),)
    elif case.smooth:
        runs, remarks = _shape_tests(case, rows, modes)
    if len(modes) > 1 and budget.left < least * (len(modes) - 1):
        remarks += (not_examined("weights"),)
    elif len(modes) > 1:
        tested = case.sample.rows(known.rows)
        runs["weights"] = known.rows, partial(flux_core, tested, case.counted, modes, budget=budget)
    if part.chain is not None and len(rows):  # in the means of Stein features, which are 0 within every mode
        features = plain_features(part, average_root(modes.covariances))
        runs["chains"] = rows, partial(agreement, features, part.chain)
    return runs, remarks


def _shape_tests(case: Case, rows: np.ndarray, modes: Modes) -> tuple[dict[str, Run], tuple[Remark, ...]]:
    """Kernel and moment test, unless the chains are too short."""
    part = case.sample.rows(rows)
    whiten = average_root(modes.covariances)
    blocks = cut = None
    remarks: tuple[Remark, ...] = ()
    step = -(-len(rows) // MAX_KERNEL_DRAWS)
    some = np.arange(0, len(rows), step)
    if part.chain is not None:
        blocks = blocks_of_chains(part, whiten)
        if not blocks.enough:
            return {}, (reason("stuck chain" if blocks.stuck else "short chains", remedy=blocks.remedy),)
        remarks = remarks_of("context", shape_context(len(rows), blocks.record))
        cut = moment_blocks(blocks, plain_features(part, whiten), part.chain)
        blocks = replace(blocks, label=blocks.label[::step])
    if len(some) < len(rows):
        remarks += (not_examined("some draws", n=len(rows)),)
    units = modes if widths_differ(modes) else None  # of each mode, or of the average covariance

    def kernel_test(n_resamples: int, rng: np.random.Generator) -> GofResult:
        size = n_resamples + 1  # of both sets: in the others the draws themselves are one of the replicates
        options = QuadraticOptions(bootstrap="blocks", n_resamples=size)
        aggregation = Aggregation(n_level_resamples=size, alpha=case.settings["alpha"])
        common: dict[str, Any] = {"whiten": whiten, "modes": units, "blocks": blocks}
        return ksdagg_core(part.rows(some), options, aggregation, Streams(*rng.spawn(7)), **common)[0]

    skew = skew_warnings(part.scores @ whiten, part, units)
    runs: dict[str, Run] = {} if skew else {"kernel": (rows[some], kernel_test)}
    remarks += tuple(not_examined("kernel", why=why) for why in skew)
    if len(rows) < MIN_MOMENT_DRAWS or (cut is not None and not cut.enough):
        remarks += () if runs else (reason("skew"),)
        return runs, (*remarks, not_examined("moments", least=MIN_MOMENT_DRAWS))
    rays = case.counted.log_density if case.budget.left >= COSTS["rays"] else None
    test = partial(moment_core, part, modes, user_parameters(case.target), blocks=cut, log_density=rays)
    return runs | {"moments": (rows, test)}, remarks


class Measured(NamedTuple):
    """How far off the draws' own numbers are."""

    parameters: tuple[ParameterAccuracy, ...]  #: one per parameter of the user, NaN where unknown
    mode_table: ModeTable | None  #: shares of the modes, if there are several
    mode_moments: tuple[np.ndarray, np.ndarray] | None = None
    k_hat: float | None = None  #: None without log q
    answer: bool | None = None  #: whether all errors, those of shares too, are within the tolerance
    wrong_shares: np.ndarray = np.arange(0)  #: (M,) which shares are outside it
    remarks: tuple[Remark, ...] = ()
    made: int = 0  #: evaluations when the step ended


def measure(case: Case, known: CaseModes, tested: Tested, rng: np.random.Generator) -> Measured:
    """Means, standard deviations and shares of the density beside those of the draws."""
    found = _measured(case, known, tested, rng)
    right = True if len(known.modes) == 1 else None
    if found.mode_table is not None:
        table = found.mode_table
        wider = stats.norm.ppf(0.025 / len(table)) / stats.norm.ppf(0.025)  # to hold jointly
        error = table.error[:, None]
        low, high = (error + wider * (table.error_interval - error)).T
        wrong = (low > case.tolerance) | (high < -case.tolerance)
        within = True if np.all(np.abs(table.error_interval) <= case.tolerance) else None
        right = False if wrong.any() else within
        found = found._replace(wrong_shares=wrong)
    answers = (found.answer, right) if case.valid else (None,)
    within = True if all(answers) else None
    answer = False if False in answers else within
    remarks = found.remarks
    harmless = [None, "light modes"]  # where all modes but one are light there is nothing to compare
    if case.sample.weight is not None and right:
        harmless.append("stuck chains")  # weights have set the shares: they are a fact
    if tested.weights is not None and tested.weights.inconclusive_reason not in harmless:
        remarks += (Remark("reason", *weight_reason_and_remedy(tested.weights)),)
    if case.settings["tolerance"] is not None and case.valid and answer is None:
        remarks += (reason("tolerance", tolerance=case.tolerance),)
    made = case.end("accuracy")
    return found._replace(answer=answer, remarks=remarks, made=made)


def _measured(case: Case, known: CaseModes, tested: Tested, rng: np.random.Generator) -> Measured:
    """What walkers and weights say of the density, not yet compared with the tolerance.

    Walkers start at tested and held-out draws, not at improbable ones, unless all are; the means and sds of
    the draws are those of all. Where the shape is wrong, the shares of the density are those that the walkers
    imply, not the draws; walkers that remember where they started do not know them either.
    """
    table = None if tested.weights is None else tested.weights.mode_table
    unknown = len(known.modes) > 1 and table is None
    if known.improper or unknown or len(case.scored) < len(case.values):
        return Measured(_parameters(case, ()), table, remarks=(not_examined("accuracy"),))
    sample = case.sample.rows(np.setdiff1d(np.arange(len(case.values)), tested.improbable_rows))
    sample = sample if len(sample.x) else case.sample
    shares = None if tested.wrong_shape else table
    found = accuracy_core(sample, case.target, known.modes, mode_table=shares, budget=case.budget, rng=rng)
    records, k_hat, remarks = found.parameters, None, remarks_of("not examined", *found.warnings)
    if case.log_q is not None:
        k_hat, weighted = importance_accuracy(case.sample, case.target, case.log_q)
        records = better_records(records, k_hat, weighted)
        remarks += remarks_of("context", words.k_hat_text(k_hat))
    if tested.wrong_shape and table is not None and found.mode_table is not None:
        certain = 1.0 if all(record.forgotten for record in records) else np.nan
        fields = ("implied", "implied_interval", "implied_covariance")
        table = replace(table, **{name: certain * getattr(found.mode_table, name) for name in fields})
    parameters = _parameters(case, records)
    names = {item.parameter for item in records}
    whole = replace(found, parameters=tuple(item for item in parameters if item.parameter in names))
    answer = whole.answer(case.tolerance)
    return Measured(parameters, table, found.mode_moments, k_hat, answer, remarks=remarks)


def _parameters(case: Case, records: tuple[ParameterAccuracy, ...]) -> tuple[ParameterAccuracy, ...]:
    """One record per parameter, with the numbers of all draws and of the chains."""
    by_name = {item.parameter: item for item in records}
    mean = np.average(case.values, axis=0, weights=case.sample.weight)
    sd = np.sqrt(np.average((case.values - mean) ** 2, axis=0, weights=case.sample.weight))
    sd[np.ptp(case.values, axis=0) == 0] = 0.0  # and not what the mean is rounded by
    columns = ("draws_mean", "draws_sd", "ess_bulk", "ess_tail", "r_hat")
    numbers = np.stack([mean, sd, *case.mixing], axis=1).tolist()
    return tuple(
        replace(by_name.get(name, ParameterAccuracy(name)), **dict(zip(columns, row, strict=True)))
        for name, row in zip(case.names, numbers, strict=True)
    )
