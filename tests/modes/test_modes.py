"""Modes: known mixtures, saddle points, scales, supports, exploration, a user's own modes."""

import json
import re
import warnings
from dataclasses import replace
from functools import partial
from math import lgamma

import jax.numpy as jnp
import numpy as np
import pytest
from harness import normal_log_density, numpy_mixture, standard_normal
from jax.scipy.special import logsumexp

import steincheck as sc
from steincheck.modes.arguments import as_modes, examine_modes
from steincheck.modes.box import box_search, box_search_core
from steincheck.modes.held_out import climb_from_draws
from steincheck.modes.merge import merge
from steincheck.result import Modes


def rbm(hidden, dim, rotation=None):
    """GB-RBM with B = 6 E: modes at the corners of a cube of width 6, one a state of the hidden units."""

    def log_density(x):
        y = x if rotation is None else rotation @ x
        pairs = jnp.logaddexp(3 * y[:hidden], -3 * y[:hidden])
        return -0.5 * jnp.sum(x**2) + jnp.sum(pairs)

    return sc.from_jax(log_density, dim)


def t_banana(dim, seed=0):
    """App. H.2: ten t and ten banana components in [-20, 20]^d; the tops of all components too."""
    centres = np.random.default_rng(seed).uniform(-20, 20, size=(20, dim))
    shape, b = 0.1 * np.sqrt(dim), 0.003
    stretch = np.r_[100.0, np.ones(dim - 1)]

    def student(squared, log_det):
        return -0.5 * (7 + dim) * jnp.log1p(squared / 7) - 0.5 * log_det

    def log_density(x):
        bent = x.at[1].add(b * x[0] ** 2 - 100 * b)
        round_ones = student(jnp.sum((x - centres[:10]) ** 2, axis=1) / shape, dim * np.log(shape))
        bananas = student(jnp.sum((bent - centres[10:]) ** 2 / stretch, axis=1), np.log(100.0))
        return logsumexp(jnp.concatenate([round_ones, bananas]))

    tops = centres.copy()
    tops[10:, 1] -= b * tops[10:, 0] ** 2 - 100 * b
    return sc.from_jax(log_density, dim), tops


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
    assert modes.n_starts.sum() == modes.search.n_starts == 512
    assert modes.warnings == ()
    assert modes.search.message == "a round of exploration found nothing new"


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


@pytest.mark.parametrize("dim", [1, 2, 50])
def test_a_target_with_one_mode_gives_one(dim):
    target = sc.from_jax(lambda x: -0.5 * jnp.sum((x - 1) ** 2), dim)
    modes = box_search(target, bounds=(-10, 10), rng=0)
    np.testing.assert_allclose(modes.locations, np.ones((1, dim)), atol=1e-8)
    np.testing.assert_allclose(modes.covariances[0], np.eye(dim), atol=1e-8)
    assert modes.n_starts.tolist() == [512]
    assert modes.search.n_evaluations < 40_000


@pytest.mark.parametrize("score", [True, False])
@pytest.mark.filterwarnings("ignore:the target has no score")
def test_scales_of_a_thousandth_and_a_thousand(score):
    """Two coordinates six orders of magnitude apart."""
    scale = np.array([1e-3, 1e3])
    means = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [-9.0, 9.0]]) * scale
    target = numpy_mixture(means, np.tile(np.diag(scale**2), (4, 1, 1)), score=score)
    modes = box_search(target, bounds=[(-0.02, 0.02), (-2e4, 2e4)], rng=0)
    assert_same_points(modes.locations / scale, means / scale, 1e-5)
    np.testing.assert_allclose(modes.covariances / np.outer(scale, scale), [np.eye(2)] * 4, atol=1e-3)
    assert bool(modes.warnings) is not score


def test_correlation_close_to_one():
    rho = 1 - 1e-6
    covariance = np.array([[[1.0, rho], [rho, 1.0]]])
    modes = box_search(numpy_mixture([[2.0, -1.0]], covariance), bounds=(-10, 10), rng=0)
    assert_same_points(modes.locations, [[2.0, -1.0]], 1e-6)
    np.testing.assert_allclose(modes.covariances, covariance, rtol=1e-3)


