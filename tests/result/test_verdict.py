"""Errors of the draws' numbers with their intervals, and whether they are within a tolerance."""

import numpy as np
import pytest

from steincheck.result import AccuracyResult, Estimate, ParameterAccuracy


def accuracy_of(draws_mean, *, rough=False, standard_error=0.01, has_sd=True):
    """A parameter of mean 1 and sd 2 under the density, of sd 2 among the draws."""
    mean = Estimate(1.0, 2 * standard_error, 0.0, np.inf)
    log_sd = Estimate(np.log(2.0), 0.0, 0.0, np.inf)
    return ParameterAccuracy("mu", draws_mean, 2.0, mean, log_sd, rough, forgotten=True, has_sd=has_sd)


def test_errors_are_in_sds_of_the_density():
    found = accuracy_of(2.0)
    assert (found.mean_error, found.sd_error) == (0.5, 0.0)
    ends = 0.5 + 0.01 * 1.959964 * np.array([-1, 1])
    np.testing.assert_allclose(found.mean_error_interval, ends, rtol=1e-6)
    np.testing.assert_allclose(found.sd_interval, 2.0)
    heavy = accuracy_of(2.0, has_sd=False)
    assert np.isnan([heavy.sd, heavy.sd_error, *heavy.sd_error_interval]).all()
    assert heavy.largest_error == 0.5


@pytest.mark.parametrize(
    ("records", "answer"),
    [
        ([accuracy_of(1.0), accuracy_of(1.1)], True),
        ([accuracy_of(1.0), accuracy_of(1.1, rough=True)], None),
        ([accuracy_of(1.0), accuracy_of(1.3)], False),
        ([accuracy_of(1.3, standard_error=0.025)], None),
        ([], None),
    ],
)
def test_an_answer_needs_intervals_within_or_outside_the_tolerance(records, answer):
    found = AccuracyResult(tuple(records), 10, 1000, (), (np.zeros((1, 1)), np.ones((1, 1, 1))))
    assert found.answer(0.1) is answer
