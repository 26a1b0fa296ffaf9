import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

import steincheck as sc
from steincheck.draws import to_unconstrained
from steincheck.model_files import Source

from . import posteriors

pytestmark = pytest.mark.adapters


def test_the_sign_is_that_of_pymc(target_of):
    """PyMC's own ``get_jaxified_logp`` has the sign of its option the wrong way round."""
    target = target_of("pymc", "schools")
    log_density = posteriors.pymc_model("schools").compile_logp()
    point = {"mu": np.array(0.3), "tau_log__": np.array(-0.5), "theta_trans": np.linspace(-1, 1, 8)}
    x = np.concatenate([np.ravel(value) for value in point.values()])[None]
    np.testing.assert_allclose(target.log_density(x), log_density(point), rtol=1e-12)
    assert jnp.zeros(1).dtype == jnp.float32


def test_a_bound_that_depends_on_another_variable():
    with pm.Model() as model:
        top = pm.HalfNormal("top")
        pm.Uniform("x", 0, top)
    target = sc.from_pymc(model)
    u = np.random.default_rng(1).normal(size=(20, 2))
    values = target.constrain(u)
    assert (values[:, 1] < values[:, 0]).all()
    np.testing.assert_allclose(target.unconstrain(values), u, atol=1e-10)


def test_dims_and_data_containers():
    with pm.Model(coords={"school": ["a", "b", "c"]}) as model:
        y = pm.Data("y", [1.0, 2.0, 3.0])
        mu = pm.Normal("mu", 0, 1, dims="school")
        pm.Normal("obs", mu, 1, observed=y, dims="school")
    target = sc.from_pymc(model)
    assert target.names == target.constrained_names == ("mu[a]", "mu[b]", "mu[c]")
    np.testing.assert_allclose(target.score(np.zeros((1, 3))), [[1, 2, 3]])
    values = np.random.default_rng(0).normal(size=(2, 50, 3))
    with model:
        prior = pm.sample_prior_predictive(50, random_seed=0).prior
    drawn = to_unconstrained(prior[["mu"]].isel(school=[2, 0, 1]), target)
    np.testing.assert_array_equal(drawn.values, prior["mu"].values[0])
    by_index = to_unconstrained({"mu": values}, target)
    np.testing.assert_array_equal(by_index.values, values.reshape(100, 3))
    assert by_index.names == target.names


def test_a_discrete_variable_must_be_marginalised():
    with pm.Model() as model:
        which = pm.Bernoulli("which", 0.5)
        pm.Normal("y", which, 1, observed=1.0)
    with pytest.raises(ValueError, match=r"variable 'which' of `model` is discrete.*marginalise it"):
        sc.from_pymc(model)


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match=r"must be a pymc.Model, got int"):
        sc.from_pymc(3)
    with pytest.raises(ValueError, match="must have free variables"):
        sc.from_pymc(pm.Model())


class Square(Op):
    """An operation that PyTensor knows and JAX does not."""

    def make_node(self, x):
        x = pt.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] ** 2)

    def grad(self, inputs, output_gradients):
        return [2 * inputs[0] * output_gradients[0]]


def test_an_operation_without_jax_goes_through_pytensor():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        tau = pm.HalfNormal("tau", 1)
        pm.Potential("more", -0.5 * Square()(x))
    target = sc.from_pymc(model)
    u = np.random.default_rng(2).normal(size=(10, 2))
    tau = np.exp(u[:, 1])
    np.testing.assert_allclose(target.score(u), np.stack([-2 * u[:, 0], 1 - tau**2], axis=1), rtol=1e-9)
    np.testing.assert_allclose(target.unconstrain(target.constrain(u)), u, atol=1e-12)


def test_a_model_by_file(tmp_path):
    (tmp_path / "my_pymc.py").write_text(
        "import pymc as pm\n"
        "with pm.Model() as model:\n"
        "    pm.Normal('mu', 0, 2)\n"
        "def make():\n"
        "    return model\n"
    )
    for name in ("model", "make"):
        target = Source(None, None, f"{tmp_path / 'my_pymc.py'}:{name}", None, None).load()
        np.testing.assert_allclose(target.score(np.ones((1, 1))), [[-0.25]])
