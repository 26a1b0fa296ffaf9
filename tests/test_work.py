"""Tiles and slow densities shared out through joblib: threads, processes, and a Dask cluster."""

import os
import signal
import threading
import time
from itertools import repeat

import joblib
import numpy as np
import pytest
from harness import standard_normal

import steincheck as sc
from steincheck import _work as sharing
from steincheck.stein import tiles
from steincheck.target import log_density_at
from steincheck.target.evaluation import Budget, CountedTarget

N = 3000


@pytest.fixture
def few_draws_are_shared(monkeypatch):
    monkeypatch.setattr(tiles, "MIN_EVALUATIONS_TO_SHARE", 0)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    target = standard_normal(3)
    return rng.normal(0.02, 1.0, size=(N, 3)), target


@pytest.fixture(scope="module")
def alone(problem):
    draws, target = problem
    return sc.ksdagg_test(draws, target, bootstrap="blocks", rng=0)


@pytest.fixture(scope="module")
def client():
    """Of a Dask scheduler with two workers, each a process of its own that is replaced if it is lost."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as connected:
        yield connected


def agree(one, other):
    np.testing.assert_allclose(one.statistics, other.statistics, rtol=1e-9)
    assert one.pvalue == other.pvalue


def test_without_a_backend_there_is_one_worker():
    assert sharing.n_workers() == 1
    with joblib.parallel_config(backend="threading", n_jobs=3):
        assert sharing.n_workers() == 3


@pytest.mark.usefixtures("few_draws_are_shared")
def test_threads_give_the_same_pvalue(problem, alone):
    with joblib.parallel_config(backend="threading", n_jobs=2):
        agree(sc.ksdagg_test(*problem, bootstrap="blocks", rng=0), alone)


@pytest.mark.usefixtures("few_draws_are_shared")
def test_a_stack_of_samples_and_row_sums_are_shared_out(problem):
    x = np.stack([problem[0][:1100], problem[0][1100:2200]])
    block = np.random.default_rng(1).permutation(1100) % 11
    one = tiles.sums_of_block_pairs(x, -x, sc.IMQ(), [1.0, 4.0], block, row_sums=True)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        other = tiles.sums_of_block_pairs(x, -x, sc.IMQ(), [1.0, 4.0], block, row_sums=True)
    np.testing.assert_allclose(other.table, one.table, rtol=1e-9, atol=1e-9 * np.abs(one.table).max())
    np.testing.assert_allclose(other.row_sums, one.row_sums, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("few_draws_are_shared")
def test_a_dask_cluster_gives_the_same_pvalue_and_survives_the_loss_of_a_worker(problem, alone, client):
    """The worker is killed while it computes; before and after, the p-value is that of one process."""
    first, *_ = client.run(os.getpid).values()

    done = threading.Event()

    def kill_when_busy():
        while not done.wait(0.002):
            if any(client.processing().values()):  # all have the arrays by now
                os.kill(first, signal.SIGKILL)
                return

    with joblib.parallel_config(backend="dask"):
        agree(sc.ksdagg_test(*problem, bootstrap="blocks", rng=0), alone)
        killer = threading.Thread(target=kill_when_busy, daemon=True)
        killer.start()
        agree(sc.ksdagg_test(*problem, bootstrap="blocks", rng=0), alone)
        done.set()
        killer.join()
    client.wait_for_workers(2, timeout=30)
    assert first not in client.run(os.getpid).values()


def slow_log_density(x):
    if (x > 50).any():
        raise OverflowError("too far")
    time.sleep(0.01 * len(x))
    return -0.5 * np.sum(x**2, axis=1)


def processes(x):
    """The process in which each row is evaluated."""
    time.sleep(0.01 * len(x))
    return np.full(len(x), float(os.getpid()))


def assert_shared():
    rows = np.random.default_rng(0).normal(size=(60, 2))
    found = set(log_density_at(sc.Target(processes, dim=2, jax_log_density=np.sum), rows))
    assert len(found) == 3  # two workers, and this process for the first two rows
    budget = Budget()
    density = CountedTarget(sc.Target(slow_log_density, dim=2), budget)
    np.testing.assert_allclose(density.log_density(rows), -0.5 * np.sum(rows**2, axis=1))
    np.testing.assert_allclose(density.score(rows[:10]), -rows[:10], atol=1e-6)
    assert budget.made == 60 + 5 * 10
    far = np.concatenate([rows, [[99.0, 0.0]]])
    assert np.isneginf(density.log_density(far)).tolist() == [False] * 60 + [True]


@pytest.mark.slow
def test_slow_densities_are_shared_out_among_processes():
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert_shared()
        mixture = sc.models.gaussian_mixture([[0.0, 0.0]])  # compiled: it stays here
        assert mixture.log_density(np.zeros((20, 2))).shape == (20,)
        unknown = (lambda lock: lambda x: slow_log_density(x) + 0 * len([lock]))(threading.Lock())
        assert log_density_at(sc.Target(unknown, dim=2), np.zeros((20, 2))).tolist() == [0.0] * 20


@pytest.mark.slow
@pytest.mark.usefixtures("client")
def test_slow_densities_are_shared_out_on_a_dask_cluster():
    with joblib.parallel_config(backend="dask"):
        assert_shared()


def square(numbers, k, fails):
    if fails and next(fails, False):
        raise ConnectionError("the worker is gone")
    return numbers[k] ** 2


def test_what_a_lost_worker_owed_is_computed_again():
    lost = iter([True])
    parts = [(k, lost if k == 3 else None) for k in range(6)]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        found = sorted(sharing.share_out(square, [np.arange(6)], parts))
    assert found == [0, 1, 4, 9, 16, 25]


def test_an_error_of_the_work_itself_is_raised():
    with (
        joblib.parallel_config(backend="threading", n_jobs=2),
        pytest.raises(ConnectionError, match="gone"),
    ):
        list(sharing.share_out(square, [np.arange(4)], [(k, repeat(k == 2)) for k in range(4)]))
