"""The moment test against its thresholds: level, power beside an oracle, what it names.

    python -m experiments.moment_study [--case NAME] [--repetitions R]

Rows go to results/moment_study.csv: how often the event named by `method` happened, with a 95 % interval
(Clopper-Pearson). Draws are exact and independent. "moments" is a rejection at level 0.05, "kernel" one by
KSDAgg, "oracle" one by the likelihood-ratio test that is told coordinate and kind, "named" that the feature
of the right kind, parameter and mode is significant, "impossible" that some exact draw is called impossible.
Every repetition has its own seed, made of the case, n and its number: a later run goes on where the rows end.

It reaches into the package for impossible draws and for the kernel test in units of each mode, which are
found within `check` only, and for the cost of the test without that of evaluating the score.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import steincheck as sc
from steincheck.aggregate import Aggregation, ksdagg_core
from steincheck.modes.arguments import as_modes
from steincheck.moments import impossible_draws
from steincheck.moments.columns import user_parameters
from steincheck.moments.core import moment_core
from steincheck.stein.inputs import spawn_streams

from .posteriors import published
from .running import positive
from .tables import RESULTS, Table, commit, position

SEED = 1408
LEVEL = 0.05
HEADER = ("case", "n", "method", "repetitions", "count", "rate", "low", "high", "seed", "commit")
Events = dict[str, bool]


class Problem(NamedTuple):
    """A target, its modes, and a function (n, rng) that makes exact draws."""

    target: Any
    modes: Any
    sample: Callable[[int, np.random.Generator], np.ndarray]


class Case(NamedTuple):
    """One sampling problem: (n, rng) -> which events happened; its sizes and repetitions."""

    run: Callable[[int, np.random.Generator], Events]
    sizes: tuple[int, ...]
    repetitions: int


def moments(x: np.ndarray, problem: Problem, rng: np.random.Generator, n_resamples: int = 999) -> Any:
    """The test, with the modes given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # far draws are the subject of some cases
        return sc.moment_test(
            x, problem.target, modes=problem.modes, n_resamples=n_resamples, check_score=False, rng=rng
        )


def jax_target(log_density: Callable[[Any], Any], dim: int) -> Any:
    """A target from a JAX function of one point."""
    return sc.from_jax(log_density, dim=dim)


@lru_cache
def gaussian(d: int, correlation: float = 0.0) -> Problem:
    """Gaussian with unit variances and equal correlations."""
    matrix = np.full((d, d), correlation) + (1 - correlation) * np.eye(d)
    root = np.linalg.cholesky(matrix)
    target = sc.models.gaussian_mixture(np.zeros((1, d)), matrix)
    return Problem(target, (np.zeros((1, d)), matrix[None]), lambda n, rng: rng.normal(size=(n, d)) @ root.T)


@lru_cache
def student(d: int, df: float = 3.0) -> Problem:
    """Multivariate t."""
    import jax.numpy as jnp

    target = jax_target(lambda x: -0.5 * (df + d) * jnp.log1p(jnp.sum(x**2) / df), d)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(df, size=(n, 1)) / df)

    return Problem(target, np.zeros((1, d)), sample)


@lru_cache
def log_gamma(d: int, shape: float) -> Problem:
    """Logarithms of independent gamma variables: skew, with one light and one heavy side."""
    import jax.numpy as jnp

    target = jax_target(lambda x: jnp.sum(shape * x - jnp.exp(x)), d)
    return Problem(target, np.full((1, d), np.log(shape)), lambda n, rng: _log_gamma_draws(n, d, shape, rng))


def _log_gamma_draws(n: int, d: int, shape: float, rng: np.random.Generator) -> np.ndarray:
    """log G(a) is log G(a + 1) + log(U) / a: no underflow for small shapes."""
    return np.log(rng.gamma(shape + 1, size=(n, d))) + np.log(rng.random((n, d))) / shape


@lru_cache
def funnel(d: int = 5) -> Problem:
    """Neal's funnel: x_0 ~ N(0, 3^2), the others N(0, exp(x_0))."""
    import jax.numpy as jnp

    def log_density(x: Any) -> Any:
        return -(x[0] ** 2) / 18 - 0.5 * (d - 1) * x[0] - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0])

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        first = 3 * rng.normal(size=(n, 1))
        return np.concatenate([first, np.exp(0.5 * first) * rng.normal(size=(n, d - 1))], axis=1)

    return Problem(jax_target(log_density, d), np.array([[-4.5 * (d - 1), *[0.0] * (d - 1)]]), sample)


