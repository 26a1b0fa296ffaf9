import jax.numpy as jnp
import numpy as np
import pytest
from harness import BIMODAL_MODES, assert_level, assert_power, bimodal, bimodal_draws, jax_normal, noisy_rbm
from scipy.spatial.distance import pdist

import steincheck as sc
from steincheck.aggregate import collection, ksdagg_test, min_p, pksdagg_test


def bisection(statistics, first, second, weights, alpha, steps=50):
    """The decision of Schrab et al. (2022), written as they describe it: quantiles, and bisection for u."""
    size = first.shape[1] + 1
    ordered = np.sort(np.column_stack([first, statistics]), axis=1)

    def quantiles(u):
        index = np.ceil(size * (1 - u * weights)).astype(int) - 1
        return ordered[np.arange(len(weights)), index]

    low, high = 0.0, np.min(1 / weights)
    for _ in range(steps):
        u = (low + high) / 2
        rejecting = np.mean(np.max(second - quantiles(u)[:, None], axis=0) > 0)
        low, high = (u, high) if rejecting <= alpha else (low, u)
    pvalues = np.mean(ordered >= statistics[:, None], axis=1)
    return bool(np.any(pvalues <= low * weights))


@pytest.mark.parametrize("weighting", ["uniform", "geometric", "harmonic"])
def test_pvalue_decides_as_the_bisection(weighting):
    """100 random problems with dependent statistics, at five levels each."""
    rng = np.random.default_rng(0)
    decisions = []
    for _ in range(100):
        k, size, level_size = rng.integers(1, 7), rng.integers(19, 120), rng.integers(20, 120)
        shared = rng.normal(size=size + level_size + 1)
        every = 0.7 * shared + 0.7 * rng.normal(size=(k, size + level_size + 1))
        statistics = every[:, 0] + rng.uniform(0, 2.5)
        first, second = every[:, 1 : size + 1], every[:, size + 1 :]
        weights = {
            "uniform": np.ones(k),
            "geometric": 0.5 ** np.arange(k),
            "harmonic": 1 / np.arange(1, k + 1),
        }
        weights = weights[weighting] / weights[weighting].sum()
        for alpha in (0.05, 0.1, 0.2, 0.5, 0.9):
            outcome = min_p(statistics, first, second, weights, alpha)
            decision = bisection(statistics, first, second, weights, alpha)
            assert (outcome.pvalue <= alpha) == decision
            # the single tests at their levels say the same
            assert np.any(outcome.pvalues <= outcome.levels + 1e-12) == decision
            assert np.any(statistics > outcome.thresholds) == decision
            decisions.append(decision)
    assert 0.2 < np.mean(decisions) < 0.8


@pytest.mark.parametrize(
    "names", [("agg", None, 2000, 2000), ("agg500", None, 500, 500), ("aggv", "paper", 800, 500)]
)
def test_golden_statistics_and_decisions(golden, names):
    arrays, target = golden
    prefix, bandwidths, size, level_size = names
    result = ksdagg_test(
        arrays["X"], target, bandwidths=bandwidths, n_resamples=size, n_level_resamples=level_size, rng=0
    )
    # the vendored code took the median in float32
    accuracy = 1e-6 if prefix == "aggv" else 1e-9
    np.testing.assert_allclose(np.sqrt(result.bandwidths), arrays[f"{prefix}_bandwidth"], rtol=accuracy)
    widths = arrays[f"{prefix}_bandwidth"] ** 2
    exact = ksdagg_test(arrays["X"], target, bandwidths=widths, n_resamples=19, n_level_resamples=19)
    np.testing.assert_allclose(exact.statistics, arrays[f"{prefix}_ksd"], rtol=1e-9)
    assert result.reject(0.05) == bool(arrays[f"{prefix}_decision"])
    if (
        prefix == "agg"
    ):  # other signs: 2000 replicates each, so p-values differ by their Monte Carlo error only
        assert np.abs(result.pvalues - arrays["agg_pval"]).max() < 0.06


def test_paper_collection_and_default_collection():
    x = np.random.default_rng(1).normal(size=(700, 3)) * 4
    median = sc.median_bandwidth(x)
    np.testing.assert_allclose(collection(x, "paper"), median * 4.0 ** np.arange(11))
    farthest = pdist(x[:500]).max()
    np.testing.assert_allclose(np.sqrt(collection(x, "reference")), np.geomspace(1, farthest, 10) / 3)


@pytest.mark.slow
def test_power_against_shift_and_scale_and_blindness_to_modes(normal_target):
    """With 200 replicates each of ten statistics can reject by itself, at its level of 1 in 200."""
    rng = np.random.default_rng(3)
    options = {"n_resamples": 200, "n_level_resamples": 200, "rng": rng}
    shift, scale = (
        [ksdagg_test(rng.normal(*law, size=(400, 2)), normal_target, **options).reject() for _ in range(8)]
        for law in ((0.25, 1), (0, 1.25))
    )
    assert_power(shift, 0.75)
    assert_power(scale, 0.75)
    blind = [ksdagg_test(bimodal_draws(1.0, 600, rng), bimodal(), **options).reject() for _ in range(12)]
    assert_level(blind)


def test_preconditioned_pvalue_does_not_depend_on_linear_maps(normal_target):
    x = np.random.default_rng(4).normal(size=(200, 2))
    scale = np.array([1e-3, 1e3])
    mapped = sc.Target(lambda x: -0.5 * np.sum((x / scale) ** 2, axis=1), lambda x: -x / scale**2, dim=2)
    one = ksdagg_test(x, normal_target, rng=0)
    two = ksdagg_test(x * scale, mapped, precondition=np.diag(scale**2), rng=0)
    np.testing.assert_allclose(one.statistics, two.statistics, rtol=1e-8)
    assert one.pvalue == two.pvalue


