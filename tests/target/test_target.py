import dataclasses
import functools
import pickle
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density, quiet_check, standard_normal

import steincheck as sc
from steincheck.target import (
    central_differences,
    log_density_anywhere,
    log_density_at,
    raw_value_and_score,
    score_anywhere,
    score_at,
)


def funnel(x):
    return -0.5 * x[0] ** 2 / 9 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (x.shape[0] - 1) * x[0]


def test_from_jax_gives_float64_derivatives_and_leaves_the_flag_alone():
    target = sc.from_jax(funnel, dim=3)
    x = np.random.default_rng(0).normal(size=(300, 3))
    value, score, hessian = target.log_density(x), target.score(x), target.hessian(x[:4])
    assert value.dtype == score.dtype == np.float64
    assert (value.shape, score.shape, hessian.shape) == ((300,), (300, 3), (4, 3, 3))
    v, r = x[:, 0], np.sum(x[:, 1:] ** 2, axis=1)
    np.testing.assert_allclose(value, -(v**2) / 18 - 0.5 * r * np.exp(-v) - v, rtol=1e-13)
    np.testing.assert_allclose(score[:, 0], -v / 9 + 0.5 * r * np.exp(-v) - 1, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(score[:, 1:], -x[:, 1:] * np.exp(-v)[:, None], rtol=1e-13)
    np.testing.assert_allclose(hessian[:, 1, 1], -np.exp(-v[:4]), rtol=1e-13)
    assert jnp.zeros(1).dtype == jnp.float32


def test_from_jax_compiles_once_for_all_n():
    traces = []

    def log_density(x):
        traces.append(1)
        return -jnp.sum(x**2)

    target = sc.from_jax(log_density, dim=2)
    for n in (1, 2, 256, 257, 5000):
        target.log_density(np.zeros((n, 2)))
    seen = len(traces)
    for n in (3, 100, 1000, 1001, 9000):
        assert target.log_density(np.ones((n, 2))).tolist() == [-2.0] * n
    assert len(traces) == seen


def test_empty_batch():
    target = sc.from_jax(funnel, dim=3)
    assert target.log_density(np.empty((0, 3))).shape == (0,)
    assert target.score(np.empty((0, 3))).shape == (0, 3)


def test_from_jax_refuses_what_is_not_a_scalar_function():
    with pytest.raises(ValueError, match="must map one point of shape"):
        sc.from_jax(lambda x: -(x**2), dim=2)
    with pytest.raises(TypeError, match="`log_density` must be a function"):
        sc.from_jax(3.0, dim=2)
    with pytest.raises(ValueError, match="`dim` must be a positive integer, got 0"):
        sc.from_jax(funnel, dim=0)


def test_from_jax_warns_of_lost_precision():
    with pytest.warns(UserWarning, match="returns float32"):
        sc.from_jax(lambda x: jnp.sum(x.astype(jnp.float32)), dim=2)


def test_without_a_score_finite_differences_are_used():
    target = sc.Target(lambda x: np.sum(np.cos(x), axis=1), dim=4)
    x = np.random.default_rng(1).normal(size=(20, 4)) * 5
    assert target.score is None
    np.testing.assert_allclose(score_at(target, x), -np.sin(x), atol=1e-8)


@pytest.mark.parametrize(("place", "width"), [(0.0, 1.0), (1e6, 1.0), (0.0, 1e-6), (-1e3, 1e-4), (0.0, 1e6)])
def test_differences_find_the_width_of_the_density(place, width):
    x = place + width * np.array([[-3.0], [-0.5], [0.1], [2.0]])
    slope = central_differences(lambda x: -0.5 * ((x[:, 0] - place) / width) ** 2, x)
    rounding = 1e-15 * max(abs(place), width) / width  # of x itself
    np.testing.assert_allclose(slope * width, -(x - place) / width, atol=1e-6 + 3e2 * rounding)


def test_differences_belong_to_the_last_step_where_no_step_is_short_enough():
    seen = []

    def jump(x):  # bends by 5 nats over any step
        seen.append(x[:, 0])
        return np.where(x[:, 0] > 0, 5.0, 0.0)

    slope = central_differences(jump, np.zeros((1, 1)))
    assert len(seen) == 1 + 2 * (1 + 8)
    assert slope[0, 0] == pytest.approx(5 / (seen[-2][0] - seen[-1][0]))


def test_differences_of_a_float32_density_are_not_lost_in_its_rounding():
    x = np.random.default_rng(0).normal(size=(50, 2))
    slope = central_differences(lambda x: (normal_log_density(x) - 100).astype(np.float32), x)
    np.testing.assert_allclose(slope, -x, atol=0.02)


@pytest.mark.parametrize("kind", ["outlier", "narrow and far apart", "float32"])
def test_a_correct_score_is_not_accused(kind):
    rng = np.random.default_rng(0)
    if kind == "outlier":
        target = sc.from_jax(lambda x: -2 * jnp.sum(jnp.log1p(x**2 / 3)), dim=1)
        x = rng.standard_t(3, size=(1000, 1))
        x[0] = 1e5
    elif kind == "narrow and far apart":
        target = sc.from_jax(
            lambda x: jnp.logaddexp(*(-2.5 * jnp.log1p(((x[0] - m) / 0.05) ** 2 / 4) for m in (-1e3, 1e3))),
            dim=1,
        )
        x = 1000 * np.sign(rng.normal(size=(500, 1))) + 0.05 * rng.standard_t(4, size=(500, 1))
    else:
        target = sc.Target(lambda x: (normal_log_density(x) - 10).astype(np.float32), lambda x: -x, dim=2)
        x = rng.normal(size=(500, 2))
    assert sc.check_score(target, x, n_points=20).max() < 0.1
    wrong = sc.Target(target.log_density, lambda x: 1.5 * target.score(x), dim=target.dim)
    with pytest.raises(ValueError, match="`score` disagrees"):
        sc.check_score(wrong, x, n_points=20)


def test_central_differences_with_steps_of_their_own():
    x = np.array([[1e-6, 1e6]])
    slope = central_differences(
        lambda x: 1e12 * x[:, 0] ** 2 - 1e-12 * x[:, 1] ** 2, x, np.array([1e-9, 1e3])
    )
    np.testing.assert_allclose(slope, [[2e6, -2e-6]], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"log_density": None, "dim": 1}, TypeError, "`log_density` must be a function, got NoneType"),
        ({"log_density": sum, "score": 1, "dim": 1}, TypeError, "`score` must be a function, got int"),
        ({"log_density": sum, "dim": 1.5}, ValueError, "`dim` must be a positive integer, got 1.5"),
        ({"log_density": sum, "dim": True}, ValueError, "`dim` must be a positive integer, got True"),
        (
            {"log_density": sum, "dim": 2, "names": ["a"]},
            ValueError,
            "`names` must have one name per coordinate",
        ),
    ],
)
def test_bad_targets(arguments, error, message):
    with pytest.raises(error, match=message):
        sc.Target(**arguments)


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


