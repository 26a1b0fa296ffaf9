"""The moment test: which mean, standard deviation, correlation or shape is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._validation import RandomSource, announce, as_count, check_switch, recorded, resample_warnings, seeded
from ..adapters.parameters import ParameterScale
from ..chains.blocks import Blocks
from ..chains.reading import Sample, read_sample
from ..draws.record import chain_of_rows
from ..modes.held_out import box_beside, known_modes
from ..result import Modes, MomentFeature, MomentResult, among_all, cannot_tell
from ..target import Batch, Target, require_target, score_at, score_warnings, support_warnings
from ..typing import BoundsLike, DrawsLike, ModesLike
from ..wording.results import few_draws, overflowing_moments
from .blocks import ResampledBlocks, blocks_of_chains, resampled_blocks
from .columns import Columns, feature_columns, feature_record, user_parameters
from .coordinates import Coordinates, mode_coordinates
from .features import feature_sums
from .maximum import Maximum, max_t
from .rays import rank_sums

MIN_MOMENT_DRAWS = 100  # the smallest n at which the level was studied (docs/theory/moments.md)


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
    statistic is the largest |t| over all features, each divided by a number that belongs to its kind. Its
    null distribution is found by a bootstrap in which every replicate has its own standard errors, and each
    feature gets a p-value adjusted for all of them. The cost is linear in n.

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
    require_target(target)
    box = box_beside(modes, bounds, target.dim)
    as_count(n_resamples, "n_resamples")
    check_switch(check_score, "check_score")
    generator, seed = seeded(rng)
    sample = read_sample(draws, target, independent=independent, minimum=20)
    search, resample, look = generator.spawn(3)
    warnings = [
        *sample.warnings,
        *score_warnings(target, sample.x, check=check_score),
        *support_warnings(target, sample.x, sample.log_p, look),
        *_sample_warnings(sample),
        *resample_warnings(n_resamples, "n_resamples"),
    ]
    known, rows, mode_warnings = known_modes(modes, target, sample.x, box, chain=sample.chain, rng=search)
    x = sample.x[rows]
    scores = score_at(target, x)
    result = moment_core(
        x,
        scores,
        known,
        user_parameters(target),
        blocks=blocks_of_chains(x, scores, known, chain_of_rows(sample.chain, rows)),
        log_density=target.log_density,
        n_resamples=n_resamples,
        rng=resample,
    )
    warnings = list(dict.fromkeys([*warnings, *mode_warnings, *result.warnings]))
    announce(warnings)
    settings = recorded(
        modes=modes,
        bounds=bounds,
        n_resamples=n_resamples,
        check_score=check_score,
        independent=independent,
        rng=seed,
    )
    result = replace(result, settings=settings, warnings=tuple(warnings))
    return among_all(result, rows, len(sample.x))


def _sample_warnings(sample: Sample) -> list[str]:
    """A warning if draws are few."""
    n = len(sample.x)
    return [few_draws(n, MIN_MOMENT_DRAWS)] if n < MIN_MOMENT_DRAWS else []


def moment_core(
    x: np.ndarray,
    scores: np.ndarray,
    modes: Modes,
    parameters: Sequence[ParameterScale],
    *,
    blocks: Blocks | None = None,
    log_density: Batch | None = None,
    n_resamples: int,
    rng: np.random.Generator,
) -> MomentResult:
    """The test on validated arrays; `blocks` are those of Markov chains, None for independent draws.

    Without `log_density` ranks on rays are not examined; they cost at most 25 times 77 evaluations.
    """
    result = MomentResult(
        "moment test",
        np.nan,
        np.nan,
        None,
        *x.shape,
        chains=None if blocks is None else blocks.record,
        features=(),
        modes=modes,
        n_blocks=0 if blocks is None else blocks.n_blocks,
        pairs_left_out=0,
    )
    if blocks is not None and not blocks.enough:
        return replace(result, warnings=(cannot_tell(blocks.remedy),))
    resampled = resampled_blocks(len(x), blocks, rng)
    coordinates = mode_coordinates(modes, x)
    columns = _columns(x, scores, coordinates, resampled.label, log_density)
    finite = np.isfinite(columns.sums).all(axis=0)
    kept = Columns(
        [column for column, good in zip(columns.about, finite, strict=True) if good], columns.sums[:, finite]
    )
    found = _largest(kept, resampled, n_resamples, rng)
    return replace(
        result,
        statistic=found.statistic,
        pvalue=float(found.adjusted.min()),
        null_distribution=found.null,
        pvalue_floor=1 / (n_resamples + 1),
        warnings=() if finite.all() else (overflowing_moments(np.sum(~finite), len(finite)),),
        features=_features(kept, found, coordinates, parameters),
        n_blocks=len(kept.sums),
        pairs_left_out=coordinates.pairs_left_out,
    )


def _columns(
    x: np.ndarray, scores: np.ndarray, coordinates: Coordinates, label: np.ndarray, log_density: Batch | None
) -> Columns:
    """All features and their sums over the blocks `label`."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = feature_sums(x, scores, coordinates, label)
    ranks = np.empty((len(sums.of_modes.count), 0))
    if log_density is not None and len(coordinates.centre) == 1:  # rays would pass by other modes
        ranks = rank_sums(log_density, x, coordinates.centre[0], coordinates.precision[0], label)
    return feature_columns(coordinates, sums, ranks)


def _largest(
    columns: Columns, resampled: ResampledBlocks, n_resamples: int, rng: np.random.Generator
) -> Maximum:
    """The largest balanced |t|; there are d^2 / 2 correlations, but 2 d plain locations and scales."""
    kinds = np.array([column.kind for column in columns.about])
    plain = np.isin(kinds, ("location", "scale", "overall scale"))
    number = np.unique(kinds, return_inverse=True)[1]
    return max_t(columns.sums, number, plain, n_resamples, rng, halves=resampled.halves)


def _features(
    columns: Columns, found: Maximum, coordinates: Coordinates, parameters: Sequence[ParameterScale]
) -> tuple[MomentFeature, ...]:
    """Records, the largest |t| first."""
    rows = zip(columns.about, found.t.tolist(), found.adjusted.tolist(), strict=True)
    records = [feature_record(column, t, p, coordinates, parameters) for column, t, p in rows]
    return tuple(sorted(records, key=lambda feature: -abs(feature.t)))
