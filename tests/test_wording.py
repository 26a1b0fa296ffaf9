from dataclasses import replace

import numpy as np
import pytest

import steincheck as sc
from steincheck.result import ChainWeights, Finding, MomentFeature
from steincheck.wording import advice, chain_shares, describe, places
from steincheck.wording.moments import as_sentence

LOG = {"estimate": -0.6, "interval": (-0.7, -0.5), "t": 9.0, "pvalue": 0.001, "scales": ("log",)}


def feature(kind, **changes):
    fields = LOG | {"observed": np.log(2.0), "expected": np.log(3.0)} | changes
    return MomentFeature(kind, changes.pop("basis", "own"), None, ("sigma",), (), **fields)


def test_a_mean_on_the_log_scale_is_a_factor_of_the_parameter():
    assert describe(feature("location")) == (
        "sigma is 1.5 times too small, 0.6 sd (0.5 to 0.7) on the log scale: "
        "geometric mean of the draws 2, should be 3"
    )


def test_a_mean_on_the_logit_scale_is_told_as_a_probability():
    said = describe(feature("location", scales=("logit",), observed=0.0, expected=np.log(3.0)))
    assert said.startswith("mean of sigma is 0.6 sd (0.5 to 0.7) too low on the logit scale")
    assert said.endswith("centre of the draws 0.5, should be 0.75")


def test_a_spread_on_the_log_scale_is_a_geometric_standard_deviation():
    sizes = {"estimate": 0.5, "interval": (0.4, 0.6)}
    assert describe(feature("scale", **sizes)) == (
        "sigma is 2.00 (1.67 to 2.50) times too narrow on the log scale: "
        "geometric sd of the draws 2, should be 3"
    )
    assert describe(feature("skewness")).endswith("on the log scale")
    assert "on the log scale" in describe(feature("scale", **sizes), rough=True)


@pytest.mark.parametrize(
    ("kind", "name", "begin"),
    [
        ("scale", "meanlog", "meanlog is"),
        ("location", "m", "Mean of m is"),
        ("tails", "t", "The tails of t are"),
        ("skewness", "tau", "tau is too skewed"),
    ],
)
def test_sentences_begin_with_a_capital_or_a_name_as_it_is(kind, name, begin):
    record = replace(feature(kind, estimate=0.5, interval=(0.4, 0.6), scales=()), parameters=(name,))
    assert as_sentence(describe(record), record).startswith(begin)


def test_a_correlation_names_the_scale_of_each_parameter():
    pair = MomentFeature(
        "correlation", "own", None, ("sigma", "mu"), (), 0.9, (0.8, 1.0), 0.0, -0.9, 9.0, 0.001, ("log", "")
    )
    assert describe(pair) == "correlation of sigma (on the log scale) and mu: 0.00, should be -0.90"


def test_places_name_the_coordinates_in_which_modes_differ():
    locations = np.zeros((2, 10))
    locations[1, 8] = 5
    assert places(locations, [f"x[{k}]" for k in range(10)])[1].endswith("x[8] = 5, ...")
    assert places(np.array([[1e-12, 2.0]]), ["a", "b"]) == ("a = 0, b = 2",)


def weights_of(shares, n_changes=0):
    shares = np.asarray(shares)
    chains = ChainWeights(
        len(shares), 4, 1.0, 10.0, n_changes, np.ones(shares.shape[1]), shares, ((0, 1),), ()
    )
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    result = sc.flux_test(target.sample(200, 0), target, modes=[[-3.0], [3.0]], rng=0)
    return type(result)(**{**result.__dict__, "chains": chains})


def test_shares_of_the_modes_per_chain():
    apart = weights_of([[1.0, 0.0], [0.999, 0.001], [0.0, 1.0]])
    assert chain_shares(apart) == [
        "The chains hardly ever change mode: chains 0 and 1 stay at mode 0, chain 2 is alone at mode 1."
    ]
    mixing = weights_of([[0.5, 0.5], [0.4, 0.6]], 30)
    assert chain_shares(mixing) == [
        "Shares of modes 0 and 1 per chain: chain 0: 50% / 50%; chain 1: 40% / 60%."
    ]
    many = weights_of(np.stack([np.linspace(0.2, 0.8, 20), np.linspace(0.8, 0.2, 20)], axis=1), 500)
    assert chain_shares(many) == ["The share of mode 0 ranges from 20% to 80% across chains."]
    assert chain_shares(None) == []
    assert chain_shares(weights_of([[0.5, 0.5]], 9)) == []


@pytest.mark.parametrize(
    ("kind", "chains", "words"),
    [
        ("missing mode", True, "start chains at every mode (`m`)"),
        ("mode share", False, "sample again from every mode"),
        ("scale", False, "variational inference"),
        ("scale", True, "step size"),
        ("location", False, "Jacobians"),
        ("chains", True, "warm-up"),
        ("impossible draws", False, "rows that are named"),
        ("tails", False, "plot.pairs"),
    ],
)
def test_advice(kind, chains, words):
    finding = Finding.without_size(kind, None, 0.01, "text")
    steps = advice(False, [finding], chains=chains, weighable=kind == "mode share", locations="m")
    assert any(words in step for step in steps)
    assert any("weight the draws" in step for step in steps) == (kind == "mode share")


def test_no_advice_without_a_misfit():
    assert advice(True, (), chains=False, weighable=True, locations="m") == ()
    assert advice(None, (), chains=False, weighable=True, locations="m") == ()
