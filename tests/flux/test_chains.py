"""Weights of the modes from Markov chains."""

import json

import numpy as np
import pytest
from flux_problems import TWO, TWO_MODES, at_two_modes, label_chain, labels_as_orbits, stuck_chains
from harness import ar1_chains, assert_level, assert_power

import steincheck as sc
from steincheck.chains.blocks import block_signs
from steincheck.flux import flux_core
from steincheck.flux.chains import (
    chain_summary,
    compare_chain_modes,
    compare_chain_steps,
    flows_within,
    n_sojourns,
    slowest_time,
)
from steincheck.flux.displacements import StepFlows, compare_steps
from steincheck.flux.orbits import count_moments
from steincheck.flux.shares import mode_table
from steincheck.modes.arguments import as_modes


def compare_labels(mode, weights, chain, seed=0):
    """The test on labels (n,) of modes at 0, 1, 2, ... of one shape."""
    found = labels_as_orbits(mode, weights)
    places = np.arange(float(len(weights)))[:, None]
    table = mode_table(found, np.zeros(len(weights), dtype=int), places, chain)
    rng = np.random.default_rng(seed)
    return compare_chain_modes(count_moments(found), mode, chain, table, 999, rng)


class TestTwoModes:
    @pytest.mark.slow
    def test_level_and_power_at_two_modes(self):
        """Leaving at rate .2: a test for independent draws rejects about half of correct samples."""
        rng = np.random.default_rng(0)
        right = [at_two_modes(label_chain([0.5, 0.5], 0.2, 4, 500, rng), rng) for _ in range(60)]
        wrong = [at_two_modes(label_chain([0.7, 0.3], 0.2, 4, 500, rng), rng) for _ in range(10)]
        modes = as_modes(TWO_MODES, TWO)
        good = [sc.flux_test(x, TWO, modes=modes, rng=rng) for x in right]
        assert_level([result.pvalue for result in good])
        naive = [sc.flux_test(x, TWO, modes=modes, independent=True, rng=0) for x in right]
        assert_power([result.pvalue for result in naive], 0.22)
        assert all(sc.flux_test(x, TWO, modes=modes, rng=rng).reject() for x in wrong)
        assert {result.variant for result in good} == {"block signs"}
        assert all(result.inconclusive_reason is None for result in good)
        assert 100 < np.median([result.chains.effective_sample_size for result in good]) < 400

    @pytest.mark.parametrize("starts", [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1)])
    def test_chains_that_never_change_mode_are_a_fact(self, starts):
        with pytest.warns(UserWarning, match="cannot tell: the chains never change mode"):
            result = sc.flux_test(stuck_chains(starts), TWO, modes=TWO_MODES, rng=0)
        assert np.isnan(result.pvalue)
        assert result.inconclusive()
        assert not result.reject()
        assert result.inconclusive_reason == "stuck chains"
        table = result.mode_table
        assert table.words == ("not examined", "not examined")
        np.testing.assert_allclose(table.observed, [1 - np.mean(starts), np.mean(starts)])
        np.testing.assert_allclose(table.implied, 0.5, atol=0.01)
        np.testing.assert_allclose(table.error, table.observed - 0.5, atol=0.01)
        np.testing.assert_allclose(result.chains.shares[:, 0], 1 - np.array(starts))
        assert result.chains.stuck
        assert str(result.chains) == "4 chains with no mode changes in all"
        assert "nan" not in str(result)
        record = json.loads(result.to_json())
        assert record["pvalue"] is record["chains"]["effective_sample_size"] is None

    @pytest.mark.parametrize("starts", [(0, 0, 0, 1), (0, 0, 1, 1)])
    def test_stuck_chains_whose_tails_cross(self, starts):
        """Modes 6 apart: one draw in 740 is nearest to the other mode, though no chain ever goes there."""
        target = sc.models.gaussian_mixture([[-3.0], [3.0]])
        noise = np.random.default_rng(1).normal(size=(4, 20_000, 1))
        x = np.array(starts)[:, None, None] * 6.0 - 3.0 + noise
        with pytest.warns(UserWarning, match="never change mode"):
            result = sc.flux_test(x, target, modes=[[-3.0], [3.0]], rng=0)
        assert result.chains.sojourns.min() > 20
        assert np.isnan(result.pvalue)
        assert result.inconclusive_reason == "stuck chains"

    def test_few_changes_ask_for_longer_chains(self):
        x = at_two_modes(np.repeat([[0, 1, 0, 1, 0]], 100, axis=1), np.random.default_rng(2))
        with pytest.warns(UserWarning, match=r"change mode too rarely .*\(4 changes in all, 2 sojourns"):
            result = sc.flux_test(x, TWO, modes=TWO_MODES, rng=0)
        assert result.inconclusive_reason == "few changes"
        assert result.chains.sojourns.tolist() == [3, 2]
        assert str(result.chains) == "one chain with 4 mode changes in all"


