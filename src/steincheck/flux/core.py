"""The mode-flux test: does each mode hold the share the density implies? See docs/theory/flux.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np

from .._validation import RandomSource, announce, as_count, recorded, resample_warnings, seeded
from ..chains.reading import Sample, read_sample
from ..modes.known import known_modes
from ..modes.search import as_box
from ..result import FluxReason, FluxResult, FluxVariant, Modes, among_all, cannot_tell
from ..target import Target, require_target
from ..target.evaluation import Budget, affordable_budget, as_budget, counting_target
from ..typing import BoundsLike, DrawsLike, ModesLike
from ..wording.results import warning, weight_reason_and_remedy
from .comparison import (
    WEIGHTY_SHARE,
    FlowComparison,
    Variant,
    compare_given_orbits,
    compare_in_blocks,
    compare_steps,
    exchange_groups,
    given_orbits,
)
from .orbits import (
    NEGLIGIBLE_SHARE,
    CountMoments,
    Orbits,
    carry_along_steps,
    carry_to_anchors,
    count_moments,
    lattice_steps,
    local_anchors,
    mode_anchors,
    mode_table,
    share_at_listed_modes,
)

MIN_EFFICIENCY = 0.7  # of one anchor per mode; below, anchors=None tries four (flux_study, "sensors")


class FluxCase(NamedTuple):
    """The draws of a test and how it is made; streams are independent of each other."""

    sample: Sample
    target: Target
    modes: Modes
    variant: Variant
    anchors: int | None
    n_resamples: int
    budget: Budget
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
    n_resamples: int = 999,
    weights: Any = None,
    log_weights: Any = None,
    independent: bool = False,
    max_evaluations: int | None = None,
    max_seconds: float | None = 60.0,
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
    test: `pvalue` is NaN, and `mode_table` has the shares of the draws beside those of the density. For draws
    with weights w H0 is: these are proportional to p/q, q the density of the draws. Then E[w F] = 0, and the
    signs are those of groups of draws, or of blocks of single ones.

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
        Samples of the exact variant, and random signs of blocks.
    weights, log_weights : array (n,), optional
        Importance weights of the draws, or their logarithms, up to a constant.
    independent : bool
        The draws are independent, even if their order or shape suggests otherwise.
    max_evaluations : int, optional
        Evaluations of the density for everything: where they do not reach for n (M - 1), evenly spaced draws
        are tested.
    max_seconds : float or None
        As many evaluations as fit into this time, by the time of the first ones.
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
    >>> result.reject(), result.mode_table.error.round(2)
    (True, array([ 0.08, -0.08]))
    """
    arguments = locals()
    require_target(target)
    if variant not in get_args(Variant):
        raise ValueError(f"`variant` must be {' or '.join(map(repr, get_args(Variant)))}, got {variant!r}")
    if anchors is not None:
        as_count(anchors, "anchors")
    box = as_box(bounds, target.dim, modes)
    limits = as_budget(max_evaluations, max_seconds)
    options: dict[str, Any] = {"variant": variant, "anchors": anchors}
    options["n_resamples"] = as_count(n_resamples, "n_resamples")
    generator, seed = seeded(rng)
    counted = counting_target(target, limits)
    read = read_sample(draws, counted, weights=weights, log_weights=log_weights, independent=independent)
    if variant == "exact" and not given_orbits(read):
        kind = "Markov chains" if read.chain is not None else "weighted or hold copies"
        raise ValueError(
            f"`variant` 'exact' is for independent draws, but `draws` are {kind}; give `independent=True` if "
            "chains are independent"
        )
    budget = affordable_budget(target, read.x, limits)
    budget.made += limits.made
    known = known_modes(modes, target, read, box, rng=generator.spawn(1)[0], budget=budget)
    _check_number_of_modes(known.modes, searched=modes is None, in_box=box is not None)
    counted = counting_target(target, budget)
    result = flux_core(read.rows(known.rows), counted, known.modes, budget=budget, rng=generator, **options)
    warnings = [*read.warnings, *known.warnings, *result.warnings]
    if result.inconclusive_reason is not None:
        warnings.append(cannot_tell("; ".join(filter(None, weight_reason_and_remedy(result)))))
    if result.null_distribution is not None:
        warnings.extend(resample_warnings(n_resamples, "n_resamples"))
    announce(warnings)
    settings = recorded(**dict(arguments, rng=seed))
    if np.isfinite(budget.max_evaluations):  # this number repeats the run
        settings |= {"max_evaluations": int(budget.max_evaluations), "max_seconds": None}
    result = replace(result, settings=settings, warnings=tuple(dict.fromkeys(warnings)))
    return among_all(result, known.rows, len(read.x))