def test_a_saddle_point_is_no_mode():
    """A start at the saddle between two modes has no gradient: counted, not kept."""
    target = numpy_mixture([[-3.0, 0.0], [3.0, 0.0]])
    modes = box_search(target, starts=[[0.0, 0.0], [1.0, 1.0]], explore=False)
    assert_same_points(modes.locations, [[3.0, 0.0]], 1e-6)
    assert (modes.search.n_saddle_points, modes.search.n_converged) == (1, 1)
    with pytest.raises(ValueError, match="1 ended at saddle points"):
        box_search(target, starts=[[0.0, 0.0]])


def test_modes_of_no_mass_are_dropped_by_mass_not_by_height():
    """In 20 dimensions a wide mode may be 90 nats lower than a narrow one of equal mass."""
    d = 20
    means = np.stack([np.zeros(d), np.full(d, 20.0), np.full(d, -20.0)])
    covariances = np.stack([np.eye(d) * 1e-4, np.eye(d), np.eye(d)])
    target = numpy_mixture(means, covariances, [0.5, 0.5, 1e-16])
    modes = box_search(target, starts=means + 0.01, explore=False)
    assert_same_points(modes.locations, means[:2], 1e-6)
    assert np.ptp(modes.log_density) > 80
    assert modes.search.n_dropped == 1
    assert len(box_search(target, starts=means + 0.01, cut=60, explore=False)) == 3


def test_heavy_tails_do_not_cost_a_mode_its_place():
    """Laplace gives a t component in d = 50 e^-19 of its mass; beside a Gaussian of equal weight it stays."""
    d = 50

    def log_density(x):
        gauss = -0.5 * jnp.sum((x + 10) ** 2) - 0.5 * d * np.log(2 * np.pi)
        constant = lgamma(28.5) - lgamma(3.5) - 0.5 * d * np.log(7 * np.pi)
        return jnp.logaddexp(gauss, constant - 28.5 * jnp.log1p(jnp.sum((x - 10) ** 2) / 7))

    centres = np.array([np.full(d, -10.0), np.full(d, 10.0)])
    modes = box_search(sc.from_jax(log_density, d), starts=centres + 0.1, explore=False)
    assert_same_points(modes.locations, centres, 1e-6)
    assert np.log(modes.laplace_weights.min()) == pytest.approx(-18.73, abs=0.01)


