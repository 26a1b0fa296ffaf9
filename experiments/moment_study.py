"""The moment test: level, power beside an oracle, what it names.

    python -m experiments moment_study [CASE] [--repetitions R]

Rows go to results/moment_study.csv: how often an event happened, with a 95 % interval (Clopper-Pearson).
Draws are exact and independent. "moments" is a rejection at level 0.05, "oracle" one by the likelihood-ratio
test that is told coordinate and kind, "named" that the feature of the right kind, parameter and mode is
significant, "impossible" that some exact draw is called impossible.

It reaches into the package for impossible draws, which are found within `check` only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy import stats

import steincheck as sc
from steincheck.modes.known import as_modes
from steincheck.moments import impossible_draws

from . import mode_targets, targets
from .counting import Case, CountedStudy, Events
from .targets import Model, correlated, exact, funnel, gaussian, multivariate_t

LEVEL = 0.05
GAPS = (3.2, 5.0, 6.0)
Rng = np.random.Generator


def moments(x: np.ndarray, problem: Model, rng: np.random.Generator, n_resamples: int = 999) -> Any:
    """The test, with the modes given."""
    options: dict[str, Any] = {"n_resamples": n_resamples, "check_score": False}
    return sc.moment_test(x, problem.target, modes=problem.modes, **options, rng=rng)


@lru_cache
def log_gamma(shape: float, d: int) -> Model:
    """Logarithms of independent gamma variables: log G(a) is log G(a + 1) + log(U) / a without underflow."""

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.log(rng.gamma(shape + 1, size=(n, d))) + np.log(rng.random((n, d))) / shape

    return targets.log_gamma(shape, d)._replace(sample=sample)


@lru_cache
def mixture(name: str) -> Model:
    """Gaussian mixtures, the mixture of t and bananas, the sensors: modes searched in a wide box."""
    made = {
        "mixture d=1": lambda: sc.models.gaussian_mixture([[-3.0], [3.0]], weights=[0.3, 0.7]),
        "mixture d=10": lambda: sc.models.gaussian_mixture(five_means()),
        "t-banana d=10": lambda: sc.models.t_banana_mixture(10, rng=0),
        "sensors": sc.models.sensor_network,
        **{f"two modes {gap:g} apart": partial(sc.models.gaussian_mixture, [[0.0], [gap]]) for gap in GAPS},
    }
    target = made[name]()
    box = {"sensors": (-0.5, 1.5)}.get(name, (-25, 25))
    return exact(target)._replace(modes=sc.find_modes(target, bounds=box, rng=0))


@lru_cache
def ring() -> Model:
    """A ring of radius 5 and width .3 with two tops."""
    made = mode_targets.ring()
    return Model(made.target, made.sample, np.array([[-5.01082, 0.0], [5.01082, 0.0]]))


def five_means() -> np.ndarray:
    """Five modes in ten dimensions, some 15 standard deviations apart."""
    return 5 * np.random.default_rng(7).normal(size=(5, 10))


def spawned(run: Callable[..., Events], n: int, rng: np.random.Generator, repetition: int) -> Events:
    """A run whose draws and test have random streams of their own."""
    return run(n, *rng.spawn(2))


def level(problem: Callable[[], Model], n: int, draws: Rng, test: Rng) -> Events:
    """Exact draws."""
    made = problem()
    return {"moments": moments(made.sample(n, draws), made, test, 399).pvalue <= LEVEL}


def affine(kind: str, size: float, d: int, n: int, draws: Rng, test: Rng) -> Events:
    """A Gaussian with one coordinate stretched, shifted, or correlated with another."""
    problem = gaussian(d)
    x = problem.sample(n, draws)
    if kind == "scale":
        x[:, 0] *= size
        square = np.mean(x[:, 0] ** 2)
        oracle = stats.chi2.sf(n * (square - 1 - np.log(square)), 1)
    elif kind == "location":
        x[:, 0] += size
        oracle = 2 * stats.norm.sf(abs(x[:, 0].mean()) * n**0.5)
    else:
        x[:, 0] = size * x[:, 1] + np.sqrt(1 - size**2) * x[:, 0]
        sample = np.corrcoef(x[:, 0], x[:, 1])[0, 1]
        oracle = stats.chi2.sf(-n * np.log1p(-(sample**2)), 1)
    result = moments(x, problem, test)
    wanted = {"x[0]"} if kind != "correlation" else {"x[0]", "x[1]"}
    told = named(result, kind, wanted)
    return {"moments": result.pvalue <= LEVEL, "oracle": oracle <= LEVEL, "named": told}


def named(result: Any, kind: str, parameters: set[str], mode: int | None = None) -> bool:
    """Whether this feature is significant."""
    told = [(feature.kind, set(feature.parameters), feature.mode) for feature in result.significant(LEVEL)]
    return (kind, parameters, mode) in told


def truncated(d: int, n: int, draws: Rng, test: Rng) -> Events:
    """A Gaussian without what lies beyond two standard deviations in any coordinate."""
    x = stats.truncnorm.rvs(-2, 2, size=(n, d), random_state=draws)
    return shape_events(moments(x, gaussian(d), test))


def gaussian_for_t(n: int, draws: Rng, test: Rng) -> Events:
    """Gaussian draws where the density is t with 3 degrees of freedom."""
    return shape_events(moments(draws.normal(size=(n, 1)), multivariate_t(3.0, 1), test))


def shape_events(result: Any) -> Events:
    """Rejected, and tails or scale are among what is significant."""
    told = {feature.kind for feature in result.significant(LEVEL)}
    wanted = {"tails", "extremes", "scale", "overall scale"}
    return {"moments": result.pvalue <= LEVEL, "named": not told.isdisjoint(wanted)}


@lru_cache
def unequal_modes() -> Model:
    """Two modes with standard deviations 1 and 100, six of both together apart."""
    means = np.array([[0.0], [606.0]])
    covariances = np.array([[[1.0]], [[1e4]]])
    return exact(sc.models.gaussian_mixture(means, covariances))._replace(modes=(means, covariances))


def narrow_mode(n: int, draws: Rng, test: Rng) -> Events:
    """Draws twice too wide in the narrow mode."""
    problem = unequal_modes()
    x, label = problem.target.sample_with_labels(n, draws)
    x[label == 0] *= 2
    result = moments(x, problem, test)
    return {"moments": result.pvalue <= LEVEL, "named": named(result, "scale", {"x[0]"}, 0)}


def light_mode(n: int, draws: Rng, test: Rng) -> Events:
    """One of five modes 6 apart has a tenth of the mass, and draws 1.35 times too wide."""
    angle = 2 * np.pi * np.arange(5) / 5
    means = 3 / np.sin(np.pi / 5) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    target = sc.models.gaussian_mixture(means, weights=[0.1, *[0.225] * 4])
    x, label = target.sample_with_labels(n, draws)
    x[label == 0] = means[0] + 1.35 * (x[label == 0] - means[0])
    problem = exact(target)._replace(modes=means)
    known = stats.chi2.sf(np.sum((x[label == 0] - means[0]) ** 2), 2 * np.sum(label == 0))
    return {"moments": moments(x, problem, test).pvalue <= LEVEL, "oracle": known <= LEVEL}


def one_of_five(n: int, draws: Rng, test: Rng) -> Events:
    """One coordinate of one of five modes 1.5 times too wide."""
    problem = mixture("mixture d=10")
    means = five_means()
    x, label = problem.target.sample_with_labels(n, draws)
    x[label == 2, 4] = means[2, 4] + 1.5 * (x[label == 2, 4] - means[2, 4])
    result = moments(x, problem, test)
    mode = int(np.argmin(np.sum((problem.modes.locations - means[2]) ** 2, axis=1)))
    return {"moments": result.pvalue <= LEVEL, "named": named(result, "scale", {"x[4]"}, mode)}


def mean_field(n: int, draws: Rng, test: Rng) -> Events:
    """The mean-field Gaussian closest to a Gaussian with correlations 0.9, d = 10: three times too narrow."""
    problem = correlated(10, 0.9)
    truth = (-problem.target.hessian(problem.modes)[0]).diagonal() ** -0.5
    result = moments(draws.normal(size=(n, 10)) * truth, problem, test)
    own = {f.parameters[0]: f for f in result.features if f.kind == "scale" and f.basis == "parameter"}
    return {"named": all(feature.pvalue <= LEVEL for feature in own.values())}


def bent(d: int, n: int, draws: Rng, test: Rng) -> Events:
    """A Gaussian of which the second coordinate depends on the square of the first; the correlation is 0."""
    x = gaussian(d).sample(n, draws)
    x[:, 1] = 0.4 * (x[:, 0] ** 2 - 1) / np.sqrt(2) + np.sqrt(1 - 0.4**2) * x[:, 1]
    result = moments(x, gaussian(d), test)
    return {"moments": result.pvalue <= LEVEL, "named": named(result, "curvature", {"x[0]", "x[1]"})}


def impossible(problem: Callable[[], Model], n: int, rng: np.random.Generator, repetition: int) -> Events:
    """Exact draws, of which none should be called impossible."""
    made = problem()
    x = made.sample(n, rng)
    log_density = made.target.log_density
    known = made.modes if isinstance(made.modes, sc.Modes) else as_modes(made.modes, made.target)
    return {"impossible": bool(impossible_draws(log_density, x, log_density(x), known))}


def cases() -> dict[str, Case]:
    """All cases by name."""
    both = (200, 1000)
    made = {
        **{f"level, Gaussian d={d}": partial(gaussian, d) for d in (1, 5, 20, 50)},
        **{f"level, t3 d={d}": partial(multivariate_t, 3.0, d) for d in (2, 10)},
        **{f"level, log-gamma({a:g}) d={d}": partial(log_gamma, a, d) for a in (0.5, 3.0) for d in (2, 10)},
        "level, funnel d=5": partial(funnel, 5, 3.0),
        "level, correlation .999 d=10": partial(correlated, 10, 0.999),
        **{
            f"level, {name}": partial(mixture, name)
            for name in ("mixture d=1", "mixture d=10", "t-banana d=10", "sensors")
        },
        **{f"level, two modes {gap:g} apart": partial(mixture, f"two modes {gap:g} apart") for gap in GAPS},
        "level, ring": ring,
    }
    runs = {name: Case(partial(level, problem), both, 1000) for name, problem in made.items()}
    for d in (5, 20, 50):
        runs[f"power, 1.15 times too wide d={d}"] = Case(partial(affine, "scale", 1.15, d), (1000,), 200)
        runs[f"power, 1.3 times too wide d={d}"] = Case(partial(affine, "scale", 1.3, d), (1000,), 100)
        runs[f"power, mean off by .15 d={d}"] = Case(partial(affine, "location", 0.15, d), (1000,), 200)
        runs[f"power, correlation .2 d={d}"] = Case(partial(affine, "correlation", 0.2, d), (1000,), 200)
    runs |= {
        "truncated at 2 sd d=1": Case(partial(truncated, 1), (1000,), 100),
        "truncated at 2 sd d=5": Case(partial(truncated, 5), (1000,), 100),
        "Gaussian for t3 d=1": Case(gaussian_for_t, (1000,), 100),
        "narrow mode twice too wide": Case(narrow_mode, (1000,), 100),
        "one of five modes 1.5 times too wide": Case(one_of_five, (2000,), 100),
        "light mode of five 1.35 times too wide": Case(light_mode, (500, 1000), 100),
        "mean-field d=10, rho=.9": Case(mean_field, (1000, 4000), 100),
        "power, bent d=10": Case(partial(bent, 10), (500,), 100),
    }
    table = {name: run._replace(run=partial(spawned, run.run)) for name, run in runs.items()}
    for name in ("Gaussian d=20", "t3 d=2", "t3 d=10", "log-gamma(0.5) d=10", "funnel d=5"):
        table[f"impossible, {name}"] = Case(partial(impossible, made[f"level, {name}"]), (1000,), 1000)
    cauchy = partial(multivariate_t, 1.0, 5)
    table["impossible, Cauchy d=5"] = Case(partial(impossible, cauchy), (1000,), 1000)
    return table


STUDIES = (CountedStudy("moment_study", 1408, cases()),)
