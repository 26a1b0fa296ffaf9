"""Axes, labels and errors that all pictures share."""

import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt

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
