"""Aggregated tests: many bandwidths (and perturbations), calibrated together by the smallest p-value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ._validation import (
    RandomSource,
    announce,
    as_count,
    as_numbers,
    as_positive,
    check_level,
    resample_warnings,
)
from ._whitening import whitened, whitened_scores
from .chains.blocks import Blocks
from .perturbation.maps import Accept
from .perturbation.move import Perturbation, as_jumps, jump_settings, requested_perturbation
from .result import KsdaggResult, Modes, PksdaggResult
from .stein.bootstrap import Bootstrap, MinP, min_p, wild
from .stein.inputs import Prepared, QuadraticOptions, Streams, prepare
from .stein.kernels import IMQ, Kernel, check_kernel_of_bandwidths, median_squared_distance
from .stein.mode_units import at_own_mode, replicate_over_modes
from .stein.quadratic import Replicated, replicated_statistics, scores_of_moved
from .stein.resampling import Resampling, chain_blocks, resampling, with_settings
from .target import Target, score_at
from .typing import BoundsLike, DrawsLike, ModesLike
from .wording.results import other_units


@dataclass(frozen=True)
class Aggregation:
    """Options of an aggregated test, as in `ksdagg_test`."""

    bandwidths: np.ndarray | Literal["paper"] | None = None
    bandwidth_weights: np.ndarray | None = None  # of the statistics; None for the default of the test
    kernel: Kernel = IMQ()
    bootstrap: Bootstrap | Literal["blocks"] | None = None
    n_resamples: int = 999
    n_level_resamples: int = 999
    alpha: float = 0.05

    @property
    def total(self) -> int:
        """Number of replicates in all."""
        return self.n_resamples + self.n_level_resamples


def ksdagg_test(
    draws: DrawsLike,
    target: Target,
    *,
    bandwidths: ArrayLike | Literal["paper"] | None = None,
    bandwidth_weights: ArrayLike | Literal["uniform"] | None = None,
    kernel: Kernel = IMQ(),
    precondition: ArrayLike | None = None,
    bootstrap: Bootstrap | Literal["blocks"] | None = None,
    n_resamples: int = 999,
    n_level_resamples: int = 999,
    alpha: float = 0.05,
    check_score: bool = True,
    independent: bool = False,
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
    draws, target, precondition, check_score, independent, rng
        As in `ksd_test`; Markov chains are tested as there.
    bandwidths : array, "paper" or None
        Bandwidths lambda in units of *squared* distance. By default ten, as in the reference implementation:
        b^2 for b from 1/d to the largest distance / d, evenly on the log scale; made for draws of unit scale,
        so give `precondition` for others. "paper": (median distance * 2^i)^2 for i = 0..10.
    bandwidth_weights : array or "uniform", optional
        Weights of the bandwidths; positive, with sum 1. By default they are equal, as with "uniform".
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
    chosen = _as_collection(bandwidths, bandwidth_weights, 1)
    options = Aggregation(*chosen, kernel, bootstrap, n_resamples, n_level_resamples, alpha)
    asked = QuadraticOptions(kernel, precondition, bootstrap, n_resamples, check_score, independent)
    inputs = _prepare(draws, target, options, asked, rng)
    spread = inputs.sample.x.std(axis=0)
    if bandwidths is None and inputs.whiten is None and (spread.min() < 0.1 or spread.max() > 10):
        inputs = replace(inputs, warnings=(*inputs.warnings, other_units(spread.min(), spread.max())))
    result = ksdagg_core(
        inputs.sample.x,
        score_at(target, inputs.sample.x),
        options,
        whiten=inputs.whiten,
        chain=inputs.sample.chain,
        streams=inputs.streams,
    )
    result = replace(result, warnings=(*inputs.warnings, *result.warnings))
    announce(result.warnings)
    return with_settings(
        result,
        inputs,
        wild,
        bandwidths=bandwidths,
        bandwidth_weights=bandwidth_weights,
        n_level_resamples=n_level_resamples,
        alpha=alpha,
    )


def ksdagg_core(
    x: np.ndarray,
    scores: np.ndarray,
    options: Aggregation,
    *,
    streams: Streams,
    whiten: np.ndarray | None = None,
    modes: Modes | None = None,
    chain: np.ndarray | None = None,
    blocks: Blocks | None = None,
) -> KsdaggResult:
    """The test of `ksdagg_test` on validated draws; `whiten` is L with precondition = L L'.

    `chain` (n,) numbers the chains of the draws, None for independent draws; `blocks` are those of the chains
    where they are known. With `modes` the kernel is a sum over modes, each in its own units; `whiten` is not
    used then, and the bootstrap must be one of blocks.
    """
    z = whitened(x, whiten) if modes is None else at_own_mode(x, modes)
    stack = (z[None], whitened_scores(scores, whiten)[None])
    dependent = chain is not None or blocks is not None
    bandwidths = collection(z, options.bandwidths, streams.bandwidth, evenly=dependent)
    weights = options.bandwidth_weights
    if weights is None:
        weights = np.full(len(bandwidths), 1 / len(bandwidths))
    some = bandwidths[::3]  # neighbours are alike
    blocks = blocks or chain_blocks(chain, options.bootstrap, [stack], options.kernel, some)
    resampled = resampling(x, options.bootstrap, wild, options.total, streams, blocks)
    if modes is None:
        found = replicated_statistics(*stack, options.kernel, bandwidths, resampled)
    else:
        found = replicate_over_modes(x, scores, modes, options.kernel, bandwidths, resampled)
    fields = _aggregate(found, resampled, options, bandwidths, weights)
    units: Literal["common", "per mode"] = "common" if modes is None else "per mode"
    return KsdaggResult(test="KSDAgg test", n=len(x), dim=x.shape[1], units=units, **fields)


def pksdagg_test(
    draws: DrawsLike,
    target: Target,
    *,
    bandwidths: ArrayLike | Literal["paper"] | None = None,
    bandwidth_weights: ArrayLike | Literal["uniform"] | None = None,
    kernel: Kernel = IMQ(),
    precondition: ArrayLike | None = None,
    bootstrap: Bootstrap | Literal["blocks"] | None = None,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    theta: ArrayLike | None = None,
    n_steps: int | None = None,
    accept: Accept | None = None,
    perturbation: Perturbation | None = None,
    n_resamples: int = 999,
    n_level_resamples: int = 999,
    alpha: float = 0.05,
    check_score: bool = True,
    independent: bool = False,
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
    independent, rng
        As in `ksdagg_test`; Markov chains are tested as there.
    bandwidths : array, "paper" or None
        As in `ksdagg_test`, but by default 1 and 4 times the median squared distance of the draws.
    bandwidth_weights : array or "uniform", optional
        Weights of the statistics: of the unperturbed draws by bandwidth, then of the perturbed ones. By
        default a quarter for the former and three quarters for the latter.
    modes, bounds, theta, n_steps, accept, perturbation
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
    chosen = _as_collection(bandwidths, bandwidth_weights, 2)
    options = Aggregation(*chosen, kernel, bootstrap, n_resamples, n_level_resamples, alpha)
    jumps = as_jumps(target, modes, bounds, theta, n_steps, accept, perturbation)
    asked = QuadraticOptions(kernel, precondition, bootstrap, n_resamples, check_score, independent)
    inputs = _prepare(draws, target, options, asked, rng)
    moved, chain, rows, warnings = requested_perturbation(inputs, target, jumps)
    result = _pksdagg(score_at(target, moved.draws), target, moved, options, inputs, chain)
    result = replace(result, warnings=(*inputs.warnings, *warnings, *result.warnings))
    announce(result.warnings)
    return with_settings(
        result,
        inputs,
        wild,
        rows,
        bandwidths=bandwidths,
        bandwidth_weights=bandwidth_weights,
        n_level_resamples=n_level_resamples,
        alpha=alpha,
        **jump_settings(jumps),
    )


def _pksdagg(
    scores: np.ndarray,
    target: Target,
    moved: Perturbation,
    options: Aggregation,
    inputs: Prepared,
    chain: np.ndarray | None,
) -> PksdaggResult:
    """The test of `pksdagg_test` on a perturbation; `scores` and `chain` are of its unperturbed draws."""
    x, whiten, streams = moved.draws, inputs.whiten, inputs.streams
    z = whitened(x, whiten)
    if options.bandwidths is None:
        bandwidths = median_squared_distance(z, streams.bandwidth) * np.array([1.0, 4.0])
    else:
        bandwidths = collection(z, options.bandwidths, streams.bandwidth)
    weights = options.bandwidth_weights
    if weights is None:
        weights = np.repeat([0.25, 0.75], len(bandwidths)) / len(bandwidths)
    slopes = scores_of_moved(target, x, scores, moved.samples)
    stacks = [
        (z[None], whitened_scores(scores, whiten)[None]),
        (whitened(moved.samples, whiten), whitened_scores(slopes, whiten)),
    ]
    blocks = chain_blocks(chain, options.bootstrap, stacks, options.kernel, bandwidths)
    resampled = resampling(x, options.bootstrap, wild, options.total, streams, blocks)
    parts = [replicated_statistics(*stack, options.kernel, bandwidths, resampled) for stack in stacks]
    found = Replicated(
        np.concatenate([part.statistics for part in parts]),
        np.concatenate([part.replicates for part in parts]),
        None,
    )
    fields = _aggregate(found, resampled, options, np.tile(bandwidths, 2), weights)
    return PksdaggResult(
        test="pKSDAgg test",
        n=len(x),
        dim=x.shape[1],
        **fields,
        modes=moved.modes,
        theta=moved.theta,
        acceptance=moved.acceptance,
    )


def _aggregate(
    found: Replicated,
    resampled: Resampling,
    options: Aggregation,
    bandwidths: np.ndarray,
    weights: np.ndarray,
) -> dict[str, Any]:
    """What all aggregated results record, by `min_p` with two sets of replicates.

    With blocks one set serves both, the observed signs included.
    """
    replicates = found.replicates
    if not replicates.shape[1]:
        unknown = np.full(len(weights), np.nan)
        outcome = MinP(np.nan, np.nan, unknown, unknown, unknown, np.empty(0))
    elif resampled.block is None:
        first, second = np.split(replicates, [options.n_resamples], axis=1)
        outcome = min_p(found.statistics, first, second, weights, options.alpha)
    else:
        every = np.column_stack([replicates, found.statistics])
        outcome = min_p(found.statistics, replicates, every, weights, options.alpha)
    return {
        "statistic": -float(np.min(outcome.pvalues / weights)),
        "pvalue": outcome.pvalue,
        "null_distribution": outcome.null if len(outcome.null) else None,
        "warnings": resampled.warnings,
        "chains": resampled.chains,
        "bandwidths": bandwidths,
        "bandwidth_weights": weights,
        "statistics": found.statistics,
        "pvalues": outcome.pvalues,
        "pvalue_floor": outcome.floor,
        "alpha": options.alpha,
        "levels": outcome.levels,
        "thresholds": outcome.thresholds,
    }


def collection(
    x: np.ndarray,
    bandwidths: np.ndarray | Literal["paper"] | None,
    rng: np.random.Generator | None = None,
    *,
    evenly: bool = False,
) -> np.ndarray:
    """Bandwidths in units of squared distance: the given ones, or a collection by name.

    The largest distance is taken among the first 500 draws, or among 500 spread `evenly` over chains.

    Examples
    --------
    >>> import numpy as np
    >>> collection(np.array([[0.0], [3.0]]), None).round(2)[[0, -1]]
    array([1., 9.])
    """
    if bandwidths is None:
        from scipy.spatial.distance import pdist

        step = max(1, len(x) // 500) if evenly else 1
        farthest = pdist(x[::step][:500]).max(initial=2.0)  # 500 as in the reference implementation
        return (farthest ** (np.arange(10) / 9) / x.shape[1]) ** 2
    if isinstance(bandwidths, str):
        return median_squared_distance(x, rng) * 4.0 ** np.arange(11)
    return bandwidths


def _as_collection(
    bandwidths: Any, weights: Any, n_statistics: int
) -> tuple[np.ndarray | Literal["paper"] | None, np.ndarray | None]:
    """The user's bandwidths, and the weights of so many statistics for each; None for the defaults."""
    if bandwidths is None:
        return None, _as_bandwidth_weights(weights, 10 if n_statistics == 1 else 4)
    if isinstance(bandwidths, str):
        if bandwidths != "paper":
            raise ValueError(f"`bandwidths` must be an array, None or 'paper', got {bandwidths!r}")
        return "paper", _as_bandwidth_weights(weights, 11 * n_statistics)
    given = as_positive(bandwidths, "bandwidths")
    return given, _as_bandwidth_weights(weights, len(given) * n_statistics)


def _as_bandwidth_weights(weights: Any, count: int) -> np.ndarray | None:
    """So many weights with sum 1; None as it is."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "uniform":
            raise ValueError(f"`bandwidth_weights` must be an array or 'uniform', got {weights!r}")
        return np.full(count, 1 / count)
    values = as_numbers(weights, "bandwidth_weights", "an array of numbers or 'uniform'")
    if values.shape != (count,):
        raise ValueError(
            f"`bandwidth_weights` must have one weight per statistic, shape ({count},), got {values.shape}"
        )
    if not ((values > 0).all() and abs(values.sum() - 1) <= 1e-8):
        raise ValueError(f"`bandwidth_weights` must be positive with sum 1, got {values.tolist()}")
    return values


def _prepare(draws: Any, target: Target, options: Aggregation, asked: QuadraticOptions, rng: Any) -> Prepared:
    check_level(options.alpha)
    as_count(options.n_level_resamples, "n_level_resamples")
    check_kernel_of_bandwidths(options.kernel)
    inputs = prepare(draws, target, asked, rng)
    few = resample_warnings(options.n_level_resamples, "n_level_resamples")
    return replace(inputs, warnings=(*inputs.warnings, *few))
