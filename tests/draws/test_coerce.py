import inspect

import numpy as np
import pytest
from harness import ar1_chains

import steincheck as sc
from steincheck.draws import Draws, as_draws, as_matrix


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8, np.float64])
def test_points_are_copied_as_float64(dtype):
    x = np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype)
    points = as_matrix(x, 2)
    assert points.dtype == np.float64
    points[0] = 7
    assert x[0, 0] == 0
    assert as_matrix([1, 2, 3], 1).shape == (3, 1)


@pytest.mark.parametrize(
    ("x", "dim", "error", "message"),
    [
        (
            np.zeros(6),
            2,
            ValueError,
            r"`x` must have shape \(n, 2\), one point per row, got \(6,\); a single",
        ),
        (np.zeros((5, 3)), 2, ValueError, r"shape \(n, 2\), one point per row, got \(5, 3\)$"),
        (np.zeros((2, 5)), 2, ValueError, "it looks transposed"),
        (np.zeros((4, 3, 2)), 2, ValueError, r"got \(4, 3, 2\)"),
        (np.zeros((1, 2)), 2, ValueError, "`x` must hold at least 2 draws, got 1"),
        (
            [[0.0, 1], [np.nan, 0], [0, np.inf]],
            2,
            ValueError,
            r"2 of 3 draws contain NaN or .*, rows \[1, 2\]",
        ),
        ("draws.csv", 1, TypeError, r"got a str \('draws.csv'\)"),
        (None, 1, TypeError, "got None"),
        ([[1, 2], [3]], 2, TypeError, "must be an array of real numbers"),
        (np.array([["a"]]), 1, TypeError, "dtype <U1"),
        (np.zeros((3, 1), dtype=complex), 1, TypeError, "dtype complex128"),
        (np.ma.masked_greater([[1.0], [2.0], [3.0]], 2.5), 1, TypeError, "an array with 1 masked value"),
    ],
)
def test_bad_points(x, dim, error, message):
    with pytest.raises(error, match=message):
        as_matrix(x, dim)


def test_arrays_with_and_without_chains():
    x = np.random.default_rng(0).normal(size=(4, 25, 3))
    flat = as_draws(x.reshape(100, 3), 3)
    assert (flat.shape, flat.n_chains, flat.chain) == ((100, 3), 0, None)
    chains = as_draws(x, 3, names=["a", "b", "c"])
    np.testing.assert_array_equal(chains.values, x.reshape(100, 3))
    assert (chains.n_chains, chains.names) == (4, ("a", "b", "c"))
    assert as_draws(chains, 3).chain is chains.chain
    assert as_draws([x[0], x[1, :10], x[2]], 3).lengths.tolist() == [25, 10, 25]
    assert as_draws([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], 2).n_chains == 0


def test_one_dimension():
    assert as_draws([1, 2, 3], 1).shape == (3, 1)
    assert as_draws(np.arange(5.0)).shape == (5, 1)
    assert as_draws(np.zeros((4, 25)), 1).n_chains == 4


def test_named_draws_are_read_by_name_again():
    draws = Draws(np.array([[1.0, 2.0], [3.0, 4.0]]), None, ("a", "b"))
    assert as_draws(draws, names=["b", "a"]).values.tolist() == [[2, 1], [4, 3]]
    assert as_draws(draws, names=["b"]).names == ("b",)


@pytest.mark.parametrize(
    ("draws", "dim", "error", "message"),
    [
        (np.zeros((4, 1, 2)), 2, ValueError, r"at least 2 draws per chain, chain 0 of 4 has 1"),
        (np.zeros((4, 5, 3)), 2, ValueError, r"one column per coordinate, 2, got 3"),
        (np.zeros((5, 3)), 2, ValueError, r"shape \(n, 2\) or \(chain, draw, 2\).*got \(5, 3\)"),
        (np.zeros((2, 3, 4, 5)), None, ValueError, r"got \(2, 3, 4, 5\)"),
        ([np.zeros((5, 2)), np.zeros((5, 3))], 2, ValueError, r"`draws\[1\]` must have shape \(n, 2\)"),
        ([np.zeros((5, 2)), np.zeros((0, 2))], 2, ValueError, "chain 1 of 2 has none"),
        (np.zeros((2, 3, 0)), None, ValueError, "`draws` must have at least one coordinate"),
        (np.zeros((0, 5, 2)), 2, ValueError, "at least 2 draws, got 0"),
        ([[1, 2], [3]], 2, TypeError, "must be an array of real numbers"),
        ("draws.csv", 1, TypeError, r"got a str \('draws.csv'\)"),
        (np.ones((50, 2), dtype=bool), 2, TypeError, r"`draws` must be .* got an array of dtype bool"),
    ],
)
def test_bad_chains(draws, dim, error, message):
    with pytest.raises(error, match=message):
        as_draws(draws, dim)


def test_names_that_do_not_fit_the_columns():
    with pytest.raises(ValueError, match=r"`draws` must have one column per name of `names`, 2, got 3"):
        as_draws(np.zeros((5, 3)), names=["a", "b"])


def test_values_that_are_not_finite_are_located():
    x = np.zeros((4, 25, 2))
    x[2, 17, 1] = np.nan
    x[3, 0, 0] = np.inf
    with pytest.raises(
        ValueError, match="2 of 100 draws contain NaN or infinity, chain 2, draw 17; chain 3, draw 0"
    ):
        as_draws(x, 2)


@pytest.mark.parametrize(
    ("walkers", "steps", "correlation"), [(32, 60, 0.95), (100, 40, 0.95), (4, 500, 0.9)]
)
def test_steps_before_chains_are_told_by_the_correlations(walkers, steps, correlation):
    """As emcee's chains are; the right way round nothing is suspected."""
    for seed in range(8):
        r = np.random.default_rng([6, seed])
        x = ar1_chains(r, walkers, steps, 2, correlation)
        swapped = sc.as_draws(x.swapaxes(0, 1))
        assert swapped.axes_swapped
        assert "only draws of successive chains are correlated" in swapped.warnings[0]
        assert not sc.as_draws(x).axes_swapped
        assert not sc.as_draws(r.normal(size=(steps, walkers, 2))).axes_swapped


def test_many_short_chains_of_independent_draws_are_mentioned():
    rng = np.random.default_rng(0)
    (warning,) = as_draws(rng.normal(size=(500, 4, 2)), 2).warnings
    assert "read as 500 chains of 4 draws, but successive draws are not correlated" in warning
    assert as_draws(rng.normal(size=(4, 500, 2)), 2).warnings == ()
    assert as_draws(ar1_chains(rng, 80, 25, 2, 0.9), 2).warnings == ()


def test_swapped_axes_of_a_dict_are_told_as_those_of_an_array():
    x = ar1_chains(np.random.default_rng(3), 4, 300, 2, 0.9)
    swapped = x.swapaxes(0, 1)
    as_dict = as_draws({"mu": swapped[..., 0], "tau": swapped[..., 1]}, dim=2)
    assert as_dict.axes_swapped
    assert as_draws(as_dict).axes_swapped
    assert as_draws(swapped).warnings == as_dict.warnings
    assert not as_draws({"mu": x[..., 0], "tau": x[..., 1]}, dim=2).axes_swapped


def test_as_draws_shows_only_what_users_may_give():
    assert list(inspect.signature(sc.as_draws).parameters) == ["draws", "dim", "names"]
