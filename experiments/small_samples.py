"""Level of the quadratic tests on 5 to 30 draws: bootstraps of the draws against flipped signs.

Correct draws, in 1 and 10 dimensions: standard normal for the tests without modes, two equal normals 6 apart
for the others, with five jump scales. Every test runs twice on the same samples: with the bootstrap that is
its default from 50 draws on, and by default.

``python -m experiments small_samples`` makes what is missing of results/small_samples.csv, an hour in all.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import steincheck as sc

from .counting import Case, CountedStudy, Events
from .rows import stream

THETA = np.linspace(0.5, 1.5, 5)
BOOTSTRAPS = {  # of the draws, by test: the default from 50 draws on
    "ksd": sc.multinomial,
    "pksd": sc.multinomial,
    "spksd": sc.multinomial,
    "ospksd": sc.multinomial,
    "ksdagg": sc.wild,
    "pksdagg": sc.wild,
}
WITHOUT_MODES = ("ksd", "ksdagg")


def run(test: str, bootstrap: str, dim: int, n: int, _: np.random.Generator, repetition: int) -> Events:
    """Whether the test rejects one sample at level .05; the sample is the same for all bootstraps."""
    rng = stream("small_samples", test, str(n), str(dim), str(repetition))
    options: dict[str, Any] = {"n_resamples": 199, "independent": True, "check_score": False}
    x = rng.standard_normal((n, dim))
    target = sc.Target(lambda y: -0.5 * np.sum(y**2, axis=1), lambda y: -y, dim=dim)
    if test not in WITHOUT_MODES:
        places = np.zeros((2, dim))
        places[:, 0] = (-3.0, 3.0)
        target = sc.models.gaussian_mixture(places)
        x += places[rng.integers(2, size=n)]
        options["modes"] = (places, np.array([np.eye(dim)] * 2))
    if test in ("spksd", "ospksd", "pksdagg"):
        options["theta"] = THETA
    if "agg" in test:
        options["n_level_resamples"] = 199
    own = None if bootstrap == "default" else BOOTSTRAPS[test]
    result = getattr(sc, f"{test}_test")(x, target, bootstrap=own, rng=int(rng.integers(2**32)), **options)
    return {"rejected": result.pvalue <= 0.05}


STUDIES = (
    CountedStudy(
        "small_samples",
        0,  # seeds are made of words
        {
            f"{test}, {name}, d={dim}": Case(partial(run, test, name, dim), (5, 10, 15, 20, 30), 400)
            for dim in (1, 10)
            for test, bootstrap in BOOTSTRAPS.items()
            for name in (bootstrap.__name__, "default")
        },
    ),
)
