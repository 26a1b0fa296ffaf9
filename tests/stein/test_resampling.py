import itertools

import jax
import numpy as np
import pytest
from harness import BIMODAL_MODES, assert_level, assert_power, bimodal, bimodal_draws, standard_normal

import steincheck as sc
from steincheck.chains.reading import groups_of_copies
from steincheck.stein.kernels import stein_kernel
from steincheck.stein.resampling import bootstrap_used


def test_the_statistic_of_blocks_leaves_out_pairs_within_them(normal_target):
    x = np.random.default_rng(18).normal(size=(60, 2))
    block = np.arange(60) // 6  # ten chains of six draws are not cut
    result = sc.ksd_test(list(x.reshape(10, 6, 2)), normal_target, kernel=sc.IMQ(2.0), rng=0)
    between = block[:, None] != block
    with jax.enable_x64(True):
        u = np.asarray(stein_kernel(sc.IMQ(2.0), x, -x, x, -x))
    assert result.statistic == pytest.approx(u[between].mean(), abs=1e-6 * np.abs(u).mean())
    assert len(result.null_distribution) == 2**9 - 1  # all patterns of ten blocks


@pytest.mark.slow
def test_blocks_keep_the_level_and_see_a_shift(normal_target):
    rng = np.random.default_rng(19)
    options = {"bootstrap": "blocks", "n_resamples": 199, "check_score": False, "rng": rng}
    pvalues = np.array(
        [sc.ksd_test(rng.normal(size=(150, 2)), normal_target, **options).pvalue for _ in range(150)]
    )
    assert_level(pvalues, (0.05, 0.2), exact=True)
    rejected = [
        sc.ksd_test(rng.normal(0.3, 1, size=(300, 2)), normal_target, **options).reject() for _ in range(12)
    ]
    assert_power(rejected, 10 / 12)


@pytest.mark.parametrize("n", [6, 9])
def test_few_draws_have_the_share_of_all_sign_patterns_as_p_value(normal_target, n):
    x = np.random.default_rng(n).normal(size=(n, 2))
    result = sc.ksd_test(x, normal_target, kernel=sc.IMQ(2.0), rng=0)
    with jax.enable_x64(True):
        u = np.asarray(stein_kernel(sc.IMQ(2.0), x, -x, x, -x)) * (1 - np.eye(n))
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


def test_many_draws_are_put_into_blocks_unless_a_bootstrap_is_named():
    x = np.random.default_rng(20).normal(size=(10_001, 2))
    assert bootstrap_used(None, sc.multinomial, x) == "blocks"
    assert bootstrap_used(None, sc.multinomial, x[1:]) is sc.multinomial
    assert bootstrap_used(sc.wild, sc.multinomial, x) is sc.wild
    assert bootstrap_used(None, sc.multinomial, x[:49]) == "blocks"
    assert bootstrap_used(None, sc.multinomial, np.repeat(x[:100], 2, axis=0)) == "blocks"


def test_identical_draws_are_one_block(normal_target):
    x = np.random.default_rng(21).normal(size=(80, 2))
    x[-20:] = x[:20]
    with pytest.warns(UserWarning, match="20 of 80 draws repeat others exactly"):
        found = sc.ksd_test(x, normal_target, kernel=sc.IMQ(2.0), rng=0)
    with jax.enable_x64(True):
        u = np.asarray(stein_kernel(sc.IMQ(2.0), x, -x, x, -x))
    different = np.any(x[:, None] != x, axis=2)
    assert found.settings["bootstrap"] == "blocks"
    assert found.statistic == pytest.approx(u[different].mean(), rel=1e-5)
    identity = groups_of_copies(x)
    np.testing.assert_array_equal(identity[-20:], identity[:20])
    assert len(np.unique(identity)) == 60


def test_rejections_of_a_chain_stay_in_one_block(normal_target):
    x = np.random.default_rng(22).normal(size=(1, 400, 2))
    held = x.copy()
    held[0, 15:25] = held[0, 15]  # a cut at draw 20 would divide them
    result = sc.ksd_test(held, normal_target, kernel=sc.IMQ(2.0), rng=0)
    block = np.arange(400) * result.chains.n_blocks // 400
    assert block[19] != block[20]
    block[20:25] = block[19]
    with jax.enable_x64(True):
        u = np.asarray(stein_kernel(sc.IMQ(2.0), held[0], -held[0], held[0], -held[0]))
    expected = u[block[:, None] != block].mean()
    assert result.statistic == pytest.approx(expected, abs=1e-6 * np.abs(u).mean())


@pytest.mark.slow
def test_a_sample_with_repeats_keeps_its_level(normal_target):
    """A tenth of the draws are copies of others."""
    rng = np.random.default_rng(23)

    def draws():
        x = rng.normal(size=(200, 2))
        return np.concatenate([x, x[:20]])

    options = {"n_resamples": 199, "check_score": False, "rng": rng}
    with pytest.warns(UserWarning, match="repeat others exactly"):
        pvalues = [sc.ksd_test(draws(), normal_target, **options).pvalue for _ in range(100)]
    assert_level(pvalues, (0.05, 0.2))
