"""Gradients of 4000 draws of eight schools, after compilation; CPU time, as the machine may be busy."""

import time

import numpy as np
import pytest

pytestmark = pytest.mark.adapters


@pytest.mark.parametrize(("package", "limit"), [("numpyro", 0.05), ("pymc", 0.05), ("stan", 0.1)])
def test_scores_of_4000_draws(package, limit, target_of):
    target = target_of(package, "schools")
    x = np.random.default_rng(6).normal(size=(4000, target.dim))
    target.score(x)
    seconds = []
    for _ in range(5):
        start = time.process_time()
        target.score(x)
        seconds.append(time.process_time() - start)
    assert min(seconds) <= limit
