"""What the advice says can be done and ends in a fit: stuck chains, a missing mode, mean field, burn-in."""

import numpy as np
import pytest
from harness import ar1_chains, gaussian

import steincheck as sc

MODES = [[-6.0], [6.0]]


@pytest.fixture(scope="module")
def far_apart():
    return sc.models.gaussian_mixture(MODES)


def test_stuck_chains_are_weighted(far_apart):
    x = ar1_chains(np.random.default_rng(3), 4, 400, 1, 0.2)
    x += np.where(np.arange(4) < 3, 6.0, -6.0)[:, None, None]
    verdict = sc.check(x, far_apart, modes=MODES, rng=0)
    assert verdict.fits is False
    assert verdict.advice[0].startswith("weight the draws: `check(draws, target, weights=")
    repaired = sc.check(x, far_apart, modes=MODES, weights=verdict.importance_weights, rng=0)
    assert repaired.fits is True
    assert repaired.effective_sample_size < 0.9 * repaired.n
    assert repaired.accuracy[0].draws_mean == pytest.approx(0.0, abs=0.3)


def test_a_missing_mode_has_a_starting_point(far_apart):
    x = np.random.default_rng(0).normal(6.0, 1.0, size=(500, 1))
    verdict = sc.check(x, far_apart, modes=MODES, rng=0)
    assert verdict.advice == (
        "sample again from every mode (at `verdict.starting_points`), then check again",
    )
    starts = [point["x"] for point in verdict.starting_points]
    rng = np.random.default_rng(1)
    again = rng.permutation(np.concatenate([rng.normal(start, 1.0, size=(500, 1)) for start in starts]))
    assert sc.check(again, far_apart, modes=MODES, rng=0).fits is True


def test_mean_field_draws_are_weighted_by_p_over_q():
    covariance = np.array([[1.0, 0.4], [0.4, 1.0]])
    target = gaussian(covariance)
    sd = 1 / np.sqrt(np.diag(np.linalg.inv(covariance)))
    x = np.random.default_rng(0).normal(size=(2000, 2)) * sd
    log_q = -0.5 * np.sum((x / sd) ** 2, axis=1)
    verdict = sc.check(x, target, modes=[[0.0, 0.0]], log_q=log_q, rng=0)
    assert verdict.fits is False
    assert verdict.k_hat < 0.7
    assert "importance weights can correct these draws" in str(verdict)
    assert verdict.advice[0] == "weight the draws: `check(draws, target, log_weights=log_p - log_q)`"
    assert "longer" not in " ".join(verdict.advice)
    weighted = {"log_weights": target.log_density(x) - log_q}
    assert sc.check(x, target, modes=[[0.0, 0.0]], **weighted, rng=0).fits is True


def test_burn_in_is_discarded():
    x = ar1_chains(np.random.default_rng(0), 4, 1000, 1, 0.5)
    x[:, :100] += np.linspace(6, 0, 100)[:, None]
    target = sc.models.gaussian_mixture([[0.0]])
    verdict = sc.check(x, target, modes=[[0.0]], rng=0)
    assert verdict.advice[0].startswith("discard the warm-up")
    clean = sc.check(x[:, 150:], target, modes=[[0.0]], rng=0)
    assert clean.fits is True
    np.testing.assert_array_equal(clean.mode_of_draw, np.zeros(3400))


def test_draws_of_negligible_weight_may_lie_anywhere():
    target = sc.models.gaussian_mixture([[0.0]])
    x = np.random.default_rng(0).uniform(-30, 30, size=(8000, 1))
    verdict = sc.check(x, target, modes=[[0.0]], log_weights=-0.5 * x[:, 0] ** 2, rng=0)
    assert verdict.fits is True
    x[0] = 30.0
    weights = np.exp(-0.5 * x[:, 0] ** 2) + 0.1 * (np.arange(8000) == 0)
    assert sc.check(x, target, modes=[[0.0]], weights=weights, rng=0).fits is False
