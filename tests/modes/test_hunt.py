"""The search without a box: far modes, symmetries, invariance, hostile targets, budgets, held-out draws."""

import functools
import re
import sys
import time
from itertools import permutations

import jax.numpy as jnp
import numpy as np
import pytest
from harness import mixture_log_density, normal_log_density, standard_normal
from jax.scipy.special import logsumexp

import steincheck as sc
from steincheck.modes.box import box_beside
from steincheck.modes.climb import Known, climb, recognise
from steincheck.modes.frame import frame_of
from steincheck.modes.held_out import hold_out, known_modes
from steincheck.modes.hessian import hessian_at
from steincheck.modes.hunt import effort
from steincheck.modes.screening import Landscape, screen, screened_points
from steincheck.modes.search import find_modes, search_modes
from steincheck.modes.settle import flat_top, settle
from steincheck.modes.starts import Base, scan_rays, scanned_starts, starts_at
from steincheck.modes.surface import Surface
from steincheck.modes.symmetry import SignedPermutation, likely_maps, matching_map, symmetry_text

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
    expected = MEANS @ matrix.T + shift
    order = [
        int(np.argmin(np.linalg.norm((modes.locations - y) / np.diag(matrix @ matrix.T) ** 0.5, axis=1)))
        for y in expected
    ]
    assert sorted(order) == [0, 1, 2]
    inverse = np.linalg.inv(matrix)
    found = (modes.locations[order] - shift) @ inverse.T
    np.testing.assert_allclose(found, MEANS, atol=1e-3)
    np.testing.assert_allclose(
        inverse @ modes.covariances[order] @ inverse.T, COVARIANCES, rtol=1e-3, atol=1e-2
    )
    np.testing.assert_allclose(modes.laplace_weights[order], WEIGHTS, rtol=1e-3)
    assert modes.search.message == "no mode of weight above 1/1000 was new in the last round"


@functools.cache  # compiled once
def two_component_posterior():
    rng = np.random.default_rng(2)
    y = np.where(rng.random(30) < 0.5, -3.0, 3.0) + rng.standard_normal(30)

    def log_density(x):
        z = (y[:, None] - x[::2]) * jnp.exp(-x[1::2])
        return jnp.sum(logsumexp(-0.5 * z**2 - x[1::2], axis=1)) - 0.5 * jnp.sum(x**2) / 25

    return sc.from_jax(log_density, 4)


@pytest.mark.filterwarnings("ignore:the mode search ended early")
def test_label_switching_is_found_and_named():
    target = two_component_posterior()
    draws = np.array([-3.0, 0.0, 3.0, 0.0]) + 0.1 * np.random.default_rng(3).normal(size=(30, 4))
    modes = find_modes(target, draws=draws, max_evaluations=200_000, rng=0)
    heavy = modes.locations[modes.laplace_weights > 0.01]
    assert len(heavy) == 2
    np.testing.assert_allclose(heavy[0], heavy[1][[2, 3, 0, 1]], atol=1e-5)
    assert "label switching of coordinates (0, 1) and (2, 3)" in modes.symmetries
    assert heavy[0][0] < heavy[1][0]  # equally high: by location
    one_labelling = np.concatenate([draws, draws[::-1] + 0.01])
    verdict = sc.check(one_labelling, target, modes=modes, independent=True, rng=0)
    assert verdict.fits is False
    assert "differ by the labels of components alone (label switching)" in verdict.advice[0]


def test_the_order_of_modes_does_not_depend_on_the_seed():
    target = two_component_posterior()
    draws = np.array([3.0, 0.0, -3.0, 0.0]) + 0.1 * np.random.default_rng(4).normal(size=(30, 4))
    short = {"max_evaluations": 50_000, "max_seconds": None}
    with pytest.warns(UserWarning, match="ended early: `max_evaluations`"):
        one, two, again = (find_modes(target, draws=draws, rng=seed, **short) for seed in (1, 2, 1))
    np.testing.assert_allclose(one.locations[:2], two.locations[:2], atol=1e-5)
    np.testing.assert_array_equal(one.locations, again.locations)
    assert one.search == again.search


