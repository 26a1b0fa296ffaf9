"""The tests of a verdict, taken together at one level, and the accuracy of the draws' own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._whitening import average_root, whitened, whitened_scores
from ..accuracy import accuracy_core, better_records, importance_accuracy
from ..aggregate import Aggregation, collection, ksdagg_core
from ..chains.blocks import Blocks, agreement
from ..chains.reading import Sample
from ..flux import flux_core
from ..moments.core import (
    MIN_MOMENT_DRAWS,
    moment_blocks,
    moment_core,
    plain_features,
    user_parameters,
)
from ..moments.rays import impossible_draws
from ..result import (
    AccuracyResult,
    FluxResult,
    GofResult,
    Modes,
    ModeTable,
    ParameterAccuracy,
    among_all,
)
from ..stein.kernels import IMQ
from ..stein.quadratic import QuadraticOptions, chain_blocks, spawn_streams, widths_differ
from ..wording import verdict as words
from ..wording.draws import effective_size
from ..wording.verdict import Remark, remark, remarks_of
from .case import COSTS, MIN_DRAWS, Case, CaseModes, unknown_mode_remarks

MAX_REPLICATES = 10_000  # where 1,000 leave open on which side of the level a p-value is
MAX_KERNEL_DRAWS = 50_000  # the kernel test costs n^2: beyond, it looks at evenly spaced draws


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
    def pvalue(self) -> float:
        """Smallest adjusted p-value; 1 if no test ran."""
        return min(self.adjusted_pvalues.values(), default=1.0)

    @property
    def rejected(self) -> bool:
        """Whether any test rejects."""
        return self.pvalue <= self.alpha

    @property
    def wrong_shape(self) -> bool:
        """Whether a test of the shape rejects."""
        return self.rejects("kernel") or self.rejects("moments")

    def rejects(self, name: str) -> bool:
        """Whether one test rejects; one that did not run does not."""
        return self.adjusted_pvalues.get(name, 1.0) <= self.alpha

    @property
    def weights(self) -> FluxResult | None:
        """The test of the mode weights, if it ran."""
        result = self.tests.get("weights")
        return result if isinstance(result, FluxResult) else None

    @property
    def mode_table(self) -> ModeTable | None:
        """Shares of the modes, if there are several."""
        return None if self.weights is None else self.weights.mode_table

    @property
    def close_to_level(self) -> list[str]:
        """Tests whose adjusted p-value is within 3 Monte Carlo standard errors of the level."""
        found = []
        for name, result in self.tests.items():
            adjusted = self.adjusted_pvalues[name]
            error = adjusted * np.sqrt(result.pvalue_floor / max(result.pvalue, 1e-300))
            if result.pvalue_floor > 0 and abs(adjusted - self.alpha) < 3 * error:
                found.append(name)
        return found


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


def run_tests(case: Case, known: CaseModes, alpha: float, rng: np.random.Generator) -> Tested:
    """The tests that apply; with more replicates where it is open on which side of the level they are."""
    improbable = _improbable_rows(case, known.modes)
    unknown = unknown_mode_remarks(case, known.modes)
    if known.improper or not case.valid:
        return Tested({}, {}, alpha, improbable, unknown)
    runs, remarks = _applicable_tests(case, known, alpha)
    names = ("kernel", "moments", "weights", "chains")
    streams, more = (dict(zip(names, rng.spawn(4), strict=True)) for _ in range(2))

    def results(chosen: Iterable[str], size: int, rngs: Mapping[str, Any]) -> dict[str, GofResult]:
        made = {name: runs[name].test(n_resamples=size - 1, rng=rngs[name]) for name in chosen}
        n, dim = case.sample.x.shape
        return {k: replace(among_all(result, runs[k].rows, n), dim=dim) for k, result in made.items()}

    size = int(np.clip(50 / alpha, 1000, MAX_REPLICATES))  # enough for the smallest threshold of Holm
    tests = results(runs, size, streams)
    if size < MAX_REPLICATES:
        tests |= results(combine(tests, alpha).close_to_level, MAX_REPLICATES, more)
    if "chains" in tests and np.isnan(tests["chains"].pvalue):
        del tests["chains"]
        remarks += (remark("agreement"),)
    remarks += remarks_of("warning", *(text for result in tests.values() for text in result.warnings))
    return combine(tests, alpha)._replace(improbable_rows=improbable, remarks=remarks + unknown)


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
    remarks: tuple[Remark, ...] = ()
    k_hat: float | None = None  #: None without log q


def measure(case: Case, known: CaseModes, tested: Tested, rng: np.random.Generator) -> Measured:
    """Means and standard deviations of the density beside those of the draws.

    Walkers do not start at improbable draws; the means and sds of the draws are those of all of them. Where
    the shape is wrong, the shares of the density are those that the walkers imply, not the draws.
    """
    table = None if tested.wrong_shape else tested.mode_table
    unknown = len(known.modes) > 1 and tested.mode_table is None
    if known.improper or unknown or len(case.scored) < len(case.values):
        return Measured(None, _parameters(case, ()), (remark("accuracy"),))
    sample = case.sample.rows(np.setdiff1d(np.arange(len(case.values)), tested.improbable_rows))
    found = accuracy_core(sample, case.target, known.modes, mode_table=table, budget=case.budget, rng=rng)
    k_hat = None
    remarks = remarks_of("not examined", *found.warnings)
    if case.log_q is not None:
        k_hat, weighted = importance_accuracy(case.sample, case.target, case.log_q)
        found = replace(found, parameters=better_records(found.parameters, k_hat, weighted))
        remarks += remarks_of("context", words.k_hat_text(k_hat))
    known_errors = found.parameters if found.largest is not None else ()
    parameters = _parameters(case, known_errors)
    names = {item.parameter for item in known_errors}
    found = replace(found, parameters=tuple(item for item in parameters if item.parameter in names))
    return Measured(found, parameters, remarks, k_hat)


def with_shares(tested: Tested, accuracy: AccuracyResult | None) -> Tested:
    """The tests, with the shares of the density by which the accuracy was found.

    Walkers that remember where they started do not know the shares, and draws of a wrong shape do not either.
    """
    weights, of_draws = tested.weights, tested.mode_table
    if accuracy is None or accuracy.mode_table is None or weights is None or of_draws is None:
        return tested
    unknown = 1.0
    if tested.wrong_shape and not all(record.forgotten for record in accuracy.parameters):
        unknown = np.nan
    names = ("implied", "implied_interval", "implied_covariance")
    implied = {name: unknown * getattr(accuracy.mode_table, name) for name in names}
    tests = {**tested.tests, "weights": replace(weights, mode_table=replace(of_draws, **implied))}
    return tested._replace(tests=tests)


def _parameters(case: Case, accuracy: tuple[ParameterAccuracy, ...]) -> tuple[ParameterAccuracy, ...]:
    """One record per parameter, with the numbers of all draws and of the chains."""
    by_name = {item.parameter: item for item in accuracy}
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
