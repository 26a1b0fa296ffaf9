"""The moment test: level and power, names of what is wrong, far draws, errors."""

import numpy as np
import pytest
from harness import (
    CORRELATED,
    ar1_chains,
    assert_level,
    find_feature,
    gaussian_with_modes,
    quiet_moment_test,
    standard_normal,
)
from scipy import stats

import steincheck as sc
from experiments.weights_study import weighted_draws
from steincheck.chains.reading import Sample
from steincheck.modes.known import as_modes
from steincheck.moments.core import blocks_of_chains


@pytest.mark.parametrize(
    ("kind", "parameters"), [("scale", {"x[3]"}), ("location", {"x[3]"}), ("correlation", {"x[3]", "x[7]"})]
)
def test_power_and_names_in_twenty_dimensions(kind, parameters):
    target, modes = gaussian_with_modes(np.eye(20))
    x = np.random.default_rng(4).normal(size=(1000, 20))
    if kind == "scale":
        x[:, 3] *= 1.3
    if kind == "location":
        x[:, 3] += 0.3
    if kind == "correlation":
        x[:, 3] = 0.35 * x[:, 7] + np.sqrt(1 - 0.35**2) * x[:, 3]
    result = quiet_moment_test(x, target, modes)
    assert result.pvalue < 0.01
    first = result.features[0]
    assert (first.kind, set(first.parameters), first.basis) == (kind, parameters, "parameter")


def test_nearly_collinear_parameters():
    """Along the ridge and across it: either coordinates or axes alone would miss one of the two."""
    covariance = np.array([[1.0, 0.999], [0.999, 1.0]])
    target, modes = gaussian_with_modes(covariance, names=["a", "b"])
    rng = np.random.default_rng(6)
    along = rng.multivariate_normal([0.2, 0.2], covariance, size=1000)
    result = quiet_moment_test(along, target, modes)
    assert find_feature(result, "location", ["a"]).pvalue < 0.01
    across = rng.multivariate_normal([0.02, -0.02], covariance, size=1000)
    result = quiet_moment_test(across, target, modes)
    own = find_feature(result, "location", ["a"])  # hardly moved, as its plain t says
    assert abs(own.t) == pytest.approx(abs(stats.ttest_1samp(across[:, 0], 0).statistic), rel=0.05)
    assert result.pvalue < 0.01
    assert result.features[0].basis in ("axis 2", "given the others")


def test_one_mode_of_several_is_named():
    means = 5 * np.random.default_rng(7).normal(size=(5, 4))
    target = sc.models.gaussian_mixture(means)
    x, label = target.sample_with_labels(2000, 1)
    x[label == 2, 1] = means[2, 1] + 1.6 * (x[label == 2, 1] - means[2, 1])
    result = quiet_moment_test(x, target, means)
    wrong = [f for f in result.significant(0.01) if f.kind == "scale" and f.mode is not None]
    assert {(f.mode, f.parameters) for f in wrong} == {(2, ("x[1]",))}


def test_a_narrow_mode_beside_a_wide_one():
    target = sc.models.gaussian_mixture([[0.0], [600.0]], [[[1.0]], [[1e4]]])
    x, label = target.sample_with_labels(1000, 0)
    x[label == 0] *= 2
    result = quiet_moment_test(x, target, [[0.0], [600.0]])
    assert find_feature(result, "scale", ["x[0]"], mode=0).t > 10
    assert find_feature(result, "scale", ["x[0]"], mode=1).pvalue > 0.05


@pytest.mark.parametrize("df", [1.0, 2.0])
def test_draws_without_variance_are_rejected_and_nothing_is_nan(df):
    x = np.random.default_rng(3).standard_t(df, size=(500, 2))
    target, modes = gaussian_with_modes(np.eye(2))
    result = quiet_moment_test(x, target, modes)
    assert result.pvalue < 0.01
    assert not np.isnan([(f.t, f.pvalue) for f in result.features]).any()


def test_a_constant_coordinate():
    target, modes = gaussian_with_modes(np.eye(50))
    x = np.random.default_rng(0).normal(size=(500, 50))
    x[:, 7] = 0.1
    found = find_feature(quiet_moment_test(x, target, modes), "scale", ["x[7]"])
    assert (found.t, found.pvalue) == (-np.inf, 0.001)


