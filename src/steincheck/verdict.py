"""One question, one answer: do the draws fit the density?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ._validation import as_generator
from ._version import __version__
from .aggregate import ksdagg_test
from .chains import looks_dependent, repeated_draws
from .draws import as_matrix
from .flux.test import flux_test
from .modes.search import Modes, as_modes, bounds_from_draws, climb_from_draws, find_modes
from .result import GofResult, ModeTable, Verdict, check_level, note
from .stein.bootstrap import pvalue, wild
from .stein.kernels import IMQ, median_bandwidth
from .target import Target, log_density_at, score_at
from .target import check_score as compare_score

FEWEST = 50  # draws below which nothing found means nothing
MOST_FINDINGS = 5  # modes listed one by one
NEGLIGIBLE = 0.01  # share below which a mode may go unexamined
STRAY = 0.1  # share of the draws at unknown modes above which nothing found means nothing
LOCAL_DRAWS = 5000  # the local fit costs n^2: beyond, a random subset of this size is tested
# of the local fit, for each of its two purposes; more for small levels
RESAMPLES, MOST_RESAMPLES = 1000, 10_000
COORDINATE_TERMS = 5e7  # d m^2, kernel terms spent to say in which coordinates the misfit is
ALWAYS_UNSEEN = (
    "modes that neither the search nor you know of",
    "dependence between the draws: the p-values assume independent draws",
)


def check(
    draws: Any,
    target: Target,
    *,
    modes: Any = None,
    bounds: Any = None,
    alpha: float = 0.05,
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
) -> Verdict:
    """Do the draws fit the density? Are modes missing or weighted wrongly?

    H0: the draws are independent and come from the target. The score is compared with finite differences,
    modes are searched from uniform starts in a box (see `bounds`), then two tests look at the draws:
    `ksdagg_test` at the fit inside the modes, with distances measured by the average covariance of the
    modes, and `flux_test` at the weights of the modes. Holm's method combines them at the level `alpha`.

    Parameters
    ----------
    draws : array (n, d)
        The draws.
    target : Target
        The density.
    modes : Modes, (locations, covariances) or locations, optional
        Modes you know; otherwise they are searched.
    bounds : (low, high) or d such pairs, optional
        The box of the search; by default the range of the draws, widened. Where far and rare modes are
        possible give a box that does not depend on the draws: see docs/theory/flux.md, assumptions.
    alpha : float
        The level.
    rng : Generator or int, optional
        Source of randomness; the verdict carries the seed that was used.
    n_jobs : int, optional
        Search modes in parallel.

    Returns
    -------
    Verdict
        ``verdict.fits`` is False (misfit found), True (no misfit found, which is no proof) or None (cannot
        tell); ``print(verdict)`` says it in words.

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
    seed = fresh_seed(rng)
    x = _at_the_door(draws, target)
    streams = np.random.default_rng(seed).spawn(6)
    notes: list[str] = []
    unseen = list(ALWAYS_UNSEEN)
    if len(x) >= FEWEST:
        for sign in _signs_of_chains(x, target):
            note(notes, sign)
    if modes is None:
        known = search_modes(x, target, bounds=bounds, seed=seed, n_jobs=n_jobs)
    else:
        known = as_modes(modes, target)
    covariance = np.mean(known.covariances, axis=0)

    subset = x
    if len(x) > LOCAL_DRAWS:
        subset = x[np.sort(streams[1].choice(len(x), LOCAL_DRAWS, replace=False))]
        unseen.append(
            f"the fit inside the modes of {len(x) - LOCAL_DRAWS} draws: its test costs n^2 and looked at a "
            f"random {LOCAL_DRAWS} of the {len(x)} draws; the test of the weights looked at all"
        )
    local = _test_local(subset, target, covariance, alpha, streams[2])
    weights, table = _test_weights(x, target, known, n_jobs, streams[3])
    where = coordinate_misfit(subset, target, np.sqrt(np.diag(covariance)), rng=streams[4])

    pvalues = {"local": local.pvalue}
    if weights is None:
        unseen.append("the weights of the modes: only one mode is known")
    else:
        if table is None:
            unseen.append("the weight of each mode by itself: the modes are a lattice too large to be listed")
        pvalues["weights"] = 1.0 if np.isnan(weights.pvalue) else weights.pvalue
    adjusted = holm(pvalues)
    combined = min(adjusted.values())
    reasons = _doubts(len(x), local, weights, _apart(known, table), len(pvalues), alpha)
    if table is not None:
        part, text = _strays(x, target, known, streams[5])
        (reasons if part > STRAY else unseen).extend(text)
    fits = False if combined <= alpha else None if reasons else True
    heard = [*notes, *known.warnings, *local.warnings, *(weights.warnings if weights else ())]
    return Verdict(
        fits=fits,
        pvalue=combined,
        alpha=float(alpha),
        local=local,
        weights=weights,
        adjusted=adjusted,
        modes=table,
        findings=_findings(adjusted, alpha, weights, table, where) if fits is False else (),
        why="; ".join(reasons) if fits is None else "",
        coordinates=where,
        not_examined=tuple(unseen + ([] if fits is None else reasons)),
        warnings=tuple(dict.fromkeys(heard)),
        n=len(x),
        dim=target.dim,
        seed=seed,
        version=__version__,
    )


