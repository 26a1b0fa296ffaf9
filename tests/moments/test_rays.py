"""Ranks on rays against the distribution of the radius."""

import numpy as np
import pytest
from harness import normal_log_density
from scipy import stats

import steincheck as sc
from steincheck.moments.rays import rank_sums, ray_ranks


def test_ranks_on_rays_from_a_mode_said_to_be_far_too_wide():
    x = np.random.default_rng(0).normal(size=(100, 2))
    ranks, wide = (ray_ranks(normal_log_density, x, np.zeros(2), s * np.eye(2)) for s in (1.0, 1e-10))
    np.testing.assert_allclose(wide, ranks, atol=1e-3)


@pytest.mark.parametrize("d", [1, 5, 40])
def test_ranks_on_rays_are_those_of_the_radius(d):
    x = np.random.default_rng(d).normal(size=(300, d)) * 2
    ranks = ray_ranks(lambda y: normal_log_density(y) / 4, x, np.zeros(d), np.eye(d))
    np.testing.assert_allclose(ranks, stats.chi2.cdf(np.sum(x**2, axis=1) / 4, d), atol=2e-3)


def test_no_ranks_are_used_where_the_draws_in_a_needle_have_none():
    """A fine grid for the wide component misses the needle upon it: the ranks that are left are no sample."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(50, 1)), 1 + 1e-6 * rng.normal(size=(50, 1))])
    target = sc.models.gaussian_mixture([[0.0], [1.0]], [[[1.0]], [[1e-12]]])
    assert np.isnan(ray_ranks(target.log_density, x, np.zeros(1), np.eye(1))).all()


def test_a_mixture_of_a_narrow_and_a_wide_gaussian_with_one_centre():
    d, width = 10, 100.0
    target = sc.models.gaussian_mixture(np.zeros((2, d)), np.stack([np.eye(d), width**2 * np.eye(d)]))
    x = target.sample(200, 0)
    square = np.sum(x**2, axis=1)
    exact = 0.5 * stats.chi2.cdf(square, d) + 0.5 * stats.chi2.cdf(square / width**2, d)
    ranks = ray_ranks(target.log_density, x, np.zeros(d), np.eye(d))
    np.testing.assert_allclose(ranks, exact, atol=1e-3)


def test_ranks_of_25_draws_cost_77_evaluations_each():
    seen = []
    x = np.random.default_rng(0).normal(size=(1000, 3))
    rank_sums(
        lambda y: seen.append(len(y)) or normal_log_density(y), x, np.zeros(3), np.eye(3), np.arange(1000)
    )
    assert sum(seen) == 25 * 77


def test_sums_of_ranks_have_mean_and_standard_error_of_the_ranks():
    x = 1.3 * np.random.default_rng(0).normal(size=(1000, 2))
    sums = rank_sums(normal_log_density, x, np.zeros(2), np.eye(2), np.arange(1000))[:, 0]
    rows = np.linspace(0, 999, 25).astype(int)
    expected = stats.ttest_1samp(stats.chi2.cdf(np.sum(x[rows] ** 2, axis=1), 2), 0.5).statistic
    assert sums.mean() / (sums.std() / np.sqrt(1000)) == pytest.approx(expected * np.sqrt(25 / 24), rel=0.01)
