"""The mode-flux test: does each mode hold the share the density implies? See docs/theory/flux.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np

from .._validation import RandomSource, announce, as_count, recorded, resample_warnings, seeded
from ..chains.blocks import block_standard_error, block_sums
from ..chains.reading import read_sample
from ..draws.record import chain_of_rows
from ..modes.held_out import box_beside, known_modes
from ..result import (
    DisplacementTable,
    FluxReason,
    FluxResult,
    FluxVariant,
    Modes,
    ModeTable,
    among_all,
    cannot_tell,
    mode_words,
)
from ..target import Target, log_density_at, require_target
from ..typing import BoundsLike, DrawsLike, ModesLike
from ..wording.results import close_modes, few_moving, moved_by_displacements, weight_reason
from .anchors import Anchors, local_anchors, mode_anchors
from .chains import WEIGHTY_SHARE, compare_chain_modes, compare_chain_steps
from .counts import (
    N_FLUX_RESAMPLES,
    FlowComparison,
    ModeComparison,
    Variant,
    compare_independent,
    exchange_groups,
)
from .displacements import (
    DRAWS_PER_DISPLACEMENT,
    compare_steps,
    lattice_steps,
    share_at_listed_modes,
    step_flows,
)
from .orbits import CountMoments, Orbits, count_moments, orbits
from .shares import MODE_TABLE_LEVEL, NEGLIGIBLE_SHARE, mode_table

MIN_EFFICIENCY = 0.7  # of one anchor per mode; below, anchors=None tries four (flux_study, "sensors")


class FluxCase(NamedTuple):
    """The draws of a test and how it is made; streams are independent of each other."""

    x: np.ndarray  #: (n, d)
    log_p: np.ndarray  #: (n,)
    target: Target
    modes: Modes
    chain: np.ndarray | None  #: (n,) 0, 1, ... in order; None for independent draws
    variant: Variant
    anchors: int | None
    n_resamples: int
    anchor_stream: np.random.Generator
    test_stream: np.random.Generator


def flux_test(
    draws: DrawsLike,
    target: Target,
    *,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    variant: Variant = "asymptotic",
    anchors: int | None = None,
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

    If the modes span at most a third as many dimensions, the part of Q in those combinations of F that are
    linear in the mode locations, a trend of the weights, has a part in the statistic of its own.

    If the modes are part of a lattice too large to be listed, draws are moved by its displacements v instead,
    f_v(x) = min(1, p(x+v)/p(x)) - min(1, p(x-v)/p(x)), and Hotelling's T2 of the means of f_v is used.

    For Markov chains H0 is: the chains are stationary with the target as distribution. The null distribution
    of Q then comes from random signs of blocks. Where the chains change mode too rarely for that, there is no
    test: `pvalue` is NaN, and `mode_table` has the shares of the draws beside those of the density.

    The test sees the weights of the modes it knows, nothing else: see `ksd_test` for the fit within modes.

    Parameters
    ----------
    draws : array (n, d) or (chain, draw, d), a list of chains, or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as
        one chain, with a warning.
    target : Target
        The density; its score is used only to search for modes and to run local chains.
    modes : Modes, (locations, covariances) or locations, optional
        At least two. They must not be chosen by looking at the draws; searched for if not given. Modes that
        expect less than one draw and hold none are left out.
    bounds : (low, high), or one such pair per coordinate, optional
        A box that the mode search covers as well. Mutually exclusive with `modes`.
    variant : "asymptotic" or "exact"
        How the p-value of independent draws is found: from the limit distribution, or from `n_resamples`
        samples in which every draw has jumped by its probabilities, which is exact for any n. "asymptotic"
        turns to "exact" by itself where a direction of the counts has a variance below 10, or n < 100.
    anchors : int, optional
        Gaussians per mode between which draws are moved; 1 takes the mode and its inverse Hessian, more come
        from short chains that start at the modes. By default 1, or 4 if 1 is inefficient.
    n_resamples : int
        Samples of the exact variant, and random signs of the blocks of Markov chains.
    independent : bool
        The draws are independent, even if their order or shape suggests otherwise.
    rng : int, Generator or SeedSequence, optional
        Only the search, the local chains, the exact variant and the signs of blocks are random.

    Returns
    -------
    FluxResult
        ``pvalue`` is NaN, with a warning, where the test cannot tell; ``inconclusive_reason`` says why.

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
    n_resamples = as_count(n_resamples, "n_resamples")
    options: dict[str, Any] = {"variant": variant, "anchors": anchors, "n_resamples": n_resamples}
    generator, seed = seeded(rng)
    read = read_sample(draws, target, independent=independent)
    if read.chain is not None and variant == "exact":
        raise ValueError(
            "`variant` 'exact' is for independent draws, but `draws` are Markov chains; give "
            "`independent=True` if they are independent"
        )
    (search_stream,) = generator.spawn(1)
    known, rows, mode_warnings = known_modes(modes, target, read.x, box, chain=read.chain, rng=search_stream)
    _check_number_of_modes(known, searched=modes is None, in_box=box is not None)
    chain = chain_of_rows(read.chain, rows)
    sample = (read.x[rows], read.log_p[rows])
    result = flux_core(*sample, target, known, chain=chain, rng=generator, **options)
    warnings = [*read.warnings, *mode_warnings, *result.warnings]
    if result.inconclusive_reason is not None:
        warnings.append(cannot_tell(weight_reason(result)))
    if result.null_distribution is not None:
        warnings.extend(resample_warnings(n_resamples, "n_resamples"))
    announce(warnings)
    settings = recorded(modes=modes, bounds=bounds, **options, independent=independent, rng=seed)
    result = replace(result, settings=settings, warnings=tuple(dict.fromkeys(warnings)))
    return among_all(result, rows, len(read.x))


def flux_core(
    x: np.ndarray,
    log_p: np.ndarray,
    target: Target,
    modes: Modes,
    *,
    variant: Variant = "asymptotic",
    anchors: int | None = None,
    n_resamples: int = N_FLUX_RESAMPLES,
    chain: np.ndarray | None = None,
    rng: np.random.Generator,
) -> FluxResult:
    """The flux test of draws x (n, d) with log density `log_p` (n,), all of them validated.

    `chain` (n,) numbers the chains, 0, 1, ... in order; None for independent draws.
    """
    case = FluxCase(x, log_p, target, modes, chain, variant, anchors, n_resamples, *rng.spawn(2))
    # by displacements where the modes are part of a lattice, and most draws are at modes that are not listed
    steps = lattice_steps(target, modes) if anchors is None else None
    if steps is None or share_at_listed_modes(x, log_p, modes) >= 0.5:
        return _test_modes(case)
    return _test_displacements(case, steps)


def _test_modes(case: FluxCase) -> FluxResult:
    """Compare the weights mode by mode."""
    found, moments = _carried_draws(case)
    group = exchange_groups(moments.covariance, moments.expected)
    table = mode_table(found, group, case.modes.locations, case.chain)
    part = _compare_modes(case, found, moments, table)
    reason = part.reason or _why_apart(group, table, case.modes)
    words = mode_words(part.net_flow, part.mode_pvalues, MODE_TABLE_LEVEL, comparable=reason is None)
    leave = 1 - moments.probabilities[np.arange(len(case.x)), found.mode]
    warnings = _warnings_of_close_modes(case.modes, case.target)
    if np.sum(np.fmax(table.implied, table.observed) > NEGLIGIBLE_SHARE) > 1:  # few move to a light mode
        warnings += _warnings_of_few_moving(leave, part.comparison)
    return _as_result(
        case,
        part.comparison,
        leave,
        warnings=warnings,
        mode_table=replace(table, words=words),
        mode_of_draw=found.mode,
        net_flow=part.net_flow,
        mode_pvalues=part.mode_pvalues,
        efficiency=moments.efficiency,
        chains=part.chains,
        inconclusive_reason=reason,
    )


def _compare_modes(case: FluxCase, found: Orbits, moments: CountMoments, table: ModeTable) -> ModeComparison:
    """The counts against their distribution given the orbits, or the net flows of chains in blocks."""
    size, rng = case.n_resamples, case.test_stream
    if case.chain is None:
        return compare_independent(moments, table.locations, case.variant, size, rng)
    return compare_chain_modes(moments, found.mode, case.chain, table, size, rng)


def _why_apart(group: np.ndarray, table: ModeTable, modes: Modes) -> FluxReason | None:
    """Whether some of the modes that matter exchange no draws, by their `group` (M,)."""
    implied = np.where(np.isnan(table.implied), modes.laplace_weights, table.implied)
    weighty = np.maximum(implied, table.observed) > WEIGHTY_SHARE
    return "no exchange" if len(np.unique(group[weighty])) > 1 else None


def _carried_draws(case: FluxCase) -> tuple[Orbits, CountMoments]:
    """The draws carried by the anchors asked for, or by as many as make the test efficient."""

    def carried(chosen: Anchors) -> tuple[Orbits, CountMoments]:
        found = orbits(case.x, case.log_p, case.target, chosen)
        return found, count_moments(found)

    anchors = case.anchors
    if anchors is not None and anchors > 1:
        return carried(local_anchors(case.target, case.modes, anchors, case.anchor_stream))
    single = carried(mode_anchors(case.modes))
    if anchors == 1 or single[1].efficiency >= MIN_EFFICIENCY:
        return single
    # four per mode are enough for rings and bananas
    several = carried(local_anchors(case.target, case.modes, 4, case.anchor_stream))
    return several if several[1].efficiency > single[1].efficiency else single


def _test_displacements(case: FluxCase, steps: np.ndarray) -> FluxResult:
    """Compare the flows along the displacements of a lattice with those against them."""
    n = len(case.x)
    shortest = steps[: max(1, n // DRAWS_PER_DISPLACEMENT)]
    flows = step_flows(case.x, case.log_p, case.target, shortest)
    net = flows.net
    reason: FluxReason | None = None
    if case.chain is None:
        comparison = compare_steps(flows, case.variant, case.n_resamples, case.test_stream)
        error = np.std(net, axis=0) / np.sqrt(n)
    else:
        comparison, blocks = compare_chain_steps(flows, case.chain, case.n_resamples, case.test_stream)
        error = block_standard_error(block_sums(net - net.mean(axis=0), blocks.label)) / n
    if np.isnan(comparison.pvalue):
        reason = "nothing moves" if case.chain is None else "few changes"
    leave = flows.accept.max(axis=(1, 2))
    return _as_result(
        case,
        comparison,
        leave,
        warnings=(moved_by_displacements(), *_warnings_of_few_moving(leave, comparison)),
        lattice=DisplacementTable(flows.steps, net.mean(axis=0), error),
        inconclusive_reason=reason,
    )


def _as_result(case: FluxCase, comparison: FlowComparison, leave: np.ndarray, **fields: Any) -> FluxResult:
    """The result of a comparison; `leave` (n,) is the probability of each draw to leave its mode."""
    return FluxResult(
        "flux test",
        comparison.statistic,
        comparison.pvalue,
        comparison.null,
        len(case.x),
        case.target.dim,
        modes=case.modes,
        n_contributing=_n_contributing(leave),
        degrees_of_freedom=comparison.degrees_of_freedom,
        trend_pvalue=comparison.trend_pvalue,
        variant=_variant(case, comparison),
        **fields,
    )


def _variant(case: FluxCase, comparison: FlowComparison) -> FluxVariant:
    """How the p-value was found."""
    if case.chain is not None:
        return "block signs"
    return case.variant if comparison.null is None else "exact"


def _n_contributing(leave: np.ndarray) -> int:
    """Number of draws with a probability above 1 % to leave their mode."""
    return int(np.sum(leave > 0.01))


def _warnings_of_few_moving(leave: np.ndarray, comparison: FlowComparison) -> tuple[str, ...]:
    """A warning if most draws contribute nothing to a test that was made."""
    moving = _n_contributing(leave) / len(leave)
    return (few_moving(moving),) if moving < 0.5 and not np.isnan(comparison.pvalue) else ()


def _warnings_of_close_modes(modes: Modes, target: Target) -> tuple[str, ...]:
    """A warning of modes that have hardly a dip of the density between them."""
    squared = np.empty((len(modes), len(modes)))
    for k, hessian in enumerate(np.linalg.inv(modes.covariances)):
        gap = modes.locations - modes.locations[k]
        squared[k] = np.sum((gap @ hessian) * gap, axis=1)
    # modes more than 6 standard deviations apart need no dip to be told apart
    near = squared + squared.T < 2 * 6.0**2
    first, second = np.nonzero(np.triu(near, 1))
    if not len(first):
        return ()
    fraction = np.linspace(0, 1, 11)[1:-1, None, None]
    between = (1 - fraction) * modes.locations[first] + fraction * modes.locations[second]
    height = log_density_at(target, between.reshape(-1, target.dim), proposal=True)
    lowest = height.reshape(len(fraction), -1).min(axis=0)
    dip = np.minimum(modes.log_density[first], modes.log_density[second]) - lowest
    close = np.flatnonzero(dip < 1.0)  # modes are apart if log p dips by a nat between them
    pairs = [(int(first[k]), int(second[k])) for k in close]
    return (close_modes(pairs),) if pairs else ()


def _check_arguments(target: Any, variant: Any, anchors: Any) -> None:
    require_target(target)
    variants = get_args(Variant)
    if variant not in variants:
        raise ValueError(f"`variant` must be {' or '.join(map(repr, variants))}, got {variant!r}")
    if anchors is not None:
        as_count(anchors, "anchors")


def _check_number_of_modes(modes: Modes, *, searched: bool, in_box: bool) -> None:
    if len(modes) < 2:
        wider = "widen `bounds`" if in_box else "give `bounds` to search a box as well"
        advice = f"{wider}, or give the `modes` you know" if searched else "give all `modes` you know"
        raise ValueError(
            f"`modes` must hold at least two modes that expect a draw, got {len(modes)}: {advice}; if "
            "the density has only one there is nothing to compare, see ksd_test for the fit within it"
        )
