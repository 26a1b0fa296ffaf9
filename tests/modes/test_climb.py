"""Climbs in lock-step, Newton steps, flat tops."""

import jax.numpy as jnp
import numpy as np
import pytest
from harness import standard_normal

import steincheck as sc
from steincheck.modes.climb import climb, flat_top, peak_at, recognise, settle, starts_at
from steincheck.target.evaluation import Budget, CountedTarget


def quadratic(d):
    a = np.random.default_rng(d).normal(size=(d, d))
    precision = a @ a.T / d + np.eye(d)
    target = sc.from_jax(lambda x: -0.5 * (x - 1) @ precision @ (x - 1), d)
    return CountedTarget(target), precision


def test_climbs_stop_at_a_known_mode():
    density, precision = quadratic(4)
    known = [peak_at(np.ones(4), 0.0, np.linalg.cholesky(np.linalg.inv(precision)))]
    x = 1 + 0.1 * np.random.default_rng(0).normal(size=(20, 4))
    height = density.log_density(x)
    assert (recognise(x, height, known) == 0).all()
    assert (recognise(x + 50, density.log_density(x + 50), known) == -1).all()
    assert (recognise(x, height + 1, known) == -1).all()
    ends = climb(density, starts_at(x - 3, np.eye(4)), known=known)
    assert (ends.mode == 0).all()


def test_a_climb_ends_with_the_budget():
    density = CountedTarget(standard_normal(2), Budget(10))
    ends = climb(density, starts_at(np.full((4, 2), 100.0), np.eye(2)), known=[])
    assert density.budget.made == 10
    assert not ends.rest.any()


@pytest.mark.parametrize("form", ["compiled", "plain", "no score"])
def test_many_ends_are_settled_at_once(form):
    density, precision = quadratic(5)
    target = density.target
    if form != "compiled":
        target = sc.Target(target.log_density, target.score if form == "plain" else None, dim=5)
    x = 1 + 0.3 * np.random.default_rng(0).normal(size=(6, 5))
    done = settle(CountedTarget(target), x, np.full((6, 5), 20.0))
    assert done.kind.tolist() == ["mode"] * 6
    tolerance = 1e-4 if form == "no score" else 1e-6
    np.testing.assert_allclose(done.x, 1, atol=tolerance)
    covariances = done.root @ done.root.transpose(0, 2, 1)
    np.testing.assert_allclose(np.linalg.inv(covariances), [precision] * 6, rtol=tolerance, atol=tolerance)


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
    ("log_density", "endless"),
    [
        (lambda x: -jnp.abs(x[0]), True),
        (lambda x: -((x[0] - x[1]) ** 4), True),
        (lambda x: x[0], False),
    ],
)
def test_places_that_are_no_tops(log_density, endless):
    found = flat_top(CountedTarget(sc.from_jax(log_density, 2)), np.zeros(2), np.ones(2), max_gain=9.0)
    assert found.peak is None
    assert found.endless is endless
