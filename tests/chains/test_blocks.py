import itertools

import numpy as np
import pytest
from harness import assert_level, assert_power, labelled_chains

from steincheck._series import lagged_products
from steincheck.aggregate import collection
from steincheck.chains.blocks import autocorrelation_time, autocovariance, block_signs, block_sums, cut_blocks
from steincheck.stein.kernels import IMQ
from steincheck.stein.resampling import chain_blocks


def test_autocovariance_by_its_definition():
    rng = np.random.default_rng(0)
    h = rng.normal(size=60).cumsum()
    chain = np.repeat([0, 1, 2], [30, 20, 10])
    parts = np.split(h - h.mean(), [30, 50])
    direct = [sum(np.sum(part[: len(part) - k] * part[k:]) for part in parts) / 60 for k in range(10)]
    np.testing.assert_allclose(autocovariance(h, chain)[:10], direct, rtol=1e-10)
    assert len(autocovariance(h, chain)) == 30
    np.testing.assert_allclose(autocovariance(h)[0], h.var())


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_autocorrelation_time_of_ar1(rho):
    x, chain = labelled_chains(np.random.default_rng(1), 4, 50_000, 1, rho)
    truth = max(1.0, (1 + rho) / (1 - rho))
    assert autocorrelation_time(x[:, 0], chain) == pytest.approx(truth, rel=0.1)


def test_chains_that_disagree_count_as_slow():
    x, chain = labelled_chains(np.random.default_rng(2), 4, 500, 2, 0.0)
    x[chain == 0, 1] += 2.0
    times = autocorrelation_time(x, chain)
    assert times[0] < 1.5
    assert times[1] > 50
    assert autocorrelation_time(np.ones(100)) == 1.0


@pytest.mark.parametrize(("chains", "length"), [(1, 1000), (4, 15_000)])
def test_the_autocorrelation_time_of_long_chains_does_not_grow_with_their_length(chains, length):
    """Beyond 4000 evenly spaced draws it was at least their spacing: 15 for these of 60,000 draws."""
    x, chain = labelled_chains(np.random.default_rng(0), chains, length, 1, 7 / 9)
    bandwidths = collection(x, None, evenly=True)[::3]  # as in `check`
    tau = chain_blocks(chain, None, [(x[None], -x[None])], IMQ(), bandwidths).autocorrelation_time
    assert 0.6 * 8 < tau < 1.5 * 8


@pytest.mark.parametrize(
    ("lengths", "tau", "parts"),
    [
        ([250] * 4, 1.0, [5] * 4),
        ([250] * 4, 9.0, [3] * 4),
        ([1000] * 4, 60.0, [2] * 4),
        ([4000], 18.0, [20]),
        ([4000], 57.0, [8]),
        ([300, 100], 1.0, [15, 5]),
        ([250] * 12, 1.0, [1] * 12),
        ([25] * 40, 11.0, [1] * 40),
    ],
)
def test_blocks(lengths, tau, parts):
    chain = np.repeat(np.arange(len(lengths)), lengths)
    blocks = cut_blocks(tau, chain)
    assert blocks.enough
    assert blocks.remedy == ""
    assert blocks.n_blocks == sum(parts)
    assert blocks.effective_sample_size == pytest.approx(sum(lengths) / tau)
    assert np.all(np.diff(blocks.label) >= 0)
    owners = [np.unique(chain[blocks.label == block]) for block in range(blocks.n_blocks)]
    assert [len(owner) for owner in owners] == [1] * blocks.n_blocks
    assert np.bincount(np.concatenate(owners)).tolist() == parts
    sizes = np.bincount(blocks.label)
    for k, part in enumerate(parts):
        own = sizes[[owner[0] == k for owner in owners]]
        assert own.max() - own.min() <= 1
        assert own.max() <= lengths[k] / part + 1


def test_too_few_blocks_say_how_much_longer():
    blocks = cut_blocks(50.0, np.repeat(np.arange(4), 250))
    assert not blocks.enough
    assert "draws is about 20 " in blocks.remedy
    longer = cut_blocks(50.0, np.repeat(np.arange(4), int(250 * blocks.times_longer) + 1))
    assert longer.enough
    assert 1.9 < blocks.times_longer < 2.3
    assert 6.5 < cut_blocks(70.0, np.zeros(700, dtype=int)).times_longer < 7.8
    assert "run the chain about" in cut_blocks(70.0, np.zeros(700, dtype=int)).remedy
    assert cut_blocks(1.0, np.repeat([0, 1], [1000, 1000])).enough


def test_many_chains_are_blocks_or_groups_of_chains():
    chain = np.repeat(np.arange(250), 4)
    blocks = cut_blocks(3.0, chain)
    assert blocks.n_blocks == 100
    assert all(len(np.unique(blocks.label[chain == k])) == 1 for k in range(250))


def test_signs_of_few_blocks_are_all_patterns():
    signs = block_signs(8, 5, np.random.default_rng(0))
    assert signs.shape == (127, 8)
    every = {tuple(row) for row in signs} | {tuple(-row) for row in signs} | {(1,) * 8, (-1,) * 8}
    assert every == set(itertools.product((1, -1), repeat=8))
    assert block_signs(11, 5, np.random.default_rng(0)).shape == (1023, 11)
    many = block_signs(12, 5000, np.random.default_rng(0))
    assert many.shape == (5000, 12)
    assert np.abs(many.mean(axis=0)).max() < 6 / np.sqrt(5000)
    assert set(np.unique(many)) == {-1, 1}


@pytest.mark.slow
def test_block_signs_keep_the_level_of_a_mean_where_signs_per_draw_do_not():
    rng = np.random.default_rng(3)
    by_block, by_draw = [], []
    for _ in range(300):
        x, chain = labelled_chains(rng, 4, 250, 1, 0.5)
        h = x[:, 0]
        blocks = cut_blocks(autocorrelation_time(h, chain), chain)
        sums = block_sums(h, blocks.label)
        null = np.abs(block_signs(blocks.n_blocks, 499, rng) @ sums)
        alone = np.abs((2.0 * rng.integers(2, size=(499, len(h))) - 1) @ h)
        total = abs(sums.sum())
        by_block.append((1 + np.sum(null >= total)) / 500)
        by_draw.append((1 + np.sum(alone >= total)) / 500)
    assert_level(by_block, exact=True)
    assert_power(by_draw, 0.2)


def test_lagged_products_are_those_of_sums():
    x = np.random.default_rng(4).normal(size=(3, 8))
    expected = sum(np.correlate(row, row, mode="full")[7:] for row in x)
    np.testing.assert_allclose(lagged_products(x), expected, rtol=1e-12, atol=1e-12)
