import numpy as np
import pytest

from steincheck.draws import as_draws, as_generator


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8, np.float64, bool])
def test_numbers_become_float64(dtype):
    draws = as_draws(np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype), 2)
    assert draws.dtype == np.float64
    assert draws.shape == (3, 2)


def test_one_dimension_may_come_flat():
    assert as_draws([1, 2, 3], 1).shape == (3, 1)


def test_draws_are_copied():
    x = np.zeros((3, 1))
    draws = as_draws(x, 1)
    draws[0] = 1
    assert x[0] == 0


@pytest.mark.parametrize(
    ("x", "dim", "error", "message"),
    [
        (
            np.zeros(6),
            2,
            ValueError,
            r"`x` must have shape \(n, 2\), got the 1-d shape \(6,\); one draw is a row",
        ),
        (
            np.zeros((5, 3)),
            2,
            ValueError,
            r"`x` must have shape \(n, 2\) as the target has dim = 2, got \(5, 3\)$",
        ),
        (np.zeros((2, 5)), 2, ValueError, "it looks transposed"),
        (np.zeros((4, 3, 2)), 2, ValueError, r"got \(4, 3, 2\)"),
        (np.zeros((1, 2)), 2, ValueError, "`x` must hold at least 2 draws, got 1"),
        (np.zeros((0, 2)), 2, ValueError, "at least 2 draws, got 0"),
        (
            [[0.0, 1.0], [np.nan, 0.0], [0.0, np.inf]],
            2,
            ValueError,
            r"2 of 3 draws hold NaN or infinity, rows \[1, 2\]",
        ),
        ("draws.csv", 1, TypeError, r"got a str \('draws.csv'\)"),
        (None, 1, TypeError, "got a NoneType"),
        ([[1, 2], [3]], 2, TypeError, "must be an array of real numbers"),
        (np.array([["a"]]), 1, TypeError, "dtype <U1"),
        (np.zeros((3, 1), dtype=complex), 1, TypeError, "dtype complex128"),
        ({"x": 1}, 1, TypeError, "got a dict"),
    ],
)
def test_bad_draws(x, dim, error, message):
    with pytest.raises(error, match=message):
        as_draws(x, dim)


def test_generators():
    assert as_generator(3).random() == np.random.default_rng(3).random()
    stream = np.random.default_rng(0)
    assert as_generator(stream) is stream
    assert as_generator(None).random() != as_generator(None).random()
    for bad in (-1, 1.5, "seed", True, np.random.RandomState):
        with pytest.raises(TypeError, match="`rng` must be a non-negative int"):
            as_generator(bad)