def test_moments_along_a_direction_with_skew_scores_are_left_out():
    """Of the logarithm of a gamma variable with a small shape beside a Gaussian coordinate."""
    target = sc.Target(
        lambda x: 0.05 * x[:, 0] - np.exp(x[:, 0]) - 0.5 * x[:, 1] ** 2,
        lambda x: np.stack([0.05 - np.exp(x[:, 0]), -x[:, 1]], axis=1),
        dim=2,
    )
    rng = np.random.default_rng(1)
    x = np.stack([np.log(rng.gamma(0.05, size=100).clip(1e-300)), rng.normal(size=100)], axis=1)
    modes = (np.array([[np.log(0.05), 0.0]]), np.diag([20.0, 1.0])[None])
    with pytest.warns(UserWarning, match="moments were left out"):
        result = sc.moment_test(x, target, modes=modes, rng=0)
    about = {name for f in result.features if not f.kind.startswith("radius") for name in f.parameters}
    assert about == {"x[1]"}
    with pytest.warns(UserWarning, match="moments were left out"):
        alone = sc.moment_test(
            x[:, :1],
            sc.Target(lambda x: np.sum(0.05 * x - np.exp(x), axis=1), lambda x: 0.05 - np.exp(x), dim=1),
            modes=([[np.log(0.05)]], [[[20.0]]]),
            rng=0,
        )
    assert np.isnan(alone.pvalue)


def spike_and_slab():
    target = sc.models.gaussian_mixture([[0.0, 0], [0, 0]], [np.eye(2), 1e4 * np.eye(2)])
    return target, (np.zeros((1, 2)), np.eye(2)[None])


def test_the_spike_of_a_spike_and_slab():
    """The score near the spike does not know of the slab; ranks on rays do."""
    target, modes = spike_and_slab()
    result = quiet_moment_test(np.random.default_rng(0).normal(size=(500, 2)), target, modes)
    found = find_feature(result, "radius", [], "all")
    assert found.t < -6
    assert found.pvalue < 0.01


@pytest.mark.slow
def test_level_of_a_spike_and_slab():
    target, modes = spike_and_slab()
    correct = [target.sample(500, seed) for seed in range(60)]
    assert_level([quiet_moment_test(x, target, modes, n_resamples=99).pvalue for x in correct])


@pytest.mark.parametrize("d", [2, 10])
def test_a_dependence_that_is_no_correlation(d):
    target, modes = gaussian_with_modes(np.eye(d))
    x = np.random.default_rng(0).normal(size=(500, d))
    x[:, 1] = 0.4 * (x[:, 0] ** 2 - 1) / np.sqrt(2) + np.sqrt(1 - 0.4**2) * x[:, 1]
    result = quiet_moment_test(x, target, modes)
    (found,) = [f for f in result.significant(0.01) if f.kind == "curvature"]
    assert found.parameters == ("x[0]", "x[1]")
    assert found.t > 5


def test_the_result_is_a_table_that_can_be_written_down_and_run_again():
    target, modes = gaussian_with_modes(CORRELATED, names=["mu", "sigma", "tau"])
    x = np.random.default_rng(0).multivariate_normal(np.zeros(3), CORRELATED, size=300)
    result = sc.moment_test(x, target, modes=modes, rng=5)
    again = sc.moment_test(x, target, modes=modes, rng=result.settings["rng"])
    assert again.pvalue == result.pvalue == min(f.pvalue for f in result.features)
    assert [abs(f.t) for f in result.features] == sorted((abs(f.t) for f in result.features), reverse=True)
    assert result.significant(0.999)
    assert all(f.pvalue <= 0.5 for f in result.significant(0.5))
    assert result.to_json()
    assert isinstance(result.features[0].to_dict()["parameters"], list)


