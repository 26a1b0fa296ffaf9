import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from harness import normal_log_density, standard_normal
from matplotlib import pyplot as plt

import steincheck as sc
from steincheck import plot
from steincheck.result import Modes, ModeTable, pvalue_text
from steincheck.stein.kernels import median_bandwidth


@pytest.fixture(autouse=True)
def _close_figures():
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def target():
    return sc.models.gaussian_mixture([[-3.0], [3.0]])


@pytest.fixture
def table():
    return ModeTable(
        np.array([[-3.0], [3.0]]),
        np.array([900, 100]),
        np.array([0.9, 0.1]),
        np.array([0.5, np.nan]),
        np.array([[0.45, 0.55], [np.nan, np.nan]]),
        np.array([[6e-4, np.nan], [np.nan, np.nan]]),
        ("too many draws", "not examined"),
    )


def rendered(ax):
    """The axes, after everything on them was drawn."""
    ax.figure.canvas.draw()
    return ax


def test_null_distribution(target):
    result = sc.ksd_test(target.sample(200, 0), target, n_resamples=99, rng=0)
    ax = rendered(plot.null_distribution(result))
    assert sum(bar.get_height() for bar in ax.patches) == 99
    assert ax.lines[0].get_xdata()[0] == result.statistic
    assert f"p {pvalue_text(result.pvalue)}" in ax.get_legend().texts[1].get_text()


def test_the_given_axes_are_used(table):
    ax = plt.figure().add_subplot()
    assert plot.mode_shares(table, ax=ax) is ax


def test_mode_shares(table):
    ax = rendered(plot.mode_shares(table))
    observed, implied = (container.lines[0].get_xdata() for container in ax.containers)
    np.testing.assert_allclose(observed, [90, 10])
    np.testing.assert_allclose(implied, [50, np.nan])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mode 0", "mode 1"]
    assert ax.get_ylim() == (1.5, -0.5)


def test_many_modes_are_cut_to_the_largest():
    n = 60
    share = np.arange(n) / np.arange(n).sum()
    ends = np.stack([share, share], axis=1)
    words = ("as expected",) * n
    table = ModeTable(np.zeros((n, 1)), np.arange(n), share, share, ends, np.zeros((n, n)), words)
    ax = rendered(plot.mode_shares(table))
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"mode {k}" for k in range(45, 60)]


def test_the_density_of_narrow_modes():
    narrow = sc.models.gaussian_mixture([[-1000.0], [1000.0]], covariances=0.04)
    ax = plot.draws(narrow.sample(200, 0), modes=([[-1000.0], [1000.0]], [[[0.04]]] * 2), target=narrow)
    grid, density = next(line for line in ax.lines if line.get_label() == "density").get_data()
    assert np.nanmax(density) == pytest.approx(0.5 / np.sqrt(2 * np.pi * 0.04), rel=0.05)
    assert np.isnan(density[np.abs(grid) < 900]).all()  # the line is broken between the modes
    near = np.abs(grid - 1000) < 1
    assert np.trapezoid(np.nan_to_num(density[near]), grid[near]) == pytest.approx(0.5, abs=0.02)


def test_draws_of_one_coordinate_with_the_density(target):
    ax = rendered(plot.draws(target.sample(500, 0), modes=[[-3.0], [3.0]], target=target))
    grid, density = next(line for line in ax.lines if line.get_label() == "density").get_data()
    assert np.trapezoid(np.nan_to_num(density), grid) == pytest.approx(1, abs=0.01)
    assert np.nanmax(density) == pytest.approx(0.5 / np.sqrt(2 * np.pi), rel=1e-3)
    assert sum(bar.get_height() * bar.get_width() for bar in ax.patches) == pytest.approx(1)


def test_draws_of_many_coordinates_show_where_the_modes_part():
    x = np.random.default_rng(0).normal(size=(2000, 5))
    modes = np.zeros((2, 5))
    modes[0, 3], modes[0, 1] = 9, 4
    ax = rendered(plot.draws(x, modes=modes, names=["a", "$b", "c", "d_{", "e"]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("d_{", "$b")
    assert len(ax.collections[0].get_offsets()) == 1000


def test_theta_profiles(target):
    x = target.sample(100, 0)
    options = {"modes": [[-3.0], [3.0]], "theta": [0.8, 0.9, 1.1], "n_steps": 2, "n_resamples": 19, "rng": 0}
    summed = sc.spksd_test(x, target, **options)
    ax = rendered(plot.theta_profile(summed))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), summed.theta_statistics)
    chosen = sc.ospksd_test(x, target, **options)
    ax = rendered(plot.theta_profile(chosen))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), chosen.power_criterion)
    assert ax.lines[1].get_xdata()[0] == chosen.chosen_theta


