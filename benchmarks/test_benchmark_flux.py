"""Speed of the flux test beside the log-density evaluations it needs (make bench)."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc

N, DIM, MODES = 100_000, 10, 5


def problem(kind):
    """Gaussians with covariances of their own as a user's JAX function, or round ones as the model."""
    rng = np.random.default_rng(0)
    means = rng.uniform(-20, 20, size=(MODES, DIM))
    spread = 1.0 if kind == "model" else rng.uniform(0.5, 2, size=(MODES, DIM))
    covariances = np.eye(DIM) * np.broadcast_to(spread, (MODES, DIM))[:, None]
    if kind == "model":
        target = sc.models.gaussian_mixture(means, covariances)
    else:
        precisions = np.linalg.inv(covariances)
        heights = -0.5 * np.linalg.slogdet(covariances)[1]

        def log_density(x):
            z = x - means
            return jax.scipy.special.logsumexp(heights - 0.5 * jnp.einsum("kd,kde,ke->k", z, precisions, z))

        target = sc.from_jax(log_density, dim=DIM)
    labels = rng.integers(MODES, size=N)
    x = means[labels] + rng.normal(size=(N, DIM)) * np.broadcast_to(spread, (MODES, DIM))[labels] ** 0.5
    return x, target, (means, covariances)


@pytest.mark.parametrize("kind", ["from_jax", "model"])
def test_flux_test_of_100_000_draws(capsys, kind):
    """Bar: 3 times the time of the n M log densities; medians of turns taken one after the other."""
    x, target, modes = problem(kind)
    images = np.repeat(x, MODES, axis=0)
    calls = {
        "floor": lambda: target.log_density(images),
        "test": lambda: sc.flux_test(x, target, modes=modes),
    }
    times = {name: [] for name in calls}
    for _ in range(12):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    floor, test = (np.median(times[name][1:]) for name in calls)
    with capsys.disabled():
        print(f"\nflux_test, n = {N:,}, {kind}: {test:.3f} s, {test / floor:.2f} evaluations (bar 3)")
    assert test / floor < 3
