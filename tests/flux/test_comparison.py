"""Counts at modes and flows along displacements: given the orbits, and by signs of blocks."""

import json

import numpy as np
import pytest
from flux_problems import (
    NEAR,
    TWO,
    TWO_MODES,
    as_sample,
    at_two_modes,
    draw,
    labels_as_orbits,
    mixture,
    stuck_chains,
)
from harness import ar1_chains, assert_level, assert_power
from scipy import stats

import steincheck as sc
from experiments.chain_flux_study import refreshed
from steincheck.chains.blocks import block_signs
from steincheck.flux import comparison, flux_core, orbits
from steincheck.flux.orbits import mode_anchors
from steincheck.modes.known import as_modes


def moments_of(probabilities, counts=None):
    expected = probabilities.sum(axis=0)
    covariance = np.diag(expected) - probabilities.T @ probabilities
    return orbits.CountMoments(expected if counts is None else counts, expected, covariance, probabilities)


def test_jumped_counts_have_the_mean_and_covariance_of_the_counts():
    target, modes = mixture(*NEAR)
    x = draw(NEAR, 200, np.random.default_rng(6))
    moments = orbits.count_moments(orbits.carry_to_anchors(as_sample(x, target), target, mode_anchors(modes)))
    counts = np.concatenate(
        [comparison.jumped_counts(moments.probabilities, np.random.default_rng(k), 999) for k in range(20)]
    )
    assert np.all(counts.sum(axis=1) == 200)
    error = np.sqrt(np.diag(moments.covariance) / len(counts))
    assert np.all(np.abs(counts.mean(axis=0) - moments.expected) < 4.5 * error)
    largest = np.diag(moments.covariance).max()
    np.testing.assert_allclose(np.cov(counts.T), moments.covariance, atol=0.05 * largest)


class TestTrend:
    def test_first_columns_are_the_trend(self):
        rng = np.random.default_rng(0)
        covariance = moments_of(rng.dirichlet(np.ones(9), size=400)).covariance
        places = rng.normal(size=(9, 2))
        found = comparison.directions(covariance, places, 0.5)
        scale = found.columns
        assert (found.n_full, found.n_trend) == (8, 2)
        white = scale.T @ covariance @ scale
        np.testing.assert_allclose(white[:2], np.eye(9)[:2], atol=1e-9)
        # the sum of the counts does not vary
        np.testing.assert_allclose(np.linalg.eigvalsh(white), [0] + [1] * 8, atol=1e-9)
        # a log-linear tilt of the weights moves the expected counts by V places b: nothing in the others
        np.testing.assert_allclose((covariance @ places @ [1.0, -2.0]) @ scale[:, 2:], 0, atol=1e-9)

    @pytest.mark.parametrize(("k", "r"), [(3, 1), (31, 5)])
    def test_distribution_of_the_two_together(self, k, r):
        squares = np.random.default_rng(2).standard_normal((200_000, k)) ** 2
        q, t = stats.chi2.sf(squares.sum(axis=1), k), stats.chi2.sf(squares[:, :r].sum(axis=1), r)
        least = np.minimum(q / 0.8, t / 0.2)
        for level in (0.001, 0.05, 0.3, 0.9):
            share = np.mean(least <= level)
            joint = comparison.joint_probability(level, k, r)
            assert share == pytest.approx(joint, abs=4.5 * np.sqrt(share / 200_000))
        assert comparison.joint_probability(1e-30, k, r) == pytest.approx(
            1e-30, rel=0.2
        )  # nearly disjoint events


class TestRareModes:
    """A variance below half a draw is raised to it: one draw at a rare mode does not decide, many do."""

    @pytest.mark.parametrize("weight", [1e-4, 1e-6, 1e-12])
    def test_excess_at_a_mode_that_should_have_no_draws(self, weight):
        probabilities = np.tile([0.5 - weight, 0.5, weight], (1000, 1))
        rng = np.random.default_rng(0)

        def compare(counts):
            moments = moments_of(probabilities, np.array(counts))
            return comparison.compare_given_orbits(moments, np.arange(3.0)[:, None], "asymptotic", 999, rng)

        assert compare([500, 500, 0]).comparison.pvalue > 0.9
        assert compare([500, 499, 1]).comparison.pvalue > 0.08
        excess = compare([497, 496, 7])
        assert excess.comparison.pvalue <= 0.001
        assert excess.mode_pvalues[2] < 1e-4

    def test_tails_bound_those_of_the_exact_distribution(self):
        """Small variances: the count of a rare mode is a sum of indicators with different probabilities."""
        probability = np.random.default_rng(0).beta(0.3, 20, size=40)
        law = np.ones(1)
        for p in probability:
            law = np.convolve(law, [1 - p, p])
        exact = 2 * np.minimum(np.cumsum(law), np.cumsum(law[::-1])[::-1])
        probabilities = np.column_stack([1 - probability, probability])
        bound = [
            comparison.single_counts(moments_of(probabilities, np.array([40 - k, k])))[1] for k in range(41)
        ]
        assert np.all(np.nan_to_num(bound, nan=1.0) >= np.minimum(exact, 1) - 1e-12)
        assert bound[10] < 1e-3


