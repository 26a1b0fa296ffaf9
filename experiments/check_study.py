"""Level and power of `check`: how often it rejects true draws, and names what is missing or wrong.

    python -m experiments check_study [CASE] [--repetitions R] [--n-jobs J]

level: exact independent draws, modes given. searched: the same, modes searched briefly. needles: the flux
test on true draws of a density with 30 needles, of which a search misses some. edges: exact independent draws
of positive and bounded parameters, on their own scale and by `unbounded`; the kernel test beside. skew: exact
independent draws whose scores are skew, modes given; the kernel test beside, and whether it warns. missing:
50 draws of one mode of each multimodal target of experiments.mode_targets, modes searched. wrong: one thing
is wrong with a Gaussian in d dimensions, 1000 draws; "named" says that its first coordinate is named.
faulty: the widths of three modes are wrong by these factors; "covers" says that the 95 % interval of the
density's sd holds it, for a coordinate along which the modes differ and for one along which they do not.
seeds: whether two seeds give the same answer, for a Gaussian and one with an sd 1.1 times too large; "near"
are samples whose p-value is below .2 and more than .005 away from the level.
hierarchy: draws of a mean-field Gaussian for 45 parameters; "in order" says that the first three findings are
the parameters with the largest errors in order, or of errors less than .05 apart, and "sizes" that the
intervals of these three hold the true size.

Rows go to results/check_study.csv.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

import steincheck as sc
from steincheck.target import to_constrained

from . import accuracy_study, accuracy_targets, mode_targets
from .counting import Case, CountedStudy, Events
from .targets import Sampler, funnel, gaussian, log_gamma, student

SHORT_SEARCH = 20_000  # evaluations: the level does not depend on how many modes are found
SEARCHED = (
    *("two_1_50", "two_10_30", "narrow_1", "fromnarrow_2", "widths_5", "weights_10", "tbanana_10"),
    *("tmix_20", "corr_20", "t3_20", "eggbox_2", "ring_2"),
)
ONE_MODE = ("corr_20", "funnel_10", "t3_20", "gauss_100", "gp_3", "shekel_4", "schools_10")
ABOUT_MODES = {"missing mode", "mode share", "flow"}  # kinds of findings


def level_cases() -> Iterator[tuple[str, int, sc.Target, Sampler, np.ndarray]]:
    """Name, n, target, exact sampler, mode locations."""
    for d in (1, 5, 20, 50):
        yield f"Gaussian, d = {d}", 500, *gaussian(d)
    yield "t3, d = 10", 500, *student(3, 10)
    for shape in (0.5, 3.0):
        yield f"log-gamma({shape:g}), d = 2", 500, *log_gamma(shape, 2)
    pair = sc.models.gaussian_mixture([[-3.0], [3.0]])
    yield "two Gaussians 6 apart, d = 1", 500, pair, pair.sample, np.array([[-3.0], [3.0]])
    means = np.zeros((3, 10))
    means[1, 0] = means[2, 1] = 8.0
    three = sc.models.gaussian_mixture(means, weights=[0.5, 0.3, 0.2])
    yield "three Gaussians, d = 10", 500, three, three.sample, means


def wrong_cases(d: int) -> Iterator[tuple[str, Sampler]]:
    """What is wrong with draws of a Gaussian."""
    one = np.eye(d)[0]
    yield "one sd 1.15 times too wide", lambda n, rng: rng.normal(size=(n, d)) * (1 + 0.15 * one)
    yield "one sd 1.3 times too wide", lambda n, rng: rng.normal(size=(n, d)) * (1 + 0.3 * one)
    yield "one mean off by .15 sd", lambda n, rng: rng.normal(size=(n, d)) + 0.15 * one

    def correlated(n: int, rng: np.random.Generator) -> np.ndarray:
        x = rng.normal(size=(n, d))
        x[:, 1] = 0.2 * x[:, 0] + np.sqrt(1 - 0.04) * x[:, 1]
        return x

    yield "one correlation .2 instead of 0", correlated


@cache
def mode_target(name: str) -> mode_targets.Case:
    """A target of the study of the mode search, built once."""
    return mode_targets.TARGETS[name]()


def check(x: np.ndarray, target: sc.Target, rng: np.random.Generator, **options: Any) -> sc.Verdict:
    """A verdict whose seed is drawn from the stream of the sample."""
    return sc.check(x, target, progress=False, rng=int(rng.integers(2**32)), **options)


def events(verdict: sc.Verdict) -> Events:
    """Whether it rejects, and whether it cannot tell."""
    return {"misfit": verdict.fits is False, "cannot tell": verdict.fits is None}


def level(target: sc.Target, sample: Sampler, modes: Any, n: int, rng: Any, repetition: int) -> Events:
    """Exact draws, modes given."""
    return events(check(sample(n, rng), target, rng, modes=modes))


def searched(name: str, n: int, rng: np.random.Generator, repetition: int) -> Events:
    """Exact draws, modes searched."""
    case = mode_target(name)
    x = case.sample(n, rng)
    return events(check(x, case.target, rng, independent=True, max_evaluations=SHORT_SEARCH))


@cache
def needles_target() -> mode_targets.Case:
    """Three modes and 30 needles of 5 % together."""
    places = np.random.default_rng(2026).uniform(-20, 20, size=(30, 2))
    means = np.concatenate([[[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0]], places])
    weights = np.repeat([0.95 / 3, 0.05 / 30], [3, 30])
    return mode_targets.gaussians(means, np.repeat([1.0, 0.02], [3, 30]), weights)


def needles(n: int, rng: np.random.Generator, repetition: int) -> Events:
    """True draws of which 20 start the search and the others are tested."""
    case = needles_target()
    x = case.sample(n + 20, rng)
    search = {"draws": x[:20], "max_evaluations": SHORT_SEARCH, "progress": False}
    modes = sc.find_modes(case.target, **search, rng=rng)
    return {"flux_test": sc.flux_test(x[20:], case.target, modes=modes, rng=rng).pvalue <= 0.05}


def log_normal(x: jnp.ndarray, sd: float) -> jnp.ndarray:
    """Log density of exp(sd z), z standard normal."""
    log_x = jnp.log(jnp.where(x > 0, x, 1.0))
    return jnp.where(x > 0, -log_x - 0.5 * (log_x / sd) ** 2, -jnp.inf)


def edge_cases() -> Iterator[tuple[str, tuple[float, float], sc.Target, Sampler]]:
    """Name, support, target on its own scale and exact sampler."""
    for sd in (0.5, 1.0, 2.0):
        target = sc.from_jax(lambda x, sd=sd: log_normal(x[0], sd), 1)
        yield f"log-normal({sd:g})", (0, np.inf), target, lambda n, rng, sd=sd: rng.lognormal(0, sd, (n, 1))
    for shape in (1.0, 1.5, 2.0, 3.0, 5.0):
        target = sc.from_jax(lambda x, shape=shape: stats.gamma.logpdf(x[0], shape), 1)
        yield f"gamma({shape:g})", (0, np.inf), target, lambda n, rng, a=shape: rng.gamma(a, size=(n, 1))
    for a, b in ((2, 2), (5, 2)):
        target = sc.from_jax(lambda x, a=a, b=b: stats.beta.logpdf(x[0], a, b), 1)
        yield f"beta({a}, {b})", (0, 1), target, lambda n, rng, a=a, b=b: rng.beta(a, b, size=(n, 1))


def edges(target: sc.Target, sample: Sampler, n: int, rng: np.random.Generator, repetition: int) -> Events:
    """True draws of a density with an edge; for a target made by `unbounded` they are unconstrained first."""
    x = sample(n, rng)
    if target.constrained_names is not None:
        x = target.unconstrain(x)
    kernel = sc.ksdagg_test(x, target, n_resamples=2000, n_level_resamples=2000, rng=rng)
    return events(check(x, target, rng, max_evaluations=2000)) | {"ksdagg_test": kernel.reject()}


def skew_cases() -> Iterator[tuple[str, sc.Target, Sampler, np.ndarray]]:
    """Name, target, exact sampler and mode locations."""
    for shape in (0.05, 0.1, 0.3):
        yield f"log-gamma({shape:g})", *log_gamma(shape, 2)
    yield "funnel", *funnel(2, 3.0)
    yield "Gaussian", *gaussian(2)


def skew(target: sc.Target, sample: Sampler, modes: Any, n: int, rng: Any, repetition: int) -> Events:
    """True draws; a rejection by the kernel test is unwarned if it does not say that scores are skew."""
    x = sample(n, rng)
    kernel = sc.ksd_test(x, target, independent=True, rng=rng)
    warned = any("so skew" in text for text in kernel.warnings)
    verdict = check(x, target, rng, modes=modes, independent=True, max_evaluations=2000)
    return events(verdict) | {"ksd_test": kernel.reject(), "unwarned": kernel.reject() and not warned}


def missing(name: str, n: int, rng: np.random.Generator, repetition: int) -> Events:
    """Draws of one mode: whether the others are found and named."""
    case = mode_target(name)
    verdict = check(case.draws[:n], case.target, rng, independent=True)
    return events(verdict) | {"named": any(finding.kind in ABOUT_MODES for finding in verdict.findings)}


def wrong(target: sc.Target, sample: Sampler, n: int, rng: np.random.Generator, repetition: int) -> Events:
    """A Gaussian sample with one fault."""
    verdict = check(sample(n, rng), target, rng, modes=np.zeros((1, target.dim)))
    return events(verdict) | {"named": any("x[0]" in finding.parameters for finding in verdict.findings)}


def faulty(factors: tuple[float, ...], n: int, rng: np.random.Generator, repetition: int) -> Events:
    """Three Gaussians of which some are too wide or too narrow."""
    target = accuracy_targets.case("three_modes").target
    means, widths, shares = map(np.array, accuracy_targets.THREE_MODES)
    k = rng.choice(len(means), size=n, p=shares)
    x = means[k] + (widths * factors)[k, None] * rng.normal(size=(n, means.shape[1]))
    verdict = check(x, target, rng, modes=means)
    sd = np.sqrt(shares @ ((means - shares @ means) ** 2 + widths[:, None] ** 2))
    low, high = np.transpose([item.sd_interval for item in verdict.accuracy])
    covers = ((low <= sd) & (sd <= high)).tolist()
    return {"misfit": verdict.fits is False, "covers x[0]": covers[0], "covers x[3]": covers[3]}


def seeds(sd: float, n: int, rng: np.random.Generator, repetition: int) -> Events:
    """A Gaussian sample, checked twice."""
    x = rng.normal(size=(n, 2)) * (sd, 1.0)
    first, other = (check(x, gaussian(2).target, rng, modes=np.zeros((1, 2))) for _ in range(2))
    near = 0.005 < abs(first.pvalue - 0.05) < 0.15
    same = first.fits is other.fits
    return {"same": same, "near": near, "near, same": near and same}


def hierarchy(n: int, rng: np.random.Generator, repetition: int) -> Events:
    """The largest errors of a mean-field fit, by name and size."""
    known = accuracy_targets.case("hierarchical_counts")
    mean, covariance = accuracy_study.gaussian_fit("hierarchical_counts", "mean_field")
    x = mean + rng.normal(size=(n, len(mean))) * np.sqrt(np.diag(covariance))
    verdict = check(x, known.target, rng, modes=known.modes)
    values, names = to_constrained(x, known.target)
    truth = known.truth
    of_mean = (values.mean(axis=0) - truth.mean) / truth.sd
    of_sd = np.log(values.std(axis=0) / truth.sd)
    sizes = dict(zip(names, np.maximum(np.abs(of_mean), np.abs(of_sd)), strict=True))
    largest = sorted(sizes.values(), reverse=True)
    ordered, held = [], []
    for finding, size in zip(verdict.findings[:3], largest, strict=False):
        name = finding.parameters[0]
        k = names.index(name)
        actual = of_mean[k] if finding.kind == "mean" else np.exp(of_sd[k])
        ordered.append(sizes[name] > size - 0.05)
        held.append(finding.interval[0] <= actual <= finding.interval[1])
    return {"misfit": verdict.fits is False, "in order": all(ordered), "sizes": all(held)}


def cases() -> Iterator[tuple[str, Case]]:
    """All cases by name."""
    for name, n, target, sample, modes in level_cases():
        yield f"level, {name}", Case(partial(level, target, sample, modes), (n,), 200)
    for name in SEARCHED:
        yield f"searched, {name}", Case(partial(searched, name), (200,), 200)
    yield "needles, 30 of 5 % together", Case(needles, (180,), 300)
    for name, bounds, target, sample in edge_cases():
        yield f"edges, {name}, own scale", Case(partial(edges, target, sample), (200,), 200)
        free = sc.unbounded(target, bounds)
        yield f"edges, {name}, unbounded", Case(partial(edges, free, sample), (200,), 200)
    for name, target, sample, modes in skew_cases():
        yield f"skew, {name}, d = 2", Case(partial(skew, target, sample, modes), (100, 400), 200)
    for name in mode_targets.TARGETS:
        if name not in ONE_MODE:
            yield f"missing, {name}", Case(partial(missing, name), (mode_targets.N_HELD,), 3)
    for factors in ((1.0, 1.3, 1.0), (1.3, 1.0, 0.7)):
        yield f"faulty, widths times {factors}", Case(partial(faulty, factors), (1000,), 200)
    yield "seeds, sd 1", Case(partial(seeds, 1.0), (300,), 400)
    yield "seeds, sd 1.1", Case(partial(seeds, 1.1), (300,), 400)
    yield "hierarchy, d = 45", Case(hierarchy, (1000,), 40)
    for d in (5, 20, 50):
        for fault, sample in wrong_cases(d):
            yield f"wrong, {fault}, d = {d}", Case(partial(wrong, gaussian(d).target, sample), (1000,), 100)


STUDIES = (CountedStudy("check_study", 2026, dict(cases())),)
