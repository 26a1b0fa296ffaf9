"""The search without a box: far modes, symmetries, invariance, hostile targets, limits."""

import functools
from itertools import permutations

import jax.numpy as jnp
import numpy as np
import pytest
from harness import mixture_log_density, normal_log_density
from jax.scipy.special import logsumexp

import steincheck as sc
from steincheck.flux.orbits import lattice_steps
from steincheck.modes.search import find_modes, uncorrelated_coordinates

MEANS = np.array([[0.0, 0.0, 0.0], [30.0, -20.0, 5.0], [-8.0, 9.0, 40.0]])
ROOTS = np.random.default_rng(0).normal(size=(3, 3, 3)) + 2 * np.eye(3)
COVARIANCES = ROOTS @ ROOTS.transpose(0, 2, 1)
WEIGHTS = np.array([0.5, 0.3, 0.2])


def three_modes(matrix, shift):
    """A Gaussian mixture in the coordinates y = matrix x + shift, in plain NumPy; draws of one mode."""
    log_density, score = mixture_log_density(MEANS, COVARIANCES, WEIGHTS)
    inverse = np.linalg.inv(matrix)

    def back(y):
        return (y - shift) @ inverse.T

    target = sc.Target(lambda y: log_density(back(y)), lambda y: score(back(y)) @ inverse, dim=3)
    x = np.random.default_rng(1).multivariate_normal(MEANS[0], COVARIANCES[0], size=40)
    return target, x @ matrix.T + shift


