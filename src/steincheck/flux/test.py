"""The mode-flux test: does each mode hold the share the density implies? See docs/theory/flux.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np

from .._validation import RandomSource, announce, as_count, recorded, resample_warnings, seeded
from ..chains.blocks import block_standard_error, block_sums
from ..chains.reading import read_sample
from ..draws.record import chain_of_rows
from ..modes.box import box_beside
from ..modes.held_out import known_modes
from ..result import DisplacementTable, FluxResult, Modes, among_all, cannot_tell, floor_of
from ..target import Target, log_density_at, require_target
from ..typing import BoundsLike, DrawsLike, ModesLike
from .anchors import Anchors, assign, local_anchors_core, mode_anchors
from .chain_weights import compare_chain_steps
from .counts import N_FLUX_RESAMPLES, Variant
from .displacements import (
    DRAWS_PER_DISPLACEMENT,
    StepFlows,
    StepTest,
    compare_steps,
    displacement_table,
    lattice_steps,
    share_at_listed_modes,
    step_flows,
)
from .local_shares import with_local_points
from .mode_comparison import (
    ModeComparison,
    compare_chain_modes,
    compare_independent,
    time_within_modes,
    weighty_modes,
)
from .orbits import CountMoments, Orbits, count_moments, orbits
from .shares import MODE_TABLE_LEVEL, NEGLIGIBLE_SHARE
from .words import mode_words

MIN_EFFICIENCY = 0.7  # of one anchor per mode; below, anchors=None tries several
MIN_PROBABILITY_TO_LEAVE = 0.01  # of a draw that contributes
NOTHING_MOVES = (
    "the mode weights could not be compared: no draw can be mapped to another mode with appreciable "
    "probability; check that the modes are those of the draws, or give `flux_test` more `anchors` per mode"
)


class _FluxStreams(NamedTuple):
    """Independent streams: a result does not depend on whether modes were searched for or given."""

    search: np.random.Generator
    anchors: np.random.Generator
    test: np.random.Generator


class _FluxOptions(NamedTuple):
    """How draws are moved and the p-value is found, as in `flux_test`."""

    variant: Variant
    anchors: int | Anchors | None
    n_resamples: int


class _FluxSample(NamedTuple):
    """The draws as the core gets them."""

    x: np.ndarray  #: (n, d)
    log_p: np.ndarray  #: (n,)
    target: Target
    modes: Modes
    chain: np.ndarray | None  #: (n,)


def flux_test(
    draws: DrawsLike,
    target: Target,
    *,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    variant: Variant = "asymptotic",
    anchors: int | Anchors | None = None,
    n_resamples: int = N_FLUX_RESAMPLES,
    independent: bool = False,
    rng: RandomSource = None,
) -> FluxResult:
    """Mode-flux test: does each mode hold the share the density implies?

    H0: the draws are independent and come from the target. Linear maps carry every draw to all modes. Given
    this orbit, the target puts the draw at mode j with the known probability pi_j(x), proportional to the
    density of the image times the volume factor of the map. With c(x) the mode of x, the net flow into j::

        F_j(x) = pi_j(x) - 1{c(x) = j},    E F = 0,    Cov(F | orbit) = diag(pi) - pi pi',

    gives, with V the sum of these covariances over the draws, the statistic::

        Q = (sum F)' V^+ (sum F)  ~  chi-square with rank V degrees of freedom.

    If the modes span at most a third as many dimensions, a fifth of the level goes to the part of Q in those
    combinations of F that are linear in the mode locations: a trend of the weights.

    If the modes are part of a lattice too large to be listed, draws are moved by its displacements v instead,
    f_v(x) = min(1, p(x+v)/p(x)) - min(1, p(x-v)/p(x)), and Hotelling's T2 of the means of f_v is used; both
    tests are made, each at half of the level, if most draws are at listed modes.

    For Markov chains H0 is: the chains are stationary with the target as distribution. The null distribution
    of Q then comes from random signs of blocks. Where the chains change mode too rarely for that, H0 is
    instead that this set of draws, whatever the sampler, represents the weights as well as the few
    independent draws that the chains are worth, or as 40 where they never change between some modes
    (`variant` is "set"). Correct chains that never change mode often fail it, since most such sets represent
    the weights poorly; and `inconclusive_reason` says why a large p-value means nothing.

    The test sees the weights of the modes it knows, nothing else: see `ksd_test` for the fit within modes.

    Parameters
    ----------
    draws : array (n, d) or (chain, draw, d), a list of chains, or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as
        one chain, with a warning.
    target : Target
        The density; its score is used only to search for modes and to run local chains.
    modes : Modes, (locations, covariances) or locations, optional
        At least two. They must not be chosen by looking at the draws; searched for if not given.
    bounds : (low, high), or one such pair per coordinate, optional
        A box that the mode search covers as well. Mutually exclusive with `modes`.
    variant : "asymptotic" or "exact"
        How the p-value of independent draws is found: from the limit distribution, or from `n_resamples`
        samples in which every draw has jumped by its probabilities, which is exact for any n. "asymptotic"
        turns to "exact" by itself where a direction of the counts has a variance below 10.
    anchors : int or Anchors, optional
        Gaussians per mode between which draws are moved; 1 takes the mode and its inverse Hessian, more come
        from short local chains (`local_anchors`). By default 1, or 4 if 1 is inefficient.
    n_resamples : int
        Samples of the exact variant, and random signs of the blocks of Markov chains.
    independent : bool
        The draws are independent, whatever their order or shape suggests.
    rng : int, Generator or SeedSequence, optional
        Only the search, the local chains, the exact variant and the signs of blocks are random.

    Returns
    -------
    FluxResult
        ``pvalue`` is NaN, with a warning, if no draw could be elsewhere: the test cannot tell.

    References
    ----------
    Canay, Romano and Shaikh (2017). Randomization tests under an approximate symmetry assumption.
    Econometrica 85, 1013-1030; for chains. The test itself is derived in docs/theory/flux.md.

    Examples
    --------
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> draws = target.sample(1000, rng=0, weights=[0.6, 0.4])
    >>> result = sc.flux_test(draws, target, rng=0)
    >>> result.reject(), result.mode_table.words
    (True, ('too many draws', 'too few draws'))
    """
    _check_arguments(target, variant, anchors)
    box = box_beside(modes, bounds, target.dim)
    options = _FluxOptions(variant, anchors, as_count(n_resamples, "n_resamples"))
    generator, seed = seeded(rng)
    read = read_sample(draws, target, independent=independent)
    warnings = list(read.warnings)
    if read.chain is not None and variant == "exact":
        raise ValueError(
            "`variant` 'exact' is for independent draws, but `draws` are Markov chains; give "
            "`independent=True` if they are independent"
        )
    streams = _FluxStreams(*generator.spawn(3))
    known, rows, mode_warnings = known_modes(modes, target, read.x, box, chain=read.chain, rng=streams.search)
    warnings.extend(mode_warnings)
    _check_number_of_modes(known, searched=modes is None, in_box=box is not None)
    chain = chain_of_rows(read.chain, rows)
    sample = _FluxSample(read.x[rows], read.log_p[rows], target, known, chain)
    result = _test_weights(sample, options, None, streams, warnings)
    if result.null_distribution is not None:
        warnings.extend(resample_warnings(n_resamples, "n_resamples"))
    settings = recorded(modes=modes, bounds=bounds, **options._asdict(), independent=independent, rng=seed)
    announce(warnings)
    result = replace(result, settings=settings, warnings=tuple(dict.fromkeys(warnings)))
    return among_all(result, rows, len(read.x))


def flux_core(
    x: np.ndarray,
    log_p: np.ndarray,
    target: Target,
    modes: Modes,
    *,
    variant: Variant = "asymptotic",
    anchors: int | Anchors | None = None,
    n_resamples: int = N_FLUX_RESAMPLES,
    chain: np.ndarray | None = None,
    tau_within: float | None = None,
    rng: np.random.Generator,
    warnings: list[str],
) -> FluxResult:
    """The flux test of draws x (n, d) with log density `log_p` (n,), all of them validated.

    `chain` (n,) numbers the chains, 0, 1, ... in order; None for independent draws. `tau_within` is the
    autocorrelation time of the draws within modes, estimated here if not given.
    """
    sample = _FluxSample(x, log_p, target, modes, chain)
    streams = _FluxStreams(*rng.spawn(3))
    return _test_weights(sample, _FluxOptions(variant, anchors, n_resamples), tau_within, streams, warnings)


def _test_weights(
    sample: _FluxSample,
    options: _FluxOptions,
    tau_within: float | None,
    streams: _FluxStreams,
    warnings: list[str],
) -> FluxResult:
    """Compare the weights mode by mode, along the displacements of a lattice, or both."""
    modes = sample.modes
    _warn_close_modes(modes, sample.target, warnings)
    steps = lattice_steps(sample.target, modes) if options.anchors is None else None
    if steps is None:
        result = _test_modes(sample, options, tau_within, streams, warnings)
    else:
        share = share_at_listed_modes(sample.x, sample.log_p, modes, mode_anchors(modes))
        by_modes = None
        if share >= 0.5:  # else most draws would be left out of a comparison mode by mode
            by_modes = _test_modes(sample, options, tau_within, streams, warnings)
        result = _test_steps(sample, steps, options, by_modes, streams.test, warnings)
    return replace(result, warnings=tuple(dict.fromkeys(warnings)))


def _test_modes(
    sample: _FluxSample,
    options: _FluxOptions,
    tau_within: float | None,
    streams: _FluxStreams,
    warnings: list[str],
) -> FluxResult:
    """Compare the weights mode by mode."""
    found, moments, anchors = _carried_draws(sample, options.anchors, streams.anchors)
    part = _compared_modes(sample, options, found, moments, tau_within, streams.test, warnings)
    table = with_local_points(
        part.table, found, sample.target, sample.modes, anchors, sample.chain, streams.anchors.spawn(1)[0]
    )
    n, n_modes = moments.probabilities.shape
    leave = 1 - moments.probabilities[np.arange(n), found.mode]
    reason = part.inconclusive_reason
    if np.isnan(part.outcome.pvalue):
        reason = NOTHING_MOVES
        warnings.append(cannot_tell(reason))
    elif weighty_modes(part.table, sample.modes, NEGLIGIBLE_SHARE).sum() > 1:  # few move to a light mode
        _warn_few_moving(leave, warnings)
    return FluxResult(
        "flux test",
        part.outcome.statistic,
        part.outcome.pvalue,
        part.outcome.null,
        n,
        sample.target.dim,
        modes=sample.modes,
        n_contributing=_n_contributing(leave),
        mode_table=table,
        mode_of_draw=found.mode,
        flow=_flow_between_modes(moments.probabilities, found.mode, n_modes),
        net_flow=part.net_flow,
        net_flow_se=part.net_flow_se,
        mode_pvalues=part.mode_pvalues,
        all_compared=part.all_compared,
        leaving_probability=float(leave.mean()),
        efficiency=moments.efficiency,
        n_anchors=len(anchors),
        degrees_of_freedom=part.degrees_of_freedom,
        trend_pvalue=part.outcome.trend_pvalue,
        variant=part.variant,
        chains=part.chains,
        inconclusive_reason=reason,
        pvalue_floor=part.outcome.floor,
    )


def _compared_modes(
    sample: _FluxSample,
    options: _FluxOptions,
    found: Orbits,
    moments: CountMoments,
    tau_within: float | None,
    rng: np.random.Generator,
    warnings: list[str],
) -> ModeComparison:
    """The counts against their distribution given the orbits, or the net flows of chains in blocks."""
    size = options.n_resamples
    if sample.chain is None:
        return compare_independent(found, moments, sample.modes, options.variant, rng, warnings, size)
    tau = tau_within or time_within_modes(sample.x, sample.log_p, found.mode, sample.chain)
    return compare_chain_modes(found, moments, sample.modes, sample.chain, tau, rng, warnings, size)


def _n_contributing(leave: np.ndarray) -> int:
    """Number of draws with an appreciable probability to leave their mode."""
    return int(np.sum(leave > MIN_PROBABILITY_TO_LEAVE))


def _flow_between_modes(probabilities: np.ndarray, mode: np.ndarray, n_modes: int) -> np.ndarray:
    """Mean probability (M, M) of going from mode i to mode j."""
    columns = [np.bincount(mode, column, minlength=n_modes) for column in probabilities.T]
    flow = np.stack(columns, axis=1) / len(mode)
    return flow - np.diag(np.diag(flow))


class _CarriedDraws(NamedTuple):
    """The orbits of the draws, what they say about the counts, and the anchors between which they move."""

    orbits: Orbits
    moments: CountMoments
    anchors: Anchors


def _carried_draws(
    sample: _FluxSample, anchors: int | Anchors | None, rng: np.random.Generator
) -> _CarriedDraws:
    """The draws carried by the anchors asked for, or by as many as make the test efficient."""

    def carried(chosen: Anchors) -> _CarriedDraws:
        found = orbits(sample.x, sample.log_p, sample.target, chosen)
        return _CarriedDraws(found, count_moments(found), chosen)

    if isinstance(anchors, Anchors):
        _check_anchors(anchors, sample.modes)
        return carried(anchors)
    if anchors is not None and anchors > 1:
        return carried(local_anchors_core(sample.target, sample.modes, int(anchors), rng))
    single = carried(mode_anchors(sample.modes))
    if anchors == 1 or single.moments.efficiency >= MIN_EFFICIENCY:
        return single
    # four per mode are enough for rings and bananas
    several = carried(local_anchors_core(sample.target, sample.modes, 4, rng))
    return several if several.moments.efficiency > single.moments.efficiency else single


def _test_steps(
    sample: _FluxSample,
    steps: np.ndarray,
    options: _FluxOptions,
    by_modes: FluxResult | None,
    rng: np.random.Generator,
    warnings: list[str],
) -> FluxResult:
    """Compare the flows along the displacements of a lattice, by themselves or beside those `by_modes`."""
    shortest = steps[: max(1, len(sample.x) // DRAWS_PER_DISPLACEMENT)]
    flows = step_flows(sample.x, sample.log_p, sample.target, shortest)
    outcome, table, reason = _compared_steps(flows, sample.chain, options.variant, rng, options.n_resamples)
    instead = "not between modes" if by_modes is None else "and between the modes listed"
    warnings.append(
        f"the modes are part of a larger lattice: draws were moved by its displacements, {instead}"
    )
    if by_modes is not None:
        pvalues = np.array([by_modes.pvalue, outcome.pvalue])
        floors = np.array([by_modes.pvalue_floor, floor_of(outcome.null)])
        examined = ~np.isnan(pvalues)
        count = int(examined.sum())
        return replace(
            _one_of(by_modes, count),
            pvalue=min(1.0, count * float(pvalues[examined].min())) if count else np.nan,
            pvalue_floor=count * float(floors[examined].min(initial=1.0)),
            lattice=table,
        )
    leave = flows.accept.max(axis=(1, 2))
    if np.isnan(outcome.pvalue):
        reason = reason or NOTHING_MOVES
        warnings.append(cannot_tell(reason))
    else:
        _warn_few_moving(leave, warnings)
    asymptotic = sample.chain is None and outcome.null is None
    return FluxResult(
        "flux test",
        outcome.statistic,
        outcome.pvalue,
        outcome.null,
        len(sample.x),
        sample.target.dim,
        modes=sample.modes,
        n_contributing=_n_contributing(leave),
        leaving_probability=float(flows.accept.mean()),
        degrees_of_freedom=outcome.degrees_of_freedom,
        variant="asymptotic" if asymptotic else "exact" if sample.chain is None else "block signs",
        lattice=table,
        inconclusive_reason=reason,
    )


def _one_of(by_modes: FluxResult, count: int) -> FluxResult:
    """The test mode by mode as one of so many, which share the level: single modes have a part of it too."""
    assert by_modes.mode_pvalues is not None
    assert by_modes.mode_table is not None
    assert by_modes.net_flow is not None
    assert by_modes.net_flow_se is not None
    pvalues = np.minimum(1.0, max(count, 1) * by_modes.mode_pvalues)
    words = mode_words(
        by_modes.net_flow, by_modes.net_flow_se, pvalues, MODE_TABLE_LEVEL, all_compared=by_modes.all_compared
    )
    return replace(by_modes, mode_pvalues=pvalues, mode_table=replace(by_modes.mode_table, words=words))


def _compared_steps(
    flows: StepFlows,
    chain: np.ndarray | None,
    variant: Variant,
    rng: np.random.Generator,
    n_resamples: int = N_FLUX_RESAMPLES,
) -> tuple[StepTest, DisplacementTable, str]:
    """Outcome, table and reason why it is inconclusive, for independent draws or chains."""
    net = flows.net
    n = len(net)
    if chain is None:
        outcome = compare_steps(flows, variant, rng, n_resamples)
        return outcome, displacement_table(flows, outcome, np.std(net, axis=0) / np.sqrt(n)), ""
    outcome, blocks = compare_chain_steps(flows, chain, rng, n_resamples)
    q = blocks.n_blocks
    sums = block_sums(net - net.mean(axis=0), blocks.label)
    error = block_standard_error(sums) / n
    table = displacement_table(flows, outcome, error, max(q - 1, 1))
    if not np.isnan(outcome.pvalue):
        return outcome, table, ""
    rarely = "the chains change mode too rarely along the displacements to compare the flows"
    return outcome, table, blocks.remedy or rarely


def _warn_few_moving(leave: np.ndarray, warnings: list[str]) -> None:
    moving = np.mean(leave > MIN_PROBABILITY_TO_LEAVE)
    if moving < 0.5:
        warnings.append(
            f"only {moving:.0%} of the draws can be mapped to another mode; the others contribute nothing: "
            "modes are far from elliptic (`flux_test` takes more `anchors`), or draws belong to unknown modes"
        )


def _warn_close_modes(modes: Modes, target: Target, warnings: list[str]) -> None:
    """Say which modes have hardly a dip of the density between them."""
    squared = np.empty((len(modes), len(modes)))
    for k, hessian in enumerate(np.linalg.inv(modes.covariances)):
        gap = modes.locations - modes.locations[k]
        squared[k] = np.sum((gap @ hessian) * gap, axis=1)
    # modes more than 6 standard deviations apart need no dip to be told apart
    near = squared + squared.T < 2 * 6.0**2
    first, second = np.nonzero(np.triu(near, 1))
    if not len(first):
        return
    fraction = np.linspace(0, 1, 11)[1:-1, None, None]
    between = (1 - fraction) * modes.locations[first] + fraction * modes.locations[second]
    height = log_density_at(target, between.reshape(-1, target.dim), proposal=True)
    lowest = height.reshape(len(fraction), -1).min(axis=0)
    dip = np.minimum(modes.log_density[first], modes.log_density[second]) - lowest
    close = np.flatnonzero(dip < 1.0)  # modes are apart if log p dips by a nat between them
    if len(close):
        pairs = ", ".join(f"{first[k]} and {second[k]}" for k in close[:3])
        warnings.append(f"modes {pairs} are closer than they are wide: their shares are not meaningful")


def _check_arguments(target: Any, variant: Any, anchors: Any) -> None:
    require_target(target)
    variants = get_args(Variant)
    if variant not in variants:
        raise ValueError(f"`variant` must be {' or '.join(map(repr, variants))}, got {variant!r}")
    count = isinstance(anchors, (int, np.integer)) and not isinstance(anchors, bool) and anchors >= 1
    if not (anchors is None or isinstance(anchors, Anchors) or count):
        raise ValueError(f"`anchors` must be a positive integer, Anchors or None, got {anchors!r}")
    if count:
        as_count(anchors, "anchors")


def _check_number_of_modes(modes: Modes, *, searched: bool, in_box: bool) -> None:
    if len(modes) < 2:
        wider = "widen `bounds`" if in_box else "give `bounds` to search a box as well"
        advice = f"{wider}, or give the `modes` you know" if searched else "give all `modes` you know"
        raise ValueError(
            f"`modes` must hold at least two modes, got {len(modes)}: {advice}; if "
            "the density has only one there is nothing to compare, see ksd_test for the fit within it"
        )


def _check_anchors(anchors: Anchors, modes: Modes) -> None:
    count, d = modes.locations.shape
    full = np.array_equal(np.unique(anchors.mode), range(count))
    if not full or np.any(np.diff(anchors.mode) < 0):
        raise ValueError(f"`anchors` must be sorted by mode, at least one for each of {count} modes")
    if anchors.centres.shape[1:] != (d,):
        raise ValueError(f"`anchors` must have dimension {d}, got {anchors.centres.shape[1:]}")
    home = anchors.mode[assign(modes.locations, anchors)]
    if not np.array_equal(home, np.arange(count)):
        raise ValueError(
            f"`anchors` must be made for these `modes`: got anchors nearest to modes {home.tolist()}"
        )
