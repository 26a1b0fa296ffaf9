"""Samples side by side, the smallest error first."""

import json
import pickle

import numpy as np
import pytest
from harness import jax_normal, standard_normal

import steincheck as sc


@pytest.fixture(scope="module")
def comparison():
    x = np.random.default_rng(0).normal(size=(1000, 2))
    samples = {"narrow": 0.5 * x, "shifted": np.add(x, [0.3, 0.0]), "chains": x.reshape(4, 250, 2)}
    samples["still"] = 0 * x
    return sc.compare(samples, standard_normal(2, names=["a", "b"]), modes=[[0.0, 0.0]], rng=0)


def test_samples_are_ordered_by_their_largest_error(comparison):
    assert list(comparison.verdicts) == comparison.table["sample"] == ["chains", "shifted", "narrow", "still"]
    assert comparison.table["error"][0] < 0.1
    assert comparison.table["error"][1] == pytest.approx(0.3, abs=0.06)
    assert comparison.table["error"][2] == pytest.approx(np.log(2), abs=0.06)
    assert comparison.table["worst"][1].startswith("a: mean of the draws 0.")
    assert comparison.table["answer"] == ["no misfit found", "misfit found", "misfit found", "cannot tell"]
    assert comparison.table["worst"][3] == "a: the draws do not vary, the sd of the density is 1"
    assert 500 < comparison.table["ess"][0] < 2000
    assert comparison.table["ess"][1] == 1000


def test_the_table_in_text_html_and_data(comparison):
    assert "narrow" in str(comparison)
    assert repr(comparison) == "<Comparison: chains, shifted, narrow, still>"
    assert list(json.loads(comparison.to_json())["verdicts"]) == list(comparison.verdicts)
    assert list(pickle.loads(pickle.dumps(comparison)).verdicts) == list(comparison.verdicts)
    with pytest.raises(KeyError, match="no column 'size'; the columns are sample, error"):
        comparison.table["size"]


def test_the_summary_has_one_row_per_parameter(comparison):
    table = comparison.verdicts["chains"].summary()
    assert table["parameter"] == ["a", "b"]
    np.testing.assert_allclose(table["r_hat"], 1, atol=0.02)
    narrow = comparison.verdicts["narrow"].summary()
    np.testing.assert_allclose(narrow["sd_ratio"], 0.5, atol=0.03)
    assert np.isnan(narrow["r_hat"]).all()


def test_without_a_seed_the_numbers_are_those_of_seed_0():
    x = np.random.default_rng(0).normal(size=(60, 2))
    common = {"target": jax_normal(), "modes": [[0.0, 0.0]]}
    for function, draws in ((sc.compare, {1: x}), (sc.estimate_accuracy, x)):
        assert function(draws, **common).to_json() == function(draws, **common, rng=0).to_json()


def test_compare_names_what_is_wrong():
    x = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match=r"`samples` must have names that differ as text, got \[1, '1'\]"):
        sc.compare({1: x, "1": x}, jax_normal())
    with pytest.raises(TypeError, match=r"sample 'a': .*unexpected keyword argument 'foo'"):
        sc.compare({"a": x}, jax_normal(), foo=1)
    with pytest.raises(ValueError, match="sample 'b': `draws` must have shape"):
        sc.compare({"b": x[:, :1]}, jax_normal(), modes=[[0.0, 0.0]])
