"""Neural posterior estimates of others: `check` beside the published rates of C2ST and L-C2ST.

    python -m experiments sbi PATH [PART OF A CELL'S NAME]

PATH holds TASK_K.npz for observations K = 1, ..., 5 of three tasks of sbibm (Lueckmann et al. 2021): 10,000
reference draws, and as many of the estimates that Linhart, Gramfort and Rodrigues (2023) trained on 10^4 and
10^5 simulations. Draws outside the support are left out. Rows go to results/sbi.csv: the answer of `check`
without a limit of time, its first finding, evaluations and seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag

import steincheck as sc

from .rows import commit
from .running import Study, data_folder
from .summary import markdown

TASKS = ("slcp", "bernoulli_glm", "gaussian_linear_uniform")
KINDS = ("reference", "npe_10000", "npe_100000")
SUPPORT = {"slcp": 3.0, "gaussian_linear_uniform": 1.0, "bernoulli_glm": np.inf}
PUBLISHED = {  # fractions of ten observations that C2ST and L-C2ST reject: Linhart et al., Table 1
    ("slcp", "npe_10000"): (1.0, 0.4),
    ("slcp", "npe_100000"): (1.0, 0.0),
    ("bernoulli_glm", "npe_10000"): (1.0, 0.2),
    ("bernoulli_glm", "npe_100000"): (1.0, 0.0),
    ("gaussian_linear_uniform", "npe_10000"): (1.0, 0.0),
    ("gaussian_linear_uniform", "npe_100000"): (1.0, 0.0),
}


def density(task: str, data: Mapping[str, np.ndarray]) -> sc.Target:
    """The posterior of an observation, in the parameters of the task."""
    if task == "slcp":
        pairs = data["observation"].reshape(4, 2)

        def log_density(t: Any) -> Any:
            s1, s2 = t[2] ** 2, t[3] ** 2
            cross = jnp.tanh(t[4]) * s1 * s2
            covariance = jnp.array([[s1**2, cross], [cross, s2**2]]) + 1e-6 * jnp.eye(2)
            gap = pairs - t[:2]
            squares = jnp.sum(gap * jnp.linalg.solve(covariance, gap.T).T)
            return -0.5 * squares - 2.0 * jnp.linalg.slogdet(covariance)[1]

        return sc.from_jax(log_density, dim=5)
    if task == "gaussian_linear_uniform":
        centre = data["observation"]
        return sc.from_jax(lambda t: -jnp.sum((t - centre) ** 2) / 0.2, dim=10)
    difference = np.eye(9) - np.eye(9, k=-1)
    factor = difference @ difference + np.diag(np.sqrt(np.arange(9) / 9))
    precision = np.asarray(block_diag(np.array([[0.5]]), factor.T @ factor), dtype=float)
    design, y = data["design"], data["y"]

    def posterior(t: Any) -> Any:
        psi = design @ t
        return jnp.sum(y * psi - jnp.logaddexp(0.0, psi)) - 0.5 * t @ precision @ t

    return sc.from_jax(posterior, dim=10)


def row(task: str, observation: int, kind: str) -> list[dict[str, Any]]:
    """What `check` says of 10,000 draws."""
    with np.load(data_folder() / f"{task}_{observation}.npz") as data:
        target = density(task, data)
        draws = data[kind].astype(float)
    edge = SUPPORT[task]
    draws = draws[np.all(np.abs(draws) < edge, axis=1)]
    if np.isfinite(edge):
        target = sc.unbounded(target, (-edge, edge))
        draws = target.unconstrain(draws)
    start = time.perf_counter()
    verdict = sc.check(draws, target, independent=True, max_seconds=None, rng=0)
    seconds = round(time.perf_counter() - start)
    worst = verdict.findings[0].text if verdict.findings else ""
    made = sum(step.made for step in verdict.evaluations)
    answer = (verdict.fits, f"{verdict.pvalue:.3g}", worst, made, seconds)
    return [dict(zip(FIELDS, (task, observation, kind, len(draws), *answer, commit()), strict=True))]


def summary(rows: list[dict[str, str]]) -> str:
    """Rejections of `check` beside the published rates, in Markdown."""
    lines = [["task", "draws", "misfits of `check`", "cannot tell", "C2ST", "L-C2ST", "median evaluations"]]
    for task, kind in product(TASKS, KINDS):
        chosen = [row for row in rows if (row["task"], row["kind"]) == (task, kind)]
        counts = [
            f"{sum(row['fits'] == fits for row in chosen)} of {len(chosen)}" for fits in ("False", "None")
        ]
        published = [f"{rate:g}" for rate in PUBLISHED.get((task, kind), ())] or ["", ""]
        cost = np.median([int(row["evaluations"]) for row in chosen])
        lines.append([task, kind, *counts, *published, f"{cost:,.0f}"])
    return markdown(lines)


KEY = ("task", "observation", "kind")
FIELDS = (*KEY, "draws", "fits", "pvalue", "worst", "evaluations", "seconds", "commit")
READS_DATA = True
STUDIES = (Study("sbi", FIELDS, KEY, lambda: product(TASKS, range(1, 6), KINDS), row, summary),)
