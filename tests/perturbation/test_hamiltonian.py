"""Hamiltonian transitions leave the density invariant, and reject what is impossible."""

import numpy as np
from scipy import stats

from steincheck.perturbation.hamiltonian import Trajectory, Walkers, hamiltonian_transition


class Gamma:
    """log of a gamma variable of shape 3, beyond 2 of no density; counts its calls."""

    def __init__(self, end=np.inf):
        self.end = end
        self.calls = 0

    def score(self, x):
        self.calls += 1
        return np.where(x < self.end, 3 - np.exp(x), np.nan)

    def log_density_and_score(self, x):
        log_p = np.where(x < self.end, 3 * x - np.exp(x), -np.inf)[:, 0]
        return log_p, self.score(x)


def moved(density, x, n_transitions, rng, inside=None):
    walkers = Walkers(x, *density.log_density_and_score(x))
    for _ in range(n_transitions):
        trajectory = Trajectory(np.array([[0.6]]), rng.uniform(0.5, 1.0), 3)
        walkers, accepted = hamiltonian_transition(walkers, density, trajectory, rng, inside)
    return walkers, accepted


def test_exact_draws_stay_exact():
    rng = np.random.default_rng(0)
    walkers, _ = moved(Gamma(), np.log(rng.gamma(3, size=(4000, 1))), 345, rng)
    assert stats.kstest(np.exp(walkers.x[:, 0]), stats.gamma(3).cdf).pvalue > 1e-4
    log_p, score = Gamma().log_density_and_score(walkers.x)
    np.testing.assert_array_equal(walkers.log_p, log_p)
    np.testing.assert_array_equal(walkers.score, score)


def test_impossible_proposals_leave_the_state():
    rng = np.random.default_rng(2)
    end = 1.0
    x = np.log(rng.gamma(3, size=(20_000, 1)))
    walkers, accepted = moved(Gamma(end), x[x[:, 0] < end], 20, rng)
    assert walkers.x.max() < end
    assert 0.2 < accepted.mean() < 1
    cdf = stats.gamma(3).cdf
    assert stats.kstest(np.exp(walkers.x[:, 0]), lambda v: cdf(v) / cdf(np.exp(end))).pvalue > 1e-4


def test_a_cell_restricts_the_density():
    rng = np.random.default_rng(3)
    x = np.log(rng.gamma(3, size=(8000, 1)))
    x = x[x[:, 0] > 1]
    walkers, _ = moved(Gamma(), x, 20, rng, lambda y: y[:, 0] > 1)
    law = stats.gamma(3)
    tail = law.sf(np.e)
    assert stats.kstest(np.exp(walkers.x[:, 0]), lambda v: 1 - law.sf(v) / tail).pvalue > 1e-4
