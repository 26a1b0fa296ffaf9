"""Sentences of a verdict and its advice."""

import numpy as np
import pytest

from steincheck.wording.verdict import (
    _all_of,
    advice,
    few_draws,
    impossible_text,
    level_out_of_reach,
    limited_texts,
    sampler_warnings,
)


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(1, 1, "The sd is"), (2, 2, "Both sds are"), (3, 3, "All 3 sds are"), (8, 10, "8 of 10 sds are")],
)
def test_some_or_all_numbers(count, total, text):
    assert _all_of(count, total, "sd") == text


def test_singular_and_plural():
    assert impossible_text([3, 5], 100).startswith("2 of 100 draws are of negligible probability")
    assert sampler_warnings(0, np.array([1.0, np.nan]), ["a", "b"]) == []
    assert limited_texts(None, 10) == limited_texts(10, 10) == ()


def test_an_answer_without_a_finding_has_the_remedies_of_its_reasons():
    remarks = [few_draws(20, 50, "take more draws"), level_out_of_reach("ksd test", 1e-6, 1e-3)]
    assert advice((), remarks) == (
        "take more draws, then check again",
        "choose `alpha` above 0.001, then check again",
    )


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (("wrong shares", "reweightable", "stuck"), "weight the draws"),
        (("wrong shares", "Markov chains"), "start chains in every mode (at `verdict.starting_points`)"),
        (("wrong shares",), "sample again from every mode"),
        (("wrong numbers", "Markov chains"), "do not use these chains"),
        (("wrong numbers",), "if the draws come from an approximation"),
        (("warm-up", "odd chain", "wrong numbers", "Markov chains"), "discard the warm-up"),
    ],
)
def test_advice_follows_the_findings_and_the_source(given, first):
    assert advice(given, ())[0].startswith(first)
