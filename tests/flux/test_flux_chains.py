"""Weights of the modes from Markov chains, symmetric modes, lattices that are partly listed."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from harness import ar1_chains, assert_coverage, assert_level, assert_power
from scipy import stats

import steincheck as sc
from steincheck.chains.blocks import block_signs
from steincheck.flux import flux_core, importance_weights, local_anchors
from steincheck.flux.anchors import assign
from steincheck.flux.chain_weights import (
    any_chain_stuck,
    chain_flows,
    compare_chain_steps,
    compare_chains,
    compared_groups,
    effective_size_of_set,
    judge_set,
    observed_intervals,
    settled_modes,
    sojourns_per_mode,
)
from steincheck.flux.displacements import StepFlows, compare_steps, lattice_steps
from steincheck.flux.mode_comparison import compare_chain_modes
from steincheck.flux.orbits import Orbits, count_moments
from steincheck.flux.shares import implied_shares
from steincheck.flux.test import _compared_steps
from steincheck.modes.arguments import as_modes
from steincheck.modes.images import images_of_modes

RESULTS = Path(__file__).parents[2] / "experiments" / "results" / "chain_flux_study.csv"
MBAR = json.loads((Path(__file__).parents[1] / "reference" / "mbar.json").read_text())
TWO = sc.models.gaussian_mixture([[-4.0], [4.0]])


def label_chain(weights, rate, n_chains, length, rng):
    """Modes drawn afresh with probability `rate`, (chains, length)."""
    fresh = rng.choice(len(weights), p=weights, size=(n_chains, length))
    renewed = rng.random((n_chains, length)) < rate
    renewed[:, 0] = True
    last = np.maximum.accumulate(np.where(renewed, np.arange(length), 0), axis=1)
    return np.take_along_axis(fresh, last, axis=1)


def labels_as_orbits(mode, weights):
    return Orbits(mode, np.tile(np.log(weights), (len(mode), 1)), np.zeros(len(mode)))


def at_two_modes(labels, rng):
    """Draws (chain, draw, 1) of TWO at the modes of `labels`."""
    return (8.0 * labels - 4.0 + rng.normal(size=labels.shape))[:, :, None]


class TestChains:
    @pytest.mark.slow
    def test_level_and_power_at_two_modes(self):
        """Leaving at rate .2: a test for independent draws rejects about half of correct samples."""
        rng = np.random.default_rng(0)
        right = [at_two_modes(label_chain([0.5, 0.5], 0.2, 4, 500, rng), rng) for _ in range(50)]
        wrong = [at_two_modes(label_chain([0.7, 0.3], 0.2, 4, 500, rng), rng) for _ in range(10)]
        modes = as_modes([[-4.0], [4.0]], TWO)
        good = [sc.flux_test(x, TWO, modes=modes, rng=rng) for x in right]
        assert_level([result.pvalue for result in good])
        naive = [sc.flux_test(x, TWO, modes=modes, independent=True, rng=0) for x in right]
        assert_power([result.pvalue for result in naive], 0.22)
        assert all(sc.flux_test(x, TWO, modes=modes, rng=rng).reject() for x in wrong)
        assert {result.variant for result in good} == {"block signs"}
        assert not any(result.inconclusive_reason or result.set_hypothesis for result in good)
        assert 100 < np.median([result.chains.effective_sample_size for result in good]) < 400

    @pytest.mark.parametrize(
        ("starts", "answer", "words"),
        [
            ((0, 0, 0, 0), "does not fit: misfit found", ("too many draws", "too few draws")),
            ((0, 0, 0, 1), "does not fit: misfit found", ("too many draws", "too few draws")),
            ((0, 0, 1, 1), "cannot tell", ("not examined", "not examined")),
        ],
    )
    def test_chains_that_never_change_mode(self, starts, answer, words):
        x = at_two_modes(np.repeat(np.array(starts)[:, None], 250, axis=1), np.random.default_rng(1))
        result = sc.flux_test(x, TWO, modes=[[-4.0], [4.0]], rng=0)
        assert f"{answer} at level" in str(result)
        assert result.inconclusive() == (answer == "cannot tell")
        assert result.mode_table.words == words
        assert result.variant == "set"
        assert result.chains.n_changes == 0
        assert "the chains never change mode" in result.inconclusive_reason
        assert "running longer will not help" in result.inconclusive_reason
        np.testing.assert_allclose(result.chains.shares[:, 0], 1 - np.array(starts))
        assert str(result.chains) == "4 chains with no mode changes in all"
        assert "statistic" not in result.describe()
        assert "H0 is therefore that this set of draws, whatever the sampler," in result.describe()

    def test_few_changes_ask_for_longer_chains(self):
        labels = np.repeat([[0, 1, 0, 1, 0]], 100, axis=1)
        x = at_two_modes(labels, np.random.default_rng(2))
        result = sc.flux_test(x, TWO, modes=[[-4.0], [4.0]], rng=0)
        assert result.inconclusive()
        assert "changed mode only 4 times" in result.inconclusive_reason
        assert result.inconclusive_reason.endswith("run it about 10 times as long")
        assert result.chains.sojourns.tolist() == [3, 2]
        assert str(result.chains) == "one chain with 4 mode changes in all"

    @pytest.mark.parametrize(
        ("paths", "stuck"),
        [
            ([[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0], [0] * 6], True),
            ([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0] * 6], False),
            ([[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0], [2] * 6], True),
            ([[0] * 6, [1] * 6], True),
            ([[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0]], False),
        ],
    )
    def test_chains_stuck_beside_others_that_are_not(self, paths, stuck):
        mode = np.repeat(paths, 50, axis=1)
        chain = np.repeat(np.arange(len(mode)), mode.shape[1])
        assert any_chain_stuck(mode.ravel(), chain, 3) == stuck

    def test_longer_chains_are_no_remedy_where_some_are_stuck(self):
        labels = np.repeat([[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0], [0] * 6], 100, axis=1)
        x = at_two_modes(labels, np.random.default_rng(2))
        result = sc.flux_test(x, TWO, modes=[[-4.0], [4.0]], rng=0)
        assert "some chains are stuck: start chains in every mode, or use" in result.inconclusive_reason
        assert "times as long" not in result.describe()

    def test_groups_that_chains_do_not_cross(self):
        """Two chains in modes 0 and 1, two in 2 and 3: weights are compared within the pairs only."""
        rng = np.random.default_rng(3)
        mode = (label_chain([0.5, 0.5], 0.2, 4, 500, rng) + np.array([[0], [0], [2], [2]])).ravel()
        chain = np.repeat(np.arange(4), 500)
        assert sorted(compared_groups(mode, chain)) == [(0, 1), (2, 3)]
        assert sojourns_per_mode(mode, chain, 4).min() > 30
        flows = chain_flows(count_moments(labels_as_orbits(mode, [0.1, 0.1, 0.4, 0.4])), mode, chain)
        np.testing.assert_allclose(flows.flow[mode == 0][:, :2], [[-0.5, 0.5]] * np.sum(mode == 0))
        assert np.all(flows.flow[mode < 2][:, 2:] == 0)

    def test_shares_of_groups_that_chains_do_not_cross_are_not_compared(self):
        """Shares that are right within the pairs say nothing about the shares of the pairs."""
        rng = np.random.default_rng(3)
        labels = label_chain([0.5, 0.5], 0.2, 4, 500, rng) + np.array([[0], [0], [2], [2]])
        locations = np.array([[-15.0], [-5.0], [5.0], [15.0]])
        target = sc.models.gaussian_mixture(locations)
        x = locations[labels] + rng.normal(size=(4, 500, 1))
        result = sc.flux_test(x, target, modes=locations, rng=0)
        assert sorted(result.chains.compared) == [(0, 1), (2, 3)]
        assert not result.all_compared
        assert result.mode_table.words == ("not compared",) * 4
        assert "For these, H0 is therefore that this set of draws" in result.describe()
        verdict = sc.check(x, target, modes=locations, rng=0)
        assert set(verdict.mode_table.words) == {"not compared"}
        assert "as expected" not in str(verdict)

    def test_rarely_visited_modes_are_pooled(self):
        rng = np.random.default_rng(4)
        weights = np.array([0.42, 0.4, 0.06, 0.06, 0.06])
        mode = label_chain(weights, 0.1, 4, 400, rng).ravel()
        chain = np.repeat(np.arange(4), 400)
        mode[mode == 4] = 3  # mode 4 has no draw, and a share that matters
        flows = chain_flows(count_moments(labels_as_orbits(mode, weights)), mode, chain)
        assert flows.compared.all()
        assert not flows.single[4]

    def test_replicates_are_sign_changes_of_block_sums(self):
        rng = np.random.default_rng(5)
        weights = np.array([0.3, 0.3, 0.4])
        mode = label_chain(weights, 0.3, 2, 400, rng).ravel()
        chain = np.repeat([0, 1], 400)
        flows = chain_flows(count_moments(labels_as_orbits(mode, weights)), mode, chain)
        tested = compare_chains(flows, np.arange(3.0)[:, None], chain, np.random.default_rng(6))
        flow = weights - np.eye(3)[mode]
        metric = np.linalg.pinv(800 * (np.diag(weights) - np.outer(weights, weights)))
        sums = np.array([flow[tested.blocks.label == b].sum(axis=0) for b in range(tested.blocks.n_blocks)])
        signs = block_signs(tested.blocks.n_blocks, 999, np.random.default_rng(6)).astype(float) @ sums
        expected = np.einsum("bi,ij,bj->b", signs, metric, signs)
        np.testing.assert_allclose(tested.comparison.null, expected, rtol=1e-8, atol=1e-9)
        total = flow.sum(axis=0)
        assert tested.comparison.statistic == pytest.approx(total @ metric @ total)

    def test_set_is_compared_with_40_draws(self):
        """The limits of the share of one of two equal modes are .5 +- .18."""
        location = np.array([[0.0], [1.0]])
        for count, rejected in ((669, False), (690, True)):
            moments = count_moments(labels_as_orbits(np.repeat([0, 1], [count, 1000 - count]), [0.5, 0.5]))
            judged = judge_set(moments, np.array([0.5, 0.5]), location, 1000.0, np.inf)
            assert (judged.set_pvalue <= 0.05) == rejected
            assert judged.missing_pvalue == 1
        moments = count_moments(labels_as_orbits(np.zeros(1000, dtype=int), [0.9, 0.1]))
        judged = judge_set(moments, np.array([0.9, 0.1]), location, 50.0, np.inf)
        assert judged.missing_pvalue == pytest.approx(2 * 0.9**50)

    def test_set_is_compared_with_what_the_chains_are_worth(self):
        """Chains that change mode are held to what they are worth, stuck ones to 40 draws."""
        chain = np.repeat(np.arange(4), 500)
        mode = np.zeros((4, 500), dtype=int)
        mode[3, 100:] = 1
        assert effective_size_of_set(mode.ravel(), chain, 2) == 5
        assert effective_size_of_set(np.repeat([0, 0, 0, 1], 500), chain, 2) == np.inf
        assert 500 < effective_size_of_set(np.random.default_rng(0).integers(2, size=2000), chain, 2) < 4000
        halves = np.concatenate([np.tile([0, 1], 500), np.tile([2, 3], 500)])
        assert effective_size_of_set(halves, chain, 4) == np.inf
        assert effective_size_of_set(np.zeros(2000, dtype=int), chain, 2) == np.inf

    def test_a_tail_draw_nearest_to_another_mode_is_no_change(self):
        """Chains settle in a mode where they come to its core."""
        mode = np.array([0, 1, 0, 0, 1, 1, 1, 0, 1, 1])
        radius = np.array([0.5, 3.0, 0.2, 1.0, 2.5, 0.1, 1.0, 3.0, 2.9, 3.1])
        chain = np.repeat([0, 1], [7, 3])
        found = settled_modes(mode, radius, 1, chain, 1.0)
        np.testing.assert_array_equal(found, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
        np.testing.assert_array_equal(settled_modes(mode, radius, 1, chain, 0.5)[7:], mode[7:])
        np.testing.assert_array_equal(settled_modes(mode, radius, 1, chain, 2.5)[:7], np.zeros(7))
        radius[8] = 0.3
        np.testing.assert_array_equal(settled_modes(mode, radius, 1, chain, 0.5)[7:], [1, 1, 1])

    @pytest.mark.parametrize("length", [1000, 20_000])
    @pytest.mark.parametrize(
        ("starts", "answer"),
        [((0, 0, 0, 1), "does not fit: misfit found"), ((0, 0, 1, 1), "cannot tell")],
    )
    def test_stuck_chains_whose_tails_cross(self, starts, answer, length):
        """Modes 6 apart: one draw in 740 is nearest to the other mode, though no chain ever goes there."""
        target = sc.models.gaussian_mixture([[-3.0], [3.0]])
        noise = np.random.default_rng(1).normal(size=(4, length, 1))
        x = np.array(starts)[:, None, None] * 6.0 - 3.0 + noise
        assert np.any((x > 0) != np.array(starts, dtype=bool)[:, None, None])
        result = sc.flux_test(x, target, modes=[[-3.0], [3.0]], rng=0)
        assert f"{answer} at level" in str(result)
        assert result.inconclusive() == (answer == "cannot tell")
        assert result.chains.n_changes == 0
        assert result.chains.set_size == 40

    def test_heavy_modes_that_were_compared_only_together_are_no_sign_of_a_fit(self):
        """Modes 2 and 3 have 30 % of the mass, and fewer than 10 sojourns each."""
        rng = np.random.default_rng(0)
        often = [np.repeat(rng.integers(2, size=20), 20) for _ in range(12)]
        rarely = [np.repeat(k, 70) for k in (2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3)]
        mode = np.concatenate([part for pair in zip(often, rarely, strict=True) for part in pair])
        weights = [0.35, 0.35, 0.15, 0.15]
        modes = sc.result.Modes(
            10.0 * np.arange(4)[:, None], np.ones((4, 1, 1)), np.log(weights), np.zeros(4)
        )
        found = labels_as_orbits(mode, weights)
        chain = np.zeros(len(mode), dtype=int)
        part = compare_chain_modes(found, count_moments(found), modes, chain, 1.0, rng, [])
        assert part.chains.pooled == (2, 3)
        assert "modes 2, 3 are visited too rarely" in part.inconclusive_reason

    def test_a_rare_mode_may_be_missed_by_chains_of_little_worth(self):
        location = np.array([[0.0], [1.0], [2.0]])
        for share, worth, missing in ((0.3, 5.0, True), (0.01, 5.0, False), (0.01, np.inf, True)):
            weights = [0.5 * (1 - share), 0.5 * (1 - share), share]
            moments = count_moments(labels_as_orbits(np.repeat([0, 1], 500), weights))
            judged = judge_set(moments, np.array(weights), location, 1000.0, worth)
            assert (judged.missing_pvalue <= 0.001) == missing
            assert judged.size == min(worth, 40)

    def test_same_seed_same_result(self):
        x = at_two_modes(
            label_chain([0.5, 0.5], 0.2, 4, 300, np.random.default_rng(7)), np.random.default_rng(8)
        )
        one = sc.flux_test(x, TWO, modes=[[-4.0], [4.0]], rng=3)
        two = sc.flux_test(x, TWO, modes=[[-4.0], [4.0]], rng=one.settings["rng"])
        assert one.pvalue == two.pvalue


class TestObservedIntervals:
    """Intervals of the shares of the draws at the modes."""

    def test_few_sojourns_are_worth_as_many_draws(self):
        """Chains of one sojourn each but one: 5 draws, 4 of them at mode 0."""
        mode = np.zeros((4, 500), dtype=int)
        mode[3, 100:] = 1
        found = observed_intervals(mode.ravel(), np.repeat(np.arange(4), 500), 3)
        exact = stats.binomtest(4, 5).proportion_ci(method="exact")
        np.testing.assert_allclose(found[0], exact)
        np.testing.assert_allclose(found[1], 1 - found[0][::-1])
        assert np.isnan(found[2]).all()

    def test_independent_draws_have_nearly_the_exact_interval(self):
        mode = (np.random.default_rng(0).random(20_000) < 0.3).astype(int)
        found = observed_intervals(mode, np.repeat(np.arange(4), 5000), 2)[1]
        exact = stats.binomtest(int(mode.sum()), len(mode)).proportion_ci(method="exact")
        np.testing.assert_allclose(found, exact, atol=0.4 * (exact.high - exact.low))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("weight", "rate", "n_chains", "length"),
        [(0.5, 0.002, 4, 500), (0.5, 0.008, 1, 2000), (0.2, 0.008, 4, 500), (0.1, 0.1, 4, 1000)],
    )
    def test_cover(self, weight, rate, n_chains, length):
        """Of stationary chains that change mode rarely, where an interval is given."""
        rng = np.random.default_rng(1)
        chain = np.repeat(np.arange(n_chains), length)
        covers = []
        for _ in range(200):
            mode = label_chain([1 - weight, weight], rate, n_chains, length, rng).ravel()
            low, high = observed_intervals(mode, chain, 2)[1]
            if not np.isnan(low):
                covers.append(low <= weight <= high)
        assert len(covers) > 100
        assert_coverage(sum(covers), len(covers), 0.94)

    def test_chains_that_never_change_mode_have_none(self):
        x = at_two_modes(np.repeat(np.array([0, 0, 0, 1])[:, None], 250, axis=1), np.random.default_rng(1))
        result = sc.flux_test(x, TWO, modes=[[-4.0], [4.0]], rng=0)
        assert np.isnan(result.mode_table.observed_interval).all()
        assert np.isfinite(result.mode_table.implied_interval).all()
        assert result.chains.n_blocks == 0
        assert np.isnan(result.chains.effective_sample_size)
        assert "nan" not in str(result.chains)
        record = json.loads(result.to_json())
        assert record["chains"]["effective_sample_size"] is None
        assert record["mode_table"]["observed_interval"] == [[None, None]] * 2

    def test_a_verdict_without_intervals_is_told_drawn_and_reported(self, tmp_path):
        x = at_two_modes(np.repeat(np.array([0, 0, 0, 1])[:, None], 250, axis=1), np.random.default_rng(1))
        verdict = sc.check(x, TWO, modes=[[-4.0], [4.0]], rng=0)
        text = str(verdict)
        assert "75.0% (no interval)" in text
        assert "no interval at a mode that no chain ever enters or leaves" in text
        assert verdict.tests["weights"].set_hypothesis in text
        assert "nan" not in text
        page = tmp_path / "page.html"
        sc.report.write_html(page, verdict, x)
        assert "75.0% (no interval)" in page.read_text()
        assert json.loads(verdict.to_json())["mode_table"]["observed_interval"] == [[None, None]] * 2


class TestWeightsOfDraws:
    def test_stuck_draws_are_repaired(self):
        rng = np.random.default_rng(9)
        x = at_two_modes(np.repeat(np.array([0, 0, 0, 1])[:, None], 250, axis=1), rng)
        result = sc.flux_test(x, TWO, modes=[[-4.0], [4.0]], rng=0)
        repaired = importance_weights(result.mode_table, result.mode_of_draw, autocorrelation_time=2.0)
        assert repaired.weights.mean() == pytest.approx(1)
        share = repaired.weights[result.mode_of_draw == 0].sum() / 1000
        assert share == pytest.approx(0.5, abs=2e-3)
        kish = repaired.weights.sum() ** 2 / np.sum(repaired.weights**2)
        assert repaired.effective_sample_size == pytest.approx(kish / 2, rel=1e-3)

    def test_a_missing_mode_cannot_be_repaired(self):
        x = np.random.default_rng(10).normal(-4, 1, size=(200, 1))
        table = sc.flux_test(x, TWO, modes=[[-4.0], [4.0]], rng=0).mode_table
        with pytest.raises(
            ValueError, match=r"draws at every mode of non-negligible weight, modes \[1\] have none"
        ):
            importance_weights(table, np.zeros(200, dtype=int))


def test_implied_shares_are_those_of_mbar():
    """Masses of 3 states by the self-consistent equations of MBAR, iterated to convergence."""
    rng = np.random.default_rng(11)
    log_weight = rng.normal(size=(400, 3)) + np.log([0.5, 0.3, 0.2])
    mode = np.array(
        [rng.choice(3, p=p) for p in np.exp(log_weight - np.logaddexp.reduce(log_weight, 1)[:, None])]
    )
    counts = np.bincount(mode, minlength=3)
    mass = np.ones(3)
    for _ in range(5000):
        mass = np.sum(np.exp(log_weight) / (np.exp(log_weight) @ (counts / mass))[:, None], axis=0)
        mass /= mass.sum()
    found = implied_shares(log_weight, mode)
    np.testing.assert_allclose(found.share, mass, rtol=1e-8)
    np.testing.assert_allclose(found.influence.mean(axis=0), 0, atol=1e-8)


def test_implied_shares_are_those_of_pymbar():
    """Four Gaussian states, the last one without draws, against the free energies that pymbar computed."""
    state = np.repeat(np.arange(4), MBAR["counts"])
    rng = np.random.default_rng(MBAR["seed"])
    x = rng.normal(np.take(MBAR["centres"], state), np.take(MBAR["scales"], state))
    log_weight = -0.5 * ((x[:, None] - MBAR["centres"]) / MBAR["scales"]) ** 2
    found = implied_shares(log_weight, state)
    free_energy = np.log(found.share[0] / found.share)
    np.testing.assert_allclose(free_energy, MBAR["free_energy"], rtol=1e-9, atol=1e-12)
    relative = found.influence - found.influence[:, :1]
    standard_error = np.sqrt(np.mean(relative**2, axis=0) / len(x))
    # ours from the spread of the influences, pymbar's from the information
    np.testing.assert_allclose(standard_error, MBAR["standard_error"], rtol=0.05)


class TestSymmetries:
    """Two-component labels and signs of units: p(g x) = p(x) for signed permutations g."""

    @staticmethod
    def bananas():
        """Four curved modes, images of each other under permutation and joint change of sign."""

        def one(x, a, b):
            return -0.5 * (a - 6) ** 2 - 2.0 * (b - 3 - 0.3 * (a - 6) ** 2) ** 2

        def log_density(x):
            a, b = x[:, 0], x[:, 1]
            return np.logaddexp.reduce([one(x, a, b), one(x, b, a), one(x, -a, -b), one(x, -b, -a)], axis=0)

        target = sc.Target(log_density, dim=2)
        return target, as_modes([[6.0, 3.0], [3.0, 6.0], [-6.0, -3.0], [-3.0, -6.0]], target)

    def test_images_are_found_and_verified(self):
        target, modes = self.bananas()
        images = images_of_modes(target, modes, np.random.default_rng(0))
        assert images[0] is None
        for k in (1, 2, 3):
            assert images[k].mode == 0
            np.testing.assert_allclose(images[k].symmetry(modes.locations[:1])[0], modes.locations[k])
        tilted = sc.Target(lambda x: target.log_density(x) + 1e-3 * x[:, 0] ** 3 * (x[:, 0] > 7), dim=2)
        assert images_of_modes(tilted, modes, np.random.default_rng(0))[1] is None

    def test_anchors_of_symmetric_modes_are_images(self):
        target, modes = self.bananas()
        anchors = local_anchors(target, modes, 3, rng=0)
        np.testing.assert_array_equal(np.bincount(anchors.mode), 3)
        for k, g in enumerate(images_of_modes(target, modes, np.random.default_rng(0))[1:], 1):
            centres = g.symmetry(anchors.centres[anchors.mode == 0])
            np.testing.assert_allclose(anchors.centres[anchors.mode == k], centres)
        np.testing.assert_array_equal(anchors.mode[assign(modes.locations, anchors)], np.arange(4))


class TestLattices:
    @staticmethod
    def modulated(last):
        """exp(-x^2/200) (1 + cos): modes at multiples of 2 pi, listed up to number `last` on either side."""
        target = sc.Target(
            lambda x: -0.5 * (x[:, 0] / 12) ** 2 + 4 * np.cos(x[:, 0]),
            lambda x: -x / 144 - 4 * np.sin(x),
            dim=1,
        )
        places = np.array([2 * np.pi * k * (1 - 1 / (4 * 144)) for k in range(-last, last + 1)])[:, None]
        return target, as_modes(places, target)

    @staticmethod
    def sample(target, n, rng, widest=np.inf):
        """Exact draws by inversion on a fine grid, of the part within `widest`."""
        grid = np.arange(-90, 90, 1e-3)
        mass = np.exp(target.log_density(grid[:, None])) * (np.abs(grid) <= widest)
        return np.interp(rng.random(n), np.cumsum(mass) / mass.sum(), grid)[:, None]

    @pytest.mark.slow
    def test_a_lattice_that_is_listed_is_tested_mode_by_mode(self):
        """The central part of the density: no displacement sees it, the modes do."""
        target, modes = self.modulated(10)
        assert lattice_steps(target, modes) is None
        rng = np.random.default_rng(12)
        result = sc.flux_test(self.sample(target, 1000, rng, 15.0), target, modes=modes, rng=0)
        assert result.lattice is None
        assert result.pvalue < 0.002  # the exact variant goes no lower
        right = [
            sc.flux_test(self.sample(target, 1000, rng), target, modes=modes, rng=0).reject()
            for _ in range(40)
        ]
        assert_level(right)

    def test_where_most_modes_are_listed_both_ways_count(self):
        target, modes = self.modulated(2)
        x = self.sample(target, 1000, np.random.default_rng(13))
        log_p = target.log_density(x)
        warnings = []
        result = flux_core(x, log_p, target, modes, rng=np.random.default_rng(0), warnings=warnings)
        assert result.lattice is not None
        assert result.mode_table is not None
        assert any("and between the modes listed" in text for text in warnings)
        by_modes = flux_core(x, log_p, target, modes, anchors=1, rng=np.random.default_rng(0), warnings=[])
        assert result.pvalue == pytest.approx(min(1, 2 * min(by_modes.pvalue, result.lattice.pvalue)))


class TestStudy:
    """The committed study meets its thresholds."""

    @staticmethod
    def rows(method):
        with RESULTS.open() as file:
            rows = [row for row in csv.DictReader(file) if row["method"] == method]
        return {(row["case"], int(row["chains"]), int(row["length"])): row for row in rows}

    def test_level(self):
        rates = {
            key: int(row["count"]) / int(row["runs"])
            for key, row in self.rows("rejected").items()
            if "sampled" not in key[0] and "one ." not in key[0] and "rare changes" not in key[0]
        }
        assert len(rates) >= 30
        assert max(rates.values()) <= 0.08
        assert np.mean(list(rates.values())) <= 0.06

    def test_power(self):
        rows = self.rows("rejected")
        for case, rate in (("two modes, sampled .6/.4", 0.75), ("eight modes, sampled in turn", 0.8)):
            row = rows[case, 4, 1000]
            assert int(row["count"]) / int(row["runs"]) >= rate

    def test_stuck_chains(self):
        for case, method in (
            ("4:0", "rejected as a set"),
            ("3:1", "rejected as a set"),
            ("2:2", "cannot tell"),
        ):
            row = self.rows(method)[f"stuck {case}", 4, 250]
            assert row["count"] == row["runs"]

    @pytest.mark.slow
    def test_observed_intervals_cover(self):
        without = self.rows("no interval")
        cases = 0
        for key, row in self.rows("covers the observed share").items():
            given = int(row["runs"]) - int(without[key]["count"])
            if "sampled" in key[0] or "stuck" in key[0] or not given:
                continue
            cases += 1
            assert_coverage(int(row["count"]), given, 0.95)
        assert cases >= 30

    def test_rare_changes_are_judged_as_a_set(self):
        """Sets of correct chains are rejected often only where chains never change mode: at .002, in 15 %."""
        rates = {
            key[0]: int(row["count"]) / int(row["runs"])
            for key, row in self.rows("rejected as a set").items()
            if "rare changes" in key[0]
        }
        assert rates.pop("rare changes, never") > 0.5
        assert rates.pop("rare changes, rate .002") <= 0.15
        assert max(rates.values()) <= 0.08

    def test_intervals_cover(self):
        rows = self.rows("covers the implied share")
        assert rows
        for row in rows.values():
            assert 0.9 <= int(row["count"]) / int(row["runs"]) <= 0.985


class TestRepair:
    """Weights of `check` that give draws of stuck chains the shares of the density."""

    def stuck(self, starts):
        return at_two_modes(np.repeat(np.array(starts)[:, None], 250, axis=1), np.random.default_rng(1))

    def test_chains_stuck_at_both_modes_are_mended(self):
        x = self.stuck((0, 0, 0, 1))
        verdict = sc.check(x, TWO, modes=[[-4.0], [4.0]], rng=0)
        repair = verdict.importance_weights
        assert repair.weights.shape == (1000,)
        assert repair.weights.mean() == pytest.approx(1)
        assert np.average(x.ravel() > 0, weights=repair.weights) == pytest.approx(0.5, abs=0.01)
        # 750 and 250 independent draws, reweighted to one half each: 1 / (.25/750 + .25/250) = 750
        assert 500 < repair.effective_sample_size < 800
        assert "verdict.importance_weights, give the modes the shares of the density" in str(verdict)

    def test_held_out_draws_have_weights_too(self):
        verdict = sc.check(self.stuck((0, 0, 0, 1)), TWO, rng=0)
        assert verdict.importance_weights.weights.shape == (1000,)
        assert verdict.tests["weights"].n_tested < 1000
        assert len(np.unique(verdict.importance_weights.weights)) == 2

    def test_a_mode_without_draws_cannot_be_mended(self):
        assert (
            sc.check(self.stuck((0, 0, 0, 0)), TWO, modes=[[-4.0], [4.0]], rng=0).importance_weights is None
        )

    def test_one_mode_needs_no_weights(self):
        target = sc.models.gaussian_mixture([[0.0]])
        x = np.random.default_rng(0).normal(size=(200, 1))
        assert sc.check(x, target, modes=[[0.0]], rng=0).importance_weights is None


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
        right = [compare_chain_steps(*self.flows(0.3, rng), rng)[0] for _ in range(25)]
        assert_level([test.pvalue for test in right])
        assert {test.degrees_of_freedom for test in right} == {6}
        naive = [compare_steps(self.flows(0.3, rng)[0], "asymptotic", rng).pvalue for _ in range(25)]
        assert_power(naive, 0.44)
        wrong = [compare_chain_steps(*self.flows(0.3, rng, 0.8), rng)[0].pvalue for _ in range(5)]
        assert max(wrong) <= 0.01

    def test_chains_that_hardly_change_sign_give_no_pvalue(self):
        rng = np.random.default_rng(1)
        flows, chain = self.flows(0.002, rng)
        outcome, table, reason = _compared_steps(flows, chain, "asymptotic", rng)
        assert np.isnan(outcome.pvalue)
        assert outcome.null is None
        assert len(table.net_flow) == 6
        assert "too rarely along the displacements" in reason or "times as long" in reason
        outcome, table, reason = _compared_steps(*self.flows(0.3, rng), "asymptotic", rng)
        assert reason == ""
        # (2 rate^-1 - 1) times the variance of independent signs, 1 / 2000
        assert table.net_flow_se == pytest.approx(np.sqrt((2 / 0.3 - 1) / 2000), rel=0.5)

    @pytest.mark.slow
    def test_chains_on_a_lattice_that_is_partly_listed(self):
        target, modes = TestLattices.modulated(1)
        rng = np.random.default_rng(2)
        chain = np.repeat(np.arange(4), 200)

        def test(x):
            return flux_core(x, target.log_density(x), target, modes, chain=chain, rng=rng, warnings=[])

        mixed = [test(TestLattices.sample(target, 800, rng)) for _ in range(12)]
        assert {result.variant for result in mixed} == {"block signs"}
        assert all(result.lattice is not None and not result.inconclusive_reason for result in mixed)
        assert_level([result.pvalue for result in mixed], (0.05, 0.2))
        stuck = test(rng.normal(0, 0.5, size=(800, 1)))
        assert stuck.variant == "set"
        assert stuck.pvalue < 1e-10
        assert stuck.inconclusive_reason.startswith("the chains never change mode")


@pytest.mark.slow
def test_groups_of_modes_that_never_meet_are_named():
    """Chains 0 and 2 change between modes 0 and 1, the others between 2 and 3: half of the level each."""
    rng = np.random.default_rng(14)
    weights = np.full(4, 0.25)
    modes = sc.result.Modes(10.0 * np.arange(4)[:, None], np.ones((4, 1, 1)), np.log(weights), np.zeros(4))
    chain = np.repeat(np.arange(4), 1000)
    pvalues = []
    for _ in range(20):
        mode = label_chain([0.5, 0.5], 0.1, 4, 1000, rng) + 2 * (np.arange(4) % 2)[:, None]
        found = labels_as_orbits(mode.ravel(), weights)
        part = compare_chain_modes(found, count_moments(found), modes, chain, 1.0, rng, [])
        pvalues.append(part.outcome.pvalue)
        assert part.inconclusive_reason.endswith("whose weights could not be compared: 0, 1; 2, 3")
    assert_level(pvalues, (0.05, 0.2))


@pytest.mark.parametrize("weight", [1e-5, 0.002, 0.009])
def test_a_light_mode_without_draws_does_not_make_good_chains_inconclusive(weight):
    target = sc.models.gaussian_mixture([[0.0], [9.0]], weights=[1 - weight, weight])
    x = ar1_chains(np.random.default_rng(0), 4, 1000, 1, 0.8)
    verdict = sc.check(x, target, modes=[[0.0], [9.0]], rng=0)
    assert verdict.fits is True
    assert not verdict.warnings
    assert verdict.tests["weights"].inconclusive_reason == ""
    within = verdict.tests["kernel"].chains.effective_sample_size
    assert 0.5 * within < verdict.importance_weights.effective_sample_size < 2 * within


def test_a_mode_of_some_percent_that_no_chain_visits_is_no_pass():
    target = sc.models.gaussian_mixture([[0.0], [9.0]], weights=[0.96, 0.04])
    x = ar1_chains(np.random.default_rng(0), 4, 200, 1, 0.8)
    verdict = sc.check(x, target, modes=[[0.0], [9.0]], rng=0)
    assert verdict.fits is None
    assert "the chains never change mode" in verdict.sentence


def test_stuck_chains_are_no_pass_at_any_level():
    """Between the adjusted and the single p-value the test neither rejects nor tells."""
    x = np.random.default_rng(0).normal(size=(7, 500, 1)) + np.array([-4, -4, 4, 4, 4, 4, 4])[:, None, None]
    for alpha in (0.05, 0.02, 0.01, 0.002):
        verdict = sc.check(x, TWO, modes=[[-4.0], [4.0]], alpha=alpha, rng=0)
        assert verdict.fits is not True
        assert (verdict.fits is False) == (verdict.adjusted_pvalues["weights"] <= alpha)


def test_importance_weights_restore_the_shares_of_all_draws():
    target = sc.models.gaussian_mixture([[-4.0], [4.0]], weights=[0.9, 0.1])
    draws = target.sample(200, 24, weights=[0.97, 0.03])
    verdict = sc.check(draws, target, max_evaluations=20_000, rng=0)
    assert verdict.tests["weights"].n_tested < 200
    weights = verdict.importance_weights.weights
    shares = np.bincount(verdict.mode_of_draw, weights, minlength=2) / weights.sum()
    np.testing.assert_allclose(shares, verdict.mode_table.implied, atol=1e-12)
    assert verdict.importance_weights.effective_sample_size <= weights.sum() ** 2 / np.sum(weights**2) + 1e-9