@pytest.mark.filterwarnings("ignore:the mode search ended early")
def test_sign_flips_complete_an_orbit_of_sixteen():
    """log p depends on |x_i|, the modes are the corners of a cube: found by flips, whatever climbs find."""
    target = sc.from_jax(lambda x: -jnp.sum((x**2 - jnp.array([4.0, 9.0, 16.0, 25.0])) ** 2) / 4, 4)
    draws = [[2.0, 3.0, 4.0, 5.0]] + 0.1 * np.random.default_rng(5).normal(size=(20, 4))
    modes = find_modes(target, draws=draws, max_evaluations=200_000, rng=0)
    np.testing.assert_allclose(np.abs(modes.locations), np.tile([2.0, 3, 4, 5], (16, 1)), atol=1e-6)
    assert len(np.unique(np.sign(modes.locations), axis=0)) == 16
    assert "sign change of coordinate 2" in modes.symmetries


@pytest.mark.filterwarnings("ignore:the mode search ended early")
def test_maps_that_hold_about_one_mode_only_are_no_symmetries():
    target = sc.models.gaussian_mixture([[0.0] * 4, [9.0, 8.0, 7.0, 6.0]])
    draws = target.sample(40, 0, weights=[1, 0])
    modes = find_modes(target, draws=draws, max_evaluations=200_000, rng=0)
    assert len(modes) == 2
    assert modes.symmetries == ()


def test_without_draws_it_starts_at_zero_and_bounds_only_add_starts():
    target = sc.models.gaussian_mixture([[0.0, 0.0], [40.0, 0.0]])
    for options in ({}, {"bounds": (-1, 1)}, {"starts": [[39.0, 1.0]]}):
        modes = find_modes(target, rng=0, **options)
        np.testing.assert_allclose(np.sort(modes.locations[:, 0]), [0, 40], atol=1e-6)
        assert "from the first point" in modes.search_sentence


class TestHostileTargets:
    def test_nan_infinity_and_exceptions_at_proposals_are_no_points(self):
        def log_density(x):
            if np.abs(x).max() > 1e3:
                raise RuntimeError("Location parameter is inf")
            value = normal_log_density(x)
            value[x[:, 0] > 20] = np.nan
            value[x[:, 0] < -20] = np.inf
            return value

        target = sc.Target(log_density, lambda x: -x, dim=2)
        modes = find_modes(target, draws=np.random.default_rng(0).normal(size=(30, 2)), rng=0)
        np.testing.assert_allclose(modes.locations, [[0, 0]], atol=1e-6)
        assert modes.search.n_non_finite > 100
        assert modes.warnings == ()

    @pytest.mark.parametrize(
        ("log_density", "words"),
        [
            (lambda x: x[0] - x[1] ** 2, r"the density grows towards x\[0\] = "),
            (lambda x: -(x[0] ** 2), "constant along coordinate 1"),
            (lambda x: -((x[0] - x[1]) ** 2), "constant along a direction"),
            (lambda x: 0.0 * x[0], "constant along coordinate 0"),
            (lambda x: jnp.where(x[0] > 1e300, 0.0, -jnp.inf), "0 or not finite at all starts"),
        ],
        ids=["unbounded", "part of the space", "ridge", "constant", "nowhere"],
    )
    def test_a_density_without_a_mode(self, log_density, words):
        target = sc.from_jax(log_density, 2)
        empty = search_modes(target, None, max_evaluations=50_000, rng=np.random.default_rng(0))
        assert len(empty) == 0
        assert re.match(f"no mode found: .*{words}", empty.search.message)
        assert empty.search.reason == ("no mode" if "at all starts" in words else "improper")

    def test_no_mode_is_an_error_of_find_modes(self):
        ridge = sc.Target(lambda x: -((x[:, 0] - x[:, 1]) ** 2), dim=2)
        with pytest.raises(ValueError, match=r"no mode found: .*constant along a direction"):
            find_modes(ridge, rng=0)

    def test_a_maximum_at_a_hard_edge_is_told(self):
        target = sc.from_jax(lambda x: jnp.where(x[0] > 0, -x[0] - 0.5 * x[1] ** 2, -jnp.inf), 2)
        draws = np.abs(np.random.default_rng(0).normal(size=(30, 2)))
        with pytest.raises(ValueError, match="highest at an edge of its support, near x"):
            find_modes(target, draws=draws, rng=0)

    @pytest.mark.filterwarnings("ignore:.*flat or pointed top")
    def test_a_uniform_density_has_one_mode(self):
        target = sc.from_jax(lambda x: jnp.where(jnp.all(jnp.abs(x) < 1), 0.0, -jnp.inf), 2)
        modes = find_modes(target, draws=np.random.default_rng(0).uniform(-1, 1, size=(30, 2)), rng=0)
        assert len(modes) == 1

    def test_a_hard_edge_has_its_mode_inside(self):
        def log_density(x):
            return jnp.where(x[0] > -1, -0.5 * jnp.sum((x - 1) ** 2), -jnp.inf)

        modes = find_modes(sc.from_jax(log_density, 2), rng=0)
        np.testing.assert_allclose(modes.locations, [[1, 1]], atol=1e-6)

    @pytest.mark.parametrize("unit", [1.0, 1e-3])
    def test_a_laplace_density_has_one_mode(self, unit):
        target = sc.Target(lambda x: -np.abs(x).sum(axis=1) / unit, lambda x: -np.sign(x) / unit, dim=2)
        with pytest.warns(UserWarning, match="flat or pointed top"):
            modes = find_modes(target, draws=unit * np.random.default_rng(0).laplace(size=(30, 2)), rng=0)
        assert len(modes) == 1
        assert np.abs(modes.locations).max() < 1e-3 * unit
        np.testing.assert_allclose(np.sqrt(np.diag(modes.covariances[0])), 0.5 * unit, rtol=0.01)

    @pytest.mark.filterwarnings("ignore:the mode search ended early")
    @pytest.mark.parametrize("unit", [1.0, 1e-3])
    def test_modes_of_a_ring_have_the_units_of_the_ring(self, unit):
        def log_density(x):
            return -0.5 * ((jnp.sqrt(x @ x + 1e-30) / unit - 1) / 0.1) ** 2

        angle = np.random.default_rng(0).uniform(0, 6.28, size=40)
        draws = unit * np.c_[np.cos(angle), np.sin(angle)]
        with pytest.warns(UserWarning, match="flat or pointed top"):
            modes = find_modes(sc.from_jax(log_density, 2), draws=draws, max_evaluations=200_000, rng=0)
        np.testing.assert_allclose(np.linalg.norm(modes.locations, axis=1), unit, rtol=0.02)
        sizes = np.sqrt(np.linalg.eigvalsh(modes.covariances)) / unit
        assert sizes[:, 0].min() > 0.05
        assert sizes[:, 1].max() < 0.8