class TestManyModes:
    chain = np.repeat(np.arange(4), 1000)

    def test_pairs_that_chains_do_not_cross(self):
        """Two chains in modes 0 and 1, two in 2 and 3: every mode is visited often, but not by all."""
        mode = label_chain([0.5, 0.5], 0.2, 4, 1000, np.random.default_rng(3))
        mode = (mode + np.array([[0], [0], [2], [2]])).ravel()
        assert chain_summary(mode, self.chain, 4).sojourns.min() > 30
        assert slowest_time(mode, self.chain) == np.inf
        found = compare_labels(mode, np.full(4, 0.25), self.chain)
        assert found.reason == "few changes"
        assert np.isnan(found.comparison.pvalue)

    def test_light_modes_that_are_visited_rarely_are_left_out(self):
        weights = np.array([0.5, 0.48, 0.02])
        mode = label_chain([0.5, 0.5], 0.2, 4, 1000, np.random.default_rng(4)).ravel()
        found = compare_labels(mode, weights, self.chain)
        assert found.reason is None
        assert np.isnan(found.mode_pvalues[2])
        assert np.isfinite(found.mode_pvalues[:2]).all()
        heavy = compare_labels(mode, np.array([0.45, 0.45, 0.1]), self.chain)
        assert heavy.reason == "few changes"

    def test_flows_within_some_modes_have_mean_zero_for_any_weight_of_the_others(self):
        mode = np.array([0, 1, 2, 0])
        flow, covariance = flows_within(np.array([0, 1]), np.tile([0.1, 0.3, 0.6], (4, 1)), mode)
        np.testing.assert_allclose(flow, [[-0.75, 0.75], [0.25, -0.25], [0, 0], [-0.75, 0.75]])
        np.testing.assert_allclose(covariance, 3 * 0.1875 * np.array([[1, -1], [-1, 1]]))

    def test_replicates_are_sign_changes_of_block_sums(self):
        weights = np.array([0.3, 0.3, 0.4])
        mode = label_chain(weights, 0.3, 4, 1000, np.random.default_rng(5)).ravel()
        tested = compare_labels(mode, weights, self.chain, seed=6).comparison
        flow = weights - np.eye(3)[mode]
        metric = np.linalg.pinv(4000 * (np.diag(weights) - np.outer(weights, weights)))
        label = np.repeat(np.arange(20), 200)
        sums = np.array([flow[label == b].sum(axis=0) for b in range(20)])
        signs = block_signs(20, 999, np.random.default_rng(6)).astype(float) @ sums
        expected = np.einsum("bi,ij,bj->b", signs, metric, signs)
        np.testing.assert_allclose(tested.null, expected, rtol=1e-8, atol=1e-9)
        total = flow.sum(axis=0)
        assert tested.statistic == pytest.approx(total @ metric @ total)

    def test_slowest_time_is_that_of_labels_drawn_afresh(self):
        mode = label_chain(np.full(5, 0.2), 0.1, 4, 50_000, np.random.default_rng(6)).ravel()
        assert slowest_time(mode, np.repeat(np.arange(4), 50_000)) == pytest.approx(2 / 0.1 - 1, rel=0.1)

    def test_sojourns_begin_where_a_chain_does(self):
        inside = np.array([True, True, False, True, True, True])
        assert n_sojourns(inside, np.array([0, 0, 0, 0, 1, 1])) == 3


class TestChainsOnLattices:
    """Independent signs, each drawn afresh at a rate; along a displacement the flow is minus the sign."""

    @staticmethod
    def flows(rate, rng, up=0.5, n_units=6):
        weights = [(1 - up, up)] + [(0.5, 0.5)] * (n_units - 1)
        bits = np.stack([label_chain(pair, rate, 4, 500, rng).ravel() for pair in weights], axis=1)
        accept = np.stack([1.0 - bits, bits], axis=1)
        flows = StepFlows(np.eye(n_units), accept, np.ones(n_units, dtype=bool))
        return flows, np.repeat(np.arange(4), 500)

    @pytest.mark.slow
    def test_level_and_power(self):
        """One sign of .8/.2 instead of .5/.5, forgotten at rate .3: 12 standard errors off.

        2000 draws are worth some 2000 / 6: a test for independent draws has 6 times too small a variance.
        """
        rng = np.random.default_rng(0)
        right = [compare_chain_steps(*self.flows(0.3, rng), 999, rng)[0] for _ in range(60)]
        assert_level([test.pvalue for test in right])
        assert {test.degrees_of_freedom for test in right} == {6}
        naive = [compare_steps(self.flows(0.3, rng)[0], "asymptotic", 999, rng).pvalue for _ in range(25)]
        assert_power(naive, 0.44)
        wrong = [compare_chain_steps(*self.flows(0.3, rng, 0.8), 999, rng)[0].pvalue for _ in range(5)]
        assert max(wrong) <= 0.01

    def test_chains_that_hardly_change_sign_give_no_pvalue(self):
        rng = np.random.default_rng(1)
        outcome, _ = compare_chain_steps(*self.flows(0.002, rng), 999, rng)
        assert np.isnan(outcome.pvalue)
        assert outcome.null is None


@pytest.mark.parametrize(
    ("weight", "reason"), [(1e-5, "light modes"), (0.009, "light modes"), (0.04, "stuck chains")]
)
def test_a_mode_that_no_chain_visits_matters_from_one_percent_on(weight, reason):
    places = np.array([[0.0], [9.0]])
    target = sc.models.gaussian_mixture(places, weights=[1 - weight, weight])
    x = ar1_chains(np.random.default_rng(0), 4, 300, 1, 0.8).reshape(-1, 1)
    chain = np.repeat(np.arange(4), 300)
    modes = as_modes(places, target)
    rng = np.random.default_rng(0)
    result = flux_core(x, target.log_density(x), target, modes, chain=chain, rng=rng)
    assert result.inconclusive_reason == reason
    assert np.isnan(result.pvalue)
