"""Weighted draws: level and power of every test and of `check`, resampled draws, stuck chains repaired.

    python -m experiments weights_study [CASE] [--repetitions R]

Rows go to results/weights_study.csv; the size of a case is Kish's effective sample size. Each mode has a
Gaussian. Draws with weights p/q come from a Gaussian 1.5 times ("wide") or .8 times ("narrow") as wide, or
from a t with 5 degrees of freedom. "shifted": weights of a density whose first coordinate lies .2 higher.
"half": one of the modes has half of its weight. Beside them are the tests on as many independent draws
of what the weights say.
"resampled": 1000 of 1000 weighted draws with replacement. "repair": stuck chains whose verdict gives weights,
with which they are checked again; "fits" says that they then fit, "rejected first" that they did not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy import stats

import steincheck as sc

from .counting import Case, CountedStudy, Events
from .targets import autoregression, on_first_axis

LEVEL = 0.05
CHECKS = 200  # repetitions of `check`, which takes as long as all other tests
SHARES = {1: (1.0,), 2: (0.5, 0.5), 4: (0.4, 0.3, 0.2, 0.1)}
WIDTHS = {"wide": 1.5, "narrow": 0.8, "t5": 1.0}
FEW: dict[str, Any] = {"n_resamples": 199}
AGGREGATED: dict[str, Any] = FEW | {"n_level_resamples": 199}


@lru_cache
def row_of_modes(count: int, d: int) -> tuple[sc.Target, np.ndarray]:
    """Unit Gaussians 8 apart along the first axis, and their modes."""
    places = on_first_axis(8.0 * np.arange(count), d)
    return sc.models.gaussian_mixture(places, weights=SHARES[count]), places


def weighted_draws(
    count: int, d: int, shape: str, wrong: str, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws (n, d) about the modes and the logarithms of their weights, right or wrong."""
    target, places = row_of_modes(count, d)
    width = WIDTHS[shape]
    z = rng.normal(size=(n, d)) * width
    proposal: Any = stats.multivariate_normal(np.zeros(d), width**2 * np.eye(d))
    if shape == "t5":
        z /= np.sqrt(rng.chisquare(5, size=(n, 1)) / 5)
        proposal = stats.multivariate_t(np.zeros(d), np.eye(d), 5)
    x = places[rng.choice(count, p=SHARES[count], size=n)] + z
    parts = [proposal.logpdf(x - place).ravel() for place in places] + np.log(SHARES[count])[:, None]
    claimed = x - 0.2 * np.eye(d)[0] if wrong == "shifted" else x
    log_weights = target.log_density(claimed) - np.logaddexp.reduce(parts, axis=0)
    return x, log_weights - np.log(2) * (wrong == "half") * (x[:, 0] < 4)


@lru_cache
def draws_needed(count: int, d: int, shape: str, wrong: str, size: int) -> int:
    """So many draws have Kish's effective size `size`."""
    many = 100_000
    pilot = weighted_draws(count, d, shape, wrong, many, np.random.default_rng(0))[1]
    weights = np.exp(pilot - pilot.max())
    return round(size * many * np.sum(weights**2) / weights.sum() ** 2)


