"""The largest |t|: step-down p-values, thresholds, standard errors of dependent blocks."""

import numpy as np
import pytest
from harness import ar1_chains, assert_level, count_rejections
from scipy import stats

from steincheck.moments.core import max_t


def test_step_down_p_values_against_a_plain_computation():
    rng = np.random.default_rng(5)
    sums = rng.normal(size=(400, 6)) + np.array([0.2, 0, 0, 0.1, 0, 0])
    found = max_t(sums, np.zeros(6, dtype=int), np.ones(6, dtype=bool), 499, np.random.default_rng(1))
    np.testing.assert_allclose(found.t, stats.ttest_1samp(sums, 0).statistic, rtol=1e-10)
    order = np.argsort(-np.abs(found.t))
    assert (np.diff(found.adjusted[order]) >= 0).all()
    assert found.adjusted[order[0]] == pytest.approx(
        (1 + np.sum(found.null >= found.statistic)) / 500, abs=1 / 400
    )
    bonferroni = 6 * stats.ttest_1samp(sums, 0).pvalue
    assert (found.adjusted <= bonferroni + 0.02).all()


@pytest.mark.slow
def test_dependence_between_halves_of_blocks_enlarges_standard_errors():
    """AR(1), 60 half blocks of 3 autocorrelation times: whole blocks vary 1.1 times as much."""
    rng = np.random.default_rng(8)
    kinds = np.repeat([0, 1], 15)
    pvalues = {True: [], False: []}
    for _ in range(300):
        sums = ar1_chains(rng, 1, 1020, 30, 0.7).reshape(60, 17, 30).sum(axis=1)
        for halves in pvalues:
            found = max_t(sums, kinds, kinds == 0, 199, rng, halves=halves)
            pvalues[halves].append(found.adjusted.min())
    assert_level(pvalues[True])
    assert count_rejections(pvalues[False], 0.05) > count_rejections(pvalues[True], 0.05)


def test_many_columns_of_one_part_do_not_raise_the_threshold_of_the_other():
    rng = np.random.default_rng(3)
    sums = rng.normal(size=(1000, 502))
    first = np.arange(502) < 2
    found = max_t(sums, np.where(first, 0, 1), first, 1999, rng)
    alone = stats.norm.isf(0.025 / 4)
    assert np.quantile(found.null, 0.95) == pytest.approx(alone, rel=0.06)  # of all 502 it would be 3.9


def test_a_column_without_spread_is_certain_or_nothing():
    sums = np.random.default_rng(0).normal(size=(200, 3))
    sums[:, 1] = 0.7
    sums[:, 2] = 0.0
    found = max_t(sums, np.zeros(3, dtype=int), np.ones(3, dtype=bool), 99, np.random.default_rng(0))
    assert found.t[1] == np.inf
    assert found.adjusted[1] == 0.01
    assert found.t[2] == 0
