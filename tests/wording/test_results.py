"""Sentences about features of the moment test."""

import pytest

from steincheck.result import MomentFeature
from steincheck.wording.results import describe_feature, feature_lines


def feature(kind, basis="parameter", mode=None, parameters=("sigma",), scales=(), loadings=(), t=9.0):
    return MomentFeature(kind, basis, mode, parameters, scales, loadings, t, 0.001)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (feature("location", t=-4.0), "the mean of sigma is too low"),
        (feature("tails", scales=("log",)), "the tails of sigma (log scale) are heavier than the density's"),
        (
            feature("tails", "all", parameters=(), t=-4.0),
            "the tails of the distances from the mode are lighter than the density's",
        ),
        (feature("extremes", mode=2), "mode 2: the extremes of sigma lie too far out"),
        (feature("scale", "given the others"), "sigma given the others is too wide"),
        (
            feature("skewness", "axis 1", None, ("a", "b"), ("", "log"), (0.6, -0.8)),
            "principal axis 1 (0.60 a -0.80 log b) is too skewed to the right",
        ),
        (
            feature("correlation", parameters=("a", "b"), scales=("log", "")),
            "the correlation of a (log scale) and b is too high",
        ),
        (
            feature("correlation", "axis", parameters=("axis 1", "axis 3")),
            "the correlation of axis 1 and axis 3 is too high",
        ),
        (feature("curvature", parameters=("a", "b"), t=-5.0), "b is too low where a is far from its middle"),
        (feature("radius", "all", parameters=(), t=-5.0), "the draws lie too close to the mode"),
    ],
)
def test_features_in_words(said, words):
    assert describe_feature(said) == words


def test_long_lists_are_cut():
    lines = feature_lines([feature("location")] * 7)
    assert lines[0] == "the mean of sigma is too high (t = 9.0)"
    assert lines[5:] == ["and 2 more in `features`"]
