"""Input of the quadratic tests; the Stein kernel in the units of each mode, where widths of modes differ."""

import numpy as np
import pytest
from harness import assert_level, assert_power

import steincheck as sc
from steincheck.aggregate import Aggregation, ksdagg_core
from steincheck.chains.reading import Sample
from steincheck.modes.known import as_modes
from steincheck.stein import quadratic
from steincheck.stein.kernels import IMQ
from steincheck.stein.tiles import sums_of_block_pairs


def test_chains_are_split_at_the_same_share_of_each():
    sample = Sample(np.zeros((30, 1)), np.zeros(30), np.repeat([0, 1], [10, 20]))
    train, test = quadratic.split_rows(sample, 0.5, np.random.default_rng(0))
    assert train.tolist() == [*range(5), *range(10, 20)]
    assert test.tolist() == [*range(5, 10), *range(20, 30)]


def test_skewness_is_that_of_the_sum():
    """Independent coordinates of one kind count as their sum; a single large term is none."""
    x = np.random.default_rng(0).exponential(size=(100_000, 3))
    for d in (1, 2, 3):
        assert quadratic.skewness(x[:, :d]) == pytest.approx(2 / np.sqrt(100_000 * d), rel=0.1)
    far = np.append(np.random.default_rng(1).normal(size=(99, 2)), [[100.0, 0.0]], axis=0)
    assert quadratic.skewness(far) < 0.05
    assert quadratic.skewness(np.zeros((10, 2))) == 0
    assert quadratic.skewness(1e200 * x[:100]) == pytest.approx(quadratic.skewness(x[:100]))


def log_gamma_draws(shape, n, rng):
    return np.log(rng.gamma(shape + 1, size=(n, 2))) + np.log(rng.random((n, 2))) / shape


LOG_GAMMA = sc.Target(
    lambda x: np.sum(0.05 * x - np.exp(x), axis=1), lambda x: 0.05 - np.exp(x), dim=2, names=["a", "b"]
)


@pytest.mark.parametrize(
    ("test", "options"),
    [
        (sc.ksd_test, {}),
        (sc.ksdagg_test, {"precondition": 20 * np.eye(2)}),
        (sc.fssd_test, {"locations": [[-3.0, -3.0]]}),
    ],
)
def test_single_tests_warn_of_skew_scores(test, options):
    draws = log_gamma_draws(0.05, 100, np.random.default_rng(0))
    with pytest.warns(UserWarning, match="the scores of the 100 draws are so skewed"):
        test(draws, LOG_GAMMA, rng=0, **options)


def two_modes(ratio, apart=6.0):
    """Two Gaussians with standard deviations 1 and `ratio`, so many widths apart."""
    means = np.array([[0.0], [apart * (ratio + 1)]])
    covariances = np.array([[[1.0]], [[ratio**2]]])
    target = sc.models.gaussian_mixture(means, covariances, [0.5, 0.5])
    return target, as_modes((means, covariances), target)


def kernel_test(x, target, modes, rng):
    sample = Sample(x, target.log_density(x), scores=target.score(x))
    options = quadratic.QuadraticOptions(bootstrap="blocks", n_resamples=500)
    aggregation = Aggregation(n_level_resamples=500)
    return ksdagg_core(sample, options, aggregation, quadratic.Streams(*rng.spawn(7)), modes=modes)[0]


def stretched(target, modes, factors, n, rng):
    """Exact draws, those of each component stretched about its mean."""
    x, label = target.sample_with_labels(n, rng)
    centre = modes.locations[label]
    return centre + np.asarray(factors)[label][:, None] * (x - centre)


@pytest.mark.parametrize(("ratio", "differ"), [(1.0, False), (2.9, False), (3.1, True), (100.0, True)])
def test_widths_differ_beyond_a_factor_of_three_in_any_coordinates(ratio, differ):
    modes = two_modes(ratio)[1]
    assert quadratic.widths_differ(modes) is differ
    turn = np.array([[2.0, 1.0], [0.5, 3.0]])
    covariances = np.array([turn @ np.diag([1.0, s**2]) @ turn.T for s in (1.0, ratio)])
    far = np.array([[0.0, 0.0], [900.0, 900.0]])
    target = sc.models.gaussian_mixture(far, covariances)
    assert quadratic.widths_differ(as_modes((far, covariances), target)) is differ


def test_the_kernel_of_each_mode_has_mean_zero_by_quadrature():
    """Overlapping modes, where the gradient of the responsibilities matters."""
    target, modes = two_modes(5.0, apart=0.5)
    grid = np.linspace(-60, 80, 800)[:, None]
    p = np.exp(target.log_density(grid))
    p /= p.sum()
    views = list(quadratic.mode_views(grid, target.score(grid), modes))
    np.testing.assert_allclose(quadratic.laplace_responsibilities(grid, modes).sum(axis=0), 1.0)
    for view in views:
        q = len(view.rows)
        table = sums_of_block_pairs(
            view.z[None], view.scores[None], IMQ(), 1.5, np.arange(q) // 2, weight=view.weight
        )
        row = rows_of(view, 1.5)
        assert np.abs(row @ p[view.rows]).max() < 1e-4 * np.abs(row).max()
        np.testing.assert_allclose(table.table.sum(), row.sum() - np.trace(row), rtol=1e-3)


