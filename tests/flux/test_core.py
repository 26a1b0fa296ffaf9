import functools

import numpy as np
import pytest
from flux_problems import FAR, NEAR, arcs, draw, mixture, odd_anchors
from harness import assert_level, assert_power, assert_uniform
from scipy import stats

import steincheck as sc
from experiments.weights_study import row_of_modes, weighted_draws
from steincheck.flux import core, flux_test
from steincheck.flux.orbits import Anchors


def pvalues_of_correct_samples(parts, n, repetitions, seed, **options):
    target, modes = mixture(*parts)
    rng = np.random.default_rng(seed)
    return np.array([
        flux_test(draw(parts, n, rng), target, modes=modes, rng=rng, **options).pvalue
        for _ in range(repetitions)
    ])  # fmt: skip


@pytest.mark.slow
def test_pvalues_are_uniform():
    p = pvalues_of_correct_samples(NEAR, 300, 400, 0)
    assert_uniform(p)
    assert_level(p, exact=True)


@pytest.mark.slow
def test_any_anchors_keep_the_level(monkeypatch):
    monkeypatch.setattr(core, "mode_anchors", odd_anchors)
    assert_level(pvalues_of_correct_samples(NEAR, 300, 300, 3, anchors=1), exact=True)


@pytest.mark.slow
def test_power_is_that_of_the_labels():
    """Weights .55/.45 for .5/.5, 6 apart, n = 1000: a binomial test on the labels rejects 81 %."""
    parts = ([[-3.0], [3.0]], [[[1.0]], [[1.0]]], [0.5, 0.5])
    target, modes = mixture(*parts)
    rng = np.random.default_rng(4)
    wrong = [
        flux_test(draw(parts, 1000, rng, [0.55, 0.45]), target, modes=modes).reject() for _ in range(200)
    ]
    assert_power(wrong, stats.binom.ppf(1e-4, 200, 0.81) / 200)


def test_a_missing_mode_is_named():
    target, modes = mixture(*FAR)
    x = draw(FAR, 1000, np.random.default_rng(5), [2 / 3, 1 / 3, 0])
    result = flux_test(x, target, modes=modes)
    assert result.pvalue < 1e-10
    assert result.mode_table.n_draws[2] == 0
    assert result.mode_pvalues[2] < 0.05
    low, high = result.mode_table.implied_interval[2]
    assert low <= 0.1 <= high
    assert high - low < 0.03


def test_pvalues_of_single_modes_are_those_of_the_counts():
    modes = np.array([[0.0], [10.0], [20.0], [30.0]])
    counts = np.array([400, 100, 286, 214])
    x = np.repeat(modes, counts, axis=0) + np.random.default_rng(0).normal(size=(1000, 1))
    result = flux_test(x, sc.models.gaussian_mixture(modes), modes=modes, independent=True, rng=0)
    order = np.argsort(result.mode_table.locations[:, 0])
    single = 4 * 2 * stats.norm.sf(np.abs(counts - 250) / np.sqrt(1000 * 0.25 * 0.75))
    np.testing.assert_allclose(result.mode_pvalues[order], single, rtol=0.01)
    assert np.all(np.sign(result.net_flow[order]) == np.sign(250 - counts))


@pytest.mark.parametrize("variant", ["asymptotic", "exact"])
def test_a_trend_is_found_where_the_whole_is_in_doubt(variant):
    """Weights that rise or fall with the places of the modes have a part in the statistic."""
    places = 7.0 * np.arange(8)[:, None] + 0.3 * np.arange(8)[:, None] ** 2
    target = sc.models.gaussian_mixture(places, np.tile([[[1.0]], [[2.0]]], (4, 1, 1)))
    x = target.sample(1000, rng=1, weights=0.125 + 0.005 * (np.arange(8) - 3.5))
    result = flux_test(x, target, modes=places, variant=variant, rng=0)
    whole = stats.chi2.sf(result.statistic, result.degrees_of_freedom)
    assert result.degrees_of_freedom == 7
    assert result.trend_pvalue < 0.01 < whole
    assert result.pvalue < whole