@pytest.mark.parametrize(
    "matrix",
    [
        np.eye(3),
        np.diag([1e-4, 1.0, 1e4]),
        np.eye(3)[[2, 0, 1]],
        np.linalg.qr(ROOTS[0])[0] @ np.diag([1, 9, 0.2]),
    ],
    ids=["as it is", "units", "permuted", "affine"],
)
def test_modes_far_away_in_any_coordinates(matrix):
    shift = matrix @ np.array([3.0, -1.0, 100.0])
    target, draws = three_modes(matrix, shift)
    modes = find_modes(target, draws=draws, rng=0)
    inverse = np.linalg.inv(matrix)
    found = (modes.locations - shift) @ inverse.T
    order = np.linalg.norm(found - MEANS[:, None], axis=2).argmin(axis=1)
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(found[order], MEANS, atol=1e-3)
    covariances = inverse @ modes.covariances[order] @ inverse.T
    np.testing.assert_allclose(covariances, COVARIANCES, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(modes.laplace_weights[order], WEIGHTS, rtol=1e-3)
    assert modes.search.reason == "complete"


@functools.cache  # compiled once
def two_component_posterior():
    rng = np.random.default_rng(2)
    y = np.where(rng.random(30) < 0.5, -3.0, 3.0) + rng.standard_normal(30)

    def log_density(x):
        z = (y[:, None] - x[::2]) * jnp.exp(-x[1::2])
        return jnp.sum(logsumexp(-0.5 * z**2 - x[1::2], axis=1)) - 0.5 * jnp.sum(x**2) / 25

    return sc.from_jax(log_density, 4)


def test_label_switching_is_found_and_ties_do_not_depend_on_the_seed():
    target = two_component_posterior()
    draws = np.array([-3.0, 0.0, 3.0, 0.0]) + 0.1 * np.random.default_rng(3).normal(size=(30, 4))
    one, two = (find_modes(target, draws=draws, rng=seed) for seed in (1, 2))
    heavy = one.locations[one.laplace_weights > 0.01]
    assert len(heavy) == 2
    np.testing.assert_allclose(heavy[0], heavy[1][[2, 3, 0, 1]], atol=1e-5)
    assert [(g.order, g.sign) for g in one.symmetries] == [((2, 3, 0, 1), (1, 1, 1, 1))]
    assert heavy[0][0] < heavy[1][0]  # equally high: by location
    np.testing.assert_allclose(one.locations[:2], two.locations[:2], atol=1e-5)


def test_sign_flips_complete_an_orbit_of_sixteen():
    """log p depends on |x_i|, the modes are the corners of a cube: found by flips, whatever climbs find."""
    target = sc.from_jax(lambda x: -jnp.sum((x**2 - jnp.array([4.0, 9.0, 16.0, 25.0])) ** 2) / 4, 4)
    draws = [[2.0, 3.0, 4.0, 5.0]] + 0.1 * np.random.default_rng(5).normal(size=(20, 4))
    modes = find_modes(target, draws=draws, rng=0)
    np.testing.assert_allclose(np.abs(modes.locations), np.tile([2.0, 3, 4, 5], (16, 1)), atol=1e-6)
    assert len(np.unique(np.sign(modes.locations), axis=0)) == 16
    assert {g.sign for g in modes.symmetries if not g.moved} >= {(1, 1, -1, 1), (-1, 1, 1, 1)}
    assert modes.search.n_evaluations < 25_000  # one orbit counts once


@pytest.mark.parametrize("options", [{}, {"bounds": (-1, 1)}, {"starts": [[39.0, 1.0]]}])
def test_without_draws_it_starts_at_zero_and_bounds_only_add_starts(options):
    target = sc.models.gaussian_mixture([[0.0, 0.0], [40.0, 0.0]])
    modes = find_modes(target, rng=0, **options)
    np.testing.assert_allclose(np.sort(modes.locations[:, 0]), [0, 40], atol=1e-6)


@pytest.mark.parametrize("dim", [1, 5, 50])
def test_one_mode_takes_at_most_20000_evaluations(dim):
    target = sc.from_jax(lambda x: -0.5 * jnp.sum((x - 1) ** 2), dim)
    modes = find_modes(target, draws=1 + np.random.default_rng(0).normal(size=(50, dim)), rng=0)
    np.testing.assert_allclose(modes.locations, np.ones((1, dim)), atol=1e-6)
    assert 13_500 <= modes.search.n_evaluations <= 20_000
    assert "no mode of weight above 1/1000 was new" in modes.search_sentence
    assert ("narrower than these in 50 dimensions" in modes.search_sentence) is (dim == 50)


class TestHostileTargets:
    @pytest.mark.parametrize(
        ("log_density", "words"),
        [
            (lambda x: x[0] - x[1] ** 2, r"does not fall off near x\[0\] = inf: it is improper"),
            (lambda x: -(x[0] ** 2), "improper"),
            (lambda x: -((x[0] - x[1]) ** 2), "improper"),
            (lambda x: 0.0 * x[0], "improper"),
            (lambda x: jnp.where(x[0] > 1e300, 0.0, -jnp.inf), "0 or not finite at all starts"),
        ],
        ids=["unbounded", "part of the space", "ridge", "constant", "nowhere"],
    )
    def test_a_density_without_a_mode(self, log_density, words):
        with pytest.raises(ValueError, match=f"no mode found: .*{words}"):
            find_modes(sc.from_jax(log_density, 2), max_evaluations=50_000, rng=0)

    def test_what_the_target_raises_is_said(self):
        def raises(x):
            raise RuntimeError("cannot read data.csv")

        words = "no mode found: the target raises RuntimeError: cannot read data.csv"
        for target in (sc.Target(raises, dim=2), sc.Target(normal_log_density, raises, dim=2)):
            with pytest.raises(ValueError, match=words):
                find_modes(target, max_evaluations=20_000, rng=0)
        undefined = sc.Target(normal_log_density, lambda x: np.full(x.shape, np.nan), dim=2)
        with pytest.raises(ValueError, match="its score is 0 or not finite at all starts"):
            find_modes(undefined, max_evaluations=20_000, rng=0)

    @pytest.mark.filterwarnings("ignore:.*flat or pointed top")
    def test_a_uniform_density_has_one_mode(self):
        target = sc.from_jax(lambda x: jnp.where(jnp.all(jnp.abs(x) < 1), 0.0, -jnp.inf), 2)
        assert (
            len(find_modes(target, draws=np.random.default_rng(0).uniform(-1, 1, size=(30, 2)), rng=0)) == 1
        )

    @pytest.mark.parametrize("unit", [1.0, 1e-3])
    def test_a_laplace_density_has_one_mode(self, unit):
        target = sc.Target(lambda x: -np.abs(x).sum(axis=1) / unit, lambda x: -np.sign(x) / unit, dim=2)
        with pytest.warns(UserWarning, match="1 of 1 modes have a flat or pointed top"):
            modes = find_modes(target, draws=unit * np.random.default_rng(0).laplace(size=(30, 2)), rng=0)
        assert np.abs(modes.locations).max() < 1e-3 * unit
        np.testing.assert_allclose(np.sqrt(np.diag(modes.covariances[0])), 0.5 * unit, rtol=0.01)

    @pytest.mark.parametrize("dim", [1, 2])
    def test_at_an_edge_of_the_support_the_width_is_that_inside(self, dim):
        """exp(-x), x > 0: the other way the density is 0 at once."""
        target = sc.from_jax(lambda x: jnp.where(jnp.all(x > 0), -jnp.sum(x), -jnp.inf), dim)
        with pytest.warns(UserWarning, match="1 of 1 modes have a flat or pointed top"):
            modes = find_modes(target, draws=np.random.default_rng(0).exponential(size=(30, dim)), rng=0)
        np.testing.assert_allclose(modes.locations, np.zeros((1, dim)), atol=1e-6)
        np.testing.assert_allclose(modes.covariances[0], 0.25 * np.eye(dim), rtol=0.01)

    def test_a_density_that_still_grows_is_warned_of(self):
        """A normal density and a pole at 20."""
        target = sc.from_jax(
            lambda x: jnp.logaddexp(-0.5 * x[0] ** 2, -20 - 3 * jnp.log(jnp.abs(x[0] - 20))), 1, names=["tau"]
        )
        with pytest.warns(UserWarning, match="the density is still growing at tau = 20, far above all modes"):
            modes = find_modes(target, rng=0)
        np.testing.assert_allclose(modes.locations, [[0.0]], atol=1e-6)

    def test_places_on_the_way_into_an_unbounded_spike_are_no_modes(self):
        """Eight schools in the centred form: the density grows without bound as tau tends to 0."""
        y = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
        sd = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])

        def log_density(x):
            mu, log_tau, theta = x[0], x[1], x[2:]
            prior = -0.5 * jnp.sum(((theta - mu) / jnp.exp(log_tau)) ** 2) - 7 * log_tau - 0.5 * (mu / 5) ** 2
            return prior - 0.5 * jnp.sum(((y - theta) / sd) ** 2) - jnp.log1p((jnp.exp(log_tau) / 5) ** 2)

        rng = np.random.default_rng(0)
        x = rng.normal([4.0, 1.0, *np.zeros(8)], [3.0, 0.7, *np.ones(8)], size=(30, 10))
        x[:, 2:] = x[:, :1] + np.exp(x[:, 1:2]) * x[:, 2:]
        with pytest.raises(ValueError, match=r"no mode found: the density grows towards x\[1\] = -"):
            find_modes(sc.from_jax(log_density, dim=10), draws=x, rng=0)


