"""Densities of bounded parameters taken to unconstrained space: SciPy's densities, Jacobians, level."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc
from steincheck.target.evaluation import differences

INF = np.inf
BOUNDS = [(3, INF), (-INF, 1), (0, 2), (-INF, INF)]


def log_density(x):
    """3 + exponential, 1 - exponential, 2 beta(2, 2) and a normal; -inf outside the support."""
    inside = (x[:, 0] > 3) & (x[:, 1] < 1) & (x[:, 2] > 0) & (x[:, 2] < 2)
    ends = np.log(np.where(inside, x[:, 2] * (2 - x[:, 2]), 1.0))
    return np.where(inside, x[:, 1] - x[:, 0] + ends - 0.5 * x[:, 3] ** 2, -INF)


def score(x):
    one = np.ones(len(x))
    return np.stack([-one, one, 1 / x[:, 2] - 1 / (2 - x[:, 2]), -x[:, 3]], axis=1)


def sample(n, rng):
    rng = np.random.default_rng(rng)
    waits = rng.exponential(size=(2, n))
    return np.stack([3 + waits[0], 1 - waits[1], 2 * rng.beta(2, 2, size=n), rng.normal(size=n)], axis=1)


def in_numpy():
    return sc.Target(log_density, score, dim=4, sample=sample)


def in_jax():
    def one(x):
        inside = (x[0] > 3) & (x[1] < 1) & (x[2] > 0) & (x[2] < 2)
        ends = jnp.log(jnp.where(inside, x[2] * (2 - x[2]), 1.0))
        return jnp.where(inside, x[1] - x[0] + ends - 0.5 * x[3] ** 2, -jnp.inf)

    return sc.from_jax(one, dim=4, sample=sample)


@pytest.fixture(params=[in_numpy, in_jax], ids=["NumPy", "JAX"])
def free(request):
    return sc.unbounded(request.param(), BOUNDS)


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(30, 4))


def test_there_and_back(free, points):
    x = free.constrain(points)
    assert np.isfinite(log_density(x)).all()
    assert (free.constrain(points + 0.1) > x).all()
    np.testing.assert_allclose(free.unconstrain(x), points, rtol=1e-9, atol=1e-12)


def test_the_jacobian_is_that_of_the_map(free, points):
    slopes = (free.constrain(points + 1e-5) - free.constrain(points - 1e-5)) / 2e-5
    expected = log_density(free.constrain(points)) + np.log(slopes).sum(axis=1)
    np.testing.assert_allclose(free.log_density(points), expected, atol=1e-7)


def test_the_score_is_the_gradient(free, points):
    np.testing.assert_allclose(free.score(points), differences(free.log_density, points).central, atol=1e-6)


def test_names_tell_the_scale():
    target = sc.Target(lambda x: -x.sum(axis=1), dim=3, names=["tau", "p", "mu"])
    free = sc.unbounded(target, [(0, INF), (0, 1), (-INF, INF)])
    assert free.names == ("log tau", "logit p", "mu")
    assert free.constrained_names == ("tau", "p", "mu")
    others = sc.unbounded(target, [(2, INF), (-INF, 10), (-3, 4)])
    assert others.names == ("log(tau - 2)", "-log(10 - p)", "logit mu in (-3, 4)")
    assert sc.unbounded(target, (-2, INF)).names[0] == "log(tau + 2)"


def test_findings_name_the_parameter_on_its_own_scale():
    gamma = sc.from_jax(lambda x: jnp.where(x[0] > 0, 0.5 * jnp.log(x[0]) - x[0], -jnp.inf), 1, names=["tau"])
    draws = {"tau": np.random.default_rng(1).gamma(2.5, size=500)}
    verdict = sc.check(draws, sc.unbounded(gamma, (0, INF)), modes=[[np.log(1.5)]], rng=0)
    assert verdict.fits is False
    assert verdict.findings[0].parameters == ("tau",)


def test_a_transformed_model_pickles():
    gaussian = sc.models.gaussian_mixture([[1.0, 1.0]])
    free = sc.unbounded(gaussian, [(-50, 50), (-INF, INF)])
    again = pickle.loads(pickle.dumps(free))
    y = np.array([[0.3, -0.2]])
    np.testing.assert_allclose(again.log_density(y), free.log_density(y))


def test_the_support_may_be_given_by_name():
    base = sc.from_jax(lambda x: -0.5 * x[0] ** 2 - jnp.exp(x[1]), dim=2, names=["mu", "sigma"])
    by_name = sc.unbounded(base, {"sigma": (0.0, np.inf)})
    by_place = sc.unbounded(base, [(-np.inf, np.inf), (0.0, np.inf)])
    assert by_name.names == by_place.names == ("mu", "log sigma")
    x = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(by_name.log_density(x), by_place.log_density(x))
    with pytest.raises(ValueError, match=r"`support` must name parameters .*, mu, sigma, got 'tau'"):
        sc.unbounded(base, {"tau": (0.0, 1.0)})