class TestCheckScore:
    scale = np.array([1e-3, 1.0, 1e3])

    def draws(self):
        return np.random.default_rng(2).normal(size=(100, 3)) * self.scale

    def target(self, score):
        return sc.Target(
            lambda x: -0.5 * np.sum((x / self.scale) ** 2, axis=1), score, dim=3, names=["a", "b", "c"]
        )

    def test_a_right_score_passes_on_all_scales(self):
        gap = sc.check_score(self.target(lambda x: -x / self.scale**2), self.draws())
        assert gap.shape == (3,)
        assert gap.max() < 1e-5

    def test_a_reversed_sign_is_named(self):
        with pytest.raises(ValueError, match="the sign is reversed"):
            sc.check_score(self.target(lambda x: x / self.scale**2), self.draws())

    def test_a_wrong_coordinate_is_named(self):
        wrong = np.array([1.0, 1.02, 1.0])
        with pytest.raises(ValueError, match=r"coordinate 1 \(b\)") as error:
            sc.check_score(self.target(lambda x: -wrong * x / self.scale**2), self.draws())
        assert "coordinate 0" not in str(error.value)
        assert "coordinate 2" not in str(error.value)

    def test_a_forgotten_jacobian_is_found(self):
        # log density of log(y) for y ~ Exp(1) is x - exp(x); the score without the Jacobian lacks the 1
        target = sc.Target(lambda x: x[:, 0] - np.exp(x[:, 0]), lambda x: -np.exp(x), dim=1)
        with pytest.raises(ValueError, match="coordinate 0"):
            sc.check_score(target, np.random.default_rng(3).normal(size=(50, 1)))

    def test_a_large_constant_does_not_alarm(self):
        target = sc.Target(lambda x: 1e6 - 0.5 * x[:, 0] ** 2, lambda x: -x, dim=1)
        sc.check_score(target, np.random.default_rng(4).normal(size=(50, 1)))


