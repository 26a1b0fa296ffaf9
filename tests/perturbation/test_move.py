import warnings

import numpy as np
import pytest
from harness import PLANE, mixture_draws, numpy_mixture, standard_normal
from scipy import stats

import steincheck as sc
from steincheck.perturbation import barker, metropolis, perturb


def mixture(means, covariances, weights):
    """A Gaussian mixture as a NumPy target, and its means and covariances."""
    modes = np.asarray(means, float), np.asarray(covariances, float)
    return numpy_mixture(means, covariances, weights), modes


@pytest.mark.parametrize("accept", [metropolis, barker])
def test_draws_of_the_target_stay_draws_of_the_target(accept):
    """Invariance in two dimensions after 30 steps, by Kolmogorov-Smirnov tests at 1e-5."""
    target, modes = mixture(*PLANE)
    rng = np.random.default_rng(0)
    x = mixture_draws(*PLANE, 20_000, rng)
    fresh = mixture_draws(*PLANE, 20_000, rng)
    moved = perturb(x, target, modes, [0.8, 1.0, 1.1], n_steps=30, accept=accept, rng=1)
    assert np.all(moved.acceptance > 0.001)
    for sample in moved.samples:
        assert not np.array_equal(sample, x)
        for feature in (lambda v: v[:, 0], lambda v: v[:, 1], lambda v: np.hypot(*v.T), target.log_density):
            assert stats.ks_2samp(feature(sample), feature(fresh)).pvalue > 1e-5


def test_limit_law_of_a_long_perturbation():
    """Prop. 5.1: q_infinity = p(x) sum_s q(x + s nu) / sum_k p(x + k nu), by a chi-square test."""
    target, modes = mixture([[0.0], [6.0]], [[[1.0]], [[1.0]]], [0.5, 0.5])
    theta, n = 0.85, 40_000
    x = np.random.default_rng(2).normal(size=(n, 1))
    moved = perturb(x, target, modes, theta, n_steps=60, rng=3).samples[0, :, 0]
    grid = np.linspace(-8, 16, 240_001)
    nu = theta * 6.0

    def summed(log_density):
        return sum(np.exp(log_density(grid + s * nu)) for s in range(-12, 13))

    def log_p(v):
        return target.log_density(v[:, None])

    density = np.exp(log_p(grid)) * summed(stats.norm.logpdf) / summed(log_p)
    cdf = np.cumsum(density) * (grid[1] - grid[0])
    assert cdf[-1] == pytest.approx(1, abs=1e-6)
    edges = np.interp(np.linspace(0.01, 0.99, 50), cdf, grid)
    counts = np.bincount(np.searchsorted(edges, moved), minlength=51)
    expected = n * np.diff(np.concatenate([[0.0], np.linspace(0.01, 0.99, 50), [1.0]]))
    assert stats.chisquare(counts, expected).pvalue > 1e-4
    # the same test must see a sample that has not been perturbed
    assert (
        stats.chisquare(np.bincount(np.searchsorted(edges, x[:, 0]), minlength=51), expected).pvalue < 1e-10
    )


def test_exactly_n_steps_transitions_are_made():
    """One mode far heavier after the jump: every proposal towards it is accepted, so steps can be counted."""
    flat = sc.Target(lambda x: np.zeros(len(x)), lambda x: np.zeros_like(x), dim=1)
    modes = (np.array([[0.0], [1.0]]), np.ones((2, 1, 1)))
    moved = perturb(np.zeros((2000, 1)), flat, modes, 1.0, n_steps=7, rng=0).samples[0, :, 0]
    assert set(np.unique(moved)) <= {-7, -5, -3, -1, 1, 3, 5, 7}
    assert np.abs(moved).max() >= 5


def test_one_mode_is_the_identity_with_a_warning():
    target = standard_normal(2)
    x = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.warns(UserWarning, match="only one mode is known"):
        moved = perturb(x, target, (np.zeros((1, 2)), np.eye(2)[None]), [0.9, 1.1], n_steps=3)
    np.testing.assert_array_equal(moved.samples, np.stack([x, x]))
    assert "only one mode" in moved.warnings[0]


def test_minus_infinity_is_a_rejection_and_nan_an_error_that_shows_the_point():
    modes = (np.array([[0.0], [6.0]]), np.ones((2, 1, 1)))
    walled = sc.Target(lambda x: np.where(x[:, 0] < 3, -0.5 * x[:, 0] ** 2, -np.inf), dim=1)
    x = np.linspace(-1, 1, 20)[:, None]
    with pytest.raises(ValueError, match="must be finite"):
        perturb(x, walled, modes, 1.0, n_steps=2)  # a mode outside the support is no mode
    inside = (np.array([[0.0], [2.0]]), np.ones((2, 1, 1)))
    assert np.all(perturb(x, walled, inside, 1.0, n_steps=20, rng=0).samples < 3)
    broken = sc.Target(lambda x: np.where(x[:, 0] < 3, -0.5 * x[:, 0] ** 2, np.nan), dim=1)
    with pytest.raises(ValueError, match=r"`log_density` must be finite.*x = \["):
        perturb(x, broken, inside, 1.0, n_steps=20, rng=0)


def test_modes_far_from_the_origin_are_flagged_where_it_matters():
    for covariances, offset, theta, flagged in [
        ([[[1.0]], [[0.25]]], 100.0, 0.9, True),
        ([[[1.0]], [[0.25]]], 0.0, 0.9, False),
        ([[[1.0]], [[0.25]]], 100.0, 1.0, False),
        ([[[1.0]], [[1.0]]], 100.0, 0.9, False),
    ]:
        modes = np.array([[-4.0], [4.0]]) + offset
        target = sc.models.gaussian_mixture(modes, covariances)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            moved = perturb(target.sample(50, 0), target, (modes, covariances), theta, n_steps=2, rng=0)
        assert bool(moved.warnings) == bool(heard) == flagged
        assert not flagged or "lie far from the origin" in moved.warnings[0]
