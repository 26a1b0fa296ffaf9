"""The moment test: which mean, standard deviation, correlation or shape is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .._validation import RandomSource, announce, as_count, check_switch, recorded, resample_warnings, seeded
from .._whitening import average_root, whitened
from ..adapters.parameters import ParameterScale, user_parameters
from ..chains.blocks import Blocks, autocorrelation_time, cut_blocks
from ..chains.reading import Sample, read_sample
from ..draws.record import index_in_chain
from ..modes.known import known_modes
from ..modes.search import as_box
from ..result import Modes, MomentResult, among_all
from ..stein.bootstrap import multinomial
from ..stein.kernels import IMQ, median_squared_distance
from ..stein.quadratic import MAX_SKEWNESS, chain_blocks
from ..target import Batch, Target, require_target, score_at, score_warnings, support_warnings
from ..typing import BoundsLike, DrawsLike, ModesLike
from ..wording.results import cannot_tell, few_draws, warning
from .features import (
    Columns,
    Coordinates,
    feature_columns,
    feature_record,
    feature_sums,
    mode_coordinates,
    skewness_of_directions,
)
from .rays import rank_sums

MIN_MOMENT_DRAWS = 100  # the smallest n at which the level was studied (docs/theory/moments.md)
MAX_RESAMPLED_BLOCKS = 2000  # a limit of time: more draws are summed over blocks of 2, 4, 8, ... first
MIN_SPREAD = 1e-5  # share of the sum of squares left to a replicate's variance
MIN_RESAMPLED_BLOCKS = 16  # fewer have replicates too heavy in the tails to reject anything (chain_study)


def moment_test(
    draws: DrawsLike,
    target: Target,
    *,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    n_resamples: int = 999,
    check_score: bool = True,
    independent: bool = False,
    rng: RandomSource = None,
) -> MomentResult:
    """Test means, standard deviations, correlations and shapes of the draws against the density.

    H0: the draws are independent and come from the target. By Stein's identity, for a smooth vector field v::

        E[ s(x).v(x) + div v(x) ] = 0,    s the score.

    Constant fields give the location, fields linear in x spread and correlation, damped quadratic and cubic
    ones skewness and tails; for a small shift, stretch or shear of the target these are efficient scores. The
    statistic is the largest |t| over all features, each divided by a number that belongs to its kind. Its
    null distribution is found by a bootstrap in which every replicate has its own standard errors, and each
    feature gets a p-value adjusted for all of them. The cost is linear in n.

    Draws with weights w_i have features w_i f(x_i), of mean zero if w is proportional to p / q for draws of
    q. For Markov chains H0 is: the chains are stationary with the target as distribution. The null
    distribution then comes from resampled blocks of draws; too few of them give the p-value NaN.

    Parameters
    ----------
    draws : array (n, d) or (chain, draw, d), a list of chains, or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as
        one chain, with a warning.
    target : Target
        The density.
    weights, log_weights : array (n,), optional
        Importance weights of the draws, or their logarithms, up to a constant; at most one of the two.
    modes : Modes, (locations, covariances) or locations, optional
        Modes you know; otherwise they are searched for.
    bounds : (low, high), or one such pair per coordinate, optional
        A box that is searched as well. Mutually exclusive with `modes`.
    n_resamples : int
        Replicates of the bootstrap.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    independent : bool
        The draws are independent, even if their order or shape suggests chains.
    rng : int, Generator or SeedSequence, optional
        Source of randomness.

    Returns
    -------
    MomentResult
        `features` has one record per feature, the largest |t| first: what it is about, t, and its adjusted
        p-value.

    References
    ----------
    Stein (1972). A bound for the error in the normal approximation to the distribution of a sum of dependent
    random variables. Proc. 6th Berkeley Symposium, vol. 2.
    Romano and Wolf (2005). Exact and approximate stepdown methods for multiple hypothesis testing. J. Amer.
    Statist. Assoc. 100, 94-108.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2, names=["mu", "sigma"])
    >>> draws = np.random.default_rng(0).normal(size=(1000, 2)) * [1.0, 0.8]
    >>> first = sc.moment_test(draws, target, modes=[[0.0, 0.0]], rng=0).features[0]
    >>> first.kind, first.parameters, round(first.t, 1)
    ('scale', ('sigma',), -13.7)
    """
    arguments = locals()
    require_target(target)
    box = as_box(bounds, target.dim, modes)
    as_count(n_resamples, "n_resamples")
    check_switch(check_score, "check_score")
    generator, seed = seeded(rng)
    sample = read_sample(
        draws, target, weights=weights, log_weights=log_weights, independent=independent, minimum=20
    )
    search, resample, look = generator.spawn(3)
    warnings = [
        *sample.warnings,
        *score_warnings(target, sample.x, check=check_score),
        *support_warnings(target, sample.x, sample.log_p, look),
        *([few_draws(len(sample.x), MIN_MOMENT_DRAWS)] if len(sample.x) < MIN_MOMENT_DRAWS else []),
        *resample_warnings(n_resamples, "n_resamples"),
    ]
    known = known_modes(modes, target, sample, box, rng=search)
    part = sample.rows(known.rows)._replace(scores=score_at(target, sample.x[known.rows]))
    result = moment_core(
        part,
        known.modes,
        user_parameters(target),
        blocks=blocks_of_chains(part, known.modes),
        log_density=target.log_density,
        n_resamples=n_resamples,
        rng=resample,
    )
    said = tuple(dict.fromkeys([*warnings, *known.warnings, *result.warnings]))
    announce(said)
    settings = recorded(**dict(arguments, rng=seed))
    return among_all(replace(result, settings=settings, warnings=said), known.rows, len(sample.x))


def moment_core(
    sample: Sample,
    modes: Modes,
    parameters: Sequence[ParameterScale],
    *,
    blocks: Blocks | None = None,
    log_density: Batch | None = None,
    n_resamples: int,
    rng: np.random.Generator,
) -> MomentResult:
    """The test on draws with their scores; `blocks` are those of Markov chains, None for independent draws.

    Without `log_density` ranks on rays are not examined; they cost at most 25 times 77 evaluations.
    """
    result = MomentResult(
        "moment test",
        np.nan,
        np.nan,
        None,
        *sample.x.shape,
        chains=None if blocks is None else blocks.record,
        modes=modes,
        n_blocks=0 if blocks is None else blocks.record.n_blocks,
    )
    if blocks is not None and not blocks.enough:
        return replace(result, warnings=(cannot_tell(blocks.remedy),))
    cut = resampled_blocks(sample, blocks, rng)
    n_sums = int(cut.label.max()) + 1 if cut.share is None else len(cut.share)  # which are independent
    if n_sums < MIN_RESAMPLED_BLOCKS:
        few = warning("few groups", count=n_sums, least=MIN_RESAMPLED_BLOCKS)
        return replace(result, warnings=(cannot_tell(few),))
    coordinates, columns, warnings = _usable_columns(sample, modes, cut, log_density)
    kinds = np.array([column.kind for column in columns.about])
    if np.all(kinds == "radius"):  # ranks on rays alone say nothing of the score
        return replace(result, warnings=warnings)
    # there are d^2 / 2 correlations, but 2 d plain locations and scales
    plain = np.isin(kinds, ("location", "scale", "overall scale"))
    number = np.unique(kinds, return_inverse=True)[1]
    found = max_t(columns.sums, number, plain, n_resamples, rng, halves=cut.halves)
    rows = zip(columns.about, found.t.tolist(), found.adjusted.tolist(), strict=True)
    features = [feature_record(column, t, p, coordinates, parameters) for column, t, p in rows]
    return replace(
        result,
        statistic=found.statistic,
        pvalue=float(found.adjusted.min()),
        null_distribution=found.null,
        pvalue_floor=1 / (n_resamples + 1),
        warnings=warnings,
        features=tuple(sorted(features, key=lambda feature: -abs(feature.t))),
        n_blocks=len(columns.sums),
        pairs_left_out=coordinates.pairs_left_out,
    )


def _usable_columns(
    sample: Sample, modes: Modes, cut: ResampledBlocks, log_density: Batch | None
) -> tuple[Coordinates, Columns, tuple[str, ...]]:
    """Features and their weighted sums over the blocks, and warnings of those that are left out.

    Features are left out if they are not finite or along directions with skew scores.
    """
    x, n = sample.x, len(sample.x)
    weight = np.ones(n) if sample.weight is None else sample.weight * (n / sample.weight.sum())
    # every 1st, 2nd, ... draw, or those at which the cumulative weight passes 1/2, 3/2, ...
    spaced = np.arange(0, n, -(-n // 10_000)) + 0.5
    typical = np.searchsorted(np.cumsum(weight), spaced).clip(max=n - 1)
    coordinates = mode_coordinates(modes, x[typical])
    with np.errstate(over="ignore", invalid="ignore"):
        sums = feature_sums(x, sample.scores, weight, coordinates, cut.label)
    ranks = np.empty((len(sums.count), 0))
    if log_density is not None and len(modes) == 1:  # rays would pass by other modes
        ranks = rank_sums(log_density, x, weight, modes.locations[0], coordinates.precision[0], cut.label)
    columns = feature_columns(coordinates, sums, ranks)
    columns = columns if cut.share is None else columns._replace(sums=cut.share @ columns.sums)
    finite = np.isfinite(columns.sums).all(axis=0)
    even = skewness_of_directions(columns) <= MAX_SKEWNESS
    warnings = []
    if not finite.all():
        warnings.append(warning("overflow", count=np.sum(~finite), total=len(finite)))
    if not even.all():
        warnings.append(warning("left out", count=np.sum(~even), total=len(even)))
    kept = np.flatnonzero(finite & even)
    return coordinates, Columns([columns.about[k] for k in kept], columns.sums[:, kept]), tuple(warnings)


class ResampledBlocks(NamedTuple):
    """The block of each draw."""

    label: np.ndarray  # (n,) 0, 1, ...
    halves: bool  # of blocks of dependent draws: 2 b and 2 b + 1 are neighbours
    share: np.ndarray | None = None  # (q, blocks) of the blocks in q independent parts


def resampled_blocks(sample: Sample, blocks: Blocks | None, rng: np.random.Generator) -> ResampledBlocks:
    """Halves of the `blocks` of chains; independent draws, or groups of them, many in random bundles."""
    if blocks is not None:
        lengths = np.bincount(blocks.label)
        if lengths.min() < 2:
            return ResampledBlocks(blocks.label, halves=False)
        second = 2 * index_in_chain(blocks.label) >= lengths[blocks.label]
        return ResampledBlocks(2 * blocks.label + second, halves=True)
    if sample.threads is not None:
        return ResampledBlocks(sample.threads.cell, False, sample.threads.share)
    group = np.arange(len(sample.x)) if sample.group is None else sample.group
    count = int(group.max()) + 1
    size = 1 << max(0, int(np.ceil(np.log2(count / MAX_RESAMPLED_BLOCKS))))
    order = np.arange(count) if size == 1 else rng.permutation(count)  # draws may have been sorted
    return ResampledBlocks(order[group] // size, halves=False)


def blocks_of_chains(sample: Sample, modes: Modes) -> Blocks | None:
    """Blocks of chains, long compared with the autocorrelation times of all moments; None without chains."""
    if sample.chain is None:
        return None
    whiten = average_root(modes.covariances)
    z = whitened(sample.x, whiten)
    widths = median_squared_distance(z[:: -(-len(z) // 1000)]) * np.array([0.25, 1.0, 4.0])
    stack = (z[None], (sample.scores @ whiten)[None])
    blocks = chain_blocks(sample.chain, [stack], IMQ(), widths, sample.weight)
    return moment_blocks(blocks, plain_features(sample, whiten), sample.chain)


def plain_features(sample: Sample, whiten: np.ndarray) -> np.ndarray:
    """t and z t + 1 (n, 2 d) in whitened coordinates, weighted: features of mean 0 within every mode."""
    t = sample.scores @ whiten
    z = whitened(sample.x - np.median(sample.x, axis=0), whiten)
    features = np.concatenate([t, z * t + 1], axis=1)
    return features if sample.weight is None else features * sample.weight[:, None]


def moment_blocks(blocks: Blocks, features: np.ndarray, chain: np.ndarray) -> Blocks:
    """More and shorter blocks than those of a kernel test: they are resampled, not given signs.

    The slowest feature counts: the largest t may be about a single coordinate, which moves slowly while a
    kernel sees all of them at once. Halves of a block of 6 autocorrelation times share a twelfth of its
    variance (rows of chain_study).
    """
    tau = max(blocks.record.autocorrelation_time, float(np.max(autocorrelation_time(features, chain))))
    cut = cut_blocks(tau, chain, max_blocks=50, min_blocks=MIN_RESAMPLED_BLOCKS, cut_every=6)
    return replace(cut, stuck=blocks.stuck)


# --- the largest |t| of many features ---


class Maximum(NamedTuple):
    """Studentised means, their adjusted p-values, and replicates of the largest."""

    t: np.ndarray  # (F,)
    adjusted: np.ndarray  # (F,)
    statistic: float
    null: np.ndarray  # (B,)


def max_t(
    sums: np.ndarray,
    kinds: np.ndarray,
    plain: np.ndarray,
    n_resamples: int,
    rng: np.random.Generator,
    *,
    halves: bool = False,
) -> Maximum:
    """Test that all columns of the block sums (q, F) have mean zero; `kinds` (F,) numbers their kinds.

    One statistic: the largest |t| / (reach times handicap). The reach, of positive and of negative t of each
    kind, is how much farther their replicates reach than a Gaussian would: otherwise one kind with skew
    features raises the threshold of all. The handicap depends on numbers of columns only: many that are not
    `plain` (F,) do not raise the threshold of those that are.

    Blocks are resampled. If they are `halves` of blocks of dependent draws, 2 b and 2 b + 1 are neighbours,
    and every t is divided by a factor for the dependence between them, see `_standard_error_factor`. A column
    without spread is never seen under H0 unless it is zero: its t is infinite, or 0.
    """
    t, columns = _studentised(sums, kinds, halves=halves)
    replicates = _replicates(columns, n_resamples, rng)
    # the handicap: the ratio of two-sided thresholds at 2.5 % for as many independent Gaussians
    thresholds = -special.ndtri(0.0125 / np.maximum([plain.sum(), np.sum(~plain)], 1))
    divisor = np.where(plain, 1.0, thresholds[1] / thresholds[0]).astype(np.float32)
    for kind in np.unique(kinds):
        one = np.flatnonzero(kinds == kind)
        # farther quantiles would fit the noise; shorter tails than .9 of a Gaussian's are not believed
        ends = np.quantile(replicates[:, one], [0.98, 0.02]) * [1, -1] / -special.ndtri(0.02)
        positive, negative = np.maximum(ends, 0.9)
        replicates[:, one] /= divisor[one] * np.where(replicates[:, one] > 0, positive, negative)
        divisor[one] *= np.where(t[one] > 0, positive, negative)
    size = np.abs(t) / divisor
    order = np.argsort(-size, kind="stable")
    largest = np.maximum.accumulate(np.abs(replicates[:, order[::-1]]), axis=1)[:, ::-1]
    reached = np.sum(largest >= size[order] * (1 - 1e-5), axis=0)  # replicates are in single precision
    adjusted = np.empty(len(t))
    adjusted[order] = np.maximum.accumulate((1 + reached) / (1 + n_resamples))
    return Maximum(t, adjusted, float(size.max()), largest[:, 0].astype(float))


def _studentised(sums: np.ndarray, kinds: np.ndarray, *, halves: bool) -> tuple[np.ndarray, np.ndarray]:
    """t of each column of block sums as in `max_t`, and the centred columns at unit mean square."""
    size = np.abs(sums).max(axis=0)
    scaled = sums / np.where(size > 0, size, 1.0)
    mean = scaled.mean(axis=0)
    centred = scaled - mean
    sd = centred.std(axis=0)
    still = sd <= 1e-10
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.sqrt(len(sums) - 1) * mean / np.where(still, 0.0, sd)
    t = np.where(still & (np.abs(mean) <= 1e-10), 0.0, t)
    columns = (centred / np.where(still, np.inf, sd)).astype(np.float32)
    return t / _standard_error_factor(columns, kinds) if halves else t, columns


def _standard_error_factor(columns: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """How much larger standard errors (F,) are than those by half blocks, at least 1.

    Half a block ends where its neighbour begins, and what they share is lost to the sum of squares over
    halves, in proportion to the number of cuts. Without any cut the variance would be twice that by whole
    blocks less that by halves (the lugsail estimate). The ratio of the two is averaged over the features of
    a kind, whose dependence is alike: that of a single feature from a few dozen blocks is too rough.
    """
    wholes = columns[::2] + columns[1::2]
    squares = np.sum(columns**2, axis=0)
    known = squares > 0
    log_ratio = np.log(np.maximum(np.sum(wholes**2, axis=0)[known] / squares[known], MIN_SPREAD))
    factor = np.ones(len(kinds))
    for kind in np.unique(kinds[known]):
        ratio = np.exp(log_ratio[kinds[known] == kind].mean())
        factor[kinds == kind] = np.sqrt(max(1.0, 2 * ratio - 1))
    return factor


def _replicates(columns: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """For each resample of the blocks the t of each column, with a standard error of its own, (B, F)."""
    q = len(columns)
    replicates = np.empty((n_resamples, columns.shape[1]), dtype=np.float32)
    for part in np.split(replicates, range(100, n_resamples, 100)):  # of q weights each
        w = multinomial(q, len(part), rng)
        total = w.astype(np.float32) @ columns
        square = (w + np.int8(1)).astype(np.float32) @ columns**2
        rest = np.maximum(square - total**2 / q, MIN_SPREAD * q)
        part[:] = total / np.sqrt(rest) * np.float32(np.sqrt((q - 1) / q))
    return replicates
