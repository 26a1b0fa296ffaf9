import numpy as np
import pytest
from harness import assert_level, assert_uniform, labelled_chains

from steincheck.chains.permutation import agreement


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
    odd = []
    early = []
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
