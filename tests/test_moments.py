"""The moment test: exact identities, level and power, sizes, sentences, errors."""

import re
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ar1_chains, normal_log_density, standard_normal
from scipy import integrate, stats

import steincheck as sc
from steincheck.chains import cut_blocks
from steincheck.modes.given import as_modes
from steincheck.moments import frames, leading
from steincheck.moments.correction import WeightedDraws, solve
from steincheck.moments.features import feature_sums
from steincheck.moments.frames import DAMPING, make_frame, skew_coefficient, tail_coefficient
from steincheck.moments.lines import coordinate_tails, ray_ranks
from steincheck.moments.maximum import max_t
from steincheck.moments.sizes import sizes
from steincheck.moments.table import (
    SHAPE_KINDS,
    _hidden,
    _repeats,
    columns_of,
    pure_correlation,
    unexplained_shapes,
)
from steincheck.moments.test import moment_core
from steincheck.result import MomentFeature
from steincheck.wording import describe, describe_impossible, moment_findings

CORRELATED = np.array([[1.0, 0.8, 0.3], [0.8, 2.0, 0.1], [0.3, 0.1, 0.5]])


def gaussian(covariance, names=None):
    """A Gaussian centred at 0, and its modes."""
    precision = np.linalg.inv(covariance)
    target = sc.Target(
        lambda x: -0.5 * np.einsum("ni,ij,nj->n", x, precision, x),
        lambda x: -x @ precision,
        dim=len(covariance),
        names=names,
    )
    return target, (np.zeros((1, len(covariance))), covariance[None])