def test_jax_functions_survive_both_global_settings():
    target = sc.from_jax(funnel, dim=2)
    x = np.ones((5, 2))
    one = target.score(x)
    with jax.enable_x64(True):
        two = target.score(x)
    np.testing.assert_array_equal(one, two)


DATA = np.random.default_rng(3).normal(size=20)


@jax.jit
def _compiled_by_the_user(x):
    return -0.5 * jnp.sum((DATA - x[0]) ** 2) - x[1] ** 2


def _of_data(y, x):
    return -0.5 * jnp.sum((y - x[0]) ** 2) - x[1] ** 2


class _Model:
    def __init__(self, y):
        self.y = y

    def log_density(self, x):
        return _of_data(self.y, x)

    __call__ = log_density


KINDS = ["array", "vmap", "scan", "jit", "jitted", "global", "partial", "default", "method", "callable"]
KINDS += ["jitted method", "dictionary"]


def _closing(kind):
    """Log densities that close over NumPy float64 data in the ways users write them; new arrays each time."""
    y = DATA.copy()

    def point(value, x):
        return -0.5 * (value - x[0]) ** 2 - x[1] ** 2 / 20

    def scanned(x):
        return jax.lax.scan(lambda total, value: (total + point(value, x), None), jnp.zeros((), x.dtype), y)[
            0
        ]

    functions = {
        "array": lambda x: -0.5 * jnp.sum((y - x[0]) ** 2) - x[1] ** 2,
        "vmap": lambda x: jnp.sum(jax.vmap(lambda value: point(value, x))(y)),
        "scan": scanned,
        "jit": lambda x: _compiled_by_the_user(x),
        "jitted": jax.jit(lambda x: -0.5 * jnp.sum((y - x[0]) ** 2) - x[1] ** 2),
        "global": lambda x: -0.5 * jnp.sum((DATA - x[0]) ** 2) - x[1] ** 2,
        "partial": functools.partial(_of_data, y),
        "default": lambda x, y=y: _of_data(y, x),
        "method": _Model(y).log_density,
        "callable": _Model(y),
        "jitted method": jax.jit(_Model(y).log_density),
        "dictionary": functools.partial(lambda data, x: _of_data(data["y"][0], x), {"y": (y,)}),
    }
    return functions[kind]


def _use_in_single_precision(function):
    zero = jnp.zeros(2)
    assert zero.dtype == jnp.float32
    value = jax.jit(function)(zero)
    function(zero)
    jax.jit(jax.vmap(function))(jnp.zeros((3, 2)))
    return value, jax.jit(jax.grad(function))(zero)


