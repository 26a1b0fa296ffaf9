"""How far off the draws' own numbers are, for a verdict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..accuracy import Shares, accuracy_core
from ..result import AccuracyResult, ModeTable, ParameterAccuracy, Table
from ..target import Target
from ..target.counting import Budget
from ..wording import verdict as words
from .case import Case, Known, Notes


class Measured(NamedTuple):
    """The accuracy of the draws; None where it could not be estimated."""

    accuracy: AccuracyResult | None
    table: Table
    notes: Notes

    @property
    def parameters(self) -> tuple[ParameterAccuracy, ...]:
        """One record per parameter."""
        return () if self.accuracy is None else self.accuracy.parameters


def measure(
    case: Case,
    target: Target,
    known: Known,
    shares: ModeTable | None,
    *,
    budget: Budget,
    rng: np.random.Generator,
) -> Measured:
    """Means and standard deviations of the density beside those of the draws."""
    several = len(known.modes) > 1
    weights = None if shares is None else Shares.of(shares)
    n_scored = len(case.scored)
    if known.improper or (several and weights is None) or n_scored < len(case.sample.x):
        return Measured(None, parameter_table(case, ()), Notes(not_examined=(words.ACCURACY,)))
    sample = case.sample
    found = accuracy_core(
        sample.x,
        sample.scores,
        target,
        known.modes,
        chain=sample.chain,
        shares=weights,
        budget=budget,
        rng=rng,
    )
    return Measured(found, parameter_table(case, found.parameters), Notes(not_examined=found.warnings))


def parameter_table(case: Case, accuracy: tuple[ParameterAccuracy, ...]) -> Table:
    """The table of ``Verdict.summary``."""
    columns = [
        "parameter",
        "mean",
        "sd",
        "density_mean",
        "density_sd",
        "mean_error",
        "mean_error_low",
        "mean_error_high",
        "sd_ratio",
        "sd_ratio_low",
        "sd_ratio_high",
        "rough",
        "ess_bulk",
        "ess_tail",
        "r_hat",
    ]
    rows = []
    for j, name in enumerate(case.names):
        drawn = (name, float(case.values[:, j].mean()), float(case.values[:, j].std()))
        density = (*(np.nan,) * 8, False)
        if accuracy:
            item = accuracy[j]
            ratios = np.exp([item.sd_error, *item.sd_error_interval]).tolist()
            density = (item.mean, item.sd, item.mean_error, *item.mean_error_interval, *ratios, item.rough)
        mixing = (np.nan, np.nan, np.nan)
        if case.convergence is not None:
            found = case.convergence
            mixing = (float(found.ess_bulk[j]), float(found.ess_tail[j]), float(found.rhat[j]))
        rows.append((*drawn, *density, *mixing))
    return Table(tuple(columns), tuple(rows))
