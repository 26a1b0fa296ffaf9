"""Sentences of a verdict."""

import numpy as np
import pytest

from steincheck.wording.verdict import _all_of, impossible_text, remark, remedies, sampler_warnings


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(1, 1, "The sd is"), (2, 2, "Both sds are"), (3, 3, "All 3 sds are"), (8, 10, "8 of 10 sds are")],
)
def test_some_or_all_numbers(count, total, text):
    assert _all_of(count, total, "sd") == text


def test_singular_and_plural():
    assert impossible_text([3, 5], 100).startswith("2 of 100 draws are of negligible probability")
    assert sampler_warnings(0, np.array([1.0, np.nan]), ["a", "b"]) == []


def test_reasons_have_remedies():
    few = remark("few draws", n=20, least=50, more="take more draws")
    assert few.text == "20 draws are too few: below 50 a non-rejection is inconclusive"
    assert remedies([few.remedy, few.remedy]) == ["take more draws, then check again"]
