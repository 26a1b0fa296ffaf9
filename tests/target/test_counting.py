"""Evaluations of a density: counted, limited, and defined everywhere."""

import time

import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density, standard_normal

import steincheck as sc
from steincheck.target.counting import Budget, CountedTarget

X = np.random.default_rng(0).normal(size=(5, 3))


def test_a_compiled_target_counts_once_for_log_density_and_score():
    density = CountedTarget(sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), 3))
    value, score = density.log_density_and_score(X)
    np.testing.assert_allclose(value, -0.5 * np.sum(X**2, axis=1))
    np.testing.assert_allclose(score, -X)
    assert density.budget.made == 5
    density.score(X)
    density.log_density(X)
    assert density.budget.made == 15
    assert 0 < density.budget.seconds_per_evaluation < 1


def test_a_score_of_its_own_counts_too_and_is_made_above_the_floor_only():
    density = CountedTarget(standard_normal(3))
    floor = np.median(normal_log_density(X))
    _, score = density.log_density_and_score(X, floor=floor)
    assert density.budget.made == 5 + 3
    assert (score != 0).any(axis=1).sum() == 3


def test_finite_differences_count_every_point():
    calls = []

    def log_density(x):
        calls.append(len(x))
        return normal_log_density(x)

    density = CountedTarget(sc.Target(log_density, dim=3))
    np.testing.assert_allclose(density.score(X), -X, atol=1e-6)
    assert density.budget.made == sum(calls) == 5 * (2 * 3 + 1)


def test_limits_are_never_exceeded_and_what_is_beyond_has_density_0():
    density = CountedTarget(standard_normal(3), Budget(max_evaluations=7))
    assert np.isfinite(density.log_density(X)).all()
    assert density.budget.left == 2
    assert density.budget.exhausted is None
    np.testing.assert_array_equal(np.isfinite(density.log_density(X)), [True, True, False, False, False])
    assert (density.budget.made, density.budget.left) == (7, 0)
    assert density.budget.exhausted == "max_evaluations"
    assert density.failures == 0


def test_a_slow_batch_is_cut_short_by_the_clock():
    def log_density(x):
        time.sleep(0.01 * len(x))
        return normal_log_density(x)

    density = CountedTarget(sc.Target(log_density, dim=3), Budget(max_seconds=0.5))
    begin = time.perf_counter()
    value = density.log_density(np.zeros((1000, 3)))
    assert time.perf_counter() - begin < 2
    assert 0 < np.isfinite(value).sum() < 200
    assert density.budget.exhausted == "max_seconds"
    assert density.budget.seconds_per_evaluation == pytest.approx(0.01, rel=0.5)


def test_nan_infinity_and_exceptions_are_no_points():
    def log_density(x):
        if (x[:, 0] > 3).any():
            raise RuntimeError("too far")
        return np.where(x[:, 0] > 2, np.nan, np.where(x[:, 0] > 1, np.inf, -(x[:, 0] ** 2)))

    density = CountedTarget(sc.Target(log_density, lambda x: -2 * x, dim=1))
    value, score = density.log_density_and_score(np.array([[0.0], [1.5], [2.5], [3.5], [np.inf]]))
    assert value.tolist() == [0.0] + [-np.inf] * 4
    assert (score == 0).all()
    assert density.failures == 3
    assert str(density.raised) == "too far"


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"must return shape \(3,\) for 3 points, got \(3, 2\)"):
        CountedTarget(sc.Target(lambda x: -0.5 * x**2, dim=2)).log_density(np.zeros((3, 2)))
