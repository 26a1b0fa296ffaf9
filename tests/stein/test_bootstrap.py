import numpy as np
import pytest

from steincheck.stein.bootstrap import multinomial, normaliser, pvalue, random_blocks, wild


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


def test_normaliser():
    rng = np.random.default_rng(0)
    assert normaliser(multinomial(10, 50, rng)) == 100
    assert normaliser(wild(10, 50, rng)) == 90


def test_pvalue_counts_ties_and_is_never_zero():
    null = np.array([1.0, 2.0, 2.0, 3.0])
    assert pvalue(2.0, null) == pytest.approx(4 / 5)
    assert pvalue(10.0, null) == pytest.approx(1 / 5)
    assert pvalue(-1.0, null) == 1.0


def test_random_blocks_are_of_equal_size_and_keep_identical_draws_together():
    rng = np.random.default_rng(2)
    sizes = np.bincount(random_blocks(1234, rng))
    assert len(sizes) == 100
    assert set(sizes) == {12, 13}
    assert np.array_equal(np.sort(random_blocks(30, rng)), np.arange(30))
    identity = np.repeat(np.arange(300), 3)
    block = random_blocks(900, rng, identity=identity)
    assert np.array_equal(block[::3], block[1::3])
    assert np.array_equal(block[::3], block[2::3])
    assert len(np.bincount(block)) == 100
