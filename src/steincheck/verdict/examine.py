"""The tests of a verdict, taken together at one level, and the accuracy of the draws' own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

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
    KsdaggResult,
    Modes,
    ModeTable,
    MomentResult,
    ParameterAccuracy,
    among_all,
)
from ..stein.kernels import IMQ
from ..stein.quadratic import QuadraticOptions, chain_blocks, spawn_streams, widths_differ
from ..wording import verdict as words
from ..wording.draws import effective_size
from ..wording.verdict import Remark, remarks_of
from .case import COSTS, MIN_DRAWS, Case, CaseModes, unknown_mode_remarks

MAX_REPLICATES = 10_000  # where 1,000 leave open on which side of the level a p-value is
MAX_KERNEL_DRAWS = 50_000  # the kernel test costs n^2: beyond, it looks at evenly spaced draws


class Run(NamedTuple):
    """A test of some rows of the draws, as a function of the number of replicates and a stream."""

    rows: np.ndarray
    test: Callable[[int, np.random.Generator], GofResult]

    def __call__(self, size: int, rng: np.random.Generator, n: int) -> GofResult:
        """The result, as one about all `n` draws."""
        return among_all(self.test(size, rng), self.rows, n)


class TestStreams(NamedTuple):
    """One random stream per test."""

    kernel: np.random.Generator
    moments: np.random.Generator
    weights: np.random.Generator
    chains: np.random.Generator


class Tested(NamedTuple):
    """Results of the tests, rows of draws of negligible probability, and what is said beside them."""

    tests: dict[str, GofResult]
    improbable_rows: np.ndarray
    remarks: tuple[Remark, ...]

    @property
    def weights(self) -> FluxResult | None:
        """The test of the mode weights, if it ran."""
        result = self.tests.get("weights")
        return result if isinstance(result, FluxResult) else None

    @property
    def mode_table(self) -> ModeTable | None:
        """Shares of the modes, if there are several."""
        return None if self.weights is None else self.weights.mode_table


def run_tests(case: Case, known: CaseModes, alpha: float, rng: np.random.Generator) -> Tested:
    """The tests that apply; with more replicates where it is open on which side of the level they are."""
    improbable = _improbable_rows(case, known.modes)
    unknown = unknown_mode_remarks(case, known)
    if known.improper or not case.valid:
        return Tested({}, improbable, unknown)
    runs, remarks = _applicable_tests(case, known, alpha)
    streams = TestStreams(*rng.spawn(4))._asdict()
    size = int(np.clip(50 / alpha, 1000, MAX_REPLICATES))  # enough for the smallest threshold of Holm
    n = len(case.values)
    tests = {name: run(size, streams[name], n) for name, run in runs.items()}
    more = TestStreams(*rng.spawn(4))._asdict()
    close = combine(tests, alpha).close_to_level if size < MAX_REPLICATES else []
    tests |= {name: runs[name](MAX_REPLICATES, more[name], n) for name in close}
    if "chains" in tests and np.isnan(tests["chains"].pvalue):
        del tests["chains"]
        remarks += remarks_of("not examined", words.Phrases.few_blocks)
    remarks += remarks_of("warning", *(text for result in tests.values() for text in result.warnings))
    return Tested(tests, improbable, remarks + unknown)


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
    runs: dict[str, Run] = {}
    remarks: tuple[Remark, ...] = ()
    if len(rows) < min(MIN_DRAWS, len(known.rows)):
        remarks = (words.few_scores(len(rows), MIN_DRAWS),)
    elif case.smooth:
        runs, remarks = _shape_tests(case, rows, known.modes, alpha)
    if len(known.modes) > 1:
        if case.budget.left >= min(MIN_DRAWS, len(known.rows)) * (len(known.modes) - 1):
            runs["weights"] = Run(known.rows, partial(_weight_test, case, known))
        else:
            remarks += remarks_of("not examined", words.Phrases.weights)
    if part.chain is not None and len(rows):
        runs["chains"] = Run(rows, partial(_agreement_test, part, known.modes))
    return runs, remarks


def _weight_test(case: Case, known: CaseModes, size: int, rng: np.random.Generator) -> FluxResult:
    part = case.sample.rows(known.rows)
    return flux_core(part, case.counted, known.modes, n_resamples=size - 1, budget=case.budget, rng=rng)


def _agreement_test(part: Sample, modes: Modes, size: int, rng: np.random.Generator) -> GofResult:
    """Do the chains agree in the means of Stein features, t and z t + 1, which are 0 within every mode?"""
    assert part.chain is not None
    features = plain_features(part, average_root(modes.covariances))
    found = agreement(features, part.chain, rng, n_resamples=size - 1)
    return replace(found, dim=part.x.shape[1])


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
            return {}, (words.shape_untested(blocks.remedy),)
        remarks = remarks_of("context", effective_size(len(part.x), blocks.record))
        cut = moment_blocks(blocks, plain_features(part, whiten), part.chain)
    runs = {"kernel": Run(rows, partial(_kernel_test, part, whiten, modes, blocks, alpha))}
    if len(part.x) > MAX_KERNEL_DRAWS:
        remarks += remarks_of("not examined", words.thinned_kernel_test(len(part.x)))
    if len(part.x) < MIN_MOMENT_DRAWS or (cut is not None and not cut.enough):
        untested = words.moments_untested(None if cut is None else cut.remedy, MIN_MOMENT_DRAWS)
        return runs, remarks + remarks_of("not examined", untested)
    runs["moments"] = Run(rows, partial(_moment_test, case, part, modes, cut))
    return runs, remarks


def _moment_test(
    case: Case, part: Sample, modes: Modes, cut: Blocks | None, size: int, rng: np.random.Generator
) -> MomentResult:
    rays = case.counted.log_density if case.budget.left >= COSTS["rays"] else None
    parameters = user_parameters(case.target)
    return moment_core(part, modes, parameters, blocks=cut, log_density=rays, n_resamples=size - 1, rng=rng)


def _blocks_of_chains(part: Sample, whiten: np.ndarray) -> Blocks:
    """Blocks for the tests of the shape, by the autocorrelation time of the draws' contributions."""
    z = whitened(part.x, whiten)
    slopes = whitened_scores(part.scores, whiten)
    widths = collection(z, "reference", evenly=True)[::3]  # neighbours are alike
    assert part.chain is not None
    return chain_blocks(part.chain, [(z[None], slopes[None])], IMQ(), widths, part.weight)


