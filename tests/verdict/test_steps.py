"""Holm's method and the table of docs/theory/level.md."""

import numpy as np
import pytest
from harness import assert_level
from scipy import stats

from steincheck.result import GofResult
from steincheck.verdict.steps import close_to_level, combine


def results(pvalues):
    return {name: GofResult(name, 0.0, p, None, 100, 2) for name, p in pvalues.items()}


def test_a_test_that_could_not_be_made_takes_its_place_and_never_rejects():
    combined = combine(results({"a": 0.02, "b": np.nan}), 0.05)
    assert combined.adjusted_pvalues == pytest.approx({"a": 0.04, "b": 1.0})
    assert combined.rejected == {"a"}


def test_the_parts_of_the_level_add_up():
    """Each of m tests rejects alone exactly if its p-value is at most alpha / m: m parts make the level."""
    names = ("kernel", "moments", "weights", "chains")
    for m in range(1, len(names) + 1):
        for name in names[:m]:
            others = {other: 1.0 for other in names[:m]}
            at_part = combine(results(others | {name: 0.05 / m}), 0.05)
            beyond = combine(results(others | {name: np.nextafter(0.05 / m, 1) + 1e-12}), 0.05)
            assert at_part.rejected == {name}
            assert not beyond.rejected


def test_the_level_is_kept_whatever_the_dependence():
    """The worst dependence: exactly one of four p-values is small, in turn."""
    rng = np.random.default_rng(0)
    decisions = []
    for _ in range(2000):
        u = rng.uniform()
        k = int(4 * u)
        pvalues = {str(j): (4 * u - k) / 4 if j == k else 0.25 + 0.75 * rng.uniform() for j in range(4)}
        decisions.append(bool(combine(results(pvalues), 0.05).rejected))
    assert_level(np.array(decisions), 0.05, exact=True)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_the_second_look_adds_nothing_to_the_level(m):
    """One of m tests, of infinitely many replicates a uniform p-value, of which 1000 and 10,000 are drawn.

    Given k of 999 replicates beyond the statistic, that p-value is Beta(k + 1, 1000 - k).
    """
    below = np.arange(1, 1000) / 1000 <= 0.05 / m
    rejects = below.astype(float)
    for i in range(999):
        tests = {"a": GofResult("a", 0.0, (i + 1) / 1000, np.zeros(999), 100, 2)}
        if close_to_level(combine(tests | results({str(j): 1.0 for j in range(1, m)}), 0.05)):
            rejects[i] = stats.betabinom.cdf(np.floor(10_000 * 0.05 / m) - 1, 9999, i + 1, 1000 - i)
    assert 0 < (rejects != below).sum() < 100
    assert 0.05 / m - 1e-4 < rejects.sum() / 1000 < 0.05 / m + 1e-5  # 500 / 3 is no whole number


def test_replicates_go_on_where_the_adjusted_pvalue_is_close_to_the_level():
    """1000 replicates: at p = .025 the standard error of 2 p is .01, and 3 of them reach from .02 to .08."""
    for pvalue, close in ((0.001, []), (0.015, ["a"]), (0.025, ["a"]), (0.06, [])):
        tests = {
            "a": GofResult("a", 0.0, pvalue, np.zeros(999), 100, 2),
            "b": GofResult("b", 0.0, 0.9, None, 100, 2),
        }
        assert close_to_level(combine(tests, 0.05)) == close
