"""The records of modes and of their search."""

import json
from functools import partial

import numpy as np
import pytest

import steincheck as sc
from steincheck.result import Modes

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
        ({"locations": [1.0, 2.0]}, r"`locations` must have shape \(M, d\).*got shape \(2,\)"),
        ({"locations": "here"}, "`locations` must be an array of real numbers"),
        ({"covariances": None}, "`covariances` must be an array of real numbers, got None"),
        ({"covariances": np.eye(2)}, r"`covariances` must hold a matrix per mode, shape \(1, 2, 2\)"),
        ({"log_density": 0.0}, r"`log_density` must hold a number per mode, shape \(1,\)"),
    ],
)
def test_records_of_modes_made_by_hand_are_checked(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Modes(**(GOOD | change))
