"""Arguments that cannot be meant are refused by their names."""

import functools

import numpy as np
import pytest
from harness import normal_log_density, standard_normal

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


def ksd(**options):
    return functools.partial(sc.ksd_test, X, NORMAL, rng=0, **options)


def ksd_of(log_density, score=np.negative):
    return functools.partial(sc.ksd_test, X, sc.Target(log_density, score, dim=2), rng=0)


class NumpyKernel:
    def profile(self, r2):
        return (np.exp(-np.asarray(r2)),) * 3


REFUSED = {
    "from_jax, float()": (lambda: sc.from_jax(lambda x: 0 / float(x[0]), 1), "`log_density`"),
    "from_jax, NumPy": (lambda: sc.from_jax(lambda x: np.sum(np.asarray(x)), 1), "`log_density`"),
    "from_jax, if": (lambda: sc.from_jax(lambda x: 1.0 if x[0] > 0 else 0.0, 1), "`log_density`"),
    "from_jax, no result": (lambda: sc.from_jax(lambda x: None, 1), "`log_density`"),
    "one point instead of all": (ksd_of(lambda x: -0.5 * x @ x), "`log_density` fails .*vectorized=False"),
    "text as log density": (ksd_of(lambda x: normal_log_density(x).astype(str)), "`log_density`"),
    "complex score": (ksd_of(normal_log_density, lambda x: -x + 1j), "`score`"),
    "few draws for moments": (lambda: sc.moment_test(X[:5], NORMAL, rng=0), "at least 20 draws, got 5"),
    "median of NaN": (lambda: sc.median_bandwidth(np.full((5, 1), np.nan)), "`draws`"),
    "read None": (lambda: sc.read_draws(None), "`paths`"),
    "anchors, huge": (
        lambda: sc.flux_test(X, NORMAL, modes=([[-1, 0], [1, 0]], [np.eye(2)] * 2), anchors=2**63, rng=0),
        "`anchors`",
    ),
    "bootstrap NaN": (ksd(bootstrap=lambda n, size, rng: np.full((size, n), np.nan)), "`bootstrap`"),
    "resamples beyond memory": (ksd(n_resamples=2**63), "`n_resamples` must be at most"),
    "steps without end": (
        lambda: sc.pksd_test(X, NORMAL, modes=[[0.0, 0.0]], n_steps=2**31, rng=0), "`n_steps` must be at",
    ),
    "accept above 1": (
        lambda: sc.perturb(X, NORMAL, [[0.0, 0.0]], 1.0, n_steps=1, accept=lambda r: 0 * r + 2), "`accept`",
    ),
    "kernel in NumPy": (ksd(kernel=NumpyKernel()), "`kernel` must have a profile written with jax.numpy"),
    "progress {}": (lambda: sc.check(X, NORMAL, progress={}, rng=0), "`progress`"),
    "barker of a dict": (lambda: sc.barker({}), "`log_ratio`"),
    "three columns of two": (lambda: MIXTURE.score(np.ones((4, 3))), "`x`"),
    "pytree without the key": (lambda: sc.from_jax(lambda p: p["b"], example={"a": 1.0}), "`log_density`"),
    "blocks of text": (
        lambda: sc.samplers.repelling_attracting_metropolis(lambda x: x[0], X[:2], 1.0, 3, blocks="ab"),
        "`blocks`",
    ),
    "text in a mode search": (
        lambda: sc.find_modes(
            sc.Target(lambda x: normal_log_density(x).astype(str), lambda x: -x, dim=2), bounds=(-1, 1), rng=0
        ),
        "`log_density`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_by_the_name_of_the_argument(case):
    call, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_seeds_and_small_integers_are_taken():
    assert sc.multinomial(5, 3, 0).shape == (3, 5)
    assert sc.wild(5, 3, 0).shape == (3, 5)
    assert ksd(n_resamples=np.uint8(255))().null_distribution.shape == (255,)