def moment_test(x, target, modes, **options):
    """Without warnings of far draws, which are the subject here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sc.moment_test(x, target, modes=modes, rng=0, **options)


def find(result, kind, parameters, basis="own", mode=None):
    """The one feature of this description."""
    found = [
        f
        for f in result.features
        if (f.kind, set(f.parameters), f.basis, f.mode) == (kind, set(parameters), basis, mode)
    ]
    assert len(found) == 1
    return found[0]


# --- the features against an independent computation ---


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
        jacobian = jax.vmap(jax.jacfwd(field))(jnp.asarray(x))
        value = jax.vmap(field)(jnp.asarray(x))
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


def test_a_correlation_is_tested_with_the_standard_deviations_held_fixed():
    target, modes = gaussian(CORRELATED)
    x = np.random.default_rng(0).normal(size=(50, 3))
    frame = make_frame(as_modes(modes, target), x)
    sums = feature_sums(x, target.score(x), frame, np.arange(50))
    z = x / np.sqrt(np.diag(CORRELATED))
    r = 0.8 / np.sqrt(2)
    expected = r - z[:, 0] * z[:, 1] - 0.5 * r * (2 - z[:, 0] ** 2 - z[:, 1] ** 2)
    np.testing.assert_allclose(pure_correlation(sums, frame)[:, 0], expected, atol=1e-10)


def test_own_coordinates_of_a_gaussian_are_plain_moments():
    """With the right covariance the conjugate score is -z: the features are moments of the draws."""
    target, modes = gaussian(CORRELATED)
    x = np.random.default_rng(0).normal(size=(30, 3))
    frame = make_frame(as_modes(modes, target), x)
    sums = feature_sums(x, target.score(x), frame, np.arange(30))
    z = x / np.sqrt(np.diag(CORRELATED))
    np.testing.assert_allclose(sums.location[:, :3], -z, atol=1e-12)
    np.testing.assert_allclose(sums.scale[:, :3], 1 - z**2, atol=1e-12)
    whitened = np.sum(np.linalg.solve(np.linalg.cholesky(CORRELATED), x.T) ** 2, axis=0)
    np.testing.assert_allclose(sums.radial[:, 0], 3 - whitened, atol=1e-10)


def test_a_diagonal_covariance_has_no_axes_and_nothing_conditional():
    target, modes = gaussian(np.diag([1.0, 100.0, 1e-4]))
    frame = make_frame(as_modes(modes, target), np.zeros((5, 3)))
    assert frame.n_axes == 0
    assert len(frame.constants.conditional) == 0


def test_pairs_beyond_the_budget_are_left_out_and_reported(monkeypatch):
    monkeypatch.setattr(frames, "MAX_CORRELATIONS", 200)
    d = 24
    target, modes = gaussian(np.eye(d))
    x = np.random.default_rng(0).normal(size=(300, d))
    with pytest.warns(UserWarning, match="76 of the correlations were left out"):
        result = sc.moment_test(x, target, modes=modes, n_resamples=49, check_score=False, rng=0)
    assert result.pairs_left_out == d * (d - 1) // 2 - 200
    assert sum(f.kind == "scale" for f in result.features) == d


# --- the largest |t| ---


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


def test_dependence_between_halves_of_blocks_enlarges_standard_errors():
    """AR(1), 60 half blocks of 3 autocorrelation times: whole blocks vary 1.1 times as much."""
    rng = np.random.default_rng(8)
    kinds = np.repeat([0, 1], 15)
    rejected = {True: 0, False: 0}
    for _ in range(300):
        sums = ar1_chains(rng, 1, 1020, 30, 0.7).reshape(60, 17, 30).sum(axis=1)
        for halves in rejected:
            found = max_t(sums, kinds, kinds == 0, 199, rng, halves=halves)
            rejected[halves] += found.adjusted.min() <= 0.05
    assert rejected[True] <= stats.binom.isf(1e-5, 300, 0.06)
    assert rejected[False] > rejected[True]


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


# --- level and power ---


def student(d, df=3.0):
    return sc.from_jax(lambda x: -0.5 * (df + d) * jnp.log1p(jnp.sum(x**2) / df), dim=d)


@pytest.mark.parametrize("name", ["Gaussian", "t3", "log-gamma", "mixture"])
def test_level(name):
    rng = np.random.default_rng(11)
    t3 = student(2)
    skew = sc.from_jax(lambda x: jnp.sum(0.5 * x - jnp.exp(x)), dim=2)
    pair = sc.models.gaussian_mixture([[-3.0], [3.0]])
    target, modes, sample = {
        "Gaussian": (
            *gaussian(CORRELATED),
            lambda: rng.multivariate_normal(np.zeros(3), CORRELATED, size=200),
        ),
        "t3": (t3, [[0.0, 0.0]], lambda: rng.normal(size=(200, 2)) / np.sqrt(rng.chisquare(3, (200, 1)) / 3)),
        "log-gamma": (skew, [[np.log(0.5)] * 2], lambda: np.log(rng.gamma(0.5, size=(200, 2)))),
        "mixture": (pair, [[-3.0], [3.0]], lambda: pair.sample(200, rng)),
    }[name]
    known = as_modes(modes, target)
    runs = 40
    rejected = sum(
        moment_test(sample(), target, known, n_resamples=99, check_score=False).reject() for _ in range(runs)
    )
    assert rejected <= stats.binom.isf(1e-5, runs, 0.05)


def test_level_with_blocks_of_dependent_draws():
    """AR(1) chains with correlation 0.9, 20 blocks; without blocks nearly all are rejected."""
    rng = np.random.default_rng(2)
    target, modes = gaussian(np.eye(3))
    known = as_modes(modes, target)
    rejected = {"blocks": 0, "none": 0}
    for _ in range(25):
        x = ar1_chains(rng, 4, 500, 3, 0.9).reshape(-1, 3)
        cut = cut_blocks(10.0, np.repeat(np.arange(4), 500))
        for name, blocks in (("blocks", cut), ("none", None)):
            result = moment_core(
                x, -x, known, "abc", blocks=blocks, n_resamples=99, rng=rng.spawn(1)[0], warnings=[]
            )
            rejected[name] += result.reject()
    assert rejected["blocks"] <= stats.binom.isf(1e-5, 25, 0.06)
    assert rejected["none"] > 12


@pytest.mark.parametrize(
    ("kind", "parameters"), [("scale", {"x[3]"}), ("location", {"x[3]"}), ("correlation", {"x[3]", "x[7]"})]
)
def test_power_and_names_in_twenty_dimensions(kind, parameters):
    target, modes = gaussian(np.eye(20))
    x = np.random.default_rng(4).normal(size=(1000, 20))
    if kind == "scale":
        x[:, 3] *= 1.3
    if kind == "location":
        x[:, 3] += 0.3
    if kind == "correlation":
        x[:, 3] = 0.35 * x[:, 7] + np.sqrt(1 - 0.35**2) * x[:, 3]
    result = moment_test(x, target, modes)
    assert result.pvalue < 0.01
    first = leading(result)[0]
    assert (first.kind, set(first.parameters), first.basis) == (kind, parameters, "own")


def test_overall_scale_in_many_dimensions():
    target, modes = gaussian(np.eye(60))
    x = 0.95 * np.random.default_rng(0).normal(size=(3000, 60))
    result = moment_test(x, target, modes, n_resamples=199)
    (said,) = leading(result)
    assert said.kind == "overall scale"
    assert said.interval[0] < 0.95 < said.interval[1]
    assert "1.05" in describe(said)


def test_nearly_collinear_parameters():
    """Along the ridge and across it: either coordinates or axes alone would miss one of the two."""
    covariance = np.array([[1.0, 0.999], [0.999, 1.0]])
    target, modes = gaussian(covariance, names=["a", "b"])
    rng = np.random.default_rng(6)
    along = rng.multivariate_normal([0.2, 0.2], covariance, size=1000)
    result = moment_test(along, target, modes)
    assert find(result, "location", ["a"]).pvalue < 0.01
    across = rng.multivariate_normal([0.02, -0.02], covariance, size=1000)
    result = moment_test(across, target, modes)
    assert find(result, "location", ["a"]).pvalue > 0.05
    assert result.pvalue < 0.01
    assert leading(result)[0].basis in ("axis 2", "given the others")


def test_a_mean_field_fit_is_named_with_its_factors():
    covariance = np.full((10, 10), 0.9) + 0.1 * np.eye(10)
    target, modes = gaussian(covariance, names=[f"beta[{j}]" for j in range(10)])
    sd = np.linalg.inv(covariance).diagonal() ** -0.5
    x = np.random.default_rng(0).normal(size=(4000, 10)) * sd
    result = moment_test(x, target, modes)
    for j in range(10):
        feature = find(result, "scale", [f"beta[{j}]"])
        assert feature.pvalue <= 0.001
        assert feature.estimate == pytest.approx(sd[j], rel=0.1)
        assert feature.expected == pytest.approx(1.0, rel=0.1)
    pair = find(result, "correlation", ["beta[0]", "beta[1]"])
    assert pair.observed == pytest.approx(0, abs=0.1)
    assert pair.expected == pytest.approx(0.9, abs=0.1)
    assert describe(pair).startswith("correlation of beta[0] and beta[1]: ")
    assert "times too narrow: sd of the draws 0.3" in describe(leading(result)[0])


def test_one_mode_of_several_is_named():
    means = 5 * np.random.default_rng(7).normal(size=(5, 4))
    target = sc.models.gaussian_mixture(means)
    x, label = target.sample_with_labels(2000, 1)
    x[label == 2, 1] = means[2, 1] + 1.6 * (x[label == 2, 1] - means[2, 1])
    said = leading(moment_test(x, target, means))
    assert (said[0].kind, said[0].mode, said[0].parameters) == ("scale", 2, ("x[1]",))
    assert said[0].estimate == pytest.approx(1.6, rel=0.15)
    assert describe(said[0]).startswith("Mode 2: x[1] is 1.")


def test_responsibilities_are_soft_where_draws_pass_from_mode_to_mode():
    """A ring with two tops: between the modes' Gaussians is a strip that holds hardly a draw."""
    target = sc.from_jax(
        lambda x: -0.5 * ((jnp.sqrt(x @ x) - 5) / 0.3) ** 2 + 0.3 * (x[0] ** 2 - x[1] ** 2) / 25, dim=2
    )
    modes = as_modes(np.array([[-5.01082, 0.0], [5.01082, 0.0]]), target)
    rng = np.random.default_rng(0)

    def sample(n):
        radius = 5 + 0.3 * rng.normal(size=8 * n)
        angle = rng.uniform(-np.pi, np.pi, size=8 * n)
        height = radius * np.exp(0.3 * (radius / 5) ** 2 * np.cos(2 * angle))
        x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        return x[rng.random(8 * n) * 10 * np.exp(0.6) < height][:n]

    assert make_frame(modes, sample(180)).constants.sharpness <= 1 / 16
    rejected = sum(
        moment_test(sample(180), target, modes, check_score=False, n_resamples=199).pvalue <= 0.05
        for _ in range(60)
    )
    assert rejected < 15  # 4; with sharpness 1 there are 20
    apart = sc.models.gaussian_mixture([[0.0, 0], [20.0, 0]])
    frame = make_frame(as_modes(np.array([[0.0, 0], [20.0, 0]]), apart), apart.sample(500, 0))
    assert frame.constants.sharpness == 1