class TestBudget:
    def test_the_number_of_evaluations_is_limited(self):
        target = sc.models.gaussian_mixture(20.0 * np.arange(10)[:, None])
        with pytest.warns(UserWarning, match="ended early: `max_evaluations` reached"):
            modes = find_modes(target, max_evaluations=2000, rng=0)
        assert modes.search.n_evaluations < 8000

    def test_a_slow_target_is_searched_less_and_stops_in_time(self):
        def log_density(x):
            time.sleep(1e-3 * len(x))
            return normal_log_density(x)

        target = sc.Target(log_density, lambda x: -x, dim=2)
        begin = time.perf_counter()
        with pytest.warns(UserWarning, match="ended early: `max_seconds`"):
            modes = find_modes(target, max_seconds=0.5, rng=0)
        assert time.perf_counter() - begin < 20
        assert modes.search.effort < 0.1
        np.testing.assert_allclose(modes.locations, [[0, 0]], atol=1e-6)

    def test_a_fast_target_is_searched_in_full(self):
        surface = Surface(sc.models.gaussian_mixture([[0.0]]))
        assert effort(surface, np.zeros((1, 1)), 3600.0) == 1.0
        assert effort(Surface(surface.target, 50_000), np.zeros((1, 1)), None) == 0.25

    def test_an_interrupt_passes_through(self):
        def log_density(x):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            find_modes(sc.Target(log_density, lambda x: -x, dim=1), rng=0)


def test_the_sentence_says_how_hard_it_looked():
    target = sc.models.gaussian_mixture([np.zeros(10)])
    modes = find_modes(target, draws=target.sample(30, 0), rng=0)
    words = modes.search_sentence
    assert (
        f"evaluated {modes.search.n_evaluations:,} points, up to 2187 standard deviations from the draws"
        in words
    )
    assert "no mode of weight above 1/1000 was new in the last round" in words
    assert "narrower than these in 10 dimensions" in words


