"""Files that a command line names."""

import json

import numpy as np
import pytest
from harness import on_the_log_scale, standard_normal

import steincheck as sc
from steincheck.cli.inputs import load_modes

PLACES = np.array([[-3.0, -3.0], [3.0, 3.1]])
SHAPES = np.array([[[1.0, 0.5], [0.5, 2.0]]] * 2)
FOUND = sc.Modes(PLACES, SHAPES, np.zeros(2), names=("a", "b"))
TARGET = standard_normal(2, names=["a", "b"])


def test_modes_of_json(tmp_path):
    path = tmp_path / "modes.json"
    path.write_text(json.dumps({"locations": PLACES.tolist()}))
    np.testing.assert_array_equal(load_modes(path, TARGET), PLACES)
    path.write_text(json.dumps({"locations": PLACES.tolist(), "covariances": SHAPES.tolist()}))
    np.testing.assert_array_equal(load_modes(path, TARGET)[1], SHAPES)
    path.write_text(json.dumps(FOUND.to_dict()))
    found = load_modes(path, TARGET)
    np.testing.assert_array_equal(found[0], PLACES)
    np.testing.assert_array_equal(found[1], SHAPES)


def test_modes_of_a_table_are_on_the_scale_of_the_parameters(tmp_path):
    (tmp_path / "mode.csv").write_text("mu,tau\n2.0,1.0\n")
    np.testing.assert_array_equal(load_modes(tmp_path / "mode.csv", on_the_log_scale()), [[0.0, 2.0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[[1, 2]]", 'must hold an object with "locations"'),
        ('{"locations": [[3, 3]], "names": ["a", "c"]}', r"are those of \['a', 'c'\], the target has"),
    ],
)
def test_json_that_does_not_hold_modes(tmp_path, text, message):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises((ValueError, TypeError), match=message):
        load_modes(tmp_path / "bad.json", TARGET)
