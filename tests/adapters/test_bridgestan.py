"""The real BridgeStan client on a small library with its C interface."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import steincheck as sc


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    import bridgestan

    library = tmp_path_factory.mktemp("bridgestan") / "gamma_model.so"
    source = Path(__file__).with_name("gamma_model.c")
    subprocess.run(["gcc", "-O1", "-w", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    return sc.from_bridgestan(bridgestan.StanModel(library))


def test_density_score_and_transformation(target):
    u = np.random.default_rng(0).normal(size=(50, 2))
    mu, tau = u[:, 0], np.exp(u[:, 1])
    expected = stats.norm.logpdf(mu) + stats.gamma.logpdf(tau, 3, scale=0.5) + u[:, 1]
    np.testing.assert_allclose(np.ptp(target.log_density(u) - expected), 0, atol=1e-12)
    np.testing.assert_allclose(target.score(u), np.stack([-mu, 3 - 2 * tau], axis=1), rtol=1e-12)
    np.testing.assert_allclose(target.constrain(u), np.stack([mu, tau], axis=1))
    np.testing.assert_allclose(target.unconstrain({"tau": tau, "mu": mu}), u)
    assert (target.names, target.constrained_names) == (("mu", "log tau"), ("mu", "tau"))


def test_a_row_at_which_stan_throws_leaves_the_others_alone(target):
    u = np.zeros((3, 2))
    u[1] = np.inf
    assert np.isfinite(target.log_density(u)).tolist() == [True, False, True]
    assert np.isfinite(target.score(u)).all(axis=1).tolist() == [True, False, True]


def test_draws_outside_the_support(target):
    with pytest.raises(ValueError, match=r"rows \[1\] \(counted from 0\); at row 1, tau = -2"):
        target.unconstrain({"mu": np.zeros(3), "tau": np.array([1.0, -2, 1])})


def test_other_objects_are_refused():
    with pytest.raises(
        TypeError, match=r"must be a bridgestan.StanModel \(pip install bridgestan\), got int"
    ):
        sc.from_bridgestan(3)
