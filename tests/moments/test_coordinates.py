"""Directions of the modes, pairs, and the sharpness of responsibilities."""

import jax.numpy as jnp
import numpy as np
import pytest
from harness import assert_level, gaussian_with_modes, quiet_moment_test
from scipy import integrate, stats

import steincheck as sc
from steincheck.modes.arguments import as_modes
from steincheck.moments import coordinates
from steincheck.moments.coordinates import DAMPING, mode_coordinates, skew_coefficient, tail_coefficient


def test_tails_and_skewness_do_not_see_scale_and_location_of_a_gaussian():
    def expectation(f):
        return integrate.quad(lambda z: f(z) * stats.norm.pdf(z), -12, 12)[0]

    def cubic(z):
        return z**3 / (1 + (z / DAMPING) ** 2) ** 2

    def bowl(z):
        return z**2 / (1 + (z / DAMPING) ** 2) ** 1.5

    assert tail_coefficient(1) == pytest.approx(expectation(lambda z: z * cubic(z)), abs=2e-3)
    assert skew_coefficient() == pytest.approx(expectation(bowl), abs=2e-3)


def test_a_diagonal_covariance_has_no_axes_and_nothing_conditional():
    target, modes = gaussian_with_modes(np.diag([1.0, 100.0, 1e-4]))
    found = mode_coordinates(as_modes(modes, target), np.zeros((5, 3)))
    assert len(found.axis_rank) == len(found.conditional) == 0


def test_of_too_many_pairs_the_most_correlated_are_examined(monkeypatch):
    monkeypatch.setattr(coordinates, "MAX_CORRELATIONS", 200)
    d = 24
    covariance = np.eye(d)
    covariance[22, 23] = covariance[23, 22] = 0.2
    target, modes = gaussian_with_modes(covariance)
    x = np.random.default_rng(0).normal(size=(300, d))
    result = sc.moment_test(x, target, modes=modes, n_resamples=49, check_score=False, rng=0)
    assert result.pairs_left_out == d * (d - 1) // 2 - 200
    assert ("x[22]", "x[23]") in [f.parameters for f in result.features]
    assert "the 200 pairs of parameters most correlated at the modes" in str(result)


def ring_draws(n, rng):
    """A ring of radius 5 and width .3 with two tops."""
    radius = 5 + 0.3 * rng.normal(size=8 * n)
    angle = rng.uniform(-np.pi, np.pi, size=8 * n)
    height = radius * np.exp(0.3 * (radius / 5) ** 2 * np.cos(2 * angle))
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return x[rng.random(8 * n) * 10 * np.exp(0.6) < height][:n]


def ring():
    target = sc.from_jax(
        lambda x: -0.5 * ((jnp.sqrt(x @ x) - 5) / 0.3) ** 2 + 0.3 * (x[0] ** 2 - x[1] ** 2) / 25, dim=2
    )
    return target, as_modes(np.array([[-5.01082, 0.0], [5.01082, 0.0]]), target)


def test_responsibilities_are_soft_where_draws_pass_from_mode_to_mode():
    """On a ring there is a strip between the modes' Gaussians that holds hardly a draw."""
    modes = ring()[1]
    assert mode_coordinates(modes, ring_draws(180, np.random.default_rng(0))).sharpness <= 1 / 16
    places = np.array([[0.0, 0], [20.0, 0]])
    apart = sc.models.gaussian_mixture(places)
    assert mode_coordinates(as_modes(places, apart), apart.sample(500, 0)).sharpness == 1


@pytest.mark.slow
def test_level_on_a_ring():
    """4 of 60 are rejected; with sharpness 1 there are 20."""
    target, modes = ring()
    rng = np.random.default_rng(0)
    options = {"n_resamples": 199, "check_score": False}
    assert_level(
        [quiet_moment_test(ring_draws(180, rng), target, modes, **options).pvalue for _ in range(60)]
    )
