"""Stein features have mean 0 under the density; control variates leave means unchanged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc
from steincheck.accuracy.cells import Cutoff, cells_of_modes
from steincheck.accuracy.control import Features, residuals, stein_features

METRIC = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])


def everywhere(x):
    return Cutoff(np.ones(len(x)), np.zeros_like(x))


def fields(u, root, width, d):
    """The vector fields in the order of the features, at one point."""
    damped = u**2 / (1 + u**2 / 9)
    cube = u**3 / (1 + u**2 / 9) ** 1.5
    direction = root / width
    low, high = np.triu_indices(d, 1)
    yield from (direction[:, j] for j in range(d))
    for g in (u, damped, cube):
        yield from (g[j] * direction[:, j] for j in range(d))
    yield from (u[i] * direction[:, j] + u[j] * direction[:, i] for i, j in zip(low, high, strict=True))
    pairs = [*zip(low, high, strict=True), *zip(high, low, strict=True)]
    yield from (damped[i] * direction[:, j] for i, j in pairs)


def test_features_are_divergences_by_automatic_differentiation():
    rng = np.random.default_rng(0)
    z, scores = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    slope = rng.normal(size=3)
    value = np.exp(z @ slope)
    features = stein_features(z, scores, METRIC, Cutoff(value, value[:, None] * slope), 10**6)
    width = np.sqrt(np.diag(METRIC))
    with jax.enable_x64(True):
        for row in range(2):

            def all_fields(x):
                h = jnp.exp(x @ slope)
                return jnp.stack([h * v for v in fields(x / width, METRIC, width, 3)])

            jacobian = jax.jacfwd(all_fields)(z[row])
            expected = all_fields(z[row]) @ scores[row] + jnp.einsum("kii->k", jacobian)
            np.testing.assert_allclose(features.values[row], expected, rtol=1e-10, atol=1e-12)
    assert features.sizes == [3, 6, 12, 15, 21]


@pytest.mark.parametrize("own", [0, 1])
def test_features_have_mean_0_under_the_density_in_a_cell(own):
    target = sc.models.gaussian_mixture([[-1.2, 0.0], [1.2, 0.5]])
    modes = sc.Modes(np.array([[-1.2, 0.0], [1.2, 0.5]]), np.stack([np.eye(2)] * 2), np.zeros(2))
    cell = cells_of_modes(modes)[own]
    x = target.sample(200_000, rng=1)
    x = x[cell.contains(x)]
    centre = x.mean(axis=0)
    features = stein_features(x - centre, target.score(x), np.cov(x.T), cell.cutoff(x), 10**6)
    t = features.values.mean(axis=0) / features.values.std(axis=0) * np.sqrt(len(x))
    assert np.abs(t).max() < 4.5
    plain = stein_features(x - centre, target.score(x), np.cov(x.T), everywhere(x), 10**6)
    biased = plain.values.mean(axis=0) / plain.values.std(axis=0) * np.sqrt(len(x))
    assert np.abs(biased).max() > 20  # without the cutoff the border counts


def test_orders_stop_at_the_limit():
    z = np.random.default_rng(2).normal(size=(50, 3))
    sizes = {limit: stein_features(z, -z, np.eye(3), everywhere(z), limit).sizes for limit in (2, 3, 14, 15)}
    assert sizes == {2: [], 3: [3], 14: [3, 6, 12], 15: [3, 6, 12, 15]}


def test_cross_fitting_equals_regressions_on_the_other_folds():
    rng = np.random.default_rng(3)
    m, transitions = 15, 6
    values = rng.normal(size=(transitions * m, 4)) + 0.3
    targets = values @ rng.normal(size=(4, 2)) + rng.normal(size=(transitions * m, 2)) + 5.0
    left = residuals(Features(values, [2, 4]), targets, m)
    walker = np.tile(np.arange(m), transitions)
    half = np.repeat([0, 1], transitions // 2 * m)
    scaled = values / values.std(axis=0)
    for order, size in ((1, 2), (2, 4)):
        for i in (0, 7, 14):
            train = ~np.isin(walker, next(fold for fold in np.array_split(np.arange(m), 5) if i in fold))
            f, y = scaled[train, :size], targets[train]
            f, y = f - f.mean(axis=0), y - y.mean(axis=0)
            beta = np.linalg.solve(f.T @ f / len(f) + 1e-3 * np.eye(size), f.T @ y / len(f))
            for part in (0, 1):
                rows = (walker == i) & (half == part)
                expected = (targets[rows] - scaled[rows, :size] @ beta).mean(axis=0)
                np.testing.assert_allclose(left[order, part, i], expected, rtol=1e-9)
    np.testing.assert_allclose(left[0].mean(axis=(0, 1)), targets.mean(axis=0))