def test_the_support_may_end_anywhere():
    """A gamma density, -inf on half the box: no crash, one mode, and the user is told."""
    shape = np.array([3.0, 5.0])

    def log_density(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where((x > 0).all(axis=1), np.sum((shape - 1) * np.log(x) - x, axis=1), -np.inf)

    target = sc.Target(log_density, lambda x: (shape - 1) / x - 1, dim=2)
    with pytest.warns(UserWarning, match="lie where the density is 0"):
        modes = box_search(target, bounds=(-10, 10), rng=0)
    np.testing.assert_allclose(modes.locations, [[2.0, 4.0]], atol=1e-8)
    np.testing.assert_allclose(modes.covariances[0], np.diag([2.0, 4.0]), rtol=1e-4)
    outside = modes.search.n_outside_support
    assert 330 < outside < 440
    assert modes.n_starts[0] == 512 - outside
    with pytest.raises(ValueError, match="no mode found from 512 starts: 512 lie where the density is 0"):
        box_search(target, bounds=(-10, -1), rng=0)


def test_a_nan_at_a_start_is_outside_the_support_and_counted():
    target = sc.Target(lambda x: np.where(x[:, 0] > 3, np.nan, -(x[:, 0] ** 2)), lambda x: -2 * x, dim=1)
    with pytest.warns(UserWarning, match="lie where the density is 0"):
        modes = box_search(target, bounds=(-5, 5), rng=0)
    np.testing.assert_allclose(modes.locations, [[0.0]], atol=1e-8)
    assert modes.search.n_non_finite >= modes.search.n_outside_support > 50


@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_the_width_of_a_flat_top_is_where_the_log_density_has_dropped_by_a_half(unit):
    target = sc.from_jax(lambda x: -jnp.sum((x / unit) ** 4), 2)
    with pytest.warns(UserWarning, match="1 of 1 modes have a flat or pointed top"):
        modes = box_search(target, bounds=(-3 * unit, 3 * unit), rng=0)
    width = 0.5**0.25 * unit
    np.testing.assert_allclose(np.diag(modes.covariances[0]), width**2, rtol=0.05)
    assert np.abs(modes.locations).max() < 0.05 * unit


def test_a_density_without_a_smooth_maximum_is_an_error():
    kink = sc.Target(lambda x: -np.abs(x[:, 0]), lambda x: -np.sign(x), dim=1)
    with pytest.raises(ValueError, match=r"no mode found from 64 starts.* 64 did not converge"):
        box_search(kink, bounds=(-5, 5), n_starts=64, rng=0)


def test_the_seed_decides_everything():
    target = numpy_mixture([[0.0, 0.0], [8.0, 0.0]])
    one, two, other = (box_search(target, bounds=(-10, 20), rng=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.n_starts, two.n_starts)
    np.testing.assert_array_equal(one.locations, two.locations)
    assert one.n_starts.tolist() != other.n_starts.tolist()


def test_exploration_finds_modes_no_start_hits():
    """A chain of modes outside the box, each met only from the one before; then a single start at its end."""
    means = np.array([[0.0, 0.0], [9.0, 2.0], [18.0, 0.0], [27.0, 2.0], [0.0, -9.0]])
    target = numpy_mixture(means)
    near, all_of_them = (box_search(target, bounds=(-2, 2), explore=e, rng=0) for e in (False, True))
    assert_same_points(near.locations, means[:1], 1e-6)
    assert_same_points(all_of_them.locations, means, 1e-6)
    assert all_of_them.n_starts.tolist().count(0) == 4
    assert all_of_them.search.n_rounds >= 2
    assert_same_points(box_search(target, starts=[[27.0, 1.0]], rng=0).locations, means, 1e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_a_lattice_too_large_to_list_has_one_mode_with_all_its_neighbours(turned):
    """2^20 modes: 24 come back, the explored one with its 20 flips of one hidden unit, turned or not."""
    rotation = np.linalg.qr(np.random.default_rng(5).normal(size=(50, 50)))[0] if turned else None
    with pytest.warns(UserWarning, match="more than `max_modes` = 24 modes"):
        modes = box_search(rbm(20, 50, rotation), bounds=(-10, 10), n_starts=64, max_modes=24, rng=0)
    assert len(modes) == 24
    hidden = (modes.locations if rotation is None else modes.locations @ rotation.T)[:, :20]
    np.testing.assert_allclose(np.abs(hidden), 3.0, atol=1e-5)
    home = modes.search.explored[0]
    flips = (np.sign(hidden) != np.sign(hidden[home])).sum(axis=1)
    assert np.sum(flips == 1) == 20


def test_the_cap_on_evaluations_is_told():
    target = numpy_mixture(20.0 * np.arange(10)[:, None])
    modes = box_search(target, bounds=(-1, 1), max_evaluations=1, rng=0)
    assert modes.search.message == "`max_evaluations` reached while exploring"
    assert len(modes.search.explored) == 1


def test_all_twenty_modes_of_the_t_banana_mixture():
    target, tops = t_banana(20)
    modes = box_search(target, bounds=(-20, 20), rng=0)
    assert_same_points(modes.locations, tops, 1e-3)
    np.testing.assert_allclose(target.score(modes.locations), 0, atol=1e-8)
    assert (modes.search.n_saddle_points, modes.search.n_not_converged) == (0, 0)


def test_all_thirty_two_modes_of_the_rbm():
    modes = box_search(rbm(5, 50), bounds=(-10, 10), rng=0)
    corners = 3.0 * np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1).T
    assert_same_points(modes.locations, np.pad(corners, ((0, 0), (0, 45))), 1e-5)
    assert (modes.search.n_saddle_points, modes.search.n_not_converged) == (0, 0)
    np.testing.assert_allclose(modes.laplace_weights, 1 / 32, rtol=1e-6)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((3, -3), r"`bounds` must have low < high, coordinate 0 has \[3.0, -3.0\]"),
        ([(0, 1), (0, np.inf)], "`bounds` must be finite, coordinate 1"),
        ((np.nan, 1), "low < high"),
        ([(0, 1)] * 3, r"one \(low, high\) pair or 2 of them, got shape \(3, 2\)"),
        ("box", "pairs of numbers"),
    ],
)
def test_wrong_bounds(normal_target, bounds, words):
    with pytest.raises((ValueError, TypeError), match=words):
        box_search(normal_target, bounds=bounds)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give `bounds`"),
        ({"starts": [[0.0]]}, "`starts` must have shape"),
        ({"starts": [[0.0, np.nan]]}, "`starts` must be finite"),
        ({"bounds": (0, 1), "n_starts": 0}, "`n_starts` must be a positive integer, got 0"),
        ({"bounds": (0, 1), "max_modes": 2.5}, "`max_modes` must be a positive integer"),
        ({"bounds": (0, 1), "beta": 0}, "`beta` must be positive"),
        ({"bounds": (0, 1), "rng": "seed"}, "`rng`"),
    ],
)
def test_wrong_options(normal_target, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        box_search(normal_target, **options)
    with pytest.raises(TypeError, match="must be a steincheck"):
        box_search(lambda x: x, bounds=(0, 1))


def test_climbs_from_draws_find_the_modes_that_are_not_known():
    target = sc.models.gaussian_mixture([[10.0 * k, 0.0] for k in range(50)])
    x = target.sample(1000, 0)
    one = as_modes([[0.0, 0.0]], target)
    tried, strays, places = climb_from_draws(x, target, one, np.random.default_rng(0))
    assert tried == 100
    known = np.abs(x[np.random.default_rng(0).permutation(1000)[:100], 0]) < 5
    assert strays == 100 - known.sum()
    assert_same_points(places, np.unique(places.round(), axis=0), 1e-6)
    half = as_modes([[10.0 * k, 0.1] for k in range(25)], target)  # given not quite at their tops
    tried, strays, places = climb_from_draws(x, target, half, np.random.default_rng(0))
    true = np.mean(x[np.random.default_rng(0).permutation(1000)[:100], 0] > 245)
    assert strays == round(100 * true)
    assert 20 <= len(places) <= 25
    whole = as_modes([[10.0 * k, 0.0] for k in range(50)], target)
    assert climb_from_draws(x, target, whole, np.random.default_rng(0))[1] == 0


def test_merge_weighs_by_the_hessians():
    """Alg. 2 by hand: the squared distances are 0.5 (10 + 1) 0.04 = 0.22 and 0.5 (100 + 10) 0.04 = 2.2."""
    locations, hessians = np.array([[0.0], [0.2], [0.4]]), np.array([1.0, 10.0, 100.0])[:, None, None]
    kept, label = merge(locations, hessians, np.array([0.0, 1.0, 2.0]))
    assert (kept.tolist(), label.tolist()) == ([1, 2], [0, 0, 1])
    kept, label = merge(locations, hessians, np.array([2.0, 1.0, 0.0]), beta=20.0)
    assert (kept.tolist(), label.tolist()) == ([0], [0, 0, 0])
    assert merge(locations, hessians, np.zeros(3), beta=0.1)[0].tolist() == [0, 1, 2]


def test_a_narrow_mode_upon_a_wide_one_is_not_merged():
    means, covariances = np.array([[0.0], [0.9]]), np.array([1.0, 1e-4])[:, None, None]
    modes = box_search(numpy_mixture(means, covariances, [0.9, 0.1]), bounds=(-3, 3), rng=0)
    assert_same_points(modes.locations, means, 1e-2)


def test_a_users_modes(normal_target):
    target = numpy_mixture([[-3.0, 0.0], [3.0, 1.0]])
    locations = np.array([[3.0, 1.0], [-3.0, 0.0]])
    given = as_modes(locations, target)
    np.testing.assert_array_equal(given.locations, locations)  # the user's order
    np.testing.assert_allclose(given.covariances, [np.eye(2)] * 2, atol=1e-4)
    np.testing.assert_allclose(given.log_density, target.log_density(locations))
    pair = as_modes((locations, np.stack([np.eye(2), 2 * np.eye(2)])), target)
    np.testing.assert_array_equal(pair.covariances[1], 2 * np.eye(2))
    np.testing.assert_array_equal(as_modes(pair, target).locations, pair.locations)
    assert len(as_modes([[0.0, 0.0]], normal_target)) == 1


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        (np.zeros((2, 3)), r"`modes` must have shape \(n, 2\)"),
        ([[0.0, np.inf], [1.0, 1.0]], "`modes` must be finite"),
        (np.empty((0, 2)), "at least one"),
        ([[0.0, 0.0], [3.0, 0.0]], r"local maxima: at rows \[0\]"),
        ((np.zeros((1, 2)), np.eye(2)), r"of shape \(1, 2, 2\), got shape \(2, 2\)"),
        ((np.zeros((1, 2)), -np.eye(2)[None]), "number 0 is not: its smallest eigenvalue is -1"),
        ((np.zeros((1, 2)), [[[1.0, 0.5], [0.0, 1.0]]]), "symmetric"),
        ((np.zeros((1, 2)), np.full((1, 2, 2), np.nan)), "finite"),
        ([[3.0, 0.0], [-3.0, 0.0], [3.0, 1e-9]], r"rows \[0, 2\] \(counted from 0\) hold duplicates"),
    ],
)
def test_wrong_modes(modes, words):
    with pytest.raises(ValueError, match=words):
        as_modes(modes, numpy_mixture([[-3.0, 0.0], [3.0, 0.0]]))


