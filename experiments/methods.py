"""All tests on one sample. The perturbed ones share one perturbation of it, and the modes of the target.

Sharing is legitimate: the perturbation moves every draw on its own, so a training half, a test half and the
whole sample may use the same moves; the modes are found from the target alone, before any sample is drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import steincheck as sc
from steincheck.aggregate import ksdagg_test, min_p
from steincheck.flux.test import flux_test
from steincheck.fssd import fssd_test
from steincheck.ksd import power_criterion
from steincheck.modes.search import as_modes
from steincheck.perturbation import Perturbation
from steincheck.stein.bootstrap import multinomial, normaliser, pvalue, wild
from steincheck.stein.kernels import IMQ
from steincheck.stein.quadratic import choose_bandwidth, prepare
from steincheck.stein.tiles import quadratic_forms
from steincheck.target import score_at

from .cells import Cell, Row
from .moving import few_moved, forms_of_moves
from .perturbing import perturb

THETA = np.linspace(0.5, 1.5, 51)
N_RESAMPLES = 800  # the authors' code; the paper does not say
SUMMED = ("spKSD", "pKSDAgg")
PERTURBED = (*SUMMED, "ospKSD")
PAPER = ("KSD", "KSDAgg", "FSSD", "spKSD", "ospKSD")
ALL = (*PAPER, "pKSDAgg", "flux", "oracle")
CONSTANTS = {
    "n_resamples": N_RESAMPLES,
    "theta": "51 equally spaced in [0.5, 1.5]",
    "kernel": "IMQ, median squared distance",
    "level": 0.05,
}


@dataclass(frozen=True, eq=False)
class Problem:
    """A target, its modes, and how many transitions its perturbation takes."""

    target: sc.Target
    modes: Any
    n_steps: int
    flux_modes: Any = None  # where the flux test has use for other modes than the paper's tests
    formula: Any = None  # a faster version of the model's formula, see `perturbing.compiled`
    theta: np.ndarray = field(default_factory=lambda: THETA)


def modes_of(target: sc.Target, box: tuple[float, float], n_starts: int = 500, **options: Any) -> sc.Modes:
    """The modes of a target from uniform starts in a box: found once, with a fixed seed, for all samples.

    Rounded and sorted by location: equally high modes come in an order that hangs on the last digit.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sc.box_search(target, box, n_starts=n_starts, progress=False, rng=0, **options)
    places, shapes = found.locations.round(8) + 0.0, found.covariances.round(10) + 0.0
    order = np.lexsort(places.round(4).T[::-1])
    return as_modes((places[order], shapes[order]), target)


class Stack(NamedTuple):
    """A sample and what the perturbation makes of it; where nothing moved the sample itself stands for it."""

    samples: np.ndarray  #: (1 + K, n, d), the sample itself first, then those that differ from it
    scores: np.ndarray
    theta: np.ndarray  #: (J,)
    slot: np.ndarray  #: (J,) where in `samples` the perturbation with each theta is; 0 if nothing moved
    acceptance: np.ndarray  #: (J,)


def stack(x: np.ndarray, target: sc.Target, moved: Perturbation) -> Stack:
    """Put a sample and its perturbations together, without those that changed nothing."""
    changed = np.any(moved.samples != x, axis=(1, 2))
    samples = np.concatenate([x[None], moved.samples[changed]])
    scores = score_at(target, samples.reshape(-1, x.shape[1])).reshape(samples.shape)
    return Stack(samples, scores, moved.theta, np.where(changed, np.cumsum(changed), 0), moved.acceptance)


def perturbed(cell: Cell, problem: Problem, x: np.ndarray) -> Stack:
    """The sample and its perturbations at all jump scales, with their scores."""
    rng = cell.rng("perturbation")
    moved = perturb(x, problem.target, problem.modes, problem.theta, problem.n_steps, rng, problem.formula)
    return stack(x, problem.target, moved)


Outcome = tuple[float, float, str]  # statistic, p-value, detail


def evaluate(
    cell: Cell,
    methods: Sequence[str],
    problem: Problem,
    x: np.ndarray,
    oracle: Callable[[], float] | None = None,
) -> list[Row]:
    """Rows of the given methods for the sample `x`; `oracle` returns the p-value of a test on true labels."""
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is the subject of the study
        moved, outcomes = None, {}
        if set(methods) & set(PERTURBED):
            moved = perturbed(cell, problem, x)
        if rngs := {m: cell.rng(m) for m in SUMMED if m in methods}:
            outcomes = summed(x, problem, moved, rngs)
        for method in methods:
            if method == "oracle":
                p = oracle()
                rows.append(Row(cell.setting, cell.repetition, method, float("nan"), p))
                continue
            if method not in outcomes:
                outcomes[method] = TESTS[method](x, problem, moved, cell.rng(method))
            statistic, p, detail = outcomes[method]
            rows.append(Row(cell.setting, cell.repetition, method, statistic, p, detail))
    return rows


def ksd(x: np.ndarray, problem: Problem, moved: Stack | None, rng: Any) -> Outcome:
    """The plain test."""
    result = sc.ksd_test(x, problem.target, n_resamples=N_RESAMPLES, check_score=False, rng=rng)
    return result.statistic, result.pvalue, ""


