"""Log density and score at rows of points: shapes, errors, finite differences, counts and limits."""

import functools
import time

import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density, quiet_check, standard_normal

import steincheck as sc
from steincheck.target import log_density_at, score_at
from steincheck.target.evaluation import Budget, CountedTarget, differences


@pytest.mark.parametrize(("place", "width"), [(0.0, 1.0), (1e6, 1.0), (0.0, 1e-6), (-1e3, 1e-4), (0.0, 1e6)])
def test_differences_find_the_width_of_the_density(place, width):
    x = place + width * np.array([[-3.0], [-0.5], [0.1], [2.0]])
    slope = differences(lambda x: -0.5 * ((x[:, 0] - place) / width) ** 2, x).central
    rounding = 1e-15 * max(abs(place), width) / width  # of x itself
    np.testing.assert_allclose(slope * width, -(x - place) / width, atol=1e-6 + 3e2 * rounding)


def test_differences_of_a_float32_density_are_not_lost_in_its_rounding():
    x = np.random.default_rng(0).normal(size=(50, 2))
    slope = differences(lambda x: (normal_log_density(x) - 100).astype(np.float32), x).central
    np.testing.assert_allclose(slope, -x, atol=0.02)


def test_wrong_shapes_and_non_finite_values_name_the_rows():
    x = np.arange(6.0).reshape(3, 2)
    with pytest.raises(ValueError, match=r"`log_density` must return shape \(3,\) for 3 points, got \(\)"):
        log_density_at(sc.Target(lambda x: np.sum(x), dim=2), x)
    with pytest.raises(ValueError, match=r"`score` must return shape \(3, 2\) for 3 points, got \(3,\)"):
        score_at(sc.Target(lambda x: x[:, 0], lambda x: x[:, 0], dim=2), x)
    with pytest.raises(
        ValueError,
        match=r"1 of 3 rows are not, rows \[1\] \(counted from 0\); at row 1, x = \[2. 3.\], it is -inf",
    ):
        log_density_at(sc.Target(lambda x: np.where(x[:, 0] == 2, -np.inf, 0), dim=2), x)
    with pytest.raises(ValueError, match=r"`score` must be finite.*rows \[0, 2\]"):
        score_at(sc.Target(lambda x: x[:, 0], lambda x: np.where(x[:, :1] == 2, x, np.nan), dim=2), x)
    with pytest.raises(TypeError, match="`score` must be a function that returns an array of real numbers"):
        score_at(sc.Target(lambda x: x[:, 0], lambda x: "no", dim=2), x)


def test_at_a_proposal_minus_infinity_is_a_value_and_nan_is_not():
    x = np.array([[0.0], [1.0]])
    outside = sc.Target(lambda x: np.where(x[:, 0] > 0.5, -np.inf, 0.0), dim=1)
    assert log_density_at(outside, x, proposal=True).tolist() == [0.0, -np.inf]
    for bad in (np.nan, np.inf):
        broken = sc.Target(lambda x, bad=bad: np.where(x[:, 0] > 0.5, bad, 0.0), dim=1)
        with pytest.raises(ValueError, match=r"rows \[1\]"):
            log_density_at(broken, x, proposal=True)


def test_functions_cannot_write_to_the_draws():
    def spoil(x):
        x[:] = 0
        return x[:, 0]

    target = sc.Target(spoil, lambda x: spoil(x)[:, None], dim=1)
    x = np.ones((2, 1))
    for evaluate in (log_density_at, score_at):
        with pytest.raises(ValueError, match="read-only"):
            evaluate(target, x)
    assert x.flags.writeable


def test_a_log_density_whose_digits_are_lost_is_refused():
    deep = sc.from_jax(lambda x: -1e300 - 0.5 * jnp.sum(x**2), 2)
    with pytest.raises(ValueError, match=r"`log_density` must be smaller: near -1e\+300"):
        quiet_check(np.random.default_rng(0).normal(size=(100, 2)), deep)


MIXING = {
    "draws less their mean": lambda x: normal_log_density(x - x.mean(axis=0)),
    "cumulative sums": lambda x: np.cumsum(normal_log_density(x)),
    "less the largest": lambda x: normal_log_density(x) - normal_log_density(x).max(),
    "less the smallest": lambda x: normal_log_density(x) - normal_log_density(x).min(),
    "weights that sum to 1": lambda x: normal_log_density(x) - np.logaddexp.reduce(normal_log_density(x)),
}


@pytest.mark.parametrize("score", [None, np.negative], ids=["no score", "score"])
@pytest.mark.parametrize("log_density", MIXING.values(), ids=MIXING)
def test_a_log_density_that_mixes_the_points_is_refused(log_density, score):
    mixing = sc.Target(log_density, score, dim=2)
    draws = np.random.default_rng(0).normal(size=(300, 2))
    for test in (quiet_check, functools.partial(sc.ksd_test, rng=0), functools.partial(sc.flux_test, rng=0)):
        with pytest.raises(ValueError, match="`log_density` must give every point a value of its own"):
            test(draws, mixing)


def test_a_function_of_one_point_is_told_how_it_is_given():
    with pytest.raises(ValueError, match=r"must return shape \(5,\).* given vectorized=False"):
        log_density_at(sc.Target(lambda x: -0.5 * np.sum(x**2), dim=2), np.ones((5, 2)))


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
    assert str(density.raised) == "too far"


@pytest.mark.parametrize("limit", [25, 60, 200, 300])
def test_a_function_that_breaks_is_named_and_called_no_more(limit):
    calls = []

    def log_density(x):
        calls.append(len(x))
        if len(calls) > limit:
            raise RuntimeError("boom")
        return normal_log_density(x)

    with pytest.raises(ValueError, match=r"`log_density` must not fail where it worked before.*: boom in a"):
        sc.check(np.random.default_rng(0).normal(size=(300, 2)), sc.Target(log_density, dim=2))
    assert len(calls) == limit + 2


def test_differences_stop_where_a_shorter_step_bends_no_less():
    seen = []

    def jump(x):  # bends by 5 nats over any step
        seen.append(x[:, 0])
        return np.where(x[:, 0] > 0, 5.0, 0.0)

    slope = differences(jump, np.zeros((1, 1))).central
    assert len(seen) == 1 + 2 * 2
    assert slope[0, 0] == pytest.approx(5 / (seen[-2][0] - seen[-1][0]))