def test_a_narrow_mode_beside_a_wide_one():
    target = sc.models.gaussian_mixture([[0.0], [600.0]], [[[1.0]], [[1e4]]])
    x, label = target.sample_with_labels(1000, 0)
    x[label == 0] *= 2
    said = leading(moment_test(x, target, [[0.0], [600.0]]))
    assert (said[0].kind, said[0].mode) == ("scale", 0)
    assert said[0].expected == pytest.approx(1.0, rel=0.15)


# --- shapes and far draws ---


@pytest.mark.parametrize("seed", range(6))
def test_tails_are_named_whether_or_not_a_size_is_given_beside_them(seed):
    """Of Gaussian draws for a t density some have a factor that makes up for the tails, some have none."""
    x = np.random.default_rng(seed).normal(size=(1000, 1))
    result = moment_test(x, student(1), [[0.0]])
    assert {feature.kind for feature in leading(result)} >= {"extremes", "scale"}


@pytest.mark.parametrize("d", [1, 5])
def test_truncated_draws_have_tails_that_are_too_light(d):
    target, modes = gaussian(np.eye(d))
    x = stats.truncnorm.rvs(-2, 2, size=(1000, d), random_state=1)
    result = moment_test(x, target, modes)
    assert result.pvalue < 0.01
    assert any(describe(feature).endswith("are too light") for feature in leading(result))


