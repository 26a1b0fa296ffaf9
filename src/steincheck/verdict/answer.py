"""One question, one answer: do the draws fit the density?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._validation import (
    RandomSource,
    as_count,
    as_one_positive,
    check_level,
    check_switch,
    integer_seed,
    listed,
    recorded,
)
from .._version import __version__
from ..draws import to_unconstrained
from ..draws.unconstrained import read_as_parameters
from ..flux.anchors import assign, mode_anchors
from ..flux.mode_comparison import time_within_modes
from ..flux.shares import NEGLIGIBLE_SHARE, importance_weights
from ..modes.box import box_beside
from ..modes.search import MAX_EVALUATIONS, MAX_SECONDS
from ..result import (
    AgreementResult,
    Finding,
    FluxResult,
    GofResult,
    ImportanceWeights,
    Modes,
    ModeTable,
    MomentResult,
    Verdict,
    among_all,
    cannot_tell,
)
from ..target import Target, require_target
from ..target.parameter_scale import parameter_scales, to_constrained
from ..typing import BoundsLike, DrawsLike, ModesLike
from ..wording import (
    WEIGHT_KINDS,
    advice,
    agreement_finding,
    first_of_chains,
    headline,
    mode_descriptions,
    moment_findings,
    shape_coordinates,
    shape_finding,
    share_context,
    unknown_misfit_finding,
    weight_findings,
)
from .case import Case, Remarks, SearchLimits, evaluate_case, is_improper, look_for_unknown_modes, search
from .combine import Combined, combine, holm_factor
from .examine import run_tests, with_impossible_draws
from .summary import parameter_table

MIN_DRAWS_FOR_VERDICT = 50  # below this n a non-rejection is inconclusive
NEGLIGIBLE_NATS = 50.0  # below the highest mode, and so many more ...
NEGLIGIBLE_NATS_PER_DIM = 5.0  # ... per dimension: a Cauchy distribution loses 1.4, a Gaussian 0.5
MIN_DRAWS_TO_WEIGHT = 20  # at every mode, before weights are advised


def check(
    draws: DrawsLike,
    target: Target,
    *,
    modes: ModesLike | None = None,
    bounds: BoundsLike | None = None,
    alpha: float = 0.05,
    independent: bool = False,
    check_score: bool = True,
    max_evaluations: int = MAX_EVALUATIONS,
    max_seconds: float | None = MAX_SECONDS,
    progress: bool | None = None,
    rng: RandomSource = None,
) -> Verdict:
    """Do the draws fit the density? Are modes missing or wrongly weighted? What else is wrong?

    H0: the draws are independent and come from the target; or, for Markov chains, the chains are stationary
    with the target as their distribution. The mode search starts from held-out draws; the others are
    tested: the shape by `ksdagg_test`, location, spread, correlation and tails by `moment_test`, the mode
    weights by `flux_test`, and whether the chains agree. Holm's method combines them at the level `alpha`,
    which then bounds the probability of any false alarm, provided that each test keeps its own. There is one
    exception: where chains change mode too rarely for a test, their weights are judged as a set of draws,
    whatever the sampler, and correct chains may fail; the verdict says so in its ``context``.

    Parameters
    ----------
    draws : array (n, d), array (chain, draw, d), or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as one
        chain.
    target : Target
        The density.
    modes : Modes, (locations, covariances) or locations, optional
        Modes you know; otherwise they are searched for, and no box is needed. Covariances more than 3 times
        too wide or too narrow, in standard deviations, are replaced by those of the density, with a warning.
    bounds : (low, high), or one such pair per coordinate, optional
        A box that is searched as well. Mutually exclusive with `modes`.
    alpha : float
        The level; below about 0.001 there are too few replicates, and the answer is "cannot tell".
    independent : bool
        The draws are independent, whatever their order or shape suggests.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    max_evaluations : int
        Points at which the mode search may evaluate the density, as in `find_modes`.
    max_seconds : float or None
        Seconds for the mode search, as in `find_modes`; climbs from draws to unknown modes take at most 10
        more. With None there is no limit, and a verdict never depends on the clock.
    progress : bool, optional
        Show the progress of the mode search; by default on a terminal.
    rng : int, Generator or SeedSequence, optional
        Source of randomness; ``verdict.settings`` carry the seed that was used.

    Returns
    -------
    Verdict
        ``verdict.fits`` is False (misfit found), True (no misfit found, which is no proof) or None (cannot
        tell); ``print(verdict)`` says it in words. Warnings are in ``verdict.warnings``: none is raised as a
        Python warning.

    Notes
    -----
    docs/verdict.md says what it does and what its words mean.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    >>> left = np.random.default_rng(0).normal(-3.0, 1.0, size=(1000, 1))
    >>> sc.check(left, target, rng=0).fits
    False
    """
    check_level(alpha)
    require_target(target)
    _check_limits(max_evaluations, max_seconds)
    check_switch(independent, "independent")
    check_switch(check_score, "check_score")
    check_switch(progress, "progress", optional=True)
    box = box_beside(modes, bounds, target.dim)
    seed = integer_seed(rng)
    settings = recorded(
        modes=modes,
        bounds=bounds,
        alpha=float(alpha),
        independent=bool(independent),
        check_score=bool(check_score),
        max_evaluations=int(max_evaluations),
        max_seconds=None if max_seconds is None else float(max_seconds),
        rng=seed,
    )
    streams = np.random.default_rng(seed).spawn(6)
    sample = to_unconstrained(draws, target)
    remarks = Remarks()
    case = evaluate_case(sample, target, independent, check_score, remarks)
    limits = SearchLimits(int(max_evaluations), max_seconds)
    known, tested = search(case, target, modes, box, limits, progress, streams[0], remarks)
    tests = _tests_that_apply(case, target, known, tested, alpha, streams, remarks)
    mode = _mode_of_every_draw(case.x, known, tests.get("weights"))
    combined = combine(tests, alpha)
    remarks.inconclusive_reasons.extend(_inconclusive_reasons(len(case.x), known, combined))
    look_for_unknown_modes(case, target, known, limits, remarks)
    return _as_verdict(case, target, known, combined, mode, settings, remarks)


def _tests_that_apply(
    case: Case,
    target: Target,
    known: Modes,
    tested: np.ndarray,
    alpha: float,
    streams: list[np.random.Generator],
    remarks: Remarks,
) -> dict[str, GofResult]:
    """The tests of the rows `tested`, and of impossible draws among all; none if the density is improper."""
    reasons = remarks.inconclusive_reasons
    if is_improper(known):
        reasons.insert(0, "the density appears to be improper, or the sign of the log density is reversed")
        return {}
    reasons.extend(text for text in remarks.invalid if text not in reasons)
    tests: dict[str, GofResult] = {}
    if not remarks.invalid:
        found = run_tests(case.rows(tested), target, known, alpha, streams, remarks)
        remarks.warnings.extend(text for result in found.values() for text in result.warnings)
        tests = {name: among_all(result, tested, len(case.x)) for name, result in found.items()}
    return tests | with_impossible_draws(tests.get("moments"), case.x, tested, target, known, alpha)


def _check_limits(max_evaluations: Any, max_seconds: Any) -> None:
    """Raise unless the limits of the mode search are valid; None is no limit of time."""
    as_count(max_evaluations, "max_evaluations", maximum=10**12)
    if max_seconds is not None:
        as_one_positive(max_seconds, "max_seconds")


def _as_verdict(
    case: Case,
    target: Target,
    known: Modes,
    combined: Combined,
    mode: np.ndarray | None,
    settings: Mapping[str, Any],
    remarks: Remarks,
) -> Verdict:
    """The answer, and everything that is known about it in words."""
    fits = False if combined.rejected else None if remarks.inconclusive_reasons else True
    descriptions = mode_descriptions(*to_constrained(known.locations, target))
    findings = _findings(combined, target, descriptions, case.chain) if fits is False else []
    repair = _repair(case, combined.mode_table, mode)
    if combined.rejects("weights"):
        shape_is_wrong = combined.rejects("kernel") or combined.rejects("moments")
        remarks.context.extend(share_context(repair, shape_is_wrong=shape_is_wrong))
    smallest = combined.at_floor
    repeated = {cannot_tell(reason) for reason in remarks.inconclusive_reasons}
    return Verdict(
        fits=fits,
        pvalue=combined.pvalue,
        alpha=combined.alpha,
        tests=combined.tests,
        adjusted_pvalues=combined.adjusted_pvalues,
        findings=tuple(findings),
        inconclusive_reasons=tuple(remarks.inconclusive_reasons),
        mode_table=combined.mode_table,
        importance_weights=repair,
        modes=known,
        context=tuple(remarks.context),
        not_examined=tuple(remarks.not_examined + ([] if fits is None else remarks.inconclusive_reasons)),
        warnings=tuple(text for text in dict.fromkeys(remarks.warnings) if text not in repeated),
        n=len(case.x),
        dim=target.dim,
        names=target.coordinate_names,
        seed=settings["rng"],
        settings=settings,
        version=__version__,
        sentence=headline(
            fits, combined.alpha, combined.pvalue, remarks.inconclusive_reasons, smallest=smallest
        ),
        mode_descriptions=descriptions,
        mode_of_draw=mode,
        chain=case.chain,
        parameter_table=parameter_table(case, target, combined.tests.get("moments")),
        advice=_advice(fits, findings, combined, case, target, weighable=repair is not None, known=known),
    )


def _advice(
    fits: bool | None,
    findings: Sequence[Finding],
    combined: Combined,
    case: Case,
    target: Target,
    *,
    weighable: bool,
    known: Modes,
) -> tuple[str, ...]:
    """What to do; importance weights are advised if `weighable` and every mode that matters has draws."""
    table = combined.mode_table
    if weighable and table is not None:
        matters = table.implied > NEGLIGIBLE_SHARE
        weighable = bool((table.n_draws[matters] >= MIN_DRAWS_TO_WEIGHT).all())
    locations = "verdict.modes.locations"
    if target.constrain is not None:
        locations = f"target.constrain({locations})"
    return advice(
        fits,
        findings,
        chains=case.chain is not None,
        weighable=weighable,
        locations=locations,
        stuck=_stuck(combined.weights),
        relabelled=_relabelled(combined.weights),
        warm_up=_is_warm_up(findings, combined.tests, case.chain),
        unreached=bool(findings) and _is_far_from_mass(case, known),
        misread=_misread(case, target) if findings else (),
        scales={item.parameter: item.scale for item in parameter_scales(target).values()},
    )


def _misread(case: Case, target: Target) -> tuple[str, ...]:
    """Parameters of which the draws may be values, though they were read as coordinates of the target."""
    parameters, gain = read_as_parameters(case.x, target)
    return parameters if gain > 0 else ()


def _relabelled(weights: FluxResult | None) -> bool:
    """Whether the search found modes that differ by the labels of components alone."""
    return weights is not None and any(g.kind == "exchange of coordinates" for g in weights.modes.symmetries)


def _mode_of_every_draw(x: np.ndarray, known: Modes, weights: GofResult | None) -> np.ndarray | None:
    """The mode of each draw by the flux test; those held out belong to the nearest one."""
    if not isinstance(weights, FluxResult) or weights.mode_of_draw is None:
        return None
    mode = weights.mode_of_draw.copy()
    held = np.flatnonzero(mode < 0)
    if len(held):
        mode[held] = assign(x[held], mode_anchors(known))
    return mode


def _repair(case: Case, table: ModeTable | None, mode: np.ndarray | None) -> ImportanceWeights | None:
    """Importance weights of all draws; None where a mode has no draws or its weight is unknown."""
    if table is None or mode is None:
        return None
    tau = 1.0 if case.chain is None else time_within_modes(case.x, case.log_p, mode, case.chain)
    try:
        return importance_weights(table, mode, tau)
    except ValueError:
        return None


def _findings(
    combined: Combined,
    target: Target,
    descriptions: Sequence[str],
    chain: np.ndarray | None,
) -> list[Finding]:
    """What is wrong and by how much: mode weights, moments, the rest of the shape, the chains."""
    found: list[Finding] = []
    tests = combined.tests
    adjusted = combined.adjusted_pvalues
    names = target.coordinate_names
    scales = parameter_scales(target)
    weights = combined.weights
    if weights is not None and combined.rejects("weights"):
        found += weight_findings(
            weights, descriptions, names, scales, adjusted["weights"], holm_factor(tests, "weights")
        )
    moments = tests.get("moments")
    if isinstance(moments, MomentResult) and combined.rejects("moments"):
        named = {finding.mode for finding in found}
        descriptions_left = {k: text for k, text in enumerate(descriptions) if k not in named}
        parameters = [scales[name].parameter if name in scales else name for name in names]
        found += moment_findings(
            moments,
            adjusted["moments"],
            combined.alpha,
            descriptions_left,
            factor=holm_factor(tests, "moments"),
            names=parameters,
            chain=chain,
        )
    shape = min(adjusted.get("kernel", 1.0), adjusted.get("moments", 1.0))
    about_moments = any(finding.kind not in WEIGHT_KINDS for finding in found)
    if shape <= combined.alpha and not about_moments:  # no single moment shows it
        several = len(descriptions) > 1
        if isinstance(moments, MomentResult):
            found.append(shape_finding(shape, shape_coordinates(moments), several=several))
        else:
            found.append(unknown_misfit_finding(shape, several=several))
    chains = tests.get("chains")
    if isinstance(chains, AgreementResult) and combined.rejects("chains"):
        found.append(agreement_finding(chains, adjusted["chains"]))
    return found


def _stuck(weights: FluxResult | None) -> bool:
    """Whether there are chains at every mode of non-negligible weight, which hardly ever leave it."""
    if weights is None or weights.variant != "set" or weights.mode_table is None:
        return False
    table = weights.mode_table
    weighty = table.implied > NEGLIGIBLE_SHARE
    return bool(weighty.any() and (table.n_draws[weighty] >= MIN_DRAWS_TO_WEIGHT).all())


def _is_far_from_mass(case: Case, known: Modes) -> bool:
    """Whether most draws are far lower than those of any usual distribution with these modes."""
    drop = NEGLIGIBLE_NATS + NEGLIGIBLE_NATS_PER_DIM * case.x.shape[1]
    return bool(np.median(case.log_p) < known.log_density.max(initial=-np.inf) - drop)


def _is_warm_up(
    findings: Sequence[Finding], tests: Mapping[str, GofResult], chain: np.ndarray | None
) -> bool:
    """Whether what is wrong are the beginnings of the chains."""
    kinds = {finding.kind for finding in findings}
    moments = tests.get("moments")
    if chain is not None and "impossible draws" in kinds and isinstance(moments, MomentResult):
        return first_of_chains(moments.impossible_rows, chain)
    chains = tests.get("chains")
    return isinstance(chains, AgreementResult) and "chains" in kinds and chains.starts_differ


def _inconclusive_reasons(n: int, known: Modes, combined: Combined) -> list[str]:
    """Reasons why a non-rejection is inconclusive."""
    reasons = []
    tests = combined.tests
    alpha = combined.alpha
    if n < MIN_DRAWS_FOR_VERDICT:
        reasons.append(
            f"{n} draws are too few: below {MIN_DRAWS_FOR_VERDICT} a non-rejection is inconclusive"
        )
    weights = tests.get("weights")
    if isinstance(weights, FluxResult):
        apart = _modes_apart(known, weights)
        if weights.inconclusive_reason and not combined.rejects("weights"):
            reasons.append(weights.inconclusive_reason)
        elif apart:
            which = f"mode{'s' * (len(apart) > 1)} {listed(apart, 5)}"
            reasons.append(
                f"the weight of {which} could not be compared with that of the others: the linear maps carry "
                "hardly any draw from one to the other"
            )
    for result in tests.values():
        floor = len(tests) * result.pvalue_floor
        if floor > alpha:
            reasons.append(
                f"the {result.test} cannot reach the level {alpha:g}: its smallest adjusted p-value is "
                f"{floor:.2g}"
            )
    return reasons


def _modes_apart(known: Modes, weights: FluxResult) -> list[int]:
    """Modes of non-negligible weight that could not be compared with the others."""
    table = weights.mode_table
    if table is None:
        return []
    weighty = (known.laplace_weights > NEGLIGIBLE_SHARE) | (table.observed > NEGLIGIBLE_SHARE)
    return np.flatnonzero(np.isnan(table.implied) & weighty).tolist()
