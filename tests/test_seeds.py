"""Every test can be run again from what its result records of the random source."""

import functools

import numpy as np
import pytest

import steincheck as sc

DOORS = {
    "ksd": functools.partial(sc.ksd_test, n_resamples=99),
    "fssd": functools.partial(sc.fssd_test, n_resamples=99),
    "moments": functools.partial(sc.moment_test, modes=[[-3.0], [3.0]]),
    "flux": sc.flux_test,
    "check": functools.partial(sc.check, modes=[[-3.0], [3.0]]),
}


@pytest.mark.parametrize("name", DOORS)
def test_every_door_takes_a_seed_sequence_and_leaves_it_as_it_was(name):
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    draws = target.sample(120, 0)
    sequence = np.random.SeedSequence(7, spawn_key=(2,), pool_size=8)
    first = DOORS[name](draws, target, rng=sequence)
    assert sequence.n_children_spawned == 0
    assert DOORS[name](draws, target, rng=sequence).pvalue == first.pvalue


@pytest.mark.parametrize("name", [name for name in DOORS if name != "flux"])
def test_ten_seeds_say_the_same_of_the_same_draws(name):
    """Correct draws, and the same shifted by one standard deviation: no seed may change the answer."""
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    draws = target.sample(300, 0)
    wrong = draws + 1.0
    answers = [
        (DOORS[name](draws, target, rng=k).pvalue, DOORS[name](wrong, target, rng=k).pvalue)
        for k in range(10)
    ]
    assert min(right for right, _ in answers) > 0.05
    assert max(misfit for _, misfit in answers) <= 0.05
