"""Tests of the true labels, which no user has: what the tests of the draws are measured against."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats


def label_test(labels: np.ndarray, weights: Any) -> float:
    """Chi-square test of the true components' counts, exact for two components."""
    count = np.bincount(labels, minlength=len(weights))
    if len(weights) == 2:
        return float(stats.binomtest(int(count[0]), len(labels), weights[0]).pvalue)
    return float(stats.chisquare(count, len(labels) * np.asarray(weights)).pvalue)


def sign_test(h: np.ndarray) -> float:
    """Chi-square test that every hidden unit of h (n, d_h) is +1 and -1 equally often, independently."""
    return float(stats.chi2.sf(np.sum(h.sum(axis=0, dtype=float) ** 2) / len(h), h.shape[1]))
