import jax.numpy as jnp
import numpy as np
import pytest
from flux_problems import arcs, as_sample, draw, mixture
from harness import assert_level, assert_power
from scipy import stats

import steincheck as sc
from steincheck.flux import core, flux_test
from steincheck.flux.anchors import fit_mixture, lattice_steps, local_anchors
from steincheck.flux.comparison import hotelling
from steincheck.flux.orbits import carry_along_steps
from steincheck.modes.known import as_modes

LATTICE = "part of a larger lattice"


class TestArcs:
    def test_several_anchors_catch_arcs(self):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, np.random.default_rng(0))
        x = sample(1000, np.random.default_rng(13))
        np.testing.assert_array_equal(several.mode, np.repeat([0, 1], 4))
        assert np.mean(several.mode[several.largest(x)] == (x[:, 0] > 0)) > 0.995
        with pytest.warns(UserWarning, match=r"only \d\d% of the draws can be mapped to another mode"):
            one = flux_test(x, target, modes=modes, anchors=1)
        four = flux_test(x, target, modes=modes, rng=0)  # as many as are needed
        assert one.efficiency < 0.6
        assert four.efficiency > 0.85
        assert four.n_contributing > 950
        np.testing.assert_allclose(four.mode_table.implied, [0.6, 0.4], atol=0.03)

    @pytest.mark.slow
    def test_level_and_power(self, monkeypatch):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, np.random.default_rng(1))
        monkeypatch.setattr(core, "mode_anchors", lambda _: several)
        rng = np.random.default_rng(14)
        good, bad = (
            [flux_test(sample(500, rng, w), target, modes=modes, anchors=1).pvalue for _ in range(100)]
            for w in (0.6, 0.7)
        )
        assert_level(good)
        assert_power(bad, 0.95)


def test_no_gaussians_are_fitted_to_points_whose_squares_overflow():
    x = np.random.default_rng(0).normal(size=(100, 2))
    x[0] = 1e200
    assert fit_mixture(x, np.ones((100, 1)), 1e-6) is None


def cube(d_h, turn, up=0.5):
    """Modes at the corners of a cube of width 6; in two of its d_h dimensions more draws may be up."""
    c = np.zeros(d_h)
    c[:2] = 0.5 * np.log(up / (1 - up))
    return sc.models.gb_rbm(6 * turn[:, :d_h], c=c)


def some_corners(d, d_h, rng, turn):
    """One corner, its neighbours, and a few random others."""
    first = np.where(rng.uniform(size=d_h) < 0.5, 3.0, -3.0)
    corners = [first, *(first * np.where(np.arange(d_h) == k, -1, 1) for k in range(d_h))]
    corners += [np.where(rng.uniform(size=d_h) < 0.5, 3.0, -3.0) for _ in range(8)]
    return np.pad(np.unique(corners, axis=0), ((0, 0), (0, d - d_h))) @ turn.T


@pytest.mark.parametrize("rotated", [False, True])
class TestCube:
    d, d_h = 14, 12

    def problem(self, rotated):
        turn = stats.ortho_group.rvs(self.d, random_state=3) if rotated else np.eye(self.d)
        locations = some_corners(self.d, self.d_h, np.random.default_rng(9), turn)
        return (
            cube(self.d_h, turn),
            (locations, np.repeat(np.eye(self.d)[None], len(locations), axis=0)),
            turn,
        )

    def test_steps_are_the_edges(self, rotated):
        target, modes, turn = self.problem(rotated)
        steps = lattice_steps(target, as_modes(modes, target))
        edges = np.abs(steps @ turn)
        assert len(steps) == self.d_h
        np.testing.assert_allclose(np.sort(edges, axis=1)[:, -1], 6, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(edges, axis=1), 6, atol=1e-6)
        assert len(np.unique(edges.argmax(axis=1))) == self.d_h

    @pytest.mark.slow
    def test_sees_weights_of_modes_that_nobody_listed(self, rotated):
        """21 of 4096 modes are known; P(h = +1) is .6 instead of .5 in two of 12 coordinates."""
        target, modes, turn = self.problem(rotated)
        rng = np.random.default_rng(10)
        with pytest.warns(UserWarning, match=LATTICE):
            good = [flux_test(target.sample(500, rng), target, modes=modes).pvalue for _ in range(60)]
        with pytest.warns(UserWarning, match=LATTICE):
            bad = flux_test(cube(self.d_h, turn, 0.6).sample(1000, rng), target, modes=modes)
        assert_level(good)
        assert bad.pvalue < 1e-6
        assert bad.mode_table is None
        wrong = np.abs(bad.lattice.net_flow) > 3 * bad.lattice.net_flow_se
        assert set(np.abs(bad.lattice.displacements[wrong] @ turn).argmax(axis=1)) == {0, 1}

    def test_number_of_steps_is_capped(self, rotated):
        target, modes, _ = self.problem(rotated)
        with pytest.warns(UserWarning, match=LATTICE):
            result = flux_test(target.sample(60, rng=11), target, modes=modes, rng=0)
        assert len(result.lattice.displacements) == 6
        assert result.net_flow is result.mode_of_draw is None  # no modes were compared
        assert result.variant == "asymptotic"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the mode search ended early", "ignore:the modes are part of a larger")