class TestPerturbed:
    def test_statistics_are_those_of_the_single_tests(self):
        x = bimodal_draws(0.4, 300, np.random.default_rng(5))
        result = pksdagg_test(
            x, bimodal(), modes=BIMODAL_MODES, bandwidths=[9.0, 30.0], theta=[0.8, 1.2], rng=0
        )
        assert result.statistics.shape == (4,)
        plain = sc.ksd_test(x, bimodal(), kernel=sc.IMQ(9.0), rng=0)
        assert result.statistics[0] == pytest.approx(plain.statistic, rel=1e-9)
        summed = sc.spksd_test(x, bimodal(), modes=BIMODAL_MODES, kernel=sc.IMQ(9.0), theta=[0.8, 1.2], rng=0)
        assert result.statistics[2] == pytest.approx(summed.theta_statistics.sum(), rel=1e-9)
        np.testing.assert_array_equal(result.acceptance, summed.acceptance)

    def test_it_sees_a_missing_mode_and_a_wrong_shape(self):
        rng = np.random.default_rng(6)
        missing = pksdagg_test(bimodal_draws(1.0, 500, rng), bimodal(), modes=BIMODAL_MODES, rng=rng)
        assert missing.pvalue <= 0.01
        shifted = pksdagg_test(bimodal_draws(0.5, 500, rng) + 0.4, bimodal(), modes=BIMODAL_MODES, rng=rng)
        assert shifted.pvalue <= 0.01

    def test_modes_are_found(self):
        x = bimodal_draws(1.0, 300, np.random.default_rng(8))
        assert pksdagg_test(x, bimodal(), bounds=(-10, 16), rng=0).reject()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidths": [1.0, 0.0]}, r"`bandwidths` must be positive and finite, got \[0.0\]"),
        ({"bandwidths": "median"}, "`bandwidths` must be an array, None or 'paper', got 'median'"),
        ({"bandwidth_weights": np.ones(10)}, "`bandwidth_weights` must have sum 1, got "),
        (
            {"bandwidth_weights": [0.5, 0.5]},
            r"`bandwidth_weights` must hold one weight per statistic, shape \(10,\), got shape \(2,\)",
        ),
        ({"n_level_resamples": 0}, "`n_level_resamples` must be a positive integer, got 0"),
        ({"alpha": 1.0}, "`alpha` must lie strictly between 0 and 1, got 1.0"),
    ],
)
def test_bad_input(normal_target, change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ksdagg_test(np.random.default_rng(0).normal(size=(50, 2)), normal_target, **change)


@pytest.mark.parametrize("test", [ksdagg_test, sc.pksdagg_test])
def test_a_kernel_with_its_own_bandwidth_is_refused(test):
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    with pytest.raises(
        ValueError, match=r"`kernel` must have no bandwidth of its own, got 123.0: .*`bandwidths`"
    ):
        test(target.sample(60, 0), target, kernel=sc.IMQ(bandwidth=123.0), rng=0)


@pytest.mark.slow
@pytest.mark.parametrize("bandwidths", [None, "paper"])
def test_level_over_500_samples(bandwidths):
    """Gaussian mixture, n = 500: at most the level, and not far below it."""
    rng = np.random.default_rng(10)
    options = {"n_resamples": 500, "n_level_resamples": 500, "check_score": False, "rng": rng}
    samples = (bimodal_draws(0.5, 500, rng) for _ in range(500))
    pvalues = np.array([ksdagg_test(x, bimodal(), bandwidths=bandwidths, **options).pvalue for x in samples])
    assert_level(pvalues, (0.05, 0.2), exact=True)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "least", "most"), [(0.0, 0.0, 0.1), (0.05, 0.9, 1.0)])
def test_rbm_of_the_paper_over_100_samples(noise, least, most):
    """d = 50, 10 hidden units, n = 1000: the level without noise, power with little."""
    rng = np.random.default_rng(11)
    rejected = []
    for _ in range(100):
        target, x = noisy_rbm(noise, 1000, rng, 50, 10)
        options = {"n_resamples": 500, "n_level_resamples": 500, "check_score": False, "rng": rng}
        rejected.append(ksdagg_test(x, target, **options).reject())
    assert least - 0.05 <= np.mean(rejected) <= most + 0.05


@pytest.mark.parametrize("bootstrap", [sc.wild, "blocks"])
def test_the_smallest_pvalue_of_aggregated_tests_is_attained(bootstrap):
    options = {"bootstrap": bootstrap, "n_resamples": 300, "n_level_resamples": 200, "rng": 0}
    far = sc.ksdagg_test(np.random.default_rng(0).normal(size=(400, 2)) + 2, jax_normal(), **options)
    assert far.pvalue == far.pvalue_floor
    assert far.at_floor
    assert np.ptp(far.pvalues) == 0
    near = sc.ksdagg_test(np.random.default_rng(0).normal(size=(400, 2)), jax_normal(), **options)
    assert not near.at_floor
    assert near.inconclusive(0.9 * near.pvalue_floor)


def test_ksdagg_says_that_its_bandwidths_depend_on_units():
    small = sc.from_jax(lambda x: -0.5e6 * jnp.sum(x**2), 2)
    x = 1e-3 * np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(UserWarning, match="made for draws of unit scale.*give `precondition`"):
        sc.ksdagg_test(x, small, rng=0)
    sc.ksdagg_test(x, small, precondition=1e-6 * np.eye(2), rng=0)