@lru_cache
def mixture(name: str) -> Problem:
    """Gaussian mixtures, the mixture of t and bananas, the sensors: modes searched in a wide box."""
    made = {
        "mixture d=1": lambda: sc.models.gaussian_mixture([[-3.0], [3.0]], weights=[0.3, 0.7]),
        "mixture d=10": lambda: sc.models.gaussian_mixture(five_means()),
        "t-banana d=10": lambda: sc.models.t_banana_mixture(10, rng=0),
        "sensors": sc.models.sensor_network,
    }
    target = made[name]()
    box = {"sensors": (-0.5, 1.5)}.get(name, (-25, 25))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modes = sc.find_modes(target, bounds=box, rng=0)
    return Problem(target, modes, target.sample)


@lru_cache
def posterior(name: str) -> Problem:
    """A published posterior, its mode searched from exact draws of its own."""
    log_density, dim, sample = published(name)
    target = jax_target(log_density, dim)
    held_out = sample(100, np.random.default_rng(SEED))
    return Problem(target, sc.find_modes(target, draws=held_out, progress=False, rng=0), sample)


def five_means() -> np.ndarray:
    """Five modes in ten dimensions, some 15 standard deviations apart."""
    return 5 * np.random.default_rng(7).normal(size=(5, 10))


def level(problem: Callable[[], Problem], n: int, rng: np.random.Generator) -> Events:
    """Exact draws."""
    made = problem()
    draws, test = rng.spawn(2)
    return {"moments": moments(made.sample(n, draws), made, test, 399).pvalue <= LEVEL}


def affine(kind: str, size: float, d: int, n: int, rng: np.random.Generator) -> Events:
    """A Gaussian with one coordinate stretched, shifted, or correlated with another."""
    problem = gaussian(d)
    draws, test = rng.spawn(2)
    x = problem.sample(n, draws)
    if kind == "scale":
        x[:, 0] *= size
        oracle = stats.chi2.sf(likelihood_ratio(np.mean(x[:, 0] ** 2), n), 1)
    elif kind == "location":
        x[:, 0] += size
        oracle = 2 * stats.norm.sf(abs(x[:, 0].mean()) * n**0.5)
    else:
        x[:, 0] = size * x[:, 1] + np.sqrt(1 - size**2) * x[:, 0]
        sample = np.corrcoef(x[:, 0], x[:, 1])[0, 1]
        oracle = stats.chi2.sf(-n * np.log1p(-(sample**2)), 1)
    result = moments(x, problem, test)
    wanted = {"x[0]"} if kind != "correlation" else {"x[0]", "x[1]"}
    return {
        "moments": result.pvalue <= LEVEL,
        "oracle": oracle <= LEVEL,
        "named": named(result, kind, wanted),
    }


def likelihood_ratio(square: float, n: int) -> float:
    """Twice the log likelihood ratio of a variance that is free against variance 1."""
    return n * (square - 1 - np.log(square))


def named(result: Any, kind: str, parameters: set[str], mode: int | None = None) -> bool:
    """Whether this feature is significant."""
    return any(
        feature.kind == kind and set(feature.parameters) == parameters and feature.mode == mode
        for feature in result.significant(LEVEL)
    )


def widened(name: str, n: int, rng: np.random.Generator) -> Events:
    """The first parameter of a published posterior 1.1 times too wide; KSDAgg beside."""
    problem = posterior(name)
    draws, test, beside = rng.spawn(3)
    x = problem.sample(n, draws)
    centre = x[:, 0].mean()
    x[:, 0] = centre + 1.1 * (x[:, 0] - centre)
    result = moments(x, problem, test)
    sizes = {"n_resamples": 2000, "n_level_resamples": 2000}
    kernel = sc.ksdagg_test(x, problem.target, **sizes, check_score=False, rng=beside)
    return {
        "moments": result.pvalue <= LEVEL,
        "named": named(result, "scale", {"x[0]"}),
        "kernel": kernel.pvalue <= LEVEL,
    }


def truncated(d: int, n: int, rng: np.random.Generator) -> Events:
    """A Gaussian without what lies beyond two standard deviations in any coordinate."""
    draws, test = rng.spawn(2)
    x = stats.truncnorm.rvs(-2, 2, size=(n, d), random_state=draws)
    return shape_events(moments(x, gaussian(d), test))


