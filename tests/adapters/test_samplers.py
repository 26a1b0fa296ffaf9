"""The whole way: from a sampler's output and the model to the verdict."""

import jax
import numpy as np
import pymc as pm
import pytest
from numpyro.infer import MCMC, NUTS, init_to_value

import steincheck as sc

from . import posteriors

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore::UserWarning")]


def numpyro_nuts(name, *, start=None, chains=4, n=1000):
    model, args = posteriors.numpyro_model(name)
    kernel = NUTS(model) if start is None else NUTS(model, init_strategy=init_to_value(values=start))
    mcmc = MCMC(
        kernel, num_warmup=n, num_samples=n, num_chains=chains, progress_bar=False, chain_method="vectorized"
    )
    mcmc.run(jax.random.PRNGKey(1), *args)
    return mcmc


def names_the_missing_labelling(verdict):
    return verdict.fits is False and any("missing" in str(finding) for finding in verdict.findings)


START = {"mu": np.array([-2.0, 2.0]), "sigma": 1.0, "p": 0.5}


def test_numpyro_chains_in_one_of_two_labellings(target_of):
    mcmc = numpyro_nuts("mixture", start=START, n=500)
    samples = mcmc.get_samples(group_by_chain=True)
    assert (samples["mu"][..., 0] < samples["mu"][..., 1]).all()
    verdict = sc.check(mcmc, target_of("numpyro", "mixture"), rng=0)
    assert names_the_missing_labelling(verdict), str(verdict)
    assert "sigma" in verdict.summary()["parameter"]
    assert not any("log " in place or "logit " in place for place in verdict.mode_descriptions)


def test_pymc_chains_in_one_of_two_labellings(target_of):
    with posteriors.pymc_model("mixture"):
        idata = pm.sample(
            500,
            tune=500,
            chains=2,
            cores=1,
            initvals=START,
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    assert (idata.posterior["mu"].values[..., 0] < idata.posterior["mu"].values[..., 1]).all()
    verdict = sc.check(idata, target_of("pymc", "mixture"), rng=0)
    assert names_the_missing_labelling(verdict), str(verdict)


def test_nuts_on_eight_schools_fits_in_numpyro_and_stan(target_of):
    mcmc = numpyro_nuts("schools")
    for package in ("numpyro", "stan"):
        verdict = sc.check(mcmc, target_of(package, "schools"), rng=0)
        assert verdict.fits is not False, str(verdict)


def test_mean_field_variational_inference_is_too_narrow():
    """Two predictors with correlation .95: mean-field standard deviations are a third of the true ones."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(100, 1)) + 0.22 * rng.normal(size=(100, 2))
    y = x @ [1.0, 1.0] + rng.normal(size=100)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Normal("y", x @ beta, 1, observed=y)
        fit = pm.fit(20_000, method="advi", random_seed=1, progressbar=False)
    idata = fit.sample(2000, random_seed=2)
    verdict = sc.check(idata, sc.from_pymc(model), rng=0, independent=True)
    assert verdict.fits is False
    assert any("beta" in str(finding) for finding in verdict.findings), str(verdict)
