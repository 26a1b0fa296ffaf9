import json

import jax.numpy as jnp
import numpy as np
import pytest
from flux_problems import FAR, NEAR, TWO, TWO_MODES, arcs, as_sample, draw, mixture, odd_anchors, stuck_chains
from harness import REFERENCE, assert_level, assert_power
from scipy import stats

import steincheck as sc
from steincheck.flux import core, flux_test, importance_weights, orbits
from steincheck.flux.comparison import hotelling
from steincheck.flux.orbits import carry_along_steps, fit_mixture, lattice_steps, local_anchors, mode_anchors
from steincheck.modes.known import as_modes
from steincheck.target.evaluation import Budget

LATTICE = "part of a larger lattice"
MBAR = json.loads((REFERENCE / "mbar.json").read_text())


class TestArcs:
    def test_several_anchors_catch_arcs(self):
        target, sample, modes = arcs()
        several = local_anchors(target, modes, 4, np.random.default_rng(0), Budget())
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
        several = local_anchors(target, modes, 4, np.random.default_rng(1), Budget())
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


def independent(n):
    return as_sample(np.zeros((n, 1)))


class TestIdentities:
    """Exact under the target, by quadrature on a line with overlapping modes of unequal width."""

    target, modes = mixture(*NEAR)
    x = np.linspace(-12, 17, 100_001)[:, None]
    mass = np.exp(target.log_density(x)) * (x[1, 0] - x[0, 0])

    @pytest.mark.parametrize("make", [mode_anchors, odd_anchors])
    def test_flow_has_mean_zero_and_is_in_balance(self, make):
        found = orbits.carry_to_anchors(as_sample(self.x, self.target), self.target, make(self.modes))
        probabilities = orbits.count_moments(found).probabilities
        own = np.eye(3)[found.mode]
        assert self.mass.sum() == pytest.approx(1, abs=1e-9)
        np.testing.assert_allclose(self.mass @ (probabilities - own), 0, atol=1e-4)
        flow = (own * self.mass[:, None]).T @ probabilities
        np.testing.assert_allclose(flow, flow.T, atol=1e-4)
        assert flow[0, 1] > 0.01  # or all of this would say nothing

    def test_covariance_given_the_orbit(self):
        """E F F' = E [diag(pi) - pi pi'], with the left side from the modes the draws have."""
        found = orbits.carry_to_anchors(as_sample(self.x, self.target), self.target, mode_anchors(self.modes))
        probabilities, own = orbits.count_moments(found).probabilities, np.eye(3)[found.mode]
        flow = probabilities - own
        left = (flow * self.mass[:, None]).T @ flow
        right = np.diag(self.mass @ probabilities) - (probabilities * self.mass[:, None]).T @ probabilities
        np.testing.assert_allclose(left, right, atol=1e-4)


def test_probabilities_of_far_gaussians_are_their_weights():
    target, modes = mixture(*FAR)
    x = draw(FAR, 500, np.random.default_rng(0))
    found = orbits.carry_to_anchors(as_sample(x, target), target, mode_anchors(modes))
    probabilities = orbits.count_moments(found).probabilities
    np.testing.assert_allclose(probabilities, np.tile(FAR[2], (500, 1)), atol=0.02)
    np.testing.assert_array_equal(found.mode, np.abs(x - modes.locations.ravel()).argmin(axis=1))


def test_orbits_do_not_depend_on_blocks(monkeypatch):
    target, modes = mixture(*NEAR)
    x = draw(NEAR, 300, np.random.default_rng(0))
    first = orbits.carry_to_anchors(as_sample(x, target), target, odd_anchors(modes))
    monkeypatch.setattr(orbits, "MAX_ELEMENTS", 100)
    second = orbits.carry_to_anchors(as_sample(x, target), target, odd_anchors(modes))
    np.testing.assert_array_equal(first.mode, second.mode)
    np.testing.assert_allclose(first.log_weight, second.log_weight, rtol=1e-12)


def test_implied_shares_are_those_of_pymbar():
    """Four Gaussian states, the last one without draws, against the free energies that pymbar computed."""
    state = np.repeat(np.arange(4), MBAR["counts"])
    rng = np.random.default_rng(MBAR["seed"])
    x = rng.normal(np.take(MBAR["centres"], state), np.take(MBAR["scales"], state))
    log_weight = -0.5 * ((x[:, None] - MBAR["centres"]) / MBAR["scales"]) ** 2
    share, influence = orbits.implied_shares(log_weight, state)
    free_energy = np.log(share[0] / share)
    np.testing.assert_allclose(free_energy, MBAR["free_energy"], rtol=1e-9, atol=1e-12)
    relative = influence - influence[:, :1]
    standard_error = np.sqrt(np.mean(relative**2, axis=0) / len(x))
    # ours from the spread of the influences, pymbar's from the information
    np.testing.assert_allclose(standard_error, MBAR["standard_error"], rtol=0.05)


