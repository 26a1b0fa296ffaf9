"""The moment test: level and power, names of what is wrong, far draws, errors."""

import jax.numpy as jnp
import numpy as np
import pytest
from harness import (
    CORRELATED,
    ar1_chains,
    assert_level,
    assert_power,
    find_feature,
    gaussian_with_modes,
    normal_log_density,
    quiet_moment_test,
    standard_normal,
    student,
)
from scipy import stats

import steincheck as sc
from steincheck.chains import cut_blocks
from steincheck.modes.arguments import as_modes
from steincheck.moments import leading_features
from steincheck.moments.coordinates import make_frame
from steincheck.moments.core import moment_core
from steincheck.wording import describe, describe_impossible


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t3", "log-gamma"])
def test_level_off_gaussian(name):
    rng = np.random.default_rng(11)
    t3 = student(2)
    skew = sc.from_jax(lambda x: jnp.sum(0.5 * x - jnp.exp(x)), dim=2)
    target, modes, sample = {
        "t3": (t3, [[0.0, 0.0]], lambda: rng.normal(size=(200, 2)) / np.sqrt(rng.chisquare(3, (200, 1)) / 3)),
        "log-gamma": (skew, [[np.log(0.5)] * 2], lambda: np.log(rng.gamma(0.5, size=(200, 2)))),
    }[name]
    known = as_modes(modes, target)
    options = {"n_resamples": 99, "check_score": False}
    assert_level([quiet_moment_test(sample(), target, known, **options).pvalue for _ in range(40)])


@pytest.mark.slow
def test_level_with_blocks_of_dependent_draws():
    """AR(1) chains with correlation 0.9, 20 blocks; without blocks nearly all are rejected."""
    rng = np.random.default_rng(2)
    target, modes = gaussian_with_modes(np.eye(3))
    known = as_modes(modes, target)
    pvalues = {"blocks": [], "none": []}
    for _ in range(25):
        x = ar1_chains(rng, 4, 500, 3, 0.9).reshape(-1, 3)
        cut = cut_blocks(10.0, np.repeat(np.arange(4), 500))
        for name, blocks in (("blocks", cut), ("none", None)):
            result = moment_core(
                x, -x, known, "abc", blocks=blocks, n_resamples=99, rng=rng.spawn(1)[0], warnings=[]
            )
            pvalues[name].append(result.pvalue)
    assert_level(pvalues["blocks"])
    assert_power(pvalues["none"], 0.52)


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
    first = leading_features(result)[0]
    assert (first.kind, set(first.parameters), first.basis) == (kind, parameters, "parameter")


def test_overall_scale_in_many_dimensions():
    target, modes = gaussian_with_modes(np.eye(60))
    x = 0.95 * np.random.default_rng(0).normal(size=(3000, 60))
    result = quiet_moment_test(x, target, modes, n_resamples=199)
    (said,) = leading_features(result)
    assert said.kind == "overall scale"
    assert said.interval[0] < 0.95 < said.interval[1]
    assert "1.05" in describe(said)


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
    assert leading_features(result)[0].basis in ("axis 2", "given the others")


def test_a_mean_field_fit_is_named_with_its_factors():
    covariance = np.full((10, 10), 0.9) + 0.1 * np.eye(10)
    target, modes = gaussian_with_modes(covariance, names=[f"beta[{j}]" for j in range(10)])
    sd = np.linalg.inv(covariance).diagonal() ** -0.5
    x = np.random.default_rng(0).normal(size=(4000, 10)) * sd
    result = quiet_moment_test(x, target, modes)
    for j in range(10):
        feature = find_feature(result, "scale", [f"beta[{j}]"])
        assert feature.pvalue <= 0.001
        assert feature.estimate == pytest.approx(sd[j], rel=0.1)
        assert feature.expected == pytest.approx(1.0, rel=0.1)
    pair = find_feature(result, "correlation", ["beta[0]", "beta[1]"])
    assert pair.observed == pytest.approx(0, abs=0.1)
    assert pair.expected == pytest.approx(0.9, abs=0.1)
    assert describe(pair).startswith("correlation of beta[0] and beta[1]: ")
    assert "times too narrow: sd of the draws 0.3" in describe(leading_features(result)[0])


def test_one_mode_of_several_is_named():
    means = 5 * np.random.default_rng(7).normal(size=(5, 4))
    target = sc.models.gaussian_mixture(means)
    x, label = target.sample_with_labels(2000, 1)
    x[label == 2, 1] = means[2, 1] + 1.6 * (x[label == 2, 1] - means[2, 1])
    said = leading_features(quiet_moment_test(x, target, means))
    assert (said[0].kind, said[0].mode, said[0].parameters) == ("scale", 2, ("x[1]",))
    assert said[0].estimate == pytest.approx(1.6, rel=0.15)
    assert describe(said[0]).startswith("Mode 2: x[1] is 1.")