@pytest.mark.parametrize("first", ["the user", "steincheck"])
@pytest.mark.parametrize("kind", KINDS)
def test_data_of_a_jax_function_serve_both_precisions(kind, first):
    """JAX keeps one copy of a closed-over NumPy array for all precisions: neither use may spoil the other."""
    function = _closing(kind)
    unrelated = jax.jit(lambda x: x + 1)
    unrelated(1.0)
    x = np.array([[0.3, -1.2], [1.0, 2.0]])
    if first == "the user":
        _use_in_single_precision(function)
    target = sc.from_jax(function, dim=2)
    assert unrelated._cache_size() == 1
    expected = -0.5 * np.sum((DATA - x[:, :1]) ** 2, axis=1) - x[:, 1] ** 2
    np.testing.assert_allclose(target.log_density(x), expected, rtol=1e-14)
    np.testing.assert_allclose(target.score(x)[:, 0], np.sum(DATA - x[:, :1], axis=1), rtol=1e-13)
    assert target.hessian(x).shape == (2, 2, 2)
    value, gradient = _use_in_single_precision(function)
    assert value == pytest.approx(-0.5 * np.sum(DATA**2), rel=1e-5)
    assert gradient[0] == pytest.approx(np.sum(DATA), rel=1e-4)


def test_data_in_single_precision_leave_compiled_programs_alone():
    y = DATA.astype(np.float32)
    unrelated = jax.jit(lambda x: x + 1)
    unrelated(1.0)
    target = sc.from_jax(lambda x: _of_data(y, x), dim=2)
    assert unrelated._cache_size() == 1
    assert target.log_density(np.zeros((1, 2)))[0] == pytest.approx(
        -0.5 * np.sum(y.astype(float) ** 2), 1e-12
    )


def test_a_mistake_in_the_function_leaves_compiled_programs_and_data_alone():
    y = DATA.copy()
    unrelated = jax.jit(lambda x: x + 1)
    unrelated(1.0)

    def mistaken(x):
        return y @ x

    with pytest.raises(ValueError, match="fails for a point of shape"):
        sc.from_jax(mistaken, dim=2)
    assert unrelated._cache_size() == 1
    assert mistaken.__closure__[0].cell_contents is y


def test_data_that_cannot_be_reached_serve_both_precisions_with_a_warning():
    module = types.ModuleType("data")
    module.y = DATA.copy()

    def function(x):
        return _of_data(module.y, x)

    _use_in_single_precision(function)
    with pytest.warns(UserWarning, match="all compiled programs of JAX were dropped"):
        target = sc.from_jax(function, dim=2)
    assert target.log_density(np.zeros((1, 2)))[0] == pytest.approx(-0.5 * np.sum(DATA**2), rel=1e-14)
    value, _ = _use_in_single_precision(function)
    assert value == pytest.approx(-0.5 * np.sum(DATA**2), rel=1e-5)


def test_the_jax_function_is_a_field_and_an_argument_of_compiled_code():
    mixture = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 1.0]])
    own = sc.from_jax(funnel, dim=2)
    given = sc.Target(lambda x: -np.sum(x**2, axis=1), dim=2, jax_log_density=lambda x: -jnp.sum(x**2))
    x = np.array([[0.5, -1.0], [2.0, 0.0]])
    evaluate = jax.jit(lambda log_density, x: jax.vmap(log_density)(x))
    for target in (mixture, own, given):
        with jax.enable_x64(True):
            np.testing.assert_allclose(evaluate(target.jax_log_density, x), target.log_density(x), rtol=1e-13)
        value, score = raw_value_and_score(target, x)
        np.testing.assert_allclose(value, target.log_density(x), rtol=1e-13)
        np.testing.assert_allclose(score, score_at(target, x), rtol=1e-8)
    assert sc.Target(funnel, dim=2).jax_log_density is None


