"""Arguments that cannot be meant are refused by their names."""

import numpy as np
import pytest
from harness import standard_normal

import steincheck as sc
from steincheck._validation import as_count, as_generator, check_switch, seeded

MIXTURE = sc.models.gaussian_mixture([[0.0, 0.0], [3.0, 0.0]])
NORMAL = standard_normal(2)
X = np.random.default_rng(0).normal(size=(60, 2))


def test_counts_and_switches():
    assert as_count(np.int32(3), "n") == 3
    assert as_count(0, "n", minimum=0) == 0
    with pytest.raises(ValueError, match="`n` must be a positive integer, got 0"):
        as_count(0, "n")
    with pytest.raises(ValueError, match="`n` must be an integer of at least 2, got 1"):
        as_count(1, "n", minimum=2)
    with pytest.raises(ValueError, match="`n` must be at most 5, got 6"):
        as_count(6, "n", maximum=5)
    check_switch(np.True_, "flag")
    check_switch(None, "flag", optional=True)
    with pytest.raises(TypeError, match="`flag` must be True or False, got None"):
        check_switch(None, "flag")


def test_generators():
    assert as_generator(3).random() == np.random.default_rng(3).random()
    stream = np.random.default_rng(0)
    assert as_generator(stream) is stream
    assert as_generator(None).random() != as_generator(None).random()
    for bad in (-1, 1.5, "seed", True, np.random.RandomState):
        with pytest.raises(TypeError, match="`rng` must be a non-negative int"):
            as_generator(bad)


def test_seed_sequences_are_copied_with_all_they_know():
    sequence = np.random.SeedSequence(7, spawn_key=(2,), pool_size=8, n_children_spawned=3)
    _, recorded = seeded(sequence)
    seeded(recorded)[0].spawn(4)
    assert recorded.state == sequence.state
    assert np.array_equal(recorded.generate_state(4), sequence.generate_state(4))


def test_seeds_and_small_integers_are_taken():
    assert sc.multinomial(5, 3, 0).shape == (3, 5)
    assert sc.wild(5, 3, 0).shape == (3, 5)
    assert sc.ksd_test(X, NORMAL, n_resamples=np.uint8(255), rng=0).null_distribution.shape == (255,)