def test_the_table_and_the_dictionary():
    modes = box_search(rbm(1, 8), bounds=(-10, 10), progress=True, rng=0)
    lines = str(modes).splitlines()
    assert lines[0].split() == ["mode", "log", "density", "starts", "Laplace", "weight", "location"]
    assert len(lines) == 4
    assert lines[1].split()[1:4] == ["4.5000", str(modes.n_starts[0]), "0.5000"]
    assert lines[1].endswith(", ...)")
    record = json.loads(json.dumps(modes.to_dict()))
    assert np.shape(record["covariances"]) == (2, 8, 8)
    assert record["search"]["n_starts"] == 512
    plain = Modes(np.zeros((1, 2)), np.eye(2)[None], np.zeros(1), np.zeros(1, int), ("mind",))
    assert str(plain).endswith("warning: mind")
    assert plain.search is None
    assert plain.to_dict()["search"] == {}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"locations": [1.0, 2.0]},
            ValueError,
            r"`locations` must be finite, shape \(M, d\).*got shape \(2,\)",
        ),
        ({"locations": [[np.nan, 0.0]]}, ValueError, "`locations` must be finite"),
        ({"locations": "here"}, TypeError, "`locations` must be an array of real numbers"),
        (
            {"covariances": np.eye(2)},
            ValueError,
            r"`covariances` must hold a matrix per mode, shape \(1, 2, 2\)",
        ),
        ({"log_density": 0.0}, ValueError, r"`log_density` must hold a number per mode, shape \(1,\)"),
        ({"n_starts": [0.5]}, ValueError, r"`n_starts` must hold whole numbers, got \[0.5\]"),
    ],
)
def test_the_record_refuses_what_is_not_modes(arguments, error, message):
    good = {"locations": [[1.0, 2.0]], "covariances": [np.eye(2)], "log_density": [0.0], "n_starts": [0.0]}
    assert str(Modes(**good)).splitlines()[1].split()[2] == "0"
    with pytest.raises(error, match=message):
        Modes(**{**good, **arguments})


