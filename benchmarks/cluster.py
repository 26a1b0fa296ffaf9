"""Two Dask workers against one: ``python -m benchmarks.cluster [n]`` prints wall-clock seconds of `ksd_test`.

Scheduler and workers are processes on the loopback interface with one thread each, so that the machine needs
two idle cores.
"""

from __future__ import annotations

import json
import os
import sys
import time

import joblib
import numpy as np

import steincheck as sc

from .table import ONE_THREAD

REPETITIONS = 3


def seconds(n_workers: int, draws: np.ndarray, target: sc.Target) -> tuple[float, float]:
    """The shortest of some calls, without that in which the workers compile, and the p-value."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        times = []
        for _ in range(REPETITIONS + 1):
            start = time.perf_counter()
            result = sc.ksd_test(draws, target, bootstrap="blocks", check_score=False, rng=0)
            times.append(time.perf_counter() - start)
    return min(times[1:]), result.pvalue


def main() -> None:
    os.environ.update(ONE_THREAD)
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 65_536
    draws = np.random.default_rng(0).normal(size=(n, 10))
    target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=10)
    one, p_one = seconds(1, draws, target)
    two, p_two = seconds(2, draws, target)
    record = {"n": n, "one": one, "two": two, "times": one / two, "same p": p_one == p_two}
    print(json.dumps({**record, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