def test_gaussian_draws_for_a_heavy_tailed_density():
    result = moment_test(np.random.default_rng(0).normal(size=(1000, 1)), student(1), [[0.0]])
    assert "the tails of x[0] are too light" in [describe(feature) for feature in leading(result)]


@pytest.mark.parametrize("df", [1.0, 2.0])
def test_draws_without_variance_are_rejected_and_nothing_is_nan(df):
    x = np.random.default_rng(3).standard_t(df, size=(500, 2))
    target, modes = gaussian(np.eye(2))
    result = moment_test(x, target, modes)
    assert result.pvalue < 0.01
    assert result.impossible_rows
    assert not np.isnan([(f.t, f.pvalue) for f in result.features]).any()


@pytest.mark.parametrize("d", [1, 20])
def test_a_few_draws_far_out_are_found(d):
    target, modes = gaussian(np.eye(d))
    x = np.random.default_rng(0).normal(size=(500, d))
    x[100:105, 0] = 8.0
    result = moment_test(x, target, modes)
    assert result.pvalue < 1e-6
    assert result.impossible_rows == (100, 101, 102, 103, 104)
    assert describe_impossible(result).startswith(
        "At least 5 draws are of negligible probability under the density (rows 100, 101"
    )


def test_draws_far_out_are_named_by_their_rows_where_others_are_held_out():
    target, _ = gaussian(np.eye(2))
    x = np.random.default_rng(0).normal(size=(400, 2))
    x[[300, 350], 0] = 9.0
    assert sc.moment_test(x, target, n_resamples=99, rng=0).impossible_rows == (300, 350)


def test_a_constant_coordinate():
    target, modes = gaussian(np.eye(50))
    x = np.random.default_rng(0).normal(size=(500, 50))
    x[:, 7] = 0.1
    result = moment_test(x, target, modes)
    assert result.pvalue < 0.01
    assert "x[7] is constant" in [describe(feature) for feature in leading(result)]


def test_the_spike_of_a_spike_and_slab():
    target = sc.models.gaussian_mixture([[0.0, 0], [0, 0]], [np.eye(2), 1e4 * np.eye(2)])
    modes = (np.zeros((1, 2)), np.eye(2)[None])
    fits = moment_test(target.sample(500, 0), target, modes)
    assert fits.pvalue > 0.01
    result = moment_test(np.random.default_rng(0).normal(size=(500, 2)), target, modes)
    assert result.pvalue < 0.01
    assert "the draws lie too close to the mode" in [describe(feature) for feature in leading(result)]


def test_ranks_on_rays_from_a_mode_said_to_be_far_too_wide():
    x = np.random.default_rng(0).normal(size=(100, 2))
    ranks, wide = (ray_ranks(normal_log_density, x, np.zeros(2), s * np.eye(2)) for s in (1.0, 1e-10))
    np.testing.assert_allclose(wide, ranks, atol=1e-3)


@pytest.mark.parametrize("d", [1, 5, 40])
def test_ranks_on_rays_are_those_of_the_radius(d):
    x = np.random.default_rng(d).normal(size=(300, d)) * 2
    ranks = ray_ranks(lambda y: normal_log_density(y) / 4, x, np.zeros(d), np.eye(d))
    np.testing.assert_allclose(ranks, stats.chi2.cdf(np.sum(x**2, axis=1) / 4, d), atol=2e-3)


def test_rays_across_a_thin_ridge_have_exact_ranks():
    """Ranks of the draws at the top of the ridge only would be missing, were it not resolved."""
    rng = np.random.default_rng(0)
    centre = np.array([1.0, 1e-3])  # off the ridge, which is 1e-6 wide
    x = rng.normal(size=(200, 2)) * [1.0, 1e-6]
    ranks = ray_ranks(lambda y: -0.5 * (y[:, 0] ** 2 + (y[:, 1] / 1e-6) ** 2), x, centre, np.eye(2))
    assert np.isfinite(ranks).all()
    assert stats.kstest(ranks, "uniform").pvalue > 1e-4


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


# --- sizes ---


def whitened(z):
    """Draws with mean zero and unit covariance, exactly."""
    z = z - z.mean(axis=0)
    return z @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, bias=True))).T


