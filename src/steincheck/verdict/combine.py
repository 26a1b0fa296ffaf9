"""Tests taken together at one level, by Holm's method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..result import GofResult


class Combined(NamedTuple):
    """The tests that ran, taken together at one level."""

    tests: Mapping[str, GofResult]
    adjusted_pvalues: dict[str, float]  #: p-values, by Holm's method
    alpha: float

    @property
    def pvalue(self) -> float:
        """Smallest adjusted p-value; 1 if no test ran."""
        return min(self.adjusted_pvalues.values(), default=1.0)

    @property
    def at_floor(self) -> bool:
        """Whether a test with the smallest adjusted p-value cannot give a smaller one."""
        return any(
            result.at_floor and self.adjusted_pvalues[name] == self.pvalue
            for name, result in self.tests.items()
        )

    @property
    def rejected(self) -> bool:
        """Whether any test rejects."""
        return self.pvalue <= self.alpha

    def rejects(self, name: str) -> bool:
        """Whether one test rejects; one that did not run does not."""
        return self.adjusted_pvalues.get(name, 1.0) <= self.alpha

    def holm_factor(self, name: str) -> int:
        """The factor of a p-value in Holm's method: the number of tests without a smaller one."""
        return sum(not result.pvalue < self.tests[name].pvalue for result in self.tests.values())


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


def combine(tests: Mapping[str, GofResult], alpha: float) -> Combined:
    """Adjust the p-values by Holm's method; a test without a p-value counts as one with p = 1."""
    pvalues = {name: 1.0 if np.isnan(result.pvalue) else result.pvalue for name, result in tests.items()}
    return Combined(dict(tests), holm(pvalues), float(alpha))