def search_modes(
    draws: Any, target: Target, *, bounds: Any = None, seed: int, n_jobs: int | None = None
) -> Modes:
    """The modes that `check` would find with this seed; given to `check` they lead to the same verdict."""
    x = _at_the_door(draws, target)
    box = bounds_from_draws(x) if bounds is None else bounds
    return find_modes(target, bounds=box, rng=np.random.default_rng(seed).spawn(5)[0])


def _signs_of_chains(x: np.ndarray, target: Target) -> list[str]:
    found = []
    dependence = looks_dependent(x, log_density_at(target, x), target.names)
    if dependence:
        found.append(
            f"{dependence}: the p-values assume independent draws and are too small; "
            "thin the chains until this warning is gone"
        )
    repeated = repeated_draws(x)
    if repeated > 0.01 * len(x):
        found.append(
            f"{repeated} of {len(x)} draws repeat others, as those of Markov chains that stand still or of a "
            "resampled sample: the p-values assume independent draws and are too small"
        )
    return found


def _at_the_door(draws: Any, target: Target) -> np.ndarray:
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")
    x = as_matrix(draws, target.dim, name="draws")
    log_density_at(target, x)
    if target.has_score:
        compare_score(target, x)
    return x


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
    adjusted, largest = {}, 0.0
    for k, name in enumerate(sorted(pvalues, key=lambda name: pvalues[name])):
        largest = max(largest, min(1.0, (len(pvalues) - k) * pvalues[name]))
        adjusted[name] = largest
    return adjusted


def coordinate_misfit(
    x: np.ndarray,
    target: Target,
    scales: np.ndarray,
    *,
    n_resamples: int = 299,
    rng: np.random.Generator | int | None = None,
) -> dict[str, Any]:
    """In which coordinates is the misfit?

    The Stein kernel is a sum over coordinates; each summand

        u_k = phi s_k s'_k - 2 phi' (s_k - s'_k)(x_k - x'_k) - 2 phi' - 4 phi'' (x_k - x'_k)^2

    is a Stein kernel of its own, blind to the other components of the score. Coordinates are divided by
    `scales` first. Looks at a random subset of at most 1000 draws.

    Returns
    -------
    dict
        "names"; "pvalue" of each coordinate, not adjusted; "excess", its statistic relative to the 95 %
        quantile of the statistic under H0: above 1 is suspicious.
    """
    pick, width, signs = as_generator(rng).spawn(3)
    n, d = x.shape
    m = min(n, int(np.clip(np.sqrt(COORDINATE_TERMS / d), 200, 1000)))
    x = x[np.sort(pick.choice(n, m, replace=False))]
    s, z = score_at(target, x) * scales, x / scales
    z = z - z.mean(axis=0)
    distinct = np.unique(z, axis=0)  # a chain that stands still repeats its draws
    kernel = IMQ(median_bandwidth(distinct, rng=width) if len(distinct) > 1 else 1.0)
    weights = np.concatenate([np.ones((1, m)), wild(m, n_resamples, signs)])
    forms = coordinate_forms(z, s, kernel, weights) / (m * (m - 1))
    names = list(target.names) if target.names else [f"x[{k}]" for k in range(d)]
    limit = np.quantile(forms[:, 1:], 0.95, axis=1)
    return {
        "names": [str(name) for name in names],
        "pvalue": [pvalue(row[0], row[1:]) for row in forms],
        "excess": (forms[:, 0] / np.where(limit > 0, limit, np.inf)).tolist(),
    }


