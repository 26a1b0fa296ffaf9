"""All tests on one sample. The perturbed ones share one perturbation of it, and the modes of the target.

Sharing is legitimate: the perturbation moves every draw on its own, so a training half, a test half and the
whole sample may use the same moves; the modes are found from the target alone, before any sample is drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import steincheck as sc
from steincheck.aggregate import ksdagg_test, min_p
from steincheck.bootstrap import multinomial, normaliser, pvalue, wild
from steincheck.flux import flux_test
from steincheck.fssd import fssd_test
from steincheck.jumps import Perturbation
from steincheck.kernels import IMQ, median_bandwidth
from steincheck.ksd import power_criterion
from steincheck.modes import as_modes
from steincheck.stein import choose_bandwidth, prepare, quadratic_forms
from steincheck.target import score_at

from .cells import Cell, Row
from .perturbing import perturb

THETA = np.linspace(0.5, 1.5, 51)
N_RESAMPLES = 800  # the authors' code; the paper does not say
PERTURBED = ("spKSD", "ospKSD", "pKSDAgg")
BENCHMARKS = ("KSD", "KSDAgg", "FSSD")
ALL = (*BENCHMARKS, "spKSD", "ospKSD", "pKSDAgg", "flux", "oracle")
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


def modes_of(target: sc.Target, box: tuple[float, float], n_starts: int = 500, **options: Any) -> sc.Modes:
    """The modes of a target from uniform starts in a box: found once, with a fixed seed, for all samples.

    Rounded and sorted by location: equally high modes come in an order that hangs on the last digit.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sc.find_modes(target, bounds=box, n_starts=n_starts, progress=False, rng=0, **options)
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
    moved = perturb(x, problem.target, problem.modes, THETA, problem.n_steps, rng, problem.formula)
    return stack(x, problem.target, moved)


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
        moved = None
        if set(methods) & set(PERTURBED):
            moved = perturbed(cell, problem, x)
        for method in methods:
            if method == "oracle":
                p = oracle()
                rows.append(Row(cell.setting, cell.repetition, method, float("nan"), p))
                continue
            statistic, p, detail = TESTS[method](x, problem, moved, cell.rng(method))
            rows.append(Row(cell.setting, cell.repetition, method, statistic, p, detail))
    return rows


def ksd(x: np.ndarray, problem: Problem, moved: Stack | None, rng: Any) -> tuple[float, float, str]:
    """The plain test."""
    result = sc.ksd_test(x, problem.target, n_resamples=N_RESAMPLES, check_score=False, rng=rng)
    return result.statistic, result.pvalue, ""


def spksd(x: np.ndarray, problem: Problem, moved: Stack, rng: Any) -> tuple[float, float, str]:
    """`steincheck.spksd_test` with a perturbation made before."""
    ready = prepare(x, problem.target, None, N_RESAMPLES, False, rng)
    width = choose_bandwidth(ready, x, IMQ())
    weights = multinomial(len(x), N_RESAMPLES, ready.streams[1])
    itself, others = forms(moved, [width], weights)
    statistic, null = ((a + b)[0] for a, b in zip(itself, others, strict=True))
    return float(statistic), pvalue(statistic, null), f"acceptance={moved.acceptance.mean():.3g}"


def ospksd(x: np.ndarray, problem: Problem, moved: Stack, rng: Any) -> tuple[float, float, str]:
    """`steincheck.ospksd_test` with a perturbation made before."""
    ready = prepare(x, problem.target, None, N_RESAMPLES, False, rng)
    train, test = np.split(ready.streams[4].permutation(len(x)), [round(0.5 * len(x))])
    width = choose_bandwidth(ready, x[train], IMQ())
    training = moved.samples[:, train], moved.scores[:, train]
    rows = quadratic_forms(*training, IMQ(), [width], row_sums=True).row_sums[0]
    best = int(np.argmax(power_criterion(rows[0] + rows[moved.slot])))
    pair = np.ix_([0, moved.slot[best]], test)
    weights = multinomial(len(test), N_RESAMPLES, ready.streams[1])
    sums = quadratic_forms(moved.samples[pair], moved.scores[pair], IMQ(), [width], weights)
    statistic = float(sums.total[0] / (len(test) * (len(test) - 1)))
    p = pvalue(statistic, sums.replicates[0] / normaliser(weights))
    return statistic, p, f"theta={moved.theta[best]:.2f}"


def pksdagg(x: np.ndarray, problem: Problem, moved: Stack, rng: Any) -> tuple[float, float, str]:
    """`steincheck.pksdagg_test` with a perturbation made before."""
    ready = prepare(x, problem.target, None, N_RESAMPLES, False, rng)
    widths = median_bandwidth(x, rng=ready.streams[0]) * np.array([1.0, 4.0])
    signs = wild(len(x), 2 * N_RESAMPLES, ready.streams[1])
    statistics, replicates = (np.concatenate(pair) for pair in zip(*forms(moved, widths, signs), strict=True))
    first, second = np.split(replicates, 2, axis=1)
    shares = np.array([0.125, 0.125, 0.375, 0.375])
    outcome = min_p(statistics, first, second, shares, 0.05)
    return -float(np.min(outcome.pvalues / shares)), outcome.pvalue, ""


Sums = tuple[np.ndarray, np.ndarray]


def forms(moved: Stack, widths: Any, weights: np.ndarray) -> tuple[Sums, Sums]:
    """Statistics and replicates by bandwidth: of the sample itself, and of the sum over all theta."""
    n, scale = len(weights[0]), normaliser(weights)
    still = int(np.sum(moved.slot == 0))
    own = quadratic_forms(moved.samples[:1], moved.scores[:1], IMQ(), widths, weights)
    total, replicates = still * own.total, still * own.replicates
    if len(moved.samples) > 1:
        others = quadratic_forms(moved.samples[1:], moved.scores[1:], IMQ(), widths, weights)
        total, replicates = total + others.total, replicates + others.replicates
    pairs = n * (n - 1)
    return (own.total / pairs, own.replicates / scale), (total / pairs, replicates / scale)


def ksdagg(x: np.ndarray, problem: Problem, moved: Stack | None, rng: Any) -> tuple[float, float, str]:
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


def fssd(x: np.ndarray, problem: Problem, moved: Stack | None, rng: Any) -> tuple[float, float, str]:
    """With the authors' ten locations and 20 % of the draws for training."""
    result = fssd_test(x, problem.target, n_locations=10, train_fraction=0.2, check_score=False, rng=rng)
    return result.statistic, result.pvalue, ""


def flux(x: np.ndarray, problem: Problem, moved: Stack | None, rng: Any) -> tuple[float, float, str]:
    """With modes found before the sample was drawn."""
    result = flux_test(x, problem.target, modes=problem.flux_modes or problem.modes, rng=rng)
    return result.statistic, result.pvalue, f"contributing={result.contributing}"


TESTS = {
    "KSD": ksd,
    "KSDAgg": ksdagg,
    "FSSD": fssd,
    "spKSD": spksd,
    "ospKSD": ospksd,
    "pKSDAgg": pksdagg,
    "flux": flux,
}


def label_test(labels: np.ndarray, weights: np.ndarray) -> float:
    """The oracle: a chi-square test of the true components' counts, exact for two components."""
    from scipy.stats import binomtest, chisquare

    count = np.bincount(labels, minlength=len(weights))
    if len(weights) == 2:
        return float(binomtest(int(count[0]), len(labels), weights[0]).pvalue)
    return float(chisquare(count, len(labels) * np.asarray(weights)).pvalue)
