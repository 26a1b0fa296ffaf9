"""Speed of the aggregated test, memory of FSSD (make bench)."""

import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np

import steincheck as sc

PRODUCT_FLOPS = 2 * 3000**3
N, RESAMPLES, BANDWIDTHS = 1000, 2000, 10  # resamples for the single p-values, and as many for the level
FIRST_CALL = """
import time
start = time.perf_counter()
import jax.numpy as jnp, numpy as np
import steincheck as sc
x = np.random.default_rng(0).normal(size=(1000, 2))
imported = time.perf_counter()
sc.ksdagg_test(x, sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2), rng=0)
print(imported - start, time.perf_counter() - imported)
"""
MILLION = """
import resource, time
import numpy as np
import steincheck as sc
rng = np.random.default_rng(0)
x = rng.standard_normal((1_000_000, 10))
target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=10)
start = time.perf_counter()
result = sc.fssd_test(x, target, locations=rng.standard_normal((10, 10)), rng=0)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, result.pvalue)
"""


def in_a_new_process(program):
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [float(word) for word in out.stdout.split()]


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def test_ksdagg_test_of_1000_draws(capsys):
    """Bar: 1.2 times K*n*n*B flops (symmetry used) at the rate of a 3000^3 float32 product, plus 0.2 s."""
    target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    x = np.random.default_rng(0).normal(size=(N, 2))
    a = np.random.default_rng(0).random((3000, 3000), dtype=np.float32)

    def test():
        sc.ksdagg_test(x, target, n_resamples=RESAMPLES, n_level_resamples=RESAMPLES, rng=0)

    test()
    pairs = [(seconds(lambda: a @ a), seconds(test)) for _ in range(9)]  # alternating, the smallest counts
    product, own = np.min(pairs, axis=0)
    floor = product * BANDWIDTHS * N * N * 2 * RESAMPLES / PRODUCT_FLOPS
    bar = 1.2 * floor + 0.2
    with capsys.disabled():
        print(
            f"\nksdagg_test n={N}, {BANDWIDTHS} bandwidths, {2 * RESAMPLES} resamples: {own:.3f} s = "
            f"{own / floor:.2f} x floor ({floor:.3f} s), bar {bar:.3f} s"
        )
    assert own < bar


def test_first_call_in_a_new_process(capsys):
    """Bar: 3 s, everything compiled."""
    imported, called = np.min([in_a_new_process(FIRST_CALL) for _ in range(2)], axis=0)
    with capsys.disabled():
        print(f"\nksdagg_test, first call in a new process: {called:.2f} s (imports {imported:.2f} s), bar 3")
    assert called < 3


def test_fssd_test_of_a_million_draws(capsys):
    """Bar: 2 GiB for the whole process, n = 1,000,000, d = 10, ten locations given."""
    seconds, peak, pvalue = in_a_new_process(MILLION)
    with capsys.disabled():
        print(f"\nfssd_test n=1000000 d=10: {seconds:.1f} s, peak {peak:.2f} GiB, bar 2")
    assert peak < 2
    assert pvalue > 1e-4  # the draws fit
