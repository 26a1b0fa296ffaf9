"""Pictures of draws, modes and densities against the numbers that they show."""

from dataclasses import replace

import numpy as np
import pytest
from harness import normal_log_density, on_the_log_scale, standard_normal
from matplotlib import pyplot as plt

import steincheck as sc
from steincheck import plot
from steincheck.result import Modes


def test_the_density_of_narrow_modes():
    narrow = sc.models.gaussian_mixture([[-1000.0], [1000.0]], covariances=0.04)
    ax = plot.draws(narrow.sample(200, 0), modes=([[-1000.0], [1000.0]], [[[0.04]]] * 2), target=narrow)
    grid, density = next(line for line in ax.lines if line.get_label() == "density").get_data()
    assert np.nanmax(density) == pytest.approx(0.5 / np.sqrt(2 * np.pi * 0.04), rel=0.05)
    assert np.isnan(density[np.abs(grid) < 900]).all()  # the line is broken between the modes
    near = np.abs(grid - 1000) < 1
    assert np.trapezoid(np.nan_to_num(density[near]), grid[near]) == pytest.approx(0.5, abs=0.02)


def test_the_curve_of_a_density_is_normalised_beyond_narrow_draws():
    normal = sc.Target(normal_log_density, dim=1)
    ax = plot.draws(
        np.random.default_rng(0).normal(0, 0.01, size=(100, 1)), modes=([[0.0]], [[[1.0]]]), target=normal
    )
    density = next(line for line in ax.lines if line.get_label() == "density").get_ydata()
    assert np.nanmax(density) == pytest.approx(1 / np.sqrt(2 * np.pi), rel=0.01)


def test_draws_of_many_coordinates_show_where_the_modes_part():
    x = np.random.default_rng(0).normal(size=(2000, 5))
    modes = np.zeros((2, 5))
    modes[0, 3], modes[0, 1] = 9, 4
    ax = plot.draws(x, modes=modes, names=["a", "$b", "c", "d_{", "e"])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("d_{", "$b")
    assert len(ax.collections[0].get_offsets()) == 1000


def test_modes_are_drawn_as_ellipses_of_their_width():
    covariance = np.array([[4.0, 1.0], [1.0, 1.0]])
    modes = Modes(np.array([[0.0, 0.0], [9.0, 9.0]]), np.stack([covariance] * 2), np.zeros(2))
    x = np.random.default_rng(0).multivariate_normal([0, 0], covariance, size=300)
    ax = plot.draws(x, modes=modes)
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
    known = replace(verdict, mode_moments=(np.full((1, 3), 3.0), 0.25 * np.eye(3)[None]))
    ax = plot.draws(x, verdict=known)
    points = np.array(ax.lines[1].get_data())  # two standard deviations
    np.testing.assert_allclose(np.hypot(*(points - 3.0)), 1.0)
    assert [text.get_text() for text in ax.texts] == ["0"]
    unknown = replace(known, mode_moments=(np.full((1, 3), 3.0), np.full((1, 3, 3), np.nan)))
    points = np.array(plot.draws(x, verdict=unknown).lines[1].get_data())
    np.testing.assert_allclose(np.hypot(*points), 2.0, rtol=1e-6)


def test_parameters_and_the_contours_of_their_density_are_drawn_on_their_own_scale():
    rng = np.random.default_rng(0)
    draws = np.stack([rng.gamma(3, size=20_000), rng.normal(size=20_000)], axis=1)
    modes = Modes(np.array([[np.log(3), 0.0]]), np.diag([1 / 3, 1.0])[None], np.zeros(1))
    few = {"mu": draws[:500, 1], "tau": draws[:500, 0]}
    ax = plot.draws(few, modes=modes, target=on_the_log_scale())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("tau", "mu")
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], few["tau"])
    lines = next(item for item in ax.collections if hasattr(item, "levels"))
    log_density = 2 * np.log(draws[:, 0]) - draws[:, 0] - 0.5 * draws[:, 1] ** 2  # of tau and mu themselves
    height = np.exp(log_density) / (2 * np.sqrt(2 * np.pi))
    inside = [np.mean(height > level) for level in lines.levels]
    np.testing.assert_allclose(inside, [0.865, 0.393], atol=0.02)


@pytest.fixture(scope="module")
def banana():
    """Arms far beyond what the curvature at the mode suggests."""
    return sc.from_jax(lambda x: -(x[0] ** 2) / 8 - 2 * (x[1] - x[0] ** 2 + 4) ** 2, dim=2)


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
        lines = next(item for item in ax.collections if hasattr(item, "levels"))
        normalised = np.exp(banana.log_density(exact)) / (2 * np.pi)  # sds of 2 and 1/2
        shares = [np.mean(normalised > level) for level in lines.levels]
        np.testing.assert_allclose(shares, [0.865, 0.393], atol=0.03)
        assert "density, 39 % and 86 %" in ax.get_legend_handles_labels()[1]


def test_modes_are_drawn_without_draws(banana, target):
    modes = Modes(np.array([[0.0, -4.0]]), np.diag([4.0, 0.25])[None], np.zeros(1))
    for ax in (
        plot.draws(None, modes=modes, target=banana),
        plot.draws(None, modes=modes),
        plot.draws(None, modes=[[-3.0], [3.0]], target=target),
    ):
        words = [text.get_text() for text in [*ax.get_legend().texts, *ax.texts]]
        assert not any("draws" in text for text in words)


def test_pairs_show_the_parameters_of_the_findings_in_order():
    target = standard_normal(5, names=list("abcde"))
    x = np.random.default_rng(0).normal(size=(500, 5)) * [1, 1, 1, 0.5, 2]
    verdict = sc.check(x, target, modes=np.zeros((1, 5)), rng=0)
    assert {name for finding in verdict.findings for name in finding.parameters} == {"d", "e"}
    axes = plot.pairs(x, target, verdict=verdict)
    assert [axes[2, k].get_xlabel() for k in range(3)] == ["a", "d", "e"]
    assert not axes[0, 1].axison
    given = plt.figure().subplots(2, 2)
    assert plot.pairs(x, target, coordinates=[1, 4], axes=given, names=list("vwxyz"))[1, 0] is given[1, 0]
    assert (given[1, 0].get_xlabel(), given[1, 0].get_ylabel()) == ("w", "z")
    assert plot.pairs(x[:, :1], standard_normal(1)).shape == (1, 1)
    with pytest.raises(ValueError, match=r"`coordinates` must be up to 5 of 0\.\.4"):
        plot.pairs(x, target, coordinates=[5])
    with pytest.raises(ValueError, match=r"`axes` must have shape \(2, 2\)"):
        plot.pairs(x, target, coordinates=[0, 1], axes=given[:1])


def test_names_of_the_draws_are_those_of_the_picture():
    x = np.random.default_rng(0).normal(size=(60, 2))
    verdict = sc.check({"alpha": x[:, 0], "beta": x[:, 1]}, standard_normal(2), rng=0)
    assert plot.draws(x, target=standard_normal(2), verdict=verdict).get_xlabel() == "alpha"
