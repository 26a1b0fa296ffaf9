"""The features of the moment test, their frame, their largest |t|, and ranks along rays."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import (
    CORRELATED,
    ar1_chains,
    assert_level,
    assert_uniform,
    count_rejections,
    gaussian_with_modes,
    normal_log_density,
)
from scipy import integrate, stats

import steincheck as sc
from steincheck.modes.arguments import as_modes
from steincheck.moments import coordinates
from steincheck.moments.features import feature_sums
from steincheck.moments.coordinates import DAMPING, make_frame, skew_coefficient, tail_coefficient
from steincheck.moments.rays import coordinate_tails, ray_ranks
from steincheck.moments.maximum import max_t
from steincheck.moments.columns import columns_of, pure_correlation


@pytest.fixture(scope="module")
def two_modes():
    """A mixture with two overlapping, correlated modes, its frame, and draws from somewhere else."""
    target = sc.models.gaussian_mixture(
        [[0.0, 0, 0], [2.0, 1, -1]], np.stack([CORRELATED, 0.5 * np.eye(3)]), [0.4, 0.6]
    )
    modes = as_modes(([[0.0, 0, 0], [2.0, 1, -1]], np.stack([CORRELATED, 0.5 * np.eye(3)])), target)
    x = np.random.default_rng(3).normal(size=(40, 3)) * 1.5 + 0.5
    return target, modes, x, make_frame(modes, x)


def stein_by_autodiff(field, target, x):
    """s.v + div v at each row of x, the divergence by automatic differentiation."""
    with jax.enable_x64(True):
        value, jacobian = jax.jit(jax.vmap(lambda row: (field(row), jax.jacfwd(field)(row))))(x)
    divergence = np.trace(np.asarray(jacobian), axis1=1, axis2=2)
    return np.sum(target.score(x) * np.asarray(value), axis=1) + divergence


def field_of(kind, frame, j, mode, i=None):
    """The vector field of a feature written out, in JAX operations: the sum over modes of r_k h(z_k) l_k."""
    c = frame.constants

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
        return {
            "location": along(k, j),
            "scale": z[j] * along(k, j),
            "correlation": 0.5 * (z[j] * along(k, other) + z[other] * along(k, j)),
            "skewness": (w**2 * damp**-1.5 - skew_coefficient()) * along(k, j),
            "extremes": w**3 * damp**-2 * along(k, j),
            "tails": (w**3 * damp**-2 - tail_coefficient(1) * w) * along(k, j),
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
    target, _, x, frame = two_modes
    sums = feature_sums(x, target.score(x), frame, np.arange(len(x)))
    expected = stein_by_autodiff(field_of(kind, frame, j, None), target, x)
    np.testing.assert_allclose(getattr(sums, kind)[:, j], expected, rtol=1e-9, atol=1e-9)


def test_correlation_overall_scale_and_modes_of_their_own_too(two_modes):
    target, _, x, frame = two_modes
    sums = feature_sums(x, target.score(x), frame, np.arange(len(x)))
    by_field = partial(stein_by_autodiff, target=target, x=x)
    pair = by_field(field_of("correlation", frame, 0, None, i=1))
    np.testing.assert_allclose(sums.correlation[:, 0], pair, rtol=1e-9, atol=1e-9)
    for column, kind in enumerate(("overall scale", "radial tails")):
        expected = by_field(field_of(kind, frame, 0, None))
        np.testing.assert_allclose(sums.radial[:, column], expected, rtol=1e-9, atol=1e-9)
    for mode in (0, 1):
        expected = by_field(field_of("scale", frame, 2, mode))
        np.testing.assert_allclose(sums.mode_scale[mode][:, 2], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sums.mode_count.sum(axis=0), 1.0)
    np.testing.assert_allclose(sums.mode_scale.sum(axis=0), sums.scale, atol=1e-9)


@pytest.mark.parametrize("df", [1.0, 3.0, np.inf])
def test_every_feature_has_mean_zero_by_quadrature(df):
    def log_density(x):
        return -0.5 * x[0] ** 2 if np.isinf(df) else -0.5 * (df + 1) * jnp.log1p(x[0] ** 2 / df)

    target = sc.from_jax(log_density, dim=1)
    frame = make_frame(as_modes([[0.0]], target), np.linspace(-3, 4, 50)[:, None])
    law = stats.norm() if np.isinf(df) else stats.t(df)
    x = law.ppf((np.arange(20_000) + 0.5) / 20_000)[
        :, None
    ]  # the midpoint rule for the probability transform
    sums = feature_sums(x, target.score(x), frame, np.arange(len(x)))
    for name in ("location", "scale", "skewness", "tails", "extremes"):
        values = getattr(sums, name)[:, 0]
        assert abs(values.mean()) < 2e-3 * values.std(), name


def test_tails_and_skewness_do_not_see_scale_and_location_of_a_gaussian():
    def expectation(f):
        return integrate.quad(lambda z: f(z) * stats.norm.pdf(z), -12, 12)[0]

    def cubic(z):
        return z**3 / (1 + (z / DAMPING) ** 2) ** 2

    def bowl(z):
        return z**2 / (1 + (z / DAMPING) ** 2) ** 1.5

    assert tail_coefficient(1) == pytest.approx(expectation(lambda z: z * cubic(z)), abs=2e-3)
    assert skew_coefficient() == pytest.approx(expectation(bowl), abs=2e-3)


def test_sums_do_not_depend_on_how_draws_are_cut_into_pieces(two_modes):
    target, _, _, frame = two_modes
    x = target.sample(2000, rng=1)
    scores = target.score(x)
    single = feature_sums(x, scores, frame, np.arange(2000))
    blocks = np.repeat([0, 1, 2], [1500, 3, 497])
    together = feature_sums(x, scores, frame, blocks)
    for one, many in zip(single[:9], together[:9], strict=True):
        expected = [one[blocks == b].sum(axis=0) for b in range(3)]
        np.testing.assert_allclose(many, expected, atol=1e-7)
    np.testing.assert_allclose(single.mode_z, together.mode_z, atol=1e-7)


def test_columns_and_sums_have_one_order(two_modes):
    target, _, _, frame = two_modes
    x = target.sample(500, 2)
    sums = feature_sums(x, target.score(x), frame, np.arange(500))
    about, parts = columns_of(frame, sums, ranked=False)
    assert len(about) == sum(part.shape[1] for part in parts)
    j = next(i for i, c in enumerate(about) if (c.kind, c.mode, c.directions) == ("scale", 1, (2,)))
    np.testing.assert_array_equal(np.concatenate(parts, axis=1)[:, j], sums.mode_scale[1][:, 2])


def test_a_correlation_is_tested_with_the_standard_deviations_held_fixed():
    target, modes = gaussian_with_modes(CORRELATED)
    x = np.random.default_rng(0).normal(size=(50, 3))
    frame = make_frame(as_modes(modes, target), x)
    sums = feature_sums(x, target.score(x), frame, np.arange(50))
    z = x / np.sqrt(np.diag(CORRELATED))
    r = 0.8 / np.sqrt(2)
    expected = r - z[:, 0] * z[:, 1] - 0.5 * r * (2 - z[:, 0] ** 2 - z[:, 1] ** 2)
    np.testing.assert_allclose(pure_correlation(sums, frame)[:, 0], expected, atol=1e-10)


def test_own_coordinates_of_a_gaussian_are_plain_moments():
    """With the right covariance the conjugate score is -z: the features are moments of the draws."""
    target, modes = gaussian_with_modes(CORRELATED)
    x = np.random.default_rng(0).normal(size=(30, 3))
    frame = make_frame(as_modes(modes, target), x)
    sums = feature_sums(x, target.score(x), frame, np.arange(30))
    z = x / np.sqrt(np.diag(CORRELATED))
    np.testing.assert_allclose(sums.location[:, :3], -z, atol=1e-12)
    np.testing.assert_allclose(sums.scale[:, :3], 1 - z**2, atol=1e-12)
    whitened = np.sum(np.linalg.solve(np.linalg.cholesky(CORRELATED), x.T) ** 2, axis=0)
    np.testing.assert_allclose(sums.radial[:, 0], 3 - whitened, atol=1e-10)


def test_a_diagonal_covariance_has_no_axes_and_nothing_conditional():
    target, modes = gaussian_with_modes(np.diag([1.0, 100.0, 1e-4]))
    frame = make_frame(as_modes(modes, target), np.zeros((5, 3)))
    assert frame.n_axes == 0
    assert len(frame.constants.conditional) == 0


def test_pairs_beyond_the_budget_are_left_out_and_reported(monkeypatch):
    monkeypatch.setattr(coordinates, "MAX_CORRELATIONS", 200)
    d = 24
    target, modes = gaussian_with_modes(np.eye(d))
    x = np.random.default_rng(0).normal(size=(300, d))
    with pytest.warns(UserWarning, match="76 of the correlations were left out"):
        result = sc.moment_test(x, target, modes=modes, n_resamples=49, check_score=False, rng=0)
    assert result.pairs_left_out == d * (d - 1) // 2 - 200
    assert sum(f.kind == "scale" for f in result.features) == d


def test_step_down_p_values_against_a_plain_computation():
    rng = np.random.default_rng(5)
    sums = rng.normal(size=(400, 6)) + np.array([0.2, 0, 0, 0.1, 0, 0])
    found = max_t(sums, np.zeros(6, dtype=int), np.ones(6, dtype=bool), 499, np.random.default_rng(1))
    np.testing.assert_allclose(found.t, stats.ttest_1samp(sums, 0).statistic, rtol=1e-10)
    order = np.argsort(-np.abs(found.t))
    assert (np.diff(found.adjusted[order]) >= 0).all()
    assert found.adjusted[order[0]] == pytest.approx(
        (1 + np.sum(found.null >= found.statistic)) / 500, abs=1 / 400
    )
    bonferroni = 6 * stats.ttest_1samp(sums, 0).pvalue
    assert (found.adjusted <= bonferroni + 0.02).all()


@pytest.mark.slow
def test_dependence_between_halves_of_blocks_enlarges_standard_errors():
    """AR(1), 60 half blocks of 3 autocorrelation times: whole blocks vary 1.1 times as much."""
    rng = np.random.default_rng(8)
    kinds = np.repeat([0, 1], 15)
    pvalues = {True: [], False: []}
    for _ in range(300):
        sums = ar1_chains(rng, 1, 1020, 30, 0.7).reshape(60, 17, 30).sum(axis=1)
        for halves in pvalues:
            found = max_t(sums, kinds, kinds == 0, 199, rng, halves=halves)
            pvalues[halves].append(found.adjusted.min())
    assert_level(pvalues[True])
    assert count_rejections(pvalues[False], 0.05) > count_rejections(pvalues[True], 0.05)


def test_many_columns_of_one_part_do_not_raise_the_threshold_of_the_other():
    rng = np.random.default_rng(3)
    sums = rng.normal(size=(1000, 502))
    first = np.arange(502) < 2
    found = max_t(sums, np.where(first, 0, 1), first, 1999, rng)
    alone = stats.norm.isf(0.025 / 4)
    assert np.quantile(found.null, 0.95) == pytest.approx(alone, rel=0.06)  # of all 502 it would be 3.9


def test_a_column_without_spread_is_certain_or_nothing():
    sums = np.random.default_rng(0).normal(size=(200, 3))
    sums[:, 1] = 0.7
    sums[:, 2] = 0.0
    found = max_t(sums, np.zeros(3, dtype=int), np.ones(3, dtype=bool), 99, np.random.default_rng(0))
    assert found.t[1] == np.inf
    assert found.adjusted[1] == 0.01
    assert found.t[2] == 0


def test_ranks_on_rays_from_a_mode_said_to_be_far_too_wide():
    x = np.random.default_rng(0).normal(size=(100, 2))
    ranks, wide = (ray_ranks(normal_log_density, x, np.zeros(2), s * np.eye(2)) for s in (1.0, 1e-10))
    np.testing.assert_allclose(wide, ranks, atol=1e-3)


@pytest.mark.parametrize("d", [1, 5, 40])
def test_ranks_on_rays_are_those_of_the_radius(d):
    x = np.random.default_rng(d).normal(size=(300, d)) * 2
    ranks = ray_ranks(lambda y: normal_log_density(y) / 4, x, np.zeros(d), np.eye(d))
    np.testing.assert_allclose(ranks, stats.chi2.cdf(np.sum(x**2, axis=1) / 4, d), atol=2e-3)


@pytest.mark.slow
def test_rays_across_a_thin_ridge_have_exact_ranks():
    """Ranks of the draws at the top of the ridge only would be missing, were it not resolved."""
    rng = np.random.default_rng(0)
    centre = np.array([1.0, 1e-3])  # off the ridge, which is 1e-6 wide
    x = rng.normal(size=(200, 2)) * [1.0, 1e-6]
    ranks = ray_ranks(lambda y: -0.5 * (y[:, 0] ** 2 + (y[:, 1] / 1e-6) ** 2), x, centre, np.eye(2))
    assert np.isfinite(ranks).all()
    assert_uniform(ranks)


def test_no_ranks_are_used_where_the_draws_in_a_needle_have_none():
    """A fine grid for the wide component misses the needle upon it: the ranks that are left are no sample."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(50, 1)), 1 + 1e-6 * rng.normal(size=(50, 1))])
    target = sc.models.gaussian_mixture([[0.0], [1.0]], [[[1.0]], [[1e-12]]])
    assert np.isnan(ray_ranks(target.log_density, x, np.zeros(1), np.eye(1))).all()


def test_tails_of_a_coordinate_given_the_others():
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    precision = np.linalg.inv(covariance)
    x = np.array([[3.0, 0.0], [0.5, -1.0]])
    centre = 0.9 * x[:, 1]
    sd = np.sqrt(1 - 0.81)
    found = coordinate_tails(
        lambda y: -0.5 * np.einsum("ni,ij,nj->n", y, precision, y),
        x,
        np.zeros(2, dtype=int),
        centre,
        np.full(2, sd),
    )
    exact = 2 * stats.norm.sf((x[:, 0] - centre) / sd)
    assert (found >= 0.95 * exact).all()
    assert (found <= 10 * exact).all()
