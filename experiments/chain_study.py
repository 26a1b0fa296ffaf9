"""Level and power of tests on Markov chains: kernel Stein tests with signs per block, agreement of chains.

Every test is a function ``(draws, problem, rng) -> p-value`` of a ``Draws`` record, NaN if it cannot tell;
TESTS maps names to them, and any test that takes chains can be added there. The seed of a run depends on the
case and its number alone, and rows hold counts: a study that was cut resumes, and more runs can be added.
Results: experiments/results/chain_study.csv.

    python -m experiments.chain_study --runs 300                          # all cases, three tests
    python -m experiments.chain_study --runs 300 --case burn-in           # some cases
    python -m experiments.chain_study --runs 100 --test check             # another test
"""

from __future__ import annotations

import argparse
import csv
import functools
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from .running import one_thread_each, positive

RESULTS = Path(__file__).parent / "results" / "chain_study.csv"
SEED = 2026
SIGNS = 499  # replicates of the kernel tests
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # bandwidths in units of the median squared distance; 3 beyond LONG draws
LONG = 2000
KEY = ("case", "test")
NEED_MODES = ("spksd_test", "pksdagg_test", "flux_test")


@dataclass(frozen=True)
class Case:
    """Chains of one kind; the target is N(0, I) unless the kind is a mixture."""

    rho: float  # autocorrelation of AR(1) chains
    dim: int
    chains: int
    length: int
    kind: str = "AR(1)"  # "AR(1)", "slow direction", "random walk"
    flaw: str = ""  # what is wrong with the chains
    size: float = 0.0  # of the flaw


def _cases() -> dict[str, Case]:
    cases = {}
    for length in (250, 1000):
        for dim in (1, 5, 20):
            for rho in (-0.5, 0.0, 0.5, 0.9, 0.97):
                cases[f"AR {rho:g}, d={dim}, 4x{length}"] = Case(rho, dim, 4, length)
    cases |= {
        "slow direction .9, d=5, 4x250": Case(0.9, 5, 4, 250, "slow direction"),
        "slow direction .95, d=20, 4x1000": Case(0.95, 20, 4, 1000, "slow direction"),
        "random walk, two modes, d=2, 4x250": Case(0.0, 2, 4, 250, "random walk"),
        "AR .9, d=5, 1x4000": Case(0.9, 5, 1, 4000),
        "AR .9, d=5, 40x25": Case(0.9, 5, 40, 25),
    }
    wrong = {
        "mean": (("AR .5, 4x250", 0.5, 4, 250, 0.07), ("AR .9, 4x1000", 0.9, 4, 1000, 0.15)),
        "width": (("AR .5, 4x250", 0.5, 4, 250, 1.15),),
        "independent, mean": (("4x250", 0.0, 4, 250, 0.045),),
        "one chain shifted": (
            ("AR .5, 4x250", 0.5, 4, 250, 0.4),
            ("AR .9, 4x1000", 0.9, 4, 1000, 0.4),
        ),
        "one chain, one coordinate shifted": (
            ("AR .5, 4x250", 0.5, 4, 250, 0.4),
            ("AR .5, 4x1000", 0.5, 4, 1000, 0.4),
        ),
        "burn-in": (
            ("AR .5, 4x250", 0.5, 4, 250, 3.0),
            ("AR .5, 4x1000", 0.5, 4, 1000, 3.0),
            ("AR .9, 4x1000", 0.9, 4, 1000, 3.0),
            ("AR .5, 1x4000", 0.5, 1, 4000, 3.0),
        ),
    }
    for flaw, rows in wrong.items():
        for label, rho, chains, length, size in rows:
            cases[f"{flaw} {size:g}, d=5, {label}"] = Case(rho, 5, chains, length, "AR(1)", flaw, size)
    return cases


CASES = _cases()


class Problem(NamedTuple):
    """What a test is given beside the draws."""

    target: Any
    modes: list[list[float]]


