"""Two Dask workers against one: ``python -m benchmarks.scale [n]`` measures wall-clock times of `ksd_test`.

Results: benchmarks/results/scale.md. Scheduler and workers are processes on the loopback interface with one
thread each, so that the machine needs two idle cores. Workers keep freed memory (`KEEP_MEMORY`): by default
those of Dask return it to the system, and get it back page by page for every tile, which takes a third
longer.
"""

from __future__ import annotations

import os
import sys
import time

import joblib
import numpy as np

import steincheck as sc

from .table import ONE_THREAD, RESULTS, provenance

REPETITIONS = 3
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 10**9, "MALLOC_MMAP_THRESHOLD_": 10**9}


def seconds(n_workers: int, draws: np.ndarray, target: sc.Target) -> tuple[float, float]:
    """The shortest of some calls, without that in which the workers compile, and the p-value."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": {**ONE_THREAD, **KEEP_MEMORY}}),
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
    same = "the same" if p_one == p_two else f"{p_one} and {p_two}"
    lines = [
        "| n | one worker, s | two workers, s | times faster | p-value |",
        "|---|---|---|---|---|",
        f"| {n:,} | {one:.2f} | {two:.2f} | {one / two:.2f} | {same} |",
        "",
        *(f"- {key}: {value}" for key, value in provenance().items() if key != "machine"),
    ]
    (RESULTS / "scale.md").write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
