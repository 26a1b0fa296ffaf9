"""Aggregated tests: many bandwidths (and perturbations), calibrated together by the smallest p-value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._validation import announce, as_count, as_positive, check_fraction, check_shape, resample_warnings
from ._whitening import whitened, whitened_scores
from .chains.blocks import Blocks
from .chains.reading import Sample
from .perturbation.maps import Accept
from .perturbation.move import Perturbation, as_jumps, perturbed_stack, requested_perturbation
from .result import KsdaggResult, Modes, PksdaggResult
from .stein.bootstrap import Bootstrap, MinP, min_p, wild
from .stein.kernels import IMQ, Kernel, median_squared_distance
from .stein.quadratic import (
    QuadraticOptions,
    Replicated,
    Stack,
    Streams,
    at_own_mode,
    chain_blocks,
    prepare,
    replicate,
    with_settings,
)
from .target import Target, score_at
from .typing import BoundsLike, DrawsLike, ModesLike, RandomSource
from .wording.results import warning

Collection = Literal["reference", "paper", "medians"]
SIZES: dict[str, int] = {"reference": 10, "paper": 11, "medians": 2}  # bandwidths in a collection


class Aggregation(NamedTuple):
    """What only aggregated tests take, as in `ksdagg_test`."""

    bandwidths: np.ndarray | Collection = "reference"
    bandwidth_weights: np.ndarray = np.full(10, 0.1)  # of the statistics
    n_level_resamples: int = 999
    alpha: float = 0.05


def ksdagg_test(
    draws: DrawsLike,
    target: Target,
    *,
    bandwidths: ArrayLike | Literal["paper"] | None = None,
    bandwidth_weights: ArrayLike | None = None,
    kernel: Kernel = IMQ(),
    precondition: ArrayLike | None = None,
    bootstrap: Bootstrap | Literal["blocks"] | None = None,
    n_resamples: int = 999,
    n_level_resamples: int = 999,
    alpha: float = 0.05,
    check_score: bool = True,
    independent: bool = False,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    rng: RandomSource = None,
) -> KsdaggResult:
    """KSD test aggregated over bandwidths (KSDAgg): no bandwidth to choose, no draws spent on choosing.

    H0: the draws are independent and come from the target. For each bandwidth the KSD statistic is compared
    with bootstrap replicates that share their signs; the test rejects if::

        p_k <= c w_k  for some k,

    p_k the p-values of the single tests, w the weights, and c as large as a second set of replicates allows
    at the level. The p-value is the smallest level at which this rejects.

    Parameters
    ----------
    draws, target, precondition, check_score, independent, weights, log_weights, rng
        As in `ksd_test`; Markov chains are tested as there.
    bandwidths : array, "paper" or None
        Bandwidths lambda in units of *squared* distance. By default ten, as in the reference implementation:
        b^2 for b from 1/d to the largest distance / d, evenly on the log scale; made for draws of unit scale,
        so give `precondition` for others. "paper": (median distance * 2^i)^2 for i = 0..10.
    bandwidth_weights : array, optional
        Weights of the bandwidths; positive, with sum 1. By default they are equal.
    kernel : IMQ, RBF or any object with `profile`
        Without a bandwidth of its own: it is used with each of `bandwidths`.
    bootstrap : callable or "blocks", optional
        As in `ksd_test`; by default `wild` for 50 to 10,000 draws, blocks otherwise. With blocks, as for
        Markov chains, one set of sign patterns serves both purposes.
    n_resamples, n_level_resamples : int
        Replicates for the single p-values, and for the level of the whole.
    alpha : float
        The level: of the thresholds in the result, and the default of its `reject`.

    Returns
    -------
    KsdaggResult

    References
    ----------
    Schrab, Guedj and Gretton (2022). KSD aggregated goodness-of-fit test. NeurIPS 35.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    >>> draws = np.random.default_rng(0).normal(scale=1.3, size=(500, 2))
    >>> sc.ksdagg_test(draws, target, rng=0).reject()
    True
    """
    inputs = prepare(locals(), aggregated=True)
    aggregation = _as_aggregation(bandwidths, bandwidth_weights, n_level_resamples, alpha)
    sample = inputs.sample._replace(scores=score_at(target, inputs.sample.x))
    spread = sample.x.std(axis=0)
    warnings = inputs.warnings
    if bandwidths is None and inputs.whiten is None and (spread.min() < 0.1 or spread.max() > 10):
        warnings = (*warnings, warning("other units", smallest=spread.min(), largest=spread.max()))
    result, found = ksdagg_core(sample, inputs.options, aggregation, inputs.streams, whiten=inputs.whiten)
    result = replace(result, warnings=(*warnings, *result.warnings))
    announce(result.warnings)
    return with_settings(result, inputs, found)


def ksdagg_core(
    sample: Sample,
    options: QuadraticOptions,
    aggregation: Aggregation,
    streams: Streams,
    *,
    whiten: np.ndarray | None = None,
    modes: Modes | None = None,
    blocks: Blocks | None = None,
) -> tuple[KsdaggResult, Replicated]:
    """The test of `ksdagg_test` on draws and their scores; `whiten` is L with precondition = L L'.

    `blocks` are those of the chains where they are known. With `modes` the kernel is a sum over modes, each
    in its own units; `whiten` is not used then, and the bootstrap must be one of blocks.
    """
    z = whitened(sample.x, whiten) if modes is None else at_own_mode(sample.x, modes)
    stack = (z[None], whitened_scores(sample.scores, whiten)[None])
    bandwidths = collection(z, aggregation.bandwidths, streams.bandwidth, evenly=sample.chain is not None)
    if blocks is None and sample.chain is not None and not callable(options.bootstrap):
        blocks = blocks_of_chains(sample, whiten, options.kernel, bandwidths)
    known = {"blocks": blocks, "modes": modes}
    fields, found = _aggregate([stack], sample, options, aggregation, bandwidths, streams, **known)
    fields["units"] = "common" if modes is None else "per mode"
    n, dim = sample.x.shape
    return KsdaggResult(test="KSDAgg test", n=n, dim=dim, **fields), found


def blocks_of_chains(
    sample: Sample,
    whiten: np.ndarray | None,
    kernel: Kernel = IMQ(),
    bandwidths: np.ndarray | Collection = "reference",
) -> Blocks:
    """Blocks of chains for all bandwidths together, by default those of the reference implementation."""
    assert sample.chain is not None
    z = whitened(sample.x, whiten)
    widths = collection(z, bandwidths, evenly=True)
    stack = (z[None], whitened_scores(sample.scores, whiten)[None])
    return chain_blocks(sample.chain, [stack], kernel, widths[::3], sample.weight)  # neighbours are alike


def pksdagg_test(
    draws: DrawsLike,
    target: Target,
    *,
    bandwidths: ArrayLike | Literal["paper"] | None = None,
    bandwidth_weights: ArrayLike | None = None,
    kernel: Kernel = IMQ(),
    precondition: ArrayLike | None = None,
    bootstrap: Bootstrap | Literal["blocks"] | None = None,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    theta: ArrayLike | None = None,
    n_steps: int | None = None,
    accept: Accept | None = None,
    perturbation: Perturbation | None = None,
    max_evaluations: int | None = None,
    max_seconds: float | None = 60.0,
    n_resamples: int = 999,
    n_level_resamples: int = 999,
    alpha: float = 0.05,
    check_score: bool = True,
    independent: bool = False,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    rng: RandomSource = None,
) -> PksdaggResult:
    """Perturbed KSD test aggregated over bandwidths: no split of the draws, no theta or bandwidth to choose.

    H0: the draws are independent and come from the target. For every bandwidth there are two statistics: that
    of the unperturbed draws (the fit within modes), and the sum of those of the draws perturbed with each
    theta (the weights of the modes). All are calibrated together as in `ksdagg_test`, with the same signs;
    the test rejects if for any bandwidth lambda and either statistic::

        p(lambda) <= c w(lambda)

    where w are the weights and c is the largest number for which that has probability alpha under H0.

    Parameters
    ----------
    draws, target, kernel, precondition, bootstrap, n_resamples, n_level_resamples, alpha, check_score
        As in `ksdagg_test`.
    independent, weights, log_weights, rng
        As in `ksdagg_test`; Markov chains are tested as there.
    bandwidths : array, "paper" or None
        As in `ksdagg_test`, but by default 1 and 4 times the median squared distance of the draws.
    bandwidth_weights : array, optional
        Weights of the statistics: of the unperturbed draws by bandwidth, then of the perturbed ones. By
        default a quarter for the former and three quarters for the latter.
    modes, bounds, theta, n_steps, accept, perturbation, max_evaluations, max_seconds
        As in `spksd_test`.

    Returns
    -------
    PksdaggResult

    References
    ----------
    Liu, Duncan and Gandy (2023). Using perturbation to improve goodness-of-fit tests based on kernelized
    Stein discrepancy. ICML.
    Schrab, Guedj and Gretton (2022). KSD aggregated goodness-of-fit test. NeurIPS 35.

    Examples
    --------
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> sc.pksdagg_test(target.sample(500, 0, weights=[1.0, 0.0]), target, rng=0).reject()
    True
    """
    arguments = locals()
    jumps = as_jumps(arguments)
    inputs = prepare(arguments | jumps.settings, aggregated=True)
    aggregation = _as_aggregation(bandwidths, bandwidth_weights, n_level_resamples, alpha, perturbed=True)
    moved, sample, rows, warnings = requested_perturbation(inputs, jumps)
    samples, scores = perturbed_stack(inputs, moved)
    stacks = [(samples[:1], scores[:1]), (samples[1:], scores[1:])]
    widths = collection(samples[0], aggregation.bandwidths, inputs.streams.bandwidth)
    fields, found = _aggregate(stacks, sample, inputs.options, aggregation, widths, inputs.streams)
    fields["warnings"] = (*inputs.warnings, *warnings, *fields["warnings"])
    fields |= {"modes": moved.modes, "theta": moved.theta, "acceptance": moved.acceptance}
    result = PksdaggResult(test="pKSDAgg test", n=len(sample.x), dim=target.dim, **fields)
    announce(result.warnings)
    return with_settings(result, inputs, found, rows)


def _aggregate(
    stacks: Sequence[Stack],
    sample: Sample,
    options: QuadraticOptions,
    aggregation: Aggregation,
    bandwidths: np.ndarray,
    streams: Streams,
    **known: Any,
) -> tuple[dict[str, Any], Replicated]:
    """What all aggregated results record of `stacks`, by `min_p` with two sets of replicates.

    With blocks one set serves both, the observed signs included. `known` are blocks and modes, as in
    `replicate`.
    """
    total = options._replace(n_resamples=options.n_resamples + aggregation.n_level_resamples)
    found = replicate(stacks, sample, total, bandwidths, streams, default=wild, **known)
    statistics, replicates = found.statistics, found.replicates
    weights, alpha = aggregation.bandwidth_weights, aggregation.alpha
    if not replicates.shape[1]:
        unknown = np.full(len(weights), np.nan)
        outcome = MinP(np.nan, np.nan, unknown, unknown, unknown, None)
    elif found.how.block is None:
        first, second = np.split(replicates, [options.n_resamples], axis=1)
        outcome = min_p(statistics, first, second, weights, alpha)
    else:
        every = np.column_stack([replicates, statistics])
        outcome = min_p(statistics, replicates, every, weights, alpha)
    few = resample_warnings(aggregation.n_level_resamples, "n_level_resamples")
    return {
        **outcome._asdict(),
        "statistic": -float(np.min(outcome.pvalues / weights)),
        "warnings": (*few, *found.how.warnings),
        "chains": found.how.chains,
        "bandwidths": np.tile(bandwidths, len(stacks)),
        "bandwidth_weights": weights,
        "statistics": statistics,
        "alpha": alpha,
    }, found


def collection(
    x: np.ndarray,
    bandwidths: np.ndarray | Collection,
    rng: np.random.Generator | None = None,
    *,
    evenly: bool = False,
) -> np.ndarray:
    """Bandwidths in units of squared distance: the given ones, or a collection by name.

    "reference" are those of the reference implementation. Its largest distance is taken among the first 500
    draws, or among 500 spread `evenly` over chains. "paper" and "medians" are multiples of the median squared
    distance.

    Examples
    --------
    >>> import numpy as np
    >>> collection(np.array([[0.0], [3.0]]), "reference").round(2)[[0, -1]]
    array([1., 9.])
    """
    if not isinstance(bandwidths, str):
        return bandwidths
    if bandwidths == "reference":
        from scipy.spatial.distance import pdist

        step = max(1, len(x) // 500) if evenly else 1
        farthest = pdist(x[::step][:500]).max(initial=2.0)
        return (farthest ** (np.arange(10) / 9) / x.shape[1]) ** 2
    return median_squared_distance(x, rng) * 4.0 ** np.arange(SIZES[bandwidths])


def _as_aggregation(
    bandwidths: Any, weights: Any, n_level_resamples: Any, alpha: Any, *, perturbed: bool = False
) -> Aggregation:
    """The user's options; weights are those of two statistics per bandwidth if `perturbed`."""
    check_fraction(alpha, "alpha")
    as_count(n_level_resamples, "n_level_resamples")
    if bandwidths is None:
        bandwidths = "medians" if perturbed else "reference"
    elif not isinstance(bandwidths, str):
        bandwidths = as_positive(bandwidths, "bandwidths")
    elif bandwidths != "paper":
        raise ValueError(f"`bandwidths` must be an array, None or 'paper', got {bandwidths!r}")
    count = SIZES[bandwidths] if isinstance(bandwidths, str) else len(bandwidths)
    shares = np.repeat([0.25, 0.75] if perturbed else [1.0], count) / count
    if weights is not None:
        values = as_positive(weights, "bandwidth_weights")
        check_shape(values, shares.shape, "bandwidth_weights", "one weight per statistic")
        if abs(values.sum() - 1) > 1e-8:
            raise ValueError(f"`bandwidth_weights` must have sum 1, got {values.tolist()}")
        shares = values
    return Aggregation(bandwidths, shares, n_level_resamples, alpha)
