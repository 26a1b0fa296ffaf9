"""Climbs in lock-step."""

import numpy as np
import pytest
from harness import standard_normal

import steincheck as sc
from steincheck.modes.climb import KnownPeaks, climb, join, recognise, starts_at
from steincheck.target.counting import Budget, CountedTarget

NONE = KnownPeaks(np.empty((0, 4)), np.empty(0), np.empty((0, 4, 4)))


def quadratic(d, *, compiled=True):
    a = np.random.default_rng(d).normal(size=(d, d))
    precision = a @ a.T / d + np.eye(d)
    target = sc.from_jax(lambda x: -0.5 * (x - 1) @ precision @ (x - 1), d)
    plain = sc.Target(target.log_density, target.score, dim=d)
    return CountedTarget(target if compiled else plain), precision


@pytest.mark.parametrize("compiled", [True, False])
def test_climbs_end_at_the_top(compiled):
    density, _ = quadratic(30, compiled=compiled)
    x = 5 * np.random.default_rng(0).normal(size=(40, 30))
    ends = climb(density, starts_at(x, np.eye(30)), iterations=200, known=NONE)
    assert ends.rest.all()
    np.testing.assert_allclose(ends.x, 1, atol=0.02)


def test_climbs_stop_at_a_known_mode():
    density, precision = quadratic(4)
    known = KnownPeaks(np.ones((1, 4)), np.zeros(1), np.linalg.cholesky(precision)[None])
    x = 1 + 0.1 * np.random.default_rng(0).normal(size=(20, 4))
    height = density.log_density(x)
    assert (recognise(x, height, known) == 0).all()
    assert (recognise(x + 50, density.log_density(x + 50), known) == -1).all()
    assert (recognise(x, height + 1, known) == -1).all()
    ends = climb(density, starts_at(x - 3, np.eye(4)), known=known)
    assert (ends.mode == 0).all()


def test_starts_keep_their_metrics_when_joined():
    parts = [starts_at(np.zeros((2, 1)), np.eye(1)), starts_at(np.ones((1, 1)), 9 * np.eye(1), 2.0)]
    both = join(parts).rows(np.array([2, 0]))
    assert both.shapes[both.shape].ravel().tolist() == [9.0, 1.0]
    assert both.stride.tolist() == [2.0, 0.3]


def test_a_climb_ends_with_the_budget():
    density = CountedTarget(standard_normal(2), Budget(10))
    ends = climb(density, starts_at(np.full((4, 2), 100.0), np.eye(2)), known=NONE)
    assert density.budget.made == 10
    assert not ends.rest.any()
