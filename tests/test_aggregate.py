import numpy as np
import pytest
from harness import BIMODAL_MODES, assert_level, bimodal, bimodal_draws, jax_normal
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


class TestPerturbed:
    def test_statistics_are_those_of_the_single_tests(self):
        x = bimodal_draws(0.4, 300, np.random.default_rng(5))
        options = {"modes": BIMODAL_MODES, "bandwidths": [9.0, 30.0], "theta": [0.8, 1.2]}
        result = pksdagg_test(x, bimodal(), **options, rng=0)
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


@pytest.mark.slow
def test_level_with_the_bandwidths_of_the_paper():
    """At most the level, and not far below it; tests/test_levels.py has the default bandwidths."""
    rng = np.random.default_rng(10)
    options = {"n_resamples": 199, "n_level_resamples": 199, "check_score": False, "rng": rng}
    samples = (bimodal_draws(0.5, 200, rng) for _ in range(240))
    pvalues = [ksdagg_test(x, bimodal(), bandwidths="paper", **options).pvalue for x in samples]
    assert_level(pvalues, (0.05, 0.2, 0.5), exact=True)


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
