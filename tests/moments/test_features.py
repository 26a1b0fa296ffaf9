"""Features against the Stein operator of their fields by automatic differentiation, and closed forms."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import CORRELATED, gaussian_with_modes
from scipy import stats

import steincheck as sc
from steincheck.modes.arguments import as_modes
from steincheck.moments.coordinates import DAMPING, mode_coordinates, skew_coefficient, tail_coefficient
from steincheck.moments.features import feature_sums


@pytest.fixture(scope="module")
def two_modes():
    """A mixture with two overlapping, correlated modes, its coordinates, and draws from somewhere else."""
    target = sc.models.gaussian_mixture(
        [[0.0, 0, 0], [2.0, 1, -1]], np.stack([CORRELATED, 0.5 * np.eye(3)]), [0.4, 0.6]
    )
    modes = as_modes(([[0.0, 0, 0], [2.0, 1, -1]], np.stack([CORRELATED, 0.5 * np.eye(3)])), target)
    x = np.random.default_rng(3).normal(size=(40, 3)) * 1.5 + 0.5
    return target, modes, x, mode_coordinates(modes, x)


def stein_by_autodiff(field, target, x):
    """s.v + div v at each row of x, the divergence by automatic differentiation."""
    with jax.enable_x64(True):
        value, jacobian = jax.jit(jax.vmap(lambda row: (field(row), jax.jacfwd(field)(row))))(x)
    divergence = np.trace(np.asarray(jacobian), axis1=1, axis2=2)
    return np.sum(target.score(x) * np.asarray(value), axis=1) + divergence


def field_of(kind, coordinates, j, mode, i=None):
    """The vector field of a feature written out, in JAX operations: the sum over modes of r_k h(z_k) l_k."""
    c = coordinates

    def standardised(x, k):
        return ((x - c.centre[k]) / c.sd[k]) @ c.project[k]

    def along(k, column):
        return c.sd[k] * c.conjugate[k][:, column]

    def one(x, k):
        z = standardised(x, k)
        w = (z[j] - c.middle[j]) / c.width[j]
        damp = 1 + (w / DAMPING) ** 2
        away = x - c.centre[k]
        q = away @ c.precision[k] @ away / (len(x) * c.radius)
        radial = q / (1 + q / DAMPING**2) ** 2 - tail_coefficient(len(x))
        other = j if i is None else i
        overlap = c.project[k][:, j] @ c.conjugate[k][:, other]
        return {
            "location": along(k, j),
            "scale": z[j] * along(k, j),
            "correlation": 0.5 * (z[j] * along(k, other) + z[other] * along(k, j))
            - 0.5 * overlap * (z[j] * along(k, j) + z[other] * along(k, other)),
            "skewness": (w**2 * damp**-1.5 - skew_coefficient()) * along(k, j),
            "extremes": w**3 * damp**-2 * along(k, j),
            "tails": (w**3 * damp**-2 - tail_coefficient(1) * w) * along(k, j),
            "curvature": (w**2 * damp**-1.5 - skew_coefficient()) * (along(k, other) - overlap * along(k, j)),
            "overall scale": away,
            "radial tails": radial * away,
        }[kind]

    def field(x):
        away = x - c.centre
        height = c.log_weight - 0.5 * jnp.einsum("ki,kij,kj->k", away, c.precision, away)
        share = jax.nn.softmax(c.sharpness * height)
        if mode is not None:
            return share[mode] * one(x, mode)
        return sum(share[k] * one(x, k) for k in range(len(c.centre)))

    return field


@pytest.mark.parametrize("kind", ["location", "scale", "skewness", "tails", "extremes"])
@pytest.mark.parametrize("j", [1, 3])
def test_features_are_the_stein_operator_of_their_fields(two_modes, kind, j):
    target, _, x, coordinates = two_modes
    sums = feature_sums(x, target.score(x), coordinates, np.arange(len(x)))
    expected = stein_by_autodiff(field_of(kind, coordinates, j, None), target, x)
    np.testing.assert_allclose(getattr(sums.pooled, kind)[:, j], expected, rtol=1e-9, atol=1e-9)


def test_correlation_overall_scale_and_modes_of_their_own_too(two_modes):
    target, _, x, coordinates = two_modes
    pooled, of_modes = feature_sums(x, target.score(x), coordinates, np.arange(len(x)))
    by_field = partial(stein_by_autodiff, target=target, x=x)
    compare = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
    compare(pooled.correlation[:, 0], by_field(field_of("correlation", coordinates, 0, None, i=1)))
    q = coordinates.ordered_pairs.T.tolist().index([2, 0])
    compare(pooled.curvature[:, q], by_field(field_of("curvature", coordinates, 2, None, i=0)))
    compare(pooled.overall_scale[:, 0], by_field(field_of("overall scale", coordinates, 0, None)))
    compare(pooled.radial_tails[:, 0], by_field(field_of("radial tails", coordinates, 0, None)))
    for mode in (0, 1):
        compare(of_modes.scale[:, mode, 2], by_field(field_of("scale", coordinates, 2, mode)))
    compare(of_modes.count.sum(axis=1), 1.0)
    compare(of_modes.scale.sum(axis=1), pooled.scale)


@pytest.mark.parametrize("df", [1.0, 3.0, np.inf])
def test_every_feature_has_mean_zero_by_quadrature(df):
    def log_density(x):
        return -0.5 * x[0] ** 2 if np.isinf(df) else -0.5 * (df + 1) * jnp.log1p(x[0] ** 2 / df)

    target = sc.from_jax(log_density, dim=1)
    coordinates = mode_coordinates(as_modes([[0.0]], target), np.linspace(-3, 4, 50)[:, None])
    law = stats.norm() if np.isinf(df) else stats.t(df)
    x = law.ppf((np.arange(20_000) + 0.5) / 20_000)[
        :, None
    ]  # the midpoint rule for the probability transform
    sums = feature_sums(x, target.score(x), coordinates, np.arange(len(x)))
    for name in ("location", "scale", "skewness", "tails", "extremes"):
        values = getattr(sums.pooled, name)[:, 0]
        assert abs(values.mean()) < 2e-3 * values.std(), name


def test_sums_do_not_depend_on_how_draws_are_cut_into_pieces(two_modes):
    target, _, _, coordinates = two_modes
    x = target.sample(2000, rng=1)
    scores = target.score(x)
    single = feature_sums(x, scores, coordinates, np.arange(2000))
    blocks = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [1500, 3, 497]))
    together = feature_sums(x, scores, coordinates, blocks)
    for one, many in zip(
        (*single.pooled, *single.of_modes), (*together.pooled, *together.of_modes), strict=True
    ):
        expected = [one[blocks == b].sum(axis=0) for b in range(3)]
        np.testing.assert_allclose(many, expected, atol=1e-7)


def test_a_correlation_is_tested_with_the_standard_deviations_held_fixed():
    target, modes = gaussian_with_modes(CORRELATED)
    x = np.random.default_rng(0).normal(size=(50, 3))
    coordinates = mode_coordinates(as_modes(modes, target), x)
    sums = feature_sums(x, target.score(x), coordinates, np.arange(50))
    z = x / np.sqrt(np.diag(CORRELATED))
    r = 0.8 / np.sqrt(2)
    expected = r - z[:, 0] * z[:, 1] - 0.5 * r * (2 - z[:, 0] ** 2 - z[:, 1] ** 2)
    np.testing.assert_allclose(sums.pooled.correlation[:, 0], expected, atol=1e-10)


def test_own_coordinates_of_a_gaussian_are_plain_moments():
    """With the right covariance the conjugate score is -z: the features are moments of the draws."""
    target, modes = gaussian_with_modes(CORRELATED)
    x = np.random.default_rng(0).normal(size=(30, 3))
    coordinates = mode_coordinates(as_modes(modes, target), x)
    sums = feature_sums(x, target.score(x), coordinates, np.arange(30)).pooled
    z = x / np.sqrt(np.diag(CORRELATED))
    np.testing.assert_allclose(sums.location[:, :3], -z, atol=1e-12)
    np.testing.assert_allclose(sums.scale[:, :3], 1 - z**2, atol=1e-12)
    whitened = np.sum(np.linalg.solve(np.linalg.cholesky(CORRELATED), x.T) ** 2, axis=0)
    np.testing.assert_allclose(sums.overall_scale[:, 0], 3 - whitened, atol=1e-10)
