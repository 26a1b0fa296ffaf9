import numpy as np
import pytest

from steincheck.draws import Draws

X = np.random.default_rng(0).normal(size=(6, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"values": X[0]}, ValueError, r"`values` must have shape \(n, d\), .*got shape \(2,\)"),
        ({"values": "x"}, TypeError, r"`values` must be an array of real numbers, got a str"),
        ({"chain": [0, 1] * 3}, ValueError, r"`chain` must be 0, 1, .* got 0 after 1 at row 2; inter"),
        ({"chain": [1, 1, 1, 2, 2, 2]}, ValueError, r"`chain` must be 0, 1, .* got 1 at row 0"),
        ({"chain": [0, 0, 1]}, ValueError, r"`chain` must hold the chain of each draw, shape \(6,\), got"),
        ({"chain": [0.5] * 6}, ValueError, r"`chain` must hold whole numbers, got \[0.5"),
        ({"names": ["a"]}, ValueError, r"`names` must name all 2 columns, got \('a',\)"),
        ({"divergences": -1}, ValueError, r"`divergences` must be an integer of at least 0, got -1"),
        ({"weight": [1.0]}, ValueError, r"`weights` must hold the weight of each draw, shape \(6,\), got"),
        ({"weight": [1, 1, 1, -2, 1, 1]}, ValueError, "`weights` must be finite and not negative, got -2 at"),
        ({"weight": [0.0] * 6}, ValueError, "`weights` must not be 0 for all draws, got 6 zeros"),
        ({"weight": list("abcdef")}, TypeError, "`weights` must be"),
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


def test_weights_have_mean_1_whatever_their_size():
    weight = np.array([1.0, 2, 0, 1, 3, 1])
    for size in (1.0, 1e-300, 1e307):
        np.testing.assert_allclose(Draws(X, weight=weight * size).weight, weight * 6 / 8, rtol=1e-15)
