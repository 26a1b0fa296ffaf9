"""Rounds: which points are one mode, starts, screening by the score, lines through a mode, symmetries."""

import jax.numpy as jnp
import numpy as np
import pytest
from harness import standard_normal

import steincheck as sc
from steincheck.modes import rounds
from steincheck.modes.climb import peak_at, starts_at
from steincheck.result import SignedPermutation
from steincheck.target.evaluation import CountedTarget


def unit_peak(x, log_density=0.0):
    x = np.asarray(x, dtype=float)
    return peak_at(x, log_density, np.eye(len(x)))


def points_of(starts):
    return np.array([start.x for start in starts])


def empty_search(**options):
    zero, one = np.zeros(1), np.ones(1)
    return rounds.Search(CountedTarget(standard_normal(1)), zero, one, np.random.default_rng(0), **options)


@pytest.mark.parametrize(
    ("heights", "beta", "kept"),
    [([0, 1, 2], 1.0, [0.2, 0.4]), ([2, 1, 0], 20.0, [0.0]), ([0, 0, 0], 0.1, [0, 0.2, 0.4])],
)
def test_modes_are_merged_by_their_hessians(heights, beta, kept):
    """Alg. 2 by hand: the squared distances are 0.5 (10 + 1) 0.04 = 0.22 and 0.5 (100 + 10) 0.04 = 2.2."""
    state = empty_search(beta=beta)
    for x, height, bend in zip([0.0, 0.2, 0.4], heights, [1.0, 10.0, 100.0], strict=True):
        state.add(peak_at(np.array([x]), height, np.array([[bend**-0.5]])))
    assert [peak.x[0] for peak in state.peaks] == kept


def test_screening_finds_the_few_points_in_a_narrow_basin():
    target = sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x @ x, 12 - 0.5 * jnp.sum((x - 5) ** 2) / 0.04), 3)
    rng = np.random.default_rng(0)
    drawn = starts_at(20 * rng.standard_normal((2**15, 3)), np.eye(3))
    kept = rounds.screened_starts(CountedTarget(target), drawn, 64, [unit_peak(np.zeros(3))], rng)
    inside = np.linalg.norm(points_of(kept) - 5, axis=1) < 2.2
    assert len(kept) == 64
    assert inside[:32].sum() >= 4
    assert inside[32:].sum() <= 2


def test_a_needle_on_a_line_through_a_mode_is_found_by_its_height():
    target = sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x @ x, 13 - 0.5 * jnp.sum((x - 7) ** 2) / 1e-3), 2)
    density = CountedTarget(target)
    found = rounds.scanned_starts(density, unit_peak(np.zeros(2)), 6144)
    assert density.budget.made == 6144
    assert np.linalg.norm(points_of(found) - 7, axis=1).min() < 0.1


def test_a_map_moves_points_and_matrices_alike():
    g = SignedPermutation((2, 0, 1), (1, -1, 1))
    x = np.random.default_rng(0).normal(size=3)
    np.testing.assert_array_equal(g(x), [x[2], -x[0], x[1]])
    a = np.random.default_rng(1).normal(size=(3, 3))
    np.testing.assert_allclose(g(x) @ g.conjugate(a) @ g(x), x @ a @ x)
    covariance = a @ a.T + np.eye(3)
    first = peak_at(x, 0.0, np.linalg.cholesky(covariance))
    assert rounds.matching_map(first, peak_at(g(x), 0.0, np.linalg.cholesky(g.conjugate(covariance)))) == g
    assert rounds.matching_map(first, peak_at(g(x), 0.0, first.root)) is None
    assert rounds.matching_map(first, peak_at(g(x), 1.0, np.linalg.cholesky(g.conjugate(covariance)))) is None


def test_coordinates_that_may_stay_do():
    """To rounding, coordinates that are 0 at both modes could change places and signs."""
    noise = 1e-9 * np.random.default_rng(0).normal(size=(2, 5))
    first, second = np.array([[4.0, 0, 0, 0, 0], [0, 4.0, 0, 0, 0]]) + noise
    swap = SignedPermutation((1, 0, 2, 3, 4), (1,) * 5)
    root = np.eye(5) + 1e-9 * np.random.default_rng(1).normal(size=(5, 5))
    assert rounds.matching_map(peak_at(first, 0.0, root), unit_peak(second)) == swap


def test_only_exact_symmetries_are_kept():
    def log_density(x):
        return -np.sum(x**2, axis=1) - 1e-4 * x[:, 0]

    swap, flip = SignedPermutation((0, 2, 1), (1, 1, 1)), SignedPermutation((0, 1, 2), (-1, 1, 1))
    rng = np.random.default_rng(0)
    assert rounds.verified_maps(log_density, [swap, flip], unit_peak(np.zeros(3)), rng) == [swap]
