"""Tests taken together at one level, by Holm's method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..result import FluxResult, GofResult, ModeTable, mode_words
from ..result.verdict import smallest_at_floor


class Combined(NamedTuple):
    """The tests that ran, taken together at one level."""

    tests: dict[str, GofResult]
    adjusted_pvalues: dict[str, float]  #: p-values, by Holm's method
    alpha: float

    @property
    def pvalue(self) -> float:
        """Smallest adjusted p-value; 1 if no test ran."""
        return min(self.adjusted_pvalues.values(), default=1.0)

    @property
    def at_floor(self) -> bool:
        """Whether a test with the smallest adjusted p-value cannot give a smaller one."""
        return smallest_at_floor(self.tests, self.adjusted_pvalues)

    @property
    def rejected(self) -> bool:
        """Whether any test rejects."""
        return self.pvalue <= self.alpha

    @property
    def weights(self) -> FluxResult | None:
        """The test of the mode weights, if it ran."""
        result = self.tests.get("weights")
        return result if isinstance(result, FluxResult) else None

    @property
    def mode_table(self) -> ModeTable | None:
        """Shares of the modes, if the mode weights were tested."""
        return None if self.weights is None else self.weights.mode_table

    def rejects(self, name: str) -> bool:
        """Whether one test rejects; one that did not run does not."""
        return name in self.adjusted_pvalues and self.adjusted_pvalues[name] <= self.alpha


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


def holm_factor(tests: Mapping[str, GofResult], name: str) -> int:
    """The factor of a p-value in Holm's method: the number of tests without a smaller one."""
    return sum(not result.pvalue < tests[name].pvalue for result in tests.values())


def combine(tests: Mapping[str, GofResult], alpha: float) -> Combined:
    """Adjust the p-values by Holm's method, a test without one counting as 1; word the mode table by them."""
    raw = {key: 1.0 if np.isnan(result.pvalue) else result.pvalue for key, result in tests.items()}
    adjusted = holm(raw)
    return Combined(_word_modes(tests, adjusted, alpha), adjusted, float(alpha))


def _word_modes(
    tests: Mapping[str, GofResult], adjusted: Mapping[str, float], alpha: float
) -> dict[str, GofResult]:
    """Let the mode table name the modes that the findings name, and none if the test does not reject."""
    weights = tests.get("weights")
    if not isinstance(weights, FluxResult) or weights.mode_table is None:
        return dict(tests)
    assert weights.net_flow is not None
    assert weights.mode_pvalues is not None
    level = alpha / holm_factor(tests, "weights") if adjusted["weights"] <= alpha else -1.0
    words = mode_words(
        weights.net_flow,
        weights.mode_pvalues,
        level,
        comparable=weights.inconclusive_reason is None,
    )
    return {**tests, "weights": replace(weights, mode_table=replace(weights.mode_table, words=words))}
