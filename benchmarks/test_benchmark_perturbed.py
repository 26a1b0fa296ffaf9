"""Speed of the perturbed tests end to end, modes given (make bench)."""

import jax.numpy as jnp
import numpy as np

import steincheck as sc

MODES = (np.array([[0.0], [6.0]]), np.ones((2, 1, 1)))


def bimodal():
    return sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 6) ** 2), dim=1)


def test_spksd_test_of_1000_draws(ratio):
    """n = 1000, d = 1, T = 10, 51 theta, B = 800. Bar: 1.5 products."""
    target, x = bimodal(), np.random.default_rng(0).normal(size=(1000, 1))
    value = ratio(
        "spksd_test n=1000 T=10 51 theta B=800",
        lambda: sc.spksd_test(x, target, modes=MODES, n_resamples=800, rng=0),
        1.5,
    )
    assert value < 1.5


def test_a_thousand_steps(ratio):
    """T = 1000 with a JAX target. Bar: a minute on this machine, told as products for comparison."""
    target, x = bimodal(), np.random.default_rng(0).normal(size=(1000, 1))
    value = ratio(
        "spksd_test T=1000",
        lambda: sc.spksd_test(x, target, modes=MODES, n_steps=1000, n_resamples=800, rng=0),
        200,
        rounds=1,
    )
    assert value < 200
