"""Nested sampling: level of `check` on runs of dynesty, its threads known beside the naive treatment.

    python -m experiments nested_study [CASE] [--repetitions R] [--n-jobs J]

Rows go to results/nested_study.csv. A repetition is one run with 100 live points (dynamic: 50 at first, and
batches of 50) on a target within a box that holds all of its mass; modes are given. "check" counts misfits,
"cannot tell" runs without an answer, and "kernel", "moments" and "weights" rejections by its tests. "naive"
takes the same weighted points for independent draws. It needs dynesty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import steincheck as sc

from .counting import Case, CountedStudy, Events

LIVE = 100
PRECISION = np.linalg.inv([[1.0, 0.999], [0.999, 1.0]])


class Density(NamedTuple):
    """A log density for NumPy, which is fast at single points, or JAX, within a box."""

    dim: int
    edge: float  #: half the width of the box
    formula: Callable[[Any, Any], Any]  #: of the module and a point


DENSITIES = {
    "Gaussian, d = 1": Density(1, 8.0, lambda xp, x: -0.5 * x[0] ** 2),
    "Gaussian, d = 5": Density(5, 8.0, lambda xp, x: -0.5 * xp.sum(x**2)),
    "correlation .999, d = 2": Density(2, 8.0, lambda xp, x: -0.5 * x @ PRECISION @ x),
    "two modes, d = 2": Density(
        2, 10.0, lambda xp, x: xp.logaddexp(-0.5 * xp.sum((x - 3) ** 2), -0.5 * xp.sum((x + 3) ** 2))
    ),
    "modes of .8 and .2, d = 1": Density(
        1, 12.0, lambda xp, x: xp.logaddexp(-0.5 * (x[0] + 4) ** 2, -np.log(4) - 0.5 * (x[0] - 4) ** 2)
    ),
    "t5, d = 2": Density(2, 40.0, lambda xp, x: -3.5 * xp.log1p(xp.sum(x**2) / 5)),
    "curved, d = 2": Density(2, 12.0, lambda xp, x: -0.5 * x[0] ** 2 - 2 * (x[1] - 0.5 * x[0] ** 2) ** 2),
    "funnel, d = 2": Density(
        2, 20.0, lambda xp, x: -(x[0] ** 2) - 0.5 * x[1] ** 2 * xp.exp(-x[0]) - x[0] / 2
    ),
    "logistic, d = 3": Density(3, 25.0, lambda xp, x: -xp.sum(x + 2 * xp.log1p(xp.exp(-x)))),
    "log-gamma(2), d = 2": Density(2, 15.0, lambda xp, x: xp.sum(2 * x - xp.exp(x))),
}


@cache
def problem(name: str) -> tuple[sc.Target, sc.Modes]:
    """The target and its modes."""
    dim, edge, formula = DENSITIES[name]
    target = sc.from_jax(partial(formula, jnp), dim)
    return target, sc.find_modes(target, bounds=(-edge / 2, edge / 2), rng=0)


def nested_run(name: str, dynamic: bool, rng: np.random.Generator) -> Any:
    """Results of one run; the prior is uniform in the box."""
    import dynesty

    dim, edge, formula = DENSITIES[name]
    common = (lambda x: float(formula(np, x)), lambda u: edge * (2 * u - 1), dim)
    if not dynamic:
        sampler = dynesty.NestedSampler(*common, nlive=LIVE, rstate=rng)
        sampler.run_nested(print_progress=False)
        return sampler.results
    sampler = dynesty.DynamicNestedSampler(*common, rstate=rng)
    sampler.run_nested(nlive_init=LIVE // 2, nlive_batch=LIVE // 2, maxbatch=2, print_progress=False)
    return sampler.results


def run(name: str, dynamic: bool, size: int, rng: np.random.Generator, repetition: int) -> Events:
    """What `check` and its tests say of one run, with and without its threads."""
    target, modes = problem(name)
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
            for name in DENSITIES
        },
    ),
)