@pytest.mark.filterwarnings("ignore:the mode search ended early")
def test_the_record_of_a_search_without_a_box():
    target = sc.models.gaussian_mixture([[0.0], [9.0]])
    search = find_modes(target, draws=target.sample(30, 0), max_modes=1, rng=0).search
    assert isinstance(search, sc.result.ModeSearch)
    assert (search.reason, search.from_draws, search.farthest) == ("max_modes", True, 2187)
    assert (search.n_converged, search.n_dropped) == (None, None)
    counts = ["n_starts", "n_not_converged", "n_rounds", "n_evaluations", "n_non_finite"]
    record = search.to_dict()
    assert list(record) == [
        *counts,
        "farthest",
        "from_draws",
        "effort",
        "reason",
        "message",
        "explored",
        "seed",
    ]
    assert [record[name] for name in counts] == [getattr(search, name) for name in counts]


class TestHeldOut:
    def test_sizes_and_rows(self):
        for n, size in ((50, 0), (100, 20), (300, 30), (5000, 100)):
            held, tested = hold_out(n, np.random.default_rng(0))
            assert len(held) == size
            np.testing.assert_array_equal(np.sort(np.concatenate([held, tested])), np.arange(n))

    def test_a_block_of_every_chain(self):
        chain = np.repeat([0, 1, 2], 200)
        held, tested = hold_out(600, np.random.default_rng(0), chain)
        np.testing.assert_array_equal(np.bincount(chain[held]), [20, 20, 20])
        for label in range(3):
            np.testing.assert_array_equal(np.diff(held[chain[held] == label]), 1)
        assert len(tested) == 540

    def test_whole_chains_if_they_are_short(self):
        chain = np.repeat(np.arange(60), 3)
        held, tested = hold_out(180, np.random.default_rng(0), chain)
        assert not set(chain[held]) & set(chain[tested])
        assert 20 <= len(held) <= 23

    def test_modes_depend_on_held_out_draws_only(self):
        target = sc.models.gaussian_mixture([[0.0], [9.0]])
        x = target.sample(400, 0)
        rng = np.random.default_rng
        first, tested, _ = known_modes(None, target, x, None, chain=None, rng=rng(0))
        changed = x.copy()
        changed[tested] = 1e6
        second, again, _ = known_modes(None, target, changed, None, chain=None, rng=rng(0))
        np.testing.assert_array_equal(tested, again)
        np.testing.assert_array_equal(first.locations, second.locations)

    def test_few_draws_give_location_and_scale_only(self):
        target = sc.models.gaussian_mixture([[0.0], [9.0]])
        x = target.sample(60, 0, weights=[1, 0])
        modes, rows, _ = known_modes(None, target, x, None, chain=None, rng=np.random.default_rng(0))
        assert (len(modes), len(rows)) == (2, 60)

    def test_given_modes_and_the_search_in_a_box(self):
        target = sc.models.gaussian_mixture([[0.0], [9.0]])
        x = target.sample(200, 0)
        rng = np.random.default_rng(0)
        with pytest.raises(ValueError, match="give `modes` or `bounds`, not both"):
            box_beside([[0.0]], (-1, 1), 1)
        modes, rows, _ = known_modes([(0.0,), (9.0,)], target, x, None, chain=None, rng=rng)
        assert (len(modes), len(rows)) == (2, 200)
        result = sc.spksd_test(x, target, bounds=(-5, 15), rng=0)
        assert (len(result.modes), result.n_tested, result.modes.search.n_starts) == (2, 200, 512)