@pytest.mark.slow
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
    options = {"n_resamples": 199, "check_score": False}
    pvalues = [quiet_moment_test(sample(180), target, modes, **options).pvalue for _ in range(60)]
    assert_level(pvalues)  # 4 are rejected; with sharpness 1 there are 20
    apart = sc.models.gaussian_mixture([[0.0, 0], [20.0, 0]])
    frame = make_frame(as_modes(np.array([[0.0, 0], [20.0, 0]]), apart), apart.sample(500, 0))
    assert frame.constants.sharpness == 1


def test_a_narrow_mode_beside_a_wide_one():
    target = sc.models.gaussian_mixture([[0.0], [600.0]], [[[1.0]], [[1e4]]])
    x, label = target.sample_with_labels(1000, 0)
    x[label == 0] *= 2
    said = leading_features(quiet_moment_test(x, target, [[0.0], [600.0]]))
    assert (said[0].kind, said[0].mode) == ("scale", 0)
    assert said[0].expected == pytest.approx(1.0, rel=0.15)


@pytest.mark.parametrize("seed", range(6))
def test_tails_are_named_whether_or_not_a_size_is_given_beside_them(seed):
    """Of Gaussian draws for a t density some have a factor that makes up for the tails, some have none."""
    x = np.random.default_rng(seed).normal(size=(1000, 1))
    result = quiet_moment_test(x, student(1), [[0.0]])
    assert {feature.kind for feature in leading_features(result)} >= {"extremes", "scale"}


@pytest.mark.parametrize("d", [1, 5])
def test_truncated_draws_have_tails_that_are_too_light(d):
    target, modes = gaussian_with_modes(np.eye(d))
    x = stats.truncnorm.rvs(-2, 2, size=(1000, d), random_state=1)
    result = quiet_moment_test(x, target, modes)
    assert result.pvalue < 0.01
    assert any(describe(feature).endswith("are too light") for feature in leading_features(result))


def test_gaussian_draws_for_a_heavy_tailed_density():
    result = quiet_moment_test(np.random.default_rng(0).normal(size=(1000, 1)), student(1), [[0.0]])
    assert "the tails of x[0] are too light" in [describe(feature) for feature in leading_features(result)]


@pytest.mark.parametrize("df", [1.0, 2.0])
def test_draws_without_variance_are_rejected_and_nothing_is_nan(df):
    x = np.random.default_rng(3).standard_t(df, size=(500, 2))
    target, modes = gaussian_with_modes(np.eye(2))
    result = quiet_moment_test(x, target, modes)
    assert result.pvalue < 0.01
    assert result.impossible_rows
    assert not np.isnan([(f.t, f.pvalue) for f in result.features]).any()


@pytest.mark.parametrize("d", [1, 20])
def test_a_few_draws_far_out_are_found(d):
    target, modes = gaussian_with_modes(np.eye(d))
    x = np.random.default_rng(0).normal(size=(500, d))
    x[100:105, 0] = 8.0
    result = quiet_moment_test(x, target, modes)
    assert result.pvalue < 1e-6
    assert result.impossible_rows == (100, 101, 102, 103, 104)
    assert describe_impossible(result).startswith(
        "At least 5 draws are of negligible probability under the density (rows 100, 101"
    )


def test_draws_far_out_are_named_by_their_rows_where_others_are_held_out():
    target, _ = gaussian_with_modes(np.eye(2))
    x = np.random.default_rng(0).normal(size=(400, 2))
    x[[300, 350], 0] = 9.0
    assert sc.moment_test(x, target, n_resamples=99, rng=0).impossible_rows == (300, 350)


def test_a_constant_coordinate():
    target, modes = gaussian_with_modes(np.eye(50))
    x = np.random.default_rng(0).normal(size=(500, 50))
    x[:, 7] = 0.1
    result = quiet_moment_test(x, target, modes)
    assert result.pvalue < 0.01
    assert "x[7] is constant" in [describe(feature) for feature in leading_features(result)]