def gaussian_for_t(n: int, rng: np.random.Generator) -> Events:
    """Gaussian draws where the density is t with 3 degrees of freedom."""
    draws, test = rng.spawn(2)
    return shape_events(moments(draws.normal(size=(n, 1)), student(1), test))


def shape_events(result: Any) -> Events:
    """Rejected, and tails are among what is significant."""
    told = any(feature.kind in ("tails", "extremes") for feature in result.significant(LEVEL))
    return {"moments": result.pvalue <= LEVEL, "named": told}


@lru_cache
def unequal_modes(width: float = 100.0) -> Problem:
    """Two modes with standard deviations 1 and `width`, six of both together apart."""
    means = np.array([[0.0], [6 * (width + 1)]])
    covariances = np.array([[[1.0]], [[width**2]]])
    target = sc.models.gaussian_mixture(means, covariances, [0.5, 0.5])
    return Problem(target, (means, covariances), target.sample)


def narrow_mode(n: int, rng: np.random.Generator) -> Events:
    """Draws twice too wide in the narrow mode."""
    draws, test = rng.spawn(2)
    problem = unequal_modes()
    x, label = problem.target.sample_with_labels(n, draws)
    x[label == 0] *= 2
    result = moments(x, problem, test)
    return {"moments": result.pvalue <= LEVEL, "named": named(result, "scale", {"x[0]"}, 0)}


def recorded(problem: Problem) -> sc.Modes:
    """Modes of which locations and covariances are known."""
    locations, covariances = problem.modes
    return sc.Modes(locations, covariances, problem.target.log_density(locations))


def kernel(width: float, factors: tuple[float, float], n: int, rng: np.random.Generator) -> Events:
    """KSDAgg for modes of sd 1 and `width`, stretched by `factors`; one metric, and units of each."""
    problem = unequal_modes(width)
    modes = recorded(problem)
    x, label = problem.target.sample_with_labels(n, rng)
    centre = modes.locations[label]
    x = centre + np.array(factors)[label][:, None] * (x - centre)
    options = {"bootstrap": "blocks", "n_resamples": 1000, "n_level_resamples": 1000}
    average = modes.covariances.mean(axis=0)
    scores = problem.target.score(x)
    own = Aggregation(**options)  # no public test takes units of each mode
    found = {
        "kernel, one metric": sc.ksdagg_test(
            x, problem.target, precondition=average, check_score=False, independent=True, rng=rng, **options
        ),
        "kernel, units of each mode": ksdagg_core(x, scores, own, modes=modes, streams=spawn_streams(rng)),
    }
    return {name: result.pvalue <= LEVEL for name, result in found.items()}


def one_of_five(n: int, rng: np.random.Generator) -> Events:
    """One coordinate of one of five modes 1.5 times too wide."""
    draws, test = rng.spawn(2)
    problem = mixture("mixture d=10")
    means = five_means()
    x, label = problem.target.sample_with_labels(n, draws)
    x[label == 2, 4] = means[2, 4] + 1.5 * (x[label == 2, 4] - means[2, 4])
    result = moments(x, problem, test)
    mode = int(np.argmin(np.sum((problem.modes.locations - means[2]) ** 2, axis=1)))
    return {"moments": result.pvalue <= LEVEL, "named": named(result, "scale", {"x[4]"}, mode)}


def mean_field(n: int, rng: np.random.Generator) -> Events:
    """The mean-field Gaussian closest to a Gaussian with correlations 0.9, d = 10: three times too narrow."""
    draws, test = rng.spawn(2)
    problem = gaussian(10, 0.9)
    truth = np.linalg.inv(problem.modes[1][0]).diagonal() ** -0.5
    result = moments(draws.normal(size=(n, 10)) * truth, problem, test)
    own = {f.parameters[0]: f for f in result.features if f.kind == "scale" and f.basis == "parameter"}
    return {"named": all(feature.pvalue <= LEVEL for feature in own.values())}


def bent(d: int, n: int, rng: np.random.Generator) -> Events:
    """A Gaussian of which the second coordinate depends on the square of the first; the correlation is 0."""
    draws, test = rng.spawn(2)
    x = gaussian(d).sample(n, draws)
    x[:, 1] = 0.4 * (x[:, 0] ** 2 - 1) / np.sqrt(2) + np.sqrt(1 - 0.4**2) * x[:, 1]
    result = moments(x, gaussian(d), test)
    return {"moments": result.pvalue <= LEVEL, "named": named(result, "curvature", {"x[0]", "x[1]"})}