def test_bandwidth_profile(target):
    result = sc.ksdagg_test(1.5 * target.sample(100, 0), target, n_resamples=99, n_level_resamples=99, rng=0)
    ax = rendered(plot.bandwidth_profile(result))
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.arange(10))
    assert float(ax.get_xticklabels()[-1].get_text()) == pytest.approx(
        np.sqrt(result.bandwidths[-1]), rel=0.05
    )
    above = ax.lines[0].get_ydata() > 1
    np.testing.assert_array_equal(above, result.statistics > result.thresholds)
    assert above.any()


def test_modes_are_drawn_as_ellipses_of_their_width():
    covariance = np.array([[4.0, 1.0], [1.0, 1.0]])
    modes = Modes(np.array([[0.0, 0.0], [9.0, 9.0]]), np.stack([covariance] * 2), np.zeros(2))
    x = np.random.default_rng(0).multivariate_normal([0, 0], covariance, size=300)
    ax = rendered(plot.draws(x, modes=modes))
    points = np.array(ax.lines[1].get_data())  # two standard deviations about the first mode
    radius = np.einsum("ik,ij,jk->k", points, np.linalg.inv(covariance), points)
    np.testing.assert_allclose(radius, 4)
    assert [text.get_text() for text in ax.texts] == ["0", "1: no draws"]


def test_ellipses_of_a_verdict_are_those_of_the_density_within_its_modes():
    """A joint mode far from the mean owns its draws: it is never called empty."""
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 0.5, size=(200, 3))
    target = standard_normal(3)
    verdict = sc.check(rng.normal(size=(200, 3)), target, modes=np.zeros((1, 3)), rng=0)
    known = replace(verdict, mode_means=np.full((1, 3), 3.0), mode_covariances=0.25 * np.eye(3)[None])
    ax = rendered(plot.draws(x, verdict=known))
    points = np.array(ax.lines[1].get_data())  # two standard deviations
    np.testing.assert_allclose(np.hypot(*(points - 3.0)), 1.0)
    assert [text.get_text() for text in ax.texts] == ["0"]
    unknown = replace(known, mode_covariances=np.full((1, 3, 3), np.nan))
    points = np.array(rendered(plot.draws(x, verdict=unknown)).lines[1].get_data())
    np.testing.assert_allclose(np.hypot(*points), 2.0, rtol=1e-6)


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
    ax = rendered(plot.effect_sizes(records, tolerance=0.1))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mu", "tau"]
    marks = [container.lines[0] for container in ax.containers]
    assert [float(mark.get_xdata()[0]) for mark in marks] == [0.3, -0.5, 0.0]
    assert [mark.get_markerfacecolor() == "none" for mark in marks] == [False, False, True]
    ends = ax.containers[0].lines[2][0].get_segments()[0][:, 0]
    np.testing.assert_allclose(ends, [0.2, 0.4])
    assert "tolerance" in [text.get_text() for text in ax.get_legend().texts]
    many = tuple(Accuracy(f"p{k}", k / 100, (0, 1), 0.0, (0, 1)) for k in range(40))
    ax = rendered(plot.effect_sizes(many))
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"p{k}" for k in range(25, 40)]
    assert rendered(plot.effect_sizes(())).get_yticklabels() == []


@pytest.fixture
def on_the_log_scale():
    """tau of a Gamma(3) and mu of a normal distribution, the former on the log scale."""
    return sc.Target(
        lambda u: 3 * u[:, 0] - np.exp(u[:, 0]) - 0.5 * u[:, 1] ** 2,
        lambda u: np.stack([3 - np.exp(u[:, 0]), -u[:, 1]], axis=1),
        dim=2,
        names=["log tau", "mu"],
        constrained_names=["tau", "mu"],
        constrain=lambda u: np.stack([np.exp(u[:, 0]), u[:, 1]], axis=1),
        unconstrain=lambda c: np.stack([np.log(c[:, 0]), c[:, 1]], axis=1),
    )


def test_parameters_are_drawn_on_their_own_scale(on_the_log_scale):
    rng = np.random.default_rng(0)
    sample = {"mu": rng.normal(size=500), "tau": rng.gamma(3, size=500)}
    modes = Modes(np.array([[np.log(3), 0.0]]), np.diag([1 / 3, 1.0])[None], np.zeros(1))
    ax = rendered(plot.draws(sample, modes=modes, target=on_the_log_scale))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("tau", "mu")
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], sample["tau"])