@pytest.mark.parametrize(("score", "error"), [(None, 0.15), (lambda x: -x, 1e-3)])
def test_sizes_for_gaussian_draws_far_off(score, error):
    """Draws with exact moments; one step is nearly right, more steps are."""
    rng = np.random.default_rng(0)
    x = whitened(rng.normal(size=(20_000, 2))) * [0.1, 5.0] + [2.0, -1.0]
    target, modes = gaussian(np.eye(2))
    frame = make_frame(as_modes(modes, target), x)
    effects = sizes(x, -x, np.arange(len(x)) // 200, frame, score, rng)[0][-1]
    np.testing.assert_allclose(effects.shift, [2.0, -1.0], atol=error)
    np.testing.assert_allclose(np.exp(effects.log_factor), [0.1, 5.0], rtol=error)
    np.testing.assert_allclose(effects.correlation, 0.0, atol=1e-8)


@pytest.mark.parametrize("df", [3.0, 8.0])
def test_draws_are_taken_back_to_the_density(df):
    """An affine image of a heavy-tailed sample: the map that is found is its inverse."""
    rng = np.random.default_rng(3)
    exact = rng.normal(size=(20_000, 3)) / np.sqrt(rng.chisquare(df, size=(20_000, 1)) / df)
    stretch = np.array([[0.5, 0.2, 0.0], [0.2, 1.5, 0.0], [0.0, 0.0, 1.0]])
    offset = np.array([0.4, 0.0, -1.0])

    def score(y):
        return -(df + 3) * y / (df + np.sum(y**2, axis=1, keepdims=True))

    x = exact @ stretch + offset
    affine = solve(WeightedDraws(x, score(x), np.ones(len(x))), np.eye(3), score)
    back = affine(x)
    np.testing.assert_allclose(np.cov(back.T), np.cov(exact.T), atol=0.06 * np.trace(np.cov(exact.T)))
    np.testing.assert_allclose(affine.matrix @ stretch @ (affine.matrix @ stretch).T, np.eye(3), atol=0.06)
    np.testing.assert_allclose(affine(offset[None]), 0.0, atol=0.05)


@pytest.mark.parametrize("name", ["t", "log-gamma"])
def test_intervals_cover_far_from_the_density_and_off_gaussian(name):
    """One step from these draws underestimates the factor so much that hardly any interval holds it.

    Of 30 intervals 22 must: if one in three did, with a probability of 1e-5; at 94 %, all but 1e-4.
    """
    rng = np.random.default_rng(2)
    runs = 30
    if name == "t":
        target, modes = student(2), np.zeros((1, 2))
        samples = [
            rng.normal(size=(400, 2)) / np.sqrt(rng.chisquare(3, size=(400, 1)) / 3) for _ in range(runs)
        ]
    else:
        target = sc.from_jax(lambda x: jnp.sum(3 * x - jnp.exp(x)), dim=2)
        modes = np.full((1, 2), np.log(3))
        samples = [np.log(rng.gamma(3, size=(400, 2))) for _ in range(runs)]
    known = as_modes(modes, target)
    covered = 0
    for x in samples:
        result = moment_test(x * [0.6, 1.0], target, known, n_resamples=19, check_score=False)
        low, high = find(result, "scale", ["x[0]"]).interval
        covered += low <= 0.6 <= high
    assert covered >= stats.binom.ppf(1e-4, runs, 0.94)


def test_a_better_fit_looks_better():
    """Mean-field against full-rank Gaussian of a posterior that is correlated and skew."""

    def log_density(x):  # log of a rate and a slope, correlation near -0.9
        return 20 * x[0] - 20 * jnp.exp(x[0] + 0.9 * x[1]) + 18 * x[1] - 0.5 * x[1] ** 2

    target = sc.from_jax(log_density, dim=2, names=["rate", "slope"])
    modes = sc.find_modes(target, bounds=(-3, 3), rng=0)
    rng = np.random.default_rng(0)
    covariance = modes.covariances[0]
    narrow = np.linalg.inv(covariance).diagonal() ** -0.5
    full = rng.multivariate_normal(modes.locations[0], covariance, size=2000)
    mean_field = modes.locations[0] + narrow * rng.normal(size=(2000, 2))
    worse = moment_test(mean_field, target, modes)
    better = moment_test(full, target, modes)
    for kind, parameters in (("scale", ["rate"]), ("scale", ["slope"])):
        sizes_of = [abs(np.log(find(fit, kind, parameters).estimate)) for fit in (better, worse)]
        assert sizes_of[0] < 0.5 * sizes_of[1]
    correlation = find(worse, "correlation", ["rate", "slope"])
    true = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert abs(correlation.observed) < 0.1
    assert correlation.expected == pytest.approx(true, abs=0.05)
    assert abs(find(better, "correlation", ["rate", "slope"]).estimate) < 0.1
    sentences = [describe(feature) for feature in leading(worse)]
    assert any("sd of the draws" in text and "should be" in text for text in sentences)
    assert any(text.startswith("correlation of rate and slope: ") for text in sentences)


def test_sizes_that_explain_nothing_are_not_given():
    """Draws far from the density in ways that no affine map explains: NaN, or intervals of some width."""
    target, modes = gaussian(CORRELATED)
    rng = np.random.default_rng(6)
    for x in (rng.gamma(1.0, size=(300, 3)) - 3.0, rng.uniform(4, 5, size=(300, 3))):
        for feature in moment_test(x, target, modes).features:
            low, high = feature.interval
            assert low < high or np.isnan([low, high, feature.estimate]).all(), feature


def test_a_curved_density_gets_no_sizes_but_its_own_copy_does():
    """Gaussian draws for a banana: the best shift and stretch has the wrong direction, and is not told."""
    target = sc.from_jax(lambda x: -(x[0] ** 2) / 8 - 2 * (x[1] - x[0] ** 2 + 4) ** 2, dim=2)
    rng = np.random.default_rng(0)
    modes = [[0.0, -4.0]]
    laplace = moment_test(rng.normal(size=(2000, 2)) * [1.0, 0.5] + modes, target, modes)
    assert laplace.reject()
    assert np.isnan(find(laplace, "scale", ["x[0]"]).estimate)
    bent = sc.from_jax(lambda x: -(x[0] ** 2) / 2 - 2 * (x[1] - 0.3 * x[0] ** 2) ** 2, dim=2)
    first = rng.normal(size=2000)
    exact = np.stack([first, 0.3 * first**2 + 0.5 * rng.normal(size=2000)], axis=1)
    shrunk = moment_test(exact * 0.7, bent, [[0.0, 0.0]])
    assert find(shrunk, "scale", ["x[0]"]).estimate == pytest.approx(0.7, rel=0.1)


def test_intervals_cover():
    rng = np.random.default_rng(1)
    target, modes = gaussian(np.eye(2))
    known = as_modes(modes, target)
    hits = np.zeros(3)
    runs = 60
    for _ in range(runs):
        x = rng.normal(size=(300, 2)) * [1.3, 1.0] + [0.0, 0.2]
        result = moment_test(x, target, known, n_resamples=19, check_score=False)
        sizes = (
            ("scale", ["x[0]"], 1.3),
            ("location", ["x[1]"], 0.2),
            ("correlation", ["x[0]", "x[1]"], 0.0),
        )
        for k, (kind, parameters, truth) in enumerate(sizes):
            low, high = find(result, kind, parameters).interval
            hits[k] += low <= truth <= high
    assert (hits >= stats.binom.ppf(1e-5, runs, 0.94)).all()


# --- the door ---


def test_repeated_draws_are_noted():
    target, modes = gaussian(np.eye(2))
    x = np.random.default_rng(0).normal(size=(200, 2))
    x[150:160] = x[:10]
    with pytest.warns(UserWarning, match="10 of 200 draws repeat others exactly"):
        sc.moment_test(x, target, modes=modes, rng=0)


def test_the_result_is_a_table_that_can_be_written_down_and_run_again():
    target, modes = gaussian(CORRELATED, names=["mu", "sigma", "tau"])
    x = np.random.default_rng(0).multivariate_normal(np.zeros(3), CORRELATED, size=300)
    result = sc.moment_test(x, target, modes=modes, rng=5)
    again = sc.moment_test(x, target, modes=modes, rng=result.settings["rng"])
    assert again.pvalue == result.pvalue
    assert [abs(f.t) for f in result.features] == sorted((abs(f.t) for f in result.features), reverse=True)
    assert result.significant(0.999)
    assert all(f.pvalue <= 0.5 for f in result.significant(0.5))
    assert result.to_json()
    assert isinstance(result.features[0].to_dict()["interval"], list)
    assert not leading(result)


def test_modes_are_searched_where_none_are_given():
    target = sc.models.gaussian_mixture([[-4.0], [4.0]])
    result = sc.moment_test(target.sample(400, 0), target, bounds=(-10, 10), rng=0)
    assert len(result.modes) == 2
    assert not result.reject(0.001)


def test_a_new_number_of_draws_gives_the_same_answer_by_blocks():
    """Beyond 2000 draws neighbours are added up first."""
    target, modes = gaussian(np.eye(2))
    x = np.random.default_rng(0).normal(size=(9000, 2)) * [1.1, 1.0]
    result = moment_test(x, target, modes)
    assert 1000 <= result.n_blocks <= 2000
    assert leading(result)[0].parameters == ("x[0]",)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"target": "normal"}, TypeError, "`target` must be a steincheck.Target"),
        ({"draws": np.zeros((100, 3))}, ValueError, "`draws` must have shape"),
        ({"draws": np.full((100, 2), np.nan)}, ValueError, "`draws` must be finite"),
        ({"draws": np.zeros((5, 2))}, ValueError, "`draws` must hold at least 20 draws, got 5"),
        ({"n_resamples": 0}, ValueError, "`n_resamples` must be a positive integer"),
        ({"bounds": (-1, 1)}, ValueError, "`bounds` is the box of the mode search"),
        ({"modes": [[0.0, 0, 0]]}, ValueError, "`modes` must have shape"),
        ({"rng": "seed"}, TypeError, "`rng` must be"),
    ],
)
def test_bad_input(change, error, match):
    target, modes = gaussian(np.eye(2))
    draws = np.random.default_rng(0).normal(size=(100, 2))
    arguments = {"draws": draws, "target": target, "modes": modes, **change}
    with pytest.raises(error, match=match):
        sc.moment_test(arguments.pop("draws"), arguments.pop("target"), **arguments)


