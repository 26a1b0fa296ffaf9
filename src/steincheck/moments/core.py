"""The moment test: which mean, standard deviation or correlation is wrong, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from .._validation import RandomSource, announce, as_count, check_switch, recorded, resample_warnings, seeded
from .._whitening import average_root, whitened, whitened_scores
from ..chains.blocks import Blocks, autocorrelation_time_core, cut_blocks_core
from ..chains.reading import Sample, read_sample
from ..draws.record import chain_of_rows
from ..modes.box import box_beside
from ..modes.held_out import known_modes
from ..result import Modes, MomentFeature, MomentResult, among_all, cannot_tell, floor_of
from ..stein.kernels import IMQ, median_squared_distance
from ..stein.resampling import chain_blocks, identical_draws
from ..target import (
    Batch,
    Target,
    require_target,
    score_anywhere,
    score_at,
    score_warnings,
    support_warnings,
)
from ..typing import BoundsLike, DrawsLike, ModesLike
from .correction import Affine
from .effects import quantile
from .features import feature_sums
from .coordinates import Frame, make_frame
from .rays import Lines, follow_lines
from .maximum import Maximum, max_t, studentised
from .sizes import MAX_DRAWS_AT_ONCE, correct_draws, sizes
from .columns import SHAPE_KINDS, Column, FeatureWriter, columns_of, sorted_features
from .user_parameters import in_user_parameters

MAX_RESAMPLED_BLOCKS = 2000  # more draws are summed over blocks of 2, 4, 8, ... first
MAX_CHAIN_BLOCKS = 50  # of chains, cut in halves that are resampled
MIN_CHAIN_BLOCKS = 16  # fewer have replicates too heavy in the tails to reject anything
TIMES_PER_CHAIN_BLOCK = 6  # autocorrelation times per block; its halves share a twelfth of its variance
MIN_MOMENT_DRAWS = 100  # the smallest n at which the level was studied
SHARE_OF_EXTREMES = 0.02  # of the level, spent on draws that are all but impossible


def moment_test(
    draws: DrawsLike,
    target: Target,
    *,
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
    statistic is the largest |t| over all features, balanced between their kinds; its null distribution is
    found by a bootstrap in which every replicate has its own standard errors, and each feature gets a p-value
    adjusted for all of them. Draws of negligible probability are searched for along lines. The cost is linear
    in n.

    For Markov chains H0 is: the chains are stationary with the target as distribution. The null distribution
    then comes from resampled blocks of draws; too few of them give the p-value NaN.

    Parameters
    ----------
    draws : array (n, d) or (chain, draw, d), a list of chains, or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as
        one chain, with a warning.
    target : Target
        The density.
    modes : Modes, (locations, covariances) or locations, optional
        Modes you know; otherwise they are searched for.
    bounds : (low, high), or one such pair per coordinate, optional
        A box that is searched as well. Mutually exclusive with `modes`.
    n_resamples : int
        Replicates of the bootstrap.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    independent : bool
        The draws are independent, whatever their order or shape suggests.
    rng : int, Generator or SeedSequence, optional
        Source of randomness.

    Returns
    -------
    MomentResult
        `features` has one record per feature, the largest |t| first: what it is about, how large the misfit
        is, with a 95 % interval, and its adjusted p-value.

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
    >>> first.kind, first.parameters, round(first.estimate, 2)
    ('scale', ('sigma',), 0.78)
    """
    require_target(target)
    box = box_beside(modes, bounds, target.dim)
    as_count(n_resamples, "n_resamples")
    check_switch(check_score, "check_score")
    generator, seed = seeded(rng)
    sample = read_sample(draws, target, independent=independent, minimum=20)
    warnings = sample.warnings
    search, resample, look = generator.spawn(3)
    warnings.extend(score_warnings(target, sample.x, check=check_score))
    warnings.extend(support_warnings(target, sample.x, sample.log_p, look))
    _warn_sample(sample, warnings)
    warnings.extend(resample_warnings(n_resamples, "n_resamples"))
    known, rows, mode_warnings = known_modes(modes, target, sample.x, box, chain=sample.chain, rng=search)
    warnings.extend(mode_warnings)
    x = sample.x[rows]
    scores = score_at(target, x)
    result = moment_core(
        x,
        scores,
        known,
        target.coordinate_names,
        blocks=_chain_blocks(x, scores, known, chain_of_rows(sample.chain, rows)),
        log_density=target.log_density,
        score=partial(score_anywhere, target),
        n_resamples=n_resamples,
        rng=resample,
        warnings=warnings,
    )
    settings = recorded(
        modes=modes,
        bounds=bounds,
        n_resamples=n_resamples,
        check_score=check_score,
        independent=independent,
        rng=seed,
    )
    announce(warnings)
    result = replace(result, settings=settings)
    return in_user_parameters(among_all(result, rows, len(sample.x)), target)


