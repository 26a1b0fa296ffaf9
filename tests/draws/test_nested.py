"""Runs of nested sampling: sums over bundles of threads, in every test."""

from types import SimpleNamespace

import numpy as np
import pytest
from harness import BIMODAL_MODES, bimodal, bimodal_draws

import steincheck as sc
from steincheck.chains.blocks import block_sums
from steincheck.draws.nested import Threads


def exact_run(n_live, dim, rng):
    """Results of a run on the standard normal distribution in a ball of radius 8, each volume drawn exactly.

    Each thread is a Poisson process of rate 1 in minus the logarithm of the volume.
    """
    counts = rng.poisson(25.0, size=n_live)
    depth = rng.uniform(0, 25.0, size=counts.sum())
    order = np.argsort(depth)
    u = rng.normal(size=(len(depth), dim))
    x = 8 * np.exp(-depth[order, None] / dim) * u / np.linalg.norm(u, axis=1, keepdims=True)
    log_volume = np.arange(1, len(x) + 1) * np.log(n_live / (n_live + 1))
    return SimpleNamespace(
        samples=x,
        samples_id=np.repeat(np.arange(n_live), counts)[order],
        logvol=log_volume,
        logwt=log_volume - 0.5 * np.sum(x**2, axis=1),
    )


def test_variance_of_sums_over_runs():
    """Threads with their weights as they are would give a third of it: the counted volumes vary."""
    rng = np.random.default_rng(0)
    total, estimate = [], []
    for _ in range(300):
        draws = sc.as_draws(exact_run(60, 3, rng))
        features = draws.weight[:, None] * (3 - np.sum(draws.values**2, axis=1, keepdims=True))
        sums = block_sums(features, *draws.threads)
        np.testing.assert_allclose(sums.sum(), features.sum(), atol=1e-8)
        total.append(features.sum())
        estimate.append(len(sums) * np.var(sums, ddof=1))
    assert 0.7 < np.var(total) / np.mean(estimate) < 1.4


@pytest.mark.parametrize("test", [sc.ksd_test, sc.fssd_test, sc.moment_test, sc.flux_test])
def test_parts_of_two_cells_each_are_groups(test):
    rng = np.random.default_rng(0)
    x = bimodal_draws(0.45, 400, rng)
    group = np.repeat(np.arange(40), 10)
    cells = Threads(2 * group + np.arange(400) % 2, np.repeat(np.eye(40), 2, axis=1))
    options = {"modes": BIMODAL_MODES} if test in (sc.moment_test, sc.flux_test) else {}
    if test is sc.fssd_test:
        options = {"locations": [[0.0], [5.0]]}
    by_group, by_cell = (
        test(sc.Draws(x, group=group, threads=threads), bimodal(), rng=0, **options)
        for threads in (None, cells)
    )
    assert by_cell.statistic == pytest.approx(by_group.statistic)
    assert by_cell.pvalue == pytest.approx(by_group.pvalue, abs=0.05)