def test_a_density_that_fails_far_out_is_tested_all_the_same():
    def log_density(x):
        if np.abs(x).max() > 50:
            raise ValueError("out of range")
        return normal_log_density(x)

    target = sc.Target(log_density, lambda x: -x, dim=2)
    x = np.random.default_rng(0).normal(size=(200, 2))
    result = sc.moment_test(x, target, modes=np.zeros((1, 2)), rng=0)
    assert result.pvalue > 0.01
    x[7, 0] = 12.0
    assert sc.moment_test(x, target, modes=np.zeros((1, 2)), rng=0).impossible_rows == (7,)


def test_columns_and_sums_have_one_order(two_modes):
    target, _, _, frame = two_modes
    x = target.sample(500, 2)
    sums = feature_sums(x, target.score(x), frame, np.arange(500))
    about, parts = columns_of(frame, sums, ranked=False)
    assert len(about) == sum(part.shape[1] for part in parts)
    j = next(i for i, c in enumerate(about) if (c.kind, c.mode, c.directions) == ("scale", 1, (2,)))
    np.testing.assert_array_equal(np.concatenate(parts, axis=1)[:, j], sums.mode_scale[1][:, 2])


def test_the_forest_plot_shows_the_leading_sizes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    target, modes = gaussian(np.eye(3), names=["mu", "sigma", "tau"])
    x = np.random.default_rng(0).normal(size=(500, 3)) * [1, 2, 1] + [0.5, 0, 0]
    ax = sc.plot.effect_sizes(moment_test(x, target, modes))
    assert {text.get_text() for text in ax.get_yticklabels()} == {
        "mean of mu: +0.37 sd",
        "sd of sigma: x 1.9",
    }
    quiet = sc.plot.effect_sizes(moment_test(np.random.default_rng(1).normal(size=(500, 3)), target, modes))
    assert quiet.texts[0].get_text() == "no misfit with a size"
    matplotlib.pyplot.close("all")


