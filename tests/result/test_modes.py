"""The records of modes and of their search."""

import json
from functools import partial

import numpy as np
import pytest

import steincheck as sc
from steincheck.result import Modes, SignedPermutation

GOOD = {"locations": [[1.0, 2.0]], "covariances": [np.eye(2)], "log_density": [0.0]}


def test_the_table_and_the_dictionary():
    target = sc.models.gb_rbm(6 * np.eye(8, 1))
    modes = sc.box_search(target, bounds=(-10, 10), rng=0)
    lines = str(modes).splitlines()
    assert lines[0].split() == ["mode", "log", "density", "Laplace", "weight", "location"]
    assert len(lines) == 4
    assert lines[1].split()[2] == "0.5000"
    assert lines[1].endswith("x[0] = -3, x[1] = 0, x[2] = 0, ...")
    record = json.loads(json.dumps(modes.to_dict()))
    assert np.shape(record["covariances"]) == (2, 8, 8)
    assert record["search"]["n_starts"] == 512
    none = Modes(np.empty((0, 1)), np.empty((0, 1, 1)), np.empty(0), warnings=("mind",))
    assert repr(none) == "<Modes: 0 in 1 dimension>"
    assert str(none).endswith("warning: mind")


@pytest.mark.parametrize("search", [sc.find_modes, partial(sc.box_search, bounds=(-5, 15)), None])
def test_modes_come_back_from_their_dictionary(search):
    swap = SignedPermutation((1, 0), (1, 1))
    modes = Modes(np.eye(2), np.array([np.eye(2)] * 2), np.zeros(2), symmetries=(swap,), names=("a", "b"))
    if search is not None:
        modes = search(sc.models.gaussian_mixture([[0.0, 1.0], [9.0, 2.0]]), rng=0)
    again = Modes.from_dict(json.loads(json.dumps(modes.to_dict())))
    for name in ("locations", "covariances", "log_density"):
        np.testing.assert_array_equal(getattr(again, name), getattr(modes, name))
        assert getattr(again, name).dtype == getattr(modes, name).dtype
    for name in ("warnings", "symmetries", "names"):
        assert getattr(again, name) == getattr(modes, name)


@pytest.mark.parametrize("search", [sc.find_modes, partial(sc.box_search, bounds=(-9, 9))])
def test_the_recorded_seed_gives_the_modes_again(search):
    """A Generator is spawned from, and what is recorded is a number that a file can hold."""
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    generator = np.random.default_rng(5)
    state = generator.bit_generator.state
    first = search(target, rng=generator)
    assert generator.bit_generator.state == state
    again = search(target, rng=first.search.seed)
    np.testing.assert_array_equal(again.locations, first.locations)
    assert again.search == first.search
    assert search(target, rng=3).search.seed == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"locations": [1.0, 2.0]}, r"`locations` must be finite, shape \(M, d\).*got shape \(2,\)"),
        ({"locations": [[np.nan, 0.0]]}, "`locations` must be finite"),
        ({"locations": "here"}, "`locations` must be an array of real numbers"),
        ({"covariances": None}, "`covariances` must be an array of real numbers, got None"),
        ({"covariances": np.eye(2)}, r"`covariances` must hold a matrix per mode, shape \(1, 2, 2\)"),
        ({"log_density": 0.0}, r"`log_density` must hold a number per mode, shape \(1,\)"),
        ({"log_density": [np.inf]}, "`log_density` must be finite"),
        ({"names": ("a",)}, "`names` must name all 2 coordinates, or be empty"),
        ({"names": "ab"}, "`names` must be a list of strings, got 'ab'"),
        ({"warnings": [3]}, "`warnings` must be a list of strings"),
        (
            {"symmetries": [{"order": [0, 0], "sign": [1, 1]}]},
            "`symmetries` must be signed permutations of 2",
        ),
    ],
)
def test_records_of_modes_made_by_hand_or_read_are_checked(change, message):
    for make in (lambda record: Modes(**record), Modes.from_dict):
        with pytest.raises((TypeError, ValueError), match=message):
            make(GOOD | change)
