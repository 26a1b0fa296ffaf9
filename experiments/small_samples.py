"""Level of the quadratic tests on 5 to 30 draws: bootstraps of the draws against flipped signs.

Correct draws, in 1 and 10 dimensions: standard normal for the tests without modes, two equal normals 6 apart
for the others, with five jump scales. Every test runs twice on the same samples: with the bootstrap that is
its default from 50 draws on, and by default.

``python -m experiments small_samples`` makes what is missing of results/small_samples.csv, an hour in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import steincheck as sc

from .rows import commit, stream
from .running import Study

DIMENSIONS = (1, 10)
SIZES = (5, 10, 15, 20, 30)
REPETITIONS = 400
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


def pvalue(test: str, bootstrap: str, n: int, dim: int, repetition: int) -> float:
    """The p-value of one test on one sample, which is the same for all bootstraps."""
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
    run = getattr(sc, f"{test}_test")
    return run(x, target, bootstrap=own, rng=int(rng.integers(2**32)), **options).pvalue


def row(test: str, bootstrap: str, n: int, dim: int) -> list[dict[str, Any]]:
    """How often the test rejects, and what it says of the first ten samples."""
    p = np.array([pvalue(test, bootstrap, n, dim, repetition) for repetition in range(REPETITIONS)])
    counts = (int(np.sum(p <= 0.05)), int(np.sum(p <= 0.01)))
    first = " ".join(f"{value:.3g}" for value in p[:10])
    values = (test, bootstrap, n, dim, REPETITIONS, *counts, first, commit())
    return [dict(zip(FIELDS, values, strict=True))]


def cells() -> Iterator[tuple[str, str, int, int]]:
    """Test, bootstrap, n and dimension."""
    for dim, n, (test, own) in product(DIMENSIONS, SIZES, BOOTSTRAPS.items()):
        yield from ((test, name, n, dim) for name in (own.__name__, "default"))


KEY = ("test", "bootstrap", "n", "dim")
FIELDS = (*KEY, "repetitions", "count_05", "count_01", "first", "commit")
STUDIES = (Study("small_samples", FIELDS, KEY, cells, row),)
