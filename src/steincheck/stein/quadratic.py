"""What the quadratic tests share: validated input, U-statistics of the Stein kernel, and their replicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from .._validation import (
    as_count,
    as_numbers,
    check_covariances,
    check_switch,
    recorded,
    resample_warnings,
    seeded,
)
from .._whitening import Gaussians, average_root, whitened
from ..chains.blocks import Blocks, autocorrelation_time, cut_blocks
from ..chains.reading import Sample, read_sample, stuck_chains
from ..draws.record import index_in_chain
from ..result import Modes, Result, among_all
from ..target import Target, require_target, score_warnings, support_warnings
from ..target.evaluation import Budget, OutOfBudget, affordable_budget, as_budget, counting_target
from ..wording.results import warning
from .bootstrap import Bootstrap, Resampling, check_bootstrap, multinomial, resampling, signs_of_chains
from .kernels import IMQ, Kernel, check_kernel, median_squared_distance, takes_bandwidth
from .tiles import quadratic_forms, sums_of_block_pairs

MAX_DRAWS_FOR_TAU = 4000  # the autocorrelation time is estimated from evenly spaced draws beyond
MAX_SKEWNESS = 0.25  # of a sum of scores: beyond it tests lose their level ("skew" in check_study)


class Streams(NamedTuple):
    """One random stream per stage, so that a change of one stage leaves the others alone.

    In one place it does not: FSSD draws its locations from `blocks`, before the blocks.
    """

    bandwidth: np.random.Generator
    bootstrap: np.random.Generator
    modes: np.random.Generator
    perturbation: np.random.Generator
    split: np.random.Generator
    blocks: np.random.Generator
    inspection: np.random.Generator


class QuadraticOptions(NamedTuple):
    """What the user of a quadratic test asks for, as in `ksd_test`."""

    kernel: Kernel = IMQ()
    precondition: Any = None
    bootstrap: Bootstrap | Literal["blocks"] | None = None
    n_resamples: int = 999
    check_score: bool = True
    independent: bool = False
    weights: Any = None
    log_weights: Any = None


@dataclass(frozen=True, eq=False)
class Inputs:
    """Validated input of a quadratic test."""

    sample: Sample
    target: Target
    budget: Budget  # what is left of the evaluations that the limits allow
    options: QuadraticOptions
    whiten: np.ndarray | None  # L with precondition = L L'
    streams: Streams
    settings: Mapping[str, Any]  # arguments that run the test again
    warnings: tuple[str, ...]


def prepare(arguments: Mapping[str, Any], *, aggregated: bool = False) -> Inputs:
    """Validate the arguments that all quadratic tests take and spawn one random stream per stage.

    Nothing is announced. A test that takes no kernel has the default one.
    """
    given = {name: value for name, value in arguments.items() if name in QuadraticOptions._fields}
    options, target = QuadraticOptions(**given), arguments["target"]
    check_kernel(options.kernel, aggregated=aggregated)
    require_target(target)
    as_count(options.n_resamples, "n_resamples")
    check_switch(options.check_score, "check_score")
    whiten = _cholesky_of_precondition(options.precondition, target.dim)
    generator, seed = seeded(arguments["rng"])
    limits = as_budget(arguments.get("max_evaluations"), arguments.get("max_seconds"))
    sample = read_sample(
        arguments["draws"],
        counting_target(target, limits),
        weights=options.weights,
        log_weights=options.log_weights,
        independent=options.independent,
    )
    check_bootstrap(options.bootstrap, chains=sample.chain is not None)
    streams = Streams(*generator.spawn(7))
    budget = affordable_budget(target, sample.x, limits)
    budget.made += limits.made
    warnings = (
        *sample.warnings,
        *resample_warnings(options.n_resamples, "n_resamples"),
        *_inspection_warnings(target, sample, options, budget, streams.inspection),
    )
    settings = recorded(**dict(arguments, rng=seed))
    if settings.get("perturbation", True) is None:
        del settings["perturbation"]
    return Inputs(sample, target, budget, options, whiten, streams, settings, warnings)


def _inspection_warnings(
    target: Target, sample: Sample, options: QuadraticOptions, budget: Budget, rng: np.random.Generator
) -> list[str]:
    """What score and support say against the test, as far as a quarter of the budget shows it."""
    part = Budget(budget.left / 4)
    counted = counting_target(target, part)
    warnings: list[str] = []
    with suppress(OutOfBudget):
        warnings += score_warnings(counted, sample.x, check=options.check_score)
        warnings += support_warnings(counted, sample.x, sample.log_p, rng)
    budget.made += part.made
    return warnings


def _cholesky_of_precondition(precondition: Any, dim: int) -> np.ndarray | None:
    """L with precondition = L L'; None without one."""
    if precondition is None:
        return None
    matrix = as_numbers(precondition, "precondition", f"a matrix of numbers, shape {(dim, dim)}")
    if matrix.shape != (dim, dim):
        raise ValueError(f"`precondition` must have shape {(dim, dim)}, got {matrix.shape}")
    check_covariances(matrix[None], "`precondition`")
    return np.linalg.cholesky(matrix)


