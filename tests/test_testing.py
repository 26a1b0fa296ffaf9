"""Tests of samplers: right ones pass, classical errors are found, the evidence is valid."""

import numpy as np
import pytest
from scipy.integrate import quad

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


def metropolis(name, steps=60, step=0.5, accept=None, metric=1.0):
    """Hamiltonian Monte Carlo from exact draws, one trajectory per step, with room for an error."""
    target = targets[name].target
    accept = accept or (lambda log_ratio, rng: np.log(rng.random(len(log_ratio))) < log_ratio)

    def sample(n, rng):
        x = targets[name].sample(n, rng)
        for _ in range(steps):
            p = rng.normal(size=x.shape)
            y, q = x.copy(), p + 0.5 * step * target.score(x)
            for _ in range(3):
                y = y + step * q
                q = q + step * target.score(y)
            q = q - 0.5 * step * target.score(y)
            kinetic = 0.5 * metric * (np.sum(p**2, axis=1) - np.sum(q**2, axis=1))
            take = accept(target.log_density(y) - target.log_density(x) + kinetic, rng)
            x = np.where(take[:, None], y, x)
        return x

    return sample


def test_exact_draws_pass_and_wide_ones_fail():
    target, sample = targets["two_modes"]
    outcome = assert_fits(sample, target)
    assert outcome.n_draws <= 5000
    assert outcome.evidence < 20
    with pytest.raises(AssertionError, match="sd of the draws"):
        assert_fits(wide("two_modes"), target)


def test_draws_that_end_too_early_are_inconclusive():
    target, sample = targets["skewed"]
    with pytest.raises(Inconclusive, match="after 200 draws"):
        assert_fits(sample, target, tolerance=0.001, n=200, max_draws=200)


@pytest.mark.parametrize(
    ("argument", "value"), [("false_alarm", 0), ("tolerance", -1), ("n", 5), ("max_draws", 10)]
)
def test_bad_arguments_are_named(argument, value):
    target, sample = targets["skewed"]
    with pytest.raises(ValueError, match=f"`{argument}`"):
        assert_fits(sample, target, **{argument: value})


@pytest.mark.slow
@pytest.mark.parametrize("name", targets)
def test_every_target_has_exact_draws(name):
    target, sample = targets[name]
    for seed in range(3):
        assert assert_fits(sample, target, rng=seed).n_draws <= 20_000
    with pytest.raises(AssertionError):
        assert_fits(wide(name), target)


@pytest.mark.slow
def test_a_right_sampler_passes():
    assert assert_fits(metropolis("correlated", step=0.1), targets["correlated"].target).n_draws <= 5000


def no_jacobian(n, rng):
    """Logarithms of draws of the density without the Jacobian of the logarithm: shapes one less."""
    return np.log(rng.gamma([0.5, 3.0], size=(n, 2)))


def one_mode(n, rng):
    return np.array([3.0, 1.0]) + 0.6 * rng.normal(size=(n, 2))


def biased(log_ratio, rng):
    """Accept by the root of the ratio."""
    return np.log(rng.random(len(log_ratio))) < 0.5 * log_ratio


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("skewed", no_jacobian),
        ("two_modes", one_mode),
        ("heavy_tails", metropolis("heavy_tails", step=1.2, metric=2.0)),
        ("skewed", metropolis("skewed", step=0.7, accept=lambda r, rng: np.ones(len(r), dtype=bool))),
        ("heavy_tails", metropolis("heavy_tails", step=1.2, accept=biased)),
    ],
    ids=["Jacobian", "missing mode", "kinetic energy twice", "no correction", "biased acceptance"],
)
def test_classical_errors_are_found(name, wrong):
    with pytest.raises(AssertionError):
        assert_fits(wrong, targets[name].target)