def _kernel_test(
    part: Sample,
    whiten: np.ndarray,
    modes: Modes,
    blocks: Blocks | None,
    alpha: float,
    size: int,
    rng: np.random.Generator,
) -> KsdaggResult:
    """KSDAgg in units of the average covariance, or of each mode where their widths differ."""
    rows = np.arange(0, len(part.x), -(-len(part.x) // MAX_KERNEL_DRAWS))
    result, _ = ksdagg_core(
        part.rows(rows),
        QuadraticOptions(bootstrap="blocks", n_resamples=size),
        Aggregation(n_level_resamples=size, alpha=alpha),
        spawn_streams(rng),
        whiten=whiten,
        modes=modes if widths_differ(modes) else None,
        blocks=None if blocks is None else replace(blocks, label=blocks.label[rows]),
    )
    return among_all(result, rows, len(part.x))


class Combined(NamedTuple):
    """The tests that ran, taken together at one level."""

    tests: Mapping[str, GofResult]
    adjusted_pvalues: dict[str, float]  #: p-values, by Holm's method
    alpha: float

    @property
    def pvalue(self) -> float:
        """Smallest adjusted p-value; 1 if no test ran."""
        return min(self.adjusted_pvalues.values(), default=1.0)

    @property
    def rejected(self) -> bool:
        """Whether any test rejects."""
        return self.pvalue <= self.alpha

    @property
    def close_to_level(self) -> list[str]:
        """Tests whose adjusted p-value is within 3 Monte Carlo standard errors of the level."""
        simulated = {name: result for name, result in self.tests.items() if result.pvalue_floor > 0}
        gaps = {name: abs(self.adjusted_pvalues[name] - self.alpha) for name in simulated}
        return [
            name
            for name, result in simulated.items()
            if gaps[name]
            < 3 * self.adjusted_pvalues[name] * np.sqrt(result.pvalue_floor / max(result.pvalue, 1e-300))
        ]

    def rejects(self, name: str) -> bool:
        """Whether one test rejects; one that did not run does not."""
        return self.adjusted_pvalues.get(name, 1.0) <= self.alpha


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


def combine(tests: Mapping[str, GofResult], alpha: float) -> Combined:
    """Adjust the p-values by Holm's method; a test without a p-value counts as one with p = 1."""
    pvalues = {name: 1.0 if np.isnan(result.pvalue) else result.pvalue for name, result in tests.items()}
    return Combined(dict(tests), holm(pvalues), float(alpha))


class Measured(NamedTuple):
    """How far off the draws' own numbers are."""

    accuracy: AccuracyResult | None  #: None where it could not be estimated
    parameters: tuple[ParameterAccuracy, ...]  #: one per parameter of the user, NaN where unknown
    remarks: tuple[Remark, ...] = ()
    k_hat: float | None = None  #: None without log q


def measure(case: Case, known: CaseModes, tested: Tested, rng: np.random.Generator) -> Measured:
    """Means and standard deviations of the density beside those of the draws.

    Walkers do not start at improbable draws; the means and sds of the draws are those of all of them.
    """
    table = tested.mode_table
    if known.improper or (len(known.modes) > 1 and table is None) or len(case.scored) < len(case.values):
        return Measured(None, _parameters(case, ()), remarks_of("not examined", words.Phrases.accuracy))
    sample = case.sample.rows(np.setdiff1d(np.arange(len(case.values)), tested.improbable_rows))
    found = accuracy_core(sample, case.target, known.modes, mode_table=table, budget=case.budget, rng=rng)
    k_hat = None
    remarks = remarks_of("not examined", *found.warnings)
    if case.log_q is not None:
        k_hat, weighted = importance_accuracy(case.sample, case.target, case.log_q)
        found = replace(found, parameters=better_records(found.parameters, k_hat, weighted))
        mode = None if tested.weights is None else tested.weights.mode_of_draw
        remarks += remarks_of("context", *words.k_hat_texts(k_hat, case.sample.log_p - case.log_q, mode))
    known_errors = found.parameters if found.largest is not None else ()
    parameters = _parameters(case, known_errors)
    names = {item.parameter for item in known_errors}
    found = replace(found, parameters=tuple(item for item in parameters if item.parameter in names))
    return Measured(found, parameters, remarks, k_hat)


def _parameters(case: Case, accuracy: tuple[ParameterAccuracy, ...]) -> tuple[ParameterAccuracy, ...]:
    """One record per parameter, with the numbers of all draws and of the chains."""
    by_name = {item.parameter: item for item in accuracy}
    mixing = case.convergence
    of_chains = np.full((3, len(case.names)), np.nan)
    if mixing is not None:
        of_chains = np.array([mixing.ess_bulk, mixing.ess_tail, mixing.rhat])
    columns = ("draws_mean", "draws_sd", "ess_bulk", "ess_tail", "r_hat")
    numbers = np.stack([case.mean, case.sd, *of_chains], axis=1).tolist()
    return tuple(
        replace(by_name.get(name, ParameterAccuracy(name)), **dict(zip(columns, row, strict=True)))
        for name, row in zip(case.names, numbers, strict=True)
    )
