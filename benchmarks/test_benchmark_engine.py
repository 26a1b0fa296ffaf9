"""Speed and memory of the engine and of the KSD test (make bench)."""

import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steincheck as sc
from steincheck.stein.kernels import products_with_columns
from steincheck.stein.tiles import quadratic_forms

PRODUCT_FLOPS = 2 * 3000**3


def test_ksd_test_of_16384_draws(ratio):
    """Bar: 2.5 times n*n*B flops (symmetry used) at the rate of the product."""
    n, size = 16_384, 500
    target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    x = np.random.default_rng(0).normal(size=(n, 2))
    floor = n * n * size / PRODUCT_FLOPS
    assert (
        ratio(
            "ksd_test n=16384 d=2 B=500",
            lambda: sc.ksd_test(x, target, bootstrap=sc.multinomial, n_resamples=size, rng=0),
            2.5,
            floor,
        )
        < 2.5
    )


def cpu_seconds(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def floor_seconds(x, dtype):
    """CPU time of phi, phi', phi'' and three inner products of n^2/2 pairs, without any reduction."""
    with jax.enable_x64(True):
        part = jnp.asarray(x[:1024].astype(dtype))

        @jax.jit
        def evaluate(x, y):
            products = products_with_columns(x, -x, y.T, -y.T)
            phi, first, second = sc.IMQ(2.0).profile(products.r2)
            return phi * products.inner + first * products.cross + second

        evaluate(part, part).block_until_ready()
        times = [cpu_seconds(lambda: evaluate(part, part).block_until_ready()) for _ in range(20)]
    return np.median(times) * (len(x) / 1024) ** 2 / 2


@pytest.mark.parametrize("dim", [2, 10, 50])
def test_blocks_of_16384_draws(capsys, dim):
    """Bars: 2 floors in the precision used, a fifth of the multinomial bootstrap with B = 500; CPU times."""
    target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=dim)
    x = np.random.default_rng(0).normal(size=(16_384, dim))
    times = {}
    for bootstrap in ("blocks", sc.multinomial):
        options = {"bootstrap": bootstrap, "n_resamples": 500, "check_score": False, "rng": 0}
        sc.ksd_test(x[:5000], target, **options)
        times[bootstrap] = cpu_seconds(lambda options=options: sc.ksd_test(x, target, **options))
    floor = floor_seconds(x, np.float32)
    blocks = times["blocks"]
    with capsys.disabled():
        print(
            f"\nksd_test with blocks, n=16384 d={dim}: {blocks:.2f} s of CPU = {blocks / floor:.2f} floors "
            f"(bar 2) = 1/{times[sc.multinomial] / blocks:.1f} of the multinomial bootstrap (bar 1/5)"
        )
    assert blocks < 2 * floor
    assert blocks < times[sc.multinomial] / 5


def test_memory_of_16384_draws():
    """Peak resident memory of a whole process below 1.5 GiB."""
    program = (
        "import resource, numpy as np, jax.numpy as jnp, steincheck as sc;"
        "x = np.random.default_rng(0).normal(size=(16384, 2));"
        "target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2);"
        "sc.ksd_test(x, target, bootstrap=sc.multinomial, n_resamples=500, rng=0);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    peak = int(out.stdout) / 2**20
    print(f"peak {peak:.2f} GiB, bar 1.5")
    assert peak < 1.5


@pytest.mark.parametrize(("row_sums", "bar"), [(False, 0.5), (True, 0.75)])
def test_stack_of_52_samples(ratio, row_sums, bar):
    """Bar: half a product for the pass; with row sums of every sample apart a quarter more."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(52, 1024, 1))
    weights = sc.multinomial(1024, 800, rng)
    value = ratio(
        f"stack J=52 n=1024 d=1 B=800 row_sums={row_sums}",
        lambda: quadratic_forms(x, -x, sc.IMQ(), 2.0, weights, row_sums=row_sums),
        bar,
    )
    assert value < bar


def test_a_second_n_compiles_nothing(capsys):
    target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=3)
    x = np.random.default_rng(2).normal(size=(1001, 3))
    times = []
    for n in (1000, 1001, 1000):
        start = time.perf_counter()
        sc.ksd_test(x[:n], target, rng=0)
        times.append(time.perf_counter() - start)
    with capsys.disabled():
        print(f"\nksd_test n=1000 (first), 1001, 1000: {[round(t, 3) for t in times]} s")
    assert times[1] < 0.5 * times[0]


def test_import_time(capsys):
    """Bar: 1.5 times `import jax`, medians of alternating fresh processes."""

    def fresh(module):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        return time.perf_counter() - start

    pairs = np.array([(fresh("jax"), fresh("steincheck")) for _ in range(7)])
    jax_time, own = np.median(pairs, axis=0)
    with capsys.disabled():
        print(f"\nimport steincheck {own:.2f} s = {own / jax_time:.2f} x import jax, bar 1.5")
    assert own < 1.5 * jax_time
