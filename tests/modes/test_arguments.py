"""Modes that a user gives."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from harness import numpy_mixture

import steincheck as sc
from steincheck.modes.arguments import as_modes
from steincheck.target.evaluation import Budget


def test_locations_are_climbed_to_their_maxima_in_the_users_order():
    target = numpy_mixture([[-3.0, 0.0], [3.0, 1.0]])
    given = as_modes([[2.8, 1.2], [-3.0, 2.5]], target)
    np.testing.assert_allclose(given.locations, [[3.0, 1.0], [-3.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(given.covariances, [np.eye(2)] * 2, atol=1e-4)
    np.testing.assert_allclose(given.log_density, target.log_density(given.locations))
    assert (given.search, given.search_sentence) == (None, "the modes were given")


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_units_do_not_matter_and_maxima_stay_where_they_are(unit):
    means = unit * np.array([[0.0, 0.0], [9.0, 0.0], [-30.0, 4.0]])
    given = as_modes(means, numpy_mixture(means, np.tile(unit**2 * np.eye(2), (3, 1, 1))))
    np.testing.assert_allclose(given.locations, means, atol=1e-6 * unit)
    np.testing.assert_allclose(
        given.covariances, unit**2 * np.array([np.eye(2)] * 3), rtol=1e-4, atol=1e-6 * unit**2
    )


def test_covariances_are_taken_as_they_are():
    target = numpy_mixture([[-3.0, 0.0], [3.0, 1.0]])
    locations = np.array([[3.0, 0.5], [-3.0, 0.0]])
    pair = as_modes((locations, np.stack([np.eye(2), 1e8 * np.eye(2)])), target)
    np.testing.assert_array_equal(pair.locations, locations)
    np.testing.assert_array_equal(pair.covariances[1], 1e8 * np.eye(2))
    np.testing.assert_array_equal(as_modes(pair, target).covariances, pair.covariances)
    again = as_modes(replace(pair, log_density=pair.log_density + 5), target)  # of another constant
    np.testing.assert_array_equal(again.log_density, pair.log_density)


@pytest.mark.parametrize(
    ("log_density", "width"),
    [(lambda x: -jnp.sum(jnp.abs(x)), 0.5), (lambda x: -jnp.sum(x**4), 0.5**0.25)],
    ids=["pointed", "flat"],
)
def test_a_top_without_a_parabola_has_a_width(log_density, width):
    given = as_modes([[0.0, 0.0]], sc.from_jax(log_density, 2))
    np.testing.assert_allclose(given.locations, [[0.0, 0.0]], atol=1e-3)
    np.testing.assert_allclose(np.sqrt(np.diag(given.covariances[0])), width, rtol=0.02)


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        (np.zeros((2, 3)), r"`modes` must have shape \(n, 2\)"),
        ([[0.0, np.inf], [1.0, 1.0]], "`modes` must be finite"),
        (np.empty((0, 2)), "at least one"),
        ((np.zeros((1, 2)), np.eye(2)), r"of shape \(1, 2, 2\), got shape \(2, 2\)"),
        ((np.zeros((1, 2)), -np.eye(2)[None]), "number 0 is not: its smallest eigenvalue is -1"),
        ((np.zeros((1, 2)), [[[1.0, 0.5], [0.0, 1.0]]]), "symmetric"),
        ((np.zeros((1, 2)), np.full((1, 2, 2), np.nan)), "finite"),
        ([[3.0, 0.0], [-3.0, 0.0], [3.0, 1e-9]], r"rows \[0, 2\] \(counted from 0\) lead to one"),
        ([[3.0, 0.0], [2.0, 0.5]], r"rows \[0, 1\] \(counted from 0\) lead to one"),
    ],
)
def test_wrong_modes(modes, words):
    with pytest.raises(ValueError, match=words):
        as_modes(modes, numpy_mixture([[-3.0, 0.0], [3.0, 0.0]]))


def test_a_location_without_a_maximum_is_an_error_that_says_where_the_climb_went():
    target = sc.from_jax(lambda x: x[0] - x[1] ** 2, 2)
    words = r"`modes` must be local maxima: ascending from row 0, \(1, 2\), leads to \(.*e\+.*, .*\), where"
    with pytest.raises(ValueError, match=words):
        as_modes([[1.0, 2.0]], target)


def test_the_evaluations_of_given_modes_are_counted():
    budget = Budget()
    as_modes([[0.0]], sc.from_jax(lambda x: -0.5 * x[0] ** 2, 1), budget)
    assert 5 < budget.made < 40


def test_coordinates_of_modes_are_those_of_the_target():
    target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2, names=["a", "b"])
    known = sc.box_search(target, (-9, 9), rng=0)
    np.testing.assert_array_equal(as_modes(known, target).locations, known.locations)
    with pytest.raises(ValueError, match="the coordinates of the target in its order, a, b, got b, a"):
        as_modes(replace(known, names=("b", "a")), target)