class TestLimits:
    def test_the_number_of_evaluations_is_limited(self):
        target = sc.models.gaussian_mixture(20.0 * np.arange(10)[:, None])
        with pytest.warns(UserWarning, match="ended early: `max_evaluations` or `max_seconds` reached"):
            modes = find_modes(target, max_evaluations=2000, rng=0)
        assert modes.search.n_evaluations == 2000

    @pytest.mark.parametrize("limit", [{"max_evaluations": 1}, {"max_seconds": 1e-9}])
    def test_a_search_that_hardly_began_does_not_say_that_the_density_grows(self, limit):
        words = "`max_evaluations` or `max_seconds` was reached before a local optimisation converged"
        with pytest.raises(ValueError, match=words):
            find_modes(sc.models.gaussian_mixture([[-3.0, 0], [3.0, 0]]), rng=0, **limit)


class TestTooManyModes:
    def test_the_mode_of_the_draws_is_listed(self):
        """Of 120 equal modes 10 are kept; that of the draws is one of them, whatever the seed."""
        places = np.array(list(permutations([-10.0, -5.0, 0.0, 5.0, 10.0])))
        target = sc.models.gaussian_mixture(places)
        draws = target.sample(40, 0, weights=np.eye(120)[77])
        for seed in range(2):
            with pytest.warns(UserWarning, match="there are more modes than `max_modes`"):
                modes = find_modes(target, draws=draws, max_modes=10, rng=seed)
            assert len(modes) == 10
            assert np.linalg.norm(modes.locations - places[77], axis=1).min() < 1e-3

    @pytest.mark.filterwarnings("ignore:the mode search ended early")
    def test_the_steps_of_a_turned_lattice_can_be_read_off(self):
        """2^20 modes, B = 6 E turned: one mode is listed with all flips of one hidden unit."""
        hidden, dim = 20, 22
        rotation = np.linalg.qr(np.random.default_rng(5).normal(size=(dim, dim)))[0]
        target = sc.models.gb_rbm(6 * rotation[:, :hidden])
        rng = np.random.default_rng(1)
        y = rng.normal(size=(50, dim))
        y[:, :hidden] += 3.0 * rng.choice([-1, 1], size=(50, hidden))
        modes = find_modes(target, draws=y @ rotation.T, rng=0)
        assert len(modes) == 64
        signs = np.sign(modes.locations @ rotation[:, :hidden])
        flips = (signs[:, None] != signs).sum(axis=2)
        assert np.sum(flips == 1, axis=1).max() == hidden
        assert len(lattice_steps(target, modes)) == hidden
        assert modes.search.n_evaluations < 50_000


def test_a_density_a_million_times_longer_than_wide():
    """Condition 1e12 in the original coordinates, for JAX and NumPy targets alike."""
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    sd = 10.0 ** np.linspace(-3, 3, 6)
    gap = turn @ (8 * sd)
    whiten = turn / sd

    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x @ whiten) ** 2), -0.5 * jnp.sum(((x - gap) @ whiten) ** 2))

    compiled = sc.from_jax(log_density, 6, names=list("abcdef"))
    draws = (sd * rng.standard_normal((40, 6))) @ turn.T
    for target in (compiled, sc.Target(compiled.log_density, compiled.score, dim=6)):
        modes = sc.find_modes(target, draws=draws, rng=0)
        places = np.sort(modes.locations @ whiten, axis=0)
        np.testing.assert_allclose(places, [[0] * 6, [8] * 6], atol=1e-3)
        np.testing.assert_allclose(whiten.T @ modes.covariances @ whiten, [np.eye(6)] * 2, atol=1e-3)
    assert modes.search.n_evaluations > 10_000
    assert uncorrelated_coordinates(draws[:10]) is None
