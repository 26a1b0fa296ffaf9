"""Level and power of every test on every built-in model.

Draws are exact, few and in two dimensions, so that all cells share their compiled programs. The sensor
network has eight, and is left to the committed study of many more samples that test_calibration.py guards.
"""

import functools
import warnings

import numpy as np
import pytest
from harness import assert_level, assert_power

import steincheck as sc

N_DRAWS = 100
FEW = {"n_resamples": 99}
AGGREGATED = {"n_resamples": 199, "n_level_resamples": 199}
TESTS = {  # the test, its options, and the number of correct samples of each model
    "ksd": (sc.ksd_test, FEW, 16),
    "ksdagg": (sc.ksdagg_test, AGGREGATED, 12),
    "fssd": (sc.fssd_test, {"n_resamples": 199, "n_locations": 3}, 8),
    "moments": (sc.moment_test, FEW, 10),
    "pksd": (sc.pksd_test, FEW | {"theta": 0.9}, 12),
    "spksd": (sc.spksd_test, FEW | {"theta": [0.9, 1.1]}, 12),
    "ospksd": (sc.ospksd_test, FEW | {"theta": [0.9, 1.1]}, 10),
    "pksdagg": (sc.pksdagg_test, AGGREGATED | {"theta": [0.9, 1.1], "bandwidths": [2.0]}, 10),
    "flux": (sc.flux_test, {}, 24),
    "check": (sc.check, {}, 2),
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
    call, options, _ = TESTS[test]
    target, modes = MODELS[name]
    more = {} if test in WITHOUT_MODES else {"modes": modes}
    more |= {} if test == "flux" else {"check_score": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of far draws
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
    sample = MODELS[name][0].sample
    return [pvalue(test, name, sample(N_DRAWS, rng), rng) for _ in range(TESTS[test][2])]


@pytest.mark.parametrize(("test", "name"), CELLS)
def test_level(test, name):
    assert_level(of_correct_draws(test, name), (0.05, 0.2))


@pytest.mark.parametrize("test", TESTS)
def test_level_over_all_models(test):
    pvalues = [of_correct_draws(*cell) for cell in CELLS if cell[0] == test]
    assert_level(np.concatenate(pvalues), (0.05, 0.2, 0.5))


@pytest.mark.parametrize(("test", "name"), CELLS)
def test_power(test, name):
    rng = np.random.default_rng([99, list(TESTS).index(test), list(MODELS).index(name)])
    assert_power([pvalue(test, name, wrong_draws(test, name, rng), rng)], 1.0)  # near 1 in all cells
