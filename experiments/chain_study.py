"""Level and power of `check` and of every single test on Markov chains, beside tests for independent draws.

    python -m experiments chain_study [CASE] [--repetitions R] [--n-jobs J]

Rows go to results/chain_study.csv: the event "check" is a rejection by `check` at level 0.05, "check cannot
tell" that it has no answer, and so for every test. Where `check` is run, the tests that it makes are not run
a second time: their p-values come from its verdict.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import steincheck as sc

from .counting import Case, CountedStudy, Events
from .targets import autoregression, metropolis, on_first_axis, refreshed

LEVEL = 0.05
AS_PVALUE = {True: 1.0, False: 0.0, None: np.nan}  # answers of `check`, which are not p-values alone
RUNS = 400
PARTS = {"ksdagg_test": "kernel", "moment_test": "moments", "flux_test": "weights", "agreement": "chains"}
MIXTURES = ("random walk", "near modes", "jumping", "stuck")


@dataclass(frozen=True)
class Chains:
    """Chains of one kind, stationary with the distribution of the target but for the flaw."""

    rho: float  # autocorrelation of AR(1) chains
    dim: int
    chains: int
    length: int
    kind: str = "AR(1)"  # "AR(1)", "slow direction", or one of MIXTURES
    flaw: str = ""  # what is wrong with the chains
    size: float = 0.0  # of the flaw

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that are run."""
        if self.kind == "stuck":
            return ("check",)
        in_check = ("check", *(name for name in PARTS if name != "flux_test" or self.kind in MIXTURES))
        if self.flaw or self.kind in MIXTURES or self.length >= 500:
            return in_check
        return (*in_check, "ksd_test", "ksd_test, independent")


def _cases() -> dict[str, Chains]:
    cases = {}
    for length in (250, 1000):
        for dim in (1, 5, 20):
            for rho in (-0.5, 0.0, 0.5, 0.9, 0.97):
                cases[f"AR {rho:g}, d={dim}, 4x{length}"] = Chains(rho, dim, 4, length)
    cases |= {
        "slow direction .9, d=5, 4x250": Chains(0.9, 5, 4, 250, "slow direction"),
        "slow direction .95, d=20, 4x1000": Chains(0.95, 20, 4, 1000, "slow direction"),
        "AR .9, d=5, 1x4000": Chains(0.9, 5, 1, 4000),
        "AR .9, d=5, 40x25": Chains(0.9, 5, 40, 25),
        "random walk, two modes, d=2, 4x250": Chains(0.0, 2, 4, 250, "random walk"),
        "random walk, two near modes, d=2, 4x1000": Chains(0.0, 2, 4, 1000, "near modes"),
        "jumping, two modes, d=2, 4x1000": Chains(0.5, 2, 4, 1000, "jumping"),
    }
    return cases | _wrong_cases()


def _wrong_cases() -> dict[str, Chains]:
    one_coordinate = Chains(0.5, 5, 4, 250, flaw="one coordinate", size=0.4)
    burn_in = Chains(0.5, 5, 4, 250, flaw="burn-in", size=3.0)
    return {
        "mean 0.07, d=5, AR .5, 4x250": Chains(0.5, 5, 4, 250, flaw="mean", size=0.07),
        "mean 0.15, d=5, AR .9, 4x1000": Chains(0.9, 5, 4, 1000, flaw="mean", size=0.15),
        "width 1.15, d=5, AR .5, 4x250": Chains(0.5, 5, 4, 250, flaw="width", size=1.15),
        "weights .6/.4, d=2, 4x1000": Chains(0.5, 2, 4, 1000, "jumping", "weights", 0.6),
        "independent, mean 0.045, d=5, 4x250": Chains(0.0, 5, 4, 250, flaw="mean", size=0.045),
        "independent, mean 0.1, d=5, 4x250": Chains(0.0, 5, 4, 250, flaw="mean", size=0.1),
        "independent, width 1.1, d=5, 4x250": Chains(0.0, 5, 4, 250, flaw="width", size=1.1),
        "one chain shifted 0.4, d=5, AR .5, 4x250": Chains(0.5, 5, 4, 250, flaw="one chain", size=0.4),
        "one chain shifted 0.4, d=5, AR .9, 4x1000": Chains(0.9, 5, 4, 1000, flaw="one chain", size=0.4),
        "one chain, one coordinate shifted 0.4, d=5, AR .5, 4x250": one_coordinate,
        "one chain, one coordinate shifted 0.4, d=5, AR .5, 4x1000": replace(one_coordinate, length=1000),
        "burn-in 3, d=5, AR .5, 4x250": burn_in,
        "burn-in 3, d=5, AR .5, 4x1000": replace(burn_in, length=1000),
        "burn-in 3, d=5, AR .9, 4x1000": replace(burn_in, length=1000, rho=0.9),
        "burn-in 3, d=5, AR .5, 1x4000": replace(burn_in, length=4000, chains=1),
        **{f"stuck {k}:{4 - k}, d=2, 4x250": Chains(0.5, 2, 4, 250, "stuck", "stuck", k) for k in (4, 3, 2)},
    }


CHAINS = _cases()


