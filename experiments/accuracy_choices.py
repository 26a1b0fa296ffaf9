"""What the constants of `estimate_accuracy` buy: the same samples with one of them changed.

python -m experiments accuracy_choices [CHOICE]

Six targets of experiments.accuracy_targets, four kinds of draws. Writes
experiments/results/accuracy_choices.csv: coverage of means and sds that are not rough, root mean square
errors, median half-widths, and evaluations.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import product
from unittest import mock

import numpy as np

import steincheck as sc
from steincheck.accuracy import control, exploration, walkers

from .accuracy_study import compare, draws
from .accuracy_targets import case
from .rows import commit
from .running import Study

NAMES = (
    *("lognormal_scales", "sinh_arcsinh", "hidden_markov"),
    *("poisson_regression", "hierarchical_counts", "latent_series"),
)
REPLICATES = 2
KINDS = ("exact_200", "exact_1000", "mean_field", "chain_20")
METRIC = walkers.estimate_metric


def covariance_of_draws(x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """cov(draws) instead of A # B."""
    return walkers._covariance(x, 1 - x.shape[1] / (x.shape[1] + len(x)))


def diagonal(x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The diagonal of A # B."""
    return np.diag(x.std(axis=0) / scores.std(axis=0))


VARIANTS = {
    "base": (),
    "100 walkers": ((exploration, "N_WALKERS", 100),),
    "400 walkers": ((exploration, "N_WALKERS", 400),),
    "one pass": tuple((m, "estimate_metric", lambda x, s: METRIC(x, s, 1)) for m in (exploration, walkers)),
    "six passes": tuple((m, "estimate_metric", lambda x, s: METRIC(x, s, 6)) for m in (exploration, walkers)),
    "cov(draws)": tuple((m, "estimate_metric", covariance_of_draws) for m in (exploration, walkers)),
    "diagonal": tuple((m, "estimate_metric", diagonal) for m in (exploration, walkers)),
    "ridge 1e-4": ((control, "RIDGE", 1e-4),),
    "ridge 1e-2": ((control, "RIDGE", 1e-2),),
    "rough .025": ((exploration, "ROUGH", 0.025),),
    "rough .1": ((exploration, "ROUGH", 0.1),),
    "remembers .5": ((exploration, "REMEMBERS", 0.5),),
    "remembers .9": ((exploration, "REMEMBERS", 0.9),),
}


def one_run(name: str, kind: str, replicate: int) -> dict[str, object]:
    """What one sample says."""
    known = case(name)
    sample = draws(name, kind, np.random.default_rng([5, replicate]))
    result = sc.estimate_accuracy(sample, known.target, modes=known.modes, rng=replicate)
    widths = [p.mean_estimate.half_width() / p.sd for p in result.parameters]
    return compare(result, sample.reshape(-1, known.target.dim), known) | {
        "evaluations": result.evaluations,
        "mean_half_width": np.median(widths),
        "sd_half_width": np.median([p.log_sd_estimate.half_width() for p in result.parameters]),
    }


def row(choice: str) -> list[dict[str, object]]:
    """Coverage, errors, half-widths and evaluations over all samples."""
    with ExitStack() as stack:
        for module, name, value in VARIANTS[choice]:
            stack.enter_context(mock.patch.object(module, name, value))
        rows = [one_run(*cell) for cell in product(NAMES, KINDS, range(REPLICATES))]

    def total(column: str) -> float:
        return sum(float(row[column]) for row in rows)

    def rms(column: str) -> str:
        return f"{np.sqrt(np.nanmean([float(row[column]) ** 2 for row in rows])):.4f}"

    evaluations = [row["evaluations"] for row in rows]
    values = (
        *(choice, len(rows)),
        *(f"{total(f'clear_{kind}_covered') / total(f'clear_{kind}'):.3f}" for kind in ("means", "sds")),
        *(rms("after_mean"), rms("after_sd")),
        *(f"{total(f'{kind}_half_width') / len(rows):.4f}" for kind in ("mean", "sd")),
        *(f"{np.median(evaluations):.0f}", f"{np.mean(evaluations):.0f}", commit()),
    )
    return [dict(zip(FIELDS, values, strict=True))]


FIELDS = (
    *("choice", "runs", "mean_coverage", "sd_coverage", "mean_error", "sd_error"),
    *("mean_half_width", "sd_half_width", "median_evaluations", "mean_evaluations", "commit"),
)
STUDIES = (Study("accuracy_choices", FIELDS, ("choice",), lambda: ((name,) for name in VARIANTS), row),)
