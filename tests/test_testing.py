"""Tests of samplers: right ones pass, classical errors are found, the evidence is valid."""

import numpy as np
import pytest
from scipy.integrate import quad

from experiments.testing_study import WRONG, hamiltonian
from steincheck.testing import Inconclusive, assert_fits, log_e_value, targets


def test_e_value_is_a_mean_of_power_calibrators_and_integrates_to_one():
    for p in (1e-9, 0.003, 0.4, 0.99999):
        mean = quad(lambda k, p=p: k * p ** (k - 1), 0, 1)[0]
        assert np.isclose(np.exp(log_e_value(p)), mean, rtol=1e-4)
    # substitute p = exp(-1 / t): the mass near 0 is spread out
    total = quad(lambda t: np.exp(log_e_value(np.exp(-1 / t)) - 1 / t) / t**2, 0.01, 1e4, limit=500)[0]
    assert 0.97 < total < 1.0 + 1e-6
    assert log_e_value(np.nan) == 0


def wide(name):
    """Draws whose first coordinate is 1.3 times too wide about its mean."""
    sample = targets[name].sample

    def wrong(n, rng):
        x = sample(n, rng)
        x[:, 0] += 0.3 * (x[:, 0] - x[:, 0].mean())
        return x

    return wrong


def test_exact_draws_pass_and_wide_ones_fail():
    target, sample = targets["two_modes"]
    outcome = assert_fits(sample, target)
    assert outcome.n_draws <= 5000
    assert outcome.evidence < 20
    with pytest.raises(AssertionError, match="sd of the draws"):
        assert_fits(wide("two_modes"), target)


@pytest.mark.parametrize("shape", [(1000, 2), (4, 250, 2)])
def test_a_sampler_that_does_not_move_fails(shape):
    with pytest.raises(AssertionError, match=r"does not move x\[0\]: all draws are alike"):
        assert_fits(lambda n, rng: np.full(shape, 0.1), targets["skewed"].target)


def test_draws_that_end_too_early_are_inconclusive():
    target, sample = targets["skewed"]
    with pytest.raises(Inconclusive, match="after 200 draws"):
        assert_fits(sample, target, tolerance=0.001, n=200, max_draws=200)


@pytest.mark.slow
@pytest.mark.parametrize("name", targets)
def test_every_target_has_exact_draws(name):
    target, sample = targets[name]
    assert assert_fits(sample, target).n_draws <= 20_000
    with pytest.raises(AssertionError):
        assert_fits(wide(name), target)


@pytest.mark.slow
def test_a_right_sampler_passes():
    assert assert_fits(hamiltonian("correlated", 0.1), targets["correlated"].target).n_draws <= 5000


@pytest.mark.slow
@pytest.mark.parametrize("error", WRONG)
def test_classical_errors_are_found(error):
    name, sample = WRONG[error]
    with pytest.raises(AssertionError):
        assert_fits(sample, targets[name].target)