@functools.cache
def problem_of(kind: str, dim: int) -> Problem:
    """The target of a kind of chains, compiled once, and its modes."""
    from steincheck import models

    rest = [0.0] * (dim - 1)
    means = [[-3.0, *rest], [3.0, *rest]] if kind == "random walk" else [[0.0, *rest]]
    return Problem(models.gaussian_mixture(means), means)


def simulate(case: Case, rng: np.random.Generator) -> np.ndarray:
    """Chains (C, N, d), stationary with the distribution of the target but for the flaw."""
    if case.kind == "random walk":
        return _random_walk(case, rng)
    rho = np.full(case.dim, case.rho)
    if case.kind == "slow direction":
        rho[1:] = 0.0
    noise = rng.normal(size=(case.length, case.chains, case.dim))
    x = np.empty_like(noise)
    x[0] = noise[0]
    for t in range(1, case.length):
        x[t] = rho * x[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    if case.kind == "slow direction":
        turn, _ = np.linalg.qr(rng.normal(size=(case.dim, case.dim)))
        x = x @ turn
    return _spoiled(x.swapaxes(0, 1), case, rng)


def _spoiled(x: np.ndarray, case: Case, rng: np.random.Generator) -> np.ndarray:
    if case.flaw in ("mean", "independent, mean"):
        return x + case.size
    if case.flaw == "width":
        return x * case.size
    if case.flaw == "one chain shifted":
        x[0] += case.size
    if case.flaw == "one chain, one coordinate shifted":
        x[0, :, 0] += case.size
    if case.flaw == "burn-in":  # the first tenth comes in from `size` standard deviations, each chain its way
        tenth = case.length // 10
        way = rng.normal(size=(case.chains, 1, case.dim))
        way /= np.linalg.norm(way, axis=2, keepdims=True)
        x[:, :tenth] += case.size * way * np.linspace(1, 0, tenth)[:, None]
    return x


def _random_walk(case: Case, rng: np.random.Generator) -> np.ndarray:
    """Random walk Metropolis on two modes 6 standard deviations apart, started in the target."""
    target = problem_of(case.kind, case.dim).target
    centre = np.zeros(case.dim)
    centre[0] = 3.0

    def log_density(x: np.ndarray) -> np.ndarray:
        one = np.sum((x - centre) ** 2, axis=1)
        two = np.sum((x + centre) ** 2, axis=1)
        return np.logaddexp(-one / 2, -two / 2)

    state = target.sample(case.chains, rng=rng)
    now = log_density(state)
    x = np.empty((case.length, case.chains, case.dim))
    for row in x:
        proposal = state + 2.0 * rng.normal(size=state.shape)
        there = log_density(proposal)
        accepted = np.log(rng.random(case.chains)) < there - now
        state = np.where(accepted[:, None], proposal, state)
        now = np.where(accepted, there, now)
        row[:] = state
    return x.swapaxes(0, 1)


def kernel_blocks(draws: Any, problem: Problem, rng: np.random.Generator) -> float:
    """Kernel Stein test over several bandwidths with one random sign per block."""
    from steincheck.chains import autocorrelation_time, block_signs, cut_blocks

    matrices = _stein_matrices(draws.values, problem.target)
    tau = max(autocorrelation_time(matrix.sum(axis=1), draws.chain) for matrix in matrices)
    blocks = cut_blocks(tau, draws.chain)
    if not blocks.enough:
        return np.nan
    signs = block_signs(blocks.count, SIGNS, rng).astype(float)
    signs = np.concatenate([np.ones((1, blocks.count)), signs])
    member = (blocks.label == np.arange(blocks.count)[:, None]).astype(np.float32)
    summed = [(member @ matrix).astype(float) @ member.T for matrix in matrices]
    return _smallest([np.einsum("ra,ab,rb->r", signs, matrix, signs) for matrix in summed])


def kernel_independent(draws: Any, problem: Problem, rng: np.random.Generator) -> float:
    """The same test with one random sign per draw, as for independent draws; not for long chains."""
    n = len(draws)
    if n > LONG:
        return np.nan
    signs = np.concatenate([np.ones((1, n)), 2.0 * rng.integers(2, size=(SIGNS, n)) - 1])
    signs = signs.astype(np.float32)
    matrices = _stein_matrices(draws.values, problem.target)[1:4]
    return _smallest([np.einsum("ri,ri->r", signs @ matrix, signs) for matrix in matrices])


def agreement_of_chains(draws: Any, problem: Problem, rng: np.random.Generator) -> float:
    """Agreement of the chains in the means of s and x s + 1."""
    from steincheck.chains import agreement

    score = problem.target.score(draws.values)
    features = np.concatenate([score, draws.values * score + 1], axis=1)
    return agreement(features, draws.chain, rng).pvalue


def kernel_and_agreement(draws: Any, problem: Problem, rng: np.random.Generator) -> float:
    """Both at one level: agreement has a fifth of it."""
    kernel = kernel_blocks(draws, problem, rng)
    agreed = agreement_of_chains(draws, problem, rng)
    if np.isnan(kernel) and np.isnan(agreed):
        return np.nan
    return min(1.0, float(np.nanmin([kernel / 0.8, agreed / 0.2])))


def check(draws: Any, problem: Problem, rng: np.random.Generator) -> float:
    """The whole verdict with the modes given: its combined p-value, NaN if it cannot tell."""
    import steincheck as sc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = sc.check(draws, problem.target, modes=problem.modes, rng=rng)
    return np.nan if verdict.fits is None else verdict.pvalue


def public_test(name: str, draws: Any, problem: Problem, rng: np.random.Generator) -> float:
    """Any public test by name."""
    import steincheck as sc

    given = {"modes": problem.modes} if name in NEED_MODES else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(sc, name)(draws, problem.target, rng=rng, **given).pvalue


Test = Callable[[Any, Problem, np.random.Generator], float]
TESTS: dict[str, Test] = {
    "kernel, independent": kernel_independent,
    "kernel, blocks": kernel_blocks,
    "agreement": agreement_of_chains,
    "kernel and agreement": kernel_and_agreement,
    "check": check,
    **{
        name: functools.partial(public_test, name)
        for name in ("ksd_test", "ksdagg_test", "moment_test", *NEED_MODES)
    },
}
DEFAULT_TESTS = ("kernel, independent", "kernel, blocks", "agreement")
LEVELS = (0.05, 0.01, 0.005)


_LAST: list[Any] = [None, None]  # the Stein matrices of the sample at hand, for the tests that share them


def _stein_matrices(x: np.ndarray, target: Any) -> list[np.ndarray]:
    """Stein matrices without diagonal for several bandwidths, float32."""
    from steincheck.stein.kernels import median_bandwidth

    if _LAST[0] is not x:
        widths = WIDTHS if len(x) <= LONG else WIDTHS[::2]
        median = median_bandwidth(x[:: max(1, len(x) // 1000)])
        score = np.asarray(target.score(x))
        _LAST[:] = [x, _evaluated(x, score, np.multiply(widths, median))]
    return _LAST[1]


def _evaluated(x: np.ndarray, score: np.ndarray, widths: np.ndarray) -> list[np.ndarray]:
    matrices = np.empty((len(widths), len(x), len(x)), dtype=np.float32)
    for a in range(0, len(x), 500):
        matrices[:, a : a + 500] = _rows()(x[a : a + 500], score[a : a + 500], x, score, widths)
    for matrix in matrices:
        np.fill_diagonal(matrix, 0.0)
    return list(matrices)


@functools.cache
def _rows() -> Any:
    import jax

    from steincheck.stein.kernels import IMQ
    from steincheck.stein.tiles import stein_kernel

    def rows(x: Any, s: Any, y: Any, t: Any, widths: Any) -> Any:
        return jax.vmap(lambda width: stein_kernel(IMQ(bandwidth=width), x, s, y, t))(widths)

    return jax.jit(rows)


def _smallest(forms: list[np.ndarray]) -> float:
    """p-value of the smallest p-value over bandwidths; the first entry of each is the statistic."""
    ranks = np.array([stats.rankdata(-form, method="max") for form in forms]).min(axis=0)
    return float(np.mean(ranks <= ranks[0]))


def run(name: str, tests: dict[str, bool], repetition: int) -> list[tuple[str, float]]:
    """p-values of the tests that are wanted on one fresh sample; each test has its own random stream."""
    from steincheck.draws import as_draws

    case = CASES[name]
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), repetition])
    draws = as_draws(simulate(case, rng), case.dim)
    problem = problem_of(case.kind, case.dim)
    streams = dict(zip(TESTS, rng.spawn(len(TESTS)), strict=True))
    return [(test, TESTS[test](draws, problem, streams[test])) for test, wanted in tests.items() if wanted]


def study(name: str, tests: list[str], runs: int) -> list[dict]:
    """Extend the rows of a case to `runs` runs per test; rows count p-values up to each level."""
    rows = {row["test"]: row for row in saved() if row["case"] == name and row["test"] in tests}
    done = {test: int(rows[test]["runs"]) if test in rows else 0 for test in tests}
    found: dict[str, list[float]] = {test: [] for test in tests}
    start = time.process_time()
    for repetition in range(min(done.values()), runs):
        for test, p in run(name, {test: done[test] <= repetition for test in tests}, repetition):
            found[test].append(p)
    seconds = time.process_time() - start
    return [
        _row(name, test, np.array(found[test]), rows.get(test, {}), seconds) for test in tests if found[test]
    ]


def _row(name: str, test: str, p: np.ndarray, old: dict, seconds: float) -> dict:
    runs = int(old.get("runs", 0)) + len(p)
    row: dict[str, Any] = {"case": name, "test": test, "runs": runs}
    for level in LEVELS:
        row[f"count_{level:g}"] = int(old.get(f"count_{level:g}", 0)) + int(np.sum(p <= level))
    row["cannot_tell"] = int(old.get("cannot_tell", 0)) + int(np.sum(np.isnan(p)))
    interval = stats.binomtest(row["count_0.05"], runs).proportion_ci(method="exact")
    row["rejected"] = round(row["count_0.05"] / runs, 4)
    row["low"] = round(interval.low, 4)
    row["high"] = round(interval.high, 4)
    row["cpu_seconds"] = round(float(old.get("cpu_seconds", 0)) + seconds, 1)  # of all tests of the case
    row["seed"] = SEED
    row["versions"] = " ".join(f"{package} {version(package)}" for package in ("steincheck", "numpy", "jax"))
    return row


def saved() -> list[dict]:
    """Rows on disk."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="") as file:
        return list(csv.DictReader(file))


def save(rows: list[dict]) -> None:
    """Add rows in the place of those of the same case and test; cases keep their order."""
    new = {tuple(row[k] for k in KEY) for row in rows}
    kept = [row for row in saved() if tuple(row[k] for k in KEY) not in new]
    order = list(CASES)
    tests = list(TESTS)
    partial = RESULTS.with_suffix(".part")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            sorted([*kept, *rows], key=lambda row: (order.index(row["case"]), tests.index(row["test"])))
        )
    partial.replace(RESULTS)


def main() -> None:
    """Bring the cases to the number of runs asked for and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", default="", help="part of the names of the cases to run; by default all")
    parser.add_argument("--test", action="append", choices=list(TESTS), help="tests to run; may be repeated")
    parser.add_argument(
        "--runs", type=positive, default=300, help="runs per case and test, old ones included"
    )
    arguments = parser.parse_args()
    one_thread_each()
    tests = arguments.test or list(DEFAULT_TESTS)
    names = [name for name in CASES if arguments.case in name]
    if not names:
        parser.error(f"no case has {arguments.case!r} in its name; the cases are: {'; '.join(CASES)}")
    RESULTS.parent.mkdir(exist_ok=True)
    for name in names:
        if rows := study(name, tests, arguments.runs):
            save(rows)


if __name__ == "__main__":
    import_module("experiments.chain_study").main()