def test_few_draws_few_replicates_and_overflow_are_told(normal_target):
    x = np.random.default_rng(30).normal(size=(60, 2))
    modes = [[0.0, 0.0]]
    with pytest.warns(
        UserWarning, match="only 60 draws: below 100 correct samples may be rejected too often"
    ):
        sc.moment_test(x, normal_target, modes=modes, rng=0)


def a_feature(kind="scale", **changes):
    fields = {"basis": "own", "mode": None, "parameters": ("a",), "loadings": (), "estimate": 1.5}
    fields |= {
        "interval": (1.4, 1.6),
        "observed": 1.5,
        "expected": 1.0,
        "t": 9.0,
        "pvalue": 0.001,
        "scales": (),
    }
    return MomentFeature(kind, **(fields | changes))


@pytest.mark.parametrize(
    ("shape", "others", "hidden"),
    [
        ({}, [{"kind": "location", "estimate": 1.2}], True),
        ({}, [{"kind": "location", "estimate": 0.8}], False),
        ({}, [{"kind": "scale", "estimate": 0.5}], True),
        ({}, [{"kind": "correlation", "estimate": 0.6}], True),
        ({"mode": 1}, [{"kind": "location", "estimate": 1.2, "mode": 0}], False),
        ({"mode": 1}, [{"kind": "location", "estimate": 1.2, "mode": 1}], True),
        ({}, [{"kind": "scale", "estimate": np.nan}], False),
    ],
)
def test_a_shape_is_not_told_beside_a_shift_that_alone_would_make_it_look_wrong(shape, others, hidden):
    assert _hidden(a_feature("tails", **shape), [a_feature(**other) for other in others]) is hidden


def test_a_misfit_of_another_mode_and_of_another_kind_is_no_repetition():
    wide = a_feature(mode=0)
    assert not _repeats(a_feature(mode=1), wide)
    assert _repeats(a_feature(mode=0), wide)
    overall = a_feature("overall scale", basis="all", parameters=())
    assert _repeats(wide, overall)  # all are 1.5 times too wide, and so is this one
    assert not _repeats(a_feature(estimate=4.0, interval=(3.9, 4.1)), overall)
    assert not _repeats(a_feature("location"), overall)


