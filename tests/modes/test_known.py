"""Held-out draws, the modes found from them, climbs from the others, and modes that a user gives."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from harness import numpy_mixture

import steincheck as sc
from steincheck.chains.reading import Sample
from steincheck.modes.known import as_modes, climb_from_draws, hold_out, known_modes, search_from_draws
from steincheck.modes.search import as_box
from steincheck.target.evaluation import Budget


def search(target, x, budget=None):
    sample = Sample(x, target.log_density(x))
    return known_modes(None, target, sample, None, rng=np.random.default_rng(0), budget=budget)


@pytest.mark.parametrize(("n", "size"), [(50, 0), (100, 20), (300, 30), (5000, 100)])
def test_sizes_and_rows(n, size):
    held, tested = hold_out(n)
    assert len(held) == size
    np.testing.assert_array_equal(np.sort(np.concatenate([held, tested])), np.arange(n))
    assert size == 0 or np.ptp(np.diff(held)) <= 1  # evenly spaced


def test_the_end_of_every_chain():
    chain = np.repeat([0, 1, 2], [100, 200, 300])
    held, tested = hold_out(600, chain)
    np.testing.assert_array_equal(np.bincount(chain[held]), [10, 20, 30])
    np.testing.assert_array_equal(held[:10], np.arange(90, 100))
    assert len(tested) == 540


def test_whole_chains_if_they_are_short():
    chain = np.repeat(np.arange(60), 3)
    held, tested = hold_out(180, chain)
    assert not set(chain[held]) & set(chain[tested])
    assert 20 <= len(held) <= 23


@pytest.mark.parametrize(("n_groups", "n_held"), [(1, 0), (2, 1), (10, 1), (150, 15)])
def test_a_copy_of_a_held_out_draw_is_not_tested(n_groups, n_held):
    group = np.random.default_rng(0).permutation(np.arange(300) % n_groups)
    held, tested = hold_out(300, group=group)
    assert len(np.unique(group[held])) == n_held
    assert not set(group[held]) & set(group[tested])


def test_modes_depend_on_held_out_draws_only():
    target = sc.models.gaussian_mixture([[0.0], [9.0]])
    x = target.sample(400, 0)
    budget = Budget()
    first, tested, _ = search(target, x, budget)
    assert budget.made == first.search.n_evaluations
    changed = x.copy()
    changed[tested] = 1e6
    second, again, _ = search(target, changed)
    np.testing.assert_array_equal(tested, again)
    np.testing.assert_array_equal(first.locations, second.locations)


def test_few_draws_near_a_plane_give_its_coordinates_too():
    """Condition 1e10: no climb ends at a mode in the original coordinates."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    covariance = (turn * 10.0 ** np.linspace(-5, 5, 6)) @ turn.T
    target = numpy_mixture(np.zeros((1, 6)), covariance[None])
    x = rng.multivariate_normal(np.zeros(6), covariance, size=50)
    modes, rows, _ = search(target, x)
    assert (len(modes), len(rows)) == (1, 50)
    np.testing.assert_allclose(modes.covariances[0], covariance, rtol=1e-2, atol=1e-3)


def test_modes_lighter_than_one_draw_are_left_out_unless_draws_are_there():
    """Weight 6e-8: exact draws were called "cannot tell" because of it."""
    target = sc.from_jax(
        lambda x: jnp.logaddexp(-0.5 * jnp.sum(x**2), -16 - 0.5 * jnp.sum((x - 9) ** 2 / 0.5)), 2
    )
    x = np.random.default_rng(0).normal(size=(600, 2))
    for given in (None, [[0.0, 0.0], [9.0, 9.0]]):
        sample = Sample(x, target.log_density(x))
        known = known_modes(given, target, sample, None, rng=np.random.default_rng(0))
        np.testing.assert_allclose(known.modes.locations, [[0, 0]], atol=1e-6)
    assert sc.check(x, target, modes=given, rng=0).fits
    x[::2] += 9
    held = np.arange(100)
    both = search_from_draws(target, x, held, None, rng=np.random.default_rng(0))
    assert len(both) == 2
    assert len(sc.find_modes(target, draws=x[1::2], rng=0)) == 2


def test_given_modes_and_the_search_in_a_box():
    target = sc.models.gaussian_mixture([[0.0], [9.0]])
    x = target.sample(200, 0)
    with pytest.raises(ValueError, match="give `modes` or `bounds`, not both"):
        as_box((-1, 1), 1, [[0.0]])
    sample = Sample(x, target.log_density(x))
    modes, rows, _ = known_modes([(0.0,), (9.0,)], target, sample, None, rng=np.random.default_rng(0))
    assert (len(modes), len(rows)) == (2, 200)
    result = sc.spksd_test(x, target, bounds=(-5, 15), rng=0)
    assert (len(result.modes), result.n_tested, result.modes.search.n_starts) == (2, 200, 512)


def test_climbs_from_draws_find_the_modes_that_are_not_known():
    target = sc.models.gaussian_mixture([[10.0 * k, 0.0] for k in range(50)])
    x = target.sample(1000, 0)
    scores = target.score(x)
    few = as_modes([[10.0 * k, 0.1] for k in range(25)], target)
    budget = Budget()
    unknown, places = climb_from_draws(x, scores, target, few, budget)
    true = np.sum(x[:, 0] > 245)
    assert 0.7 * true < unknown <= true
    assert 8 <= len(places) <= 16
    assert places[:, 0].min() > 245
    assert budget.made < 1000
    whole = as_modes([[10.0 * k, 0.0] for k in range(50)], target)
    assert climb_from_draws(x, scores, target, whole)[0] == 0


def test_locations_are_climbed_to_their_maxima_in_the_users_order():
    target = numpy_mixture([[-3.0, 0.0], [3.0, 1.0]])
    given = as_modes([[2.8, 1.2], [-3.0, 2.5]], target)
    np.testing.assert_allclose(given.locations, [[3.0, 1.0], [-3.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(given.covariances, [np.eye(2)] * 2, atol=1e-4)
    np.testing.assert_allclose(given.log_density, target.log_density(given.locations))
    assert (given.search, given.search_sentence) == (None, "the modes were given")


def test_covariances_are_taken_as_they_are():
    target = numpy_mixture([[-3.0, 0.0], [3.0, 1.0]])
    locations = np.array([[3.0, 0.5], [-3.0, 0.0]])
    pair = as_modes((locations, np.stack([np.eye(2), 1e8 * np.eye(2)])), target)
    np.testing.assert_array_equal(pair.locations, locations)
    np.testing.assert_array_equal(pair.covariances[1], 1e8 * np.eye(2))
    np.testing.assert_array_equal(as_modes(pair, target).covariances, pair.covariances)
    again = as_modes(replace(pair, log_density=pair.log_density + 5), target)  # of another constant
    np.testing.assert_array_equal(again.log_density, pair.log_density)


def test_a_location_without_a_maximum_is_an_error_that_says_where_the_climb_went():
    target = sc.from_jax(lambda x: x[0] - x[1] ** 2, 2)
    words = r"`modes` must be local maxima: ascending from row 0, \[1. 2.\], leads to \[.*e\+.*\], where"
    with pytest.raises(ValueError, match=words):
        as_modes([[1.0, 2.0]], target)


def test_coordinates_of_modes_are_those_of_the_target():
    target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2, names=["a", "b"])
    known = sc.box_search(target, (-9, 9), rng=0)
    np.testing.assert_array_equal(as_modes(known, target).locations, known.locations)
    with pytest.raises(ValueError, match="the coordinates of the target in its order, a, b, got b, a"):
        as_modes(replace(known, names=("b", "a")), target)
