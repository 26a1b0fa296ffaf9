import numpy as np
import pytest
from flux_problems import NEAR, draw, mixture
from harness import assert_level
from scipy import stats

import steincheck as sc
from steincheck.flux import flux_test
from steincheck.flux.displacements import hotelling, lattice_steps, sign_test, step_flows
from steincheck.modes.arguments import as_modes

LATTICE = "part of a larger lattice"


@pytest.mark.parametrize("step", [4.0, -1.3, 9.0])
def test_flow_along_any_displacement_has_mean_zero(step):
    target, _ = mixture(*NEAR)
    x = np.linspace(-12, 17, 400_001)[:, None]
    mass = np.exp(target.log_density(x)) * (x[1, 0] - x[0, 0])
    flows = step_flows(x, target.log_density(x), target, np.array([[step]]))
    forth, back = mass @ flows.accept[:, :, 0]
    assert forth == pytest.approx(back, abs=2e-5)
    assert forth > 0.02


@pytest.mark.slow
def test_accepted_jumps_forth_and_back_are_binomial():
    target, _ = mixture(*NEAR)
    rng = np.random.default_rng(7)
    p = []
    for _ in range(400):
        x = draw(NEAR, 60, rng)
        flows = step_flows(x, target.log_density(x), target, np.array([[4.0], [5.0]]))
        outcome = sign_test(flows.accept, 199, rng)
        assert outcome.degrees_of_freedom == 2
        p.append(outcome.pvalue)
    assert_level(p)
    assert np.sum(np.array(p) <= 0.5) >= stats.binom.ppf(1e-4, 400, 0.3)  # ties, but not all


def test_hotelling_against_the_textbook():
    mix = np.array([[1, 0.5, 0], [0, 1, 0], [0, 1, 3]])
    flow = np.random.default_rng(8).normal(0.1, 1, size=(50, 3)) @ mix
    mean = flow.mean(axis=0)
    t2 = 50 * mean @ np.linalg.solve(np.cov(flow.T), mean)
    found = hotelling(flow)
    assert found.statistic == pytest.approx(t2, rel=1e-9)
    assert found.pvalue == pytest.approx(stats.f.sf(47 / (3 * 49) * t2, 3, 47), rel=1e-9)
    assert found.degrees_of_freedom == 3
    dependent = np.column_stack([flow, flow[:, 0] - flow[:, 1]])
    assert hotelling(dependent).statistic == pytest.approx(t2, rel=1e-6)
    assert hotelling(np.ones((50, 1))).pvalue < 1e-20  # all draws flow alike: no variance, and no excuse


def cube(d, d_h, turn):
    """Modes at the corners of a cube of width 6 in d_h of d dimensions, and a sampler."""

    def log_density(x):
        z = x @ turn
        corners = np.logaddexp(-0.5 * (z[:, :d_h] - 3) ** 2, -0.5 * (z[:, :d_h] + 3) ** 2).sum(axis=1)
        return corners - 0.5 * np.sum(z[:, d_h:] ** 2, axis=1)

    def sample(n, rng, up=0.5):
        h = np.where(rng.uniform(size=(n, d_h)) < np.r_[up, up, np.full(d_h - 2, 0.5)], 3.0, -3.0)
        return (np.pad(h, ((0, 0), (0, d - d_h))) + rng.normal(size=(n, d))) @ turn.T

    return sc.Target(log_density, dim=d), sample


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
        target, sample = cube(self.d, self.d_h, turn)
        locations = some_corners(self.d, self.d_h, np.random.default_rng(9), turn)
        return target, sample, (locations, np.repeat(np.eye(self.d)[None], len(locations), axis=0)), turn

    def test_steps_are_the_edges(self, rotated):
        target, _, modes, turn = self.problem(rotated)
        steps = lattice_steps(target, as_modes(modes, target))
        edges = np.abs(steps @ turn)
        assert len(steps) == self.d_h
        np.testing.assert_allclose(np.sort(edges, axis=1)[:, -1], 6, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(edges, axis=1), 6, atol=1e-6)
        assert len(np.unique(edges.argmax(axis=1))) == self.d_h

    @pytest.mark.slow
    def test_sees_weights_of_modes_that_nobody_listed(self, rotated):
        """21 of 4096 modes are known; P(h = +1) is .6 instead of .5 in two of 12 coordinates."""
        target, sample, modes, turn = self.problem(rotated)
        rng = np.random.default_rng(10)
        with pytest.warns(UserWarning, match=LATTICE):
            good = [flux_test(sample(500, rng), target, modes=modes).pvalue for _ in range(60)]
        with pytest.warns(UserWarning, match=LATTICE):
            bad = flux_test(sample(1000, rng, up=0.6), target, modes=modes)
        assert_level(good)
        assert bad.pvalue < 1e-6
        assert bad.mode_table is None
        wrong = np.abs(bad.lattice.net_flow) > 3 * bad.lattice.net_flow_se
        assert set(np.abs(bad.lattice.displacements[wrong] @ turn).argmax(axis=1)) == {0, 1}

    def test_number_of_steps_is_capped(self, rotated):
        target, sample, modes, _ = self.problem(rotated)
        with pytest.warns(UserWarning, match=LATTICE):
            result = flux_test(sample(60, np.random.default_rng(11)), target, modes=modes, rng=0)
        assert len(result.lattice.displacements) == 6
        assert result.net_flow is result.mode_of_draw is None  # no modes were compared
        assert result.variant == "asymptotic"


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
    assert result.mode_table.words[4] == "too many draws"
    flows = step_flows(x, target.log_density(x), target, np.array([[8.0, 0.0], [0.0, 8.0]]))
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
