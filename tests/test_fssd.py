import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import assert_power, standard_normal
from scipy import stats
from scipy.optimize import approx_fprime

import steincheck as sc
from steincheck import fssd
from steincheck.chains.reading import Sample
from steincheck.fssd import Placement, feature_moments, features, fssd_test


def normal_sample(x):
    """Draws with the scores of the standard normal distribution."""
    return Sample(x, np.zeros(len(x)), scores=-x)


def test_golden_features_statistic_eigenvalues_and_criterion(golden):
    arrays, target = golden
    x = arrays["X"]
    places = arrays["fssd_V"]
    bandwidth = 2 * float(arrays["fssd_sigma2"])  # the research code has exp(-r2/(2 sigma2))
    with jax.enable_x64(True):
        tau = np.asarray(features(*(jnp.asarray(v) for v in (x, arrays["score"], places)), bandwidth))
    np.testing.assert_allclose(tau, arrays["fssd_features"], rtol=1e-9, atol=1e-12)
    result = fssd_test(x, target, locations=places, bandwidth=bandwidth, rng=0)
    assert result.statistic == pytest.approx(float(arrays["fssd_stat"]), rel=1e-9)
    golden_values = np.sort(arrays["fssd_eigs"])[::-1]
    np.testing.assert_allclose(result.eigenvalues, golden_values, rtol=1e-7, atol=1e-12 * golden_values[0])
    assert result.power_criterion == pytest.approx(float(arrays["fssd_power_criterion"]), rel=1e-8)
    assert result.contributions.sum() == pytest.approx(result.statistic, rel=1e-9)
    # two simulations of the same distribution, 3000 draws each
    assert stats.ks_2samp(result.null_distribution, arrays["fssd_sim_stats"]).pvalue > 1e-4
    assert abs(result.pvalue - float(arrays["fssd_pvalue"])) < 0.06


def test_statistic_is_the_u_statistic_of_the_features(normal_target):
    rng = np.random.default_rng(0)
    x, places = rng.normal(0.2, 1, size=(80, 2)), rng.normal(size=(3, 2))
    gap = x[:, None] - places
    k = np.exp(-0.5 * np.sum(gap**2, axis=2) / 0.7)
    tau = ((-x[:, None] - gap / 0.7) * k[:, :, None] / np.sqrt(6)).reshape(80, -1)
    gram = tau @ tau.T
    expected = 80 * (gram.sum() - np.trace(gram)) / (80 * 79)
    result = fssd_test(x, normal_target, locations=places, bandwidth=1.4, rng=0)
    assert result.statistic == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(
        result.eigenvalues, np.sort(np.linalg.eigvalsh(np.cov(tau.T)))[::-1], atol=1e-12
    )


def test_chunks_do_not_show_and_a_new_n_compiles_nothing():
    x = np.random.default_rng(1).normal(size=(5000, 2))
    places = np.array([[0.0, 1.0], [1.0, 0.0]])
    whole = feature_moments(normal_sample(x), Placement(places, 2.0))
    size = fssd._weighted_features._cache_size()
    parts = [feature_moments(normal_sample(part), Placement(places, 2.0)) for part in (x[:1234], x[1234:])]
    for name in ("mean", "second"):
        pooled = sum(part.n * getattr(part, name) for part in parts) / len(x)
        np.testing.assert_allclose(getattr(whole, name), pooled, rtol=1e-11, atol=1e-12)
    assert fssd._weighted_features._cache_size() == size


def test_training_finds_the_place():
    """Draws of a normal with a bump at (3, 0): the largest contribution is near it."""
    target = standard_normal(2)
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(size=(3500, 2)), rng.normal([3, 0], 0.2, size=(500, 2))])
    rng.shuffle(x)
    result = fssd_test(x, target, n_locations=1, rng=1)
    assert result.reject()
    assert np.linalg.norm(result.locations[0] - [3, 0]) < 1.5


def test_locations_that_see_nothing_cannot_tell(normal_target):
    x = np.random.default_rng(7).normal(size=(100, 2))
    with pytest.warns(UserWarning, match="too far from the draws"):
        result = fssd_test(x, normal_target, locations=[[1e3, 1e3]], bandwidth=2.0, rng=0)
    assert np.isnan(result.pvalue)
    assert not result.reject()


@pytest.mark.slow
def test_power_in_ten_dimensions():
    """A variance of 1.5 instead of 1 in one coordinate of ten, 5000 draws: 40 of 40 samples rejected.

    Without bounds the bandwidth ran away to 1e5, with p-values of .3 to .7.
    """
    rng = np.random.default_rng(11)
    scale = np.append(1.5**0.5, np.ones(9))
    samples = [rng.normal(size=(5000, 10)) * scale for _ in range(5)]
    pvalues = [fssd_test(x, standard_normal(10), check_score=False, rng=rng).pvalue for x in samples]
    assert_power(pvalues, 1.0)


@pytest.mark.parametrize("bandwidth", [0.5, 4.0, 30.0])
def test_climbing_never_lowers_the_criterion_on_the_training_draws(bandwidth):
    rng = np.random.default_rng(12)
    for x in (rng.normal(size=(200, 3)), rng.normal(0.3, 1.0, size=(200, 3)), rng.laplace(size=(200, 3))):
        start = Placement(rng.normal(size=(4, 3)), bandwidth)
        end = fssd._climb(normal_sample(x), start)
        criteria = [feature_moments(normal_sample(x), place).power_criterion for place in (start, end)]
        assert criteria[1] >= criteria[0]


def test_slopes_of_the_criterion_are_those_of_finite_differences():
    rng = np.random.default_rng(13)
    x = rng.normal(size=(50, 2))
    arrays = fssd._padded(normal_sample(x), 64)
    point = np.append(rng.normal(size=6), np.log(3.0))

    def value(parameters):
        return float(fssd._negative_criterion(parameters[:6].reshape(3, 2), parameters[6], *arrays))

    with jax.enable_x64(True):
        slopes = fssd._value_and_slopes(point[:6].reshape(3, 2), point[6], *arrays)[1]
        expected = approx_fprime(point, value, 1e-6)
    np.testing.assert_allclose(np.append(slopes[0], slopes[1]), expected, atol=1e-6)


@pytest.mark.parametrize("unit", [1e-9, 1e3])
def test_units_do_not_matter(unit):
    """Draws in other units: locations and bandwidth follow, the p-value stays."""
    rng = np.random.default_rng(15)
    x = rng.normal([0.2, 0.0], 1.0, size=(600, 2))
    one = standard_normal(2)
    other = sc.Target(lambda y: one.log_density(y / unit), lambda y: -y / unit**2, dim=2)
    a = fssd_test(x, one, n_locations=3, rng=0)
    b = fssd_test(unit * x, other, n_locations=3, rng=0)
    np.testing.assert_allclose(b.locations / unit, a.locations, rtol=1e-5, atol=1e-6)
    assert b.bandwidth / unit**2 == pytest.approx(a.bandwidth, rel=1e-5)
    assert b.pvalue == pytest.approx(a.pvalue, abs=1e-3)
