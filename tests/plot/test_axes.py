"""Axes, labels and errors that all pictures share."""

import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt

import steincheck as sc
from steincheck import plot


def test_the_given_axes_are_used():
    ax = plt.figure().add_subplot()
    assert plot.draws(np.zeros((3, 2)), ax=ax) is ax


@pytest.mark.parametrize("projection", ["polar", "3d"])
def test_axes_of_another_kind_are_refused(projection):
    ax = plt.figure().add_subplot(projection=projection)
    with pytest.raises(TypeError, match="`ax` must be rectilinear axes"):
        plot.draws(np.zeros((3, 2)), ax=ax)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'steincheck\[plot\]'"):
        plot.draws(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, r: plot.null_distribution(r), "has no simulated null distribution"),
        (lambda t, r: plot.theta_profile(r), "`result` must come from spksd_test or ospksd_test"),
        (lambda t, r: plot.bandwidth_profile(r), "`result` must come from ksdagg_test"),
        (lambda t, r: plot.effect_sizes(r), "`accuracy` must be that of a verdict"),
        (lambda t, r: plot.draws(np.zeros((3, 2)), names=["a"]), "`names` must have one name per coordinate"),
        (lambda t, r: plot.draws(np.zeros((3, 2)), coordinates=(2,)), "must be up to 2 of 0..1"),
        (lambda t, r: plot.witness(np.zeros((3, 1)), t), "`draws` must vary in every coordinate"),
    ],
)
def test_bad_input(call, message):
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    result = sc.GofResult("flux test", 1.0, 0.5, None, 10, 1)
    with pytest.raises((TypeError, ValueError), match=message):
        call(target, result)
