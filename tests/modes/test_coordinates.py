"""Densities far longer than wide are searched in coordinates in which their draws are uncorrelated."""

import jax.numpy as jnp
import numpy as np

import steincheck as sc
from steincheck.modes.coordinates import uncorrelated_coordinates


def test_a_density_a_million_times_longer_than_wide():
    """Condition 1e12 in the original coordinates, for JAX and NumPy targets alike."""
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    sd = 10.0 ** np.linspace(-3, 3, 6)
    gap = turn @ (8 * sd)
    whiten = turn / sd

    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x @ whiten) ** 2), -0.5 * jnp.sum(((x - gap) @ whiten) ** 2))

    compiled = sc.from_jax(log_density, 6, names=list("abcdef"))
    draws = (sd * rng.standard_normal((40, 6))) @ turn.T
    for target in (compiled, sc.Target(compiled.log_density, compiled.score, dim=6)):
        modes = sc.find_modes(target, draws=draws, rng=0)
        places = np.sort(modes.locations @ whiten, axis=0)
        np.testing.assert_allclose(places, [[0] * 6, [8] * 6], atol=1e-3)
        np.testing.assert_allclose(whiten.T @ modes.covariances @ whiten, [np.eye(6)] * 2, atol=1e-3)
    assert modes.search.n_evaluations > 10_000
    assert uncorrelated_coordinates(draws[:10]) is None


def test_draws_on_a_plane_or_in_general_position_have_none():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 2))
    assert uncorrelated_coordinates(z) is None
    assert uncorrelated_coordinates(np.column_stack([z[:, 0], np.full(100, 2.0)])) is None
    assert uncorrelated_coordinates(np.column_stack([z, z[:, 0] * 0.5])) is None
    nearly = np.column_stack([z, z.sum(axis=1) + 1e-4 * rng.normal(size=100)])
    place = uncorrelated_coordinates(nearly)
    np.testing.assert_allclose(np.cov(place.inward(nearly).T), np.eye(3), atol=0.02)
    np.testing.assert_allclose(place.outward(place.inward(nearly)), nearly, atol=1e-9)