class Problem(NamedTuple):
    """What a test is given beside the draws."""

    target: Any
    modes: Any


def half_gap(kind: str) -> float:
    """How far the modes are from 0."""
    return {"stuck": 5.0, "near modes": 2.0}.get(kind, 3.0)


@functools.cache
def problem_of(kind: str, dim: int) -> Problem:
    """The target of a kind of chains, compiled once, and its modes."""
    places = half_gap(kind) * np.array([-1, 1]) if kind in MIXTURES else [0.0]
    means = on_first_axis(places, dim)
    return Problem(sc.models.gaussian_mixture(means), means)


def simulate(case: Chains, rng: np.random.Generator) -> np.ndarray:
    """Chains (C, N, d)."""
    if case.kind in ("random walk", "near modes"):
        return _random_walk(case, rng)
    if case.kind == "jumping":
        return _jumping(case, rng)
    if case.kind == "stuck":
        return _stuck(case, rng)
    x = _noise(case, rng)
    if case.kind == "slow direction":
        x[..., :1] = autoregression(x[..., :1], case.rho)
        turn, _ = np.linalg.qr(rng.normal(size=(case.dim, case.dim)))
        return x @ turn
    return _spoiled(autoregression(x, case.rho), case, rng)


def _noise(case: Chains, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(case.length, case.chains, case.dim)).swapaxes(0, 1)


def _spoiled(x: np.ndarray, case: Chains, rng: np.random.Generator) -> np.ndarray:
    if case.flaw == "mean":
        return x + case.size
    if case.flaw == "width":
        return x * case.size
    if case.flaw == "one chain":
        x[0] += case.size
    if case.flaw == "one coordinate":
        x[0, :, 0] += case.size
    if case.flaw == "burn-in":  # the first tenth comes in from `size` standard deviations, each chain its way
        tenth = case.length // 10
        way = rng.normal(size=(case.chains, 1, case.dim))
        way /= np.linalg.norm(way, axis=2, keepdims=True)
        x[:, :tenth] += case.size * way * np.linspace(1, 0, tenth)[:, None]
    return x


def _jumping(case: Chains, rng: np.random.Generator) -> np.ndarray:
    """AR(1) chains about a mode that is drawn afresh with probability .1: an ESS of 210 for the weights."""
    share = case.size if case.flaw == "weights" else 0.5
    fresh = rng.random((case.chains, case.length)) < share
    right = refreshed(fresh, 0.1, rng)
    x = autoregression(_noise(case, rng), case.rho)
    x[..., 0] += np.where(right, 3.0, -3.0)
    return x


def _stuck(case: Chains, rng: np.random.Generator) -> np.ndarray:
    """`size` chains stay at one of two equal modes, the others at the other."""
    x = autoregression(_noise(case, rng), case.rho)
    x[..., 0] += np.where(np.arange(case.chains) < case.size, 5.0, -5.0)[:, None]
    return x


def _random_walk(case: Chains, rng: np.random.Generator) -> np.ndarray:
    """Random walk Metropolis on two modes 6 or 4 standard deviations apart, started in the target."""
    right = half_gap(case.kind) * np.eye(case.dim)[0]

    def log_density(x: np.ndarray) -> np.ndarray:
        return np.logaddexp(*(-0.5 * np.sum((x - mode) ** 2, axis=1) for mode in (right, -right)))

    def propose(x: np.ndarray) -> np.ndarray:
        return x + 2.0 * rng.normal(size=x.shape)

    start = problem_of(case.kind, case.dim).target.sample(case.chains, rng=rng)
    return metropolis(start, log_density, propose, case.length, rng)


def check_and_parts(draws: Any, problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """The answer of `check`, with the modes given, and p-values of the tests that it made."""
    verdict = sc.check(draws, problem.target, modes=problem.modes, rng=int(rng.integers(2**32)))
    found = {"check": AS_PVALUE[verdict.fits]}
    for name, part in PARTS.items():
        made = part in verdict.tests and not verdict.tests[part].inconclusive()
        found[name] = verdict.tests[part].pvalue if made else np.nan
    return found


def run(case: Chains, size: tuple[int, int], rng: np.random.Generator, repetition: int) -> Events:
    """What the tests say of one fresh set of chains; each test has its own random stream."""
    draws = sc.as_draws(simulate(case, rng), case.dim)
    problem = problem_of(case.kind, case.dim)
    streams = rng.spawn(3)
    found = check_and_parts(draws, problem, streams[0])
    for name, stream in zip(("ksd_test", "ksd_test, independent"), streams[1:], strict=True):
        if name in case.tests:
            independent = name.endswith("independent")
            result = sc.ksd_test(draws, problem.target, independent=independent, rng=stream)
            found[name] = np.nan if result.inconclusive() else result.pvalue
    events = {}
    for test in case.tests:
        events |= {test: found[test] <= LEVEL, f"{test} cannot tell": bool(np.isnan(found[test]))}
    return events


CASES = {
    name: Case(functools.partial(run, chains), ((chains.chains, chains.length),), RUNS)
    for name, chains in CHAINS.items()
}
STUDIES = (CountedStudy("chain_study", 2028, CASES),)
