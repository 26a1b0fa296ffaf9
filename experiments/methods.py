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
from scipy import stats

import steincheck as sc

from .rows import Cell, Row

THETA = np.linspace(0.5, 1.5, 51)
N_RESAMPLES = 800  # the authors' code; the paper does not say
PERTURBED = ("spKSD", "pKSDAgg", "ospKSD")
PAPER = ("KSD", "KSDAgg", "FSSD", "spKSD", "ospKSD")
ALL = (*PAPER, "pKSDAgg", "flux", "oracle")
COMMON: dict[str, Any] = {"check_score": False, "independent": True}  # as in the paper, of chains too
RESAMPLED: dict[str, Any] = {"n_resamples": N_RESAMPLES, "bootstrap": sc.multinomial}  # whatever n


@dataclass(frozen=True, eq=False)
class Problem:
    """A target, its modes, and how many transitions its perturbation takes."""

    target: sc.Target
    modes: Any
    n_steps: int
    flux_modes: Any = None  # where the flux test has use for other modes than the paper's tests
    theta: np.ndarray = field(default_factory=lambda: THETA)

    def perturb(self, x: np.ndarray, rng: np.random.Generator) -> sc.perturbation.Perturbation:
        """The sample after all transitions, at all jump scales."""
        seed = rng.bit_generator.seed_seq
        return sc.perturb(x, self.target, self.modes, self.theta, n_steps=self.n_steps, rng=seed)


def modes_of(
    target: sc.Target,
    box: tuple[float, float],
    n_starts: int = 500,
    search: Callable[..., sc.Modes] = sc.box_search,
    **options: Any,
) -> sc.Modes:
    """The modes of a target from uniform starts in a box: found once, with a fixed seed, for all samples.

    Rounded and sorted by location: equally high modes come in an order that hangs on the last digit.
    """
    with warnings.catch_warnings(action="ignore"):
        found = search(target, bounds=box, n_starts=n_starts, rng=0, **options)
    places = found.locations.round(8) + 0.0
    order = np.lexsort(places.round(4).T[::-1])
    places = places[order]
    shapes = found.covariances.round(10)[order] + 0.0
    return sc.Modes(places, shapes, target.log_density(places))


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
    with warnings.catch_warnings(action="ignore"):  # what they say is the subject of the study
        moved = problem.perturb(x, cell.rng("perturbation")) if set(methods) & set(PERTURBED) else None
        for method in methods:
            if method == "oracle":
                outcome: Outcome = float("nan"), oracle(), ""
            else:
                outcome = outcome_of(method, x, problem, moved, cell.rng(method))
            rows.append(Row(cell.setting, cell.repetition, method, *outcome))
    return rows


def evaluate_mixture(
    cell: Cell, methods: Sequence[str], problem: Problem, n: int, weights: Any, true_weights: Any
) -> list[Row]:
    """Rows for a sample of a mixture with other weights; the oracle sees its components."""
    x, labels = problem.target.sample_with_labels(n, cell.rng("sample"), weights=weights)
    return evaluate(cell, methods, problem, x, lambda: label_test(labels, true_weights))


class Method(NamedTuple):
    """A test of the library with the arguments of the paper, and what its rows say beside the p-value."""

    test: Callable[..., Any]
    options: dict[str, Any]
    detail: Callable[[Any], str] = lambda result: ""


AGGREGATED = {"n_resamples": N_RESAMPLES, "n_level_resamples": N_RESAMPLES}
TESTS = {
    "KSD": Method(sc.ksd_test, RESAMPLED),
    # the bandwidths and the numbers of resamples of the authors' code
    "KSDAgg": Method(sc.ksdagg_test, {"bandwidths": "paper", "n_resamples": 800, "n_level_resamples": 500}),
    # the authors' ten locations and 20 % of the draws for training
    "FSSD": Method(sc.fssd_test, {"n_locations": 10, "train_fraction": 0.2, "n_resamples": 3000}),
    "spKSD": Method(sc.spksd_test, RESAMPLED, lambda result: f"acceptance={result.acceptance.mean():.3g}"),
    "ospKSD": Method(sc.ospksd_test, RESAMPLED, lambda result: f"theta={result.chosen_theta:.2f}"),
    "pKSDAgg": Method(sc.pksdagg_test, AGGREGATED),
    "flux": Method(sc.flux_test, {}, lambda result: f"contributing={result.n_contributing}"),
}


def outcome_of(method: str, x: np.ndarray, problem: Problem, moved: Any, rng: Any) -> Outcome:
    """What a test says; the modes of the flux test were found before the sample was drawn."""
    test, options, detail = TESTS[method]
    options = COMMON | options
    if method == "flux":
        options = {"independent": True, "modes": problem.flux_modes or problem.modes}
    if method in PERTURBED:
        options["perturbation"] = moved
    result = test(x, problem.target, **options, rng=rng)
    return result.statistic, result.pvalue, detail(result)


def label_test(labels: np.ndarray, weights: Any) -> float:
    """Chi-square test of the true components' counts, exact for two components."""
    count = np.bincount(labels, minlength=len(weights))
    if len(weights) == 2:
        return float(stats.binomtest(int(count[0]), len(labels), weights[0]).pvalue)
    return float(stats.chisquare(count, len(labels) * np.asarray(weights)).pvalue)


def sign_test(h: np.ndarray) -> float:
    """Chi-square test that every hidden unit of h (n, d_h) is +1 and -1 equally often, independently."""
    return float(stats.chi2.sf(np.sum(h.sum(axis=0, dtype=float) ** 2) / len(h), h.shape[1]))