class TestParts:
    def target(self, d):
        a = np.random.default_rng(d).normal(size=(d, d))
        precision = a @ a.T / d + np.eye(d)
        return sc.from_jax(lambda x: -0.5 * (x - 1) @ precision @ (x - 1), d), precision

    def test_both_forms_of_the_climb_end_at_the_top(self):
        target, _ = self.target(30)
        x = 5 * np.random.default_rng(0).normal(size=(40, 30))
        for dense in (True, False):
            for fused in (True, False):
                ends = climb(Surface(target), x, np.eye(30), 0.3, iterations=200, fused=fused, dense=dense)
                assert ends.rest.all()
                np.testing.assert_allclose(ends.x, 1, atol=0.02)

    def test_climbs_stop_at_a_known_mode(self):
        target, precision = self.target(4)
        known = Known(np.ones((1, 4)), np.zeros(1), np.linalg.cholesky(precision)[None])
        surface = Surface(target)
        x = 1 + 0.1 * np.random.default_rng(0).normal(size=(20, 4))
        assert (recognise(x, target.log_density(x), known) == 0).all()
        assert (recognise(x + 50, target.log_density(x + 50), known) == -1).all()
        assert (recognise(x, target.log_density(x) + 1, known) == -1).all()
        ends = climb(surface, x - 3, np.eye(4), 0.3, known=known)
        assert (ends.mode == 0).all()

    def test_many_ends_are_settled_at_once(self):
        target, precision = self.target(5)
        plain = sc.Target(target.log_density, target.score, dim=5)
        x = 1 + 0.3 * np.random.default_rng(0).normal(size=(6, 5))
        for each in (target, plain):
            done = settle(Surface(each), x, np.full((6, 5), 20.0))
            assert done.kind.tolist() == ["mode"] * 6
            np.testing.assert_allclose(done.x, 1, atol=1e-8)
            np.testing.assert_allclose(done.hessian, [precision] * 6, rtol=1e-6, atol=1e-6)

    def test_a_saddle_is_no_mode(self):
        target = sc.from_jax(lambda x: -(x[0] ** 2) + x[1] ** 2 - x[1] ** 4, 2)
        assert settle(Surface(target), np.zeros((1, 2)), np.ones((1, 2))).kind[0] != "mode"

    def test_the_width_of_a_tilted_flat_top(self):
        """exp(-(z'z)^2) with z = L^-1 x: the level set 1/2 nat below the top is an ellipse."""
        root = np.array([[2.0, 0.0], [1.5, 0.5]])
        inverse = np.linalg.inv(root)
        target = sc.from_jax(lambda x: -(jnp.sum((inverse @ x) ** 2) ** 2), 2)
        peak, _ = flat_top(Surface(target), np.array([1e-4, -1e-4]), np.ones(2))
        np.testing.assert_allclose(np.linalg.inv(peak.hessian), 0.5**0.5 * root @ root.T, rtol=0.02)

    def test_strangeness_is_zero_in_elliptic_basins(self):
        target, precision = self.target(3)
        base = Base(np.ones(3), np.linalg.inv(np.linalg.cholesky(precision)).T)
        x = 30 * np.random.default_rng(0).normal(size=(10, 3))
        known = Landscape([base], [0.0])
        np.testing.assert_allclose(known.score_residual(target.score(x), x), 0, atol=1e-9)
        assert known.score_residual(-target.score(x), x).min() > 1.9

    def test_known_modes_predict_the_score_of_their_mixture(self):
        """Between known modes nothing is strange; a third one that is not known is, and is found there."""
        means = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
        pair = sc.models.gaussian_mixture(means[:2])
        bases = [Base(mean, np.eye(2)) for mean in means[:2]]
        known = Landscape(bases, [0.0, 0.0])
        x = np.random.default_rng(0).uniform(-3, 9, size=(500, 2))
        np.testing.assert_allclose(known.score_residual(pair.score(x), x), 0, atol=1e-9)
        odd = known.score_residual(sc.models.gaussian_mixture(means).score(x), x)
        near = np.linalg.norm(x - means[2], axis=1) < 1.5
        beyond = np.linalg.norm(x[:, None] - means[:2], axis=2).min(axis=1) < 1.5
        assert np.median(odd[near]) > 100 * np.median(odd[beyond])

    def test_screening_finds_the_few_points_in_a_narrow_basin(self):
        target = sc.from_jax(
            lambda x: jnp.logaddexp(-0.5 * x @ x, 12 - 0.5 * jnp.sum((x - 5) ** 2) / 0.04), 3
        )
        base = Base(np.zeros(3), np.eye(3))
        rng = np.random.default_rng(0)

        def draw(n):
            return starts_at(20 * rng.standard_normal((n, 3)), np.eye(3))

        kept = screen(Surface(target), draw, 2**15, 64, Landscape([base], [0.0]), rng)
        inside = np.linalg.norm(kept.x - 5, axis=1) < 2.2
        assert len(kept.x) == 64
        assert inside[:32].sum() >= 4
        assert inside[32:].sum() <= 2

    def test_cheap_targets_are_screened_harder(self):
        cheap = Surface(sc.from_jax(lambda x: -0.5 * x @ x, 3))
        data = np.random.default_rng(0).normal(size=5000)
        dear = Surface(sc.from_jax(lambda x: -0.5 * jnp.sum(jnp.cosh(data - x[0])) - x[1] ** 2, 2))
        plain = Surface(standard_normal(2))
        assert screened_points(cheap, 1, 1.0) == 2**18
        assert screened_points(dear, 1, 1.0) == screened_points(plain, 1, 1.0) == 2**12
        assert screened_points(cheap, 1, 0.25) == 2**16
        sizes = [
            screened_points(Surface(sc.from_jax(lambda x: -x @ x, d)), 1, 1.0) for d in (1, 2, 3, 8, 9, 100)
        ]
        assert sizes == [2**14, 2**16, 2**18, 2**17, 2**15, 2**12]
        assert 20 * 5000 < dear.operations < 200 * 5000
        assert plain.operations is None

    def test_lines_through_a_mode(self):
        """Coordinates, principal axes, diagonals; a needle on one of these lines is found by its height."""
        rays = scan_rays(Base(np.zeros(2), np.diag([1.0, 3.0])))
        slopes = {round(float(np.degrees(np.arctan2(y, x))) % 180) for x, y in rays}
        assert slopes == {0, 90, 72, 108}
        assert len(scan_rays(Base(np.zeros(7), np.eye(7)))) == 15
        target = sc.from_jax(
            lambda x: jnp.logaddexp(-0.5 * x @ x, 13 - 0.5 * jnp.sum((x - 7) ** 2) / 1e-6), 2
        )
        found = scanned_starts(Surface(target), Base(np.zeros(2), np.eye(2)), 2**16)
        assert np.linalg.norm(found.x - 7, axis=1).min() < 0.02


