"""Standard errors of dependent walkers, and moments over several modes by the delta method."""

import numpy as np

from steincheck.accuracy.control import Features
from steincheck.accuracy.intervals import Moments, Shares, combine_modes, estimate_moments, standard_error
from steincheck.result import Estimate


def test_groups_of_neighbours_lengthen_the_intervals_of_dependent_walkers():
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(200, 3))
    dependent = np.repeat(rng.normal(size=(20, 3)), 10, axis=0)
    error, freedom = standard_error(dependent, True)
    assert np.all(error > 2 * standard_error(dependent, False)[0])
    assert np.all(freedom == 19)
    np.testing.assert_allclose(standard_error(independent, False)[0], 1 / np.sqrt(200), rtol=0.2)
    assert np.all(standard_error(independent, False)[1] == 199)


def test_without_features_moments_are_those_of_the_states():
    x = np.random.default_rng(1).gamma(2.0, size=(10 * 50, 2))
    moments = estimate_moments(x, Features(np.empty((500, 0)), []), 50, ordered=False)
    np.testing.assert_allclose(moments.mean.value, x.mean(axis=0))
    np.testing.assert_allclose(np.exp(moments.log_sd.value), x.std(axis=0))
    walkers = x.reshape(10, 50, 2).mean(axis=0)
    np.testing.assert_allclose(moments.mean.standard_error, walkers.std(axis=0, ddof=1) / np.sqrt(50))


def test_a_drift_within_the_window_widens_the_interval():
    x = np.random.default_rng(2).normal(size=(10, 50, 1))
    nothing = Features(np.empty((500, 0)), [])
    still = estimate_moments(x.reshape(500, 1), nothing, 50, ordered=False)
    x[5:] += 1.0
    moving = estimate_moments(x.reshape(500, 1), nothing, 50, ordered=False)
    assert moving.mean.bias > 0.4 > 5 * still.mean.bias


def test_the_delta_method_equals_the_spread_of_many_replicates():
    rng = np.random.default_rng(3)
    share = np.array([0.5, 0.3, 0.2])
    covariance = (np.diag(share) - np.outer(share, share)) / 4000
    mean, log_sd = np.array([[0.0], [4.0], [-3.0]]), np.log([[1.0], [0.5], [2.0]])
    mean_se, log_se = np.array([[0.01], [0.02], [0.03]]), np.array([[0.01], [0.015], [0.01]])

    def modes(means, logs):
        zero = np.zeros(1)
        return [
            Moments(Estimate(m, s, zero, zero + 99), Estimate(v, e, zero, zero + 99), zero)
            for m, s, v, e in zip(means, mean_se, logs, log_se, strict=True)
        ]

    told = combine_modes(modes(mean, log_sd), Shares(share, covariance))
    values = []
    for _ in range(1500):
        w = rng.multinomial(4000, share) / 4000
        means, logs = mean + mean_se * rng.normal(size=(3, 1)), log_sd + log_se * rng.normal(size=(3, 1))
        one = combine_modes(modes(means, logs), Shares(w, covariance))
        values.append([one.mean.value[0], one.log_sd.value[0]])
    spread = np.std(values, axis=0)
    np.testing.assert_allclose(
        [told.mean.standard_error[0], told.log_sd.standard_error[0]], spread, rtol=0.06
    )
    variance = np.sum(share[:, None] * (np.exp(2 * log_sd) + mean**2)) - np.sum(share[:, None] * mean) ** 2
    np.testing.assert_allclose(np.exp(2 * told.log_sd.value[0]), variance)


def test_shares_among_some_modes():
    share = np.array([0.6, 0.3, 0.1])
    covariance = (np.diag(share) - np.outer(share, share)) / 100
    part = Shares(share, covariance).among([0, 1])
    np.testing.assert_allclose(part.share, [2 / 3, 1 / 3])
    np.testing.assert_allclose(part.covariance, (2 / 9) / 90 * np.array([[1, -1], [-1, 1]]))
