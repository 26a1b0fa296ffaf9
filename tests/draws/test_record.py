import numpy as np
import pytest

from steincheck.draws import Draws, as_draws

X = np.random.default_rng(0).normal(size=(6, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"values": X[0]}, ValueError, r"`values` must have shape \(n, d\), .*got shape \(2,\)"),
        ({"values": "x"}, TypeError, r"`values` must be an array of real numbers, got a str"),
        (
            {"chain": [0, 1, 0, 1, 0, 1]},
            ValueError,
            r"`chain` must be 0, 1, .* got 0 after 1 at row 2; inter",
        ),
        ({"chain": [0, 0, 0, 2, 2, 2]}, ValueError, r"`chain` must be 0, 1, .* got 2 after 0 at row 3"),
        ({"chain": [1, 1, 1, 2, 2, 2]}, ValueError, r"`chain` must be 0, 1, .* got 1 at row 0"),
        ({"chain": [0, 0, 1]}, ValueError, r"`chain` must hold the chain of each draw, shape \(6,\), got"),
        ({"chain": [0.5] * 6}, ValueError, r"`chain` must hold whole numbers, got \[0.5"),
        ({"names": ["a"]}, ValueError, r"`names` must name all 2 columns, got \('a',\)"),
        ({"divergences": -1}, ValueError, r"`divergences` must be an integer of at least 0, got -1"),
        (
            {"weight": [1.0, 2.0]},
            ValueError,
            r"`weight` must hold the weight of each draw, shape \(6,\), got",
        ),
        ({"weight": [1, 1, 1, -2, 1, 1]}, ValueError, "`weight` must be finite and not negative, got -2 at"),
        (
            {"weight": [1, np.nan] * 3},
            ValueError,
            "`weight` must be finite and not negative, got nan at row 1",
        ),
        ({"weight": [0.0] * 6}, ValueError, "`weight` must not be 0 for all draws, got 6 zeros"),
        ({"weight": list("abcdef")}, TypeError, "`weight` must be an array of real numbers"),
    ],
)
def test_the_record_refuses_what_is_not_draws(arguments, error, message):
    with pytest.raises(error, match=message):
        Draws(**{"values": X, **arguments})


def test_the_record_copies_no_array_and_takes_lists():
    chain = np.repeat([0, 1], 3)
    draws = Draws(X, chain)
    assert draws.values is X
    assert draws.chain is chain
    lists = Draws(X.tolist(), chain.tolist(), ["a", "b"])
    assert lists.lengths.tolist() == [3, 3]
    assert lists.names == ("a", "b")
    assert Draws(X[:0], chain[:0]).n_chains == 0
    np.testing.assert_array_equal(np.asarray(draws), X)


def test_weights_sum_to_1_whatever_their_size():
    weight = np.array([1.0, 2, 0, 1, 3, 1])
    for size in (1.0, 1e-300, 1e307):
        np.testing.assert_allclose(Draws(X, weight=weight * size).weight, weight / 8, rtol=1e-15)


def test_some_of_the_draws_keep_their_chains_and_weights():
    draws = Draws(X, [0, 0, 1, 1, 2, 2], weight=[1, 2, 3, 4, 5, 6])
    some = draws.take([1, 4, 5])
    np.testing.assert_array_equal(some.values, X[[1, 4, 5]])
    assert some.chain.tolist() == [0, 1, 1]
    np.testing.assert_allclose(some.weight, np.array([2, 5, 6]) / 13, rtol=1e-15)
    assert draws.take(draws.weight > 0.2).lengths.tolist() == [2]
    np.testing.assert_array_equal(as_draws(draws, 2).weight, draws.weight)


@pytest.mark.parametrize("rows", ["a", [100], [1, 0], [[0], [1]], [True]])
def test_rows_that_are_not_there(rows):
    with pytest.raises(ValueError, match="`rows` must be"):
        Draws(X).take(rows)
