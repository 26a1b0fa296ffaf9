"""What `check` names when the weights of the modes are wrong."""

import numpy as np
import pytest
from scipy import stats

import steincheck as sc
from steincheck.flux import flux_test
from steincheck.flux.findings import weight_findings

PLACES = np.array([[0.0], [10.0], [20.0], [30.0]])
TARGET = sc.models.gaussian_mixture(PLACES)


def draws_with(counts, seed):
    noise = np.random.default_rng(seed).normal(size=(sum(counts), 1))
    return np.repeat(PLACES, counts, axis=0) + noise


def test_a_verdict_names_modes_at_its_own_level():
    alpha = 0.05
    x = draws_with([400, 100, 286, 214], 0)
    verdict = sc.check(x, TARGET, modes=PLACES, independent=True, alpha=alpha, rng=0)
    named = sorted(float(verdict.modes.locations[f.mode, 0]) for f in verdict.findings if f.mode is not None)
    np.testing.assert_allclose(named, [0, 10], atol=1e-6)  # the others: three tests times .034
    assert sum(word in ("too many draws", "too few draws") for word in verdict.mode_table.words) == 2
    assert all(verdict.adjusted_pvalues["weights"] <= f.pvalue <= alpha for f in verdict.findings)


def test_a_mode_has_its_own_pvalue():
    x = draws_with([400, 150, 250, 200], 1)
    verdict = sc.check(x, TARGET, modes=PLACES, independent=True, rng=0)
    shares = [f for f in verdict.findings if f.kind == "mode share"]
    found = {float(verdict.modes.locations[f.mode, 0].round()): f.pvalue for f in shares}
    least = 3 * 4 * 2 * stats.norm.sf(50 / np.sqrt(1000 * 0.25 * 0.75))
    assert found[30.0] == pytest.approx(least, rel=0.05)
    assert found[0.0] < found[30.0]
    assert 20.0 not in found


def test_a_missing_mode_comes_first():
    x = draws_with([450, 250, 300, 0], 2)
    result = flux_test(x, TARGET, modes=PLACES, independent=True, rng=0)
    where = [f"x = {place:.0f}" for place in result.modes.locations[:, 0]]
    first, *others = weight_findings(result, where, ["x"], {}, 1e-6)
    assert first.kind == "missing mode"
    assert first.text.startswith(f"Mode {first.mode} (x = 30) is missing: 0.0% of the draws, but the density")
    assert first.interval[0] < 0.25 < first.interval[1]
    assert {f.kind for f in others} == {"mode share"}


def test_a_trend_is_named_where_no_mode_stands_out():
    places = 7.0 * np.arange(8)[:, None] + 0.3 * np.arange(8)[:, None] ** 2
    target = sc.models.gaussian_mixture(places, np.tile([[[1.0]], [[2.0]]], (4, 1, 1)))
    x = target.sample(1000, rng=6, weights=0.125 + 0.005 * (np.arange(8) - 3.5))
    result = flux_test(x, target, modes=places, rng=0)
    (finding,) = weight_findings(result, [""] * 8, ["height"], {}, 0.01)
    assert finding.kind == "trend"
    assert finding.text.endswith("too many draws at modes with a large height")
