import itertools

import jax
import numpy as np
import pytest
from harness import BIMODAL_MODES, bimodal, bimodal_draws, standard_normal

import steincheck as sc
from steincheck.chains.reading import Sample
from steincheck.stein.bootstrap import multinomial, pvalue, random_blocks, resampling, wild
from steincheck.stein.kernels import stein_kernel_of_columns


def stein_matrix(x):
    """The Stein kernel of a standard normal target at all pairs of rows."""
    with jax.enable_x64(True):
        return np.asarray(stein_kernel_of_columns(sc.IMQ(2.0), x, -x, x.T, -x.T))


def test_multinomial_weights_have_the_moments_of_centred_counts():
    n, size = 40, 50_000
    weights = multinomial(n, size, np.random.default_rng(0)).astype(float)
    assert weights.min() == -1
    assert not weights.sum(axis=1).any()
    # var = 1 - 1/n, covariance = -1/n; standard errors about 1/sqrt(size) (times sqrt(2) for the variance)
    second = weights.T @ weights / size
    assert np.abs(np.diag(second) - (1 - 1 / n)).max() < 6 * np.sqrt(3 / size)
    off = second[~np.eye(n, dtype=bool)]
    assert np.abs(off + 1 / n).max() < 6 / np.sqrt(size)


def test_wild_weights_are_independent_signs():
    weights = wild(30, 20_000, np.random.default_rng(1)).astype(float)
    assert set(np.unique(weights)) == {-1.0, 1.0}
    second = weights.T @ weights / 20_000
    assert np.abs(second - np.eye(30)).max() < 6 / np.sqrt(20_000)
    assert np.abs(weights.mean(axis=0)).max() < 6 / np.sqrt(20_000)


def test_pvalue_counts_ties_and_is_never_zero():
    null = np.array([1.0, 2.0, 2.0, 3.0])
    assert pvalue(2.0, null) == pytest.approx(4 / 5)
    assert pvalue(10.0, null) == pytest.approx(1 / 5)
    assert pvalue(-1.0, null) == 1.0


def test_random_blocks_are_of_equal_size_and_keep_groups_together():
    rng = np.random.default_rng(2)
    sizes = np.bincount(random_blocks(1234, rng))
    assert len(sizes) == 100
    assert set(sizes) == {12, 13}
    assert np.array_equal(np.sort(random_blocks(30, rng)), np.arange(30))
    group = np.repeat(np.arange(300), 3)
    block = random_blocks(900, rng, group)
    assert np.array_equal(block[::3], block[1::3])
    assert np.array_equal(block[::3], block[2::3])
    assert len(np.bincount(block)) == 100


def test_the_statistic_of_blocks_leaves_out_pairs_within_them(normal_target):
    x = np.random.default_rng(18).normal(size=(60, 2))
    block = np.arange(60) // 6  # ten chains of six draws are not cut
    result = sc.ksd_test(list(x.reshape(10, 6, 2)), normal_target, kernel=sc.IMQ(2.0), rng=0)
    between = block[:, None] != block
    u = stein_matrix(x)
    assert result.statistic == pytest.approx(u[between].mean(), abs=1e-6 * np.abs(u).mean())
    assert len(result.null_distribution) == 2**9 - 1  # all patterns of ten blocks


@pytest.mark.parametrize("n", [6, 9])
def test_few_draws_have_the_share_of_all_sign_patterns_as_p_value(normal_target, n):
    x = np.random.default_rng(n).normal(size=(n, 2))
    result = sc.ksd_test(x, normal_target, kernel=sc.IMQ(2.0), rng=0)
    u = stein_matrix(x) * (1 - np.eye(n))
    signs = np.array(list(itertools.product([1, -1], repeat=n)))
    forms = np.einsum("bi,ij,bj->b", signs, u, signs)
    assert result.pvalue == pytest.approx(np.mean(forms >= u.sum() * (1 - 1e-9)), rel=1e-12)
    assert result.pvalue_floor == 2.0 ** (1 - n)
    assert result.settings["bootstrap"] == "blocks"


@pytest.mark.parametrize("name", ["ksd", "pksd", "spksd", "ospksd", "ksdagg", "pksdagg"])
def test_tests_of_very_few_draws_cannot_tell(name):
    """Five draws have 16 sign patterns up to a common sign: no p-value can be .05."""
    options = {} if name in ("ksd", "ksdagg") else {"modes": BIMODAL_MODES, "theta": [0.9], "n_steps": 2}
    x = bimodal_draws(0.5, 10 if name == "ospksd" else 5, np.random.default_rng(25)) + 9.0  # far off
    result = getattr(sc, f"{name}_test")(x, bimodal(), rng=0, **options)
    assert result.pvalue_floor == 1 / 16
    assert result.inconclusive()


def test_aggregation_over_few_draws_breaks_no_ties():
    """Replicates with all signs equal are the statistic itself: rounding must not make them smaller."""
    rng = np.random.default_rng(26)
    target = standard_normal(10)
    for _ in range(40):
        x = rng.normal(size=(4, 10))
        result = sc.ksdagg_test(x, target, precondition=np.eye(10), independent=True, rng=rng)
        assert result.pvalue >= 1 / 8


@pytest.mark.parametrize(
    ("n", "options", "used"),
    [
        (10_001, {}, "blocks"),
        (10_000, {}, multinomial),
        (49, {}, "blocks"),
        (100, {"weight": np.ones(100)}, "blocks"),
        (100, {"group": np.arange(100) // 2}, "blocks"),
    ],
)
def test_which_draws_are_put_into_blocks_unless_a_bootstrap_is_named(n, options, used):
    rng = np.random.default_rng(20)
    sample = Sample(np.zeros((n, 1)), np.zeros(n), **options)
    assert resampling(sample, None, multinomial, 19, rng, rng).bootstrap == used
    assert resampling(sample, wild, multinomial, 19, rng, rng).bootstrap is wild


def test_identical_draws_are_one_block(normal_target):
    x = np.random.default_rng(21).normal(size=(80, 2))
    x[-20:] = x[:20]
    with pytest.warns(UserWarning, match="20 of 80 draws repeat others exactly"):
        found = sc.ksd_test(x, normal_target, kernel=sc.IMQ(2.0), rng=0)
    different = np.any(x[:, None] != x, axis=2)
    assert found.settings["bootstrap"] == "blocks"
    assert found.statistic == pytest.approx(stein_matrix(x)[different].mean(), rel=1e-5)


def test_rejections_of_a_chain_stay_in_one_block(normal_target):
    x = np.random.default_rng(22).normal(size=(1, 400, 2))
    held = x.copy()
    held[0, 15:25] = held[0, 15]  # a cut at draw 20 would divide them
    result = sc.ksd_test(held, normal_target, kernel=sc.IMQ(2.0), rng=0)
    block = np.arange(400) * result.chains.n_blocks // 400
    assert block[19] != block[20]
    block[20:25] = block[19]
    u = stein_matrix(held[0])
    expected = u[block[:, None] != block].mean()
    assert result.statistic == pytest.approx(expected, abs=1e-6 * np.abs(u).mean())
