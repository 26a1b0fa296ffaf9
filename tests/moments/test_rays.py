"""Ranks on rays against the distribution of the radius; impossible draws: no false alarms, all found."""

import numpy as np
import pytest
from harness import gaussian, normal_log_density
from scipy import stats

import steincheck as sc
from steincheck.moments import rays

N = 1000


def test_ranks_on_rays_from_a_mode_said_to_be_far_too_wide():
    x = np.random.default_rng(0).normal(size=(100, 2))
    ranks, wide = (rays.ray_ranks(normal_log_density, x, np.zeros(2), s * np.eye(2)) for s in (1.0, 1e-10))
    np.testing.assert_allclose(wide, ranks, atol=1e-3)


@pytest.mark.parametrize("d", [1, 5, 40])
def test_ranks_on_rays_are_those_of_the_radius(d):
    x = np.random.default_rng(d).normal(size=(300, d)) * 2
    ranks = rays.ray_ranks(lambda y: normal_log_density(y) / 4, x, np.zeros(d), np.eye(d))
    np.testing.assert_allclose(ranks, stats.chi2.cdf(np.sum(x**2, axis=1) / 4, d), atol=2e-3)


def test_no_ranks_are_used_where_the_draws_in_a_needle_have_none():
    """A fine grid for the wide component misses the needle upon it: the ranks that are left are no sample."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(50, 1)), 1 + 1e-6 * rng.normal(size=(50, 1))])
    target = sc.models.gaussian_mixture([[0.0], [1.0]], [[[1.0]], [[1e-12]]])
    assert np.isnan(rays.ray_ranks(target.log_density, x, np.zeros(1), np.eye(1))).all()


def test_a_mixture_of_a_narrow_and_a_wide_gaussian_with_one_centre():
    d, width = 10, 100.0
    target = sc.models.gaussian_mixture(np.zeros((2, d)), np.stack([np.eye(d), width**2 * np.eye(d)]))
    x = target.sample(200, 0)
    square = np.sum(x**2, axis=1)
    exact = 0.5 * stats.chi2.cdf(square, d) + 0.5 * stats.chi2.cdf(square / width**2, d)
    ranks = rays.ray_ranks(target.log_density, x, np.zeros(d), np.eye(d))
    np.testing.assert_allclose(ranks, exact, atol=1e-3)


def test_ranks_of_25_draws_cost_77_evaluations_each():
    seen = []
    x = np.random.default_rng(0).normal(size=(1000, 3))
    counted = lambda y: seen.append(len(y)) or normal_log_density(y)  # noqa: E731
    rays.rank_sums(counted, x, np.ones(1000), np.zeros(3), np.eye(3), np.arange(1000))
    assert sum(seen) == 25 * 77


def test_sums_of_ranks_have_mean_and_standard_error_of_the_ranks():
    x = 1.3 * np.random.default_rng(0).normal(size=(1000, 2))
    sums = rays.rank_sums(normal_log_density, x, np.ones(1000), np.zeros(2), np.eye(2), np.arange(1000))[:, 0]
    rows = np.linspace(0, 999, 25).astype(int)
    expected = stats.ttest_1samp(stats.chi2.cdf(np.sum(x[rows] ** 2, axis=1), 2), 0.5).statistic
    assert sums.mean() / (sums.std() / np.sqrt(1000)) == pytest.approx(expected * np.sqrt(25 / 24), rel=0.01)


def one_mode(location, variances):
    """A mode whose log density does not matter."""
    location = np.atleast_2d(np.asarray(location, dtype=float))
    return sc.Modes(location, np.diag(variances)[None], np.zeros(1))


def t3_log_density(x):
    return -0.5 * (3 + x.shape[1]) * np.log1p(np.sum(x**2, axis=1) / 3)


def funnel_log_density(x):
    return -(x[:, 0] ** 2) / 18 - 2 * x[:, 0] - 0.5 * np.sum(x[:, 1:] ** 2, axis=1) * np.exp(-x[:, 0])


def funnel_draws(rng):
    first = 3 * rng.normal(size=(N, 1))
    return np.concatenate([first, np.exp(0.5 * first) * rng.normal(size=(N, 4))], axis=1)


def banana_draws(rng):
    first = 10 * rng.normal(size=N)
    return np.column_stack([first, 0.3 * (first**2 - 100) + rng.normal(size=N)])


CASES = {  # log density, mode, exact draws
    "normal": (normal_log_density, one_mode(np.zeros(10), np.ones(10)), lambda rng: rng.normal(size=(N, 10))),
    "t3": (
        t3_log_density,
        one_mode(np.zeros(2), [0.6, 0.6]),
        lambda rng: rng.normal(size=(N, 2)) / np.sqrt(rng.chisquare(3, size=(N, 1)) / 3),
    ),
    "Cauchy": (
        lambda x: -np.sum(np.log1p(x**2), axis=1),
        one_mode(np.zeros(3), [0.5] * 3),
        lambda rng: rng.standard_cauchy(size=(N, 3)),
    ),
    "funnel": (funnel_log_density, one_mode([-18.0, 0, 0, 0, 0], [9.0] + [np.exp(-18)] * 4), funnel_draws),
    "banana": (
        lambda x: -(x[:, 0] ** 2) / 200 - 0.5 * (x[:, 1] - 0.3 * (x[:, 0] ** 2 - 100)) ** 2,
        one_mode([0.0, -30.0], [100.0, 1.0]),
        banana_draws,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_right_draws_are_not_impossible(name):
    """By construction in less than one of a million samples: none of 100 here, of 1000 in the docs."""
    log_density, modes, sample = CASES[name]
    rng = np.random.default_rng(1)
    for _ in range(100):
        x = sample(rng)
        assert rays.impossible_draws(log_density, x, log_density(x), modes) == ()


@pytest.mark.parametrize("name", ["normal", "t3", "banana"])
def test_a_draw_far_out_is_found(name):
    log_density, modes, sample = CASES[name]
    x = sample(np.random.default_rng(0))
    x[7, 1] = 1e5
    assert rays.impossible_draws(log_density, x, log_density(x), modes) == (7,)


@pytest.mark.parametrize("d", [1, 20])
def test_lines_are_followed_for_few_draws_and_cost_little(d):
    modes = one_mode(np.zeros(d), np.ones(d))
    x = np.random.default_rng(0).normal(size=(500, d))
    x[100:105, 0] = 8.0
    seen = []
    found = rays.impossible_draws(
        lambda y: seen.append(len(y)) or normal_log_density(y), x, normal_log_density(x), modes
    )
    assert len(found) == 2
    assert set(found) <= {100, 101, 102, 103, 104}
    assert sum(seen) == 20 + 2 * 97
    every = rays.impossible_draws(normal_log_density, x, normal_log_density(x), modes, max_lines=5)
    assert every == (100, 101, 102, 103, 104)


def test_the_threshold_is_that_of_the_smallest_of_n_d_tails():
    """A normal draw beside the quantile at 1e-6 / (2 n), up to the error of the quadrature."""
    x = stats.norm.ppf((np.arange(N) + 0.5) / N)[:, None]
    modes = one_mode([0.0], [1.0])
    beyond = -stats.norm.ppf(rays.NEGLIGIBLE / (2 * N))
    for place, rows in ((beyond - 0.05, ()), (beyond + 0.5, (0,))):
        x[0] = place
        assert rays.impossible_draws(normal_log_density, x, normal_log_density(x), modes) == rows


def test_a_density_that_fails_far_out():
    def log_density(x):
        if np.abs(x).max() > 50:
            raise ValueError("out of range")
        return normal_log_density(x)

    x = np.random.default_rng(0).normal(size=(200, 2))
    x[7, 0] = 12.0
    modes = one_mode([0.0, 0.0], [1.0, 1.0])
    assert rays.impossible_draws(log_density, x, normal_log_density(x), modes) == (7,)


def test_tails_of_a_coordinate_given_the_others():
    target = gaussian(np.array([[1.0, 0.9], [0.9, 1.0]]))
    x = np.array([[3.0, 0.0], [0.5, -1.0]])
    mean = 0.9 * x[:, 1]
    sd = np.full(2, np.sqrt(1 - 0.81))
    found = rays.conditional_tails(
        target.log_density, x, rays.Suspects(np.arange(2), np.zeros(2, dtype=int), mean, sd)
    )
    exact = 2 * stats.norm.sf((x[:, 0] - mean) / sd)
    assert (found >= 0.95 * exact).all()
    assert (found <= 10 * exact).all()
