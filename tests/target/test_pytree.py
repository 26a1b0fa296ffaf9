import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc

EXAMPLE = {"mu": 0.0, "layer": {"w": np.zeros(2, dtype=np.float32)}}


def log_density(position):
    scale = np.array([1.0, 2.0])
    return -0.5 * position["mu"] ** 2 - 0.5 * jnp.sum((position["layer"]["w"] / scale) ** 2)


def test_a_function_of_a_pytree_is_a_target_with_names():
    target = sc.from_jax(log_density, example=EXAMPLE)
    assert target.names == ("layer.w[0]", "layer.w[1]", "mu")
    x = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(target.score(x), [[-1, -0.5, -3]])
    again = pickle.loads(pickle.dumps(target))
    np.testing.assert_array_equal(again.score(x), target.score(x))
    assert sc.from_jax(log_density, example=EXAMPLE, names=["a", "b", "c"]).names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("example", "error", "message"),
    [
        ({}, ValueError, "`example` must hold at least one number"),
        ({"mu": "x"}, TypeError, "`example` must be a pytree of real numbers"),
        (None, ValueError, "`dim` must be given, or `example`"),
    ],
)
def test_what_is_no_example(example, error, message):
    with pytest.raises(error, match=message):
        sc.from_jax(log_density, example=example)


def test_a_function_is_needed():
    with pytest.raises(TypeError, match="`log_density` must be a function, got float"):
        sc.from_jax(1.0, example=EXAMPLE)