def split_rows(
    sample: Sample, train_fraction: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a part of the draws to train with, and of the others.

    The part is random for independent draws; groups stay together. Of Markov chains it is the beginning of
    every one: the two parts touch once per chain, and are nearly independent.
    """
    n = len(sample.x)
    if sample.chain is not None:
        lengths = np.bincount(sample.chain)
        early = index_in_chain(sample.chain) < np.round(train_fraction * lengths)[sample.chain]
        train, test = np.flatnonzero(early), np.flatnonzero(~early)
    elif sample.group is not None:
        order = rng.permutation(sample.group.max() + 1)
        early = (order < max(1, round(train_fraction * len(order))))[sample.group]
        train, test = np.flatnonzero(early), np.flatnonzero(~early)
    else:
        train, test = np.split(rng.permutation(n), [round(train_fraction * n)])
    if min(len(train), len(test)) < 2:
        raise ValueError(
            f"`train_fraction` must leave at least 2 draws on either side, but {train_fraction} of {n} "
            f"draws is {len(train)}, where identical draws stay together"
        )
    return train, test


def choose_bandwidth(inputs: Inputs, x: np.ndarray) -> float | None:
    """The kernel's own bandwidth, or the median squared distance of the draws `x`; None if it takes none."""
    kernel = inputs.options.kernel
    own = getattr(kernel, "bandwidth", None)
    if own is not None:
        return float(own)
    if not takes_bandwidth(kernel):
        return None
    return median_squared_distance(whitened(x, inputs.whiten), inputs.streams.bandwidth)


Stack = tuple[np.ndarray, np.ndarray]  # samples (J, n, d) of the same draws and their scores, whitened


class Replicated(NamedTuple):
    """U-statistics and their replicates: for each stack of samples, summed over it, all bandwidths."""

    statistics: np.ndarray  #: (K,)
    replicates: np.ndarray  #: (K, B)
    parts: np.ndarray  #: (K, J) contribution of each sample of the last stack, or NaN
    how: Resampling


def replicate(
    stacks: Sequence[Stack],
    sample: Sample,
    options: QuadraticOptions,
    bandwidths: Any,
    streams: Streams,
    *,
    default: Bootstrap = multinomial,
    blocks: Blocks | None = None,
    modes: Modes | None = None,
    parts: bool = False,
) -> Replicated:
    """Statistics of `stacks` of samples made of the draws `sample`, and their replicates, which go together.

    `blocks` are those of chains, where they are known. With blocks, pairs of draws of one block are left out:
    signs of blocks do not change their sum. With `modes` the kernel is a sum over modes, each in its own
    units, of the draws themselves, and the bootstrap must be one of blocks.
    """
    kernel, bootstrap, size = options.kernel, options.bootstrap, int(options.n_resamples)
    if blocks is None and sample.chain is not None and not callable(bootstrap):
        blocks = chain_blocks(sample.chain, stacks, kernel, bandwidths, sample.weight)
    if blocks is not None:
        how = signs_of_chains(sample.x, blocks, size, streams.bootstrap)
    else:
        how = resampling(sample, bootstrap, default, size, streams.bootstrap, streams.blocks)
    found = []
    for stack in stacks:
        if how.block is None:
            weight = np.ones(len(sample.x)) if sample.weight is None else sample.weight
            squares = weight.sum() ** 2
            pairs = squares - np.sum(weight**2)
            forms = quadratic_forms(
                *stack, kernel, bandwidths, how.multipliers, weight=weight, row_sums=parts
            )
            each = np.array([[np.nan]]) if forms.row_sums is None else forms.row_sums.sum(axis=2) / pairs
            replicates = forms.replicates / (squares if how.centred else pairs)
            found.append(Replicated(forms.total / pairs, replicates, each, how))
            continue
        if modes is None:
            table = sums_of_block_pairs(*stack, kernel, bandwidths, how.block, weight=sample.weight).table
        else:
            table = _table_over_modes(sample, modes, kernel, bandwidths, how.block)
        found.append(flip_signs(table, how, sample.weight))
    skew = skew_warnings(stacks[0][1][0], sample, modes)
    how = how._replace(warnings=(*how.warnings, *skew))
    return Replicated(
        np.concatenate([one.statistics for one in found]),
        np.concatenate([one.replicates for one in found]),
        found[-1].parts,
        how,
    )


@np.errstate(over="ignore", invalid="ignore")
def skewness(terms: np.ndarray) -> float:
    """Estimated skewness of the sum of independent terms (n, d).

    With s_i the terms about their mean, the length of sum |s|^2 s over (sum |s|^2)^(1/2) |sum s s'|: how much
    smaller the variance is estimated where the mean is off, in units in which the squared sum varies. The
    square of the numerator leaves out products of a term with itself: a single large term, which may as well
    have had the other sign, is no skewness.

    Examples
    --------
    >>> import numpy as np
    >>> [round(skewness(np.repeat([[0.0], [1.0]], [100 - k, k], axis=0)), 2) for k in (1, 5)]
    [0.0, 0.37]
    """
    scale = np.abs(terms).max()
    away = terms / (scale if 0 < scale < np.inf else 1.0)
    away = away - away.mean(axis=0)
    square = np.sum(away**2, axis=1)
    spread = np.sqrt(square.sum()) * np.linalg.norm(away.T @ away)
    between = np.sum((square @ away) ** 2) - np.sum(square**3)
    return float(np.sqrt(max(between, 0.0)) / spread) if spread > 1e-30 else 0.0


def skew_warnings(scores: np.ndarray, sample: Sample, modes: Modes | None = None) -> tuple[str, ...]:
    """What speaks against a p-value where the sum of the scores (n, d) is far from normal.

    They have the weights of the draws and are added up within groups. With `modes` they are those that the
    modes see, in the units of each, weighted by responsibilities.
    """
    if modes is not None:
        scores = np.zeros_like(scores)
        for view in mode_views(sample.x, sample.scores, modes):
            scores[view.rows] += view.weight[:, None] * view.scores
    terms = scores if sample.weight is None else scores * sample.weight[:, None]
    if sample.group is not None:
        terms = np.stack([np.bincount(sample.group, column) for column in terms.T], axis=1)
    return () if skewness(terms) <= MAX_SKEWNESS else (warning("skew scores", n=len(scores)),)


def flip_signs(table: np.ndarray, how: Resampling, weight: np.ndarray | None = None) -> Replicated:
    """U-statistics over pairs of draws in different blocks, and what they become with signs of the blocks.

    Parameters
    ----------
    table : array (K, J, q, q)
        Sums of the Stein kernel over pairs of blocks.
    how : Resampling
        With blocks.
    weight : array (n,), optional
        Of the draws.
    """
    assert how.block is not None
    sizes = np.bincount(how.block, weight)
    if how.share is not None:
        sizes, table = how.share @ sizes, how.share @ table @ how.share.T
    pairs = float(sizes.sum() ** 2 - np.sum(sizes**2)) or np.nan  # a single block has none
    between = table * (1 - np.eye(len(sizes))) / pairs
    signs = how.multipliers.astype(float)
    replicates = [np.einsum("bq,bq->b", signs @ one, signs) for one in between.sum(axis=1)]
    each = between.sum(axis=(2, 3))
    return Replicated(each.sum(axis=1), np.array(replicates), each, how)


def chain_blocks(
    chain: np.ndarray, stacks: Sequence[Stack], kernel: Kernel, bandwidths: Any, weight: Any = None
) -> Blocks:
    """Blocks of the chains `chain` (n,) for statistics of `stacks`, whose draws may have weights (n,).

    Their length is given by the autocorrelation time of the draws' contributions h_t, the row sums of the
    Stein matrix. These show the slow directions along which the sum over all draws happens to point. The
    slowest of the statistics counts.

    Of more than `MAX_DRAWS_FOR_TAU` draws evenly spaced ones are taken. If there are fewer than four spacings
    per autocorrelation time, it is overestimated, and three parts of the chains are looked at more closely:
    the sum over one of them may happen to point along a fast direction.
    """

    def slowest(rows: slice) -> float:
        some = np.unique(chain[rows], return_inverse=True)[1]
        own = None if weight is None else weight[rows]
        whole = np.zeros(len(some), dtype=int)  # the row sums are those of one block too
        times = [1.0]
        for samples, scores in stacks:
            part = sums_of_block_pairs(
                samples[:, rows], scores[:, rows], kernel, bandwidths, whole, weight=own, row_sums=True
            )
            times.extend(autocorrelation_time(part.row_sums.T, some))
        return float(max(times))

    n = len(chain)
    step = -(-n // MAX_DRAWS_FOR_TAU)
    spacings = slowest(slice(0, None, step))
    while step > 1 and spacings < 4:
        step = max(1, min(step - 1, int(spacings * step / 8)))
        length = min(n, MAX_DRAWS_FOR_TAU * step)
        ends = np.linspace(n, length, min(3, n // length)).astype(int)
        spacings = max(slowest(slice(end - length, end, step)) for end in ends)
    stuck = bool(stuck_chains(stacks[0][0][0], chain))
    return replace(cut_blocks(spacings * step, chain), stuck=stuck)


def with_settings(
    result: Result, inputs: Inputs, found: Replicated, rows: np.ndarray | None = None
) -> Result:
    """The result of a test of the rows `rows`, or all, with the arguments that run it again.

    The bootstrap among them is the one that was used.
    """
    result = replace(result, settings={**inputs.settings, "bootstrap": found.how.bootstrap})
    return result if rows is None else among_all(result, rows, len(inputs.sample.x))


# --- the Stein kernel in the units of each mode, where their widths differ and one metric fits none ---


class ModeView(NamedTuple):
    """Draws as one mode sees them: those for which it is responsible, in its standardised coordinates."""

    rows: np.ndarray  # (m,) of the draws
    z: np.ndarray  # (m, d)
    scores: np.ndarray  # (m, d) of the density times the responsibility, with respect to z
    weight: np.ndarray  # (m,) the responsibility


def widths_differ(modes: Modes) -> bool:
    """Whether, relative to the average covariance, one mode is much wider than another along some axis."""
    root = average_root(modes.covariances)
    relative = np.linalg.solve(root, np.linalg.solve(root, modes.covariances).transpose(0, 2, 1))
    variances = np.linalg.eigvalsh(relative)
    # up to a ratio of 3 the average covariance is a fair unit for all modes
    return bool(variances.max() > 3.0**2 * variances.min())


def laplace_responsibilities(x: np.ndarray, modes: Modes) -> np.ndarray:
    """Shares (M, n) of the modes' Gaussians, with Laplace weights, in the density at each draw."""
    log_weight = np.log(modes.laplace_weights.clip(1e-300))
    return special.softmax(Gaussians(modes.locations, modes.covariances, log_weight).heights(x), axis=1).T


def mode_views(x: np.ndarray, scores: np.ndarray, modes: Modes) -> Iterator[ModeView]:
    """The draws as each mode sees them, one mode after the other.

    With responsibilities r_k, sum_k r_k = 1, the field r_k(x) k(z_k(x), .) has the Stein kernel
    r_k(x) r_k(y) u(z_k(x), z_k(y)) with the score s + grad log r_k, where grad log r_k = g_k - sum_l r_l g_l
    and g_l is the score of Gaussian l.
    """
    shares = laplace_responsibilities(x, modes)
    precisions = np.linalg.inv(modes.covariances)
    of_mixture = np.zeros_like(x)
    for share, centre, precision in zip(shares, modes.locations, precisions, strict=True):
        of_mixture += share[:, None] * ((centre - x) @ precision)
    for k, (share, centre) in enumerate(zip(shares, modes.locations, strict=True)):
        rows = np.flatnonzero(share > 1e-10)  # with less, a draw adds nothing
        root = np.linalg.cholesky(modes.covariances[k])
        own = (scores - of_mixture)[rows] + (centre - x[rows]) @ precisions[k]
        yield ModeView(rows, whitened(x[rows] - centre, root), own @ root, share[rows])


def at_own_mode(x: np.ndarray, modes: Modes) -> np.ndarray:
    """Standardised coordinates (n, d) of each draw at the mode most responsible for it."""
    z = np.empty_like(x)
    owner = laplace_responsibilities(x, modes).argmax(axis=0)
    for k in np.unique(owner):
        rows = owner == k
        z[rows] = whitened(x[rows] - modes.locations[k], np.linalg.cholesky(modes.covariances[k]))
    return z


def _table_over_modes(
    sample: Sample, modes: Modes, kernel: Kernel, bandwidths: np.ndarray, block: np.ndarray
) -> np.ndarray:
    """Sums (K, 1, q, q) over pairs of blocks of the Stein kernels of all modes."""
    q = int(block.max()) + 1
    table = np.zeros((len(bandwidths), 1, q, q))
    for view in mode_views(sample.x, sample.scores, modes):
        if len(view.rows) < 2:
            continue
        labels = block[view.rows]
        weight = view.weight if sample.weight is None else view.weight * sample.weight[view.rows]
        part = sums_of_block_pairs(
            view.z[None], view.scores[None], kernel, bandwidths, labels, weight=weight
        ).table
        met = labels.max() + 1  # blocks after the last one with a draw at this mode add nothing
        table[:, :, :met, :met] += part
    return table
