"""Pictures of results against the numbers that they show."""

from typing import NamedTuple

import numpy as np

import steincheck as sc
from steincheck import plot
from steincheck.result import ModeTable
from steincheck.wording.numbers import pvalue_text


def test_null_distribution(target):
    result = sc.ksd_test(target.sample(200, 0), target, n_resamples=99, rng=0)
    ax = plot.null_distribution(result)
    assert sum(bar.get_height() for bar in ax.patches) == 99
    assert ax.lines[0].get_xdata()[0] == result.statistic
    assert f"p {pvalue_text(result.pvalue)}" in ax.get_legend().texts[1].get_text()


def table_of(observed, implied, ends):
    count = len(observed)
    covariance = np.zeros((count, count))
    n_draws = np.round(1000 * observed).astype(int)
    return ModeTable(np.arange(count)[:, None], n_draws, observed, implied, ends, covariance)


def test_mode_shares():
    ends = np.array([[0.45, 0.55], [np.nan, np.nan]])
    ax = plot.mode_shares(table_of(np.array([0.9, 0.1]), np.array([0.5, np.nan]), ends))
    observed, implied = (container.lines[0].get_xdata() for container in ax.containers)
    np.testing.assert_allclose(observed, [90, 10])
    np.testing.assert_allclose(implied, [50, np.nan])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mode 0", "mode 1"]
    assert ax.get_ylim() == (1.5, -0.5)


def test_many_modes_are_cut_to_the_largest():
    share = np.arange(60) / np.arange(60).sum()
    ax = plot.mode_shares(table_of(share, share, np.stack([share, share], axis=1)))
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"mode {k}" for k in range(45, 60)]


def test_theta_profiles(target):
    x = target.sample(100, 0)
    options = {"modes": [[-3.0], [3.0]], "theta": [0.8, 0.9, 1.1], "n_steps": 2, "n_resamples": 19, "rng": 0}
    summed = sc.spksd_test(x, target, **options)
    ax = plot.theta_profile(summed)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), summed.theta_statistics)
    chosen = sc.ospksd_test(x, target, **options)
    ax = plot.theta_profile(chosen)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), chosen.power_criterion)
    assert ax.lines[1].get_xdata()[0] == chosen.chosen_theta


def test_bandwidth_profile(target):
    result = sc.ksdagg_test(1.5 * target.sample(100, 0), target, n_resamples=99, n_level_resamples=99, rng=0)
    ax = plot.bandwidth_profile(result)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), np.sqrt(result.bandwidths))
    above = ax.lines[0].get_ydata() > 1
    np.testing.assert_array_equal(above, result.statistics > result.thresholds)
    assert above.any()


class Accuracy(NamedTuple):
    """The fields of a ParameterAccuracy that are drawn."""

    parameter: str
    mean_error: float
    mean_error_interval: tuple
    sd_error: float
    sd_error_interval: tuple
    rough: bool = False


def test_effect_sizes_are_a_forest_of_errors_with_the_tolerance_as_a_band():
    records = (
        Accuracy("mu", 0.3, (0.2, 0.4), -0.5, (-0.6, -0.4)),
        Accuracy("tau", 0.0, (-0.2, 0.2), np.nan, (np.nan, np.nan), rough=True),
    )
    ax = plot.effect_sizes(records, tolerance=0.1)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mu", "tau"]
    marks = [container.lines[0] for container in ax.containers]
    assert [float(mark.get_xdata()[0]) for mark in marks] == [0.3, -0.5, 0.0]
    assert [mark.get_markerfacecolor() == "none" for mark in marks] == [False, False, True]
    ends = ax.containers[0].lines[2][0].get_segments()[0][:, 0]
    np.testing.assert_allclose(ends, [0.2, 0.4])
    assert "tolerance" in [text.get_text() for text in ax.get_legend().texts]
    many = tuple(Accuracy(f"p{k}", k / 100, (0, 1), 0.0, (0, 1)) for k in range(40))
    ax = plot.effect_sizes(many)
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"p{k}" for k in range(25, 40)]
    assert plot.effect_sizes(()).get_yticklabels() == []