def test_weak_exchange_is_no_comparison():
    """Two groups of modes: of a thousand draws ten, then a hundred, could be at any of them."""
    rng = np.random.default_rng(3)
    home = rng.random(1000) < 0.5
    probabilities = np.full((1000, 4), 1e-12)
    probabilities[home, :2], probabilities[~home, 2:] = 0.5, 0.5
    for share, groups in ((0.01, [0, 0, 1, 1]), (0.1, [0, 0, 0, 0])):
        probabilities[rng.random(1000) < share] = 0.25
        moments = moments_of(probabilities)
        assert comparison.exchange_groups(moments.covariance, moments.expected).tolist() == groups


def compare_labels(mode, weights, chain, seed=0):
    """The test on labels (n,) of modes at 0, 1, 2, ... of one shape."""
    found = labels_as_orbits(mode, weights)
    sample = as_sample(np.zeros((len(mode), 1)), chain=chain)
    places = np.arange(float(len(weights)))[:, None]
    table = orbits.mode_table(found, np.zeros(len(weights), dtype=int), places, sample)
    rng = np.random.default_rng(seed)
    return comparison.compare_in_blocks(sample, found, orbits.count_moments(found), table, 999, rng)


class TestTwoModes:
    @pytest.mark.parametrize("starts", [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1)])
    def test_chains_that_never_change_mode_are_a_fact(self, starts):
        with pytest.warns(UserWarning, match="cannot tell: the chains never change mode"):
            result = sc.flux_test(stuck_chains(starts), TWO, modes=TWO_MODES, rng=0)
        assert np.isnan(result.pvalue)
        assert result.inconclusive_reason == "stuck chains"
        table = result.mode_table
        np.testing.assert_allclose(table.observed, [1 - np.mean(starts), np.mean(starts)])
        np.testing.assert_allclose(table.implied, 0.5, atol=0.01)
        np.testing.assert_allclose(result.chains.shares[:, 0], 1 - np.array(starts))
        record = json.loads(result.to_json())
        assert record["pvalue"] is record["chains"]["effective_sample_size"] is None

    def test_stuck_chains_whose_tails_cross(self):
        """Modes 6 apart: one draw in 740 is nearest to the other mode, though no chain ever goes there."""
        target = sc.models.gaussian_mixture([[-3.0], [3.0]])
        noise = np.random.default_rng(1).normal(size=(4, 20_000, 1))
        x = np.array([0, 0, 1, 1])[:, None, None] * 6.0 - 3.0 + noise
        with pytest.warns(UserWarning, match="never change mode"):
            result = sc.flux_test(x, target, modes=[[-3.0], [3.0]], rng=0)
        assert result.chains.sojourns.min() > 20
        assert np.isnan(result.pvalue)
        assert result.inconclusive_reason == "stuck chains"

    def test_few_changes_ask_for_longer_chains(self):
        x = at_two_modes(np.repeat([[0, 1, 0, 1, 0]], 100, axis=1), np.random.default_rng(2))
        with pytest.warns(UserWarning, match=r"change mode too rarely .*4 mode changes in all"):
            result = sc.flux_test(x, TWO, modes=TWO_MODES, rng=0)
        assert result.inconclusive_reason == "few changes"


class TestManyModes:
    chain = np.repeat(np.arange(4), 1000)

    def test_pairs_that_chains_do_not_cross(self):
        """Two chains in modes 0 and 1, two in 2 and 3: every mode is visited often, but not by all."""
        mode = refreshed([0.5, 0.5], 0.2)(4, 1000, np.random.default_rng(3))
        mode = (mode + np.array([[0], [0], [2], [2]])).ravel()
        assert comparison.slowest_time(mode, self.chain) == np.inf
        found = compare_labels(mode, np.full(4, 0.25), self.chain)
        assert found.reason == "few changes"

    def test_light_modes_that_are_visited_rarely_are_left_out(self):
        weights = np.array([0.5, 0.48, 0.02])
        mode = refreshed([0.5, 0.5], 0.2)(4, 1000, np.random.default_rng(4)).ravel()
        found = compare_labels(mode, weights, self.chain)
        assert found.reason is None
        heavy = compare_labels(mode, np.array([0.45, 0.45, 0.1]), self.chain)
        assert heavy.reason == "few changes"

    def test_flows_within_some_modes_have_mean_zero_for_any_weight_of_the_others(self):
        mode = np.array([0, 1, 2, 0])
        flow, covariance = comparison.flows_within(
            np.array([0, 1]), np.tile([0.1, 0.3, 0.6], (4, 1)), labels_as_orbits(mode, [0.1, 0.3, 0.6])
        )
        np.testing.assert_allclose(flow, [[-0.75, 0.75], [0.25, -0.25], [0, 0], [-0.75, 0.75]])
        np.testing.assert_allclose(covariance, 3 * 0.1875 * np.array([[1, -1], [-1, 1]]))

    def test_replicates_are_sign_changes_of_block_sums(self):
        weights = np.array([0.3, 0.3, 0.4])
        mode = refreshed(weights, 0.3)(4, 1000, np.random.default_rng(5)).ravel()
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
        mode = refreshed(np.full(5, 0.2), 0.1)(4, 50_000, np.random.default_rng(6)).ravel()
        slowest = comparison.slowest_time(mode, np.repeat(np.arange(4), 50_000))
        assert slowest == pytest.approx(2 / 0.1 - 1, rel=0.1)


