"""How far off the draws' own numbers are, for a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..accuracy import accuracy_core
from ..result import AccuracyResult, ParameterAccuracy, Table
from ..target import Target
from ..target.evaluation import Budget
from ..wording import verdict as words
from .case import Case, ModesOfCase, Remarks
from .examine import Tested


class Measured(NamedTuple):
    """The accuracy of the draws; None where it could not be estimated."""

    accuracy: AccuracyResult | None
    table: Table
    notes: Remarks

    @property
    def parameters(self) -> tuple[ParameterAccuracy, ...]:
        """One record per parameter; none if no error is known."""
        return () if self.accuracy is None or self.accuracy.largest is None else self.accuracy.parameters

    @property
    def mode_means(self) -> np.ndarray | None:
        """Mean of the density within each mode."""
        return None if self.accuracy is None else self.accuracy.mean

    @property
    def mode_covariances(self) -> np.ndarray | None:
        """Covariance of the density within each mode."""
        return None if self.accuracy is None else self.accuracy.covariance


def measure(
    case: Case,
    target: Target,
    known: ModesOfCase,
    tested: Tested,
    *,
    budget: Budget,
    rng: np.random.Generator,
) -> Measured:
    """Means and standard deviations of the density beside those of the draws."""
    unknown_shares = len(known.modes) > 1 and tested.mode_table is None
    n_scored = len(case.scored)
    if known.improper or unknown_shares or n_scored < len(case.sample.x):
        return Measured(None, parameter_table(case, ()), Remarks(not_examined=(words.Phrases.accuracy,)))
    sample = case.sample.rows(np.setdiff1d(np.arange(len(case.values)), tested.improbable_rows(case)))
    found = accuracy_core(sample, target, known.modes, mode_table=tested.mode_table, budget=budget, rng=rng)
    found = replace(found, parameters=_with_moments_of_all(found.parameters, case))
    known_errors = found.parameters if found.largest is not None else ()
    return Measured(found, parameter_table(case, known_errors), Remarks(not_examined=found.warnings))


def _with_moments_of_all(
    accuracy: tuple[ParameterAccuracy, ...], case: Case
) -> tuple[ParameterAccuracy, ...]:
    """The records with mean and sd of all draws; walkers do not start at improbable ones."""
    mean = dict(zip(case.names, case.values.mean(axis=0).tolist(), strict=True))
    sd = dict(zip(case.names, case.values.std(axis=0).tolist(), strict=True))
    return tuple(
        replace(item, draws_mean=mean[item.parameter], draws_sd=sd[item.parameter]) for item in accuracy
    )


def parameter_table(case: Case, accuracy: tuple[ParameterAccuracy, ...]) -> Table:
    """The table of ``Verdict.summary``."""
    by_name = {item.parameter: item for item in accuracy}

    def of_density(value: Callable[[ParameterAccuracy], Any]) -> list[Any]:
        return [value(by_name[name]) if name in by_name else np.nan for name in case.names]

    def of_chains(name: str) -> list[float]:
        return (
            [np.nan] * len(case.names)
            if case.convergence is None
            else getattr(case.convergence, name).tolist()
        )

    columns = {
        "parameter": case.names,
        "mean": case.values.mean(axis=0).tolist(),
        "sd": case.values.std(axis=0).tolist(),
        "density_mean": of_density(lambda item: item.mean),
        "density_sd": of_density(lambda item: item.sd),
        "mean_error": of_density(lambda item: item.mean_error),
        "mean_error_low": of_density(lambda item: item.mean_error_interval[0]),
        "mean_error_high": of_density(lambda item: item.mean_error_interval[1]),
        "sd_ratio": of_density(lambda item: float(np.exp(item.sd_error))),
        "sd_ratio_low": of_density(lambda item: float(np.exp(item.sd_error_interval[0]))),
        "sd_ratio_high": of_density(lambda item: float(np.exp(item.sd_error_interval[1]))),
        "rough": of_density(lambda item: item.rough),
        "ess_bulk": of_chains("ess_bulk"),
        "ess_tail": of_chains("ess_tail"),
        "r_hat": of_chains("rhat"),
    }
    return Table(tuple(columns), tuple(zip(*columns.values(), strict=True)))
