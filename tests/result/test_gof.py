"""Results of tests: smallest p-values, answers, how they are printed."""

import numpy as np
import pytest
from harness import jax_normal

import steincheck as sc


def ksd_of_normal_draws(shift=0.0, n_resamples=99):
    draws = np.random.default_rng(0).normal(size=(100, 2)) + shift
    return sc.ksd_test(draws, jax_normal(), n_resamples=n_resamples, rng=0)


def test_the_smallest_possible_pvalue_is_an_upper_bound():
    found = ksd_of_normal_draws(shift=2)
    assert "(p <= 0.01, " in str(found)
    assert found.at_floor
    assert not ksd_of_normal_draws().at_floor


def test_no_rejection_at_a_level_out_of_reach_is_no_answer():
    found = ksd_of_normal_draws(n_resamples=199)
    assert not found.inconclusive(0.005)
    assert found.inconclusive(0.001)
    assert "The smallest attainable p-value is 0.005" in found.describe(0.001)


def test_the_smallest_pvalue_of_replicates_is_exact_where_they_have_a_part_of_the_level():
    shifted = np.random.default_rng(0).normal(size=(200, 2)) + 1
    found = sc.moment_test(shifted, jax_normal(), modes=[[0.0, 0.0]], n_resamples=99, rng=0)
    assert found.pvalue == pytest.approx(0.01, rel=1e-12)
    assert found.at_floor
    means = [[-4.0], [4.0], [14.0]]
    mixture = sc.models.gaussian_mixture(means, weights=[0.5, 0.499, 0.001])
    wrong = mixture.sample(200, 0, weights=[0.8, 0.2, 0.0])
    exact = sc.flux_test(wrong, mixture, modes=means, variant="exact", n_resamples=99, rng=0)
    assert exact.pvalue == pytest.approx(0.01, rel=1e-12)
    assert exact.at_floor
