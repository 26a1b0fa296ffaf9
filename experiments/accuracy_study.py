"""Coverage, errors, answers and cost of `estimate_accuracy` on targets that it was not developed on.

But for skew_series, whose coverage led to the average over windows.

python -m experiments accuracy_study [PART OF "TARGET, KIND, REPLICATE"] [--summary]

Writes experiments/results/accuracy_study.csv, one row per replicate.
Kinds: exact_200, exact_1000: independent draws. chain_5, chain_20: four stationary chains of random-walk
Metropolis, thinned to these autocorrelation times (of the slowest coordinate, measured in a long run).
half_converged: the same with time 60, from starts 2 sd off. mean_field, full_rank: Gaussians of largest ELBO.
laplace: at the mode. wide: the first coordinate x1.2. shifted: the first coordinate by .2 sd.
"""

from __future__ import annotations

import time
from functools import cache
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import steincheck as sc
from steincheck.chains.blocks import autocorrelation_time
from steincheck.result import AccuracyResult
from steincheck.target import to_constrained

from .accuracy_targets import TARGETS, Case, case
from .rows import commit
from .running import Study

KINDS = (
    *("exact_200", "exact_1000", "chain_5", "chain_20", "mean_field", "full_rank", "laplace"),
    *("half_converged", "wide", "shifted"),
)
TOLERANCE = 0.1
REPLICATES = 20
HARD = ("t4",)  # without a fourth moment


class Walk(NamedTuple):
    """How a random walk is thinned, and its time before."""

    scale: float
    time: float


@cache
def _walker(name: str):
    """A compiled random walk: starts (c, d), scale, thinning -> states (250, c, d)."""
    log_density = jax.vmap(case(name).target.jax_log_density)
    root = np.linalg.cholesky(np.atleast_2d(np.cov(case(name).truth.pool[:100_000], rowvar=False)))
    root = 2.38 / np.sqrt(len(root)) * root

    def step(_, state):
        x, log_p, key, scale = state
        key, first, second = jax.random.split(key, 3)
        y = x + scale * jax.random.normal(first, x.shape) @ root.T
        proposed = log_density(y)
        take = jnp.log(jax.random.uniform(second, log_p.shape)) < proposed - log_p
        return jnp.where(take[:, None], y, x), jnp.where(take, proposed, log_p), key, scale

    @jax.jit
    def walk(x, seed, scale, thinning):
        def kept(state, _):
            state = jax.lax.fori_loop(0, thinning, step, state)
            return state, state[0]

        start = (x, log_density(x), jax.random.PRNGKey(seed), scale)
        return jax.lax.scan(kept, start, length=250)[1]

    def states(x: np.ndarray, rng: np.random.Generator, scale: float, thinning: int) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(walk(x, int(rng.integers(2**31)), scale, thinning)).swapaxes(0, 1)

    return states


@cache
def _walk(name: str) -> Walk:
    """A scale at which the time of the slowest coordinate is at least 60, and that time."""
    rng = np.random.default_rng(7)
    pool = case(name).truth.pool
    scale, thinning, time_ = 1.0, 1, 0.0
    for _ in range(12):
        chains = _walker(name)(pool[rng.integers(len(pool), size=40)], rng, scale, thinning)
        label = np.repeat(np.arange(40), 250)
        flat = chains.reshape(-1, pool.shape[1])
        measured = float(np.max(autocorrelation_time(flat, label)))
        time_ = measured * thinning
        if measured > 15:  # too long for chains of 250
            thinning *= 3
        elif time_ < 60:
            scale *= 0.6
        else:
            break
    return Walk(scale, time_)


def chains(name: str, tau: float, rng: np.random.Generator, offset: float = 0.0) -> np.ndarray:
    """Four chains (4, 250, d) of autocorrelation time tau, from exact draws moved by `offset` sds."""
    pool = case(name).truth.pool
    scale, time_ = _walk(name)
    starts = pool[rng.integers(len(pool), size=4)]
    if offset:
        direction = rng.normal(size=pool.shape[1])
        root = np.linalg.cholesky(np.atleast_2d(np.cov(pool[:100_000], rowvar=False)))
        starts = pool.mean(axis=0) + 0.3 * (starts - pool.mean(axis=0))
        starts += offset * root @ (direction / np.linalg.norm(direction))
    return _walker(name)(starts, rng, scale, max(1, round(time_ / tau)))


