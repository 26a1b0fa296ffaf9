import json
from pathlib import Path

import numpy as np
import pytest
from harness import autoregressive
from scipy import stats

from steincheck._whitening import normal_scores
from steincheck.chains.diagnostics import convergence

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "convergence.json").read_text())


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: f"{case['chains']}x{case['length']}")
def test_ess_and_rhat_are_those_of_arviz(case):
    rng = np.random.default_rng(case["seed"])
    x = autoregressive(rng.normal(size=(case["chains"], case["length"])).T, case["rho"]).T
    x[0] += case["shift"]
    if case["digits"]:
        x = np.round(x, case["digits"])
    found = convergence(x.reshape(-1, 1), np.repeat(np.arange(case["chains"]), case["length"]))
    assert found.ess_bulk[0] == pytest.approx(case["ess_bulk"], rel=1e-9)
    assert found.ess_tail[0] == pytest.approx(case["ess_tail"], rel=1e-9)
    if case["rhat"] is not None:
        assert found.rhat[0] == pytest.approx(case["rhat"], rel=1e-9)


def test_convergence_of_odd_chains():
    x = np.random.default_rng(0).normal(size=(303, 2))
    chain = np.repeat([0, 1], [200, 103])
    x[:, 1] = 3.0
    found = convergence(x, chain)
    even = convergence(np.concatenate([x[:103], x[200:]]), np.repeat([0, 1], 103))
    assert found.rhat[0] == even.rhat[0]
    assert np.isnan(found.rhat[1])
    assert found.ess_bulk[1] == 204
    assert np.isnan(convergence(x[:6], np.repeat([0, 1], 3)).ess_bulk).all()
    still = np.concatenate([np.zeros((50, 1)), np.ones((50, 1))])
    assert convergence(still, np.repeat([0, 1], 50)).rhat[0] == np.inf


@pytest.mark.parametrize("offset", [0.5, 3 / 8])
def test_normal_scores_are_quantiles_of_mean_ranks(offset):
    x = np.random.default_rng(3).integers(5, size=(4, 9)).astype(float)
    ranks = stats.rankdata(x).reshape(x.shape)
    expected = stats.norm.ppf((ranks - offset) / (x.size + 1 - 2 * offset))
    np.testing.assert_allclose(normal_scores(x, offset=offset), expected, rtol=1e-13, atol=1e-15)
