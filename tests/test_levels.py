"""Level and power of every test on every built-in model, over samples of exact draws.

The sensor network has eight dimensions and a study of its own, `experiments/calibration.py`.
"""

import functools
import warnings

import numpy as np
import pytest
from harness import assert_level, assert_power, noisy_rbm, standard_normal

import steincheck as sc
from experiments.weights_study import weighted_draws

pytestmark = pytest.mark.slow
N_DRAWS = 100
N_SAMPLES = 60
FEW = {"n_resamples": 99}
AGGREGATED = {"n_resamples": 199, "n_level_resamples": 199}
JUMPS = {"theta": [0.9, 1.1]}
TESTS = {
    "ksd": (sc.ksd_test, FEW),
    "ksdagg": (sc.ksdagg_test, AGGREGATED),
    "fssd": (sc.fssd_test, {"n_resamples": 199, "n_locations": 3}),
    "moments": (sc.moment_test, FEW),
    "pksd": (sc.pksd_test, FEW | {"theta": 0.9}),
    "spksd": (sc.spksd_test, FEW | JUMPS),
    "ospksd": (sc.ospksd_test, FEW | JUMPS),
    "pksdagg": (sc.pksdagg_test, AGGREGATED | JUMPS | {"bandwidths": [2.0]}),
    "flux": (sc.flux_test, {}),
    "check": (sc.check, {}),
}
WITHOUT_MODES = ("ksd", "ksdagg", "fssd")
OF_WEIGHTS = ("pksd", "spksd", "ospksd", "pksdagg", "flux")  # they need two modes
TWO = [[-3.0, 0.0], [3.0, 1.0]]
MODELS = {  # the target and its modes
    "Gaussian": (sc.models.gaussian_mixture([[0.0, 0.0]], [[1.0, 0.5], [0.5, 2.0]]), [[0.0, 0.0]]),
    "Gaussian mixture": (
        sc.models.gaussian_mixture(TWO, [np.eye(2), [[0.5, 0.2], [0.2, 1.5]]], [0.4, 0.6]),
        TWO,
    ),
    "t-banana mixture": (
        sc.models.t_banana_mixture(2, n_t=1, n_banana=1, box=6.0, rng=3),
        [[-4.97221, -3.15827], [3.61529, 1.24673]],
    ),
    "Boltzmann machine": (sc.models.gb_rbm([[6.0], [0.0]], c=[0.2]), [[-3.0, 0.0], [3.0, 0.0]]),
}
CELLS = [(test, name) for test in TESTS for name in MODELS if test not in OF_WEIGHTS or name != "Gaussian"]


def pvalue(test, name, draws, rng):
    call, options = TESTS[test]
    target, modes = MODELS[name]
    more = {} if test in WITHOUT_MODES else {"modes": modes}
    with warnings.catch_warnings(action="ignore"):  # of far draws
        return call(draws, target, rng=rng, **options, **more).pvalue


def wrong_draws(test, name, rng):
    """Nine in ten draws at one mode for the tests of weights, shifted draws for the others."""
    target = MODELS[name][0]
    if test not in OF_WEIGHTS:
        return target.sample(2 * N_DRAWS, rng) + 0.7
    x, label = target.sample_with_labels(6000, rng)
    first = label.reshape(len(x)) == label.min()
    return rng.permutation(np.concatenate([x[first][:1350], x[~first][:150]]))


@functools.cache
def of_correct_draws(test, name):
    rng = np.random.default_rng([list(TESTS).index(test), list(MODELS).index(name)])
    return [pvalue(test, name, MODELS[name][0].sample(N_DRAWS, rng), rng) for _ in range(N_SAMPLES)]


@pytest.mark.parametrize(("test", "name"), CELLS)
def test_level(test, name):
    assert_level(of_correct_draws(test, name), (0.05, 0.2))


@pytest.mark.parametrize("test", TESTS)
def test_level_over_all_models(test):
    """Holm's method makes `check` conservative; the others reject as often as the level says."""
    pvalues = [of_correct_draws(*cell) for cell in CELLS if cell[0] == test]
    assert_level(np.concatenate(pvalues), (0.05, 0.2, 0.5), exact=test != "check")


@pytest.mark.parametrize(("test", "name"), CELLS)
def test_power(test, name):
    rng = np.random.default_rng([99, list(TESTS).index(test), list(MODELS).index(name)])
    assert_power([pvalue(test, name, wrong_draws(test, name, rng), rng) for _ in range(3)], 1.0)


@pytest.mark.parametrize("test", ["ksdagg", "fssd"])
def test_boltzmann_machine_of_the_paper(test):
    """d = 50, 10 hidden units: the level without noise, power with little of it at n = 1000."""
    rng = np.random.default_rng(8)
    call, options = {"ksdagg": (sc.ksdagg_test, AGGREGATED), "fssd": (sc.fssd_test, {})}[test]

    def pvalues(noise, n, repetitions):
        problems = (noisy_rbm(noise, n, rng, 50, 10) for _ in range(repetitions))
        return [call(x, target, check_score=False, rng=rng, **options).pvalue for target, x in problems]

    assert_level(pvalues(0.0, 500, 60), (0.05, 0.2))
    assert_power(pvalues(0.05, 1000, 20), 0.85)


def weighted_pvalue(test, draws, rng, **options):
    call, sizes = TESTS[test]
    dim = draws.shape[1]
    if test == "moments":
        options["modes"] = np.zeros((1, dim))
    with warnings.catch_warnings(action="ignore"):  # of far draws
        return call(draws, standard_normal(dim), check_score=False, rng=rng, **sizes, **options).pvalue


@pytest.mark.parametrize(
    ("test", "kind"),
    [(test, kind) for test in WITHOUT_MODES for kind in ("wide", "t5")] + [("moments", "wide")],
)
def test_level_of_importance_samples(test, kind):
    """Half of them in one dimension, half in five."""
    rng = np.random.default_rng([600, list(TESTS).index(test)])
    pvalues = []
    for dim in [1, 5] * N_SAMPLES:
        x, log_weights = weighted_draws(1, dim, kind, "", 250, rng)
        pvalues.append(weighted_pvalue(test, x, rng, log_weights=log_weights))
    assert_level(pvalues, (0.05, 0.2))


@pytest.mark.filterwarnings("ignore:.*repeat others exactly")
@pytest.mark.parametrize("test", WITHOUT_MODES)
def test_level_of_draws_resampled_by_their_weights(test):
    """500 of 500 with replacement: identical draws are one block."""
    rng = np.random.default_rng([700, list(TESTS).index(test)])
    pvalues = []
    for _ in range(100):
        x, log_weights = weighted_draws(1, 2, "wide", "", 500, rng)
        weights = np.exp(log_weights)
        again = x[rng.choice(500, size=500, p=weights / weights.sum())]
        pvalues.append(weighted_pvalue(test, again, rng, independent=True))
    assert_level(pvalues, (0.05, 0.2))


@pytest.mark.parametrize("test", WITHOUT_MODES)
def test_power_against_wrong_weights(test):
    """Weights of a normal with one mean off by a third."""
    rng = np.random.default_rng([800, list(TESTS).index(test)])
    pvalues = []
    for _ in range(5):
        x, log_weights = weighted_draws(1, 2, "wide", "", 1000, rng)
        pvalues.append(weighted_pvalue(test, x, rng, log_weights=log_weights + 0.35 * x[:, 0]))
    assert_power(pvalues, 0.8)
