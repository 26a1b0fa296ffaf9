"""Level of the quadratic tests on 5 to 30 draws: bootstraps of the draws against flipped signs.

Correct draws, in 1 to 200 dimensions: standard normal for the tests without modes, two equal normals 6 apart
for the others, with five jump scales. Every test runs twice on the same samples: with the bootstrap that is
its default from 50 draws on, and by default.

``python -m experiments.small_samples`` makes what is missing of results/small_samples.csv, an hour in all,
and with ``--dim 10`` what is missing in 10 dimensions.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import steincheck as sc

from .cells import stream
from .tables import RESULTS, Table, commit

DIMENSIONS = (1, 10, 50, 200)
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
MAX_DIMENSION_WITH_MODES = 50  # of tests that move draws, which are slower
COUNTS = Table(
    RESULTS / "small_samples.csv",
    ("test", "bootstrap", "n", "dim", "repetitions", "count_05", "count_01", "first", "commit"),
    ("test", "bootstrap", "n", "dim"),
)


def pvalue(test: str, bootstrap: Any, n: int, dim: int, repetition: int) -> float:
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
    run = getattr(sc, f"{test}_test")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(x, target, bootstrap=bootstrap, rng=int(rng.integers(2**32)), **options).pvalue


def study(test: str, bootstrap: Any, n: int, dim: int) -> dict[str, Any]:
    """One row: how often the test rejects, and what it says of the first ten samples."""
    p = np.array([pvalue(test, bootstrap, n, dim, repetition) for repetition in range(REPETITIONS)])
    return {
        "test": test,
        "bootstrap": _name(bootstrap),
        "n": n,
        "dim": dim,
        "repetitions": REPETITIONS,
        "count_05": int(np.sum(p <= 0.05)),
        "count_01": int(np.sum(p <= 0.01)),
        "first": " ".join(f"{value:.3g}" for value in p[:10]),
        "commit": commit(),
    }


def _name(bootstrap: Any) -> str:
    return "default" if bootstrap is None else bootstrap.__name__


def main() -> None:
    """Make the rows that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, choices=DIMENSIONS, help="one dimension; by default all")
    options = parser.parse_args()
    done = COUNTS.keys()
    cells = [
        (test, bootstrap, n, dim)
        for dim in (DIMENSIONS if options.dim is None else (options.dim,))
        for n in SIZES
        for test, own in BOOTSTRAPS.items()
        for bootstrap in (own, None)
        if test in WITHOUT_MODES or dim <= MAX_DIMENSION_WITH_MODES
    ]
    for test, bootstrap, n, dim in cells:
        if (test, _name(bootstrap), str(n), str(dim)) not in done:
            COUNTS.merge([study(test, bootstrap, n, dim)])


if __name__ == "__main__":
    main()
