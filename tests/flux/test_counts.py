import numpy as np
import pytest
from flux_problems import NEAR, draw, mixture
from scipy import stats

from steincheck.flux.anchors import mode_anchors
from steincheck.flux.counts import (
    compare_independent,
    count_tails,
    directions,
    exchange_groups,
    joint_probability,
    jumped_counts,
)
from steincheck.flux.orbits import CountMoments, count_moments, orbits


def moments_of(probabilities, counts=None):
    expected = probabilities.sum(axis=0)
    covariance = np.diag(expected) - probabilities.T @ probabilities
    return CountMoments(expected if counts is None else counts, expected, covariance, probabilities)


def test_jumped_counts_have_the_mean_and_covariance_of_the_counts():
    target, modes = mixture(*NEAR)
    x = draw(NEAR, 200, np.random.default_rng(6))
    moments = count_moments(orbits(x, target.log_density(x), target, mode_anchors(modes)))
    counts = np.concatenate(
        [jumped_counts(moments.probabilities, np.random.default_rng(k)) for k in range(20)]
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
        found = directions(covariance, places, 0.5)
        scale = found.columns
        assert (found.n_full, found.n_trend) == (8, 2)
        white = scale.T @ covariance @ scale
        np.testing.assert_allclose(white[:2], np.eye(9)[:2], atol=1e-9)
        # the sum of the counts does not vary
        np.testing.assert_allclose(np.linalg.eigvalsh(white), [0] + [1] * 8, atol=1e-9)
        # a log-linear tilt of the weights moves the expected counts by V places b: nothing in the others
        np.testing.assert_allclose((covariance @ places @ [1.0, -2.0]) @ scale[:, 2:], 0, atol=1e-9)
        turned = directions(covariance, places @ rng.normal(size=(2, 2)) + 5, 0.5).columns  # other units
        gap = rng.normal(size=9)
        gap -= gap.mean()
        assert np.sum((gap @ turned[:, :2]) ** 2) == pytest.approx(np.sum((gap @ scale[:, :2]) ** 2))
        assert np.sum((gap @ scale) ** 2) == pytest.approx(gap @ np.linalg.pinv(covariance) @ gap, abs=1e-6)

    @pytest.mark.parametrize(("k", "r"), [(3, 1), (31, 5)])
    def test_distribution_of_the_two_together(self, k, r):
        squares = np.random.default_rng(2).standard_normal((200_000, k)) ** 2
        q, t = stats.chi2.sf(squares.sum(axis=1), k), stats.chi2.sf(squares[:, :r].sum(axis=1), r)
        least = np.minimum(q / 0.8, t / 0.2)
        for level in (0.001, 0.05, 0.3, 0.9):
            share = np.mean(least <= level)
            assert share == pytest.approx(joint_probability(level, k, r), abs=4.5 * np.sqrt(share / 200_000))
        # nearly disjoint events, no cancellation
        assert joint_probability(1e-30, k, r) == pytest.approx(1e-30, rel=0.2)
        assert joint_probability(0.0, k, r) == 0
        assert joint_probability(1.25, k, r) == 1


class TestRareModes:
    """A variance below half a draw is raised to it: one draw at a rare mode does not decide, many do."""

    @pytest.mark.parametrize("weight", [1e-4, 1e-6, 1e-12])
    def test_excess_at_a_mode_that_should_have_no_draws(self, weight):
        probabilities = np.tile([0.5 - weight, 0.5, weight], (1000, 1))
        rng = np.random.default_rng(0)

        def compare(counts):
            moments = moments_of(probabilities, np.array(counts))
            return compare_independent(moments, np.arange(3.0)[:, None], "asymptotic", 999, rng)

        assert compare([500, 500, 0]).comparison.pvalue > 0.9
        assert compare([500, 499, 1]).comparison.pvalue > 0.08
        excess = compare([497, 496, 7])
        assert excess.comparison.pvalue <= 0.001
        assert excess.mode_pvalues[2] < 1e-4

    def test_tails_bound_those_of_the_exact_distribution(self):
        probabilities = np.random.default_rng(0).beta(0.3, 2, size=40)
        law = np.ones(1)
        for probability in probabilities:
            law = np.convolve(law, [1 - probability, probability])
        exact = 2 * np.minimum(np.cumsum(law), np.cumsum(law[::-1])[::-1])
        bound = count_tails(np.arange(41), np.full(41, probabilities.sum()), 40)
        assert np.all(bound >= np.minimum(exact, 1) - 1e-12)
        assert bound[30] < 1e-3


def test_weak_exchange_is_no_comparison():
    """Modes in two groups: within them every draw could be anywhere, between them one in a hundred."""
    rng = np.random.default_rng(3)
    probabilities = np.full((1000, 4), 1e-12)
    home, both = rng.random(1000) < 0.5, rng.random(1000) < 0.01
    probabilities[home, :2], probabilities[~home, 2:], probabilities[both] = 0.5, 0.5, 0.25
    moments = moments_of(probabilities)
    assert exchange_groups(moments.covariance, moments.expected).tolist() == [0, 0, 1, 1]
    probabilities[rng.random(1000) < 0.1] = 0.25  # a hundred draws compare the groups
    moments = moments_of(probabilities)
    assert exchange_groups(moments.covariance, moments.expected).tolist() == [0, 0, 0, 0]


def test_draws_that_cannot_move_give_no_pvalue():
    found = compare_independent(
        moments_of(np.eye(2)[[0] * 50 + [1] * 50]), np.eye(2), "exact", 99, np.random.default_rng(0)
    )
    assert found.reason == "nothing moves"
    assert np.isnan(found.comparison.pvalue)
    assert np.isnan(found.mode_pvalues).all()
