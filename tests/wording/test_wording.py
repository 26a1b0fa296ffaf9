import numpy as np
import pytest

import steincheck as sc
from steincheck.result import ChainWeights, Finding
from steincheck.wording import (
    advice,
    chain_shares,
    mode_descriptions,
)
from steincheck.wording.chains import words_listed


def test_places_name_the_coordinates_in_which_modes_differ():
    locations = np.zeros((2, 10))
    locations[1, 8] = 5
    assert mode_descriptions(locations, [f"x[{k}]" for k in range(10)])[1].endswith("x[8] = 5, ...")
    assert mode_descriptions(np.array([[1e-12, 2.0]]), ["a", "b"]) == ("a = 0, b = 2",)


def weights_of(shares, n_changes=0):
    shares = np.asarray(shares)
    chains = ChainWeights(len(shares), 4, 1.0, 10.0, n_changes, np.ones(shares.shape[1]), shares)
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
        ("missing mode", True, "start chains in every mode (locations: `m`)"),
        ("mode share", False, "sample again from every mode"),
        ("scale", False, "variational inference"),
        ("scale", True, "step size"),
        ("location", False, "Jacobians"),
        ("chains", True, "warm-up"),
        ("impossible draws", False, "draws named above"),
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


def sized(kind, estimate, *parameters):
    return Finding(kind, None, parameters, estimate, (np.nan, np.nan), 0.01, "text")


def test_advice_follows_the_largest_effects():
    options = {"chains": False, "weighable": False, "locations": "m", "scales": {"sigma": "log"}}
    shift = sized("location", 0.6, "sigma")
    steps = advice(False, [shift, sized("scale", 1.02, "sigma")], **options)
    assert len(steps) == 1
    assert "must contain + log sigma" in steps[0]
    steps = advice(False, [shift, sized("scale", 0.2, "sigma")], **options)
    assert len(steps) == 1
    assert "variational" in steps[0]
    steps = advice(False, [sized("location", 0.5, "mu"), sized("scale", 1.6, "mu")], **options)
    assert ["Jacobians" in step for step in steps] == [True, False]
    chains = advice(False, [shift], **options | {"chains": True})
    assert ["+ log sigma" in step for step in chains] == [True, False]


def test_chains_at_every_mode_are_not_told_to_start_there():
    found = [Finding.without_size("mode share", 0, 0.01, "text")]
    options = {"chains": True, "locations": "m", "stuck": True}
    assert not any("start chains" in step for step in advice(False, found, weighable=True, **options))
    (only,) = advice(False, found, weighable=False, **options)
    assert only.startswith("use a sampler that moves between modes")


def test_warm_up_is_the_only_advice_about_first_draws():
    found = [Finding.without_size(kind, None, 0.01, "text") for kind in ("impossible draws", "chains")]
    (only,) = advice(False, found, chains=True, weighable=False, locations="m", warm_up=True)
    assert only.startswith("discard the warm-up")


def test_a_verdict_without_tests_has_no_table():
    flat = sc.Target(lambda x: 0.0 * x[:, 0], lambda x: 0.0 * x, dim=1)
    verdict = sc.check(np.random.default_rng(0).normal(size=(100, 1)), flat, max_evaluations=2000, rng=0)
    assert not verdict.tests
    assert "what was tested" not in str(verdict) + verdict._repr_html_()


def test_which_chain_differs_or_that_the_beginnings_do():
    rng = np.random.default_rng(0)
    target = sc.models.gaussian_mixture([[0.0]])
    x = rng.normal(size=(4, 500, 1))
    x[2] += 2
    verdict = sc.check(x, target, modes=[[0.0]], rng=0)
    assert any(one.text.startswith("Chain 2 differs from the others") for one in verdict.findings)
    late = rng.normal(size=(4, 500, 1))
    late[:, :125] += 1.5
    verdict = sc.check(late, target, modes=[[0.0]], rng=0)
    assert any(one.text.startswith("The beginnings of the chains differ") for one in verdict.findings)


def test_long_lists_are_cut():
    names = [str(k) for k in range(12)]
    assert words_listed(names) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."
    assert words_listed(names[:3]) == "0, 1 and 2"