def test_steps_of_a_lattice_of_2_to_the_30_modes_are_searched_for():
    """In general position, d = 40; weights of .6/.4 instead of .5/.5 along two of thirty axes."""
    rng = np.random.default_rng(7)
    matrix = stats.ortho_group.rvs(40, random_state=3) * np.exp(rng.normal(size=40))
    matrix = matrix @ (np.eye(40) + 0.5 * rng.normal(size=(40, 40)) / np.sqrt(40))
    inverse = np.linalg.inv(matrix)

    def log_density(x):
        z = jnp.asarray(inverse) @ x
        corners = jnp.logaddexp(-0.5 * (z[:30] - 3) ** 2, -0.5 * (z[:30] + 3) ** 2)
        return jnp.sum(corners) - 0.5 * jnp.sum(z[30:] ** 2)

    z = np.random.default_rng(0).normal(size=(1000, 40))
    z[:, :30] += np.where(rng.random((1000, 30)) < np.r_[0.6, 0.6, np.full(28, 0.5)], 3.0, -3.0)
    result = flux_test(z @ matrix.T, sc.from_jax(log_density, 40), max_seconds=None, rng=0)
    assert len(result.lattice.displacements) == 30
    assert result.pvalue < 1e-6


def test_a_lattice_that_is_known_whole_is_tested_mode_by_mode():
    """A 3 x 3 grid with a heavy middle: no displacement sees it, the modes do."""
    means = np.array([[i, j] for i in (-8.0, 0.0, 8.0) for j in (-8.0, 0.0, 8.0)])
    parts = (means, np.repeat(np.eye(2)[None], 9, axis=0), np.full(9, 1 / 9))
    target, modes = mixture(*parts)
    assert lattice_steps(target, modes) is None
    part = as_modes((means[:8], np.repeat(np.eye(2)[None], 8, axis=0)), target)
    assert lattice_steps(target, part) is not None
    heavy = np.full(9, 0.1)
    heavy[4] = 0.2
    x = draw(parts, 1000, np.random.default_rng(12), heavy)
    result = flux_test(x, target, modes=modes)
    assert result.pvalue < 1e-6
    assert result.mode_pvalues[4] < 0.05
    assert result.net_flow[4] < 0
    flows = carry_along_steps(as_sample(x, target), target, np.array([[8.0, 0.0], [0.0, 8.0]]))
    assert hotelling(flows.net).pvalue > 0.001


def test_draws_that_are_at_listed_modes_are_compared_mode_by_mode():
    """An egg-box has more modes than are listed; draws of one of them alone balance along all steps."""
    target = sc.Target(
        lambda x: -np.sum(x**2, axis=1) / 50 + 4 * np.sum(np.cos(2 * x), axis=1),
        lambda x: -x / 25 - 8 * np.sin(2 * x),
        dim=2,
    )
    places = np.stack(np.meshgrid(*[np.pi * np.arange(-1, 2)] * 2), axis=-1).reshape(-1, 2)
    x = np.random.default_rng(0).normal(scale=0.25, size=(200, 2))
    result = flux_test(x, target, modes=places, rng=0)
    assert result.lattice is None
    assert result.mode_table is not None
    assert result.reject()
