"""Held-out draws, the modes found from them, and climbs from the others."""

import jax.numpy as jnp
import numpy as np
import pytest
from harness import numpy_mixture

import steincheck as sc
from steincheck.modes.arguments import as_modes
from steincheck.modes.held_out import box_beside, climb_from_draws, hold_out, known_modes, search_from_draws
from steincheck.target.evaluation import Budget


def search(target, x, budget=None):
    return known_modes(None, target, x, None, chain=None, rng=np.random.default_rng(0), budget=budget)


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


def test_few_draws_give_location_and_scale_only():
    target = sc.models.gaussian_mixture([[0.0], [9.0]])
    modes, rows, _ = search(target, target.sample(60, 0, weights=[1, 0]))
    assert (len(modes), len(rows)) == (2, 60)


def test_modes_lighter_than_one_draw_are_left_out_unless_draws_are_there():
    """Weight 6e-8: exact draws were called "cannot tell" because of it."""
    target = sc.from_jax(
        lambda x: jnp.logaddexp(-0.5 * jnp.sum(x**2), -16 - 0.5 * jnp.sum((x - 9) ** 2 / 0.5)), 2
    )
    x = np.random.default_rng(0).normal(size=(600, 2))
    for given in (None, [[0.0, 0.0], [9.0, 9.0]]):
        known = known_modes(given, target, x, None, chain=None, rng=np.random.default_rng(0))
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
        box_beside([[0.0]], (-1, 1), 1)
    rng = np.random.default_rng(0)
    modes, rows, _ = known_modes([(0.0,), (9.0,)], target, x, None, chain=None, rng=rng)
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
    assert climb_from_draws(x, scores, target, whole).n_unknown == 0


def test_draws_at_given_modes_with_wide_covariances_are_not_at_unknown_modes():
    """Two modes 2.6 standard deviations apart must not become one."""
    target = numpy_mixture([[-1.3, 0.0], [1.3, 0.0]])
    found = sc.box_search(target, (-4, 4), rng=0)
    known = as_modes((found.locations, [8 * np.eye(2)] * 2), target)
    x = np.random.default_rng(0).normal(known.locations[np.arange(200) % 2])
    assert climb_from_draws(x, target.score(x), target, known).n_unknown == 0
