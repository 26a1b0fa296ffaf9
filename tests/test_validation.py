"""Arguments that cannot be meant are refused by their names."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from harness import jax_normal, normal_log_density, quiet_check, standard_normal

import steincheck as sc
from steincheck._validation import as_count, as_generator, check_switch, seeded

MIXTURE = sc.models.gaussian_mixture([[0.0, 0.0], [3.0, 0.0]])
NORMAL = standard_normal(2)
X = np.random.default_rng(0).normal(size=(60, 2))
HUGE = 10**400
TOO_LARGE = {
    "bounds": lambda huge: sc.find_modes(jax_normal(), bounds=(-huge, huge), rng=0),
    "starts": lambda huge: sc.find_modes(jax_normal(), starts=[[huge, 0.5]], rng=0),
    "max_seconds": lambda huge: sc.find_modes(jax_normal(), max_seconds=huge, rng=0),
    "modes": lambda huge: quiet_check(X, jax_normal(), modes=[[huge, 0]]),
    "alpha": lambda huge: quiet_check(X, jax_normal(), alpha=huge),
    "theta": lambda huge: sc.perturb(X, jax_normal(), [[0.0, 0.0]], [huge], n_steps=2, rng=0),
    "precondition": lambda huge: sc.ksd_test(X, jax_normal(), precondition=[[huge, 0], [0, 1]]),
    "bandwidth": lambda huge: sc.IMQ(huge),
    "beta": lambda huge: sc.IMQ(beta=huge),
    "draws": lambda huge: sc.as_draws([[huge, 0.5], [1, 2]]),
}


@pytest.mark.parametrize("argument", TOO_LARGE)
def test_integers_that_no_float_can_hold_are_refused_by_name(argument):
    with pytest.raises(ValueError, match=f"`{argument}` must .*got "):
        TOO_LARGE[argument](HUGE)


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
    "from_jax, integer": (lambda: sc.from_jax(lambda x: jnp.argmax(x), 2), "`log_density`"),
    "from_jax, shapes": (lambda: sc.from_jax(lambda x: x @ jnp.ones((7, 7)) @ x, 2), "`log_density`"),
    "from_jax, huge dim": (lambda: sc.from_jax(lambda x: x[0], 2**63), "`dim`"),
    "one point instead of all": (ksd_of(lambda x: -0.5 * x @ x), "`log_density` fails, .* with all 60"),
    "complex log density": (ksd_of(lambda x: normal_log_density(x) + 1j), "`log_density`"),
    "text as log density": (ksd_of(lambda x: normal_log_density(x).astype(str)), "`log_density`"),
    "masked log density": (ksd_of(lambda x: np.ma.masked_less(normal_log_density(x), -1)), "`log_density`"),
    "dates as log density": (ksd_of(lambda x: np.full(len(x), np.datetime64("2026-01-01"))), "`log_density`"),
    "complex score": (ksd_of(normal_log_density, lambda x: -x + 1j), "`score`"),
    "median of NaN": (lambda: sc.median_bandwidth(np.full((5, 1), np.nan)), "`draws`"),
    "median of text": (lambda: sc.median_bandwidth("a"), "`draws`"),
    "median of huge": (lambda: sc.median_bandwidth(1e300 * X), "`draws`"),
    "read None": (lambda: sc.read_draws(None), "`paths`"),
    "read numbers": (lambda: sc.read_draws([1, 2]), "`paths`"),
    "anchors of nothing": (lambda: sc.local_anchors(None, [[0.0]]), "`target`"),
    "anchors, huge": (
        lambda: sc.flux_test(X, NORMAL, modes=([[-1, 0], [1, 0]], [np.eye(2)] * 2), anchors=2**63, rng=0),
        "`anchors`",
    ),
    "precondition NaN": (ksd(precondition=np.full((2, 2), np.nan)), "`precondition` must be finite"),
    "bootstrap NaN": (ksd(bootstrap=lambda n, size, rng: np.full((size, n), np.nan)), "`bootstrap`"),
    "bootstrap without arguments": (ksd(bootstrap=lambda: None), "`bootstrap`"),
    "resamples beyond memory": (ksd(n_resamples=2**63), "`n_resamples` must be at most"),
    "resamples with 400 digits": (ksd(n_resamples=HUGE), "`n_resamples`"),
    "resamples for the memory": (ksd(n_resamples=True), "`n_resamples`"),
    "steps without end": (
        lambda: sc.pksd_test(X, NORMAL, modes=[[0.0, 0.0]], n_steps=2**31, rng=0), "`n_steps` must be at",
    ),
    "accept above 1": (
        lambda: sc.perturb(X, NORMAL, [[0.0, 0.0]], 1.0, n_steps=1, accept=lambda r: 0 * r + 2), "`accept`",
    ),
    "kernel in NumPy": (ksd(kernel=NumpyKernel()), "`kernel` must have a profile written with jax.numpy"),
    "bandwidth with 400 digits": (lambda: sc.RBF(bandwidth=HUGE), "`bandwidth`"),
    "check_score NaN": (ksd(check_score=float("nan")), "`check_score`"),
    "progress {}": (lambda: sc.check(X, NORMAL, progress={}, rng=0), "`progress`"),
    "independent 2": (lambda: sc.check(X, NORMAL, independent=2, rng=0), "`independent`"),
    "thorough no": (lambda: sc.find_modes(NORMAL, thorough="no", rng=0), "`thorough`"),
    "n_jobs banana": (lambda: sc.calibrate(NORMAL, None, 9, n_jobs="banana"), "`sample`|`n_jobs`"),
    "no jobs": (lambda: sc.calibrate(NORMAL, lambda n, rng: X[:n], 9, n_jobs=0), "`n_jobs`"),
    "test without p-value": (
        lambda: sc.calibrate(NORMAL, lambda n, rng: X[:n], 9, test=lambda d, t, rng: None), "`test`",
    ),
    "multinomial, no seed": (lambda: sc.multinomial(5, 3, "seed"), "`rng`"),
    "wild, huge": (lambda: sc.wild(5, HUGE, 0), "`size`"),
    "barker of a dict": (lambda: sc.barker({}), "`log_ratio`"),
    "metropolis of None": (lambda: sc.metropolis(None), "`log_ratio`"),
    "check_score, points": (lambda: sc.check_score(NORMAL, X, n_points=float("nan")), "`n_points`"),
    "check_score, tolerance": (lambda: sc.check_score(NORMAL, X, rtol="a"), "`rtol`"),
    "t_banana, df": (lambda: sc.models.t_banana_mixture(2, df={}), "`df`"),
    "t_banana, parts": (lambda: sc.models.t_banana_mixture(2, n_t=[3]), "`n_t`"),
    "gb_rbm of text": (lambda: sc.models.gb_rbm("banana"), "`B`"),
    "chain from text": (
        lambda: sc.samplers.repelling_attracting_metropolis(lambda x: x[0], "a", 1.0, 3), "`x0`",
    ),
    "names twice": (lambda: sc.as_draws(X, names=["a", "a"]), "`names`"),
    "rows of text": (lambda: sc.as_draws(X).take("a"), "`rows`"),
    "rows that are not there": (lambda: sc.as_draws(X).take([100]), "`rows`"),
    "labels of no draws": (lambda: MIXTURE.sample_with_labels(0, 0), "`n`"),
    "three columns of two": (lambda: MIXTURE.score(np.ones((4, 3))), "`x`"),
    "complex points": (lambda: MIXTURE.log_density(1j * X), "`x`"),
    "pytree of text": (lambda: sc.from_jax_pytree(lambda p: p["a"], {"a": "x"}), "`example`"),
    "pytree without the key": (lambda: sc.from_jax_pytree(lambda p: p["b"], {"a": 1.0}), "`log_density`"),
    "blocks of text": (
        lambda: sc.samplers.repelling_attracting_metropolis(lambda x: x[0], X[:2], 1.0, 3, blocks="ab"),
        "`blocks`",
    ),
    "one scale of two": (lambda: sc.plot.witness(X, NORMAL, scales=[1.0], rng=0), "`scales`"),
    "a coordinate twice": (lambda: sc.plot.pairs(X, coordinates=[0, 1, 0]), "`coordinates`"),
    "text in a mode search": (
        lambda: sc.find_modes(
            sc.Target(lambda x: normal_log_density(x).astype(str), lambda x: -x, dim=2), bounds=(-1, 1), rng=0
        ),
        "`log_density`",
    ),
    "variables of a class": (lambda: sc.as_draws({"a": X[:, 0]}, var_names=object), "`var_names`"),
    "names of a plot": (lambda: sc.plot.pairs(X, NORMAL, names="ab"), "`names`"),
    "plot of nothing": (lambda: sc.plot.null_distribution(None), "`result`"),
    "plot of a dict": (lambda: sc.plot.mode_shares({}), "`table`"),
    "plot on a word": (lambda: sc.plot.draws(X, ax="banana"), "`ax`"),
    "plot of coordinate 1.5": (lambda: sc.plot.draws(X, coordinates=1.5), "`coordinates`"),
    "report without verdict": (lambda: sc.report.write_html("a.html", None, X), "`verdict`"),
    "report nowhere": (lambda: sc.report.write_html(None, None, X), "`verdict`"),
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


def test_a_log_density_that_writes_to_its_argument_is_told_so():
    def spoil(x):
        x += 1
        return normal_log_density(x)

    before = X.copy()
    with pytest.raises(ValueError, match="`log_density` fails, it must not write to its argument"):
        ksd_of(spoil)()
    assert np.array_equal(X, before)


def test_rows_that_are_taken_ascend():
    draws = sc.Draws(np.arange(6.0).reshape(3, 2), chain=np.zeros(3, dtype=int))
    assert draws.take([0, 2]).values.tolist() == [[0.0, 1.0], [4.0, 5.0]]
    for rows in ([2, 0], [1, 1]):
        with pytest.raises(ValueError, match="`rows` must ascend, each row at most once"):
            draws.take(rows)


def test_matrices_that_are_symmetric_but_for_rounding_are_taken():
    """Off-diagonal entries that are 0 but for rounding differ by far more than their own size."""
    rounded = np.array([[1.0, 1e-18], [3e-18, 1.0]])
    target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]], rounded)
    draws = target.sample(60, 0)
    exact = sc.ksd_test(draws, target, precondition=np.eye(2), rng=0)
    assert sc.ksd_test(draws, target, precondition=rounded, rng=0).pvalue == exact.pvalue
    locations = np.array([[-3.0, 0.0], [3.0, 0.0]])
    anchors = sc.Anchors([0, 1], locations, [rounded] * 2, [0.0, 0.0])
    found = sc.flux_test(draws, target, modes=(locations, [rounded] * 2), anchors=anchors, rng=0)
    assert found.pvalue == sc.flux_test(draws, target, modes=locations, anchors=1, rng=0).pvalue
    with pytest.raises(
        ValueError, match=r"`precondition` must be symmetric, got 0.5 at row 0, column 1 and 0 "
    ):
        sc.ksd_test(draws, target, precondition=[[1.0, 0.5], [0.0, 1.0]], rng=0)
    with pytest.raises(ValueError, match="`anchors` must have symmetric, positive definite covariances"):
        sc.Anchors([0, 1], locations, [[[1.0, 0.5], [0.0, 1.0]]] * 2, [0.0, 0.0])
