import numpy as np

from steincheck.draws import Draws

X = np.random.default_rng(0).normal(size=(6, 2))


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