class TestChainsOnLattices:
    """Independent signs, each drawn afresh at a rate; along a displacement the flow is minus the sign."""

    @staticmethod
    def flows(rate, rng, up=0.5, n_units=6):
        weights = [(1 - up, up)] + [(0.5, 0.5)] * (n_units - 1)
        bits = np.stack([refreshed(pair, rate)(4, 500, rng).ravel() for pair in weights], axis=1)
        accept = np.stack([1.0 - bits, bits], axis=1)
        flows = orbits.StepFlows(np.eye(n_units), accept, np.ones(n_units, dtype=bool))
        sample = as_sample(np.zeros((2000, 1)), chain=np.repeat(np.arange(4), 500))
        return flows, sample

    @pytest.mark.slow
    def test_level_and_power(self):
        """One sign of .8/.2 instead of .5/.5, forgotten at rate .3: 12 standard errors off.

        2000 draws are worth some 2000 / 6: a test for independent draws has 6 times too small a variance.
        """
        rng = np.random.default_rng(0)
        right = [
            comparison.compare_steps(*self.flows(0.3, rng), "asymptotic", 999, rng)[0] for _ in range(60)
        ]
        assert_level([test.pvalue for test in right])
        assert {test.degrees_of_freedom for test in right} == {6}
        naive = [comparison.hotelling(self.flows(0.3, rng)[0].net).pvalue for _ in range(25)]
        assert_power(naive, 0.44)
        wrong = [
            comparison.compare_steps(*self.flows(0.3, rng, 0.8), "asymptotic", 999, rng)[0] for _ in range(5)
        ]
        assert max(test.pvalue for test in wrong) <= 0.01

    def test_chains_that_hardly_change_sign_give_no_pvalue(self):
        rng = np.random.default_rng(1)
        outcome = comparison.compare_steps(*self.flows(0.002, rng), "asymptotic", 999, rng)[0]
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
    result = flux_core(as_sample(x, target, chain), target, modes, rng=rng)
    assert result.inconclusive_reason == reason
    assert np.isnan(result.pvalue)


@pytest.mark.parametrize("step", [4.0, -1.3, 9.0])
def test_flow_along_any_displacement_has_mean_zero(step):
    target, _ = mixture(*NEAR)
    x = np.linspace(-12, 17, 400_001)[:, None]
    mass = np.exp(target.log_density(x)) * (x[1, 0] - x[0, 0])
    flows = orbits.carry_along_steps(as_sample(x, target), target, np.array([[step]]))
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
        flows = orbits.carry_along_steps(as_sample(x, target), target, np.array([[4.0], [5.0]]))
        outcome = comparison.sign_test(flows.accept, 199, rng)
        assert outcome.degrees_of_freedom == 2
        p.append(outcome.pvalue)
    assert_level(p)
    assert np.sum(np.array(p) <= 0.5) >= stats.binom.ppf(1e-4, 400, 0.3)  # ties, but not all


def test_hotelling_against_the_textbook():
    mix = np.array([[1, 0.5, 0], [0, 1, 0], [0, 1, 3]])
    flow = np.random.default_rng(8).normal(0.1, 1, size=(50, 3)) @ mix
    mean = flow.mean(axis=0)
    t2 = 50 * mean @ np.linalg.solve(np.cov(flow.T), mean)
    found = comparison.hotelling(flow)
    assert found.statistic == pytest.approx(t2, rel=1e-9)
    assert found.pvalue == pytest.approx(stats.f.sf(47 / (3 * 49) * t2, 3, 47), rel=1e-9)
    assert found.degrees_of_freedom == 3
    dependent = np.column_stack([flow, flow[:, 0] - flow[:, 1]])
    assert comparison.hotelling(dependent).statistic == pytest.approx(t2, rel=1e-6)
    assert (
        comparison.hotelling(np.ones((50, 1))).pvalue < 1e-20
    )  # all draws flow alike: no variance, and no excuse
