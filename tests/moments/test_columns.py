"""Names and order of the features."""

import numpy as np
import pytest
from harness import CORRELATED, gaussian_with_modes

import steincheck as sc
from steincheck.adapters.parameters import ParameterScale
from steincheck.modes.arguments import as_modes
from steincheck.moments.columns import Column, feature_columns, feature_record, user_parameters
from steincheck.moments.coordinates import mode_coordinates
from steincheck.moments.features import feature_sums


def test_columns_and_sums_have_one_order():
    places = np.array([[0.0, 0, 0], [2.0, 1, -1]])
    target = sc.models.gaussian_mixture(places, np.stack([CORRELATED, 0.5 * np.eye(3)]), [0.4, 0.6])
    x = target.sample(500, 2)
    coordinates = mode_coordinates(as_modes(places, target), x)
    sums = feature_sums(x, target.score(x), coordinates, np.arange(500))
    ranks = np.arange(1000.0).reshape(500, 2)
    found = feature_columns(coordinates, sums, ranks)
    assert len(found.about) == len(set(found.about)) == found.sums.shape[1]
    place = {(c.kind, c.basis, c.mode, c.directions): found.sums[:, i] for i, c in enumerate(found.about)}
    np.testing.assert_array_equal(place["scale", "parameter", 1, (2,)], sums.of_modes.scale[:, 1, 2])
    np.testing.assert_array_equal(
        place["correlation", "parameter", None, (0, 2)], sums.pooled.correlation[:, 1]
    )
    np.testing.assert_array_equal(place["radius spread", "all", None, ()], ranks[:, 1])


def test_an_axis_is_named_by_its_main_parameters():
    target, modes = gaussian_with_modes(np.array([[1.0, 0.9, 0], [0.9, 1.0, 0], [0, 0, 1.0]]))
    coordinates = mode_coordinates(as_modes(modes, target), np.zeros((5, 3)))
    parameters = [ParameterScale(name, j) for j, name in enumerate("abc")]
    wide = feature_record(Column("scale", "axis 1", None, (3,)), 2.0, 0.1, coordinates, parameters)
    assert wide.parameters == ("a", "b")
    assert wide.loadings == pytest.approx((0.5**0.5, 0.5**0.5))
    assert wide.t == -2.0  # the feature falls where draws are too wide
    pair = feature_record(Column("correlation", "axis", None, (3, 4)), 2.0, 0.1, coordinates, parameters)
    assert pair.parameters == ("axis 1", "axis 3")


def test_features_name_the_parameters_of_the_user():
    target = sc.Target(
        lambda u: u[:, 0] - np.exp(u[:, 0]) - 0.5 * u[:, 1] ** 2,
        dim=2,
        names=["log tau", "mu"],
        constrained_names=["tau", "mu"],
        constrain=lambda u: np.column_stack([np.exp(u[:, 0]), u[:, 1]]),
        unconstrain=lambda x: np.column_stack([np.log(x[:, 0]), x[:, 1]]),
    )
    coordinates = mode_coordinates(as_modes([[0.0, 0.0]], target), np.zeros((5, 2)))
    about = user_parameters(target)
    pair = feature_record(Column("curvature", "parameter", None, (0, 1)), 2.0, 0.1, coordinates, about)
    assert (pair.parameters, pair.scales) == (("tau", "mu"), ("log", ""))
    own = feature_record(Column("scale", "parameter", None, (1,)), 2.0, 0.1, coordinates, about)
    assert (own.parameters, own.scales) == (("mu",), ())
