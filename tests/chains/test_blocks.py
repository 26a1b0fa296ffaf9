import itertools

import numpy as np
import pytest
from harness import assert_level, assert_uniform, labelled_chains

from steincheck.aggregate import collection
from steincheck.chains.blocks import agreement, autocorrelation_time, autocovariance, block_signs, cut_blocks
from steincheck.stein.kernels import IMQ
from steincheck.stein.quadratic import chain_blocks


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
    bandwidths = collection(x, "reference", evenly=True)[::3]  # as in `check`
    tau = chain_blocks(chain, [(x[None], -x[None])], IMQ(), bandwidths).record.autocorrelation_time
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
    assert blocks.record.n_blocks == sum(parts)
    assert blocks.record.effective_sample_size == pytest.approx(sum(lengths) / tau)
    pairs, sizes = np.unique(np.stack([chain, blocks.label]), axis=1, return_counts=True)
    assert pairs[1].tolist() == list(range(blocks.record.n_blocks))  # no block has draws of two chains
    assert np.bincount(pairs[0]).tolist() == parts
    assert all(np.ptp(sizes[pairs[0] == k]) <= 1 for k in range(len(parts)))


def test_too_few_blocks_say_how_much_longer():
    blocks = cut_blocks(50.0, np.repeat(np.arange(4), 250))
    assert not blocks.enough
    assert "draws is about 20 " in blocks.remedy
    longer = cut_blocks(50.0, np.repeat(np.arange(4), int(250 * blocks.times_longer) + 1))
    assert longer.enough
    assert 1.9 < blocks.times_longer < 2.3
    assert 6.5 < cut_blocks(70.0, np.zeros(700, dtype=int)).times_longer < 7.8


def test_many_chains_are_blocks_or_groups_of_chains():
    chain = np.repeat(np.arange(250), 4)
    blocks = cut_blocks(3.0, chain)
    assert blocks.record.n_blocks == 100
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


def stein_features(x):
    return np.concatenate([-x, 1 - x**2], axis=1)


@pytest.mark.slow
def test_agreement_keeps_its_level():
    rng = np.random.default_rng(7)
    pvalues = []
    for k in range(300):
        x, chain = labelled_chains(rng, 4, (250, 400)[k % 2], 3, (0.0, 0.6)[k % 2])
        pvalues.append(agreement(stein_features(x), chain, rng, n_resamples=199).pvalue)
    assert_level(pvalues, exact=True)
    assert_uniform(pvalues)


def test_agreement_sees_an_odd_chain_and_burn_in():
    rng = np.random.default_rng(8)
    odd, early = [], []
    for _ in range(40):
        x, chain = labelled_chains(rng, 4, 250, 5, 0.5)
        found = agreement(stein_features(x + 0.4 * (chain == 2)[:, None]), chain, rng)
        odd.append(found.pvalue <= 0.01 and found.odd_chain == 2 and found.between_pvalue <= 0.01)
        way = rng.normal(size=(4, 5))
        way *= 3 / np.linalg.norm(way, axis=1, keepdims=True)
        time = np.tile(np.arange(250), 4)
        x, _ = labelled_chains(rng, 4, 250, 5, 0.5)
        started = x + way[chain] * np.maximum(0, 1 - time / 25)[:, None]
        found = agreement(stein_features(started), chain, rng)
        early.append(found.pvalue <= 0.01 and found.start_pvalue <= 0.01)
    assert np.mean(odd) > 0.6
    assert np.mean(early) > 0.6


def test_agreement_of_a_single_chain_and_of_many():
    rng = np.random.default_rng(9)
    x, chain = labelled_chains(rng, 1, 2000, 2, 0.5)
    drifting = x + np.linspace(0, 1, 2000)[:, None]
    found = agreement(stein_features(drifting), chain, rng)
    assert found.pvalue <= 0.01
    assert found.chains.n_blocks >= 8
    early = x + 3 * np.maximum(0, 1 - np.arange(2000) / 200)[:, None]
    assert agreement(stein_features(early), chain, rng).start_pvalue <= 0.02
    x, chain = labelled_chains(rng, 30, 100, 2, 0.0)
    assert agreement(stein_features(x + (chain == 4)[:, None]), chain, rng).odd_chain == 4
    x, chain = labelled_chains(rng, 4, 50, 2, 0.99)
    found = agreement(stein_features(x), chain, rng)
    assert "times as long" in found.warnings[0]
    assert np.isnan(found.pvalue)
    assert "cannot tell: the effective sample size" in str(found)


def test_agreement_does_not_depend_on_units_or_constant_features():
    x, chain = labelled_chains(np.random.default_rng(10), 4, 250, 3, 0.3)
    features = stein_features(x)
    scaled = np.concatenate([features * 10.0 ** np.arange(-3, 3), np.ones((1000, 1))], axis=1)
    one = agreement(features, chain, np.random.default_rng(0)).pvalue
    assert agreement(scaled, chain, np.random.default_rng(0)).pvalue == pytest.approx(one, abs=0.01)


@pytest.mark.slow
def test_agreement_keeps_its_level_with_more_features_than_blocks():
    rng = np.random.default_rng(14)
    chain = np.repeat(np.arange(4), 250)
    samples = (rng.normal(size=(1000, 300)) for _ in range(60))
    assert_level([agreement(x, chain, rng, n_resamples=99).pvalue for x in samples], (0.05, 0.2))
