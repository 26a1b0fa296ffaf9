"""The record of a target: arguments, names, pickling, scales; functions traced by JAX in float64."""

import dataclasses
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density, standard_normal

import steincheck as sc
from steincheck.target import score_at


def test_a_target_without_a_score_pickles_and_says_that_it_has_none():
    target = pickle.loads(pickle.dumps(sc.Target(normal_log_density, dim=2)))
    assert target.score is None
    assert not target.has_score
    np.testing.assert_allclose(score_at(target, np.ones((1, 2))), [[-1, -1]], atol=1e-8)


@pytest.mark.parametrize(
    "target",
    [sc.models.gaussian_mixture([[0.0, 1.0], [3.0, 4.0]]), sc.from_jax(jnp.sum, 2, names=["a", "b"])],
    ids=["mixture", "from_jax"],
)
def test_targets_pickle_in_full_precision(target):
    again = pickle.loads(pickle.dumps(target))
    x = np.random.default_rng(0).normal(size=(5, target.dim))
    assert np.array_equal(again.log_density(x), target.log_density(x))
    assert np.array_equal(again.score(x), target.score(x))
    assert again.names == target.names


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


def _one_point(x):
    return -0.5 * float(x @ x)


def test_functions_of_one_point_give_the_same_answer():
    functions = (_one_point, np.negative)
    one = sc.Target(*functions, dim=2, vectorized=False, hessian=lambda x: -np.eye(2))
    draws = np.random.default_rng(0).normal(size=(100, 2))
    assert sc.ksd_test(draws, one, rng=0).pvalue == sc.ksd_test(draws, standard_normal(2), rng=0).pvalue
    assert one.hessian(draws).shape == (100, 2, 2)
    plain = sc.Target(*functions, dim=2, vectorized=False)
    for again in (pickle.loads(pickle.dumps(plain)), dataclasses.replace(plain, names=["a", "b"])):
        np.testing.assert_array_equal(again.log_density(draws), one.log_density(draws))


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


def _of_data(y, x):
    return -0.5 * jnp.sum((y - x[0]) ** 2) - x[1] ** 2


def _scanned(y, x):
    def add(total, value):
        return total - 0.5 * (value - x[0]) ** 2 - x[1] ** 2 / 20, None

    return jax.lax.scan(add, jnp.zeros((), x.dtype), y)[0]


KINDS = {
    "partial": lambda y: functools.partial(_of_data, y),
    "scan": lambda y: functools.partial(_scanned, y),
    "jitted": lambda y: jax.jit(lambda x: _of_data(y, x)),
}


def _use_in_single_precision(function):
    zero = jnp.zeros(2)
    assert zero.dtype == jnp.float32
    return jax.jit(function)(zero), jax.jit(jax.grad(function))(zero)


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_data_are_used_in_float64_and_later_in_float32(kind):
    """JAX keeps one copy of a NumPy array that a function holds, for all precisions."""
    y = np.random.default_rng(3).normal(size=20)
    function = KINDS[kind](y)
    target = sc.from_jax(function, dim=2)
    x = np.array([[0.3, -1.2], [1.0, 2.0]])
    expected = -0.5 * np.sum((y - x[:, :1]) ** 2, axis=1) - x[:, 1] ** 2
    np.testing.assert_allclose(target.log_density(x), expected, rtol=1e-14)
    np.testing.assert_allclose(target.score(x)[:, 0], np.sum(y - x[:, :1], axis=1), rtol=1e-13)
    value, gradient = _use_in_single_precision(function)
    assert value == pytest.approx(-0.5 * np.sum(y**2), rel=1e-5)
    assert gradient[0] == pytest.approx(np.sum(y), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_data_that_jax_holds_in_float32_are_an_error_with_a_cure(kind):
    y = np.random.default_rng(3).normal(size=20)
    function = KINDS[kind](y)
    kept = jax.jit(function)
    kept(jnp.zeros(2))
    with pytest.raises(ValueError, match=r"float32 copies.*jax.numpy.asarray\(data\).*jax_enable_x64"):
        sc.from_jax(function, dim=2)
    cured = KINDS[kind](jnp.asarray(y))
    _use_in_single_precision(cured)
    target = sc.from_jax(cured, dim=2)
    assert target.log_density(np.zeros((1, 2)))[0] == pytest.approx(-0.5 * np.sum(y**2), rel=1e-6)


EXAMPLE = {"mu": 0.0, "layer": {"w": np.zeros(2, dtype=np.float32)}}


def tree_log_density(position):
    scale = np.array([1.0, 2.0])
    return -0.5 * position["mu"] ** 2 - 0.5 * jnp.sum((position["layer"]["w"] / scale) ** 2)


def test_a_function_of_a_pytree_is_a_target_with_names():
    target = sc.from_jax(tree_log_density, example=EXAMPLE)
    assert target.names == ("layer.w[0]", "layer.w[1]", "mu")
    x = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(target.score(x), [[-1, -0.5, -3]])
    again = pickle.loads(pickle.dumps(target))
    np.testing.assert_array_equal(again.score(x), target.score(x))
    assert sc.from_jax(tree_log_density, example=EXAMPLE, names=["a", "b", "c"]).names == ("a", "b", "c")


def test_from_jax_warns_of_lost_precision():
    with pytest.warns(UserWarning, match="returns float32"):
        sc.from_jax(lambda x: jnp.sum(x.astype(jnp.float32)), dim=2)


def test_the_jax_function_is_a_field_and_an_argument_of_compiled_code():
    mixture = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 1.0]])
    given = sc.Target(lambda x: -np.sum(x**2, axis=1), dim=2, jax_log_density=lambda x: -jnp.sum(x**2))
    x = np.array([[0.5, -1.0], [2.0, 0.0]])
    evaluate = jax.jit(lambda log_density, x: jax.vmap(log_density)(x))
    for target in (mixture, given):
        with jax.enable_x64(True):
            np.testing.assert_allclose(evaluate(target.jax_log_density, x), target.log_density(x), rtol=1e-13)
    assert sc.Target(funnel, dim=2).jax_log_density is None