class TestWeights:
    """Importance samples of two equal Gaussians, from a t with 5 degrees of freedom at each of them."""

    target, places = row_of_modes(2, 2)
    sample = staticmethod(functools.partial(weighted_draws, 2, 2, "t5"))

    @pytest.mark.slow
    def test_level_and_power(self):
        """One of two modes at half of its weight is found as by as many draws as the Kish effective size."""
        rng = np.random.default_rng(0)
        good, bad = (
            [
                flux_test(x, self.target, modes=self.places, log_weights=log_w, rng=rng).pvalue
                for x, log_w in (self.sample(wrong, 200, rng) for _ in range(100))
            ]
            for wrong in ("", "half")
        )
        assert_level(good)
        assert_power(bad, 0.95)

    def test_shares_are_weighted(self):
        x, log_w = self.sample("half", 1000, np.random.default_rng(1))
        result = flux_test(x, self.target, modes=self.places, log_weights=log_w, rng=0)
        weight = np.exp(log_w)
        share = weight[x[:, 0] > 4].sum() / weight.sum()
        np.testing.assert_allclose(result.mode_table.observed[1], share, atol=1e-12)
        np.testing.assert_allclose(result.mode_table.implied, 0.5, atol=0.02)
        assert result.variant == "block signs"
        assert result.net_flow[1] < 0 < result.net_flow[0]
        assert result.chains is None
        again = flux_test(x, self.target, modes=self.places, weights=3 * weight, rng=0)
        assert again.pvalue == result.pvalue
        with pytest.raises(ValueError, match="'exact' is for independent draws, but `draws` are weighted"):
            flux_test(x, self.target, modes=self.places, weights=weight, variant="exact")

    def test_equal_weights_change_nothing_but_the_null_distribution(self):
        x, _ = self.sample("", 500, np.random.default_rng(2))
        plain = flux_test(x, self.target, modes=self.places)
        equal = flux_test(x, self.target, modes=self.places, weights=np.full(500, 7.0), rng=0)
        assert equal.statistic == pytest.approx(plain.statistic)
        np.testing.assert_allclose(equal.net_flow, plain.net_flow)
        np.testing.assert_allclose(equal.mode_table.implied_interval, plain.mode_table.implied_interval)

    def test_copies_are_one_group(self):
        """1000 rows from 40 draws of which 24 are at one mode: worth no more than the 40."""
        rng = np.random.default_rng(3)
        x = np.repeat(self.places, [24, 16], axis=0) + rng.normal(size=(40, 2))
        copies = np.repeat(x, 25, axis=0)[rng.permutation(1000)]
        with pytest.warns(UserWarning, match="960 of 1000 draws repeat others exactly"):
            result = flux_test(copies, self.target, modes=self.places, independent=True, rng=0)
        assert result.variant == "block signs"
        assert result.pvalue > 0.1


class TestBudget:
    means = 12.0 * np.arange(8)[:, None]
    target = sc.models.gaussian_mixture(means)

    def test_evenly_spaced_draws_are_tested(self):
        x = self.target.sample(1000, 0)
        counted = []

        def log_density(y):
            counted.append(len(y))
            return self.target.log_density(y)

        slow = sc.Target(log_density, self.target.score, dim=1)
        result = flux_test(x, slow, modes=self.means, max_evaluations=4000, max_seconds=None, rng=0)
        assert sum(counted) <= 4000 * 1.01
        assert 300 < result.n_tested < 1000
        assert np.ptp(np.diff(result.tested_rows)) <= 1
        assert result.settings["max_evaluations"] == 4000

    def test_local_chains_that_are_too_expensive_are_left_out(self):
        target, sample, modes = arcs()
        x = sample(300, np.random.default_rng(0))
        with pytest.warns(UserWarning, match="can be mapped to another mode"):
            result = flux_test(x, target, modes=modes, max_evaluations=10_000, rng=0)
        assert result.efficiency < 0.7


class TestCannotTell:
    def test_no_flow_is_not_a_pass(self):
        """All draws at a mode nobody knows, from which no map leads anywhere."""
        parts = ([[-3.0], [3.0], [50.0]], [[[1.0]], [[1.0]], [[1.0]]], [0.3, 0.3, 0.4])
        target, _ = mixture(*parts)
        x = draw(parts, 200, np.random.default_rng(17), [0, 0, 1])
        with pytest.warns(UserWarning, match="cannot tell: .* no draw can be mapped"):
            result = flux_test(x, target, modes=[[-3.0], [3.0]], anchors=1)
        assert np.isnan(result.pvalue)
        assert result.n_contributing == 0
        assert result.inconclusive_reason == "nothing moves"

    def test_modes_without_exchange_are_named(self, monkeypatch):
        weights = [0.3, 0.2, 0.3, 0.2]
        parts = ([[0.0], [9.0], [30.0], [39.0]], [[[1.0]]] * 4, weights)
        target, modes = mixture(*parts)
        covariances = modes.covariances * np.array([1, 1, 1e-12, 1e-12])[:, None, None]
        narrow = Anchors(modes.locations, covariances, np.zeros(4), np.arange(4))
        monkeypatch.setattr(core, "mode_anchors", lambda _: narrow)
        x = draw(parts, 500, np.random.default_rng(19))
        with pytest.warns(UserWarning, match=r"only 4\d% of the draws|mapped between modes") as caught:
            result = flux_test(x, target, modes=modes, anchors=1)
        assert any("hardly any draw can be mapped between modes 2, 3 and" in str(w.message) for w in caught)
        assert result.inconclusive_reason == "no exchange"
        assert np.isnan(result.mode_table.implied[2:]).all()


def test_the_seed_decides_and_only_where_chance_has_a_part():
    target, modes = mixture(*NEAR)
    x = draw(NEAR, 200, np.random.default_rng(22))
    assert flux_test(x, target, modes=modes).pvalue == flux_test(x, target, modes=modes, rng=5).pvalue
    one, two, other = (flux_test(x, target, modes=modes, variant="exact", rng=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.null_distribution, two.null_distribution)
    assert not np.array_equal(one.null_distribution, other.null_distribution)
    assert one.pvalue == pytest.approx(flux_test(x, target, modes=modes).pvalue, abs=0.07)