@pytest.mark.parametrize(
    ("options", "reason", "message"),
    [
        ({}, "complete", "a round of exploration found nothing new"),
        ({"explore": False}, "not explored", "exploration was not requested"),
        ({"max_modes": 1}, "max_modes", "there are more than `max_modes` = 1 modes"),
        ({"max_evaluations": 1}, "max_evaluations", "`max_evaluations` reached while exploring"),
    ],
)
@pytest.mark.filterwarnings("ignore:there are more than `max_modes`")
def test_the_record_of_a_search_in_a_box(options, reason, message):
    search = box_search(numpy_mixture([[-3.0, 0.0], [3.0, 0.0]]), (-10, 10), rng=0, **options).search
    assert isinstance(search, sc.result.ModeSearch)
    assert (search.reason, search.message) == (reason, message)
    assert (search.farthest, search.from_draws, search.effort) == (None, None, None)
    counts = "starts converged not_converged outside_support saddle_points not_examined dropped rounds"
    names = [f"n_{name}" for name in (*counts.split(), "evaluations", "non_finite")]
    record = search.to_dict()
    assert list(record) == [*names, "reason", "message", "explored", "seed"]
    assert [record[name] for name in names] == [getattr(search, name) for name in names]
    assert record["explored"] == list(search.explored)


