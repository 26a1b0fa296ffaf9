"""Ends of climbs made exact: Newton steps, kinds of points, flat tops."""

import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc
from steincheck.modes.settle import flat_top, settle
from steincheck.target.counting import CountedTarget


@pytest.mark.parametrize("form", ["compiled", "plain", "no score"])
def test_many_ends_are_settled_at_once(form):
    a = np.random.default_rng(5).normal(size=(5, 5))
    precision = a @ a.T / 5 + np.eye(5)
    target = sc.from_jax(lambda x: -0.5 * (x - 1) @ precision @ (x - 1), 5)
    if form != "compiled":
        target = sc.Target(target.log_density, target.score if form == "plain" else None, dim=5)
    x = 1 + 0.3 * np.random.default_rng(0).normal(size=(6, 5))
    done = settle(CountedTarget(target), x, np.full((6, 5), 20.0))
    assert done.kind.tolist() == ["mode"] * 6
    tolerance = 1e-4 if form == "no score" else 1e-6
    np.testing.assert_allclose(done.x, 1, atol=tolerance)
    np.testing.assert_allclose(done.hessian, [precision] * 6, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "log_density",
    [
        lambda x: -(x[0] ** 2) + x[1] ** 2 - x[1] ** 4,
        lambda x: -jnp.sum(x**4),
        lambda x: -jnp.sum(jnp.abs(x)),
    ],
    ids=["saddle", "quartic", "kink"],
)
def test_what_is_no_parabola_is_no_smooth_mode(log_density):
    done = settle(CountedTarget(sc.from_jax(log_density, 2)), np.zeros((1, 2)), np.ones((1, 2)))
    assert done.kind[0] == "rough"


def test_the_width_of_a_tilted_flat_top():
    """exp(-(z'z)^2) with z = L^-1 x: the level set 1/2 nat below the top is an ellipse."""
    root = np.array([[2.0, 0.0], [1.5, 0.5]])
    inverse = np.linalg.inv(root)
    target = sc.from_jax(lambda x: -(jnp.sum((inverse @ x) ** 2) ** 2), 2)
    peak = flat_top(CountedTarget(target), np.array([1e-4, -1e-4]), np.ones(2), max_gain=9.0).peak
    np.testing.assert_allclose(np.linalg.inv(peak.hessian), 0.5**0.5 * root @ root.T, rtol=0.02)


@pytest.mark.parametrize(
    ("log_density", "along"),
    [
        (lambda x: -jnp.abs(x[0]), "coordinate 1"),
        (lambda x: -((x[0] - x[1]) ** 4), "a direction"),
        (lambda x: x[0], None),
    ],
)
def test_places_that_are_no_tops(log_density, along):
    found = flat_top(CountedTarget(sc.from_jax(log_density, 2)), np.zeros(2), np.ones(2), max_gain=9.0)
    assert found.peak is None
    assert found.constant_along == along