def impossible(problem: Callable[[], Problem], n: int, rng: np.random.Generator) -> Events:
    """Exact draws, of which none should be called impossible."""
    made = problem()
    x = made.sample(n, rng)
    log_density = made.target.log_density
    known = made.modes
    if not isinstance(known, sc.Modes):
        known = as_modes(known, made.target)
    return {"impossible": bool(impossible_draws(log_density, x, log_density(x), known).rows)}


def chains(rho: float, n: int, rng: np.random.Generator) -> Events:
    """Four AR(1) chains in d = 5, tested as chains and as independent draws."""
    draws, *streams = rng.spawn(3)
    noise = draws.normal(size=(n // 4, 4, 5))
    x = noise.copy()
    for k in range(1, len(x)):
        x[k] = rho * x[k - 1] + np.sqrt(1 - rho**2) * noise[k]
    x = np.swapaxes(x, 0, 1)
    target, modes, _ = gaussian(5)
    test = partial(sc.moment_test, x, target, modes=modes, check_score=False)
    found = {"as chains": test(rng=streams[0]), "as draws": test(rng=streams[1], independent=True)}
    return {name: result.pvalue <= LEVEL for name, result in found.items()}


def cost(n: int, d: int) -> tuple[Any, ...]:
    """CPU time of the test over that of the score evaluations and two matrix products (n, d) by (d, d).

    The median of five ratios, each measured in one go; the first run compiles and is left out.
    """
    import time

    problem = gaussian(d)
    modes = recorded(problem)
    x = problem.sample(n, np.random.default_rng(SEED))
    parameters = user_parameters(problem.target)
    options = {"log_density": problem.target.log_density, "n_resamples": 999}
    ratios = []
    for _ in range(6):
        start = time.process_time()
        scores = problem.target.score(x)
        x.T @ (x @ np.eye(d))
        between = time.process_time()
        moment_core(x, scores, modes, parameters, rng=np.random.default_rng(0), **options)
        ratios.append((time.process_time() - between) / (between - start))
    ratio = f"{np.median(ratios[1:]):.2f}"
    return (
        f"cost, d={d}",
        n,
        "CPU time over scores and two products",
        1,
        "",
        ratio,
        "",
        "",
        SEED,
        commit(),
    )


def cases() -> dict[str, Case]:
    """All cases by name."""
    both = (200, 1000)
    made = {
        **{f"level, Gaussian d={d}": partial(gaussian, d) for d in (1, 5, 20, 50)},
        **{f"level, t3 d={d}": partial(student, d) for d in (2, 10)},
        **{f"level, log-gamma({a:g}) d={d}": partial(log_gamma, d, a) for a in (0.5, 3.0) for d in (2, 10)},
        "level, funnel d=5": funnel,
        "level, correlation .999 d=10": partial(gaussian, 10, 0.999),
        **{
            f"level, {name}": partial(mixture, name)
            for name in ("mixture d=1", "mixture d=10", "t-banana d=10", "sensors")
        },
    }
    posteriors = ("eight schools", "batting averages", "stack loss")
    made |= {f"level, {name}": partial(posterior, name) for name in posteriors}
    table = {name: Case(partial(level, problem), both, 1000) for name, problem in made.items()}
    for name in posteriors:
        table[f"power, {name}, one parameter 1.1 times too wide"] = Case(partial(widened, name), (1000,), 100)
    for d in (5, 20, 50):
        table[f"power, 1.15 times too wide d={d}"] = Case(partial(affine, "scale", 1.15, d), (1000,), 200)
        table[f"power, 1.3 times too wide d={d}"] = Case(partial(affine, "scale", 1.3, d), (1000,), 100)
        table[f"power, mean off by .15 d={d}"] = Case(partial(affine, "location", 0.15, d), (1000,), 200)
        table[f"power, correlation .2 d={d}"] = Case(partial(affine, "correlation", 0.2, d), (1000,), 200)
    table |= {
        "truncated at 2 sd d=1": Case(partial(truncated, 1), (1000,), 100),
        "truncated at 2 sd d=5": Case(partial(truncated, 5), (1000,), 100),
        "Gaussian for t3 d=1": Case(gaussian_for_t, (1000,), 100),
        "narrow mode twice too wide": Case(narrow_mode, (1000,), 100),
        "one of five modes 1.5 times too wide": Case(one_of_five, (2000,), 100),
        "mean-field d=10, rho=.9": Case(mean_field, (1000, 4000), 100),
    }
    for width in (10, 30):
        table[f"level, widths 1 and {width}"] = Case(partial(kernel, width, (1.0, 1.0)), (500,), 200)
    for width in (3.5, 10, 30):
        for place, factors in (("both", (1.3, 1.3)), ("narrow", (1.3, 1.0)), ("wide", (1.0, 1.3))):
            table[f"widths 1 and {width:g}, {place} 1.3 times too wide"] = Case(
                partial(kernel, width, factors), (500,), 40
            )
    for rho in (0.0, 0.5, 0.9):
        table[f"AR(1) rho={rho:g}, 4 chains"] = Case(partial(chains, rho), (4000,), 200)
    for d in (2, 10, 50):
        table[f"power, bent d={d}"] = Case(partial(bent, d), (500,), 100)
    exact = ("Gaussian d=20", "t3 d=2", "t3 d=10", "log-gamma(0.5) d=10", "funnel d=5", "t-banana d=10")
    for name in exact:
        table[f"impossible, {name}"] = Case(partial(impossible, made[f"level, {name}"]), (1000,), 1000)
    table["impossible, Cauchy d=5"] = Case(partial(impossible, partial(student, 5, 1.0)), (1000,), 1000)
    return table


Counts = dict[str, tuple[int, int]]  # how often each event happened, and in how many repetitions


def events() -> Table:
    """The table of results, in the order of the cases; costs come last."""
    place = position(list(cases()))
    key = ("case", "n", "method")
    return Table(RESULTS / "moment_study.csv", HEADER, key, lambda row: (place(row["case"]), int(row["n"])))


def counts_of(rows: list[dict[str, str]], name: str, n: int) -> Counts:
    """What was counted so far in one case at one size."""
    found = [row for row in rows if (row["case"], row["n"], row["seed"]) == (name, str(n), str(SEED))]
    return {row["method"]: (int(row["count"]), int(row["repetitions"])) for row in found}


def rows_of(name: str, n: int, counts: Counts) -> list[dict[str, Any]]:
    """The rows of one case at one size."""
    rows = []
    for method, (count, repetitions) in counts.items():
        ends = stats.binomtest(count, repetitions).proportion_ci()
        interval = (f"{value:.4f}" for value in (count / repetitions, ends.low, ends.high))
        row = (name, n, method, repetitions, count, *interval, SEED, commit())
        rows.append(dict(zip(HEADER, row, strict=True)))
    return rows


def run(name: str, case: Case, n: int, counts: Counts, last: int) -> None:
    """Add repetitions up to `last` to the counts of one case at one size."""
    first = max((repetitions for _, repetitions in counts.values()), default=0)
    for repetition in range(first, last):
        rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), n, repetition])
        for method, happened in case.run(n, rng).items():
            counts[method] = (counts.get(method, (0, 0))[0] + bool(happened), repetition + 1)


def main(arguments: list[str] | None = None) -> None:
    """Run what is not in the results yet: a case with fewer repetitions than asked for gets the others."""
    parser = argparse.ArgumentParser(prog="python -m experiments.moment_study", description=__doc__)
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    parser.add_argument("--repetitions", type=positive, help="at most so many per case")
    parser.add_argument("--results", type=Path, default=events().path)
    options = parser.parse_args(arguments)
    results = replace(events(), path=options.results)
    old = results.read()
    if options.case == "cost" and not any(row["case"].startswith("cost") for row in old):
        results.merge([dict(zip(HEADER, cost(10**6, 20), strict=True))])
    for name, case in cases().items():
        for n in case.sizes:
            wanted = min(case.repetitions, options.repetitions or case.repetitions)
            if options.case not in name:
                continue
            counts = counts_of(old, name, n)
            if max((repetitions for _, repetitions in counts.values()), default=0) >= wanted:
                continue
            for last in [*range(100, wanted, 100), wanted]:  # results so far are kept
                run(name, case, n, counts, last)
                results.merge(rows_of(name, n, counts))


if __name__ == "__main__":
    main()