def coordinate_forms(z: np.ndarray, s: np.ndarray, kernel: IMQ, weights: np.ndarray) -> np.ndarray:
    """w'Hw of the Stein matrix of each coordinate, shape (d, B), for weights (B, n)."""
    forms = np.zeros((z.shape[1], len(weights)))
    squares = np.sum(z**2, axis=1)
    for rows in np.array_split(np.arange(len(z)), max(1, len(z) // 256)):
        r2 = np.maximum(squares[rows, None] + squares - 2 * z[rows] @ z.T, 0.0)
        with jax.enable_x64(True):
            phi, first, second = (np.asarray(part) for part in kernel.profile(r2))
        for k, form in enumerate(forms):
            gap = z[rows, k, None] - z[:, k]
            u = phi * s[rows, k, None] * s[:, k] - 2 * first * (s[rows, k, None] - s[:, k]) * gap
            u -= 2 * first + 4 * second * gap**2
            u[np.arange(len(rows)), rows] = 0.0
            form += np.einsum("bi,bi->b", weights[:, rows] @ u, weights)
    return forms


def _test_local(
    x: np.ndarray, target: Target, covariance: np.ndarray, alpha: float, rng: np.random.Generator
) -> GofResult:
    """KSDAgg with enough replicates for Holm's smallest threshold, alpha / 2."""
    size = int(np.clip(50 / alpha, RESAMPLES, MOST_RESAMPLES))
    return ksdagg_test(
        x, target, precondition=covariance, n_resamples=size, n_level_resamples=size, alpha=alpha,
        check_score=False, rng=rng,
    )  # fmt: skip


def _smallest_pvalue(local: GofResult) -> float:
    """The p-value of KSDAgg if the draws were as wrong as can be: its replicates are finitely many."""
    floor = 1 / (max(local.details["weights"]) * (local.settings["n_resamples"] + 1))
    null = np.append(np.asarray(local.null_distribution), 0.0)
    return float(np.mean(null >= -floor * (1 + 1e-9)))


def _test_weights(
    x: np.ndarray, target: Target, modes: Modes, n_jobs: int | None, rng: np.random.Generator
) -> tuple[GofResult | None, ModeTable | None]:
    """The flux test and its table of shares; with one mode there is nothing to compare."""
    if len(modes) > 1:
        result = flux_test(x, target, modes=modes, n_jobs=n_jobs, rng=rng)
        return result, result.details["shares"]
    n, one, unknown = len(x), np.ones(1), np.full((1, 2), np.nan)
    exact = np.array([[0.025 ** (1 / n), 1.0]])  # Clopper-Pearson for n of n
    return None, ModeTable(
        modes.locations, np.array([n]), one, np.nan * one, exact, unknown, ("not examined",)
    )


def _apart(modes: Modes, table: ModeTable | None) -> list[int]:
    """Modes of some weight that could not be compared with the others."""
    if table is None or len(modes) < 2:
        return []
    weighty = (modes.laplace_weights > NEGLIGIBLE) | (table.observed > NEGLIGIBLE)
    return np.flatnonzero(np.isnan(table.implied) & weighty).tolist()


def _strays(x: np.ndarray, target: Target, modes: Modes, rng: np.random.Generator) -> tuple[float, list[str]]:
    """Which part of the draws lies at modes that are not known, and what to say of it."""
    tried, strays, places = climb_from_draws(x, target, modes, rng)
    if not strays:
        return 0.0, []
    advice = "give `modes`, or `bounds` in which they are found"
    if "max_modes" in str(modes.search.get("stopped")):
        advice = "the search lists no more modes"
    place = ", ".join(f"{value:.4g}" for value in places[0][:5]) + (", ..." if target.dim > 5 else "")
    return strays / tried, [
        f"the weights of modes that are not known could not be tested: {strays} of {tried} draws that were "
        f"looked at lie at such modes, one is ({place}); {advice}"
    ]


def _findings(
    adjusted: Mapping[str, float],
    alpha: float,
    weights: GofResult | None,
    table: ModeTable | None,
    where: Mapping[str, Any],
) -> tuple[str, ...]:
    """What is wrong and by how much: the modes with wrong shares, the coordinates with misfit."""
    found = []
    if weights is not None and adjusted["weights"] <= alpha:
        if table:
            found += _wrong_weights(table, weights, where["names"])
        else:
            found.append(_wrong_flow(weights, where["names"]))
    if adjusted["local"] <= alpha:
        order = np.argsort(-np.array(where["excess"]), kind="stable")
        names = [where["names"][k] for k in order[:3] if where["excess"][k] > 1]
        most = f", most in {', '.join(names)}" if names and len(order) > 1 else ""
        found.append(f"The fit inside the modes is wrong{most}")
    return tuple(found)


def _wrong_weights(table: ModeTable, weights: GofResult, names: list[str]) -> list[str]:
    gap = np.nan_to_num(table.observed - table.implied).round(4)  # equal but for rounding is equal
    wrong = [k for k in np.lexsort((gap, -np.abs(gap))) if table.words[k].startswith("too")]
    if not wrong:
        shift = -weights.details["net_flow"] @ table.locations / np.ptp(table.locations, axis=0).clip(1e-300)
        k, trend = int(np.argmax(np.abs(shift))), weights.details["trend_pvalue"] <= weights.pvalue
        more = f": too many draws at modes with a {'large' if shift[k] > 0 else 'small'} {names[k]}"
        return [
            f"The weights of the modes are wrong, though no mode by itself stands out{more if trend else ''}"
        ]
    found = []
    for k in wrong[:MOST_FINDINGS]:
        low, high = table.implied_interval[k]
        rare = table.observed_interval[k, 1] < 0.1 * low
        missing = " is missing" if table.counts[k] == 0 else " is all but missing" if rare else ""
        more = "fewer" if table.words[k] == "too many draws" else "more"
        says = more if np.isnan(low) else f"{table.implied[k]:.1%} ({low:.1%} to {high:.1%})"
        found.append(f"Mode {k}{missing}: {table.observed[k]:.1%} of the draws, the density says {says}")
    if len(wrong) > MOST_FINDINGS:
        found.append(f"And {len(wrong) - MOST_FINDINGS} more modes have wrong shares")
    return found


def _wrong_flow(weights: GofResult, names: list[str]) -> str:
    """The displacement of a lattice of modes along which the flow is farthest from balance."""
    net, error = weights.details["net_flow"], weights.details["net_flow_se"]
    k = int(np.argmax(np.abs(net) / np.where(error > 0, error, np.inf)))
    step = weights.details["displacements"][k] * np.sign(net[k])
    largest = [
        j for j in np.argsort(-np.abs(step), kind="stable")[:3] if abs(step[j]) > 0.1 * np.abs(step).max()
    ]
    places = ", ".join(f"{names[j]} {step[j]:+.3g}" for j in largest)
    return f"The weights of the modes are wrong: more draws should lie farther on along ({places})"


def _doubts(
    n: int, local: GofResult, weights: GofResult | None, apart: list[int], tests: int, alpha: float
) -> list[str]:
    """Reasons why finding nothing would mean nothing."""
    reasons = []
    if n < FEWEST:
        reasons.append(f"{n} draws are too few, it takes {FEWEST} for finding nothing to mean something")
    if weights is not None and np.isnan(weights.pvalue):
        reasons.append(
            "the weights of the modes could not be tested, as no draw could be at another mode by the "
            "linear maps between them"
        )
    elif apart:
        few = ", ".join(map(str, apart[:5])) + (", ..." if len(apart) > 5 else "")
        reasons.append(
            f"the weight of mode {few} could not be compared with that of the others: hardly any draw could "
            "be at both by the linear maps between them"
        )
    floors = {"fit inside the modes": _smallest_pvalue(local)}
    if weights is not None and weights.null_distribution is not None:
        floors["weights of the modes"] = 1 / (len(weights.null_distribution) + 1)
    for name, floor in floors.items():
        if tests * floor > alpha:
            reasons.append(
                f"the test of the {name} cannot reach the level {alpha:g}: its smallest adjusted p-value is "
                f"{tests * floor:.2g}"
            )
    return reasons