@pytest.mark.slow
def test_the_spike_of_a_spike_and_slab():
    target = sc.models.gaussian_mixture([[0.0, 0], [0, 0]], [np.eye(2), 1e4 * np.eye(2)])
    modes = (np.zeros((1, 2)), np.eye(2)[None])
    correct = [target.sample(500, seed) for seed in range(12)]
    assert_level([quiet_moment_test(x, target, modes, n_resamples=99).pvalue for x in correct], (0.05, 0.2))
    result = quiet_moment_test(np.random.default_rng(0).normal(size=(500, 2)), target, modes)
    assert result.pvalue < 0.01
    assert "the draws lie too close to the mode" in [
        describe(feature) for feature in leading_features(result)
    ]


def test_repeated_draws_are_noted():
    target, modes = gaussian_with_modes(np.eye(2))
    x = np.random.default_rng(0).normal(size=(200, 2))
    x[150:160] = x[:10]
    with pytest.warns(UserWarning, match="10 of 200 draws repeat others exactly"):
        sc.moment_test(x, target, modes=modes, rng=0)


def test_the_result_is_a_table_that_can_be_written_down_and_run_again():
    target, modes = gaussian_with_modes(CORRELATED, names=["mu", "sigma", "tau"])
    x = np.random.default_rng(0).multivariate_normal(np.zeros(3), CORRELATED, size=300)
    result = sc.moment_test(x, target, modes=modes, rng=5)
    again = sc.moment_test(x, target, modes=modes, rng=result.settings["rng"])
    assert again.pvalue == result.pvalue
    assert [abs(f.t) for f in result.features] == sorted((abs(f.t) for f in result.features), reverse=True)
    assert result.significant(0.999)
    assert all(f.pvalue <= 0.5 for f in result.significant(0.5))
    assert result.to_json()
    assert isinstance(result.features[0].to_dict()["interval"], list)
    assert not leading_features(result)


def test_modes_are_searched_where_none_are_given():
    target = sc.models.gaussian_mixture([[-4.0], [4.0]])
    result = sc.moment_test(target.sample(400, 0), target, bounds=(-10, 10), rng=0)
    assert len(result.modes) == 2
    assert not result.reject(0.001)


def test_a_new_number_of_draws_gives_the_same_answer_by_blocks():
    """Beyond 2000 draws neighbours are added up first."""
    target, modes = gaussian_with_modes(np.eye(2))
    x = np.random.default_rng(0).normal(size=(9000, 2)) * [1.1, 1.0]
    result = quiet_moment_test(x, target, modes)
    assert 1000 <= result.n_blocks <= 2000
    assert leading_features(result)[0].parameters == ("x[0]",)


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
    target, modes = gaussian_with_modes(np.eye(2))
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
    assert result.pvalue == sc.moment_test(x, standard_normal(2), modes=np.zeros((1, 2)), rng=0).pvalue
    x[7, 0] = 12.0
    assert sc.moment_test(x, target, modes=np.zeros((1, 2)), rng=0).impossible_rows == (7,)


def test_the_forest_plot_shows_the_leading_sizes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    target, modes = gaussian_with_modes(np.eye(3), names=["mu", "sigma", "tau"])
    x = np.random.default_rng(0).normal(size=(500, 3)) * [1, 2, 1] + [0.5, 0, 0]
    ax = sc.plot.effect_sizes(quiet_moment_test(x, target, modes))
    assert {text.get_text() for text in ax.get_yticklabels()} == {
        "mean of mu: +0.37 sd",
        "sd of sigma: x 1.9",
    }
    quiet = sc.plot.effect_sizes(
        quiet_moment_test(np.random.default_rng(1).normal(size=(500, 3)), target, modes)
    )
    assert quiet.texts[0].get_text() == "no misfit whose size can be estimated"
    matplotlib.pyplot.close("all")


def test_few_draws_few_replicates_and_overflow_are_told(normal_target):
    x = np.random.default_rng(30).normal(size=(60, 2))
    modes = [[0.0, 0.0]]
    with pytest.warns(
        UserWarning, match="only 60 draws: below 100 correct samples may be rejected too often"
    ):
        sc.moment_test(x, normal_target, modes=modes, rng=0)


def test_the_sign_of_t_is_that_of_the_effect():
    target = standard_normal(2)
    rng = np.random.default_rng(3)
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


def test_a_printed_result_names_what_is_wrong():
    target = standard_normal(3, names=["mu", "nu", "tau"])
    draws = np.random.default_rng(0).normal(size=(800, 3)) * [1.0, 1.0, 1.4] + [0.3, 0.0, 0.0]
    text = str(quiet_moment_test(draws, target, [[0.0, 0.0, 0.0]]))
    assert "location of mu, off by +0.2 sd (0.13 to 0.27)" in text
    assert "scale of tau, 1.4 times as wide (1.4 to " in text
    assert " nu" not in text