def test_a_target_without_a_score_pickles_and_says_that_it_has_none():
    target = pickle.loads(pickle.dumps(sc.Target(normal_log_density, dim=2)))
    assert target.score is None
    assert not target.has_score
    np.testing.assert_allclose(score_at(target, np.ones((1, 2))), [[-1, -1]], atol=1e-8)


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


class TestSupport:
    def target(self):
        return standard_normal(1)

    def test_an_impossible_draw_is_named(self):
        x = np.append(np.random.default_rng(5).normal(size=300), 1e6)[:, None]
        with pytest.warns(UserWarning, match=r"1 of 301 draws have negligible probability.*rows \[300\]"):
            sc.ksd_test(x, self.target(), rng=0)

    def test_a_hard_edge_is_named(self):
        half = sc.Target(lambda x: np.where(x[:, 0] > 0, -0.5 * x[:, 0] ** 2, -np.inf), lambda x: -x, dim=1)
        x = np.abs(np.random.default_rng(6).normal(size=(300, 1)))
        with pytest.warns(UserWarning, match="the density ends abruptly near"):
            result = sc.ksd_test(x, half, rng=0)
        assert "transform the parameters" in result.warnings[0]

    def test_few_draws_are_named(self):
        x = np.random.default_rng(7).normal(size=(10, 1))
        with pytest.warns(UserWarning, match="only 8 draws are tested: below 40"):
            sc.fssd_test(x, self.target(), rng=0)

    def test_heavy_tails_are_not(self):
        cauchy = sc.Target(lambda x: -np.log1p(x[:, 0] ** 2), lambda x: -2 * x / (1 + x**2), dim=1)
        assert sc.ksd_test(np.random.default_rng(8).standard_cauchy((500, 1)), cauchy, rng=0).warnings == ()