class TestSymmetry:
    def test_likely_ones_contain_the_usual_label_switchings(self):
        maps = {(g.order, g.sign) for g in likely_maps(8)}
        for order in (
            [2, 3, 0, 1, 4, 5, 6, 7],
            [1, 0, 3, 2, 5, 4, 7, 6],
            [4, 5, 6, 7, 0, 1, 2, 3],
            [1, 0, 2, 3, 4, 5, 6, 7],
        ):
            assert (tuple(order), (1,) * 8) in maps
        assert (tuple(range(8)), (-1,) * 8) in maps
        assert (tuple(range(8)), (1,) * 8) not in maps

    def test_a_map_moves_points_and_matrices_alike(self):
        g = SignedPermutation((2, 0, 1), (1, -1, 1))
        x = np.random.default_rng(0).normal(size=3)
        np.testing.assert_array_equal(g(x), [x[2], -x[0], x[1]])
        a = np.random.default_rng(1).normal(size=(3, 3))
        np.testing.assert_allclose(g(x) @ g.conjugate(a) @ g(x), x @ a @ x)
        hessian = a @ a.T + np.eye(3)
        pair = np.array([hessian, g.conjugate(hessian)])
        assert matching_map(np.array([x, g(x)]), pair, np.ones(3)) == g
        assert matching_map(np.array([x, g(x)]), pair[[0, 0]], np.ones(3)) is None

    def test_signs_of_coordinates_at_0_come_from_the_hessian(self):
        g = SignedPermutation((0, 1), (1, -1))
        hessian = np.array([[2.0, 1.0], [1.0, 2.0]])
        x = np.array([3.0, 0.0])
        assert matching_map(np.array([x, g(x)]), np.array([hessian, g.conjugate(hessian)]), np.ones(2)) == g

    def test_coordinates_that_may_stay_do(self):
        """To rounding, coordinates that are 0 at both modes could change places and signs."""
        noise = 1e-9 * np.random.default_rng(0).normal(size=(2, 5))
        x = np.array([[4.0, 0, 0, 0, 0], [0, 4.0, 0, 0, 0]]) + noise
        swap = SignedPermutation((1, 0, 2, 3, 4), (1,) * 5)
        hessian = np.eye(5) + 1e-9 * np.random.default_rng(1).normal(size=(5, 5))
        assert matching_map(x, np.array([hessian, np.eye(5)]), np.ones(5)) == swap

    @pytest.mark.parametrize(
        ("order", "sign", "words"),
        [
            ((2, 3, 0, 1), (1, 1, 1, 1), "label switching of coordinates (0, 1) and (2, 3)"),
            ((1, 0, 2, 3), (1, 1, 1, 1), "exchange of coordinates 0 and 1"),
            ((0, 1, 2, 3), (1, -1, 1, -1), "sign change of coordinates (1, 3)"),
            (
                (1, 2, 0, 3),
                (1, 1, 1, -1),
                "permutation of coordinates (0, 1, 2), with sign change of coordinate 3",
            ),
        ],
    )
    def test_words(self, order, sign, words):
        assert symmetry_text(SignedPermutation(order, sign)) == words

    def test_names(self):
        g = SignedPermutation((1, 0), (1, 1))
        assert symmetry_text(g, ["mu[0]", "mu[1]"]) == "exchange of coordinates mu[0] and mu[1]"


