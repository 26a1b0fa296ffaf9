"""Sizes of what is wrong: the map that corrects the draws, intervals, and which misfits are told."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from harness import (
    CORRELATED,
    assert_coverage,
    find_feature,
    gaussian_with_modes,
    quiet_moment_test,
    standard_normal,
    student,
)

import steincheck as sc
from steincheck.modes.arguments import as_modes
from steincheck.moments import leading_features
from steincheck.moments.correction import WeightedDraws, solve_affine
from steincheck.moments.coordinates import make_frame
from steincheck.moments.sizes import sizes
from steincheck.moments.columns import SHAPE_KINDS, _hidden, _repeats, unexplained_shapes
from steincheck.result import MomentFeature
from steincheck.wording import describe, moment_findings


def whitened(z):
    """Draws with mean zero and unit covariance, exactly."""
    z = z - z.mean(axis=0)
    return z @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, bias=True))).T


@pytest.mark.parametrize(("score", "error"), [(None, 0.15), (lambda x: -x, 1e-3)])
def test_sizes_for_gaussian_draws_far_off(score, error):
    """Draws with exact moments; one step is nearly right, more steps are."""
    rng = np.random.default_rng(0)
    x = whitened(rng.normal(size=(20_000, 2))) * [0.1, 5.0] + [2.0, -1.0]
    target, modes = gaussian_with_modes(np.eye(2))
    frame = make_frame(as_modes(modes, target), x)
    effects = sizes(x, -x, np.arange(len(x)) // 200, frame, score, rng)[0][-1]
    np.testing.assert_allclose(effects.shift, [2.0, -1.0], atol=error)
    np.testing.assert_allclose(np.exp(effects.log_factor), [0.1, 5.0], rtol=error)
    np.testing.assert_allclose(effects.correlation, 0.0, atol=1e-8)


@pytest.mark.parametrize("df", [3.0, 8.0])
def test_draws_are_taken_back_to_the_density(df):
    """An affine image of a heavy-tailed sample: the map that is found is its inverse."""
    rng = np.random.default_rng(3)
    exact = rng.normal(size=(20_000, 3)) / np.sqrt(rng.chisquare(df, size=(20_000, 1)) / df)
    stretch = np.array([[0.5, 0.2, 0.0], [0.2, 1.5, 0.0], [0.0, 0.0, 1.0]])
    offset = np.array([0.4, 0.0, -1.0])

    def score(y):
        return -(df + 3) * y / (df + np.sum(y**2, axis=1, keepdims=True))

    x = exact @ stretch + offset
    affine = solve_affine(WeightedDraws(x, score(x), np.ones(len(x))), np.eye(3), score)
    back = affine(x)
    np.testing.assert_allclose(np.cov(back.T), np.cov(exact.T), atol=0.06 * np.trace(np.cov(exact.T)))
    np.testing.assert_allclose(affine.matrix @ stretch @ (affine.matrix @ stretch).T, np.eye(3), atol=0.06)
    np.testing.assert_allclose(affine(offset[None]), 0.0, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t", "log-gamma"])
def test_intervals_cover_far_from_the_density_and_off_gaussian(name):
    """One step from these draws underestimates the factor so much that hardly any interval holds it.

    Of 30 intervals 22 must: if one in three did, with a probability of 1e-5; at 94 %, all but 1e-4.
    """
    rng = np.random.default_rng(2)
    runs = 30
    if name == "t":
        target, modes = student(2), np.zeros((1, 2))
        samples = [
            rng.normal(size=(400, 2)) / np.sqrt(rng.chisquare(3, size=(400, 1)) / 3) for _ in range(runs)
        ]
    else:
        target = sc.from_jax(lambda x: jnp.sum(3 * x - jnp.exp(x)), dim=2)
        modes = np.full((1, 2), np.log(3))
        samples = [np.log(rng.gamma(3, size=(400, 2))) for _ in range(runs)]
    known = as_modes(modes, target)
    covered = 0
    for x in samples:
        result = quiet_moment_test(x * [0.6, 1.0], target, known, n_resamples=19, check_score=False)
        low, high = find_feature(result, "scale", ["x[0]"]).interval
        covered += low <= 0.6 <= high
    assert_coverage(covered, runs, 0.94)


def test_a_better_fit_looks_better():
    """Mean-field against full-rank Gaussian of a posterior that is correlated and skew."""

    def log_density(x):  # log of a rate and a slope, correlation near -0.9
        return 20 * x[0] - 20 * jnp.exp(x[0] + 0.9 * x[1]) + 18 * x[1] - 0.5 * x[1] ** 2

    target = sc.from_jax(log_density, dim=2, names=["rate", "slope"])
    modes = sc.find_modes(target, bounds=(-3, 3), rng=0)
    rng = np.random.default_rng(0)
    covariance = modes.covariances[0]
    narrow = np.linalg.inv(covariance).diagonal() ** -0.5
    full = rng.multivariate_normal(modes.locations[0], covariance, size=2000)
    mean_field = modes.locations[0] + narrow * rng.normal(size=(2000, 2))
    worse = quiet_moment_test(mean_field, target, modes)
    better = quiet_moment_test(full, target, modes)
    for kind, parameters in (("scale", ["rate"]), ("scale", ["slope"])):
        sizes_of = [abs(np.log(find_feature(fit, kind, parameters).estimate)) for fit in (better, worse)]
        assert sizes_of[0] < 0.5 * sizes_of[1]
    correlation = find_feature(worse, "correlation", ["rate", "slope"])
    true = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert abs(correlation.observed) < 0.1
    assert correlation.expected == pytest.approx(true, abs=0.05)
    assert abs(find_feature(better, "correlation", ["rate", "slope"]).estimate) < 0.1
    sentences = [describe(feature) for feature in leading_features(worse)]
    assert any("sd of the draws" in text and "should be" in text for text in sentences)
    assert any(text.startswith("correlation of rate and slope: ") for text in sentences)


def test_sizes_that_explain_nothing_are_not_given():
    """Draws far from the density in ways that no affine map explains: NaN, or intervals of some width."""
    target, modes = gaussian_with_modes(CORRELATED)
    rng = np.random.default_rng(6)
    for x in (rng.gamma(1.0, size=(300, 3)) - 3.0, rng.uniform(4, 5, size=(300, 3))):
        for feature in quiet_moment_test(x, target, modes).features:
            low, high = feature.interval
            assert low < high or np.isnan([low, high, feature.estimate]).all(), feature


def test_a_curved_density_gets_no_sizes_but_its_own_copy_does():
    """Gaussian draws for a banana: the best shift and stretch has the wrong direction, and is not told."""
    target = sc.from_jax(lambda x: -(x[0] ** 2) / 8 - 2 * (x[1] - x[0] ** 2 + 4) ** 2, dim=2)
    rng = np.random.default_rng(0)
    modes = [[0.0, -4.0]]
    laplace = quiet_moment_test(rng.normal(size=(2000, 2)) * [1.0, 0.5] + modes, target, modes)
    assert laplace.reject()
    assert np.isnan(find_feature(laplace, "scale", ["x[0]"]).estimate)
    bent = sc.from_jax(lambda x: -(x[0] ** 2) / 2 - 2 * (x[1] - 0.3 * x[0] ** 2) ** 2, dim=2)
    first = rng.normal(size=2000)
    exact = np.stack([first, 0.3 * first**2 + 0.5 * rng.normal(size=2000)], axis=1)
    shrunk = quiet_moment_test(exact * 0.7, bent, [[0.0, 0.0]])
    assert find_feature(shrunk, "scale", ["x[0]"]).estimate == pytest.approx(0.7, rel=0.1)


@pytest.mark.slow
def test_intervals_cover():
    rng = np.random.default_rng(1)
    target, modes = gaussian_with_modes(np.eye(2))
    known = as_modes(modes, target)
    hits = np.zeros(3)
    runs = 60
    for _ in range(runs):
        x = rng.normal(size=(300, 2)) * [1.3, 1.0] + [0.0, 0.2]
        result = quiet_moment_test(x, target, known, n_resamples=19, check_score=False)
        sizes = (
            ("scale", ["x[0]"], 1.3),
            ("location", ["x[1]"], 0.2),
            ("correlation", ["x[0]", "x[1]"], 0.0),
        )
        for k, (kind, parameters, truth) in enumerate(sizes):
            low, high = find_feature(result, kind, parameters).interval
            hits[k] += low <= truth <= high
    assert_coverage(hits, runs, 0.94)


def a_feature(kind="scale", **changes):
    fields = {"basis": "parameter", "mode": None, "parameters": ("a",), "loadings": (), "estimate": 1.5}
    fields |= {
        "interval": (1.4, 1.6),
        "observed": 1.5,
        "expected": 1.0,
        "t": 9.0,
        "pvalue": 0.001,
        "scales": (),
    }
    return MomentFeature(kind, **(fields | changes))


@pytest.mark.parametrize(
    ("shape", "others", "hidden"),
    [
        ({}, [{"kind": "location", "estimate": 1.2}], True),
        ({}, [{"kind": "location", "estimate": 0.8}], False),
        ({}, [{"kind": "scale", "estimate": 0.5}], True),
        ({}, [{"kind": "correlation", "estimate": 0.6}], True),
        ({"mode": 1}, [{"kind": "location", "estimate": 1.2, "mode": 0}], False),
        ({"mode": 1}, [{"kind": "location", "estimate": 1.2, "mode": 1}], True),
        ({}, [{"kind": "scale", "estimate": np.nan}], False),
    ],
)
def test_a_shape_is_not_told_beside_a_shift_that_alone_would_make_it_look_wrong(shape, others, hidden):
    assert _hidden(a_feature("tails", **shape), [a_feature(**other) for other in others]) is hidden


def test_a_misfit_of_another_mode_and_of_another_kind_is_no_repetition():
    wide = a_feature(mode=0)
    assert not _repeats(a_feature(mode=1), wide)
    assert _repeats(a_feature(mode=0), wide)
    overall = a_feature("overall scale", basis="all", parameters=())
    assert _repeats(wide, overall)  # all are 1.5 times too wide, and so is this one
    assert not _repeats(a_feature(estimate=4.0, interval=(3.9, 4.1)), overall)
    assert not _repeats(a_feature("location"), overall)


@pytest.mark.parametrize("by", ["log density", "coordinate"])
def test_the_order_of_independent_draws_does_not_matter(by):
    """Sorted draws, as those of nested sampling are, have the sizes of the same draws unsorted."""
    target = standard_normal(2)
    n = 8000
    x = np.random.default_rng(5).normal(size=(n, 2)) * [1, 1 + 4.5 / np.sqrt(2 * n)]
    key = target.log_density(x) if by == "log density" else x[:, 0]
    results = [
        sc.moment_test(draws, target, modes=np.zeros((1, 2)), independent=True, rng=0)
        for draws in (x, x[np.argsort(key)])
    ]
    plain, ordered = (
        next(f for f in result.features if f.kind == "scale" and f.parameters == ("x[1]",))
        for result in results
    )
    assert abs(ordered.t) == pytest.approx(abs(plain.t), rel=0.1)
    assert np.diff(ordered.interval) == pytest.approx(np.diff(plain.interval), rel=0.25)
    assert max(result.pvalue for result in results) < 0.01


def test_draws_that_no_map_corrects_have_no_sizes():
    """The map that comes nearest puts some where the density has a slope of 1e22 or 1e63."""
    target = sc.Target(lambda x: x[:, 0] - np.exp(x[:, 0]), lambda x: 1 - np.exp(x), dim=1)
    for seed in (2, 3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(100, 1)) + np.where(rng.random(100) < 0.5, -3, 3)[:, None]
        result = sc.moment_test(x, target, modes=[[0.0]], rng=0)
        assert result.pvalue < 1e-6
        assert all(
            np.isnan(feature.estimate) for feature in result.features if feature.kind in ("location", "scale")
        )


def scale_mixture(k):
    """v ~ N(0, 1), k coordinates x | v ~ N(0, exp(v)): the spread of x depends on v."""

    def log_density(u):
        return -0.5 * u[0] ** 2 - 0.5 * jnp.sum(u[1:] ** 2) * jnp.exp(-u[0]) - 0.5 * k * u[0]

    def draw(n, rng):
        v = rng.normal(size=n)
        return np.column_stack([v, np.exp(v / 2)[:, None] * rng.normal(size=(n, k))])

    names = ["v", *(f"x{i}" for i in range(k))]
    return sc.from_jax(log_density, dim=1 + k, names=names), draw


@pytest.mark.parametrize(
    ("shift", "factor", "said"),
    [
        (0.3, 1.0, r"Mean of v is 0.\d+ sd \(.*\) too high: .* should be 0$"),
        (0.0, 1.4, r"v is 1.\d+ \(.*\) times too wide: .*"),
    ],
)
def test_what_a_wrong_scale_explains_is_not_reported_beside_it(shift, factor, said):
    """The tails of all x were said to be too light, though they are right."""
    target, draw = scale_mixture(3)
    x = draw(1000, np.random.default_rng(0))
    x[:, 0] = shift + factor * x[:, 0]
    result = quiet_moment_test(x, target, [[-1.5, 0.0, 0.0, 0.0]])
    wrong = {f.parameters for f in result.significant() if f.kind in SHAPE_KINDS}
    assert {("x0",), ("x1",), ("x2",)} & wrong  # given v they are
    assert not unexplained_shapes(result)
    found = moment_findings(result, result.pvalue, 0.05, names=target.names)
    assert len(found) == 1
    assert re.fullmatch(said, found[0].text)


def test_a_shape_that_no_size_explains_is_reported_beside_sizes():
    target = standard_normal(2, names=["a", "b"])
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.gamma(9, size=1000) / 3 - 3, rng.normal(0, 0.8, size=1000)])
    result = quiet_moment_test(x, target, [[0.0, 0.0]])
    assert find_feature(result, "skewness", ["a"]) in unexplained_shapes(result)
    texts = [finding.text for finding in moment_findings(result, result.pvalue, 0.05, names=["a", "b"])]
    assert texts[0] == "b is too narrow, by a factor of roughly 1.3; the shape is wrong too"
    assert "a given the others is too skewed to the right" in texts


def test_sizes_are_rough_where_corrected_draws_have_a_wrong_shape():
    """Where v is too narrow and x right given v, no affine map corrects: sd 0.92 was called right, not 1."""
    target = scale_mixture(1)[0]
    rng = np.random.default_rng(0)
    v = rng.normal(0, 0.6, size=1000)
    x = np.column_stack([v, np.exp(v / 2) * rng.normal(size=1000)])
    result = quiet_moment_test(x, target, [[-0.5, 0.0]])
    assert unexplained_shapes(result)
    text = moment_findings(result, result.pvalue, 0.05, names=target.names)[0].text
    assert text == "v is too narrow, by a factor of roughly 1.6; the shape is wrong too"


def test_a_size_2_standard_errors_from_nothing_is_not_reported():
    """Its feature is off because of another parameter; one in twenty of such 95 % intervals leaves out 1."""
    target, draw = scale_mixture(3)
    x = draw(4000, np.random.default_rng(0))
    x[:, 0] += 0.3
    result = quiet_moment_test(x, target, [[-1.5, 0.0, 0.0, 0.0]])
    near = find_feature(result, "scale", ["x0"])
    assert near.pvalue < 0.01
    assert near.interval[1] < 1.005
    assert [feature.parameters for feature in leading_features(result)] == [("v",)]


@pytest.mark.parametrize("seed", range(10))
def test_corrected_draws_may_be_at_other_modes(seed):
    """Those corrected are enough at another mode, which then has features of its own."""
    target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    draws = target.sample(100, seed) + 1.2
    result = sc.moment_test(draws, target, modes=[[-3.0, 0.0], [3.0, 0.0]], n_resamples=99, rng=0)
    assert result.reject()
