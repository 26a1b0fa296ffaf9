"""The record of a target: its arguments, its names, pickling."""

import dataclasses
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density, standard_normal

import steincheck as sc
from steincheck.target import score_at


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


def _log_density(x):
    return -np.sum(x**2, axis=1)


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
