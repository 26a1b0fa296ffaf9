"""Stein features have mean 0 under the density; standard errors, moments of several modes, tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc
from steincheck.accuracy import control
from steincheck.accuracy.estimate import HEAVY_TAIL, functionals_of
from steincheck.accuracy.walkers import cutoff
from steincheck.flux.orbits import mode_anchors
from steincheck.result import Estimate

METRIC = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])


def everywhere(x):
    return np.ones(len(x)), np.zeros_like(x)


def fields(u, root, width, d):
    """The vector fields in the order of the features, at one point."""
    damped = u**2 / (1 + u**2 / 9)
    cube = u**3 / (1 + u**2 / 9) ** 1.5
    direction = root / width
    low, high = np.triu_indices(d, 1)
    yield from (direction[:, j] for j in range(d))
    for g in (u, damped, cube):
        yield from (g[j] * direction[:, j] for j in range(d))
    yield from (u[i] * direction[:, j] + u[j] * direction[:, i] for i, j in zip(low, high, strict=True))
    pairs = [*zip(low, high, strict=True), *zip(high, low, strict=True)]
    yield from (damped[i] * direction[:, j] for i, j in pairs)


def test_features_are_divergences_by_automatic_differentiation():
    rng = np.random.default_rng(0)
    z, scores = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    slope = rng.normal(size=3)
    value = np.exp(z @ slope)
    features = control.stein_features(z, scores, METRIC, value, value[:, None] * slope, 10**6)
    width = np.sqrt(np.diag(METRIC))
    with jax.enable_x64(True):
        for row in range(2):

            def all_fields(x):
                h = jnp.exp(x @ slope)
                return jnp.stack([h * v for v in fields(x / width, METRIC, width, 3)])

            jacobian = jax.jacfwd(all_fields)(z[row])
            expected = all_fields(z[row]) @ scores[row] + jnp.einsum("kii->k", jacobian)
            np.testing.assert_allclose(features.values[row], expected, rtol=1e-10, atol=1e-12)
    assert features.sizes == [3, 6, 12, 15, 21]


@pytest.mark.parametrize("own", [0, 1])
def test_features_have_mean_0_under_the_density_in_a_cell(own):
    target = sc.models.gaussian_mixture([[-1.2, 0.0], [1.2, 0.5]])
    modes = sc.Modes(np.array([[-1.2, 0.0], [1.2, 0.5]]), np.stack([np.eye(2)] * 2), np.zeros(2))
    gaussians = mode_anchors(modes)
    x = target.sample(200_000, rng=1)
    x = x[gaussians.largest(x) == own]
    border = cutoff(x, own, gaussians)
    centre = x.mean(axis=0)
    features = control.stein_features(x - centre, target.score(x), np.cov(x.T), *border, 10**6)
    t = features.values.mean(axis=0) / features.values.std(axis=0) * np.sqrt(len(x))
    assert np.abs(t).max() < 4.5
    plain = control.stein_features(x - centre, target.score(x), np.cov(x.T), *everywhere(x), 10**6)
    biased = plain.values.mean(axis=0) / plain.values.std(axis=0) * np.sqrt(len(x))
    assert np.abs(biased).max() > 20  # without the cutoff the border counts


def test_orders_stop_at_the_limit():
    z = np.random.default_rng(2).normal(size=(50, 3))
    sizes = {
        limit: control.stein_features(z, -z, np.eye(3), *everywhere(z), limit).sizes
        for limit in (2, 3, 14, 15)
    }
    assert sizes == {2: [], 3: [3], 14: [3, 6, 12], 15: [3, 6, 12, 15]}


def test_cross_fitting_equals_regressions_on_the_other_folds():
    rng = np.random.default_rng(3)
    m, transitions = 15, 6
    values = rng.normal(size=(transitions * m, 4)) + 0.3
    targets = values @ rng.normal(size=(4, 2)) + rng.normal(size=(transitions * m, 2)) + 5.0
    left = control.residuals(control.Features(values, [2, 4]), targets, m)
    walker = np.tile(np.arange(m), transitions)
    half = np.repeat([0, 1], transitions // 2 * m)
    scaled = values / values.std(axis=0)
    for order, size in ((1, 2), (2, 4)):
        for i in (0, 7, 14):
            train = ~np.isin(walker, next(fold for fold in np.array_split(np.arange(m), 5) if i in fold))
            f, y = scaled[train, :size], targets[train]
            f, y = f - f.mean(axis=0), y - y.mean(axis=0)
            beta = np.linalg.solve(f.T @ f / len(f) + 1e-3 * np.eye(size), f.T @ y / len(f))
            for part in (0, 1):
                rows = (walker == i) & (half == part)
                expected = (targets[rows] - scaled[rows, :size] @ beta).mean(axis=0)
                np.testing.assert_allclose(left[order, part, i], expected, rtol=1e-9)
    np.testing.assert_allclose(left[0].mean(axis=(0, 1)), targets.mean(axis=0))


def test_groups_of_neighbours_lengthen_the_intervals_of_dependent_walkers():
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(200, 3))
    dependent = np.repeat(rng.normal(size=(20, 3)), 10, axis=0)
    assert np.all(control.standard_error(dependent, True) > 2 * control.standard_error(dependent, False))
    np.testing.assert_allclose(control.standard_error(independent, False), 1 / np.sqrt(200), rtol=0.2)


def test_without_features_moments_are_those_of_the_states():
    x = np.random.default_rng(1).gamma(2.0, size=(10 * 50, 2))
    moments = control.estimate_moments(x, control.Features(np.empty((500, 0)), []), 50, ordered=False)
    np.testing.assert_allclose(moments.estimate.value[0], x.mean(axis=0))
    np.testing.assert_allclose(np.exp(moments.estimate.value[1]), x.std(axis=0))
    walkers = x.reshape(10, 50, 2).mean(axis=0)
    np.testing.assert_allclose(moments.estimate.standard_error[0], walkers.std(axis=0, ddof=1) / np.sqrt(50))


def test_a_drift_within_the_window_widens_the_interval():
    x = np.random.default_rng(2).normal(size=(10, 50, 1))
    nothing = control.Features(np.empty((500, 0)), [])
    still = control.estimate_moments(x.reshape(500, 1), nothing, 50, ordered=False)
    x[5:] += 1.0
    moving = control.estimate_moments(x.reshape(500, 1), nothing, 50, ordered=False)
    assert moving.estimate.bias[0] > 0.4 > 5 * still.estimate.bias[0]


def moments_of(value, error):
    value, error = np.array(value), np.array(error)
    estimate = Estimate(value, error, 0 * error, np.full(value.shape, 49.0))
    return control.Moments(estimate, np.zeros(value.shape[1]))


def test_windows_count_together_where_they_agree():
    earlier = moments_of([[0.0, 0.0, np.nan], [0.0, 0.0, np.nan]], [[0.2] * 3] * 2)
    window = moments_of([[0.3, 3.0, 0.0], [0.0, 0.0, 0.0]], [[0.1] * 3] * 2)
    both = control.add_window(earlier, window).estimate
    np.testing.assert_allclose(both.value[0], [0.2, 3.0, 0.0])
    np.testing.assert_allclose(both.standard_error[0], [np.hypot(0.2, 0.2) / 3, 0.1, 0.1])


@pytest.mark.parametrize(("together", "low", "high"), [(False, 0.0, 0.86), (True, 0.9, 1.0)])
def test_intervals_of_the_window_after_which_walkers_stop(together, low, high):
    """Sds of lognormal variables, of the first window with an interval that is short enough."""
    sigma, m = 0.8, 50
    log_sd = 0.5 * np.log(np.expm1(sigma**2)) + sigma**2 / 2
    covered = []
    for seed in range(600):
        rng = np.random.default_rng(seed)
        found = None
        for n in (200, 400, 800):
            nothing = control.Features(np.empty((n, 0)), [])
            window = control.estimate_moments(rng.lognormal(0, sigma, (n, 1)), nothing, m, ordered=False)
            found = control.add_window(found, window) if found and together else window
            width = found.estimate.half_width()[1, 0]
            if width < 0.2:
                covered.append(abs(found.estimate.value[1, 0] - log_sd) < width)
                break
    assert len(covered) > 300
    assert low < np.mean(covered) < high


def test_the_delta_method_equals_the_spread_of_many_replicates():
    rng = np.random.default_rng(3)
    share = np.array([0.5, 0.3, 0.2])
    covariance = (np.diag(share) - np.outer(share, share)) / 4000
    mean, log_sd = np.array([[0.0], [4.0], [-3.0]]), np.log([[1.0], [0.5], [2.0]])
    mean_se, log_se = np.array([[0.01], [0.02], [0.03]]), np.array([[0.01], [0.015], [0.01]])

    def modes(means, logs):
        zero = np.zeros((2, 1))
        values, errors = np.stack([means, logs], axis=1), np.stack([mean_se, log_se], axis=1)
        pairs = zip(values, errors, strict=True)
        return [control.Moments(Estimate(value, error, zero, zero + 99), zero[0]) for value, error in pairs]

    told = control.mixture(modes(mean, log_sd), share, covariance)
    values = []
    for _ in range(1500):
        w = rng.multinomial(4000, share) / 4000
        means, logs = mean + mean_se * rng.normal(size=(3, 1)), log_sd + log_se * rng.normal(size=(3, 1))
        one = control.mixture(modes(means, logs), w, covariance)
        values.append(one.estimate.value[:, 0])
    spread = np.std(values, axis=0)
    np.testing.assert_allclose(told.estimate.standard_error[:, 0], spread, rtol=0.06)
    variance = np.sum(share[:, None] * (np.exp(2 * log_sd) + mean**2)) - np.sum(share[:, None] * mean) ** 2
    np.testing.assert_allclose(np.exp(2 * told.estimate.value[1, 0]), variance)


def weights(x, scores, **own_scale):
    target = sc.Target(lambda x: x[:, 0], dim=x.shape[1], **own_scale)
    return control.tail_weights(x, scores, functionals_of(target, x).values)


@pytest.mark.parametrize("nu", [1, 2, 3, 4, 6, 10])
def test_the_tail_index_of_student_t(nu):
    x = np.random.default_rng(nu).standard_t(nu, size=(2000, 2))
    np.testing.assert_allclose(weights(x, -(nu + 1) * x / (nu + x**2)), 1 / (nu + 1), atol=0.01)


@pytest.mark.parametrize("nu", [3, 10])
def test_the_tail_index_of_margins_of_a_multivariate_t(nu):
    rng = np.random.default_rng(nu)
    x = rng.normal(size=(2000, 5)) / np.sqrt(rng.chisquare(nu, size=(2000, 1)) / nu)
    scores = -(nu + 5) * x / (nu + np.sum(x**2, axis=1, keepdims=True))
    assert np.all((weights(x, scores) > HEAVY_TAIL) == (nu == 3))


def test_light_tails_are_light():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 20))
    assert weights(x, -x).max() < 0.05
    u = np.log(rng.gamma(3, size=(2000, 1)))
    assert weights(u, 3 - np.exp(u)).max() < HEAVY_TAIL


def test_tails_on_the_scale_of_the_parameter():
    rng = np.random.default_rng(1)
    own_scale = {"constrained_names": ["tau"], "constrain": np.exp}
    for shape, heavy in ((3, True), (20, False)):  # inverse gamma: tail index `shape`
        u = -np.log(rng.gamma(shape, size=(2000, 1)))
        assert (weights(u, np.exp(-u) - shape, **own_scale)[0] > HEAVY_TAIL) == heavy
    v = rng.normal(size=(2000, 1))
    bounded = {"constrained_names": ["p"], "constrain": lambda u: 1 / (1 + np.exp(-3 * u))}
    assert weights(v, -v, **bounded)[0] < HEAVY_TAIL


def test_constant_parameters_are_left_out():
    target = sc.Target(
        lambda x: x[:, 0],
        dim=1,
        constrained_names=["one", "x"],
        constrain=lambda x: np.hstack([np.ones_like(x), x]),
    )
    assert functionals_of(target, np.arange(5.0)[:, None]).draws == [("x", 2.0, np.sqrt(2.0))]


def test_k_hat_equals_arviz():
    """Numbers of ArviZ 0.23.4: ``az.psislw(log_weights)[1]`` for these weights."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    z = rng.standard_cauchy(size=300)
    weights = [0.5 * (1 - scale**2) * x**2 for scale in (0.8, 0.6, 1.5)]
    weights += [np.log1p(z**2), np.zeros(50), (np.arange(20) / 10) ** 2]
    expected = [
        0.5201128159552169,
        0.7679190944081143,
        -1.6084228551915645,
        1.468454514213093,
        0.0,  # inf in ArviZ: equal weights
        np.inf,
    ]
    np.testing.assert_allclose([control.pareto_k(one) for one in weights], expected, atol=1e-9)


def test_outlying_walkers_lengthen_intervals():
    rng = np.random.default_rng(5)
    normal, skew = rng.normal(size=(200, 1)), rng.lognormal(sigma=1.5, size=(200, 1))
    plain = [walkers.std(ddof=1) / np.sqrt(200) for walkers in (normal, skew)]
    error = [control.standard_error(walkers, False)[0] for walkers in (normal, skew)]
    assert error[0] < 1.05 * plain[0]
    assert error[1] > 1.3 * plain[1]
