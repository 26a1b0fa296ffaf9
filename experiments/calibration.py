"""Level and power of every test and of `check`: python -m experiments calibration [--test ...]

One row per model, test and number of draws; what is committed is not computed again unless asked by --renew.
Rows are written as they are ready, so that a run may be cut at any time. Modes are
given, as the search is judged by experiments.mode_study. Results: experiments/results/calibration.csv.
"""

from __future__ import annotations

import argparse
import datetime
import time
import zlib
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from .running import keep_worker, positive
from .tables import RESULTS, Table, commit, position

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


class Cell(NamedTuple):
    """One row of the table."""

    model: str
    test: str
    n: int
    repetitions: int


def cells() -> Iterator[Cell]:
    """All cells in the order of computation: those of expensive models last, with fewer samples."""
    every = list(dict.fromkeys(_cells()))
    yield from (cell for cell in every if cell.model not in EXPENSIVE)
    for cell in every:
        if cell.model in EXPENSIVE:
            yield cell._replace(repetitions=min(cell.repetitions, 50))


def _cells() -> Iterator[Cell]:
    from .calibration_models import MODELS

    power = [name for name in MODELS if name.startswith("power")]
    chains = [name for name in MODELS if "chains" in name]
    level = [name for name in MODELS if name not in (*power, *chains)]
    several = [name for name in level if "Gaussians" in name or "mode of" in name or "units" in name]
    several += ["t-banana mixture, d = 5", "Boltzmann machine, d = 10", "sensor network, d = 8"]
    moved = ("pksd", "spksd", "ospksd", "pksdagg")
    for n, repetitions in ((500, 200), (100, 200), (30, 200), (2000, 50)):
        yield from (Cell(name, "flux", n, repetitions) for name in several)
        dependent = chains if n >= 100 else []  # four chains of 7 draws can tell nothing
        yield from (Cell(name, "check", n, repetitions) for name in (*dependent, *level))
        for test in ("ksd", "fssd", "moments", "pksd", "spksd", "ospksd", "ksdagg", "pksdagg"):
            if test == "moments" and n < 100:  # it asks for as many
                continue
            yield from (Cell(name, test, n, repetitions) for name in (several if test in moved else level))
        if n == 500:
            yield from (Cell(name, test, 1000, 100) for test in TESTS for name in power)


def test_of(name: str, model: str) -> Any:
    """The test with the modes of the model given; 199 replicates are enough for the levels of the table."""
    import steincheck as sc

    from .calibration_models import modes_of

    keep_worker()
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
    import steincheck as sc

    return sc.check(draws, target, rng=int(rng.integers(2**32)), **options)


def run(cell: Cell, n_jobs: int) -> dict[str, Any]:
    """One row of the table; its seed depends on the cell alone."""
    import steincheck as sc

    from .calibration_models import build

    target, sample = build(cell.model)
    seed = [SEED, zlib.crc32(cell.model.encode()), zlib.crc32(cell.test.encode()), cell.n]
    found = sc.calibrate(
        target,
        sample,
        cell.n,
        test=test_of(cell.test, cell.model),
        repetitions=cell.repetitions,
        alpha=LEVELS,
        n_jobs=n_jobs,
        rng=_generator(seed),
    )
    return {
        **cell._asdict(),
        "rate_01": round(float(found.rates[0]), 4),
        "rate_05": round(float(found.rates[1]), 4),
        "rate_10": round(float(found.rates[2]), 4),
        "low_05": round(float(found.intervals[1, 0]), 4),
        "high_05": round(float(found.intervals[1, 1]), 4),
        "inconclusive": found.n_inconclusive,
        "uniform_pvalue": float(f"{found.uniform_pvalue:.3g}"),
        "excess_pvalue": float(f"{found.excess_pvalue:.3g}"),
        "seed": SEED,
        "version": sc.__version__,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }


def _generator(seed: list[int]) -> Any:
    import numpy as np

    return np.random.default_rng(seed)


def rates() -> Table:
    """The table of results, sorted by model, test and n."""
    from .calibration_models import MODELS

    model, test = position(list(MODELS)), position(TESTS)
    return Table(
        RESULTS / "calibration.csv",
        FIELDS,
        ("model", "test", "n"),
        lambda row: (model(row["model"]), test(row["test"]), int(row["n"])),
    )


def main() -> None:
    """Compute the missing rows, or some of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="part of the names of the models; by default all")
    parser.add_argument("--test", default="", choices=("", *TESTS), help="one test; by default all")
    parser.add_argument("--repetitions", type=positive, default=None, help="samples per cell, at the most")
    parser.add_argument("--n", type=positive, default=None, help="one number of draws; by default all")
    parser.add_argument("--renew", action="store_true", help="compute again what is in the table")
    parser.add_argument("--n-jobs", type=positive, default=2, help="worker processes")
    arguments = parser.parse_args()
    asked = [
        cell
        for cell in cells()
        if arguments.model in cell.model
        and arguments.test in ("", cell.test)
        and arguments.n in (None, cell.n)
    ]
    if not asked:
        parser.error(f"no model has {arguments.model!r} in its name")
    results = rates()
    done = set() if arguments.renew else results.keys()
    for cell in asked:
        if (cell.model, cell.test, str(cell.n)) in done:
            continue
        began = time.monotonic()
        if arguments.repetitions is not None:
            cell = cell._replace(repetitions=min(cell.repetitions, arguments.repetitions))
        row = run(cell, arguments.n_jobs)
        results.merge([row])
        print(*cell, row["rate_05"], f"{time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    import_module("experiments.calibration").main()  # so that workers find the functions by name
