"""One case of the table in a process of its own: ``python -m benchmarks.engine "ksd_test, blocks" 1024 10``.

Prints a line of JSON: first call and steady state apart, peak memory of the process, and the floor, measured
before and after in the same process.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import steincheck as sc
from steincheck.stein.kernels import stein_kernel_of_columns, with_bandwidth, without_bandwidth

from .peers import PEERS

SECONDS_OF_STEADY_STATE = 2.0  # more calls are measured until so much time has passed, but at most five
SECONDS_WITHOUT_REPETITION = 40.0  # of CPU: compilation hardly counts in a first call of this length
N_MODES = 5
ROWS_OF_FLOOR = 1024


def normal(n: int, d: int) -> tuple[np.ndarray, sc.Target]:
    """Draws of a standard normal target."""
    target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=d)
    return np.random.default_rng(0).normal(size=(n, d)), target


def mixture(
    n: int, d: int, n_modes: int = N_MODES
) -> tuple[np.ndarray, sc.Target, tuple[np.ndarray, np.ndarray]]:
    """Draws of Gaussian modes as a JAX function, and the modes."""
    rng = np.random.default_rng(0)
    means = rng.uniform(-15, 15, size=(n_modes, d))
    target = sc.from_jax(
        lambda x: jax.scipy.special.logsumexp(-0.5 * jnp.sum((x - means) ** 2, axis=1)), dim=d
    )
    draws = means[rng.integers(n_modes, size=n)] + rng.normal(size=(n, d))
    return draws, target, (means, np.tile(np.eye(d), (n_modes, 1, 1)))


def ksd(n: int, d: int, bootstrap: Any) -> Callable[[], Any]:
    draws, target = normal(n, d)
    return lambda: sc.ksd_test(draws, target, bootstrap=bootstrap, n_resamples=500, check_score=False, rng=0)


def ksdagg(n: int, d: int, bootstrap: Any) -> Callable[[], Any]:
    draws, target = normal(n, d)
    return lambda: sc.ksdagg_test(draws, target, bootstrap=bootstrap, check_score=False, rng=0)


def spksd(n: int, d: int, bootstrap: Any, n_theta: int = 5) -> Callable[[], Any]:
    draws, target, modes = mixture(n, d)
    theta = np.linspace(0.5, 1.5, n_theta)
    return lambda: sc.spksd_test(draws, target, modes=modes, theta=theta, bootstrap=bootstrap, rng=0)


def check(n: int, d: int) -> Callable[[], Any]:
    draws, target, modes = mixture(n, d)
    return lambda: sc.check(draws, target, modes=modes, independent=True, rng=0)


def pksd(n: int, d: int, n_steps: int) -> Callable[[], Any]:
    draws, target, modes = mixture(n, d)
    return lambda: sc.pksd_test(draws, target, modes=modes, theta=1.0, n_steps=n_steps, rng=0)


def flux(n: int, d: int, n_modes: int = N_MODES) -> Callable[[], Any]:
    draws, target, modes = mixture(n, d, n_modes)
    return lambda: sc.flux_test(draws, target, modes=modes, rng=0)


def moments(n: int, d: int) -> Callable[[], Any]:
    draws, target, modes = mixture(n, d)
    return lambda: sc.moment_test(draws, target, modes=modes, rng=0)


OURS: dict[str, Callable[[int, int], Callable[[], Any]]] = {
    "ksd_test, blocks": lambda n, d: ksd(n, d, "blocks"),
    "ksd_test, multinomial": lambda n, d: ksd(n, d, sc.multinomial),
    "ksdagg_test, blocks": lambda n, d: ksdagg(n, d, "blocks"),
    "ksdagg_test, wild": lambda n, d: ksdagg(n, d, sc.wild),
    "spksd_test, 5 theta, blocks": lambda n, d: spksd(n, d, "blocks"),
    "check, modes given": check,
    "flux_test": flux,
    "moment_test": moments,
    **{f"spksd_test, theta = {k}": partial(spksd, bootstrap=None, n_theta=k) for k in (5, 17, 51)},
    **{f"flux_test, modes = {k}": partial(flux, n_modes=k) for k in (5, 20, 80)},
    **{f"pksd_test, steps = {k}": partial(pksd, n_steps=k) for k in (10, 100, 1000)},
}


def floor_seconds(n: int, d: int) -> float:
    """CPU time of the Stein kernel of n^2/2 pairs, compiled, in float32.

    The bandwidth is an argument, as in the tests: a program that knows it would be compiled for every sample.
    """
    x = np.random.default_rng(1).normal(size=(2, ROWS_OF_FLOOR, d)).astype(np.float32)

    @jax.jit
    def evaluate(x: Any, sx: Any, y: Any, sy: Any, bandwidth: Any) -> Any:
        kernel = with_bandwidth(without_bandwidth(sc.IMQ()), bandwidth)
        return stein_kernel_of_columns(kernel, x, sx, y, sy)

    arguments = [jax.device_put(a) for a in (x[0], -x[0], x[1].T.copy(), -x[1].T.copy(), np.float32(2))]
    evaluate(*arguments).block_until_ready()
    times = [cpu(lambda: evaluate(*arguments).block_until_ready())[1] for _ in range(20)]
    return float(np.median(times)) * (n / ROWS_OF_FLOOR) ** 2 / 2


def cpu(function: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a call."""
    start = (time.perf_counter(), time.process_time())
    function()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def measure(name: str, n: int, d: int) -> dict[str, Any]:
    """The record of one case."""
    call = PEERS[name][0](normal(n, d)[0]) if name in PEERS else OURS[name](n, d)
    before = floor_seconds(n, d)
    first = cpu(call)
    steady = [first] if first[1] > SECONDS_WITHOUT_REPETITION else [cpu(call)]
    while len(steady) < 5 and sum(seconds for seconds, _ in steady) < SECONDS_OF_STEADY_STATE:
        steady.append(cpu(call))
    seconds, cpu_seconds = np.median(steady, axis=0)
    return {
        "case": name,
        "n": n,
        "d": d,
        "first_cpu": round(first[1], 4),
        "seconds": round(float(seconds), 4),
        "cpu": round(float(cpu_seconds), 4),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        "floor_cpu": round((before + floor_seconds(n, d)) / 2, 5),
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
