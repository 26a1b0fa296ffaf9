"""Sentences of a verdict and its advice."""

import numpy as np
import pytest

from steincheck.wording.verdict import (
    Situation,
    _all_of,
    advice,
    impossible_text,
    limited_texts,
    mixing_warnings,
    more_text,
)


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(1, 1, "The sd is"), (2, 2, "Both sds are"), (3, 3, "All 3 sds are"), (8, 10, "8 of 10 sds are")],
)
def test_some_or_all_numbers(count, total, text):
    assert _all_of(count, total, "sd") == text


def test_singular_and_plural():
    assert more_text(1, "mode", "x") == "And 1 more mode: see `x`"
    assert impossible_text([3, 5], 100).startswith("2 of 100 draws are of negligible probability")
    assert mixing_warnings(np.array([1.0, np.nan]), ["a", "b"]) == []
    assert limited_texts(None, 10) == limited_texts(10, 10) == ()


@pytest.mark.parametrize("obstacle", [None, "few draws", "order of the draws", "density", "wide intervals"])
def test_every_answer_but_yes_has_advice(obstacle):
    situation = Situation(kinds=frozenset(), chains=False, obstacle=obstacle)
    assert advice(True, situation) == ()
    assert advice(None, situation)[0].endswith(", then check again")


def test_wrong_shares_alone_do_not_call_for_a_richer_family():
    situation = Situation(kinds=frozenset({"mode share", "mean", "sd"}), chains=False, reweightable=True)
    assert advice(False, situation) == (
        "weight the draws: `verdict.importance_weights` restore the mode shares of the density",
    )
