"""The weights of the modes from Markov chains: level, power, and how often the test cannot tell.

    python -m experiments chain_flux_study [CASE] [--repetitions R]

Rows go to results/chain_flux_study.csv. A repetition is a set of chains. It is "rejected" (p <= 0.05),
"cannot tell" (there is no p-value: the chains change mode too rarely for a test) or neither. "independent"
counts what a test for independent draws rejects (on labels: chi-square). Label chains have modes of one
shape, so that the orbits say nothing but the weights; the cases on a plane use real draws and maps. "covers"
counts 95 % intervals that cover the truth.

It reaches into the package where chains of labels, or of signs, take the place of draws: the public test
makes labels itself, from draws and maps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import steincheck as sc
from steincheck.chains.reading import Sample
from steincheck.flux.comparison import compare_in_blocks, compare_steps, hotelling
from steincheck.flux.orbits import Orbits, StepFlows, count_moments, mode_table

from . import targets
from .counting import Case, CountedStudy, Events
from .flux_study import LUMPY_MEANS, LUMPY_VARIANCES, lumpy, lumpy_shares
from .methods import label_test

Weights = tuple[float, ...]
Size = tuple[int, int]  # chains and their length
LEVEL = 0.05
RUNS = 400
N_RESAMPLES = 999
EQUAL = (0.5, 0.5)
UNEQUAL = (0.8, 0.2)
EIGHT = (0.125,) * 8
TO_RARE = (0.4, 0.3, 0.2, 0.09, 0.01)
TILTED = tuple(0.125 * (1 + 0.4 * (-1) ** k) for k in range(8))
LEANING = tuple(0.125 * (1 + 0.08 * (k - 3.5)) for k in range(8))


def refreshed(weights: Weights, rate: float) -> Callable:
    """Label chains that forget at one rate: with probability `rate` the mode is drawn afresh."""

    def paths(n_chains: int, length: int, rng: np.random.Generator) -> np.ndarray:
        fresh = rng.choice(len(weights), p=weights, size=(n_chains, length))
        return targets.refreshed(fresh, rate, rng)

    return paths


def neighbours(weights: Weights, rate: float) -> Callable:
    """Label chains on modes in a row: Metropolis moves to the next mode on either side."""

    def paths(n_chains: int, length: int, rng: np.random.Generator) -> np.ndarray:
        last = len(weights) - 1
        state = rng.choice(last + 1, p=weights, size=n_chains)
        out = np.empty((n_chains, length), dtype=int)
        weight = np.array(weights)
        for t in range(length):
            out[:, t] = state
            step = np.where(rng.random(n_chains) < 0.5, 1, -1)
            proposal = np.clip(state + step, 0, last)
            odds = weight[proposal] / weight[state]
            take = (rng.random(n_chains) < rate) & (rng.random(n_chains) < odds)
            state = np.where(take, proposal, state)
        return out

    return paths


def two_groups(rate: float) -> Callable:
    """Four equal modes; every chain stays in the half in which it starts."""
    inner = refreshed(EQUAL, rate)

    return lambda n_chains, *rest: 2 * (np.arange(n_chains) % 2)[:, None] + inner(n_chains, *rest)


def stuck(starts: tuple[int, ...]) -> Callable:
    """Chains that never leave the mode in which they start."""

    return lambda n_chains, length, rng: np.repeat(np.array(starts)[:, None], length, axis=1)


def events(pvalue: float, independent: float) -> Events:
    """What p-values of a test for chains and of one for independent draws say."""
    return {
        "rejected": bool(pvalue <= LEVEL),
        "cannot tell": bool(np.isnan(pvalue)),
        "independent": bool(independent <= LEVEL),
    }


def without_draws(n_chains: int, length: int) -> Sample:
    """Chains of which a test sees the labels, or signs, only."""
    n = n_chains * length
    return Sample(np.zeros((n, 1)), np.zeros(n), np.repeat(np.arange(n_chains), length))


def labels(
    weights: Weights, paths: Callable, size: Size, rng: np.random.Generator, repetition: int
) -> Events:
    """The test on labels: the probability of a mode given the orbit is its weight."""
    mode = paths(*size, rng).ravel()
    n, n_modes = len(mode), len(weights)
    found = Orbits(mode, np.tile(np.log(weights), (n, 1)), np.ones(n))
    locations = 10.0 * np.arange(n_modes)[:, None]
    sample = without_draws(*size)
    table = mode_table(found, np.zeros(n_modes, dtype=int), locations, sample)
    part = compare_in_blocks(sample, found, count_moments(found), table, N_RESAMPLES, rng)
    return events(part.comparison.pvalue, label_test(mode, weights))


def lattice(
    n_units: int, rate: float, up: float, size: Size, rng: np.random.Generator, repetition: int
) -> Events:
    """Independent signs that are drawn afresh at a rate; the flow along a displacement is minus the sign."""
    weights = [(1 - up, up), *[EQUAL] * (n_units - 1)]
    signs = [refreshed(each, rate)(*size, rng).ravel() for each in weights]
    bits = np.stack(signs, axis=1)
    accept = np.stack([1.0 - bits, bits], axis=1)
    flows = StepFlows(np.eye(n_units), accept, np.ones(n_units, dtype=bool))
    comparison, _ = compare_steps(flows, without_draws(*size), "asymptotic", N_RESAMPLES, rng)
    return events(comparison.pvalue, hotelling(flows.net).pvalue)


def plane(sampled: Weights, jump: float, size: Size, rng: np.random.Generator, repetition: int) -> Events:
    """Random-walk Metropolis with occasional jumps between three lumpy modes of weights .7, .2, .1."""
    target, modes, _ = lumpy()
    chains = plane_chain(sampled, jump, *size, rng)
    result = sc.flux_test(chains, target, modes=modes, rng=rng)
    independent = sc.flux_test(chains, target, modes=modes, independent=True, rng=rng)
    low, high = result.mode_table.implied_interval[0]
    covers = {"covers the implied share": bool(low <= lumpy_shares(modes)[0] <= high)}
    return events(result.pvalue, independent.pvalue) | covers


def plane_chain(
    sampled: Weights, jump: float, n_chains: int, length: int, rng: np.random.Generator
) -> np.ndarray:
    """Chains (C, N, 2) with the lumpy modes as distribution, weights `sampled`, started from it."""
    means, variances = np.array(LUMPY_MEANS), LUMPY_VARIANCES
    weights = 0.5 * np.tile(sampled, 2)

    def log_density(x: np.ndarray) -> np.ndarray:  # faster at a few points than a compiled target
        squared = ((x[:, None] - means) ** 2 / variances).sum(axis=2)
        return np.log(np.exp(-0.5 * squared) @ (weights / np.sqrt(variances.prod(axis=1))))

    centres = means[:3]

    def propose(x: np.ndarray) -> np.ndarray:
        here = np.argmin(((x[:, None] - centres) ** 2).sum(axis=2), axis=1)
        there = (here + rng.integers(1, 3, size=n_chains)) % 3
        local = x + rng.normal(scale=1.5, size=x.shape)
        return np.where((rng.random(n_chains) < jump)[:, None], x - centres[here] + centres[there], local)

    start = rng.choice(len(means), p=weights, size=n_chains)
    x = means[start] + np.sqrt(variances[start]) * rng.normal(size=(n_chains, 2))
    with np.errstate(divide="ignore"):  # far from all modes
        return targets.metropolis(x, log_density, propose, length, rng)


SIZES = ((4, 1000), (1, 4000), (4, 250))
BY_NAME = {"two modes": EQUAL, ".8/.2": UNEQUAL, "eight modes": EIGHT, "five to .01": TO_RARE}
SIZES_BY_RATE = {0.03: SIZES[:2], 0.1: SIZES, 0.3: SIZES[2:]}
KINDS = {
    f"{name}, rate {rate:g}": (partial(labels, weights, refreshed(weights, rate)), SIZES_BY_RATE[rate])
    for name, weights in BY_NAME.items()
    for rate in SIZES_BY_RATE
}
KINDS |= {
    "eight in a row": (partial(labels, EIGHT, neighbours(EIGHT, 0.8)), SIZES[:2]),
    "eight in a row, slow": (partial(labels, EIGHT, neighbours(EIGHT, 0.2)), SIZES[:2]),
    "two modes, sampled .6/.4": (partial(labels, EQUAL, refreshed((0.6, 0.4), 0.1)), ((4, 1000),)),
    "eight modes, sampled in turn": (partial(labels, EIGHT, refreshed(TILTED, 0.1)), ((4, 1000),)),
    "eight modes, sampled leaning": (partial(labels, EIGHT, refreshed(LEANING, 0.1)), ((4, 1000),)),
    "eight in a row, sampled leaning": (partial(labels, EIGHT, neighbours(LEANING, 0.8)), ((4, 1000),)),
    "two pairs of modes that never meet": (partial(labels, (0.25,) * 4, two_groups(0.1)), ((4, 1000),)),
    "rare changes, never": (partial(labels, EQUAL, refreshed(EQUAL, 0.0)), ((4, 250),)),
    "rare changes, rate .002": (partial(labels, EQUAL, refreshed(EQUAL, 0.002)), ((4, 500),)),
    "rare changes, rate .008": (partial(labels, EQUAL, refreshed(EQUAL, 0.008)), ((4, 500), (1, 2000))),
    "rare changes, .8/.2, rate .008": (
        partial(labels, UNEQUAL, refreshed(UNEQUAL, 0.008)),
        ((4, 500), (1, 2000)),
    ),
    "stuck 4:0": (partial(labels, EQUAL, stuck((0, 0, 0, 0))), ((4, 250),)),
    "stuck 3:1": (partial(labels, EQUAL, stuck((0, 0, 0, 1))), ((4, 250),)),
    "stuck 2:2": (partial(labels, EQUAL, stuck((0, 0, 1, 1))), ((4, 250),)),
    "lattice of 12 units, rate .1": (partial(lattice, 12, 0.1, 0.5), SIZES),
    "lattice of 12 units, rate .3": (partial(lattice, 12, 0.3, 0.5), SIZES),
    "lattice of 40 units, rate .1": (partial(lattice, 40, 0.1, 0.5), ((4, 1000),)),
    "lattice of 12 units, rate .1, one .6/.4": (partial(lattice, 12, 0.1, 0.6), ((4, 1000),)),
    "lattice of 12 units, rate .1, one .65/.35": (partial(lattice, 12, 0.1, 0.65), ((4, 1000),)),
    "plane": (partial(plane, (0.7, 0.2, 0.1), 0.3), ((4, 250), (4, 1000))),
    "plane, sampled equally": (partial(plane, (1 / 3, 1 / 3, 1 / 3), 0.3), ((4, 1000),)),
}


CASES = {name: Case(run, sizes, RUNS) for name, (run, sizes) in KINDS.items()}
STUDIES = (CountedStudy("chain_flux_study", 20271, CASES),)