@pytest.mark.parametrize("key", [None, lambda x: x[:, 0], lambda x: np.abs(x[:, 0])])
def test_the_order_of_many_independent_draws_does_not_matter(key):
    """Beyond 2000 draws groups of them are resampled: sorted draws, as of nested sampling, are not alike."""
    target, modes = gaussian_with_modes(np.eye(2))
    x = np.random.default_rng(0).normal(size=(9000, 2)) * [1.1, 1.0]
    x = x if key is None else x[np.argsort(key(x))]
    result = quiet_moment_test(x, target, modes, independent=True)
    assert 1000 <= result.n_blocks <= 2000
    assert 8 < find_feature(result, "scale", ["x[0]"]).t < 14
    assert find_feature(result, "scale", ["x[1]"]).pvalue > 0.05


def test_the_sign_of_t_is_that_of_the_effect():
    target = standard_normal(2)
    rng = np.random.default_rng(3)
    cut = stats.truncnorm.rvs(-2, 2, size=(1000, 2), random_state=1)
    assert find_feature(quiet_moment_test(cut, target, [[0.0, 0.0]]), "scale", ["x[0]"]).t < -6
    high = quiet_moment_test(rng.normal(0.4, 1.4, size=(500, 2)), target, [[0.0, 0.0]])
    assert find_feature(high, "location", ["x[0]"]).t > 4
    assert find_feature(high, "scale", ["x[0]"]).t > 4
    shared = rng.normal(size=(500, 1))
    correlated = quiet_moment_test(np.sqrt(0.5) * (rng.normal(size=(500, 2)) + shared), target, [[0.0, 0.0]])
    assert find_feature(correlated, "correlation", ["x[0]", "x[1]"]).t > 4
    heavy = quiet_moment_test(rng.standard_t(3, size=(2000, 2)) / np.sqrt(3), target, [[0.0, 0.0]])
    assert find_feature(heavy, "tails", ["x[0]"]).t > 4
    skewed = quiet_moment_test(rng.exponential(size=(500, 2)) - 1, target, [[0.0, 0.0]])
    assert find_feature(skewed, "skewness", ["x[0]"]).t > 4


def sample_of(x, **parts):
    """Draws of a standard normal density with their scores."""
    return Sample(x, np.zeros(len(x)), scores=-x, **parts)


def test_weights_correct_wide_draws_and_copies_are_no_further_evidence():
    target, modes = gaussian_with_modes(np.eye(2))
    x, log_weights = weighted_draws(1, 2, "wide", "", 500, np.random.default_rng(0))
    options = {"modes": modes, "rng": 0, "n_resamples": 199}
    assert sc.moment_test(x, target, **options).pvalue <= 0.005
    weighted = sc.moment_test(x, target, log_weights=log_weights, **options)
    assert weighted.pvalue > 0.05
    same = sc.moment_test(x, target, weights=3 * np.exp(log_weights), **options)
    assert same.pvalue == weighted.pvalue
    assert sc.moment_test(x, target, weights=np.ones(500), **options).pvalue <= 0.005
    exact = np.random.default_rng(1).normal(size=(200, 2))
    copied = quiet_moment_test(np.tile(exact, (5, 1)), target, modes, independent=True)
    assert copied.n_blocks == 200
    assert copied.statistic == pytest.approx(quiet_moment_test(exact, target, modes).statistic, rel=0.05)
    few = quiet_moment_test(exact[np.arange(90) * 7 % 10], target, modes, independent=True)
    assert np.isnan(few.pvalue)
    assert "cannot tell: the draws are only 10 independent groups" in few.warnings[-1]


def test_the_slowest_coordinate_sets_the_length_of_blocks():
    rng = np.random.default_rng(1)
    fast = ar1_chains(rng, 4, 1000, 9, 0.0).reshape(-1, 9)
    slow = ar1_chains(rng, 4, 1000, 1, 0.9).reshape(-1, 1)
    target, modes = gaussian_with_modes(np.eye(10))
    known = as_modes(modes, target)
    chain = np.repeat(np.arange(4), 1000)
    mixed = np.concatenate([fast, slow], axis=1)
    sample = sample_of(mixed, chain=chain)
    assert blocks_of_chains(sample, known).record.autocorrelation_time > 10
    assert blocks_of_chains(sample._replace(chain=None), known) is None