def summed(x: np.ndarray, problem: Problem, moved: Stack, rngs: dict[str, Any]) -> dict[str, Outcome]:
    """`steincheck.spksd_test`, `steincheck.pksdagg_test` or both, with a perturbation made before.

    Both are sums over all theta: one pass over their Stein matrices serves both.
    """
    widths, weights = [], []
    for method, rng in rngs.items():
        ready = prepare(x, problem.target, None, N_RESAMPLES, False, rng)
        width = choose_bandwidth(ready, x, IMQ())
        widths += [width] if method == "spKSD" else [width, 4 * width]
        draw, count = (multinomial, 1) if method == "spKSD" else (wild, 2)
        weights.append(draw(len(x), count * N_RESAMPLES, ready.streams[1]))
    several, where = np.unique(widths, return_inverse=True)
    itself, others = forms(moved, several, weights)
    outcomes: dict[str, Outcome] = {}
    for k, method in enumerate(rngs):
        mine, where = (where[:1], where[1:]) if method == "spKSD" else (where[:2], where[2:])
        (own, own_null), (total, null) = ((t[mine], r[k][mine]) for t, r in (itself, others))
        if method == "spKSD":
            statistic = (own + total)[0]
            p = pvalue(statistic, (own_null + null)[0])
            outcomes[method] = float(statistic), p, f"acceptance={moved.acceptance.mean():.3g}"
        else:
            shares = np.array([0.125, 0.125, 0.375, 0.375])
            first, second = np.split(np.concatenate([own_null, null]), 2, axis=1)
            outcome = min_p(np.concatenate([own, total]), first, second, shares, 0.05)
            outcomes[method] = -float(np.min(outcome.pvalues / shares)), outcome.pvalue, ""
    return outcomes


def ospksd(x: np.ndarray, problem: Problem, moved: Stack, rng: Any) -> Outcome:
    """`steincheck.ospksd_test` with a perturbation made before."""
    ready = prepare(x, problem.target, None, N_RESAMPLES, False, rng)
    train, test = np.split(ready.streams[4].permutation(len(x)), [round(0.5 * len(x))])
    width = choose_bandwidth(ready, x[train], IMQ())
    filled = np.arange(-(-len(moved.samples) // 8) * 8) % len(moved.samples)  # each number of them compiles
    training = (part[np.ix_(filled, train)] for part in (moved.samples, moved.scores))
    rows = quadratic_forms(*training, IMQ(), [width], row_sums=True).row_sums[0]
    best = int(np.argmax(power_criterion(rows[0] + rows[moved.slot])))
    pair = np.ix_([0, moved.slot[best]], test)
    weights = multinomial(len(test), N_RESAMPLES, ready.streams[1])
    sums = quadratic_forms(moved.samples[pair], moved.scores[pair], IMQ(), [width], weights)
    statistic = float(sums.total[0] / (len(test) * (len(test) - 1)))
    p = pvalue(statistic, sums.replicates[0] / normaliser(weights))
    return statistic, p, f"theta={moved.theta[best]:.2f}"


Sums = tuple[np.ndarray, list[np.ndarray]]


def forms(moved: Stack, widths: Any, weights: Sequence[np.ndarray]) -> tuple[Sums, Sums]:
    """Statistics and replicates by bandwidth: of the sample itself, and of the sum over all theta.

    Replicates come in parts, one for each kind of `weights`.
    """
    n, all_weights = moved.samples.shape[1], np.concatenate(weights)
    still = int(np.sum(moved.slot == 0))
    if few_moved(moved.samples):
        own, others = forms_of_moves(moved.samples, moved.scores, widths, all_weights)
    else:
        own, others = (
            quadratic_forms(moved.samples[part], moved.scores[part], IMQ(), widths, all_weights)
            for part in (slice(0, 1), slice(1, None))
        )
    total = still * own.total + others.total
    replicates = still * own.replicates + others.replicates

    def split(values: np.ndarray) -> list[np.ndarray]:
        cuts = np.cumsum([len(part) for part in weights])[:-1]
        parts = zip(np.split(values, cuts, axis=1), weights, strict=True)
        return [part / normaliser(mine) for part, mine in parts]

    pairs = n * (n - 1)
    return (own.total / pairs, split(own.replicates)), (total / pairs, split(replicates))


def ksdagg(x: np.ndarray, problem: Problem, moved: Stack | None, rng: Any) -> Outcome:
    """With the bandwidths and the numbers of resamples of the authors' code."""
    result = ksdagg_test(
        x,
        problem.target,
        bandwidths="paper",
        n_resamples=800,
        n_level_resamples=500,
        check_score=False,
        rng=rng,
    )
    return result.statistic, result.pvalue, ""


def fssd(x: np.ndarray, problem: Problem, moved: Stack | None, rng: Any) -> Outcome:
    """With the authors' ten locations and 20 % of the draws for training."""
    result = fssd_test(x, problem.target, n_locations=10, train_fraction=0.2, check_score=False, rng=rng)
    return result.statistic, result.pvalue, ""


def flux(x: np.ndarray, problem: Problem, moved: Stack | None, rng: Any) -> Outcome:
    """With modes found before the sample was drawn."""
    result = flux_test(x, problem.target, modes=problem.flux_modes or problem.modes, rng=rng)
    return result.statistic, result.pvalue, f"contributing={result.contributing}"


TESTS = {
    "KSD": ksd,
    "KSDAgg": ksdagg,
    "FSSD": fssd,
    "ospKSD": ospksd,
    "flux": flux,
}
