"""Signed permutations: exact ones, those read off modes, and their words."""

import numpy as np
import pytest

from steincheck.modes.symmetry import matching_map, verified_maps
from steincheck.result import SignedPermutation
from steincheck.wording.results import symmetry_words


def test_a_map_moves_points_and_matrices_alike():
    g = SignedPermutation((2, 0, 1), (1, -1, 1))
    x = np.random.default_rng(0).normal(size=3)
    np.testing.assert_array_equal(g(x), [x[2], -x[0], x[1]])
    a = np.random.default_rng(1).normal(size=(3, 3))
    np.testing.assert_allclose(g(x) @ g.conjugate(a) @ g(x), x @ a @ x)
    hessian = a @ a.T + np.eye(3)
    pair = np.array([hessian, g.conjugate(hessian)])
    assert matching_map(np.array([x, g(x)]), pair, np.ones(3)) == g
    assert matching_map(np.array([x, g(x)]), pair[[0, 0]], np.ones(3)) is None


def test_coordinates_that_may_stay_do():
    """To rounding, coordinates that are 0 at both modes could change places and signs."""
    noise = 1e-9 * np.random.default_rng(0).normal(size=(2, 5))
    x = np.array([[4.0, 0, 0, 0, 0], [0, 4.0, 0, 0, 0]]) + noise
    swap = SignedPermutation((1, 0, 2, 3, 4), (1,) * 5)
    hessian = np.eye(5) + 1e-9 * np.random.default_rng(1).normal(size=(5, 5))
    assert matching_map(x, np.array([hessian, np.eye(5)]), np.ones(5)) == swap


def test_only_exact_symmetries_are_kept():
    def log_density(x):
        return -np.sum(x**2, axis=1) - 1e-4 * x[:, 0]

    swap, flip = SignedPermutation((0, 2, 1), (1, 1, 1)), SignedPermutation((0, 1, 2), (-1, 1, 1))
    points = np.random.default_rng(0).normal(size=(4, 3))
    assert verified_maps(log_density, [swap, flip], points) == [swap]


@pytest.mark.parametrize(
    ("order", "sign", "kind", "words"),
    [
        ((2, 3, 0, 1), (1, 1, 1, 1), "exchange of coordinates", "exchange of coordinates (a, b) and (c, d)"),
        ((1, 0, 2, 3), (1, 1, 1, 1), "exchange of coordinates", "exchange of coordinates a and b"),
        ((0, 1, 2, 3), (1, -1, 1, -1), "change of sign", "change of sign of (b, d)"),
        (
            (1, 2, 0, 3),
            (1, 1, 1, -1),
            "exchange of coordinates",
            "permutation of coordinates (a, b, c), with change of sign of d",
        ),
    ],
)
def test_kinds_and_words(order, sign, kind, words):
    g = SignedPermutation(order, sign)
    assert g.kind == kind
    assert symmetry_words(g, "abcd") == words
