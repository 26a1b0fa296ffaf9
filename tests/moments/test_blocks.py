"""Blocks of draws that are resampled."""

import numpy as np
import pytest
from harness import ar1_chains, assert_level, assert_power, gaussian_with_modes

from steincheck.chains.blocks import cut_blocks
from steincheck.modes.arguments import as_modes
from steincheck.moments.blocks import blocks_of_chains, resampled_blocks
from steincheck.moments.columns import user_parameters
from steincheck.moments.core import moment_core


def test_many_independent_draws_are_grouped_at_random():
    found = resampled_blocks(9000, None, np.random.default_rng(0))
    lengths = np.bincount(found.label)
    assert (len(lengths), lengths[:-1].min(), lengths.max()) == (1125, 8, 8)
    first = np.flatnonzero(found.label == 0)
    assert np.ptp(first) > 1000  # not neighbours
    assert not found.halves
    np.testing.assert_array_equal(resampled_blocks(2000, None, None).label, np.arange(2000))


def test_blocks_of_chains_are_halved():
    blocks = cut_blocks(2.0, np.repeat(np.arange(2), 200))
    found = resampled_blocks(400, blocks, np.random.default_rng(0))
    assert found.halves
    np.testing.assert_array_equal(found.label // 2, blocks.label)
    assert (np.diff(found.label) >= 0).all()
    lengths = np.bincount(found.label)
    assert np.abs(lengths[::2] - lengths[1::2]).max() <= 1


def test_the_slowest_coordinate_sets_the_length_of_blocks():
    rng = np.random.default_rng(1)
    fast = ar1_chains(rng, 4, 1000, 9, 0.0).reshape(-1, 9)
    slow = ar1_chains(rng, 4, 1000, 1, 0.9).reshape(-1, 1)
    target, modes = gaussian_with_modes(np.eye(10))
    known = as_modes(modes, target)
    chain = np.repeat(np.arange(4), 1000)
    mixed = np.concatenate([fast, slow], axis=1)
    assert blocks_of_chains(mixed, -mixed, known, chain).autocorrelation_time > 10
    assert blocks_of_chains(mixed, -mixed, known, None) is None


@pytest.mark.slow
def test_level_with_blocks_of_dependent_draws():
    """AR(1) chains with correlation 0.9, 20 blocks; without blocks nearly all are rejected."""
    rng = np.random.default_rng(2)
    target, modes = gaussian_with_modes(np.eye(3))
    known = as_modes(modes, target)
    pvalues = {"blocks": [], "none": []}
    for _ in range(60):
        x = ar1_chains(rng, 4, 500, 3, 0.9).reshape(-1, 3)
        cut = cut_blocks(10.0, np.repeat(np.arange(4), 500))
        for name, blocks in (("blocks", cut), ("none", None)):
            result = moment_core(
                x, -x, known, user_parameters(target), blocks=blocks, n_resamples=99, rng=rng.spawn(1)[0]
            )
            pvalues[name].append(result.pvalue)
    assert_level(pvalues["blocks"])
    assert_power(pvalues["none"], 0.52)
