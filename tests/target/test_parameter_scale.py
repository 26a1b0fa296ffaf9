"""How coordinates show the user's parameters."""

import numpy as np
import pytest
from scipy import special

import steincheck as sc
from steincheck.target.parameter_scale import parameter_scales, scale_of, to_constrained


def constrained(u):
    return np.column_stack([special.expit(u[:, 2]), u[:, 0], np.exp(u[:, 1]), u[:, 0] + u[:, 3]])


def test_scales_are_found_from_the_map_whatever_the_names():
    target = sc.Target(
        lambda u: -np.sum(u**2, axis=1),
        dim=4,
        constrained_names=["p", "mu", "tau", "mixed"],
        constrain=constrained,
    )
    scales = parameter_scales(target)
    assert {name: (item.parameter, item.column, item.scale) for name, item in scales.items()} == {
        "x[0]": ("mu", 1, ""),
        "x[1]": ("tau", 2, "log"),
        "x[2]": ("p", 0, "logit"),
    }
    u = np.linspace(-2, 2, 5)
    step = 1e-6
    for item in scales.values():
        slope = (item.values(u + step) - item.values(u - step)) / (2 * step)
        np.testing.assert_allclose(np.exp(item.log_slope(u)), slope, rtol=1e-8)
    values, names = to_constrained(np.zeros((1, 4)), target)
    assert names == ("p", "mu", "tau", "mixed")
    np.testing.assert_array_equal(values, [[0.5, 0, 1, 0]])


def test_without_a_map_coordinates_are_parameters():
    target = sc.Target(lambda u: -np.sum(u**2, axis=1), dim=1, names=["mu"])
    assert parameter_scales(target)["mu"].scale == ""
    assert to_constrained([1.0], target)[1] == ("mu",)


@pytest.mark.parametrize(
    ("map_", "words"), [(np.exp, "log {}"), (special.expit, "logit {}"), (np.sinh, "unconstrained {}")]
)
def test_the_scale_of_a_coordinate(map_, words):
    u = np.linspace(-1, 1, 7)
    assert scale_of(u, map_(u)) == words