def _warn_sample(sample: Sample, warnings: list[str]) -> None:
    """Warn if draws are few, or some of them identical: independent ones of a density never are."""
    x = sample.x
    identity = identical_draws(x) if sample.chain is None else None
    if identity is not None:
        repeated = len(x) - len(np.unique(identity))
        warnings.append(
            f"{repeated} of {len(x)} draws repeat others exactly, as those of Markov chains do: this test "
            "counts each of them as an independent draw"
        )
    if len(x) < MIN_MOMENT_DRAWS:
        warnings.append(
            f"only {len(x)} draws: below {MIN_MOMENT_DRAWS} correct samples may be rejected too often"
        )


def _chain_blocks(x: np.ndarray, scores: np.ndarray, modes: Modes, chain: np.ndarray | None) -> Blocks | None:
    """Blocks of chains, long compared with the autocorrelation times of all moments."""
    if chain is None:
        return None
    whiten = average_root(modes.covariances)
    z = whitened(x, whiten)
    slopes = whitened_scores(scores, whiten)
    width = median_squared_distance(z[:: -(-len(z) // 1000)])
    blocks = chain_blocks(chain, None, [(z[None], slopes[None])], IMQ(), width * np.array([0.25, 1.0, 4.0]))
    return None if blocks is None else moment_blocks(blocks, plain_features(x, scores, whiten), chain)


def plain_features(x: np.ndarray, scores: np.ndarray, whiten: np.ndarray) -> np.ndarray:
    """t and z t + 1 (n, 2 d) in whitened coordinates: Stein features of mean 0 within every mode."""
    t = whitened_scores(scores, whiten)
    z = whitened(x - np.median(x, axis=0), whiten)
    return np.concatenate([t, z * t + 1], axis=1)


def moment_blocks(blocks: Blocks, features: np.ndarray, chain: np.ndarray) -> Blocks:
    """More and shorter blocks than those of a kernel test: they are resampled, not given signs.

    The slowest feature counts: the largest t may be about a single coordinate, which moves slowly while a
    kernel sees all of them at once.
    """
    tau = max(blocks.autocorrelation_time, float(np.max(autocorrelation_time_core(features, chain))))
    cut = cut_blocks_core(
        tau, chain, max_blocks=MAX_CHAIN_BLOCKS, min_blocks=MIN_CHAIN_BLOCKS, cut_every=TIMES_PER_CHAIN_BLOCK
    )
    return replace(cut, stuck=blocks.stuck)


def moment_core(
    x: np.ndarray,
    scores: np.ndarray,
    modes: Modes,
    names: Sequence[str],
    *,
    blocks: Blocks | None = None,
    log_density: Batch | None = None,
    score: Batch | None = None,
    n_resamples: int,
    rng: np.random.Generator,
    warnings: list[str],
) -> MomentResult:
    """The test on validated arrays; `blocks` are those of Markov chains, None for independent draws.

    Without `log_density` no line is followed: neither impossible draws nor ranks on rays are examined. With
    `score` the sizes of a misfit are solved for at moved draws; without it they are one step from the draws.
    """
    if blocks is not None and not blocks.enough:
        warnings.append(cannot_tell(blocks.remedy))
        return _untested(x, modes, blocks, warnings)
    data = _by_block(x, scores, None if blocks is None else blocks.label, rng)
    frame = make_frame(modes, data.x)
    lines = None if log_density is None else follow_lines(log_density, data.x, frame.constants)
    found, features = _examine(data, frame, lines, score, names, n_resamples, rng, warnings)
    if frame.pairs_left_out:
        warnings.append(f"{frame.pairs_left_out} of the correlations were left out: there are too many pairs")
    pvalue = float(found.adjusted.min())
    floor = floor_of(found.null)
    extreme = 1.0
    rows: tuple[int, ...] = ()
    if lines is not None:
        floor /= 1 - SHARE_OF_EXTREMES
        extreme = lines.pvalue
        rows = tuple(np.sort(data.order[lines.impossible]).tolist())
        pvalue = min(1.0, pvalue / (1 - SHARE_OF_EXTREMES), extreme / SHARE_OF_EXTREMES)
    return MomentResult(
        "moment test",
        found.statistic,
        pvalue,
        found.null,
        len(x),
        x.shape[1],
        tuple(dict.fromkeys(warnings)),
        chains=None if blocks is None else blocks.record,
        pvalue_floor=floor,
        features=features,
        modes=modes,
        n_blocks=int(data.block[-1]) + 1,
        pairs_left_out=frame.pairs_left_out,
        impossible_rows=rows,
        impossible_pvalue=extreme,
    )


def _untested(x: np.ndarray, modes: Modes, blocks: Blocks, warnings: list[str]) -> MomentResult:
    """The result for chains too short for a test."""
    result = only_impossible(x, modes, (), np.nan, np.nan)
    return replace(
        result,
        warnings=tuple(dict.fromkeys(warnings)),
        chains=blocks.record,
        n_blocks=blocks.n_blocks,
    )


def only_impossible(
    x: np.ndarray, modes: Modes, rows: tuple[int, ...], impossible_pvalue: float, pvalue: float
) -> MomentResult:
    """The result where no moment was tested, but some draws may be all but impossible."""
    return MomentResult(
        "moment test",
        np.nan,
        pvalue,
        None,
        *x.shape,
        features=(),
        modes=modes,
        n_blocks=0,
        pairs_left_out=0,
        impossible_rows=rows,
        impossible_pvalue=impossible_pvalue,
    )


class BlockedDraws(NamedTuple):
    """Draws sorted by block: where they are, their scores, the block of each, and the row each had."""

    x: np.ndarray
    scores: np.ndarray
    block: np.ndarray
    order: np.ndarray
    halves: bool  # of blocks of dependent draws


def _by_block(
    x: np.ndarray, scores: np.ndarray, blocks: np.ndarray | None, rng: np.random.Generator
) -> BlockedDraws:
    """Draws of chains by their `blocks`; independent ones as given, shuffled if they are sorted."""
    if blocks is None:
        if not _in_some_order(x):
            return BlockedDraws(x, scores, _blocks_of_neighbours(len(x)), np.arange(len(x)), False)
        order = rng.permutation(len(x))
        return BlockedDraws(x[order], scores[order], _blocks_of_neighbours(len(x)), order, False)
    block, halved = _halves(blocks)
    order = np.argsort(block, kind="stable")
    return BlockedDraws(x[order], scores[order], block[order], order, halved)


def _in_some_order(x: np.ndarray) -> bool:
    """Whether neighbours are alike, as where independent draws were sorted: blocks of them would not be."""
    centred = x - np.median(x, axis=0)
    for column in (*centred.T, *np.abs(centred).T):
        deviation = column - column.mean()
        if abs(deviation[1:] @ deviation[:-1]) * np.sqrt(len(x)) > 6 * (deviation @ deviation):  # 6 sd
            return True
    return False


def _halves(blocks: np.ndarray) -> tuple[np.ndarray, bool]:
    """The half block of each draw, 2 b and 2 b + 1 for block b; whole blocks if one is too short to halve."""
    number = np.unique(blocks, return_inverse=True)[1]
    lengths = np.bincount(number)
    if lengths.min() < 2:
        return number, False
    order = np.argsort(number, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return 2 * number + (2 * rank >= lengths[number]), True


def _examine(
    data: BlockedDraws,
    frame: Frame,
    lines: Lines | None,
    score: Batch | None,
    names: Sequence[str],
    n_resamples: int,
    rng: np.random.Generator,
    warnings: list[str],
) -> tuple[Maximum, tuple[MomentFeature, ...]]:
    """The largest balanced |t|, and all features with their sizes and adjusted p-values."""
    about, columns = _columns(data, frame, lines)
    finite = np.isfinite(columns).all(axis=0)
    if not finite.all():
        warnings.append(f"{np.sum(~finite)} of {len(finite)} moments overflow and were left out")
    kept = [column for column, good in zip(about, finite, strict=True) if good]
    kinds = np.array([column.kind for column in kept])
    # location and scale; there are d^2 / 2 correlations
    plain = ~np.isin(kinds, ("correlation", *SHAPE_KINDS))
    groups = np.unique(kinds, return_inverse=True)[1]
    found = max_t(columns[:, finite], groups, plain, n_resamples, rng, halves=data.halves)
    misfit = found.adjusted.min() <= 0.05  # sizes are solved for only if there is a misfit
    with np.errstate(all="ignore"):
        whole = data.block // 2 if data.halves else data.block
        size = sizes(data.x, data.scores, whole, frame, score if misfit else None, rng)
        table = FeatureWriter(frame, names, size.effects, quantile(size.blocks))
        after = _after_correction(data, frame, size.maps, score, about)[finite]
        rows = zip(kept, found.t.tolist(), found.adjusted.tolist(), after.tolist(), strict=True)
        return found, sorted_features(table.record(*row) for row in rows)


def _after_correction(
    data: BlockedDraws,
    frame: Frame,
    maps: Sequence[Affine | None],
    score: Batch | None,
    wanted: Sequence[Column],
) -> np.ndarray:
    """t of features for draws corrected by the sizes.

    NaN for ranks, for modes that have too few draws then, and where there are no sizes.
    """
    step = -(-len(data.x) // MAX_DRAWS_AT_ONCE)
    some = data.x[::step]
    moved = None if score is None else correct_draws(some, frame.constants, maps)
    if moved is None or score is None:
        return np.full(len(wanted), np.nan)
    block = np.unique(data.block[::step], return_inverse=True)[1]
    about, columns = _columns(BlockedDraws(moved, score(moved), block, data.order, data.halves), frame, None)
    kinds = np.unique([column.kind for column in about], return_inverse=True)[1]
    paired = data.halves and block[-1] == data.block[-1]
    after = dict(zip(about, studentised(columns, kinds, halves=paired)[0].tolist(), strict=True))
    return np.array([after.get(column, np.nan) for column in wanted])


def _columns(data: BlockedDraws, frame: Frame, lines: Lines | None) -> tuple[list[Column], np.ndarray]:
    """The meaning of every feature, and its sums over the blocks."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = feature_sums(data.x, data.scores, frame, data.block)
    ranked = lines is not None and len(lines.rows) > 0
    about, parts = columns_of(frame, sums, ranked)
    if lines is not None and ranked:
        parts.append(_rank_sums(lines, data.block))
    return about, np.concatenate(parts, axis=1)


def _blocks_of_neighbours(n: int) -> np.ndarray:
    """Draws one by one, or in blocks of 2, 4, 8, ... neighbours, at most `MAX_RESAMPLED_BLOCKS` of them."""
    size = 1 << max(0, int(np.ceil(np.log2(n / MAX_RESAMPLED_BLOCKS))))
    return np.arange(n) // size


def _rank_sums(lines: Lines, block: np.ndarray) -> np.ndarray:
    """Ranks and their squared distance from the middle, less their expectation, summed over blocks (q, 2)."""
    middle = lines.ranks - 0.5
    sums = np.zeros((block[-1] + 1, 2))
    np.add.at(sums, block[lines.rows], np.column_stack([middle, middle**2 - 1 / 12]))
    return sums
