"""The yardstick: times are multiples of a 3000^3 float32 product on the same machine, in the same run."""

import time

import numpy as np
import pytest


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


@pytest.fixture
def ratio(capsys):
    """Time of a function over the time of the product: both alternate, the smallest of each counts."""
    a = np.random.default_rng(0).random((3000, 3000), dtype=np.float32)

    def measure(name, function, bar, unit=1.0, rounds=7):
        function()
        a @ a
        pairs = [(seconds(lambda: a @ a), seconds(function)) for _ in range(rounds)]
        product, own = np.min(pairs, axis=0)
        value = own / (product * unit)
        with capsys.disabled():
            print(f"\n{name}: {own:.3f} s = {value:.2f} x yardstick ({product * unit:.3f} s), bar {bar}")
        return value

    return measure
