"""One question, one answer: do the draws fit the density?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ._validation import as_generator, check_count, check_level
from ._version import __version__
from .aggregate import collection, ksdagg_core
from .chains import Blocks, agreement, chain_faults, convergence, cut_blocks, looks_dependent
from .draws import Draws, as_draws
from .flux.test import flux_core
from .modes.box import as_box
from .modes.search import (
    MAX_EVALUATIONS,
    climb_from_draws,
    hold_out,
    known_modes,
    rounded_location,
    search_modes,
    search_sentence,
)
from .moments.test import moment_core, parameter_names
from .result import (
    AgreementResult,
    Finding,
    FluxResult,
    GofResult,
    KsdaggResult,
    Modes,
    MomentResult,
    Verdict,
)
from .stein.kernels import IMQ
from .stein.quadratic import chain_blocks, spawn_streams, whitened, whitened_scores
from .target import Target, check_score, hard_edge, log_density_at, require_target, score_at
from .wording import (
    agreement_finding,
    chain_worth,
    headline,
    kernel_finding,
    moment_findings,
    place,
    render,
    weight_findings,
)

MIN_DRAWS = 50  # below this n a non-rejection is inconclusive
MIN_DRAWS_FOR_MOMENTS = 100  # below, the bootstrap of the moment test rejects true draws too often
MAX_DRAWS_FOR_TAU = 4000  # the autocorrelation time is estimated from evenly spaced draws beyond
MAX_KERNEL_DRAWS = 50_000  # the kernel test costs n^2: beyond, it looks at evenly spaced draws
NEGLIGIBLE_SHARE = 0.01  # a mode of a smaller share may go unexamined
MAX_UNKNOWN_SHARE = 0.1  # of the draws at unknown modes, beyond which a non-rejection is inconclusive


class Case(NamedTuple):
    """Draws and what is evaluated at them, once."""

    x: np.ndarray  # (n, d)
    log_p: np.ndarray  # (n,)
    scores: np.ndarray  # (n, d)
    chain: np.ndarray | None  # (n,) chain of each draw, 0, 1, ...; None for independent draws

    def rows(self, index: np.ndarray) -> Case:
        """Some of the draws, their chains numbered anew."""
        chain = None if self.chain is None else np.unique(self.chain[index], return_inverse=True)[1]
        return Case(self.x[index], self.log_p[index], self.scores[index], chain)


class Said(NamedTuple):
    """What is collected for the verdict beside the tests."""

    warnings: list[str]
    context: list[str]
    reasons: list[str]  # why a non-rejection is inconclusive
    not_examined: list[str]


def check(
    draws: Any,
    target: Target,
    *,
    modes: Any = None,
    bounds: Any = None,
    alpha: float = 0.05,
    independent: bool = False,
    max_evaluations: int | None = None,
    progress: bool | None = None,
    rng: np.random.Generator | int | None = None,
) -> Verdict:
    """Do the draws fit the density? Are modes missing or weighted wrongly? What else is wrong?

    H0: the draws are independent and come from the target; or, for Markov chains, the chains are stationary
    with the target as their distribution. Modes are searched from draws that are held out; the others are
    tested: the shape by `ksdagg_test`, location, spread, correlation and tails by `moment_test`, the mode
    weights by `flux_test`, and whether the chains agree. Holm's method combines them at the level `alpha`.

    Parameters
    ----------
    draws : array (n, d), array (chain, draw, d), or anything that `as_draws` takes
        Independent draws or Markov chains. An array (n, d) whose order shows autocorrelation is tested as one
        chain.
    target : Target
        The density.
    modes : Modes, (locations, covariances) or locations, optional
        Modes you know; otherwise they are searched, and no box is needed.
    bounds : (low, high) or one such pair per coordinate, optional
        A box in which the search looks too. Not to be given beside `modes`.
    alpha : float
        The level.
    independent : bool
        The draws are independent, whatever their order or shape suggests.
    max_evaluations : int, optional
        Points at which the mode search may evaluate the density.
    progress : bool, optional
        Show the progress of the mode search; by default on a terminal.
    rng : Generator or int, optional
        Source of randomness; the verdict carries the seed that was used.

    Returns
    -------
    Verdict
        ``verdict.fits`` is False (misfit found), True (no misfit found, which is no proof) or None (cannot
        tell); ``print(verdict)`` says it in words.

    References
    ----------
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
    if max_evaluations is not None:
        check_count(max_evaluations, "max_evaluations")
    seed = fresh_seed(rng)
    streams = np.random.default_rng(seed).spawn(6)
    sample = as_draws(draws, target.dim, names=target.names)
    said = Said(list(sample.warnings), [], [], [])
    case = _evaluated(sample, target, independent, said)
    budget = MAX_EVALUATIONS if max_evaluations is None else max_evaluations
    known, tested = _search(case, target, modes, bounds, budget, progress, streams[0], said)
    tests = _run_tests(case.rows(tested), target, known, alpha, streams, said)
    return _conclude(case, target, known, tests, alpha, seed, streams[5], said)


