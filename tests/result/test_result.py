"""Results of tests: smallest p-values, answers, how they are printed, that they survive pickling."""

import json
import pickle

import numpy as np
import pytest
from harness import jax_normal

import steincheck as sc


def test_the_smallest_possible_pvalue_is_an_upper_bound():
    found = sc.ksd_test(
        np.random.default_rng(0).normal(size=(100, 2)) + 2, jax_normal(), n_resamples=99, rng=0
    )
    assert "(p <= 0.01, " in str(found)
    assert found.at_floor
    assert not sc.ksd_test(
        np.random.default_rng(0).normal(size=(100, 2)), jax_normal(), n_resamples=99, rng=0
    ).at_floor


def test_no_rejection_at_a_level_out_of_reach_is_no_answer():
    found = sc.ksd_test(np.random.default_rng(0).normal(size=(100, 2)), jax_normal(), n_resamples=199, rng=0)
    assert not found.inconclusive(0.005)
    assert found.inconclusive(0.001)
    assert "The smallest attainable p-value is 0.005" in found.describe(0.001)


def test_the_smallest_pvalue_of_replicates_is_exact_where_they_have_a_part_of_the_level():
    shifted = sc.moment_test(
        np.random.default_rng(0).normal(size=(200, 2)) + 1,
        jax_normal(),
        modes=[[0.0, 0.0]],
        n_resamples=99,
        rng=0,
    )
    assert shifted.pvalue == pytest.approx(0.01, rel=1e-12)
    assert shifted.at_floor
    means = [[-4.0], [4.0], [14.0]]
    mixture = sc.models.gaussian_mixture(means, weights=[0.5, 0.499, 0.001])
    wrong = mixture.sample(200, 0, weights=[0.8, 0.2, 0.0])
    exact = sc.flux_test(wrong, mixture, modes=means, variant="exact", n_resamples=99, rng=0)
    assert exact.pvalue == pytest.approx(0.01, rel=1e-12)
    assert exact.at_floor


def test_records_are_printed_in_one_short_line():
    target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    draws = sc.as_draws({"a": target.sample(200, 0)[:, 0], "b": target.sample(200, 0)[:, 1]})
    assert repr(draws) == "<Draws: 200 draws, d = 2, names: a, b>"
    assert repr(sc.as_draws(np.zeros((2, 5, 1)))) == "<Draws: 2 x 5 draws, d = 1>"
    moved = sc.perturb(target.sample(200, 0), target, [[-3.0, 0.0], [3.0, 0.0]], 0.8, n_steps=5, rng=0)
    start = "<Perturbation: 200 draws, d = 2, theta = 0.8"
    assert repr(moved) == f"{start}, 5 steps by metropolis between 2 modes>"
    assert repr(moved.modes) == "<Modes: 2 in 2 dimensions, the highest at (-3, 0)>"
    none = sc.Modes(np.empty((0, 1)), np.empty((0, 1, 1)), np.empty(0))
    assert repr(none) == "<Modes: 0 in 1 dimension>"
    result = sc.spksd_test(target.sample(200, 0), target, perturbation=moved, n_resamples=99, rng=0)
    text = repr(result)
    assert text.startswith("<SpksdResult: no misfit found at level 0.05 (p = ")
    assert text.endswith(", n = 200, d = 2)>")


@pytest.mark.parametrize(
    "name", [name for name in sc.result.__all__ if name.endswith("Result") and name != "Result"]
)
def test_every_result_of_a_test_is_printed_in_short(name):
    kind = getattr(sc.result, name)
    assert not issubclass(kind, sc.GofResult) or kind.__repr__ is sc.GofResult.__repr__


def test_results_verdicts_and_modes_pickle():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    draws = target.sample(150, 0)
    verdict = sc.check(draws, target, modes=[[-3.0], [3.0]], rng=0)
    again = pickle.loads(pickle.dumps(verdict))
    assert str(again) == str(verdict)
    assert json.loads(again.to_json()) == json.loads(verdict.to_json())
    assert np.array_equal(pickle.loads(pickle.dumps(verdict.modes)).locations, verdict.modes.locations)
    for result in verdict.tests.values():
        assert pickle.loads(pickle.dumps(result)).pvalue == result.pvalue