@pytest.mark.parametrize("search", [sc.find_modes, partial(sc.box_search, bounds=(-5, 15)), None])
def test_modes_come_back_from_their_dictionary(search):
    target = sc.models.gaussian_mixture([[0.0, 1.0], [9.0, 2.0]])
    modes = sc.Modes(np.eye(2), np.array([np.eye(2)] * 2), np.zeros(2), np.array([1, 0]), names=("a", "b"))
    if search is not None:
        modes = search(target, rng=0)
    again = sc.Modes.from_dict(json.loads(json.dumps(modes.to_dict())))
    for name in ("locations", "covariances", "log_density", "n_starts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(modes, name))
        assert getattr(again, name).dtype == getattr(modes, name).dtype
    for name in ("warnings", "search", "symmetries", "names"):
        assert getattr(again, name) == getattr(modes, name)
    assert str(again) == str(modes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"locations": None}, "`locations` must be real numbers, got None"),
        ({"locations": [[1, 2], [3]]}, "`locations` must be real numbers"),
        ({"locations": [1, 2]}, r"`locations` must have shape \(M, d\)"),
        (
            {"covariances": [[[1.0]]]},
            r"`covariances` must be finite, of shape \(2, 2, 2\), got shape \(1, 1, 1\)",
        ),
        ({"n_starts": [1]}, "`n_starts` must be finite"),
        ({"log_density": [np.inf, 0]}, "`log_density` must be finite"),
        ({"names": ["a"]}, r"got \(2, 2\) and 1 names"),
        ({"names": "ab"}, "`names` must be a list of strings, got 'ab'"),
        ({"warnings": [3]}, "`warnings` must be a list of strings"),
        ({"search": [3]}, "`search` must be a Mapping, got list"),
        (
            {"search": {"n_starts": "many"}},
            "`search` must be one that `to_dict` wrote, got n_starts = 'many'",
        ),
    ],
)
def test_dictionaries_that_are_not_of_modes(change, words):
    modes = sc.Modes(np.eye(2), np.array([np.eye(2)] * 2), np.zeros(2), np.zeros(2, dtype=int))
    with pytest.raises((TypeError, ValueError), match=words):
        sc.Modes.from_dict({**modes.to_dict(), **change})


def test_a_record_of_a_search_cannot_be_changed():
    search = box_search(numpy_mixture([[-3.0, 0.0], [3.0, 0.0]]), (-10, 10), explore=False, rng=0).search
    with pytest.raises(AttributeError):
        search.reason = "complete"


def test_given_locations_that_are_no_maxima_are_named_with_the_nearest_maximum():
    target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    x = target.sample(300, 0)
    words = r"row 1, \(1.5, 0\), is 1.5 per standard deviation; ascending from there leads to \(3, 0\)"
    with pytest.warns(UserWarning, match=words):
        sc.flux_test(x, target, modes=([[-3.0, 0.0], [1.5, 0.0]], [np.eye(2)] * 2), rng=0)
    with pytest.warns(UserWarning, match=r"row 0, \(-3, 2.5\), is 2.5 per standard deviation"):
        sc.flux_test(x, target, modes=[[-3.0, 2.5], [3.0, 0.0]], rng=0)
    assert examine_modes([[-3.0, 0.2], [3.0, 0.0]], target).warnings == ()


@pytest.mark.parametrize("factor", [1e-10, 1e-8, 1e8, 1e10])
@pytest.mark.parametrize("means", [[[0.0, 0.0]], [[-4.0, 0.0], [4.0, 0.0]]])
def test_given_covariances_of_a_wrong_scale_are_replaced_by_those_of_the_density(means, factor):
    """Those 1e8 times too wide had correct draws called a misfit, without a warning."""
    target = numpy_mixture(means)
    given = factor * np.stack([np.eye(2)] * len(means))
    found, warnings = examine_modes((means, given), target)
    np.testing.assert_allclose(found.covariances, [np.eye(2)] * len(means), atol=1e-3)
    np.testing.assert_array_equal(given[0], factor * np.eye(2))  # the user's own array
    about = f"number 0 has a standard deviation of {np.sqrt(factor):.3g} along"
    assert about in warnings[0]
    assert "the density one of 1;" in warnings[0]
    assert len(warnings) == len(means)
    record = Modes(np.array(means), given, np.zeros(len(means)), np.zeros(len(means), int))
    np.testing.assert_array_equal(examine_modes(record, target).modes.covariances, found.covariances)


