import numpy as np
import pytest

import steincheck as sc
from steincheck.stein.inputs import split_rows


def test_chains_are_split_at_the_same_share_of_each():
    chain = np.repeat([0, 1], [10, 20])
    train, test = split_rows(30, 0.5, np.random.default_rng(0), chain)
    assert train.tolist() == [*range(5), *range(10, 20)]
    assert test.tolist() == [*range(5, 10), *range(20, 30)]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"draws": np.zeros((5, 3))}, ValueError, "`draws` must have shape"),
        ({"draws": np.zeros((50, 2))}, ValueError, "`draws` must not be constant"),
        ({"draws": np.full((5, 2), np.nan)}, ValueError, r"rows \[0, 1, 2, 3, 4\]"),
        ({"target": lambda x: 0}, TypeError, "`target` must be a steincheck.Target"),
        ({"n_resamples": 0}, ValueError, "`n_resamples` must be a positive integer, got 0"),
        ({"kernel": "imq"}, TypeError, "`kernel` must have a method profile"),
        ({"rng": "x"}, TypeError, "`rng` must be"),
        ({"kernel": sc.RBF(1e-200)}, ValueError, "the Stein kernel is not finite with the bandwidth 1e-200"),
        ({"kernel": sc.IMQ}, TypeError, "`kernel` must have a method profile"),
        ({"precondition": "median"}, TypeError, r"`precondition` must be a matrix of numbers.*'median'"),
        ({"bootstrap": "wild"}, TypeError, "`bootstrap` must be a function.*or 'blocks', got 'wild'"),
        ({"bootstrap": lambda n, size, rng: np.ones((n, size))}, ValueError, r"weights of shape \(999, 50\)"),
    ],
)
def test_bad_input(normal_target, change, error, message):
    arguments = {"draws": np.random.default_rng(0).normal(size=(50, 2)), "target": normal_target} | change
    with pytest.raises(error, match=message):
        sc.ksd_test(arguments.pop("draws"), arguments.pop("target"), **arguments)
