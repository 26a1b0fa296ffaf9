"""What records share: one line in a session, JSON, pickles; and the cells of a table."""

import json
import pickle

import numpy as np

import steincheck as sc
from steincheck.result import Table


def test_records_are_printed_in_one_short_line():
    target = sc.models.gaussian_mixture([[-3.0, 0.0], [3.0, 0.0]])
    x = target.sample(200, 0)
    moved = sc.perturb(x, target, [[-3.0, 0.0], [3.0, 0.0]], 0.8, n_steps=5, rng=0)
    assert repr(moved) == "<Perturbation: 200 draws, 1 theta, 5 steps by metropolis between 2 modes>"
    assert repr(moved.modes) == "<Modes: 2 in 2 dimensions, the highest at x[0] = -3, x[1] = 0>"
    text = repr(sc.spksd_test(x, target, perturbation=moved, n_resamples=99, rng=0))
    assert text.startswith("<SpksdResult: spKSD test: no misfit found at level 0.05 (p = ")
    assert text.endswith(", n = 200, d = 2)>")


def test_results_verdicts_and_modes_pickle():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    verdict = sc.check(target.sample(150, 0), target, modes=[[-3.0], [3.0]], rng=0)
    again = pickle.loads(pickle.dumps(verdict))
    assert str(again) == str(verdict)
    assert json.loads(again.to_json()) == json.loads(verdict.to_json())
    assert np.array_equal(again.modes.locations, verdict.modes.locations)


def test_cells_of_a_table_in_words_and_escaped_in_a_notebook():
    table = Table(tuple("abcdef"), ((True, False, np.nan, 1234.5, 0.5, "<b>"),))
    assert str(table).splitlines()[1].split() == ["yes", "no", "-", "1234", "0.500", "<b>"]
    assert "&lt;b&gt;" in table._repr_html_()
