"""Power of `fssd_test` beside kernel-gof's FSSD-opt, and its level: N(0, I) in 10 dimensions.

kernel-gof (Jitkrittum et al. 2017, github.com/wittawatj/kernel-gof) is on no package index, so its procedure
is re-implemented here: a grid of five widths at locations drawn from a Gaussian fit, then L-BFGS-B in the
locations and the root of the width, regularisation 1e-2, width 0.01 to 100 median squared distances, at most
100 steps, tolerance 1e-5; "2000 steps" has tolerance 1e-9 so that they are taken. Both procedures get the
same samples, 20 % of the draws to train with, and the same test of the others; they differ in where the
locations are put and in the bandwidth.

It reaches into the package for the power criterion and its gradient: kernel-gof's climb is to differ from
ours in the procedure, not in the criterion.

Run: python -m experiments fssd_study. Rows go to results/fssd_study.csv: how often each method rejects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

import steincheck as sc
from steincheck.chains.reading import Sample
from steincheck.fssd import Placement, _value_and_slopes, feature_moments

from .counting import Case, CountedStudy, Events

DIM = 10
N_LOCATIONS = 10
N_RESAMPLES = 3000
LEVEL = 0.05
METHODS = ("steincheck", "kernel-gof", "kernel-gof, 2000 steps")
FIRST = np.arange(DIM) == 0  # the coordinate that is changed
Sampler = Callable[[int, np.random.Generator], np.ndarray]


def normal(shift: float = 0.0, scale: float = 1.0) -> Sampler:
    """Standard normal draws, their first coordinate scaled and shifted."""
    return lambda n, rng: rng.normal(size=(n, DIM)) * np.where(FIRST, scale, 1.0) + shift * FIRST


def laplace(n: int, rng: np.random.Generator) -> np.ndarray:
    """Laplace draws with mean 0 and variance 1 in every coordinate."""
    return rng.laplace(scale=0.5**0.5, size=(n, DIM))


def kernel_gof_placement(
    x: np.ndarray, rng: np.random.Generator, *, max_iter: int = 100, tol: float = 1e-5
) -> tuple[np.ndarray, float]:
    """Locations and bandwidth by kernel-gof's procedure on the training draws of a standard normal target."""
    median = sc.median_bandwidth(x[:1000])
    start = rng.multivariate_normal(x.mean(axis=0), np.cov(x.T) + 1e-6 * np.eye(DIM), N_LOCATIONS)
    widths = median * 2.0 ** np.linspace(-3, 3, 5)
    sample = Sample(x, np.zeros(len(x)), scores=-x)
    merits = [feature_moments(sample, Placement(start, 2 * width)).power_criterion for width in widths]
    first = np.append(np.sqrt(widths[np.argmax(merits)]), start)
    reach = 100 * x.std(axis=0)
    low = np.append(np.sqrt(max(0.01 * median, 1e-3)), np.tile(x.min(axis=0) - reach, N_LOCATIONS))
    high = np.append(np.sqrt(min(100 * median, 1e5)), np.tile(x.max(axis=0) + reach, N_LOCATIONS))
    found = minimize(
        lambda parameters: _negative_criterion(parameters, x),
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"maxiter": max_iter, "maxfun": 100 * max_iter, "ftol": tol, "gtol": 1e-7},
    )
    return found.x[1:].reshape(start.shape), 2 * float(found.x[0]) ** 2


def _negative_criterion(parameters: np.ndarray, x: np.ndarray) -> tuple[float, np.ndarray]:
    """Minus the power criterion at (root of the width, locations), and its gradient."""
    import jax

    root = parameters[0]
    locations = parameters[1:].reshape(N_LOCATIONS, DIM)
    with jax.enable_x64(True):
        value, slopes = _value_and_slopes(locations, np.log(2 * root**2), x, -x, np.ones(len(x)))
        return float(value), np.append(float(slopes[1]) * 2 / root, np.asarray(slopes[0], dtype=float))


def pvalue(method: str, x: np.ndarray, rng: np.random.Generator) -> float:
    """p-value of one method on one sample."""
    target = sc.Target(lambda y: -0.5 * np.sum(y**2, axis=1), lambda y: -y, dim=DIM)
    options: dict[str, Any] = {"check_score": False, "n_resamples": N_RESAMPLES, "rng": rng}
    if method == "steincheck":
        return sc.fssd_test(x, target, n_locations=N_LOCATIONS, **options).pvalue
    n_train = len(x) // 5
    effort = {"max_iter": 2000, "tol": 1e-9} if "2000" in method else {}
    locations, bandwidth = kernel_gof_placement(x[:n_train], rng, **effort)
    return sc.fssd_test(x[n_train:], target, locations=locations, bandwidth=bandwidth, **options).pvalue


def run(draw: Sampler, n: int, rng: np.random.Generator, repetition: int) -> Events:
    """Which methods reject one sample."""
    x = draw(n, rng)
    return {method: pvalue(method, x, rng.spawn(1)[0]) <= LEVEL for method in METHODS}


STUDIES = (
    CountedStudy(
        "fssd_study",
        20261116,
        {
            "level": Case(partial(run, normal()), (1000,), 500),
            "mean shift 0.15": Case(partial(run, normal(shift=0.15)), (1000,), 100),
            "variance 1.69": Case(partial(run, normal(scale=1.3)), (1000,), 100),
            "Laplace": Case(partial(run, laplace), (1000,), 100),
        },
    ),
)