def noisy_orbits(n, rng, weights=(0.5, 0.3, 0.2)):
    """Log weights (n, 3) of draws of the target itself, whose maps are far from ideal, and their modes."""
    log_weight = rng.normal(size=(n, 3)) + np.log(weights)
    uniform = rng.random((n, 1))
    probability = np.exp(log_weight - np.logaddexp.reduce(log_weight, 1)[:, None])
    return log_weight, np.sum(np.cumsum(probability, axis=1)[:, :2] < uniform, axis=1)


class TestCovariance:
    def test_is_that_of_repeated_samples(self):
        rng = np.random.default_rng(12)
        shares, covariances = [], []
        for _ in range(300):
            log_weight, mode = noisy_orbits(400, rng)
            share, influence = orbits.implied_shares(log_weight, mode)
            shares.append(share)
            of_logs = orbits.influence_covariance(influence, independent(400))[0]
            covariances.append(np.outer(share, share) * of_logs)
        expected = np.cov(np.array(shares).T)
        np.testing.assert_allclose(np.mean(covariances, axis=0), expected, atol=0.25 * expected.max())
        np.testing.assert_allclose(np.mean(covariances, axis=0).sum(axis=0), 0, atol=1e-9)

    def test_chains_are_cut_into_blocks(self):
        """Every draw four times in a row: four times the variance of independent draws."""
        rng = np.random.default_rng(13)
        log_weight, mode = noisy_orbits(4000, rng)
        single, influence = orbits.implied_shares(log_weight, mode)
        repeated, influences = orbits.implied_shares(np.repeat(log_weight, 4, axis=0), np.repeat(mode, 4))
        alone, _ = orbits.influence_covariance(influence, independent(4000))
        sample = as_sample(np.zeros((16_000, 1)), chain=np.repeat(np.arange(4), 4000))
        chains, quantile = orbits.influence_covariance(influences, sample)
        np.testing.assert_allclose(single, repeated)
        ratio = np.diag(chains) / np.diag(alone)
        assert np.all((ratio > 0.3) & (ratio < 2.5))  # 20 blocks
        assert quantile == pytest.approx(stats.t.ppf(0.975, 19))


class TestImportanceWeights:
    @staticmethod
    def stuck_result(starts):
        with pytest.warns(UserWarning, match="never change mode"):
            return flux_test(stuck_chains(starts), TWO, modes=TWO_MODES, rng=0)

    def test_stuck_draws_are_repaired(self):
        result = self.stuck_result((0, 0, 0, 1))
        repaired = importance_weights(result.mode_table, result.mode_of_draw, autocorrelation_time=2.0)
        assert repaired.weights.mean() == pytest.approx(1)
        share = repaired.weights[result.mode_of_draw == 0].sum() / 1000
        assert share == pytest.approx(0.5, abs=2e-3)
        kish = repaired.weights.sum() ** 2 / np.sum(repaired.weights**2)
        assert repaired.effective_sample_size == pytest.approx(kish / 2, rel=1e-3)

    def test_the_errors_within_and_between_modes_add_up(self):
        log_weight, mode = noisy_orbits(1000, np.random.default_rng(14))
        table = orbits.mode_table(
            orbits.Orbits(mode, log_weight, np.ones(1000)),
            np.zeros(3, dtype=int),
            np.eye(3),
            independent(1000),
        )
        within = np.sum(table.implied**2 / table.n_draws)
        variance = np.diag(table.implied_covariance)
        between = np.max(variance / (table.implied * (1 - table.implied)))
        assert importance_weights(table, mode).effective_sample_size == pytest.approx(1 / (within + between))
        assert between > 0.1 * within

    def test_a_missing_mode_cannot_be_repaired(self):
        table = self.stuck_result((0, 0, 0, 0)).mode_table
        assert importance_weights(table, np.zeros(1000, dtype=int)) is None

    def test_a_verdict_has_weights_for_held_out_draws_too(self):
        verdict = sc.check(stuck_chains((0, 0, 0, 1)), TWO, rng=0)
        repair = verdict.importance_weights
        assert verdict.tests["weights"].n_tested < 1000
        assert repair.weights.shape == (1000,)
        assert len(np.unique(repair.weights)) == 2
        # 750 and 250 independent draws, reweighted to one half each: 1 / (.25/750 + .25/250) = 750
        assert 500 < repair.effective_sample_size < 800
        shares = np.bincount(verdict.mode_of_draw, repair.weights, minlength=2) / repair.weights.sum()
        np.testing.assert_allclose(shares, verdict.mode_table.implied, atol=1e-12)