@cache
def gaussian_fit(name: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of an approximation: natural gradients of the ELBO, or the mode."""
    target, modes, _ = case(name)
    mean, precision = modes.locations[0], np.linalg.inv(modes.covariances[0])
    if kind == "laplace":
        return mean, modes.covariances[0]
    floor = 0.01 * np.linalg.eigvalsh(precision)[0]
    z = np.random.default_rng(3).normal(size=(250, len(mean)))
    z = np.concatenate([z, -z])
    if kind == "mean_field":
        precision = np.diag(np.diag(precision))
    for _ in range(60):
        covariance = np.linalg.inv(precision)
        x = mean + z @ np.linalg.cholesky(covariance).T
        curvature = -np.mean(target.hessian(x), axis=0)
        if kind == "mean_field":
            curvature = np.diag(np.diag(curvature))
        values, vectors = np.linalg.eigh(0.7 * precision + 0.3 * (curvature + curvature.T) / 2)
        precision = (vectors * np.maximum(values, floor)) @ vectors.T
        mean = mean + 0.3 * np.linalg.solve(precision, target.score(x).mean(axis=0))
    return mean, np.linalg.inv(precision)


def draws(name: str, kind: str, rng: np.random.Generator) -> np.ndarray:
    """A sample of this kind."""
    pool = case(name).truth.pool
    if kind.startswith("chain"):
        return chains(name, float(kind.removeprefix("chain_")), rng)
    if kind == "half_converged":
        return chains(name, 60.0, rng, 2.0)
    if kind in ("mean_field", "full_rank", "laplace"):
        mean, covariance = gaussian_fit(name, kind)
        return mean + rng.normal(size=(1000, len(mean))) @ np.linalg.cholesky(covariance).T
    x = pool[rng.integers(len(pool), size=200 if kind == "exact_200" else 1000)]
    if kind == "wide":
        x[:, 0] = pool[:, 0].mean() + 1.2 * (x[:, 0] - pool[:, 0].mean())
    if kind == "shifted":
        x[:, 0] += 0.2 * pool[:, 0].std()
    return x


def one_run(name: str, kind: str, replicate: int) -> dict[str, object]:
    """A row of the table."""
    known = case(name)
    rng = np.random.default_rng([list(TARGETS).index(name), KINDS.index(kind), replicate])
    sample = draws(name, kind, rng)
    begin = time.perf_counter()
    result = sc.estimate_accuracy(sample, known.target, modes=known.modes, rng=rng)
    seconds = time.perf_counter() - begin
    return {
        "target": name,
        "kind": kind,
        "replicate": replicate,
        "parameters": len(result.parameters),
        "answer": result.answer(TOLERANCE),
        "evaluations": result.evaluations,
        "seconds": f"{seconds:.2f}",
        "commit": commit(),
        **compare(result, sample.reshape(-1, known.target.dim), known),
    }


def compare(result: AccuracyResult, sample: np.ndarray, known: Case) -> dict[str, object]:
    """The estimates beside the truth, means in sds and sds as logs."""
    truth = known.truth
    values = to_constrained(sample, known.target)[0]
    raw_mean = (values.mean(axis=0) - truth.mean) / truth.sd
    raw_sd = np.log(values.std(axis=0) / truth.sd)
    records = result.parameters
    mean = (np.array([p.mean for p in records]) - truth.mean) / truth.sd
    log_sd = np.array([p.log_sd_estimate.value for p in records]) - np.log(truth.sd)
    mean_width = np.array([p.mean_estimate.half_width() for p in records]) / truth.sd
    sd_width = np.array([p.log_sd_estimate.half_width() for p in records])
    rough = np.array([p.rough for p in records])
    known_sd = np.array([p.has_sd for p in records])
    mean_right = np.abs(mean) <= np.hypot(mean_width, 2 * truth.mean_error / truth.sd)
    sd_right = np.abs(log_sd) <= np.hypot(sd_width, 2 * truth.log_sd_error)
    return {
        "largest_error": f"{max(np.abs(raw_mean).max(), np.abs(raw_sd).max()):.4f}",
        "clear_means": int((~rough).sum()),
        "clear_means_covered": int(mean_right[~rough].sum()),
        "rough_means": int(rough.sum()),
        "rough_means_covered": int(mean_right[rough].sum()),
        "clear_sds": int((~rough & known_sd).sum()),
        "clear_sds_covered": int(sd_right[~rough & known_sd].sum()),
        "rough_sds": int((rough & known_sd).sum()),
        "rough_sds_covered": int(sd_right[rough & known_sd].sum()),
        "no_sd": int((~known_sd).sum()),
        "not_forgotten": sum(not p.forgotten for p in records),
        "raw_mean": f"{np.sqrt(np.mean(raw_mean**2)):.5f}",
        "after_mean": f"{np.sqrt(np.mean(mean**2)):.5f}",
        "raw_sd": _rms(raw_sd[known_sd]),
        "after_sd": _rms(log_sd[known_sd]),
    }


def _rms(values: np.ndarray) -> str:
    return f"{np.sqrt(np.mean(values**2)):.5f}" if len(values) else "nan"


def summary(rows: list[dict[str, str]]) -> str:
    """Coverage, errors, answers and cost, per kind and per target."""
    lines = []
    for column in ("kind", "target"):
        lines.append(
            f"{column:20s} runs cover mean/sd  rough mean/sd  before -> after (mean; sd) scores no_sd"
        )
        for name in dict.fromkeys(row[column] for row in rows):
            lines.append(f"{name:20s} {_line([row for row in rows if row[column] == name])}")
    easy = [row for row in rows if row["target"] not in HARD]
    for label, low, high in (("< .07", 0, 0.07), (".07-.1", 0.07, 0.1), ("> .1", 0.1, np.inf)):
        part = [row["answer"] for row in easy if low <= float(row["largest_error"]) < high]
        counts = {answer: part.count(answer) for answer in ("True", "False", "None")}
        lines.append(f"true error {label}: {len(part)} runs, {counts}")
    hard = [row["answer"] for row in rows if row["target"] in HARD]
    lines.append(f"{', '.join(HARD)}: fits {hard.count('True')} of {len(hard)}")
    return "\n".join(lines)


def _line(rows: list[dict[str, str]]) -> str:
    def total(name: str) -> float:
        return sum(float(row[name]) for row in rows)

    def ratio(kind: str) -> str:
        return f"{total(f'{kind}_covered') / total(kind):.3f}" if total(kind) else "-"

    def rms(name: str) -> str:
        squares = [float(row[name]) ** 2 for row in rows if row[name] != "nan"]
        return f"{np.sqrt(np.mean(squares)):.4f}" if squares else "-"

    cover = f"{ratio('clear_means')}/{ratio('clear_sds')} {ratio('rough_means')}/{ratio('rough_sds')}"
    errors = f"{rms('raw_mean')} -> {rms('after_mean')}; {rms('raw_sd')} -> {rms('after_sd')}"
    scores = np.median([float(row["evaluations"]) for row in rows])
    return f"{len(rows):5d} {cover} {errors} {scores:.0f} {total('no_sd') / total('parameters'):.2f}"


KEY = ("target", "kind", "replicate")
FIELDS = (
    *(*KEY, "parameters", "answer", "largest_error", "evaluations", "seconds"),
    *("clear_means", "clear_means_covered", "rough_means", "rough_means_covered"),
    *("clear_sds", "clear_sds_covered", "rough_sds", "rough_sds_covered", "no_sd", "not_forgotten"),
    *("raw_mean", "after_mean", "raw_sd", "after_sd", "commit"),
)
STUDIES = (
    Study(
        "accuracy_study",
        FIELDS,
        KEY,
        lambda: ((name, kind, k) for k, name, kind in product(range(REPLICATES), TARGETS, KINDS)),
        lambda *cell: [one_run(*cell)],
        summary,
    ),
)
