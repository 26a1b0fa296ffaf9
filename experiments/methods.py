"""All tests on one sample. The perturbed ones share one perturbation of it, and the modes of the target.

Sharing is legitimate: the perturbation moves every draw on its own, so a training half, a test half and the
whole sample may use the same moves; the modes are found from the target alone, before any sample is drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jax.tree_util import Partial

import steincheck as sc

from .cells import Cell, Row

THETA = np.linspace(0.5, 1.5, 51)
N_RESAMPLES = 800  # the authors' code; the paper does not say
PERTURBED = ("spKSD", "pKSDAgg", "ospKSD")
PAPER = ("KSD", "KSDAgg", "FSSD", "spKSD", "ospKSD")
ALL = (*PAPER, "pKSDAgg", "flux", "oracle")
COMMON: dict[str, Any] = {"check_score": False, "independent": True}  # as in the paper, of chains too
RESAMPLED: dict[str, Any] = {"n_resamples": N_RESAMPLES, "bootstrap": sc.multinomial}  # whatever n
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
    formula: Any = None  # a faster version of the model's formula (parameters, point) -> log p
    theta: np.ndarray = field(default_factory=lambda: THETA)

    def perturb(self, x: np.ndarray, rng: np.random.Generator) -> sc.perturbation.Perturbation:
        """The sample after all transitions, at all jump scales."""
        target = self.target
        if self.formula is not None:
            target = replace(target, jax_log_density=Partial(self.formula, *target.jax_log_density.args))
        return sc.perturb(
            x, target, self.modes, self.theta, n_steps=self.n_steps, rng=rng.bit_generator.seed_seq
        )


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = search(target, bounds=box, n_starts=n_starts, progress=False, rng=0, **options)
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is the subject of the study
        moved = problem.perturb(x, cell.rng("perturbation")) if set(methods) & set(PERTURBED) else None
        for method in methods:
            if method == "oracle":
                outcome: Outcome = float("nan"), oracle(), ""
            else:
                outcome = TESTS[method](x, problem, moved, cell.rng(method))
            rows.append(Row(cell.setting, cell.repetition, method, *outcome))
    return rows


def ksd(x: np.ndarray, problem: Problem, moved: sc.perturbation.Perturbation | None, rng: Any) -> Outcome:
    """The plain test."""
    result = sc.ksd_test(x, problem.target, **RESAMPLED, **COMMON, rng=rng)
    return result.statistic, result.pvalue, ""


def spksd(x: np.ndarray, problem: Problem, moved: sc.perturbation.Perturbation | None, rng: Any) -> Outcome:
    """Summed over all jump scales."""
    result = sc.spksd_test(x, problem.target, perturbation=moved, **RESAMPLED, **COMMON, rng=rng)
    return result.statistic, result.pvalue, f"acceptance={result.acceptance.mean():.3g}"


def ospksd(x: np.ndarray, problem: Problem, moved: sc.perturbation.Perturbation | None, rng: Any) -> Outcome:
    """With the jump scale chosen on one half."""
    result = sc.ospksd_test(x, problem.target, perturbation=moved, **RESAMPLED, **COMMON, rng=rng)
    return result.statistic, result.pvalue, f"theta={result.chosen_theta:.2f}"


def pksdagg(x: np.ndarray, problem: Problem, moved: sc.perturbation.Perturbation | None, rng: Any) -> Outcome:
    """Unperturbed and perturbed draws, two bandwidths."""
    result = sc.pksdagg_test(
        x,
        problem.target,
        perturbation=moved,
        n_resamples=N_RESAMPLES,
        n_level_resamples=N_RESAMPLES,
        **COMMON,
        rng=rng,
    )
    return result.statistic, result.pvalue, ""


def ksdagg(x: np.ndarray, problem: Problem, moved: sc.perturbation.Perturbation | None, rng: Any) -> Outcome:
    """With the bandwidths and the numbers of resamples of the authors' code."""
    result = sc.ksdagg_test(
        x,
        problem.target,
        bandwidths="paper",
        n_resamples=800,
        n_level_resamples=500,
        **COMMON,
        rng=rng,
    )
    return result.statistic, result.pvalue, ""


def fssd(x: np.ndarray, problem: Problem, moved: sc.perturbation.Perturbation | None, rng: Any) -> Outcome:
    """With the authors' ten locations and 20 % of the draws for training."""
    training = {"n_locations": 10, "train_fraction": 0.2}
    result = sc.fssd_test(x, problem.target, **training, n_resamples=3000, **COMMON, rng=rng)
    return result.statistic, result.pvalue, ""


def flux(x: np.ndarray, problem: Problem, moved: sc.perturbation.Perturbation | None, rng: Any) -> Outcome:
    """With modes found before the sample was drawn."""
    result = sc.flux_test(
        x, problem.target, modes=problem.flux_modes or problem.modes, independent=True, rng=rng
    )
    return result.statistic, result.pvalue, f"contributing={result.n_contributing}"


TESTS = {
    "KSD": ksd,
    "KSDAgg": ksdagg,
    "FSSD": fssd,
    "spKSD": spksd,
    "ospKSD": ospksd,
    "pKSDAgg": pksdagg,
    "flux": flux,
}