def test_correct_draws_with_given_covariances_far_too_wide_are_no_misfit():
    target = sc.models.gaussian_mixture([[0.0, 0.0]])
    verdict = sc.check(target.sample(300, 1), target, modes=([[0.0, 0.0]], 1e8 * np.eye(2)[None]), rng=0)
    assert verdict.fits
    assert verdict.warnings[0].startswith("the covariances of `modes` must be about as wide as the modes")


@pytest.mark.parametrize(
    ("log_density", "factors", "own"),
    [
        (lambda x: -np.sum(x**4, axis=1), [0.1, 1.0, 6.0], np.sqrt(0.5)),  # no curvature at the top
        (lambda x: -np.sum(np.abs(x), axis=1), [0.05, 1.0, 2.0], 0.25),  # a pointed one
        (lambda x: -0.55 * np.sum(np.log1p(x**2), axis=1), [0.2, 1.0, 12.0], 1 / 1.1),  # heavy tails
    ],
)
def test_given_covariances_that_are_no_inverse_hessians_are_kept_unless_far_off(log_density, factors, own):
    target = sc.Target(log_density, dim=2)
    for factor in factors:
        found, warnings = examine_modes(([[0.0, 0.0]], factor * np.eye(2)[None]), target)
        assert warnings == ()
        np.testing.assert_array_equal(found.covariances[0], factor * np.eye(2))
    for factor in (1e-6, 1e6):
        found, _ = examine_modes(([[0.0, 0.0]], factor * np.eye(2)[None]), target)
        np.testing.assert_allclose(found.covariances[0], own * np.eye(2), rtol=1e-2, atol=1e-6)


def test_one_axis_of_a_given_covariance_may_be_wrong():
    covariance = np.array([[1.0, 0.999], [0.999, 1.0]])
    target = numpy_mixture([[0.0, 0.0]], covariance[None])
    found, warnings = examine_modes(([[0.0, 0.0]], covariance[None]), target)
    np.testing.assert_array_equal(found.covariances[0], covariance)
    assert warnings == ()
    found, warnings = examine_modes(([[0.0, 0.0]], np.eye(2)[None]), target)
    np.testing.assert_allclose(found.covariances[0], covariance, atol=1e-4)
    assert "the density one of 0.0447" in warnings[0]  # given the other coordinate
    locations = 10.0 * np.arange(7)[:, None]
    many, warnings = examine_modes((locations, np.full((7, 1, 1), 1e6)), numpy_mixture(locations))
    np.testing.assert_allclose(many.covariances, 1.0, atol=1e-3)
    assert warnings[-1] == "`modes`: 2 more covariances were replaced for this reason"


def test_given_covariances_of_a_wrong_scale_where_the_density_has_no_maximum_are_refused():
    target = numpy_mixture([[-4.0, 0.0], [4.0, 0.0]])
    words = r"number 0 has a standard deviation of 0.0001 along .* no local maximum at \(0, 0\)"
    with pytest.raises(ValueError, match=words):
        examine_modes(([[0.0, 0.0]], 1e-8 * np.eye(2)[None]), target)
    flat = sc.Target(lambda x: np.zeros(len(x)), dim=1)
    with pytest.raises(ValueError, match="no local maximum"):
        examine_modes(([[0.0]], np.eye(1)[None]), flat)


def test_a_given_location_at_a_saddle_point_is_warned_of():
    """The gradient is 0 there, so that it passed for a maximum if a covariance was given."""
    target = numpy_mixture([[-4.0, 0.0], [4.0, 0.0]])
    _, warnings = examine_modes(([[-4.0, 0], [0, 0]], [np.eye(2)] * 2), target)
    assert re.search(r"log p at row 1, \(0, 0\), is 7.3 less than at \(4, ", warnings[0])


def test_draws_at_given_modes_with_wide_covariances_are_not_at_unknown_modes():
    """Two modes 2 standard deviations apart became one, and half of the draws were said to be elsewhere."""
    target = numpy_mixture([[-1.3, 0.0], [1.3, 0.0]])
    found = box_search(target, (-4, 4), rng=0)
    known = as_modes((found.locations, [8 * np.eye(2)] * 2), target)
    x = np.random.default_rng(0).normal(known.locations[np.arange(200) % 2])
    np.testing.assert_array_equal(known.covariances, [8 * np.eye(2)] * 2)
    assert climb_from_draws(x, target, known, np.random.default_rng(0))[1] == 0