def flux_core(
    sample: Sample,
    target: Target,
    modes: Modes,
    *,
    variant: Variant = "asymptotic",
    anchors: int | None = None,
    n_resamples: int = 999,
    budget: Budget | None = None,
    rng: np.random.Generator,
) -> FluxResult:
    """The flux test of draws, all of it validated, of as many of them as the budget allows to carry.

    Orbits stay whole, so that the level is kept; at least 20 draws are carried.
    """
    budget = Budget() if budget is None else budget
    # by displacements where the modes are part of a lattice, and most draws are at modes that are not listed
    steps = lattice_steps(target, modes) if anchors is None else None
    n = len(sample.x)
    count = int(np.clip(budget.left / (len(modes) - 1), min(20, n), n))
    rows = np.arange(count) * n // count
    sample = sample.rows(rows)
    case = FluxCase(sample, target, modes, variant, anchors, n_resamples, budget, *rng.spawn(2))
    if steps is None or share_at_listed_modes(sample.x, sample.log_p, modes) >= 0.5:
        return among_all(_test_modes(case), rows, n)
    return among_all(_test_displacements(case, steps), rows, n)


def _test_modes(case: FluxCase) -> FluxResult:
    """Compare the weights mode by mode."""
    sample, modes = case.sample, case.modes
    found, moments = _carry_draws(case)
    group = exchange_groups(moments.covariance, moments.expected)
    table = mode_table(found, group, modes.locations, sample)
    if given_orbits(sample):
        how = (case.variant, case.n_resamples, case.test_stream)
        part = compare_given_orbits(moments, modes.locations, *how)
    else:
        part = compare_in_blocks(sample, found, moments, table, case.n_resamples, case.test_stream)
    implied = np.where(np.isnan(table.implied), modes.laplace_weights, table.implied)
    weighty = np.maximum(implied, table.observed) > WEIGHTY_SHARE
    apart: FluxReason | None = "no exchange" if len(np.unique(group[weighty])) > 1 else None
    reason = part.reason or apart
    leave = 1 - moments.probabilities[np.arange(len(sample.x)), found.mode]
    several = np.sum(np.fmax(table.implied, table.observed) > NEGLIGIBLE_SHARE) > 1
    return _as_result(
        case,
        part.comparison,
        leave,
        few_matter=bool(several),  # few move to a light mode
        mode_table=table,
        mode_of_draw=found.mode,
        net_flow=part.net_flow,
        mode_pvalues=part.mode_pvalues,
        efficiency=moments.efficiency,
        chains=part.chains,
        inconclusive_reason=reason,
    )


def _carry_draws(case: FluxCase) -> tuple[Orbits, CountMoments]:
    """The draws carried by the anchors asked for, or by four per mode if that makes the test efficient."""
    found = carry_to_anchors(case.sample, case.target, mode_anchors(case.modes))
    moments = count_moments(found)
    if case.anchors == 1 or (case.anchors is None and moments.efficiency >= MIN_EFFICIENCY):
        return found, moments
    several = local_anchors(case.target, case.modes, case.anchors or 4, case.anchor_stream, case.budget)
    if several is None or case.budget.left < len(case.sample.x) * (len(several.mode) - 1):
        return found, moments
    again = carry_to_anchors(case.sample, case.target, several)
    other = count_moments(again)
    if case.anchors is None and other.efficiency <= moments.efficiency:
        return found, moments
    return again, other


def _test_displacements(case: FluxCase, steps: np.ndarray) -> FluxResult:
    """Compare the flows along the displacements of a lattice with those against them."""
    sample = case.sample
    n_steps = min(len(sample.x) / 10, case.budget.left / (2 * len(sample.x)))  # one for ten draws at most
    flows = carry_along_steps(sample, case.target, steps[: max(1, int(n_steps))])
    comparison, lattice = compare_steps(flows, sample, case.variant, case.n_resamples, case.test_stream)
    reason: FluxReason | None = None
    if np.isnan(comparison.pvalue):
        reason = "nothing moves" if sample.chain is None else "few changes"
    return _as_result(
        case,
        comparison,
        flows.accept.max(axis=(1, 2)),
        warnings=(warning("displacements"),),
        lattice=lattice,
        inconclusive_reason=reason,
    )


def _as_result(
    case: FluxCase,
    comparison: FlowComparison,
    leave: np.ndarray,
    *,
    warnings: tuple[str, ...] = (),
    few_matter: bool = True,
    **fields: Any,
) -> FluxResult:
    """The result of a comparison; `leave` (n,) is the probability of each draw to leave its mode."""
    moving = int(np.sum(leave > 0.01))
    if few_matter and moving < 0.5 * len(leave) and not np.isnan(comparison.pvalue):
        warnings += (warning("few moving", share=moving / len(leave)),)
    variant: FluxVariant = "block signs"
    if given_orbits(case.sample):
        variant = case.variant if comparison.null is None else "exact"
    return FluxResult(
        "flux test",
        comparison.statistic,
        comparison.pvalue,
        comparison.null,
        len(leave),
        case.target.dim,
        warnings=warnings,
        modes=case.modes,
        n_contributing=moving,
        degrees_of_freedom=comparison.degrees_of_freedom,
        trend_pvalue=comparison.trend_pvalue,
        variant=variant,
        **fields,
    )


def _check_number_of_modes(modes: Modes, *, searched: bool, in_box: bool) -> None:
    if len(modes) < 2:
        wider = "widen `bounds`" if in_box else "give `bounds` to search a box as well"
        advice = f"{wider}, or give the `modes` you know" if searched else "give all `modes` you know"
        raise ValueError(
            f"`modes` must hold at least two modes that expect a draw, got {len(modes)}: {advice}; if "
            "the density has only one there is nothing to compare, see ksd_test for the fit within it"
        )