@pytest.mark.parametrize(
    ("names", "message"), [(["a", "a"], "must differ"), ("ab", "non-empty strings"), ([1, 2], "non-empty")]
)
def test_bad_names(names, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sc.Target(lambda x: -np.sum(x**2, axis=1), dim=2, names=names)


def test_check_score_refuses_the_wrong_dimension(normal_target):
    with pytest.raises(ValueError, match=r"`x` must be finite with shape \(n, 2\)"):
        sc.check_score(normal_target, np.zeros((3, 5)))


def test_a_hessian_is_compared_with_the_score():
    def gaussian(hessian):
        return standard_normal(2, hessian=hessian)

    points = np.random.default_rng(0).normal(size=(20, 2))
    sc.check_score(gaussian(lambda x: np.tile(-np.eye(2), (len(x), 1, 1))), points)
    with pytest.raises(ValueError, match=r"`hessian` disagrees.*the sign is reversed"):
        sc.check_score(gaussian(lambda x: np.tile(np.eye(2), (len(x), 1, 1))), points)
    with pytest.raises(
        ValueError, match=r"`hessian` must return shape \(n, 2, 2\) for n points, got \(2, 2\)"
    ):
        sc.check_score(gaussian(lambda x: -np.eye(2)), points)


def test_a_target_without_names_is_shown_by_its_dimension():
    assert repr(sc.Target(normal_log_density, dim=2)) == "<Target: dim=2>"


def test_log_density_anywhere_is_minus_infinity_where_it_is_not_finite_or_raises():
    asked = []

    def log_density(x):
        asked.append(len(x))
        if np.abs(x).max() > 5:
            raise OverflowError("too far")
        return np.select([x[:, 0] < 0, x[:, 0] == 0], [np.nan, np.inf], -x[:, 0])

    x = np.array([[1.0], [-1.0], [0.0], [6.0], [2.0], [-7.0], [3.0]])
    found = log_density_anywhere(log_density, x)
    np.testing.assert_array_equal(found, [-1, -np.inf, -np.inf, -np.inf, -2, -np.inf, -3])
    assert asked[0] == 7
    assert asked == [7, 3, 4, 2, 1, 1, 2, 1, 1]  # halves, and again those that raise


def test_a_wrong_shape_is_an_error_at_impossible_points_too():
    with pytest.raises(ValueError, match=r"`log_density` must return shape \(3,\) for 3 points, got \(\)"):
        log_density_anywhere(lambda x: np.sum(x), np.zeros((3, 2)))


def test_score_anywhere_is_not_finite_where_it_raises():
    def score(x):
        if (x < 0).any():
            raise ValueError("negative")
        return -x

    target = sc.Target(normal_log_density, score, dim=2)
    x = np.array([[1.0, 2.0], [-1.0, 0.0], [3.0, 0.5]])
    np.testing.assert_array_equal(score_anywhere(target, x), np.where(x.min(axis=1)[:, None] < 0, np.nan, -x))


def test_squeezed_outputs_are_taken_where_they_are_unambiguous():
    line = sc.Target(lambda x: np.squeeze(-0.5 * x**2), lambda x: np.squeeze(-x), dim=1)
    plain = sc.Target(lambda x: -0.5 * x[:, 0] ** 2, lambda x: -x, dim=1)
    draws = np.random.default_rng(0).normal(size=(100, 1))
    assert sc.ksd_test(draws, line, rng=0).pvalue == sc.ksd_test(draws, plain, rng=0).pvalue
    assert len(sc.find_modes(line, draws=draws, rng=0)) == 1
    plane = sc.Target(lambda x: np.squeeze(normal_log_density(x)), lambda x: np.squeeze(-x), dim=2)
    assert len(sc.find_modes(plane, draws=np.random.default_rng(0).normal(size=(100, 2)), rng=0)) == 1


def test_a_right_score_beside_a_kink_is_right():
    laplace = sc.Target(lambda x: -np.abs(x[:, 0]), lambda x: -np.sign(x), dim=1)
    x = np.concatenate([[1e-7, -1e-9], np.random.default_rng(0).laplace(size=50)])[:, None]
    assert sc.check_score(laplace, x, n_points=52).max() < 1e-6
    wrong = sc.Target(lambda x: -np.abs(x[:, 0]), lambda x: -1.5 * np.sign(x), dim=1)
    with pytest.raises(ValueError, match="`score` disagrees"):
        sc.check_score(wrong, x)


def test_a_right_score_is_right_whatever_the_farthest_draw():
    """At 1 the score of Cauchy's distribution is stationary: a long step looks right to second order."""
    target = sc.Target(lambda x: -np.log1p(x[:, 0] ** 2), lambda x: -2 * x / (1 + x**2), dim=1)
    draws = np.concatenate([[1.0], np.linspace(-3, 3, 28), [4947.0]])[:, None]
    assert sc.check_score(target, draws).max() < 1e-3
    wrong = sc.Target(target.log_density, lambda x: -2.01 * x / (1 + x**2), dim=1)
    with pytest.raises(ValueError, match="`score` disagrees"):
        sc.check_score(wrong, draws)


@pytest.mark.parametrize("score", [None, np.negative], ids=["no score", "score"])
def test_a_hessian_of_the_wrong_sign_is_named(score):
    def hessian(x):
        return np.broadcast_to(np.eye(2), (len(x), 2, 2))

    wrong = sc.Target(normal_log_density, score, dim=2, hessian=hessian)
    draws = np.random.default_rng(0).normal(size=(50, 2))
    two = [[0.0, 0.0], [1.0, 1.0]]
    for use in (
        lambda: sc.ksd_test(draws, wrong, rng=0),
        lambda: quiet_check(draws, wrong, modes=[[0.0, 0.0]]),
        lambda: sc.flux_test(draws, wrong, modes=two, rng=0),
        lambda: sc.perturb(draws, wrong, two, [1.0], n_steps=2, rng=0),
    ):
        with pytest.raises(ValueError, match=r"`hessian` disagrees .* \(the sign is reversed\)"):
            use()


def test_a_right_hessian_is_not_blamed_for_rounding_or_for_modes_that_are_none():
    def bimodal(x):
        return np.log(np.cosh(3 * x[:, 0])) - 0.5 * x[:, 0] ** 2 - 4.5

    def hessian(x):
        return (9 / np.cosh(3 * x) ** 2 - 1)[:, :, None]

    draws = np.random.default_rng(0).normal(size=(50, 1))
    for constant in (0.0, 1e8):
        right = sc.Target(lambda x, c=constant: bimodal(x) + c, dim=1, hessian=hessian)
        with pytest.warns(UserWarning, match="no score"):
            result = sc.ksd_test(draws, right, rng=0)
        with pytest.warns(UserWarning, match="no score"):
            plain = sc.ksd_test(draws, sc.Target(right.log_density, dim=1), rng=0)
        assert result.pvalue == plain.pvalue
    right = sc.Target(bimodal, dim=1, hessian=hessian)
    with pytest.raises(ValueError, match="`modes` must be local maxima"):
        sc.flux_test(draws, right, modes=[[0.0], [3.0]], rng=0)


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


def test_a_log_density_in_single_precision_does_not_mix_the_points():
    rounded = sc.Target(
        lambda x: normal_log_density(x).astype(np.float32) - np.float32(3e4), np.negative, dim=2
    )
    draws = np.random.default_rng(0).normal(size=(300, 2))
    exact = standard_normal(2)
    assert sc.ksd_test(draws, rounded, rng=0).pvalue == sc.ksd_test(draws, exact, rng=0).pvalue


def one_point(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize(
    "target",
    [
        sc.models.gaussian_mixture([[0.0, 1.0], [3.0, 4.0]]),
        sc.models.t_banana_mixture(3, n_t=2, n_banana=1),
        sc.models.gb_rbm(3 * np.eye(3, 2)),
        sc.models.sensor_network(),
        sc.from_jax(one_point, 2, names=["a", "b"]),
    ],
    ids=["mixture", "t-banana", "Boltzmann machine", "sensors", "from_jax"],
)
def test_targets_pickle_in_full_precision(target):
    again = pickle.loads(pickle.dumps(target))
    x = np.random.default_rng(0).normal(size=(5, target.dim))
    assert np.array_equal(again.log_density(x), target.log_density(x))
    assert np.array_equal(again.score(x), target.score(x))
    assert again.names == target.names
    if target.sample is not None:
        assert np.array_equal(again.sample(3, 0), target.sample(3, 0))


def test_a_target_with_a_field_replaced_pickles_with_it():
    """Compiled functions cannot be pickled: the target is made again, then the field is replaced again."""
    renamed = dataclasses.replace(sc.models.gaussian_mixture([[-3.0], [3.0]]), names=["mu"])
    for _ in range(2):
        renamed = pickle.loads(pickle.dumps(renamed))
        assert renamed.names == ("mu",)
        np.testing.assert_array_equal(
            renamed.score([[1.0]]), sc.models.gaussian_mixture([[-3.0], [3.0]]).score([[1.0]])
        )
        assert renamed.sample(3, 0).shape == (3, 1)
    other = pickle.loads(pickle.dumps(dataclasses.replace(renamed, log_density=np.sum)))
    assert other.log_density is np.sum
    assert other.names == ("mu",)


def test_a_target_has_names_of_its_own():
    names = ["a", "b"]
    target = sc.Target(_log_density, dim=2, names=names, constrained_names=names)
    names.append("c")
    assert target.names == target.constrained_names == ("a", "b")
    assert sc.Target(_log_density, dim=1, names=np.array(["a"])).names == ("a",)


def _log_density(x):
    return -np.sum(x**2, axis=1)


def test_a_target_is_printed_in_one_line():
    assert repr(standard_normal(2, names=["a", "b"])) == "<Target: dim=2, names: a, b, with score>"
