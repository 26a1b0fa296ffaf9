"""The tail index from the score."""

import numpy as np
import pytest

import steincheck as sc
from steincheck.accuracy.exploration import HEAVY_TAIL
from steincheck.accuracy.functionals import functionals_of, tail_weights


def weights(x, scores, **own_scale):
    target = sc.Target(lambda x: x[:, 0], dim=x.shape[1], **own_scale)
    functionals = functionals_of(target, x)
    return tail_weights(x, scores, functionals.values(x), functionals)


@pytest.mark.parametrize("nu", [1, 2, 3, 4, 6, 10])
def test_the_tail_index_of_student_t(nu):
    x = np.random.default_rng(nu).standard_t(nu, size=(2000, 2))
    np.testing.assert_allclose(weights(x, -(nu + 1) * x / (nu + x**2)), 1 / (nu + 1), atol=0.01)


@pytest.mark.parametrize("nu", [3, 10])
def test_the_tail_index_of_margins_of_a_multivariate_t(nu):
    rng = np.random.default_rng(nu)
    x = rng.normal(size=(2000, 5)) / np.sqrt(rng.chisquare(nu, size=(2000, 1)) / nu)
    scores = -(nu + 5) * x / (nu + np.sum(x**2, axis=1, keepdims=True))
    assert np.all((weights(x, scores) > HEAVY_TAIL) == (nu == 3))


def test_light_tails_are_light():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 20))
    assert weights(x, -x).max() < 0.05
    u = np.log(rng.gamma(3, size=(2000, 1)))
    assert weights(u, 3 - np.exp(u)).max() < HEAVY_TAIL


def test_tails_on_the_scale_of_the_parameter():
    rng = np.random.default_rng(1)
    own_scale = {"constrained_names": ["tau"], "constrain": np.exp}
    for shape, heavy in ((3, True), (20, False)):  # inverse gamma: tail index `shape`
        u = -np.log(rng.gamma(shape, size=(2000, 1)))
        assert (weights(u, np.exp(-u) - shape, **own_scale)[0] > HEAVY_TAIL) == heavy
    v = rng.normal(size=(2000, 1))
    bounded = {"constrained_names": ["p"], "constrain": lambda u: 1 / (1 + np.exp(-3 * u))}
    assert weights(v, -v, **bounded)[0] < HEAVY_TAIL


def test_constant_parameters_are_left_out():
    target = sc.Target(
        lambda x: x[:, 0],
        dim=1,
        constrained_names=["one", "x"],
        constrain=lambda x: np.hstack([np.ones_like(x), x]),
    )
    assert functionals_of(target, np.arange(5.0)[:, None]).names == ("x",)