def rows_of(view, bandwidth):
    """The weighted Stein kernel of one mode as a dense matrix, by its formula."""
    z = view.z[:, 0]
    s = view.scores[:, 0]
    gap = z[:, None] - z
    base = 1 + gap**2 / bandwidth
    phi = base**-0.5
    slope = -0.5 / bandwidth * base**-1.5
    bend = 0.75 / bandwidth**2 * base**-2.5
    u = phi * s[:, None] * s - 2 * slope * (s[:, None] - s) * gap - 2 * slope - 4 * gap**2 * bend
    return view.weight[:, None] * view.weight * u


def test_each_draw_is_measured_at_its_own_mode():
    target, modes = two_modes(30.0)
    x, label = target.sample_with_labels(400, np.random.default_rng(0))
    sd = np.sqrt(modes.covariances[:, 0, 0])[label]
    expected = (x[:, 0] - modes.locations[label, 0]) / sd
    close = np.abs(expected) < 2.5  # draws between the modes may belong to the other one
    np.testing.assert_allclose(quadratic.at_own_mode(x, modes)[close, 0], expected[close])


@pytest.mark.slow
@pytest.mark.parametrize("factors", [(1.5, 1.5), (1.5, 1.0), (1.0, 1.5)])
def test_both_the_narrow_and_the_wide_mode_are_seen(factors):
    target, modes = two_modes(30.0)
    rng = np.random.default_rng(11)
    samples = [stretched(target, modes, factors, 600, rng) for _ in range(5)]
    assert_power([kernel_test(x, target, modes, rng).pvalue for x in samples], 1.0, alpha=0.01)


@pytest.mark.slow
def test_level_with_overlapping_modes_of_different_widths():
    target, modes = two_modes(10.0, apart=1.0)
    streams = (np.random.default_rng([4, repetition]) for repetition in range(60))
    assert_level([kernel_test(target.sample(150, rng), target, modes, rng).pvalue for rng in streams])


def test_check_measures_each_mode_in_its_own_units_where_widths_differ():
    target, modes = two_modes(30.0)
    rng = np.random.default_rng(1)
    wide = stretched(target, modes, (2.0, 2.0), 500, rng)
    seen = sc.check(wide, target, modes=modes, rng=1).tests["kernel"]
    assert seen.pvalue <= 0.005
    assert seen.units == "per mode"
    similar, known = two_modes(2.0)
    even = sc.check(similar.sample(200, rng), similar, modes=known, rng=1).tests["kernel"]
    assert even.units == "common"


@pytest.mark.parametrize("test", [sc.ksd_test, sc.ksdagg_test])
def test_equal_weights_are_no_weights(normal_target, test):
    x = np.random.default_rng(30).normal(size=(150, 2))
    plain = test(x, normal_target, bootstrap="blocks", rng=0)
    for options in ({"weights": np.full(150, 7.0)}, {"log_weights": np.full(150, -900.0)}):
        weighted = test(x, normal_target, **options, rng=0)
        assert (weighted.statistic, weighted.pvalue) == (plain.statistic, plain.pvalue)
    np.testing.assert_array_equal(plain.null_distribution, weighted.null_distribution)


@pytest.mark.filterwarnings("ignore:.*repeat others exactly")
@pytest.mark.parametrize(
    ("test", "options"),
    [(sc.ksd_test, {"kernel": IMQ(2.0)}), (sc.ksdagg_test, {"bandwidths": [0.5, 2.0]})],
)
def test_a_weight_of_two_is_a_draw_given_twice(test, options):
    """Copies are one group, and groups are numbered in the order of these draws."""
    rng = np.random.default_rng(31)
    x = np.sort(rng.normal(size=(120, 1)), axis=0)
    count = rng.integers(1, 4, size=120)
    target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), np.negative, dim=1)
    weighted = test(x, target, weights=count, rng=0, **options)
    copied = test(np.repeat(x, count, axis=0), target, independent=True, rng=0, **options)
    assert weighted.statistic == pytest.approx(copied.statistic, rel=1e-3, abs=1e-5)
    assert weighted.pvalue == pytest.approx(copied.pvalue, abs=0.002)


def test_perturbed_draws_keep_the_weight_of_their_draw():
    """Three quarters of the draws at the left mode; weights put half of them there."""
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    x, label = target.sample_with_labels(600, 0, weights=[0.75, 0.25])
    weights = np.array([0.5 / 0.75, 0.5 / 0.25])[label]
    options = {"modes": [[-3.0], [3.0]], "theta": [0.8, 1.2], "rng": 0}
    for test in (sc.spksd_test, sc.ospksd_test, sc.pksdagg_test):
        assert test(x, target, **options).pvalue <= 0.05
        assert test(x, target, weights=weights, **options).pvalue > 0.05


def test_groups_are_split_as_a_whole():
    sample = Sample(np.zeros((40, 1)), np.zeros(40), group=np.arange(40) % 10)
    train, test = quadratic.split_rows(sample, 0.3, np.random.default_rng(0))
    assert len(train) == 12
    assert not set(train % 10) & set(test % 10)


def test_a_budget_limits_the_draws_that_are_perturbed():
    """Per draw: one score, and for each of two theta ten jumps and a score."""
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    x = target.sample(200, 0)
    options = {"modes": [[-3.0], [3.0]], "theta": [0.8, 1.2], "rng": 0, "max_seconds": None}
    with pytest.warns(UserWarning, match="allow [0-9]+ of 200 draws to be perturbed"):
        result = sc.spksd_test(x, target, max_evaluations=2500, **options)
    assert 50 <= result.n_tested <= (2500 - 200) // 23
    with pytest.raises(
        ValueError, match="`max_evaluations` or `max_seconds` must allow more than 9 evaluations"
    ):
        sc.spksd_test(x, target, max_evaluations=9, **options)
