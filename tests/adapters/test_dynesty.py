"""Runs of dynesty are read with their weights and threads."""

import numpy as np
import pytest

import steincheck as sc

pytestmark = pytest.mark.adapters


def test_results_are_read_with_weights_and_threads():
    import dynesty

    sampler = dynesty.NestedSampler(
        lambda x: -0.5 * float(np.sum(x**2)),
        lambda u: 16 * u - 8,
        2,
        nlive=50,
        rstate=np.random.default_rng(0),
    )
    sampler.run_nested(print_progress=False)
    results = sampler.results
    draws = sc.as_draws(results)
    assert draws.weight.mean() == pytest.approx(1)
    np.testing.assert_allclose(draws.weight / draws.weight.sum(), results.importance_weights(), atol=1e-12)
    assert len(np.unique(draws.group)) == 50
    assert np.cov(draws.values, rowvar=False, aweights=draws.weight) == pytest.approx(np.eye(2), abs=0.3)