def test_contours_enclose_the_shares_of_the_density_of_the_parameters(on_the_log_scale):
    rng = np.random.default_rng(0)
    draws = np.stack([rng.gamma(3, size=20_000), rng.normal(size=20_000)], axis=1)
    modes = Modes(np.array([[np.log(3), 0.0]]), np.diag([1 / 3, 1.0])[None], np.zeros(1))
    u = on_the_log_scale.unconstrain(draws)
    ax = plot.draws(u, modes=modes, target=on_the_log_scale)
    lines = next(item for item in ax.collections if hasattr(item, "levels"))
    log_density = 2 * np.log(draws[:, 0]) - draws[:, 0] - 0.5 * draws[:, 1] ** 2  # of tau and mu themselves
    height = np.exp(log_density) / (2 * np.sqrt(2 * np.pi))
    inside = [np.mean(height > level) for level in lines.levels]
    np.testing.assert_allclose(inside, [0.865, 0.393], atol=0.02)


@pytest.fixture(scope="module")
def banana():
    """Arms far beyond what the curvature at the mode suggests."""
    return sc.from_jax(lambda x: -(x[0] ** 2) / 8 - 2 * (x[1] - x[0] ** 2 + 4) ** 2, dim=2)


@pytest.fixture(scope="module")
def banana_modes():
    return Modes(np.array([[0.0, -4.0]]), np.diag([4.0, 0.25])[None], np.zeros(1))


def shares_within_the_contours(ax, log_density):
    lines = next(item for item in ax.collections if hasattr(item, "levels"))
    normalised = np.exp(log_density) / (2 * np.pi)  # sds of 2 and 1/2
    return [np.mean(normalised > level) for level in lines.levels]


def test_contours_enclose_their_shares(banana):
    """Mean and covariance of the density within the mode say how far the grid must reach."""
    rng = np.random.default_rng(0)
    laplace = rng.normal([0, -4], [2, 0.5], size=(500, 2))
    first = rng.normal(0, 2, size=50_000)
    exact = np.stack([first, first**2 - 4 + 0.5 * rng.normal(size=50_000)], axis=1)
    within = (exact.mean(axis=0)[None], np.cov(exact.T)[None])
    for ax in (
        plot.draws(laplace, modes=within, target=banana),
        plot.pairs(laplace, banana, modes=within)[1, 0],
    ):
        shares = shares_within_the_contours(ax, banana.log_density(exact))
        np.testing.assert_allclose(shares, [0.865, 0.393], atol=0.03)
        assert "density, 39 % and 86 %" in ax.get_legend_handles_labels()[1]


def test_the_curve_of_a_density_is_normalised_beyond_narrow_draws():
    normal = sc.Target(normal_log_density, dim=1)
    ax = plot.draws(
        np.random.default_rng(0).normal(0, 0.01, size=(100, 1)), modes=([[0.0]], [[[1.0]]]), target=normal
    )
    density = next(line for line in ax.lines if line.get_label() == "density").get_ydata()
    assert np.nanmax(density) == pytest.approx(1 / np.sqrt(2 * np.pi), rel=0.01)


def test_modes_are_drawn_without_draws(banana, banana_modes, target):
    for ax in (
        plot.draws(None, modes=banana_modes, target=banana),
        plot.draws(None, modes=banana_modes),
        plot.draws(None, modes=[[-3.0], [3.0]], target=target),
    ):
        assert "draws" not in [text.get_text() for text in rendered(ax).get_legend().texts]
        assert not any("draws" in text.get_text() for text in ax.texts)


def test_pairs_keep_the_order_of_the_parameters():
    names = list("abcd")
    target = standard_normal(4, names=names)
    x = np.random.default_rng(0).normal(size=(500, 4)) * [1, 1.5, 1, 0.3]
    axes = plot.pairs(x, target, verdict=sc.check(x, target, modes=np.zeros((1, 4)), rng=0))
    shown = [axes[-1, k].get_xlabel() for k in range(len(axes))]
    assert shown == sorted(shown)
    assert {"b", "d"} <= set(shown)