def fresh_seed(rng: Any) -> int:
    """The seed itself, one drawn from the Generator, or a new one: always something to write down."""
    generator = as_generator(rng)
    return int(rng) if isinstance(rng, (int, np.integer)) else int(generator.integers(2**32))


def holm(pvalues: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values so that comparing each with alpha keeps the family-wise level alpha.

    Examples
    --------
    >>> holm({"a": 0.01, "b": 0.2, "c": 0.04})
    {'a': 0.03, 'c': 0.08, 'b': 0.2}
    """
    adjusted = {}
    largest = 0.0
    for k, name in enumerate(sorted(pvalues, key=lambda name: pvalues[name])):
        largest = max(largest, min(1.0, (len(pvalues) - k) * pvalues[name]))
        adjusted[name] = largest
    return adjusted


def _evaluated(sample: Draws, target: Target, independent: bool, said: Said) -> Case:
    """Evaluate log density and score once, and find out whether the draws are chains."""
    x = sample.values
    log_p = log_density_at(target, x)
    if target.score is None:
        said.warnings.append("the target has no score: finite differences of its log density are used")
    else:
        check_score(target, x)
    chain = None if independent else sample.chain
    if chain is None and not independent:
        found = looks_dependent(x, log_p, target.names)
        if found is not None:
            chain = np.zeros(len(x), dtype=int)
            said.warnings.append(f"{found}: they were tested as one chain; if they are not, shuffle them")
    if chain is None:
        said.context.append("The draws were tested as independent ones.")
    else:
        said.warnings.extend(chain_faults(x, chain, target.names))
        said.context.append(_chain_sentence(x, chain))
    if sample.divergences:
        said.warnings.append(f"the sampler reports {sample.divergences} divergent transitions")
    return Case(x, log_p, score_at(target, x), chain)


def _chain_sentence(x: np.ndarray, chain: np.ndarray) -> str:
    """How the draws were treated, with what is commonly reported of chains."""
    lengths = np.bincount(chain)
    equal = f"{len(lengths)} x {lengths[0]} draws" if np.ptp(lengths) == 0 else f"{len(x)} draws"
    chains = "one chain" if len(lengths) == 1 else f"{len(lengths)} chains"
    common = convergence(x, chain)
    return (
        f"The {equal} were tested as {chains}: H0 is that they are stationary with the density as their "
        f"distribution. Over all coordinates bulk ESS is at least {np.min(common.ess_bulk):.0f}, tail ESS "
        f"{np.min(common.ess_tail):.0f}, R-hat at most {np.max(common.rhat):.3f}."
    )


def _search(
    case: Case,
    target: Target,
    modes: Any,
    bounds: Any,
    max_evaluations: int,
    progress: bool | None,
    rng: np.random.Generator,
    said: Said,
) -> tuple[Modes, np.ndarray]:
    """The modes and the rows to test; without a mode, a stand-in where the held-out draws are."""
    if modes is not None:
        return known_modes(modes, target, case.x, bounds, notes=said.warnings, rng=rng)
    held, tested = hold_out(len(case.x), rng, case.chain)
    known = search_modes(
        target,
        case.x[held] if len(held) else None,
        location=None if len(held) else rounded_location(case.x),
        box=None if bounds is None else as_box(bounds, target.dim),
        max_evaluations=max_evaluations,
        progress=progress,
        rng=rng,
    )
    said.warnings.extend(known.warnings)
    if len(held):
        said.context.append(
            f"{len(held)} draws, held out, told the mode search where to begin; the other {len(tested)} were "
            "tested."
        )
    if not len(known):
        said.warnings.append(f"no mode was found: {known.search['stopped']}")
        said.not_examined.append("the mode weights: no mode was found")
        return _stand_in(case.x[held] if len(held) else case.x), tested
    said.context.append(f"Mode search: {search_sentence(known)}.")
    said.not_examined.append("modes that the search did not find")
    if known.symmetries:
        said.context.append(f"Symmetries of the density: {'; '.join(known.symmetries)}.")
    return known, tested


def _stand_in(x: np.ndarray) -> Modes:
    """Units for the tests of a density without a mode: median and spread of the held-out draws."""
    centre, scale = rounded_location(x)
    return Modes(centre[None], np.diag(scale**2)[None], np.zeros(1), np.zeros(1, dtype=int))


def _run_tests(
    case: Case,
    target: Target,
    known: Modes,
    alpha: float,
    streams: list[np.random.Generator],
    said: Said,
) -> dict[str, GofResult]:
    """The tests that apply, in the order of the verdict."""
    tests: dict[str, GofResult] = {}
    whiten = np.linalg.cholesky(np.mean(known.covariances, axis=0))
    edge = hard_edge(target, case.x, case.log_p, streams[4])
    blocks = None
    if case.chain is not None:
        blocks = _blocks_of_chains(case, whiten)
        if not blocks.enough:
            said.reasons.append(f"the shape could not be tested: {blocks.remedy}")
    if edge is not None:
        said.reasons.append(
            f"the density ends abruptly near ({place(edge, parameter_names(target))}), and tests of the "
            "shape need one that vanishes at its edge: transform the parameters to the whole space"
        )
    elif blocks is None or blocks.enough:
        tests["kernel"] = _kernel_test(case, whiten, blocks, alpha, streams[1], said)
        if len(case.x) >= MIN_DRAWS_FOR_MOMENTS:
            tests["moments"] = _moment_test(case, target, known, blocks, streams[2], said)
        else:
            said.not_examined.append(
                f"location, spread and correlation by themselves: that takes {MIN_DRAWS_FOR_MOMENTS} draws"
            )
    if len(known) > 1:
        tests["weights"] = flux_core(
            case.x,
            case.log_p,
            target,
            known,
            chain=case.chain,
            tau_within=None if blocks is None else blocks.tau,
            rng=streams[3],
            notes=said.warnings,
        )
    if blocks is not None:
        tests["chains"] = _agreement_test(case, whiten, streams[4])
        said.context.append(chain_worth(blocks, tests.get("weights")))
    return tests


def _blocks_of_chains(case: Case, whiten: np.ndarray) -> Blocks:
    """Blocks for the tests of the shape, by the autocorrelation time of the draws' contributions."""
    assert case.chain is not None
    step = -(-len(case.x) // MAX_DRAWS_FOR_TAU)
    z = whitened(case.x[::step], whiten)
    slopes = whitened_scores(case.scores[::step], whiten)
    widths = collection(z, None, evenly=True)[::3]
    thinned = chain_blocks(z, slopes, IMQ(), widths, case.chain[::step])
    return cut_blocks(thinned.tau * step, case.chain)


def _agreement_test(case: Case, whiten: np.ndarray, rng: np.random.Generator) -> AgreementResult:
    """Do the chains agree in the means of Stein features, t and z t + 1, which are 0 within every mode?"""
    assert case.chain is not None
    t = whitened_scores(case.scores, whiten)
    z = whitened(case.x - np.median(case.x, axis=0), whiten)
    found = agreement(np.concatenate([t, z * t + 1], axis=1), case.chain, rng)
    return AgreementResult(
        "agreement of the chains",
        -np.log10(found.pvalue),
        found.pvalue,
        None,
        *case.x.shape,
        between_pvalue=found.between_pvalue,
        start_pvalue=found.start_pvalue,
        odd_chain=found.odd_chain,
        n_blocks=found.blocks.count,
    )


def _kernel_test(
    case: Case,
    whiten: np.ndarray,
    blocks: Blocks | None,
    alpha: float,
    rng: np.random.Generator,
    said: Said,
) -> KsdaggResult:
    """KSDAgg in the units of the modes, with enough replicates for the smallest threshold of Holm."""
    step = -(-len(case.x) // MAX_KERNEL_DRAWS)
    if step > 1:
        said.not_examined.append(
            f"the shape at all draws: the kernel test costs n^2 and looked at one in {step} of the "
            f"{len(case.x)} draws; the other tests looked at all"
        )
    size = int(np.clip(50 / alpha, 1000, 10_000))
    return ksdagg_core(
        case.x[::step],
        case.scores[::step],
        whiten=whiten,
        bootstrap="blocks",
        block=None if blocks is None else blocks.label[::step],
        n_resamples=size,
        n_level_resamples=size,
        alpha=alpha,
        streams=spawn_streams(rng),
        notes=said.warnings,
    )


def _moment_test(
    case: Case, target: Target, known: Modes, blocks: Blocks | None, rng: np.random.Generator, said: Said
) -> GofResult:
    return moment_core(
        case.x,
        case.scores,
        known,
        parameter_names(target),
        blocks=None if blocks is None else blocks.label,
        log_density=target.log_density,
        n_resamples=999,
        rng=rng,
        notes=said.warnings,
    )


def _conclude(
    case: Case,
    target: Target,
    known: Modes,
    tests: dict[str, GofResult],
    alpha: float,
    seed: int,
    rng: np.random.Generator,
    said: Said,
) -> Verdict:
    """Combine the tests and put everything into words."""
    names = tuple(parameter_names(target))
    adjusted = holm({key: 1.0 if np.isnan(result.pvalue) else result.pvalue for key, result in tests.items()})
    pvalue = min(adjusted.values(), default=1.0)
    weights = tests.get("weights")
    table = weights.mode_table if isinstance(weights, FluxResult) else None
    said.reasons.extend(_inconclusive_reasons(len(case.x), known, tests, alpha))
    _look_for_unknown_modes(case.x, target, known, rng, said)
    fits = False if pvalue <= alpha else None if said.reasons else True
    verdict = Verdict(
        fits=fits,
        pvalue=pvalue,
        alpha=float(alpha),
        tests=tests,
        adjusted=adjusted,
        findings=tuple(_findings(tests, adjusted, alpha, names)) if fits is False else (),
        inconclusive_reasons=tuple(said.reasons),
        mode_table=table,
        modes=known,
        context=tuple(said.context),
        not_examined=tuple(said.not_examined + ([] if fits is None else said.reasons)),
        warnings=tuple(dict.fromkeys(said.warnings)),
        n=len(case.x),
        dim=target.dim,
        names=names,
        seed=seed,
        version=__version__,
        sentence=headline(fits, alpha, pvalue, said.reasons),
    )
    return replace(verdict, text=render(verdict))


def _findings(
    tests: Mapping[str, GofResult], adjusted: Mapping[str, float], alpha: float, names: tuple[str, ...]
) -> list[Finding]:
    """What is wrong and by how much: mode weights, moments, the rest of the shape, the chains."""
    found: list[Finding] = []
    weights = tests.get("weights")
    if isinstance(weights, FluxResult) and adjusted["weights"] <= alpha:
        found += weight_findings(weights, names, adjusted["weights"])
    moments = tests.get("moments")
    if isinstance(moments, MomentResult) and adjusted["moments"] <= alpha:
        found += moment_findings(moments, adjusted["moments"], alpha)
    if adjusted.get("kernel", 1.0) <= alpha and adjusted.get("moments", 1.0) > alpha:
        several = isinstance(weights, FluxResult)
        found.append(kernel_finding(adjusted["kernel"], several=several))
    chains = tests.get("chains")
    if isinstance(chains, AgreementResult) and adjusted["chains"] <= alpha:
        found.append(agreement_finding(chains, adjusted["chains"]))
    return found


def _inconclusive_reasons(n: int, known: Modes, tests: Mapping[str, GofResult], alpha: float) -> list[str]:
    """Reasons why a non-rejection is inconclusive."""
    reasons = []
    if n < MIN_DRAWS:
        reasons.append(f"{n} draws are too few: below {MIN_DRAWS} a non-rejection is inconclusive")
    weights = tests.get("weights")
    if isinstance(weights, FluxResult):
        apart = _modes_apart(known, weights)
        if weights.inconclusive:
            reasons.append(f"the mode weights: {weights.inconclusive.removeprefix('cannot tell: ')}")
        elif apart:
            listed = ", ".join(map(str, apart[:5])) + (", ..." if len(apart) > 5 else "")
            reasons.append(
                f"the weight of mode {listed} could not be compared with that of the others: hardly any draw "
                "could be at both by the linear maps between them"
            )
    for result in tests.values():
        floor = len(tests) * _smallest_pvalue(result)
        if floor > alpha:
            reasons.append(
                f"the {result.test} cannot reach the level {alpha:g}: its smallest adjusted p-value is "
                f"{floor:.2g}"
            )
    return reasons


def _smallest_pvalue(result: GofResult) -> float:
    """The p-value if the draws were as wrong as can be: simulated replicates are finitely many."""
    if result.null_distribution is None:
        return 0.0
    null = np.asarray(result.null_distribution)
    if not isinstance(result, KsdaggResult):
        return 1 / (len(null) + 1)
    floor = 1 / (np.max(result.bandwidth_weights) * (len(null) + 1))
    return float(np.mean(np.append(null, 0.0) >= -floor * (1 + 1e-9)))


def _modes_apart(known: Modes, weights: FluxResult) -> list[int]:
    """Modes of some weight that could not be compared with the others."""
    table = weights.mode_table
    if table is None:
        return []
    weighty = (known.laplace_weights > NEGLIGIBLE_SHARE) | (table.observed > NEGLIGIBLE_SHARE)
    return np.flatnonzero(np.isnan(table.implied) & weighty).tolist()


def _look_for_unknown_modes(
    x: np.ndarray, target: Target, known: Modes, rng: np.random.Generator, said: Said
) -> None:
    """Climb from some draws; many that reach unknown modes make a non-rejection inconclusive."""
    tried, strange, locations = climb_from_draws(x, target, known, rng)
    if not strange:
        return
    example = place(locations[0], parameter_names(target))
    text = (
        f"the weights of unknown modes: {strange} of {tried} draws that were looked at belong to such modes, "
        f"for example ({example}); give `modes`, or a larger `max_evaluations`"
    )
    (said.reasons if strange > MAX_UNKNOWN_SHARE * tried else said.not_examined).append(text)
