"""Level and power of every test and of `check`: python -m experiments calibration [PART OF A MODEL'S NAME]

One row per model, test and number of draws. Modes are given, as the search is judged by
experiments.mode_study. Results: experiments/results/calibration.csv.
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

import steincheck as sc

from .rows import commit
from .running import Study
from .targets import MODELS, build, modes_of

SEED = 2026
LEVELS = (0.01, 0.05, 0.1)
QUADRATIC = ("ksd", "pksd", "spksd", "ospksd", "ksdagg", "pksdagg")
TESTS = ("check", "flux", "moments", "fssd", *QUADRATIC)
EXPENSIVE = ("Gaussian, d = 200", "two Gaussians 6 apart, d = 50", "sensor network, d = 8")
WITHOUT_MODES = ("ksd", "ksdagg", "fssd")
FIELDS = (
    "model", "test", "n", "repetitions", "rate_01", "rate_05", "rate_10", "low_05", "high_05", "inconclusive",
    "uniform_pvalue", "excess_pvalue", "seed", "version", "commit", "date",
)  # fmt: skip


def cells() -> dict[tuple[str, str, int], int]:
    """Repetitions by model, test and n, in the order of computation: expensive models last, with fewer."""
    every: dict[tuple[str, str, int], int] = {}
    for cell, repetitions in _cells():
        every.setdefault(cell, repetitions)
    cheap = {cell: count for cell, count in every.items() if cell[0] not in EXPENSIVE}
    return cheap | {cell: min(count, 50) for cell, count in every.items() if cell not in cheap}


def _cells() -> Iterator[tuple[tuple[str, str, int], int]]:
    power = [name for name in MODELS if name.startswith("power")]
    chains = [name for name in MODELS if "chains" in name]
    level = [name for name in MODELS if name not in (*power, *chains)]
    several = [name for name in level if "Gaussians" in name or "mode of" in name or "units" in name]
    several += ["t-banana mixture, d = 5", "Boltzmann machine, d = 10", "sensor network, d = 8"]
    for n, repetitions in ((500, 200), (100, 200), (30, 200), (2000, 50)):
        dependent = chains if n >= 100 else []  # four chains of 7 draws can tell nothing
        models = {"flux": several, "check": [*dependent, *level], "ksd": level, "fssd": level}
        if n >= 100:  # it asks for as many
            models["moments"] = level
        models |= dict.fromkeys(("pksd", "spksd", "ospksd"), several) | {"ksdagg": level, "pksdagg": several}
        yield from (((name, test, n), repetitions) for test, names in models.items() for name in names)
        if n == 500:
            yield from (((name, test, 1000), 100) for test in TESTS for name in power)


def test_of(name: str, model: str) -> Any:
    """The test with the modes of the model given; 199 replicates are enough for the levels of the table."""
    functions = {"check": check_with_integer, "moments": sc.moment_test}
    options: dict[str, Any] = {}
    if name not in WITHOUT_MODES:
        options["modes"] = modes_of(model)
    if name in QUADRATIC:
        options["n_resamples"] = 199
    if "agg" in name:
        options["n_level_resamples"] = 199
    return partial(functions.get(name) or getattr(sc, f"{name}_test"), **options)


def check_with_integer(draws: Any, target: Any, *, rng: Any, **options: Any) -> Any:
    """`check` with a seed that is drawn from a Generator, as all rows were made."""
    return sc.check(draws, target, rng=int(rng.integers(2**32)), **options)


def row(model: str, test: str, n: int, repetitions: int | None = None) -> list[dict[str, Any]]:
    """One row of the table; its seed depends on the cell alone."""
    target, sample, _ = build(model)
    repetitions = repetitions or cells()[model, test, n]
    rng = np.random.default_rng([SEED, zlib.crc32(model.encode()), zlib.crc32(test.encode()), n])
    options = {"test": test_of(test, model), "repetitions": repetitions, "alpha": LEVELS}
    found = sc.calibrate(target, sample, n, **options, rng=rng)
    finite = found.pvalues[np.isfinite(found.pvalues)]
    uniform = stats.kstest(finite, "uniform").pvalue if len(finite) else np.nan
    values = (
        *(model, test, n, repetitions),
        *(round(float(rate), 4) for rate in (*found.rates, *found.intervals[1])),
        found.n_inconclusive,
        *(float(f"{pvalue:.3g}") for pvalue in (uniform, found.excess_pvalue)),
        *(SEED, sc.__version__, commit(), datetime.date.today().isoformat()),
    )
    return [dict(zip(FIELDS, values, strict=True))]


STUDIES = (Study("calibration", FIELDS, ("model", "test", "n"), cells, row),)