def test_pairs_show_the_parameters_of_the_findings():
    target = standard_normal(5, names=list("abcde"))
    x = np.random.default_rng(0).normal(size=(500, 5)) * [1, 1, 1, 0.5, 2]
    verdict = sc.check(x, target, modes=np.zeros((1, 5)), rng=0)
    assert {name for finding in verdict.findings for name in finding.parameters} == {"d", "e"}
    axes = plot.pairs(x, target, verdict=verdict)
    assert axes.shape == (3, 3)
    assert {axes[2, k].get_xlabel() for k in range(3)} >= {"d", "e"}
    assert not axes[0, 1].axison
    given = plt.figure().subplots(2, 2)
    assert plot.pairs(x, target, coordinates=[1, 4], axes=given)[1, 0] is given[1, 0]
    assert (given[1, 0].get_xlabel(), given[1, 0].get_ylabel()) == ("b", "e")
    with pytest.raises(ValueError, match=r"`coordinates` must be up to 5 of 0\.\.4"):
        plot.pairs(x, target, coordinates=[5])
    with pytest.raises(ValueError, match=r"`axes` must have shape \(2, 2\)"):
        plot.pairs(x, target, coordinates=[0, 1], axes=given[:1])
    other = plot.pairs(x, target, coordinates=[0, 1], names=list("vwxyz"))
    assert (other[1, 0].get_xlabel(), other[1, 0].get_ylabel()) == ("v", "w")


def test_witness_against_its_definition():
    target = standard_normal(2)
    x = np.random.default_rng(0).normal(0.5, 1, size=(50, 2))
    points = rendered(plot.witness(x, target, coordinate=1)).collections[0].get_offsets()
    unit = x.std(axis=0)
    z = x / unit
    c = median_bandwidth(z)
    expected = []
    for y in z:
        k = (1 + np.sum((z - y) ** 2, axis=1) / c) ** -0.5
        slope = -(z[:, 1] - y[1]) / c * k**3
        expected.append(np.mean(-x[:, 1] * unit[1] * k + slope))
    np.testing.assert_allclose(points, np.stack([x[:, 1], expected], axis=1), rtol=1e-9)


def test_many_draws_are_thinned(target):
    ax = plot.witness(target.sample(3000, 0), target, rng=0)
    assert len(ax.collections[0].get_offsets()) == 1000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, r: plot.null_distribution(r), "has no simulated null distribution"),
        (lambda t, r: plot.theta_profile(r), "`result` must come from spksd_test or ospksd_test"),
        (lambda t, r: plot.bandwidth_profile(r), "`result` must come from ksdagg_test"),
        (lambda t, r: plot.effect_sizes(r), "`accuracy` must be that of a verdict"),
        (lambda t, r: plot.effect_sizes((), tolerance=0), "`tolerance` must be positive"),
        (lambda t, r: plot.draws(np.zeros((2, 3, 4, 5))), "`draws`"),
        (lambda t, r: plot.draws(np.zeros((3, 2)), names=["a"]), "`names` must have one name per coordinate"),
        (
            lambda t, r: plot.draws(np.zeros((3, 2)), coordinates=(2,)),
            "`coordinates` must be up to 2 of 0..1",
        ),
        (lambda t, r: plot.witness(np.zeros((3, 1)), t), "`draws` must vary in every coordinate"),
        (lambda t, r: plot.witness(np.zeros((3, 2)), t), r"`draws` must have shape \(n, 1\)"),
        (lambda t, r: plot.witness(np.zeros((3, 1)), t, coordinate=1), "`coordinate` must be"),
    ],
)
def test_bad_input(target, call, message):
    result = sc.GofResult("flux test", 1.0, 0.5, None, 10, 1)
    with pytest.raises((TypeError, ValueError), match=message):
        call(target, result)


def test_dir_shows_what_is_public():
    assert set(dir(plot)) == {name for name in plot.__all__ if callable(getattr(plot, name))}


def test_without_matplotlib_the_extra_is_named(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'steincheck\[plot\]'"):
        plot.mode_shares(table)


def test_one_coordinate_has_one_panel(target):
    axes = plot.pairs(target.sample(100, 0), target)
    assert axes.shape == (1, 1)


@pytest.mark.parametrize("projection", ["polar", "3d"])
def test_axes_of_another_kind_are_refused(projection):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = plt.figure()
    with pytest.raises(TypeError, match="`ax` must be rectilinear axes"):
        sc.plot.draws(
            np.random.default_rng(0).normal(size=(10, 2)), ax=figure.add_subplot(projection=projection)
        )
    plt.close(figure)


def test_modes_may_be_given_with_covariances():
    x = np.random.default_rng(0).normal(size=(100, 2))
    location = np.zeros((1, 2))
    pair = plot.draws(x, modes=(location, np.eye(2)[None]))
    record = plot.draws(x, modes=sc.Modes(location, np.eye(2)[None], np.zeros(1)))
    assert len(pair.lines) == len(record.lines) > len(plot.draws(x, modes=location).lines)
    with pytest.raises(ValueError, match="`modes`"):
        plot.draws(x, modes=(location, np.eye(3)[None]))
