"""Posteriors of others: `check` on reference draws of posteriordb, right and made wrong.

    python -m experiments posteriordb PATH [NAME]

PATH is a clone of posteriordb, or a folder with its posteriors/, models/, data/ and draws/. Needs httpstan;
about a minute of compilation per program. Writes experiments/results/posteriordb.csv, one row per posterior
and kind of draws: answer, worst finding, evaluations, and of the 95 % intervals of means how many hold
the mean of all 10,000 reference draws, allowing for its own error.

chains: all reference draws as 10 chains. sets: 10 disjoint sets of 1000. wide: the first coordinate 1.2 times
as wide about its mean. shifted: by .2 sd. mean_field, full_rank: Gaussians of the right means and variances.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import steincheck as sc
from steincheck.target import to_constrained

from .rows import commit
from .running import Study, data_folder
from .summary import markdown


def read_json(path: Path) -> Any:
    """JSON, or that of the only file in a zip."""
    zipped = path.with_suffix(path.suffix + ".zip")
    if zipped.exists():
        with zipfile.ZipFile(zipped) as archive:
            return json.loads(archive.read(archive.namelist()[0]))
    return json.loads(path.read_text())


def kinds(x: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Samples (n, d), or chains (10, 1000, d), in the coordinates of the target."""
    flat = x.reshape(-1, x.shape[2])
    mean, covariance = flat.mean(axis=0), np.cov(flat, rowvar=False)
    sd = np.sqrt(np.diag(covariance))
    sets = np.split(flat[rng.permutation(len(flat))], 10)
    wide, shifted = sets[0].copy(), sets[0].copy()
    wide[:, 0] = mean[0] + 1.2 * (wide[:, 0] - mean[0])
    shifted[:, 0] += 0.2 * sd[0]
    yield "chains", [x]
    yield "sets", sets
    yield "wide", [wide]
    yield "shifted", [shifted]
    yield "mean_field", [mean + sd * rng.normal(size=(1000, len(mean)))]
    yield "full_rank", [rng.multivariate_normal(mean, covariance, size=1000)]


def row(name: str, kind: str, samples: list[np.ndarray], target: sc.Target, truth: np.ndarray) -> dict:
    """One row: `truth` (3, k) holds mean, sd and standard error of every parameter."""
    options = {"independent": kind != "chains", "max_seconds": None}  # on any machine the same rows
    found = [sc.check(x, target, **options, rng=k) for k, x in enumerate(samples)]
    clear = covered = rough = 0
    for verdict in found:
        for item, (mean, _, error) in zip(verdict.accuracy, truth.T, strict=False):
            rough += item.rough
            if not item.rough:
                low, high = item.mean_interval
                reach = np.hypot((high - low) / 2, 1.96 * error)
                clear += 1
                covered += int(abs(item.mean - mean) <= reach)
    values = (
        *(name, target.dim, kind, len(samples)),
        sum(verdict.fits is False for verdict in found),
        sum(verdict.fits is None for verdict in found),
        next((f.text for verdict in found for f in verdict.findings), ""),
        *(clear, covered, rough),
        int(np.median([sum(step.made for step in verdict.evaluations) for verdict in found])),
        *(sc.__version__, commit()),
    )
    return dict(zip(FIELDS, values, strict=True))


def posterior(name: str) -> tuple[sc.Target, np.ndarray, np.ndarray]:
    """The target, the draws (10, 1000, d) in its coordinates, and mean, sd and error of its parameters."""
    path = data_folder()
    about = read_json(path / "posteriors" / f"{name}.json")
    data = read_json(path / "data" / f"{about['data_name']}.json")
    target = sc.from_stan(path / "models" / f"{about['model_name']}.stan", data)
    chains = read_json(path / "draws" / f"{name}.json")
    fit = {key: np.array([chain[key] for chain in chains]) for key in chains[0]}
    x = target.unconstrain(fit).reshape(len(chains), -1, target.dim)
    values = to_constrained(x.reshape(-1, target.dim), target)[0]
    sd = values.std(axis=0)
    return target, x, np.stack([values.mean(axis=0), sd, sd / np.sqrt(len(values))])


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a posterior."""
    target, x, truth = posterior(name)
    made = kinds(x, np.random.default_rng(0))
    return [row(name, kind, samples, target, truth) for kind, samples in made]


def summary(rows: list[dict[str, str]]) -> str:
    """Answers and covered means by the kind of draws, in Markdown."""
    lines = [["draws", "posteriors", "sets", "misfit", "cannot tell", "means covered", "median evaluations"]]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        chosen = [row for row in rows if row["kind"] == kind]
        names = ("samples", "misfit", "cannot_tell", "means", "means_covered")
        sets, misfit, unknown, means, covered = (sum(int(row[name]) for row in chosen) for name in names)
        cost = np.median([int(row["evaluations"]) for row in chosen])
        counts = map(str, (len(chosen), sets, misfit, unknown))
        lines.append([kind, *counts, f"{covered} of {means}", f"{cost:,.0f}"])
    return markdown(lines)


FIELDS = (
    *("posterior", "dim", "kind", "samples", "misfit", "cannot_tell", "worst", "means", "means_covered"),
    *("rough", "evaluations", "version", "commit"),
)
READS_DATA = True
STUDIES = (
    Study(
        "posteriordb",
        FIELDS,
        ("posterior",),
        lambda: ((path.stem,) for path in sorted((data_folder() / "posteriors").glob("*.json"))),
        rows,
        summary,
    ),
)
