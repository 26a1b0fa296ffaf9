from dataclasses import replace

import numpy as np
import pytest
from harness import standard_normal

import steincheck as sc
from steincheck.result import ChainWeights, Finding, GofResult, MomentFeature
from steincheck.verdict import answer
from steincheck.verdict.combine import combine
from steincheck.wording import (
    advice,
    chain_shares,
    describe,
    describe_impossible,
    mode_descriptions,
    moment_findings,
)
from steincheck.wording.chains import words_listed
from steincheck.wording.groups import describe_group
from steincheck.wording.moments import as_sentence

LOG = {"estimate": -0.6, "interval": (-0.7, -0.5), "t": 9.0, "pvalue": 0.001, "scales": ("log",)}


def feature(kind, **changes):
    fields = LOG | {"observed": np.log(2.0), "expected": np.log(3.0)} | changes
    return MomentFeature(kind, changes.pop("basis", "parameter"), None, ("sigma",), (), **fields)


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
    assert as_sentence(describe(record), record.parameters).startswith(begin)


def test_a_correlation_names_the_scale_of_each_parameter():
    pair = MomentFeature(
        "correlation",
        "parameter",
        None,
        ("sigma", "mu"),
        (),
        0.9,
        (0.8, 1.0),
        0.0,
        -0.9,
        9.0,
        0.001,
        ("log", ""),
    )
    assert describe(pair) == "correlation of sigma (on the log scale) and mu: 0.00, should be -0.90"


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


@pytest.fixture(scope="module")
def moments():
    """A result of the moment test, to be changed."""
    target = standard_normal(1)
    return sc.moment_test(np.random.default_rng(0).normal(size=(200, 1)), target, modes=[[0.0]], rng=0)


@pytest.mark.parametrize(
    ("rows", "where"),
    [
        ((0, 1, 100, 201), "the first draws of chains 0, 1 and 2, up to draw 1"),
        ((100,), "the first draws of chain 1, up to draw 0"),
        ((0, 150), "chain 0, draw 0; chain 1, draw 50, counted from 0"),
    ],
)
def test_impossible_draws_are_named_by_chain(moments, rows, where):
    result = replace(moments, impossible_rows=rows)
    many = f"At least {len(rows)} draws are" if len(rows) > 1 else "One draw is"
    chain = np.repeat([0, 1, 2], 100)
    assert (
        describe_impossible(result, chain) == f"{many} of negligible probability under the density ({where})"
    )
    assert f"({'row' if len(rows) == 1 else 'rows'} " in describe_impossible(result)
    alone = describe_impossible(replace(moments, impossible_rows=(0, 3)), np.zeros(200, dtype=int))
    assert alone.endswith("(the first draws, up to draw 3)")


def scale(name, factor, kind="scale", **changes):
    fields = {"observed": factor, "expected": 1.0, "t": 20.0, "pvalue": 0.001} | changes
    return MomentFeature(kind, "parameter", None, (name,), (), factor, (0.9 * factor, 1.1 * factor), **fields)


def test_many_misfits_of_one_kind_share_a_sentence(moments):
    names = [f"x[{k}]" for k in range(10)]
    features = [scale(name, 0.5 - 0.02 * k) for k, name in enumerate(names)]
    features.append(scale("x[3]", 0.9, "location", observed=0.9, expected=6.97e-06))
    pairs = [(names[k], names[k + 1]) for k in range(0, 10, 2)]
    features += [
        MomentFeature("correlation", "parameter", None, pair, (), -0.8, (-0.9, -0.7), 0.0, 0.8, 9.0, 0.001)
        for pair in pairs
    ]
    found = moment_findings(replace(moments, features=tuple(features)), 0.001, 0.05, names=names)
    assert [finding.text for finding in found] == [
        "x[0] ... x[9] are 2 to 3.12 times too narrow, x[9] the most: sd of the draws 0.32, should be 1",
        "Mean of x[3] is 0.9 sd (0.81 to 0.99) too high: mean of the draws 0.9, should be 0",
        "Correlations are too weak, among them those of x[0] and x[1]: 0.00, should be 0.80; "
        "x[2] and x[3]: 0.00, should be 0.80; x[4] and x[5]: 0.00, should be 0.80",
    ]
    assert set(found[0].parameters) == set(names)
    assert found[0].estimate == pytest.approx(0.32)


def test_means_and_tails_of_many_parameters_share_sentences(moments):
    names = list("abcdefgh")
    features = [scale(name, 0.3, "location", observed=0.3, expected=0.0) for name in "abce"]
    assert said_of(moments, features, names) == [
        "Means of a, b, c and e are 0.3 sd too high: mean of the draws 0.3, should be 0"
    ]
    heavy = [scale(name, 0.1, "tails", t=9.0) for name in "acdeg"]
    assert said_of(moments, heavy, names) == [
        "The tails of a, c, d and 2 more, each given the others, are too heavy"
    ]
    skew = [scale(name, 0.1, "skewness", t=9.0, scales=("log",)) for name in "abcd"]
    assert said_of(moments, skew, names) == [
        "a, b, c and d, each given the others, are too skewed to the right on the log scale"
    ]


