"""The outcome of `calibrate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..wording.numbers import pvalue_text
from .plain import Record


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationResult(Record):
    """How often a test rejects, over repeated samples: its level, or its power if the sampler is wrong.

    Attributes
    ----------
    test : str
        Name of the test.
    n, dim, repetitions : int
        Draws per sample (per chain, if samples are Markov chains), dimension, number of samples.
    alpha : array (A,)
        The levels.
    rates : array (A,)
        Share of the samples rejected at each level.
    intervals : array (A, 2)
        Their 95 % confidence intervals (Clopper and Pearson), each for one level alone.
    pvalues : array (repetitions,)
        One p-value per sample, in order; NaN where the test cannot tell.
    n_inconclusive : int
        Samples of which a test says that it cannot tell at the largest level, `check` at its own level. The
        rates do not depend on it: they count the p-values.
    uniform_pvalue : float
        Kolmogorov-Smirnov test of the hypothesis that the p-values are uniform, as those of an exact test
        are when the draws come from the target.
    excess_pvalue : float
        The one-sided test: small if the test is anti-conservative at some level a, P(p <= a) > a, as it must
        not be for correct draws, and large for a conservative test, whose p-values are not uniform either.
    seed : int or SeedSequence
        What gives the same samples and p-values again.
    """

    test: str
    n: int
    dim: int
    repetitions: int
    alpha: np.ndarray
    rates: np.ndarray
    intervals: np.ndarray
    pvalues: np.ndarray
    n_inconclusive: int
    uniform_pvalue: float
    excess_pvalue: float
    seed: Any

    def __repr__(self) -> str:
        return f"<CalibrationResult: {self.test}, {self.repetitions} samples, n = {self.n}, d = {self.dim}>"

    def __str__(self) -> str:
        lines = [f"{self.test}: {self.repetitions} samples, n = {self.n}, d = {self.dim}"]
        for level, rate, (low, high) in zip(self.alpha, self.rates, self.intervals, strict=True):
            lines.append(f"  at level {level:<5g} rejection rate {rate:.3f} ({low:.3f} to {high:.3f})")
        lines.append(
            "  Kolmogorov-Smirnov tests of the p-values: "
            f"of uniformity, p {pvalue_text(self.uniform_pvalue)}; "
            f"one-sided, against p-values that are too small, p {pvalue_text(self.excess_pvalue)}"
        )
        if self.n_inconclusive:
            lines.append(f"  inconclusive: {self.n_inconclusive} samples")
        return "\n".join(lines)