def test_what_the_target_raises_is_said():
    def raises(x):
        raise RuntimeError("cannot read data.csv")

    words = "no mode found: the target raises RuntimeError: cannot read data.csv"
    for target in (sc.Target(raises, dim=2), sc.Target(normal_log_density, raises, dim=2)):
        with pytest.raises(ValueError, match=words):
            find_modes(target, max_evaluations=20_000, rng=0)
    undefined = sc.Target(normal_log_density, lambda x: np.full(x.shape, np.nan), dim=2)
    with pytest.raises(ValueError, match="the score is not finite at any start"):
        find_modes(undefined, max_evaluations=20_000, rng=0)


def test_a_density_that_still_grows_is_warned_of():
    """A normal density and a pole at 20."""
    target = sc.from_jax(
        lambda x: jnp.logaddexp(-0.5 * x[0] ** 2, -20 - 3 * jnp.log(jnp.abs(x[0] - 20))), 1, names=["tau"]
    )
    with pytest.warns(UserWarning, match="the density is still growing at tau = 20, far above all modes"):
        modes = find_modes(target, rng=0)
    np.testing.assert_allclose(modes.locations, [[0.0]], atol=1e-6)


@pytest.mark.filterwarnings("ignore:the mode search ended early")
def test_a_density_a_million_times_longer_than_wide():
    """Condition 1e12 in the original coordinates: searched in the frame of the draws, JAX and NumPy alike."""
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
        modes = find_modes(target, draws=draws, max_evaluations=30_000, rng=0)
        places = np.sort(modes.locations @ whiten, axis=0)
        np.testing.assert_allclose(places, [[0] * 6, [8] * 6], atol=1e-3)
        np.testing.assert_allclose(whiten.T @ modes.covariances @ whiten, [np.eye(6)] * 2, atol=1e-3)
    assert frame_of(rng.standard_normal((40, 6))) is None
    assert frame_of(draws[:10]) is None


def test_the_mode_of_the_draws_is_listed_where_there_are_too_many():
    """Of 120 equal modes 10 are kept; that of the draws is one of them, whatever the seed."""
    places = np.array(list(permutations([-10.0, -5.0, 0.0, 5.0, 10.0])))
    target = sc.models.gaussian_mixture(places)
    draws = target.sample(40, 0, weights=np.eye(120)[77])
    for seed in range(2):
        with pytest.warns(UserWarning, match="more than `max_modes` = 10 modes"):
            modes = find_modes(target, draws=draws, max_modes=10, rng=seed)
        assert np.linalg.norm(modes.locations - places[77], axis=1).min() < 1e-3


@pytest.mark.filterwarnings("ignore:the mode search ended early")
def test_names_stand_beside_locations():
    target = sc.from_jax(lambda x: -0.5 * jnp.sum((x - 2) ** 2), 2, names=["mu", "tau"])
    modes = find_modes(target, max_evaluations=5000, rng=0)
    assert modes.names == ("mu", "tau")
    assert "(mu = 2, tau = 2)" in str(modes)
    assert modes.to_dict()["names"] == ["mu", "tau"]


class TestManyDimensions:
    """A step costs d^2: the search is planned by it, and looks at its clock in every stage."""

    @staticmethod
    @functools.cache
    def target():
        return sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=300)

    def test_few_evaluations_do_in_many_dimensions(self):
        modes = sc.find_modes(self.target(), rng=0)
        assert len(modes) == 1
        assert modes.search.n_evaluations < 50_000
        assert modes.search.effort == 0.25

    def test_the_clock_is_looked_at_in_every_stage(self):
        target = self.target()
        search_modes(target, None, max_evaluations=5000, rng=np.random.default_rng(0))  # compiles
        before = time.process_time()
        modes = search_modes(target, None, max_seconds=2.0, rng=np.random.default_rng(0))
        assert "max_seconds" in modes.search.message or "no mode of weight" in modes.search.message
        assert time.process_time() - before < 12

    def test_likely_symmetries_of_many_coordinates_are_listed_at_once(self):
        before = time.process_time()
        assert len(likely_maps(1000)) == 4000
        assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seconds": [1.0, 2.0]}, r"`max_seconds` must be one number, got shape \(2,\)"),
        ({"cut": 0.0}, "`cut` must be positive and finite"),
    ],
)
def test_limits_must_be_numbers(change, message):
    with pytest.raises(ValueError, match=message):
        find_modes(sc.Target(normal_log_density, dim=2), rng=0, **change)


