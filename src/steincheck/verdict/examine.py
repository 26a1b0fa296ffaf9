"""The tests that a verdict is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._whitening import average_root, whitened, whitened_scores
from ..aggregate import Aggregation, collection, ksdagg_core
from ..chains.blocks import Blocks, agreement
from ..chains.reading import Sample
from ..flux import flux_core
from ..moments.blocks import moment_blocks, plain_features
from ..moments.columns import user_parameters
from ..moments.core import MIN_MOMENT_DRAWS, moment_core
from ..moments.impossible import impossible_draws
from ..result import FluxResult, GofResult, KsdaggResult, Modes, ModeTable, among_all
from ..stein.inputs import spawn_streams
from ..stein.kernels import IMQ
from ..stein.mode_units import widths_differ
from ..stein.resampling import chain_blocks
from ..target import Target, discontinuity
from ..target.evaluation import Budget
from ..wording import draws as chain_words
from ..wording import verdict as words
from ..wording.draws import discontinuity_remedy, discontinuity_text
from ..wording.numbers import mode_descriptions
from .case import Case, ModesOfCase, Remarks, join_notes
from .plan import MIN_SCORED, MIN_WEIGHED, RAYS, SUPPORT

MAX_KERNEL_DRAWS = 50_000  # the kernel test costs n^2: beyond, it looks at evenly spaced draws


class TestStreams(NamedTuple):
    """One random stream per test."""

    kernel: np.random.Generator
    moments: np.random.Generator
    weights: np.random.Generator
    chains: np.random.Generator
    support: np.random.Generator


class Tested(NamedTuple):
    """Results of the tests, draws of negligible probability, and what is said beside them."""

    tests: dict[str, GofResult]
    impossible_rows: tuple[int, ...]
    notes: Remarks

    @property
    def weights(self) -> FluxResult | None:
        """The test of the mode weights, if it ran."""
        result = self.tests.get("weights")
        return result if isinstance(result, FluxResult) else None

    def improbable_rows(self, case: Case) -> np.ndarray:
        """Rows of draws whose log density is nearer to that of impossible draws than to the median."""
        log_p = case.sample.log_p
        lowest = log_p[list(self.impossible_rows)].max(initial=-np.inf)
        return np.flatnonzero(log_p <= 0.5 * (np.median(log_p) + lowest))

    @property
    def mode_table(self) -> ModeTable | None:
        """Shares of the modes, if there are several."""
        return None if self.weights is None else self.weights.mode_table


def run_tests(
    case: Case, target: Target, known: ModesOfCase, alpha: float, budget: Budget, rng: np.random.Generator
) -> Tested:
    """The tests that apply, in the order of the verdict, as far as the budget goes."""
    sample = case.sample
    rows: tuple[int, ...] = ()
    if case.valid and budget.left >= RAYS:
        rows = impossible_draws(target.log_density, sample.x, sample.log_p, known.modes).rows
    if known.improper or not case.valid:
        return Tested({}, rows, Remarks())
    streams = TestStreams(*rng.spawn(5))
    size = n_replicates(alpha)
    shape_rows = np.intersect1d(known.rows, case.scored)
    shape = Tested({}, (), Remarks(reasons=(words.few_scores(len(shape_rows), MIN_SCORED),)))
    if len(shape_rows) >= min(MIN_SCORED, len(known.rows)):
        shape = _shape_tests(sample.rows(shape_rows), target, known.modes, alpha, budget, streams)
    tests = {name: among_all(result, shape_rows, len(sample.x)) for name, result in shape.tests.items()}
    notes = [shape.notes]
    if len(known.modes) > 1:
        count = int(min(len(known.rows), budget.left // (len(known.modes) - 1)))
        thinned = known.rows[(np.arange(count) * len(known.rows)) // max(count, 1)]
        if count >= min(MIN_WEIGHED, len(known.rows)):
            tests["weights"] = _weight_test(sample, thinned, target, known.modes, size, streams.weights)
        else:
            notes.append(Remarks(not_examined=(words.Phrases.weights,)))
    if sample.chain is not None and len(shape_rows):
        agreed = _agreement_test(sample.rows(shape_rows), known.modes, size, streams.chains)
        if np.isnan(agreed.pvalue):
            notes.append(Remarks(not_examined=(words.Phrases.few_blocks,)))
        else:
            tests["chains"] = among_all(agreed, shape_rows, len(sample.x))
    notes.append(Remarks(warnings=tuple(text for result in tests.values() for text in result.warnings)))
    return Tested(tests, rows, join_notes(*notes))


def _weight_test(
    sample: Sample, rows: np.ndarray, target: Target, modes: Modes, size: int, rng: np.random.Generator
) -> FluxResult:
    result = flux_core(sample.rows(rows), target, modes, n_resamples=size - 1, rng=rng)
    return among_all(result, rows, len(sample.x))


def n_replicates(alpha: float) -> int:
    """Replicates of each test, the statistic included: enough for the smallest threshold of Holm."""
    return int(np.clip(50 / alpha, 1000, 10_000))


def _shape_tests(
    part: Sample, target: Target, modes: Modes, alpha: float, budget: Budget, streams: TestStreams
) -> Tested:
    """Kernel and moment test, unless the density jumps or the chains are too short."""
    size = n_replicates(alpha)
    notes = Remarks(not_examined=(words.Phrases.support,)) if budget.left < SUPPORT else Remarks()
    jumps = budget.left >= SUPPORT
    gap = discontinuity(target, part.x, part.log_p, streams.support, jumps=jumps)
    if gap is not None:
        where = mode_descriptions(gap.x[None], target.coordinate_names)[0]
        reason = words.discontinuity_reason(discontinuity_text(gap), where, discontinuity_remedy(gap))
        return Tested({}, (), Remarks(reasons=(reason,)))
    whiten = average_root(modes.covariances)
    blocks = None if part.chain is None else _blocks_of_chains(part, whiten)
    if blocks is not None:
        if not blocks.enough:
            return Tested({}, (), Remarks(reasons=(words.shape_untested(blocks.remedy),)))
        notes = join_notes(notes, Remarks(context=(chain_words.effective_size(len(part.x), blocks.record),)))
    kernel = _kernel_test(part, whiten, modes, blocks, alpha, size, streams.kernel)
    tests: dict[str, GofResult] = {"kernel": kernel}
    if kernel.tested_rows is not None:
        thinned = words.thinned_kernel_test(kernel.n_tested, kernel.n)
        notes = join_notes(notes, Remarks(not_examined=(thinned,)))
    cut = None
    if blocks is not None and part.chain is not None:
        cut = moment_blocks(blocks, plain_features(part.x, part.scores, whiten), part.chain)
    if len(part.x) < MIN_MOMENT_DRAWS or (cut is not None and not cut.enough):
        untested = words.moments_untested(None if cut is None else cut.remedy, MIN_MOMENT_DRAWS)
        return Tested(tests, (), join_notes(notes, Remarks(not_examined=(untested,))))
    tests["moments"] = moment_core(
        part.x,
        part.scores,
        modes,
        user_parameters(target),
        blocks=cut,
        log_density=target.log_density if budget.left >= RAYS else None,
        n_resamples=size - 1,
        rng=streams.moments,
    )
    return Tested(tests, (), notes)


def _blocks_of_chains(part: Sample, whiten: np.ndarray) -> Blocks:
    """Blocks for the tests of the shape, by the autocorrelation time of the draws' contributions."""
    z = whitened(part.x, whiten)
    slopes = whitened_scores(part.scores, whiten)
    widths = collection(z, None, evenly=True)[::3]  # neighbours are alike
    blocks = chain_blocks(part.chain, None, [(z[None], slopes[None])], IMQ(), widths)
    assert blocks is not None
    return blocks


def _agreement_test(part: Sample, modes: Modes, size: int, rng: np.random.Generator) -> GofResult:
    """Do the chains agree in the means of Stein features, t and z t + 1, which are 0 within every mode?"""
    assert part.chain is not None
    features = plain_features(part.x, part.scores, average_root(modes.covariances))
    found = agreement(features, part.chain, rng, n_resamples=size - 1)
    return replace(found, dim=part.x.shape[1])


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
    step = -(-len(part.x) // MAX_KERNEL_DRAWS)
    result = ksdagg_core(
        part.x[::step],
        part.scores[::step],
        Aggregation(bootstrap="blocks", n_resamples=size, n_level_resamples=size, alpha=alpha),
        whiten=whiten,
        modes=modes if widths_differ(modes) else None,
        blocks=None if blocks is None else replace(blocks, label=blocks.label[::step]),
        streams=spawn_streams(rng),
    )
    return among_all(result, np.arange(0, len(part.x), step), len(part.x))