def test_many_locations_that_are_no_modes_are_counted():
    target = standard_normal(1)
    places = np.linspace(3, 9, 8)[:, None]
    x = np.random.default_rng(0).normal(size=(200, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sc.moment_test(x, target, modes=(places, np.ones((8, 1, 1))), rng=0)
    about = [text for text in result.warnings if text.startswith("`modes`")]
    assert about[0].endswith("ascending from there leads to (0)")
    assert about[-1] == f"`modes`: {8 - (len(about) - 1)} more rows are not local maxima"


def test_given_modes_were_not_searched():
    target = standard_normal(1)
    assert as_modes([[0.0]], target).search_sentence == "the modes were given, or found in a box"


def test_a_test_that_searches_in_a_box_silences_no_warning_of_the_density():
    def log_density(x):
        warnings.warn("mine", RuntimeWarning, stacklevel=2)
        return normal_log_density(x)

    target = sc.Target(log_density, lambda x: -x, dim=1)
    with pytest.warns(RuntimeWarning, match="mine"):
        found = box_search_core(target, np.array([[-1.0], [1.0]]), None, np.random.default_rng(0))
    assert "mine" not in found.warnings


@pytest.mark.parametrize("search", [sc.find_modes, partial(sc.box_search, bounds=(-9, 9))])
def test_the_recorded_seed_gives_the_modes_again(search):
    """A Generator is spawned from, and what is recorded is a number that a file can hold."""
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    generator = np.random.default_rng(5)
    state = generator.bit_generator.state
    first = search(target, rng=generator)
    assert generator.bit_generator.state == state
    again = search(target, rng=first.search.seed)
    np.testing.assert_array_equal(again.locations, first.locations)
    assert again.search == first.search
    assert search(target, rng=3).search.seed == 3
    assert sc.Modes.from_dict(first.to_dict()).search == first.search


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("a",)}, "`names` must name all 2 coordinates, or be empty"),
        ({"warnings": 3}, "`warnings` must be a list of strings, got 3"),
        ({"symmetries": "swap"}, "`symmetries` must be a list of strings, got 'swap'"),
        ({"n_starts": [0.5]}, "`n_starts` must hold whole numbers"),
    ],
)
def test_records_of_modes_made_by_hand_are_checked(change, message):
    record = {"locations": [[0.0, 0.0]], "covariances": [np.eye(2)], "log_density": [0.0], "n_starts": [0]}
    with pytest.raises((TypeError, ValueError), match=message):
        Modes(**record | change)
    plain = json.loads(json.dumps({**record, "covariances": [np.eye(2).tolist()]} | change))
    with pytest.raises((TypeError, ValueError), match="names" if "names" in change else message):
        Modes.from_dict(plain)


def test_coordinates_of_modes_are_matched_by_name():
    target = sc.from_jax(
        lambda x: jnp.logaddexp(-0.5 * jnp.sum((x - 4.0) ** 2), -0.5 * jnp.sum((x + 4.0) ** 2) - x[1] ** 2),
        dim=2,
        names=["a", "b"],
    )
    known = sc.find_modes(target, rng=0)
    turned = Modes(
        known.locations[:, ::-1],
        known.covariances[:, ::-1, ::-1],
        known.log_density,
        known.n_starts,
        names=("b", "a"),
    )
    np.testing.assert_array_equal(as_modes(turned, target).locations, known.locations)
    np.testing.assert_array_equal(as_modes(turned, target).covariances, known.covariances)
    with pytest.raises(ValueError, match="`modes` must have the coordinates of the target, a, b, got a, c"):
        as_modes(replace(known, names=("a", "c")), target)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_starts": [-1]}, "`n_starts` must not be negative"),
        ({"n_starts": [1e30]}, "`n_starts` must hold whole numbers"),
        ({"search": {"reason": "x"}}, "`search` must be a ModeSearch, got dict"),
    ],
)
def test_counts_and_search_of_modes_are_checked(change, message):
    record = {"locations": [[0.0]], "covariances": [[[1.0]]], "log_density": [0.0], "n_starts": [0]}
    with pytest.raises((TypeError, ValueError), match=message):
        Modes(**record | change)
