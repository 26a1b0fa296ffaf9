"""Orbits, shares of the modes, their intervals and covariance, and importance weights."""

import json

import numpy as np
import pytest
from flux_problems import (
    FAR,
    NEAR,
    TWO,
    TWO_MODES,
    as_sample,
    draw,
    mixture,
    odd_anchors,
    stuck_chains,
)
from harness import REFERENCE, assert_coverage
from scipy import stats

import steincheck as sc
from experiments.flux_study import lumpy
from steincheck.flux import flux_test, importance_weights, orbits
from steincheck.flux.anchors import mode_anchors

MBAR = json.loads((REFERENCE / "mbar.json").read_text())


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
    np.testing.assert_allclose(
        orbits.count_moments(found).probabilities, np.tile(FAR[2], (500, 1)), atol=0.02
    )
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
    found = orbits.implied_shares(log_weight, state)
    free_energy = np.log(found.share[0] / found.share)
    np.testing.assert_allclose(free_energy, MBAR["free_energy"], rtol=1e-9, atol=1e-12)
    relative = found.influence - found.influence[:, :1]
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
            found = orbits.implied_shares(log_weight, mode)
            shares.append(found.share)
            of_logs = orbits.influence_covariance(found.influence, independent(400)).covariance
            covariances.append(np.outer(found.share, found.share) * of_logs)
        expected = np.cov(np.array(shares).T)
        np.testing.assert_allclose(np.mean(covariances, axis=0), expected, atol=0.25 * expected.max())
        np.testing.assert_allclose(np.mean(covariances, axis=0).sum(axis=0), 0, atol=1e-9)

    def test_chains_are_cut_into_blocks(self):
        """Every draw four times in a row: four times the variance of independent draws."""
        rng = np.random.default_rng(13)
        log_weight, mode = noisy_orbits(4000, rng)
        single = orbits.implied_shares(log_weight, mode)
        repeated = orbits.implied_shares(np.repeat(log_weight, 4, axis=0), np.repeat(mode, 4))
        alone = orbits.influence_covariance(single.influence, independent(4000))
        chains = orbits.influence_covariance(
            repeated.influence, as_sample(np.zeros((16_000, 1)), chain=np.repeat(np.arange(4), 4000))
        )
        np.testing.assert_allclose(single.share, repeated.share)
        ratio = np.diag(chains.covariance) / np.diag(alone.covariance)
        assert np.all((ratio > 0.3) & (ratio < 2.5))  # 20 blocks
        assert chains.quantile == pytest.approx(stats.t.ppf(0.975, 19))


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [(0.7, 0.2, 0.1), (0.3, 0.3, 0.4), (7 / 9, 2 / 9, 0.0)])
def test_intervals_cover(sampled):
    """Modes of two Gaussians each: no linear map carries one upon another, and shares are uncertain."""
    target, modes, _ = lumpy()
    weights = np.select([modes.locations[:, 0] > 7, modes.locations[:, 1] > 7], [0.2, 0.1], 0.7)
    rng, hits, wide = np.random.default_rng(15), 0, 0
    for _ in range(60):
        x = target.sample(600, rng, weights=0.5 * np.tile(sampled, 2))
        low, high = flux_test(x, target, modes=modes, anchors=1).mode_table.implied_interval.T
        hits = hits + ((low <= weights) & (weights <= high))
        wide = wide + (high - low) / 60
    assert_coverage(hits, 60, 0.92)  # 95 % intervals, from an asymptotic standard error
    assert np.all(wide < 0.06)  # an interval that covers by being wide would be no use


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
        with pytest.raises(ValueError, match=r"draws at every mode .* modes \[1\] have none"):
            importance_weights(table, np.zeros(1000, dtype=int))

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
