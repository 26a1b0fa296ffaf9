"""The tests that a verdict is made of, on one case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._whitening import average_root, whitened, whitened_scores
from ..aggregate import Aggregation, collection, ksdagg_core
from ..chains.blocks import Blocks
from ..chains.permutation import agreement_core
from ..flux.test import flux_core
from ..moments.blocks import moment_blocks, plain_features
from ..moments.columns import user_parameters
from ..moments.core import MIN_MOMENT_DRAWS, moment_core
from ..result import AgreementResult, FluxResult, GofResult, KsdaggResult, Modes, MomentResult, among_all
from ..stein.inputs import spawn_streams
from ..stein.kernels import IMQ
from ..stein.mode_units import widths_differ
from ..stein.resampling import chain_blocks
from ..target import Target, discontinuity
from ..wording import chain_shares, effective_size, mode_description, weight_context
from .case import Case, Remarks

MAX_KERNEL_DRAWS = 50_000  # the kernel test costs n^2: beyond, it looks at evenly spaced draws


def run_tests(
    case: Case,
    target: Target,
    known: Modes,
    alpha: float,
    streams: list[np.random.Generator],
    remarks: Remarks,
) -> dict[str, GofResult]:
    """The tests that apply, in the order of the verdict."""
    tests: dict[str, GofResult] = {}
    whiten = average_root(known.covariances)
    gap = discontinuity(target, case.x, case.log_p, streams[4])
    blocks = None
    if case.chain is not None:
        blocks = _blocks_of_chains(case, whiten)
        if not blocks.enough:
            remarks.inconclusive_reasons.append(f"the shape could not be tested: {blocks.remedy}")
    if gap is not None:
        where = mode_description(gap.x, target.coordinate_names)
        remarks.inconclusive_reasons.append(
            f"the density {gap.kind} near ({where}), and tests of the shape {gap.remedy}"
        )
    elif blocks is None or blocks.enough:
        tests["kernel"] = _kernel_test(case, whiten, known, blocks, alpha, streams[1], remarks)
        moments = _moment_test(case, target, known, blocks, alpha, streams[2], remarks)
        if moments is not None:
            tests["moments"] = moments
    if len(known) > 1:
        tests["weights"] = _weight_test(case, target, known, blocks, alpha, streams[3])
    weights = tests.get("weights")
    if isinstance(weights, FluxResult):
        remarks.context.extend(weight_context(weights))
    if blocks is not None:
        agreed = _agreement_test(case, whiten, alpha, streams[4])
        if np.isnan(agreed.pvalue):
            remarks.not_examined.append("whether the chains agree: there are too few blocks to compare")
        else:
            tests["chains"] = agreed
        remarks.context.append(effective_size(blocks, weights))
        remarks.context.extend(chain_shares(weights))
    return tests


def _n_replicates(alpha: float) -> int:
    """Replicates of each test, the statistic included: enough for the smallest threshold of Holm."""
    return int(np.clip(50 / alpha, 1000, 10_000))


def _blocks_of_chains(case: Case, whiten: np.ndarray) -> Blocks:
    """Blocks for the tests of the shape, by the autocorrelation time of the draws' contributions."""
    z = whitened(case.x, whiten)
    slopes = whitened_scores(case.scores, whiten)
    widths = collection(z, None, evenly=True)[::3]  # neighbours are alike
    blocks = chain_blocks(case.chain, None, [(z[None], slopes[None])], IMQ(), widths)
    assert blocks is not None
    return blocks


def _agreement_test(
    case: Case, whiten: np.ndarray, alpha: float, rng: np.random.Generator
) -> AgreementResult:
    """Do the chains agree in the means of Stein features, t and z t + 1, which are 0 within every mode?"""
    assert case.chain is not None
    features = plain_features(case.x, case.scores, whiten)
    found = agreement_core(features, case.chain, rng, n_resamples=_n_replicates(alpha) - 1)
    return replace(found, dim=case.x.shape[1])


def _kernel_test(
    case: Case,
    whiten: np.ndarray,
    known: Modes,
    blocks: Blocks | None,
    alpha: float,
    rng: np.random.Generator,
    remarks: Remarks,
) -> KsdaggResult:
    """KSDAgg in units of the average covariance, or of each mode where their widths differ."""
    step = -(-len(case.x) // MAX_KERNEL_DRAWS)
    if step > 1:
        remarks.not_examined.append(
            f"the shape at all draws: the cost of the kernel test grows as n^2, so it used one in {step} of "
            f"the {len(case.x)} draws; the other tests used all"
        )
    size = _n_replicates(alpha)
    result = ksdagg_core(
        case.x[::step],
        case.scores[::step],
        Aggregation(bootstrap="blocks", n_resamples=size, n_level_resamples=size, alpha=alpha),
        whiten=whiten,
        modes=known if widths_differ(known) else None,
        blocks=None if blocks is None else replace(blocks, label=blocks.label[::step]),
        streams=spawn_streams(rng),
    )
    return among_all(result, np.arange(0, len(case.x), step), len(case.x))


def _weight_test(
    case: Case, target: Target, known: Modes, blocks: Blocks | None, alpha: float, rng: np.random.Generator
) -> FluxResult:
    """The flux test."""
    return flux_core(
        case.x,
        case.log_p,
        target,
        known,
        chain=case.chain,
        tau_within=None if blocks is None else blocks.autocorrelation_time,
        n_resamples=_n_replicates(alpha) - 1,
        rng=rng,
        warnings=[],
    )


def _moment_test(
    case: Case,
    target: Target,
    known: Modes,
    blocks: Blocks | None,
    alpha: float,
    rng: np.random.Generator,
    remarks: Remarks,
) -> MomentResult | None:
    """The moment test, where there are draws enough for it."""
    cut = None
    if blocks is not None and case.chain is not None:
        whiten = average_root(known.covariances)
        cut = moment_blocks(blocks, plain_features(case.x, case.scores, whiten), case.chain)
    too_few = "" if cut is None else cut.remedy
    if len(case.x) < MIN_MOMENT_DRAWS:
        too_few = f"this requires at least {MIN_MOMENT_DRAWS} tested draws, these are {len(case.x)}"
    if too_few:
        remarks.not_examined.append(f"location, spread and correlation by themselves: {too_few}")
        return None
    return moment_core(
        case.x,
        case.scores,
        known,
        user_parameters(target),
        blocks=cut,
        log_density=target.log_density,
        n_resamples=_n_replicates(alpha) - 1,
        rng=rng,
    )