def said_of(moments, features, names):
    result = replace(moments, features=tuple(features))
    return [finding.text for finding in moment_findings(result, 0.001, 0.05, names=names)]


def test_findings_that_are_left_out_are_counted(moments):
    features = [scale(f"x[{k}]", 0.5, scales=(str(k),)) for k in range(12)]  # no two share a sentence
    texts = said_of(moments, features, [f"x[{k}]" for k in range(12)])
    assert len(texts) == 9
    assert texts[-1].startswith("And 4 more: ")


def test_a_verdict_without_tests_has_no_table():
    flat = sc.Target(lambda x: 0.0 * x[:, 0], lambda x: 0.0 * x, dim=1)
    verdict = sc.check(np.random.default_rng(0).normal(size=(100, 1)), flat, max_evaluations=2000, rng=0)
    assert not verdict.tests
    assert "what was tested" not in str(verdict) + verdict._repr_html_()


NAN = float("nan")


@pytest.mark.parametrize(
    ("changes", "rough", "words"),
    [
        ({"kind": "location", "estimate": 0.6}, True, "mean of sigma is too high, by roughly 0.6 sd"),
        ({"kind": "location", "estimate": -0.6}, True, "mean of sigma is too low, by roughly 0.6 sd"),
        ({"kind": "scale", "estimate": 0.0}, True, "sigma is constant"),
        ({"kind": "scale", "estimate": 1e-4}, True, "sigma is too narrow, by orders of magnitude"),
        (
            {"kind": "location", "estimate": 0.6, "interval": (0.5, 0.7), "observed": NAN},
            False,
            "mean of sigma is 0.6 sd (0.5 to 0.7) too high",
        ),
        (
            {"kind": "scale", "basis": "axis 1", "estimate": 0.5, "interval": (0.4, 0.6)},
            False,
            "principal axis 1 is 2.00 (1.67 to 2.50) times too narrow",
        ),
        (
            {"kind": "scale", "basis": "axis 1", "parameters": ("a", "b"), "loadings": (0.6, -0.8)}
            | {"scales": ("", "log"), "estimate": 0.5, "interval": (0.4, 0.6)},
            False,
            "principal axis 1 (0.60 a -0.80 log b) is 2.00 (1.67 to 2.50) times too narrow",
        ),
        (
            {"kind": "correlation", "parameters": ("a", "b"), "observed": 0.5, "expected": NAN},
            False,
            "correlation of a and b is wrong: 0.50",
        ),
    ],
)
def test_misfits_in_words(changes, rough, words):
    assert describe(replace(feature("scale", scales=()), **changes), rough=rough).startswith(words)


def test_many_misfits_that_no_shift_corrects_are_named_together():
    means = [replace(feature("location", estimate=NAN), parameters=(name,)) for name in "abcd"]
    assert describe_group(means, "abcd", describe, rough=False) == (
        "means of a, b, c and d do not fit, and no shift or rescaling corrects them"
    )
    spreads = [replace(one, kind="scale") for one in means]
    assert describe_group(spreads, "abcd", describe, rough=False).startswith(
        "spreads of a, b, c and d do not fit"
    )
    pairs = [replace(one, kind="correlation", parameters=("a", one.parameters[0])) for one in means[1:]]
    assert describe_group(pairs, "abcd", describe, rough=False) == (
        "correlations do not fit, among them those of a and b; a and c; a and d"
    )


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


def test_moments_are_judged_by_their_own_factor_of_holm(moments):
    features = (scale("a", 0.5, pvalue=0.013), scale("b", 0.9, "location", pvalue=0.02))
    tests = {
        "kernel": GofResult("KSDAgg test", 1.0, 0.012, None, 100, 2),
        "moments": replace(moments, pvalue=0.013, features=features, impossible_rows=()),
        "chains": GofResult("agreement of the chains", 1.0, 0.5, None, 100, 2),
    }
    combined = combine(tests, 0.05)
    assert combined.adjusted_pvalues["moments"] == pytest.approx(
        0.036
    )  # that of the kernel test: 2 x 0.013 is less
    target = standard_normal(2, names=["a", "b"])
    found = answer._findings(combined, target, ("",), None)
    assert {finding.parameters: finding.pvalue for finding in found} == {
        ("a",): pytest.approx(0.036),
        ("b",): pytest.approx(0.04),
    }


def test_rough_sizes_have_no_interval_and_no_factor_of_one():
    """Where the shape is wrong too, an interval would claim a precision that there is not."""
    target = standard_normal(1, names=["v"])
    draws = np.random.default_rng(0).normal(size=(4000, 1))
    verdict = sc.check(draws[draws[:, 0] > -0.7][:2000], target, rng=0)
    sized = [finding for finding in verdict.findings if finding.kind in ("location", "scale")]
    assert sized
    assert all(np.isnan(finding.interval).all() for finding in sized)
    assert not any("roughly 1.0" in finding.text for finding in verdict.findings)