def test_the_clock_may_be_left_out_and_valleys_cut():
    target = sc.models.gaussian_mixture([[0.0], [9.0]])
    modes = find_modes(target, max_seconds=None, max_evaluations=20_000, cut=1.0, rng=0)
    np.testing.assert_allclose(np.sort(modes.locations.ravel()), [0.0, 9.0], atol=1e-6)


def test_a_hessian_that_is_not_finite_is_named():
    def hessian(x):
        return np.full((len(x), 2, 2), np.nan)

    target = standard_normal(2, hessian=hessian)
    with pytest.raises(ValueError, match=r"`hessian` must return finite values \(n, d, d\), at x = "):
        hessian_at(Surface(target), np.zeros(2), np.ones(2))


def test_draws_on_a_plane_have_no_frame():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 2))
    assert frame_of(np.column_stack([z[:, 0], np.full(100, 2.0)])) is None
    assert frame_of(np.column_stack([z, z[:, 0] * 0.5])) is None
    assert frame_of(np.column_stack([z, z.sum(axis=1) + 1e-4 * rng.normal(size=100)])) is not None


def test_shapes_of_the_target_are_checked_and_points_at_infinity_not_evaluated():
    surface = Surface(sc.Target(lambda x: -0.5 * x**2, dim=2))
    with pytest.raises(ValueError, match=r"must return shape \(3,\) for 3 points, got \(3, 2\)"):
        surface.log_density(np.zeros((3, 2)))
    fine = Surface(sc.Target(normal_log_density, dim=2))
    assert fine.log_density(np.full((3, 2), np.inf)).tolist() == [-np.inf] * 3
    assert fine.evaluations == 0


def test_places_on_the_way_into_an_unbounded_spike_are_no_modes():
    """Eight schools in the centred form: the density grows without bound as tau tends to 0."""
    y = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    sd = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def log_density(x):
        mu, log_tau, theta = x[0], x[1], x[2:]
        prior = -0.5 * jnp.sum(((theta - mu) / jnp.exp(log_tau)) ** 2) - 7 * log_tau - 0.5 * (mu / 5) ** 2
        return prior - 0.5 * jnp.sum(((y - theta) / sd) ** 2) - jnp.log1p((jnp.exp(log_tau) / 5) ** 2)

    target = sc.from_jax(log_density, dim=10)
    rng = np.random.default_rng(0)
    x = rng.normal([4.0, 1.0, *np.zeros(8)], [3.0, 0.7, *np.ones(8)], size=(300, 10))
    x[:, 2:] = x[:, :1] + np.exp(x[:, 1:2]) * x[:, 2:]
    verdict = sc.check(x, target, max_evaluations=200_000, rng=0)
    assert any("no mode found: the density grows towards x[1] = -" in text for text in verdict.warnings)
    assert {"kernel", "moments"} <= set(verdict.tests)
    assert "weights" not in verdict.tests


@pytest.mark.parametrize("limit", [{"max_evaluations": 1}, {"max_seconds": 1e-9}])
def test_a_search_that_hardly_began_does_not_say_that_the_density_grows(limit):
    with pytest.raises(
        ValueError, match=f"`{next(iter(limit))}` was reached before a local optimisation converged"
    ):
        sc.find_modes(sc.models.gaussian_mixture([[-3.0, 0], [3.0, 0]]), rng=0, **limit)


def test_starts_so_far_out_that_no_mode_can_be_seen_are_refused():
    target = sc.models.gaussian_mixture([[-3.0, 0], [3.0, 0]])
    with pytest.raises(ValueError, match=r"`starts` must be within 1e\+15 of 0, got 1e\+200"):
        sc.find_modes(target, starts=[[1e200, 0]], rng=0)
    assert len(sc.find_modes(target, starts=[[1e14, 0]], rng=0)) == 2


def test_no_standard_error_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    sc.find_modes(sc.models.gaussian_mixture([[0.0]]), rng=0)


def test_a_mode_search_underflows_quietly():
    with np.errstate(all="raise"):
        sc.find_modes(sc.models.gaussian_mixture([[-3.0], [3.0]]), rng=0)
