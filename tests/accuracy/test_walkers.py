"""The metric is that of the density, whatever the draws; windows are frozen and counted."""

import numpy as np
import pytest
from harness import gaussian

from steincheck.accuracy.walkers import estimate_metric, move, start_ensembles
from steincheck.chains.reading import Sample
from steincheck.result import Modes
from steincheck.target.evaluation import Budget, CountedTarget, OutOfBudget

RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(4, 4)) + 2 * np.eye(4)
COVARIANCE = ROOT @ ROOT.T
PRECISION = np.linalg.inv(COVARIANCE)
TARGET = gaussian(COVARIANCE)


def ensemble(limit=None, m=40):
    modes = Modes(np.zeros((1, 4)), COVARIANCE[None], np.zeros(1))
    x = np.random.default_rng(1).normal(size=(m, 4))
    sample = Sample(x, TARGET.log_density(x), scores=TARGET.score(x))
    density = CountedTarget(TARGET, Budget() if limit is None else Budget(limit))
    return start_ensembles(sample, density, modes, np.random.default_rng(2))[0], density


def test_the_metric_of_a_gaussian_is_its_covariance_for_wrong_draws():
    x = np.random.default_rng(3).normal(size=(100_000, 4)) * [1.0, 5.0, 0.2, 3.0]
    np.testing.assert_allclose(estimate_metric(x, -x @ PRECISION), COVARIANCE, rtol=0.01, atol=0.01)


def test_passes_keep_strong_correlations():
    d = 30
    covariance = 0.999 + 0.001 * np.eye(d)
    x = np.random.default_rng(4).multivariate_normal(np.zeros(d), covariance, size=1000)
    scores = -np.linalg.solve(covariance, x.T).T

    def condition(passes):
        values = np.linalg.eigvals(np.linalg.solve(covariance, estimate_metric(x, scores, passes))).real
        return values.max() / values.min()

    assert condition(1) > 3 * condition(3)
    assert condition(3) < 3


def test_walkers_find_step_and_metric():
    one = move(*ensemble(), 10)
    assert 0.3 < one.step < 3
    assert 0.5 < one.acceptance <= 1
    assert one.states.x.shape == (400, 4)
    np.testing.assert_allclose(one.states.score, TARGET.score(one.states.x))
    ratio = np.linalg.eigvals(PRECISION @ one.metric).real
    assert ratio.max() / ratio.min() < 10


def test_evaluations_are_counted_and_obey_the_limit():
    _, density = ensemble()
    assert density.budget.made > 40 * 10
    with pytest.raises(OutOfBudget):
        ensemble(limit=1000)
