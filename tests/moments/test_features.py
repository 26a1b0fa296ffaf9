"""Features against the Stein operator of their fields by automatic differentiation, closed forms, names."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import CORRELATED, gaussian_with_modes, on_the_log_scale
from scipy import integrate, stats

import steincheck as sc
from steincheck.adapters.parameters import ParameterScale, user_parameters
from steincheck.modes.known import as_modes
from steincheck.moments import features
from steincheck.moments.features import (
    DAMPING,
    FREEDOM,
    Column,
    feature_columns,
    feature_record,
    feature_sums,
    mode_coordinates,
    skew_coefficient,
    tail_coefficient,
)


def sums_at(x, target, coordinates, blocks=None):
    """Sums of features over blocks, by default of single draws, with equal weights."""
    blocks = np.arange(len(x)) if blocks is None else blocks
    return feature_sums(x, target.score(x), np.ones(len(x)), coordinates, blocks)


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
            "extremes": 4 * w**3 * (1 + 4 * (w / DAMPING) ** 2) ** -2 * along(k, j),
            "tails": (w**3 * damp**-2 - tail_coefficient(1) * w) * along(k, j),
            "curvature": (w**2 * damp**-1.5 - skew_coefficient()) * (along(k, other) - overlap * along(k, j)),
            "overall scale": away,
            "radial tails": radial * away,
        }[kind]

    def field(x):
        away = x - c.centre
        square = jnp.einsum("ki,kij,kj->k", away, c.precision, away)
        share = jax.nn.softmax(c.log_weight - 0.5 * (FREEDOM + len(x)) * jnp.log1p(square / FREEDOM))
        if mode is not None:
            return share[mode] * one(x, mode)
        return sum(share[k] * one(x, k) for k in range(len(c.centre)))

    return field


@pytest.mark.parametrize("kind", ["location", "scale", "skewness", "tails", "extremes"])
@pytest.mark.parametrize("j", [1, 3])
def test_features_are_the_stein_operator_of_their_fields(two_modes, kind, j):
    target, _, x, coordinates = two_modes
    sums = sums_at(x, target, coordinates)
    expected = stein_by_autodiff(field_of(kind, coordinates, j, None), target, x)
    values = getattr(sums, kind)
    pooled = values.sum(axis=1) if values.ndim == 3 else values
    np.testing.assert_allclose(pooled[:, j], expected, rtol=1e-9, atol=1e-9)


def test_correlation_overall_scale_and_modes_of_their_own_too(two_modes):
    target, _, x, coordinates = two_modes
    sums = sums_at(x, target, coordinates)
    by_field = partial(stein_by_autodiff, target=target, x=x)
    compare = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
    compare(sums.correlation[:, 0], by_field(field_of("correlation", coordinates, 0, None, i=1)))
    q = coordinates.ordered_pairs.T.tolist().index([2, 0])
    compare(sums.curvature[:, q], by_field(field_of("curvature", coordinates, 2, None, i=0)))
    compare(sums.overall_scale.sum(axis=1)[:, 0], by_field(field_of("overall scale", coordinates, 0, None)))
    compare(sums.radial_tails[:, 0], by_field(field_of("radial tails", coordinates, 0, None)))
    for mode in (0, 1):
        compare(sums.scale[:, mode, 2], by_field(field_of("scale", coordinates, 2, mode)))
    compare(sums.count.sum(axis=1), 1.0)


@pytest.mark.parametrize("df", [1.0, 3.0, np.inf])
def test_every_feature_has_mean_zero_by_quadrature(df):
    def log_density(x):
        return -0.5 * x[0] ** 2 if np.isinf(df) else -0.5 * (df + 1) * jnp.log1p(x[0] ** 2 / df)

    target = sc.from_jax(log_density, dim=1)
    coordinates = mode_coordinates(as_modes([[0.0]], target), np.linspace(-3, 4, 50)[:, None])
    law = stats.norm() if np.isinf(df) else stats.t(df)
    x = law.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]  # midpoints of the probability transform
    sums = sums_at(x, target, coordinates)
    for name in ("location", "scale", "skewness", "tails", "extremes"):
        values = getattr(sums, name).reshape(len(x))
        assert abs(values.mean()) < 2e-3 * values.std(), name


def test_sums_do_not_depend_on_how_draws_are_cut_into_pieces(two_modes):
    target, _, _, coordinates = two_modes
    x = target.sample(2000, rng=1)
    single = sums_at(x, target, coordinates)
    blocks = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [1500, 3, 497]))
    together = sums_at(x, target, coordinates, blocks)
    for one, many in zip(single, together, strict=True):
        expected = [one[blocks == b].sum(axis=0) for b in range(3)]
        np.testing.assert_allclose(many, expected, atol=1e-7)


def test_own_coordinates_of_a_gaussian_are_plain_moments():
    """With the right covariance the conjugate score is -z: the features are moments of the draws."""
    target, modes = gaussian_with_modes(CORRELATED)
    x = np.random.default_rng(0).normal(size=(30, 3))
    sums = sums_at(x, target, mode_coordinates(as_modes(modes, target), x))
    z = x / np.sqrt(np.diag(CORRELATED))
    np.testing.assert_allclose(sums.location[:, 0, :3], -z, atol=1e-12)
    np.testing.assert_allclose(sums.scale[:, 0, :3], 1 - z**2, atol=1e-12)
    whitened = np.sum(np.linalg.solve(np.linalg.cholesky(CORRELATED), x.T) ** 2, axis=0)
    np.testing.assert_allclose(sums.overall_scale[:, 0, 0], 3 - whitened, atol=1e-10)
    r = 0.8 / np.sqrt(2)  # the correlation is tested with the standard deviations held fixed
    expected = r - z[:, 0] * z[:, 1] - 0.5 * r * (2 - z[:, 0] ** 2 - z[:, 1] ** 2)
    np.testing.assert_allclose(sums.correlation[:, 0], expected, atol=1e-10)


def test_tails_and_skewness_do_not_see_scale_and_location_of_a_gaussian():
    def expectation(f):
        return integrate.quad(lambda z: f(z) * stats.norm.pdf(z), -12, 12)[0]

    def cubic(z):
        return z**3 / (1 + (z / DAMPING) ** 2) ** 2

    def bowl(z):
        return z**2 / (1 + (z / DAMPING) ** 2) ** 1.5

    assert tail_coefficient(1) == pytest.approx(expectation(lambda z: z * cubic(z)), abs=2e-3)
    assert skew_coefficient() == pytest.approx(expectation(bowl), abs=2e-3)


def test_a_diagonal_covariance_has_no_axes_and_nothing_conditional():
    target, modes = gaussian_with_modes(np.diag([1.0, 100.0, 1e-4]))
    found = mode_coordinates(as_modes(modes, target), np.zeros((5, 3)))
    assert len(found.axis_rank) == len(found.conditional) == 0


def test_of_too_many_pairs_the_most_correlated_are_examined(monkeypatch):
    monkeypatch.setattr(features, "MAX_CORRELATIONS", 200)
    d = 24
    covariance = np.eye(d)
    covariance[22, 23] = covariance[23, 22] = 0.2
    target, modes = gaussian_with_modes(covariance)
    x = np.random.default_rng(0).normal(size=(300, d))
    result = sc.moment_test(x, target, modes=modes, n_resamples=49, check_score=False, rng=0)
    assert result.pairs_left_out == d * (d - 1) // 2 - 200
    assert ("x[22]", "x[23]") in [f.parameters for f in result.features]
    assert "the 200 pairs of parameters most correlated at the modes" in str(result)


def test_columns_and_sums_have_one_order():
    places = np.array([[0.0, 0, 0], [2.0, 1, -1]])
    target = sc.models.gaussian_mixture(places, np.stack([CORRELATED, 0.5 * np.eye(3)]), [0.4, 0.6])
    x = target.sample(500, 2)
    coordinates = mode_coordinates(as_modes(places, target), x)
    sums = sums_at(x, target, coordinates)
    ranks = np.arange(500.0)[:, None]
    found = feature_columns(coordinates, sums, ranks)
    assert len(found.about) == len(set(found.about)) == found.sums.shape[1]
    place = {(c.kind, c.basis, c.mode, c.directions): found.sums[:, i] for i, c in enumerate(found.about)}
    np.testing.assert_array_equal(place["scale", "parameter", 1, (2,)], sums.scale[:, 1, 2])
    np.testing.assert_array_equal(place["correlation", "parameter", None, (0, 2)], sums.correlation[:, 1])
    np.testing.assert_array_equal(place["radius", "all", None, ()], ranks[:, 0])


def test_an_axis_is_named_by_its_main_parameters():
    target, modes = gaussian_with_modes(np.array([[1.0, 0.9, 0], [0.9, 1.0, 0], [0, 0, 1.0]]))
    coordinates = mode_coordinates(as_modes(modes, target), np.zeros((5, 3)))
    parameters = [ParameterScale(name, j) for j, name in enumerate("abc")]
    wide = feature_record(Column("scale", "axis 1", None, (3,)), 2.0, 0.1, coordinates, parameters)
    assert wide.parameters == ("a", "b")
    assert wide.loadings == pytest.approx((0.5**0.5, 0.5**0.5))
    assert wide.t == -2.0  # the feature falls where draws are too wide
    pair = feature_record(Column("correlation", "axis", None, (3, 4)), 2.0, 0.1, coordinates, parameters)
    assert pair.parameters == ("axis 1", "axis 3")


def test_features_name_the_parameters_of_the_user():
    target = on_the_log_scale()
    coordinates = mode_coordinates(as_modes([[np.log(3), 0.0]], target), np.zeros((5, 2)))
    about = user_parameters(target)
    pair = feature_record(Column("curvature", "parameter", None, (0, 1)), 2.0, 0.1, coordinates, about)
    assert (pair.parameters, pair.scales) == (("tau", "mu"), ("log", ""))
    own = feature_record(Column("scale", "parameter", None, (1,)), 2.0, 0.1, coordinates, about)
    assert (own.parameters, own.scales) == (("mu",), ())