def independent_draws(count: int, d: int, wrong: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent draws of the density that right, or wrong, weights belong to."""
    share = np.array(SHARES[count])
    share[0] *= 0.5 if wrong == "half" else 1.0
    target, _ = row_of_modes(count, d)
    x = target.sample(n, rng, weights=share / share.sum())
    return x + 0.2 * np.eye(d)[0] if wrong == "shifted" else x


def rejections(x: np.ndarray, count: int, d: int, seed: int, check: bool, **weights: Any) -> Events:
    """Whether each test that applies rejects, and whether `check` cannot tell."""
    target, places = row_of_modes(count, d)
    common = weights | {"rng": seed}
    known = common | {"modes": places, "check_score": False}
    tests: dict[str, Callable[[], Any]] = {
        "ksd": lambda: sc.ksd_test(x, target, check_score=False, **FEW, **common),
        "ksdagg": lambda: sc.ksdagg_test(x, target, check_score=False, **AGGREGATED, **common),
        "fssd": lambda: sc.fssd_test(x, target, check_score=False, **common),
        "moments": lambda: sc.moment_test(x, target, **known),
    }
    if count > 1:
        tests = {
            "flux": lambda: sc.flux_test(x, target, modes=places, **common),
            "spksd": lambda: sc.spksd_test(x, target, theta=[0.9, 1.1], n_steps=5, **FEW, **known),
        }
    events = {name: bool(test().pvalue <= LEVEL) for name, test in tests.items()}
    if check:
        verdict = sc.check(x, target, modes=places, max_seconds=None, **common)
        events |= {"check": verdict.fits is False, "check cannot tell": verdict.fits is None}
    return events


def importance(
    count: int, d: int, shape: str, wrong: str, size: int, rng: np.random.Generator, repetition: int
) -> Events:
    """An importance sample; wrong ones beside independent draws."""
    n = draws_needed(count, d, shape, wrong, size)
    x, log_weights = weighted_draws(count, d, shape, wrong, n, rng)
    seed = int(rng.integers(2**32))
    check = repetition < CHECKS
    events = rejections(x, count, d, seed, check, log_weights=log_weights)
    if wrong:
        independent = independent_draws(count, d, wrong, size, rng)
        beside = rejections(independent, count, d, seed, check)
        events |= {f"{name}, independent": happened for name, happened in beside.items()}
    return events


def resampled(d: int, size: int, rng: np.random.Generator, repetition: int) -> Events:
    """As many draws of a right importance sample with replacement."""
    x, log_weights = weighted_draws(1, d, "wide", "", size, rng)
    weights = np.exp(log_weights - log_weights.max())
    again = x[rng.choice(size, size=size, p=weights / weights.sum())]
    return rejections(again, 1, d, int(rng.integers(2**32)), True, independent=True)


STUCK: dict[str, tuple[Any, ...]] = {  # modes, widths and shares of the spheres there, homes of the chains
    "two equal modes, d = 1": ([[-4.0], [4.0]], [1, 1], [0.5, 0.5], [0, 0, 0, 1]),
    "modes of .7, .2 and .1, d = 2": ([[0, 0], [9, 0], [0, 9]], [1, 1, 1], [0.7, 0.2, 0.1], [0, 1, 2, 2]),
    "modes .8 and 2 wide, d = 3": (12.0 * np.eye(2, 3, -1), [0.8, 2], [0.3, 0.7], [0, 0, 0, 1]),
    "four modes of .4 to .1, d = 5": (8.0 * np.eye(4, 5), [1, 1, 1, 1], [0.4, 0.3, 0.2, 0.1], [0, 1, 2, 3]),
}


def repaired(kind: str, size: tuple[int, int], rng: np.random.Generator, repetition: int) -> Events:
    """AR(1) chains, each within one mode, before and after they have weights."""
    places, widths, shares, homes = map(np.array, STUCK[kind])
    d = places.shape[1]
    target = sc.models.gaussian_mixture(places, np.multiply.outer(widths**2, np.eye(d)), shares)
    z = autoregression(rng.normal(size=(size[1], size[0], d)).swapaxes(0, 1), 0.3)
    x = places[homes, None] + widths[homes, None, None] * z
    options: dict[str, Any] = {"modes": places, "max_seconds": None, "rng": int(rng.integers(2**32))}
    first = again = sc.check(x, target, **options)
    if first.importance_weights is not None:
        again = sc.check(x, target, weights=first.importance_weights, **options)
    return {"rejected first": first.fits is False, "fits": again.fits is True}


def cases() -> Iterator[tuple[str, Case]]:
    """All cases by name."""
    for d in (1, 5, 10):
        for shape in ("wide", "t5"):
            name = f"{shape}, d = {d}"
            yield f"level, {name}", Case(partial(importance, 1, d, shape, ""), (100, 1000), 500)
            yield f"shifted, {name}", Case(partial(importance, 1, d, shape, "shifted"), (300,), 100)
    for count in (2, 4):
        for d in (1, 5):
            for shape in ("wide", "t5"):
                name = f"{count} modes, {shape}, d = {d}"
                yield f"level, {name}", Case(partial(importance, count, d, shape, ""), (300,), 500)
                yield f"half, {name}", Case(partial(importance, count, d, shape, "half"), (100,), 100)
    yield "level, narrow, d = 2", Case(partial(importance, 1, 2, "narrow", ""), (300,), 200)
    for d in (2, 10):
        yield f"resampled, d = {d}", Case(partial(resampled, d), (1000,), 300)
    for kind in STUCK:
        yield f"repair, {kind}", Case(partial(repaired, kind), ((4, 500),), 60)


STUDIES = (CountedStudy("weights_study", 2135, dict(cases())),)
