"""Nested sampling: level of `check` on runs of dynesty, threads as groups beside the naive treatment.

    python -m experiments nested_study [CASE] [--repetitions R] [--n-jobs J]

Rows go to results/nested_study.csv. A repetition is one run with 100 live points (dynamic: 50 at first, and
batches of 50) on a target within a box that holds all of its mass; modes are given. "check" counts misfits
where the threads of the run are groups, "cannot tell" runs without an answer, and "kernel", "moments" and
"weights" rejections by its tests. "naive" takes the same weighted points for independent draws. It needs
dynesty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import numpy as np

import steincheck as sc
from steincheck import testing

from . import targets
from .counting import Case, CountedStudy, Events

LIVE = 100
BOXES = {  # half the width of the box
    "skewed": 15.0,
    "curved": 10.0,
    "correlated": 20.0,
    "two_modes": 10.0,
    "funnel": 12.0,
    "heavy_tails": 30.0,
    "Gaussian, d = 1": 8.0,
    "correlation .999, d = 2": 8.0,
    "logistic, d = 3": 25.0,
    "Gumbel, d = 3": 25.0,
}


@cache
def problem(name: str) -> tuple[sc.Target, sc.Modes, Callable[[np.ndarray], float]]:
    """The target, its modes, and its log density at one point, compiled."""
    target = testing.targets[name].target if name in testing.targets else targets.build(name).target
    compiled = jax.jit(target.jax_log_density)

    def log_density(x: np.ndarray) -> float:
        with jax.enable_x64(True):
            return float(compiled(x))

    return target, sc.find_modes(target, rng=0), log_density


def nested_run(name: str, dynamic: bool, rng: np.random.Generator) -> Any:
    """Results of one run; the prior is uniform in the box."""
    import dynesty

    target, _, log_density = problem(name)
    edge = BOXES[name]
    common = (log_density, lambda u: edge * (2 * u - 1), target.dim)
    if not dynamic:
        sampler = dynesty.NestedSampler(*common, nlive=LIVE, rstate=rng)
        sampler.run_nested(print_progress=False)
        return sampler.results
    sampler = dynesty.DynamicNestedSampler(*common, rstate=rng)
    sampler.run_nested(nlive_init=LIVE // 2, nlive_batch=LIVE // 2, maxbatch=2, print_progress=False)
    return sampler.results


def run(name: str, dynamic: bool, size: int, rng: np.random.Generator, repetition: int) -> Events:
    """What `check` and its tests say of one run, with and without its threads."""
    target, modes, _ = problem(name)
    results = nested_run(name, dynamic, rng)
    seed = int(rng.integers(2**32))
    verdict = sc.check(results, target, modes=modes, max_seconds=None, rng=seed)
    points = sc.as_draws(results.samples, log_weights=results.logwt)
    naive = sc.check(points, target, independent=True, modes=modes, max_seconds=None, rng=seed)
    events = {}
    for prefix, found in (("", verdict), ("naive ", naive)):
        events |= {f"{prefix}check": found.fits is False, f"{prefix}cannot tell": found.fits is None}
        for part, test in found.tests.items():
            events[f"{prefix}{part}"] = test.pvalue <= 0.05
    return events


STUDIES = (
    CountedStudy(
        "nested_study",
        2032,
        {
            f"{name}, {kind}": Case(partial(run, name, kind == "dynamic"), (LIVE,), 200)
            for kind in ("static", "dynamic")
            for name in BOXES
        },
    ),
)
