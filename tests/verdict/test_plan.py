"""A slow density: the time allowed is kept, and the recorded number of evaluations repeats the run."""

import time

import numpy as np

import steincheck as sc


def slow_normal(seconds):
    def log_density(x):
        time.sleep(seconds * len(x))
        return -0.5 * np.sum(x**2, axis=1)

    return sc.Target(log_density, np.negative, dim=2)


def test_a_slow_density_obeys_the_clock_and_says_what_was_not_examined():
    x = np.random.default_rng(0).normal(size=(200, 2))
    begin = time.perf_counter()
    verdict = sc.check(x, slow_normal(1e-3), max_seconds=1.5, rng=0)
    assert time.perf_counter() - begin < 15
    assert verdict.settings["max_seconds"] is None
    assert "whether draws belong to unknown modes" in verdict.not_examined
    assert any("evaluations of the density would show" in text for text in verdict.not_examined)
    assert "nan" not in str(verdict)
    fast = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), np.negative, dim=2)
    assert sc.check(x, fast, **verdict.settings).to_json() == verdict.to_json()
