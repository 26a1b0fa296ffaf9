"""The records of modes and of their search."""

import json
from functools import partial

import numpy as np
import pytest

import steincheck as sc
from steincheck.result import Modes, ModeSearch, SignedPermutation

GOOD = {"locations": [[1.0, 2.0]], "covariances": [np.eye(2)], "log_density": [0.0]}


def test_the_table_and_the_dictionary():
    target = sc.models.gb_rbm(6 * np.eye(8, 1))
    modes = sc.box_search(target, bounds=(-10, 10), rng=0)
    lines = str(modes).splitlines()
    assert lines[0].split() == ["mode", "log", "density", "Laplace", "weight", "location"]
    assert len(lines) == 4
    assert lines[1].split()[2] == "0.5000"
    assert lines[1].endswith(", ...)")
    record = json.loads(json.dumps(modes.to_dict()))
    assert np.shape(record["covariances"]) == (2, 8, 8)
    assert record["search"]["n_starts"] == 512
    plain = Modes(**GOOD, warnings=("mind",))
    assert str(plain).endswith("warning: mind")
    assert plain.to_dict()["search"] == {}


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
    for name in ("warnings", "search", "symmetries", "names"):
        assert getattr(again, name) == getattr(modes, name)
    assert str(again) == str(modes)


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
    ("change", "words"),
    [
        ({"locations": None}, "`locations` must be real numbers, got None"),
        ({"locations": [[1, 2], [3]]}, "`locations` must be real numbers"),
        ({"locations": [1, 2]}, r"`locations` must be finite, shape \(M, d\)"),
        (
            {"covariances": [[[1.0]]]},
            r"`covariances` must hold a matrix per mode, shape \(2, 2, 2\)",
        ),
        ({"log_density": [np.inf, 0]}, "`log_density` must be finite"),
        ({"names": ["a"]}, "`names` must name all 2 coordinates"),
        ({"names": "ab"}, "`names` must be a list of strings, got 'ab'"),
        ({"warnings": [3]}, "`warnings` must be a list of strings"),
        (
            {"symmetries": [{"order": [0, 0], "sign": [1, 1]}]},
            "`symmetries` must be signed permutations of 2",
        ),
        ({"search": [3]}, "`search` must be a Mapping, got list"),
        (
            {"search": {"n_starts": "many"}},
            "`search` must be one that `to_dict` wrote, got n_starts = 'many'",
        ),
    ],
)
def test_dictionaries_that_are_not_of_modes(change, words):
    modes = Modes(np.eye(2), np.array([np.eye(2)] * 2), np.zeros(2))
    with pytest.raises((TypeError, ValueError), match=words):
        Modes.from_dict({**modes.to_dict(), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"locations": [1.0, 2.0]}, r"`locations` must be finite, shape \(M, d\).*got shape \(2,\)"),
        ({"locations": [[np.nan, 0.0]]}, "`locations` must be finite"),
        ({"locations": "here"}, "`locations` must be an array of real numbers"),
        ({"covariances": np.eye(2)}, r"`covariances` must hold a matrix per mode, shape \(1, 2, 2\)"),
        ({"log_density": 0.0}, r"`log_density` must hold a number per mode, shape \(1,\)"),
        ({"names": ("a",)}, "`names` must name all 2 coordinates, or be empty"),
        ({"warnings": 3}, "`warnings` must be a list of strings, got 3"),
        ({"symmetries": ("swap",)}, "`symmetries` must be signed permutations"),
        ({"search": {"reason": "x"}}, "`search` must be a ModeSearch, got dict"),
    ],
)
def test_records_of_modes_made_by_hand_are_checked(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Modes(**GOOD | change)


def test_a_record_of_a_search_cannot_be_changed():
    search = sc.box_search(sc.models.gaussian_mixture([[0.0]]), (-9, 9), rng=0).search
    assert isinstance(search, ModeSearch)
    with pytest.raises(AttributeError):
        search.reason = "complete"
