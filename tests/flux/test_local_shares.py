"""Implied shares of modes with few draws: chains started there stand in for them."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steincheck as sc
from steincheck.flux import local_shares
from steincheck.flux.anchors import mode_anchors
from steincheck.flux.local_shares import LocalPoints, _two_part_error
from steincheck.flux.orbits import Orbits, orbits
from steincheck.flux.shares import implied_shares
from steincheck.modes.arguments import as_modes
from steincheck.wording.weights import weight_context

PLACES = np.array([[0.0, 0.0], [10.0, 0.0]])
T3 = stats.multivariate_t(PLACES[1], np.eye(2), 3)


@pytest.fixture(scope="module")
def heavy():
    """N(0, I) and a t3 mode of the same weight 10 away, and draws of the first alone."""
    height = T3.logpdf(PLACES[1])

    def log_density(x):
        normal = -0.5 * jnp.sum(x**2) - jnp.log(2 * jnp.pi)
        return jnp.logaddexp(normal, height - 2.5 * jnp.log1p(jnp.sum((x - PLACES[1]) ** 2) / 3))

    return sc.from_jax(log_density, 2), np.random.default_rng(0).normal(size=(1000, 2))


def test_the_share_of_a_missing_mode_with_heavy_tails_is_right(heavy, monkeypatch):
    target, draws = heavy
    result = sc.flux_test(draws, target, modes=PLACES, anchors=1, rng=0)
    table = result.mode_table
    assert table.n_draws[1] == 0
    assert table.n_local[0] == 0 < 1000 < table.n_local[1]
    assert table.implied_interval[1, 0] < 0.4934 < table.implied_interval[1, 1]  # .4934 of 2e6 exact draws
    assert abs(table.implied[1] - 0.4934) < 0.025  # three standard errors
    assert weight_context(result) == []
    monkeypatch.setattr(local_shares, "MAX_SCORES", 0)
    without = sc.flux_test(draws, target, modes=PLACES, anchors=1, rng=0)
    assert without.mode_table.n_local is None
    assert without.mode_table.implied[1] < table.implied[1]  # what lies beyond the draws is missed
    assert without.pvalue == result.pvalue
    assert "its interval is too short" in weight_context(without)[0]


def test_modes_with_draws_need_no_chains(heavy):
    target, draws = heavy
    some = draws + np.where(np.arange(1000)[:, None] % 20 == 0, PLACES[1], 0.0)  # 50 at the second mode
    assert (
        sc.flux_test(some, target, modes=PLACES, anchors=1, independent=True, rng=0).mode_table.n_local
        is None
    )


def test_chains_that_would_cost_too_much_are_not_run(heavy):
    target, draws = heavy
    without_score = sc.Target(target.log_density, dim=2)  # four differences per score: 62 walkers at most
    assert sc.flux_test(draws, without_score, modes=PLACES, anchors=1, rng=0).mode_table.n_local[1] > 1000
    assert (
        local_shares._affordable_walkers(sc.Target(target.log_density, dim=50), 1) < local_shares.MIN_WALKERS
    )


def test_standard_errors_are_those_of_repeated_samples(heavy):
    target, _ = heavy
    modes = as_modes(PLACES, target)
    anchors = mode_anchors(modes)

    def carried(x, mode):
        there = orbits(x, target.log_density(x), target, anchors)
        here = there.mode == mode
        return Orbits(there.mode[here], there.log_weight[here], there.radius[here])

    logs, errors = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        of_draws = carried(rng.normal(size=(500, 2)), 0)
        points = carried(T3.rvs(1000, random_state=rng), 1)
        estimate = implied_shares(
            np.concatenate([of_draws.log_weight, points.log_weight]),
            np.concatenate([of_draws.mode, points.mode]),
        )
        # every fourth point is of the same walker; independent points all the same
        walker = np.arange(len(points.mode)) % 250
        logs.append(np.log(estimate.share[1]))
        errors.append(_two_part_error(estimate, LocalPoints(points, walker), None)[0][1])
    # 100 samples: the ratio of variances is chi-square over 99, within these bounds but for 1e-4
    low, high = stats.chi2.ppf([5e-5, 1 - 5e-5], 99) / 99
    assert low < np.var(logs, ddof=1) / np.mean(np.square(errors)) < high


def test_chains_at_one_mode_serve_its_images():
    corners = np.array([[4.0, 4.0], [-4.0, 4.0], [4.0, -4.0], [-4.0, -4.0]])
    target = sc.models.gaussian_mixture(corners)
    draws = target.sample(400, rng=0, weights=[1, 0, 0, 0])
    table = sc.flux_test(draws, target, modes=corners, anchors=1, rng=0).mode_table
    assert table.n_draws.tolist() == [400, 0, 0, 0]
    assert np.all(table.n_local[1:] > 1800)  # 64 walkers, 30 transitions kept
    np.testing.assert_allclose(table.implied, 0.25, atol=0.01)
