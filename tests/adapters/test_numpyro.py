import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import steincheck as sc
from steincheck.draws import to_unconstrained
from steincheck.model_files import Source
from steincheck.target import to_constrained

from . import posteriors

pytestmark = pytest.mark.adapters


def run(model, *args, n=100, chains=2, **kwargs):
    mcmc = MCMC(
        NUTS(model),
        num_warmup=n,
        num_samples=n,
        num_chains=chains,
        progress_bar=False,
        chain_method="vectorized",
    )
    mcmc.run(jax.random.PRNGKey(0), *args, **kwargs)
    return mcmc


def test_nuts_in_single_precision_runs_before_and_after(target_of):
    """NumPy data enter JAX's caches in one precision: neither the target nor NUTS may spoil the other."""
    y = np.random.default_rng(0).normal(size=20)

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1))
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)

    first = sc.from_numpyro(model, y)
    mcmc = run(model, y)
    second = sc.from_numpyro(model, y)
    x = to_unconstrained(mcmc, second)
    assert x.n_chains == 2
    assert second.log_density(x.values).dtype == np.float64
    np.testing.assert_array_equal(first.score(x.values), second.score(x.values))
    assert jnp.zeros(1).dtype == jnp.float32

    def closed():
        model(y)

    run(closed)
    with pytest.raises(ValueError, match=r"if it ran in float32 before, JAX"):
        sc.from_numpyro(closed)


def test_draws_of_mcmc_in_the_coordinates_of_the_target(target_of):
    model, args = posteriors.numpyro_model("schools")
    mcmc = run(model, *args)
    target = target_of("numpyro", "schools")
    draws = to_unconstrained(mcmc, target)
    samples = mcmc.get_samples()
    assert draws.names == tuple(target.names)
    assert draws.divergences is not None
    np.testing.assert_allclose(draws.values[:, 1], np.log(samples["tau"]), rtol=1e-5, atol=1e-5)
    values, names = to_constrained(draws.values, target)
    np.testing.assert_allclose(
        values[:, names.index("theta_trans[3]")], samples["theta_trans"][:, 3], rtol=1e-6
    )


def test_a_discrete_site_must_be_marginalised():
    def model(y):
        which = numpyro.sample("which", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(which, 1.0), obs=y)

    with pytest.raises(ValueError, match=r"site 'which' of `model` is discrete.*marginalise it"):
        sc.from_numpyro(model, 1.0)


def test_subsampling_is_refused():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("rows", 10, subsample_size=5) as rows:
            numpyro.sample("y", dist.Normal(mu, 1), obs=y[rows])

    with pytest.raises(ValueError, match="plate 'rows' of `model` subsamples"):
        sc.from_numpyro(model, jnp.zeros(10))


def test_a_model_without_latent_sites_and_other_objects():
    with pytest.raises(ValueError, match="must have latent sites"):
        sc.from_numpyro(lambda: None)
    with pytest.raises(TypeError, match="must be a function with NumPyro primitives, got int"):
        sc.from_numpyro(3)


def test_a_bound_that_depends_on_another_parameter():
    def model():
        top = numpyro.sample("top", dist.HalfNormal(1))
        numpyro.sample("x", dist.Uniform(0, top))

    target = sc.from_numpyro(model)
    u = np.random.default_rng(1).normal(size=(20, 2))
    values = target.constrain(u)
    assert (values[:, 1] < values[:, 0]).all()
    np.testing.assert_allclose(target.unconstrain(values), u, atol=1e-10)


def test_a_model_by_file_with_data(tmp_path):
    (tmp_path / "my_model.py").write_text(
        "import numpyro, numpyro.distributions as dist\n"
        "def model(y):\n"
        "    mu = numpyro.sample('mu', dist.Normal(0, 1))\n"
        "    numpyro.sample('y', dist.Normal(mu, 1), obs=y)\n"
    )
    (tmp_path / "data.json").write_text(json.dumps({"y": [1.0, 2.0]}))
    target = Source(None, None, None, f"{tmp_path / 'my_model.py'}:model", tmp_path / "data.json").load()
    np.testing.assert_allclose(target.score(np.array([[0.5]])), [[-0.5 + 0.5 + 1.5]])
