"""The search in a box: known mixtures, saddle points, scales, supports."""

from math import lgamma

import jax.numpy as jnp
import numpy as np
import pytest
from harness import numpy_mixture

import steincheck as sc
from steincheck.modes.search import box_search


def assert_same_points(found, expected, atol):
    assert len(found) == len(expected)
    distance = np.linalg.norm(found[:, None] - np.asarray(expected, dtype=float), axis=2)
    assert sorted(distance.argmin(axis=1)) == list(range(len(expected)))
    assert distance.min(axis=1).max() < atol


def test_a_gaussian_mixture_gives_means_covariances_and_weights():
    """Far apart: the means, the inverse Hessians are the covariances, the Laplace weights the weights."""
    means = np.array([[-20.0, 0.0, 3.0], [20.0, 5.0, 0.0], [0.0, 30.0, -9.0]])
    root = np.random.default_rng(0).normal(size=(3, 3, 3))
    covariances = root @ root.transpose(0, 2, 1) + 0.5 * np.eye(3)
    weights = np.array([0.2, 0.5, 0.3])
    modes = box_search(numpy_mixture(means, covariances, weights), bounds=(-40, 40), rng=0)
    assert_same_points(modes.locations, means, 1e-7)
    assert np.all(np.diff(modes.log_density) <= 0)
    match = np.linalg.norm(modes.locations[:, None] - means, axis=2).argmin(axis=1)
    np.testing.assert_allclose(modes.covariances, covariances[match], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(modes.laplace_weights, weights[match], rtol=1e-5)
    assert modes.search.n_starts == 512
    assert (modes.warnings, modes.search.reason) == ((), "one round")


def test_overlapping_components_are_located_to_eight_digits():
    """The zeros of the score by bisection, where components pull at each other."""
    score = numpy_mixture([[0.0], [4.0]]).score
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if score(np.array([[middle]]))[0, 0] > 0 else (low, middle)
    target = sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 4) ** 2), dim=1)
    for exact in (target, numpy_mixture([[0.0], [4.0]])):
        modes = box_search(exact, bounds=(-10, 10), rng=0)
        np.testing.assert_allclose(np.sort(modes.locations[:, 0]), [low, 4 - low], atol=1e-8)


@pytest.mark.parametrize("score", [True, False])
@pytest.mark.filterwarnings("ignore:the target has no score")
def test_scales_of_a_thousandth_and_a_thousand(score):
    """Two coordinates six orders of magnitude apart."""
    scale = np.array([1e-3, 1e3])
    means = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [-9.0, 9.0]]) * scale
    target = numpy_mixture(means, np.tile(np.diag(scale**2), (4, 1, 1)), score=score)
    modes = box_search(target, bounds=[(-0.02, 0.02), (-2e4, 2e4)], rng=0)
    assert_same_points(modes.locations / scale, means / scale, 1e-5 if score else 1e-3)
    np.testing.assert_allclose(modes.covariances / np.outer(scale, scale), [np.eye(2)] * 4, atol=1e-2)
    assert bool(modes.warnings) is not score


def test_a_saddle_point_is_no_mode():
    target = numpy_mixture([[-3.0, 0.0], [3.0, 0.0]])
    assert_same_points(box_search(target, starts=[[0.0, 0.0], [1.0, 1.0]]).locations, [[3.0, 0.0]], 1e-6)


def test_modes_of_no_mass_are_dropped_by_mass_not_by_height():
    """In 20 dimensions a wide mode may be 90 nats lower than a narrow one of equal mass."""
    d = 20
    means = np.stack([np.zeros(d), np.full(d, 20.0), np.full(d, -20.0)])
    covariances = np.stack([np.eye(d) * 1e-4, np.eye(d), np.eye(d)])
    modes = box_search(numpy_mixture(means, covariances, [0.5, 0.5, 1e-16]), starts=means + 0.01)
    assert_same_points(modes.locations, means[:2], 1e-6)
    assert np.ptp(modes.log_density) > 80


def test_heavy_tails_do_not_cost_a_mode_its_place():
    """Laplace gives a t component in d = 50 e^-19 of its mass; beside a Gaussian of equal weight it stays."""
    d = 50

    def log_density(x):
        gauss = -0.5 * jnp.sum((x + 10) ** 2) - 0.5 * d * np.log(2 * np.pi)
        constant = lgamma(28.5) - lgamma(3.5) - 0.5 * d * np.log(7 * np.pi)
        return jnp.logaddexp(gauss, constant - 28.5 * jnp.log1p(jnp.sum((x - 10) ** 2) / 7))

    centres = np.array([np.full(d, -10.0), np.full(d, 10.0)])
    modes = box_search(sc.from_jax(log_density, d), starts=centres + 0.1)
    assert_same_points(modes.locations, centres, 1e-6)
    assert np.log(modes.laplace_weights.min()) == pytest.approx(-18.73, abs=0.01)


def test_the_support_may_end_anywhere():
    """A gamma density, -inf on three quarters of the box: one mode."""
    shape = np.array([3.0, 5.0])

    def log_density(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where((x > 0).all(axis=1), np.sum((shape - 1) * np.log(x) - x, axis=1), -np.inf)

    target = sc.Target(log_density, lambda x: (shape - 1) / x - 1, dim=2)
    modes = box_search(target, bounds=(-10, 10), rng=0)
    np.testing.assert_allclose(modes.locations, [[2.0, 4.0]], atol=1e-8)
    np.testing.assert_allclose(modes.covariances[0], np.diag([2.0, 4.0]), rtol=1e-4)
    with pytest.raises(
        ValueError, match="no mode found: the density or its score is 0 or not finite at all starts"
    ):
        box_search(target, bounds=(-10, -1), rng=0)


def test_limits():
    target = numpy_mixture([[0.0, 0.0], [8.0, 0.0], [-8.0, 0.0]])
    with pytest.warns(UserWarning, match="there are more modes than `max_modes`"):
        assert len(box_search(target, (-10, 20), max_modes=2, rng=5)) == 2
    with pytest.warns(UserWarning, match="`max_evaluations` or `max_seconds` reached"):
        found = box_search(target, (-10, 20), max_evaluations=3000, rng=5)
    assert found.search.n_evaluations == 3000
