"""The record of a target: its arguments, its names, pickling, the scales of its coordinates."""

import dataclasses
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density, standard_normal
from scipy import special

import steincheck as sc
from steincheck.target import parameter_scales, score_at, to_constrained


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


def test_a_target_is_printed_in_one_line():
    assert repr(standard_normal(2, names=["a", "b"])) == "<Target: dim=2, names: a, b, with score>"


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
    with pytest.raises(TypeError, match="`vectorized` must be True or False, got 1"):
        sc.Target(_one_point, dim=2, vectorized=1)


def constrained(u):
    return np.column_stack([special.expit(u[:, 2]), u[:, 0], np.exp(u[:, 1]), u[:, 0] + u[:, 3]])


def test_scales_are_found_from_the_map_whatever_the_names():
    target = sc.Target(
        lambda u: -np.sum(u**2, axis=1),
        dim=4,
        constrained_names=["p", "mu", "tau", "mixed"],
        constrain=constrained,
    )
    scales = parameter_scales(target)
    assert {name: (item.parameter, item.column, item.scale) for name, item in scales.items()} == {
        "x[0]": ("mu", 1, ""),
        "x[1]": ("tau", 2, "log"),
        "x[2]": ("p", 0, "logit"),
    }
    u = np.linspace(-2, 2, 5)
    step = 1e-6
    for item in scales.values():
        slope = (item.values(u + step) - item.values(u - step)) / (2 * step)
        np.testing.assert_allclose(np.exp(item.log_slope(u)), slope, rtol=1e-8)
    values, names = to_constrained(np.zeros((1, 4)), target)
    assert names == ("p", "mu", "tau", "mixed")
    np.testing.assert_array_equal(values, [[0.5, 0, 1, 0]])


def test_without_a_map_coordinates_are_parameters():
    target = sc.Target(lambda u: -np.sum(u**2, axis=1), dim=1, names=["mu"])
    assert parameter_scales(target)["mu"].scale == ""
    assert to_constrained([1.0], target)[1] == ("mu",)
