"""Rounds: scales of starts, screening by the score, lines through a mode."""

import jax.numpy as jnp
import numpy as np

import steincheck as sc
from steincheck.modes.climb import starts_at
from steincheck.modes.peaks import Peak
from steincheck.modes.rounds import (
    ellipsoid_starts,
    isotropic_starts,
    scan_rays,
    scanned_starts,
    score_residuals,
    screened_starts,
)
from steincheck.target.evaluation import CountedTarget


def unit_peak(x, log_density=0.0):
    x = np.asarray(x, dtype=float)
    return Peak(x, log_density, np.eye(len(x)))


def test_scales_of_starts():
    rng = np.random.default_rng(0)
    base = Peak(np.full(3, 5.0), 0.0, np.eye(3) / 4)
    distance = np.linalg.norm(ellipsoid_starts(base, 4000, rng).x - 5, axis=1) / 2
    assert 1 < np.quantile(distance, 0.1) < 5
    assert 500 < np.quantile(distance, 0.9) < 4000
    size = np.linalg.norm(isotropic_starts(base, 4000, rng).x, axis=1)
    assert np.quantile(size, 0.1) < 5
    assert 50 < np.quantile(size, 0.9) < 500


def test_the_residual_is_zero_in_elliptic_basins():
    a = np.random.default_rng(3).normal(size=(3, 3))
    precision = a @ a.T + np.eye(3)
    target = sc.from_jax(lambda x: -0.5 * (x - 1) @ precision @ (x - 1), 3)
    x = 30 * np.random.default_rng(0).normal(size=(10, 3))
    known = [Peak(np.ones(3), 0.0, precision)]
    np.testing.assert_allclose(score_residuals(known, target.score(x), x), 0, atol=1e-9)
    assert score_residuals(known, -target.score(x), x).min() > 1.9


def test_known_modes_predict_the_score_of_their_mixture():
    """Between known modes nothing is odd; a third one that is not known is, and is found there."""
    means = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
    known = [unit_peak(mean) for mean in means[:2]]
    x = np.random.default_rng(0).uniform(-3, 9, size=(500, 2))
    pair = sc.models.gaussian_mixture(means[:2])
    np.testing.assert_allclose(score_residuals(known, pair.score(x), x), 0, atol=1e-9)
    odd = score_residuals(known, sc.models.gaussian_mixture(means).score(x), x)
    near = np.linalg.norm(x - means[2], axis=1) < 1.5
    beyond = np.linalg.norm(x[:, None] - means[:2], axis=2).min(axis=1) < 1.5
    assert np.median(odd[near]) > 100 * np.median(odd[beyond])


def test_screening_finds_the_few_points_in_a_narrow_basin():
    target = sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x @ x, 12 - 0.5 * jnp.sum((x - 5) ** 2) / 0.04), 3)
    rng = np.random.default_rng(0)
    drawn = starts_at(20 * rng.standard_normal((2**15, 3)), np.eye(3))
    kept = screened_starts(CountedTarget(target), drawn, 64, [unit_peak(np.zeros(3))], rng)
    inside = np.linalg.norm(kept.x - 5, axis=1) < 2.2
    assert len(kept.x) == 64
    assert inside[:32].sum() >= 4
    assert inside[32:].sum() <= 2


def test_lines_through_a_mode():
    """Coordinates, principal axes, diagonals; a needle on one of these lines is found by its height."""
    rays = scan_rays(Peak(np.zeros(2), 0.0, np.diag([1.0, 1 / 9])))
    slopes = {round(float(np.degrees(np.arctan2(y, x))) % 180) for x, y in rays}
    assert slopes == {0, 90, 72, 108}
    assert len(scan_rays(unit_peak(np.zeros(7)))) == 15
    target = sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x @ x, 13 - 0.5 * jnp.sum((x - 7) ** 2) / 1e-3), 2)
    density = CountedTarget(target)
    found = scanned_starts(density, unit_peak(np.zeros(2)), 6144)
    assert density.budget.made == 6144
    assert np.linalg.norm(found.x - 7, axis=1).min() < 0.1
