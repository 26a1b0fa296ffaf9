"""`calibrate`, and a small part of the study of levels."""

import functools

import numpy as np
import pytest
from harness import assert_uniform
from scipy import stats

import steincheck as sc

TARGET = sc.models.gaussian_mixture([[0.0, 0.0]])
QUICK = functools.partial(sc.ksd_test, n_resamples=99)


@pytest.mark.slow
def test_true_draws_are_rejected_at_the_level_and_wrong_ones_more_often():
    found = sc.calibrate(TARGET, None, 60, test=QUICK, repetitions=60, rng=0)
    assert found.alpha.tolist() == [0.01, 0.05, 0.1]
    assert np.all(found.intervals[:, 0] <= found.alpha)
    assert np.array_equal(found.rates, [(found.pvalues <= level).mean() for level in found.alpha])
    exact = stats.binomtest(int((found.pvalues <= 0.05).sum()), 60).proportion_ci(method="exact")
    assert found.intervals[1].tolist() == [exact.low, exact.high]
    one_sided = stats.kstest(found.pvalues, "uniform", alternative="greater")
    assert found.excess_pvalue == one_sided.pvalue
    assert_uniform(found.pvalues)
    wide = sc.calibrate(
        TARGET, lambda n, rng: 2 * TARGET.sample(n, rng), 60, test=QUICK, repetitions=20, alpha=0.05, rng=0
    )
    assert wide.rates[0] > 0.8
    assert wide.excess_pvalue < 1e-4


def test_the_outcome_depends_on_the_seed_alone():
    short, again = (sc.calibrate(TARGET, None, 30, test=QUICK, repetitions=3, rng=7) for _ in range(2))
    assert np.array_equal(short.pvalues, again.pvalues)
    longer = sc.calibrate(TARGET, None, 30, test=QUICK, repetitions=5, rng=7)
    assert np.array_equal(longer.pvalues[:3], short.pvalues)
    assert short.seed == 7


@pytest.mark.slow
def test_the_outcome_does_not_depend_on_the_number_of_workers():
    runs = [sc.calibrate(TARGET, None, 30, test=QUICK, repetitions=3, n_jobs=jobs, rng=7) for jobs in (1, 2)]
    assert np.array_equal(runs[0].pvalues, runs[1].pvalues)


def test_chains_and_verdicts_are_taken_and_open_questions_counted():
    def chains(n, rng):
        return rng.normal(size=(2, n // 2, 2))

    found = sc.calibrate(
        TARGET, chains, 30, test=functools.partial(sc.check, modes=[[0.0, 0.0]]), repetitions=2, rng=0
    )
    assert found.test == "check"
    assert found.n_inconclusive == 2  # fewer than 50 draws
    assert "inconclusive: 2 samples" in str(found)


def test_what_check_rejects_for_a_fact_counts_at_every_level():
    """Four chains, one of which never moves: no p-value is needed to see that."""

    def stuck(n, rng):
        x = rng.normal(size=(4, n, 2))
        x[0] = x[0, 0]
        return x

    test = functools.partial(sc.check, modes=[[0.0, 0.0]])
    found = sc.calibrate(TARGET, stuck, 100, test=test, repetitions=3, rng=0)
    assert found.rates.tolist() == [1.0, 1.0, 1.0]


def test_a_test_that_cannot_reach_the_level_is_inconclusive():
    few = functools.partial(sc.ksd_test, n_resamples=5)
    found = sc.calibrate(TARGET, None, 30, test=few, repetitions=3, rng=0)
    assert found.n_inconclusive == 3
    assert "inconclusive: 3 samples" in str(found)