@pytest.mark.parametrize("by", ["log density", "coordinate"])
def test_the_order_of_independent_draws_does_not_matter(by):
    """Sorted draws, as those of nested sampling are, have the sizes of the same draws unsorted."""
    target = standard_normal(2)
    n = 8000
    x = np.random.default_rng(5).normal(size=(n, 2)) * [1, 1 + 4.5 / np.sqrt(2 * n)]
    key = target.log_density(x) if by == "log density" else x[:, 0]
    results = [
        sc.moment_test(draws, target, modes=np.zeros((1, 2)), independent=True, rng=0)
        for draws in (x, x[np.argsort(key)])
    ]
    plain, ordered = (
        next(f for f in result.features if f.kind == "scale" and f.parameters == ("x[1]",))
        for result in results
    )
    assert abs(ordered.t) == pytest.approx(abs(plain.t), rel=0.1)
    assert np.diff(ordered.interval) == pytest.approx(np.diff(plain.interval), rel=0.25)
    assert max(result.pvalue for result in results) < 0.01


def test_draws_that_no_map_corrects_have_no_sizes():
    """The map that comes nearest puts some where the density has a slope of 1e22 or 1e63."""
    target = sc.Target(lambda x: x[:, 0] - np.exp(x[:, 0]), lambda x: 1 - np.exp(x), dim=1)
    for seed in (2, 3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(100, 1)) + np.where(rng.random(100) < 0.5, -3, 3)[:, None]
        result = sc.moment_test(x, target, modes=[[0.0]], rng=0)
        assert result.pvalue < 1e-6
        assert all(
            np.isnan(feature.estimate) for feature in result.features if feature.kind in ("location", "scale")
        )


# --- what is wrong only because something else is ---


def scale_mixture(k):
    """v ~ N(0, 1), k coordinates x | v ~ N(0, exp(v)): the spread of x depends on v."""

    def log_density(u):
        return -0.5 * u[0] ** 2 - 0.5 * jnp.sum(u[1:] ** 2) * jnp.exp(-u[0]) - 0.5 * k * u[0]

    def draw(n, rng):
        v = rng.normal(size=n)
        return np.column_stack([v, np.exp(v / 2)[:, None] * rng.normal(size=(n, k))])

    names = ["v", *(f"x{i}" for i in range(k))]
    return sc.from_jax(log_density, dim=1 + k, names=names), draw


@pytest.mark.parametrize(
    ("shift", "factor", "said"),
    [
        (0.3, 1.0, r"Mean of v is 0.\d+ sd \(.*\) too high: .* should be 0$"),
        (0.0, 1.4, r"v is 1.\d+ \(.*\) times too wide: .*"),
    ],
)
def test_what_a_wrong_scale_explains_is_not_reported_beside_it(shift, factor, said):
    """The tails of all x were said to be too light, though they are right."""
    target, draw = scale_mixture(3)
    x = draw(1000, np.random.default_rng(0))
    x[:, 0] = shift + factor * x[:, 0]
    result = moment_test(x, target, [[-1.5, 0.0, 0.0, 0.0]])
    wrong = {f.parameters for f in result.significant() if f.kind in SHAPE_KINDS}
    assert {("x0",), ("x1",), ("x2",)} & wrong  # given v they are
    assert not unexplained_shapes(result)
    found = moment_findings(result, result.pvalue, 0.05, names=target.names)
    assert len(found) == 1
    assert re.fullmatch(said, found[0].text)


def test_a_shape_that_no_size_explains_is_reported_beside_sizes():
    target = standard_normal(2, names=["a", "b"])
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.gamma(9, size=1000) / 3 - 3, rng.normal(0, 0.8, size=1000)])
    result = moment_test(x, target, [[0.0, 0.0]])
    assert find(result, "skewness", ["a"]) in unexplained_shapes(result)
    texts = [finding.text for finding in moment_findings(result, result.pvalue, 0.05, names=["a", "b"])]
    assert texts[0] == "b is too narrow, by a factor of roughly 1.3; the shape is wrong too"
    assert "a given the others is too skewed to the right" in texts


def test_sizes_are_rough_where_corrected_draws_have_a_wrong_shape():
    """Where v is too narrow and x right given v, no affine map corrects: sd 0.92 was called right, not 1."""
    target = scale_mixture(1)[0]
    rng = np.random.default_rng(0)
    v = rng.normal(0, 0.6, size=1000)
    x = np.column_stack([v, np.exp(v / 2) * rng.normal(size=1000)])
    result = moment_test(x, target, [[-0.5, 0.0]])
    assert unexplained_shapes(result)
    text = moment_findings(result, result.pvalue, 0.05, names=target.names)[0].text
    assert text == "v is too narrow, by a factor of roughly 1.6; the shape is wrong too"


def test_a_size_2_standard_errors_from_nothing_is_not_reported():
    """Its feature is off because of another parameter; one in twenty of such 95 % intervals leaves out 1."""
    target, draw = scale_mixture(3)
    x = draw(4000, np.random.default_rng(0))
    x[:, 0] += 0.3
    result = moment_test(x, target, [[-1.5, 0.0, 0.0, 0.0]])
    near = find(result, "scale", ["x0"])
    assert near.pvalue < 0.01
    assert near.interval[1] < 1.005
    assert [feature.parameters for feature in leading(result)] == [("v",)]
