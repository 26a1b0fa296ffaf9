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

import numpy as np

import steincheck as sc
from steincheck.chains.reading import Sample
from steincheck.flux.comparison import compare_in_blocks, compare_steps, hotelling
from steincheck.flux.orbits import Orbits, StepFlows, count_moments, mode_table

from .counting import Case, CountedStudy, Events
from .flux_study import LUMPY_COVARIANCES, LUMPY_MEANS, lumpy
from .methods import label_test

LEVEL = 0.05
RUNS = 400
N_RESAMPLES = 999
EQUAL = (0.5, 0.5)
UNEQUAL = (0.8, 0.2)
EIGHT = (0.125,) * 8
TO_RARE = (0.4, 0.3, 0.2, 0.09, 0.01)
TILTED = tuple(0.125 * (1 + 0.4 * (-1) ** k) for k in range(8))
LEANING = tuple(0.125 * (1 + 0.08 * (k - 3.5)) for k in range(8))


def refreshed(weights: tuple[float, ...], rate: float) -> Callable:
    """Label chains that forget at one rate: with probability `rate` the mode is drawn afresh."""

    def paths(n_chains: int, length: int, rng: np.random.Generator) -> np.ndarray:
        fresh = rng.choice(len(weights), p=weights, size=(n_chains, length))
        renewed = rng.random((n_chains, length)) < rate
        renewed[:, 0] = True
        last = np.maximum.accumulate(np.where(renewed, np.arange(length), 0), axis=1)
        return np.take_along_axis(fresh, last, axis=1)

    return paths


def neighbours(weights: tuple[float, ...], rate: float) -> Callable:
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

    def paths(n_chains: int, length: int, rng: np.random.Generator) -> np.ndarray:
        half = np.arange(n_chains) % 2
        return 2 * half[:, None] + inner(n_chains, length, rng)

    return paths


def stuck(starts: tuple[int, ...]) -> Callable:
    """Chains that never leave the mode in which they start."""

    def paths(n_chains: int, length: int, rng: np.random.Generator) -> np.ndarray:
        return np.repeat(np.array(starts)[:, None], length, axis=1)

    return paths


def label_case(weights: tuple[float, ...], paths: Callable) -> Callable:
    """The test on labels: the probability of a mode given the orbit is its weight."""

    def run(size: tuple[int, int], rng: np.random.Generator, repetition: int) -> Events:
        n_chains, length = size
        mode = paths(n_chains, length, rng).ravel()
        n, n_modes = len(mode), len(weights)
        found = Orbits(mode, np.tile(np.log(weights), (n, 1)), np.ones(n))
        sample = Sample(np.zeros((n, 1)), np.zeros(n), np.repeat(np.arange(n_chains), length))
        locations = 10.0 * np.arange(n_modes)[:, None]
        table = mode_table(found, np.zeros(n_modes, dtype=int), locations, sample)
        part = compare_in_blocks(sample, found, count_moments(found), table, N_RESAMPLES, rng)
        return {
            "rejected": bool(part.comparison.pvalue <= LEVEL),
            "cannot tell": bool(np.isnan(part.comparison.pvalue)),
            "independent": bool(label_test(mode, weights) <= LEVEL),
        }

    return run


def lattice_case(n_units: int, rate: float, up: float = 0.5) -> Callable:
    """Independent signs that are drawn afresh at a rate; the flow along a displacement is minus the sign."""
    weights = (1 - up, up)

    def run(size: tuple[int, int], rng: np.random.Generator, repetition: int) -> Events:
        n_chains, length = size
        first = refreshed(weights, rate)(n_chains, length, rng)[:, :, None]
        others = [refreshed(EQUAL, rate)(n_chains, length, rng) for _ in range(n_units - 1)]
        bits = np.concatenate([first, np.stack(others, axis=2)], axis=2).reshape(-1, n_units)
        accept = np.stack([1.0 - bits, bits], axis=1)
        flows = StepFlows(np.eye(n_units), accept, np.ones(n_units, dtype=bool))
        n = len(bits)
        sample = Sample(np.zeros((n, 1)), np.zeros(n), np.repeat(np.arange(n_chains), length))
        outcome = compare_steps(flows, sample, "asymptotic", N_RESAMPLES, rng).comparison
        return {
            "rejected": bool(outcome.pvalue <= LEVEL),
            "cannot tell": bool(np.isnan(outcome.pvalue)),
            "independent": bool(hotelling(flows.net).pvalue <= LEVEL),
        }

    return run


def plane_case(sampled: tuple[float, ...], jump: float) -> Callable:
    """Random-walk Metropolis with occasional jumps between three lumpy modes of weights .7, .2, .1."""

    def run(size: tuple[int, int], rng: np.random.Generator, repetition: int) -> Events:
        n_chains, length = size
        target, modes, _ = lumpy()
        chains = plane_chain(sampled, jump, n_chains, length, rng)
        result = sc.flux_test(chains, target, modes=modes, rng=rng)
        independent = sc.flux_test(chains, target, modes=modes, independent=True, rng=rng)
        truth = np.select([modes.locations[:, 0] > 7, modes.locations[:, 1] > 7], [0.2, 0.1], 0.7)
        low, high = result.mode_table.implied_interval[0]
        return {
            "rejected": result.reject(LEVEL),
            "cannot tell": bool(np.isnan(result.pvalue)),
            "independent": independent.reject(LEVEL),
            "covers the implied share": bool(low <= truth[0] <= high),
        }

    return run


def plane_chain(
    sampled: tuple[float, ...], jump: float, n_chains: int, length: int, rng: np.random.Generator
) -> np.ndarray:
    """Chains (C, N, 2) with the lumpy modes as distribution, weights `sampled`, started from it."""
    means = np.array(LUMPY_MEANS)
    variances = np.array([np.diag(covariance) for covariance in LUMPY_COVARIANCES])
    weights = 0.5 * np.tile(sampled, 2)

    def log_density(x: np.ndarray) -> np.ndarray:  # faster at a few points than a compiled target
        squared = ((x[:, None] - means) ** 2 / variances).sum(axis=2)
        return np.log(np.exp(-0.5 * squared) @ (weights / np.sqrt(variances.prod(axis=1))))

    centres = means[:3]
    start = rng.choice(len(means), p=weights, size=n_chains)
    x = means[start] + np.sqrt(variances[start]) * rng.normal(size=(n_chains, 2))
    log_p = log_density(x)
    out = np.empty((n_chains, length, 2))
    for t in range(length):
        here = np.argmin(((x[:, None] - centres) ** 2).sum(axis=2), axis=1)
        there = (here + rng.integers(1, 3, size=n_chains)) % 3
        local = x + rng.normal(scale=1.5, size=x.shape)
        y = np.where((rng.random(n_chains) < jump)[:, None], x - centres[here] + centres[there], local)
        with np.errstate(divide="ignore"):  # far from all modes
            proposed = log_density(y)
        take = np.log(rng.random(n_chains)) < proposed - log_p
        x = np.where(take[:, None], y, x)
        log_p = np.where(take, proposed, log_p)
        out[:, t] = x
    return out


SIZES = ((4, 1000), (1, 4000), (4, 250))
SIZES_BY_RATE = {0.03: SIZES[:2], 0.1: SIZES, 0.3: SIZES[2:]}
KINDS = {
    f"{name}, rate {rate:g}": (label_case(weights, refreshed(weights, rate)), SIZES_BY_RATE[rate])
    for name, weights in (
        ("two modes", EQUAL),
        (".8/.2", UNEQUAL),
        ("eight modes", EIGHT),
        ("five to .01", TO_RARE),
    )
    for rate in SIZES_BY_RATE
}
KINDS |= {
    "eight in a row": (label_case(EIGHT, neighbours(EIGHT, 0.8)), SIZES[:2]),
    "eight in a row, slow": (label_case(EIGHT, neighbours(EIGHT, 0.2)), SIZES[:2]),
    "two modes, sampled .6/.4": (label_case(EQUAL, refreshed((0.6, 0.4), 0.1)), ((4, 1000),)),
    "eight modes, sampled in turn": (label_case(EIGHT, refreshed(TILTED, 0.1)), ((4, 1000),)),
    "eight modes, sampled leaning": (label_case(EIGHT, refreshed(LEANING, 0.1)), ((4, 1000),)),
    "eight in a row, sampled leaning": (label_case(EIGHT, neighbours(LEANING, 0.8)), ((4, 1000),)),
    "two pairs of modes that never meet": (label_case((0.25,) * 4, two_groups(0.1)), ((4, 1000),)),
    "rare changes, never": (label_case(EQUAL, refreshed(EQUAL, 0.0)), ((4, 250),)),
    "rare changes, rate .002": (label_case(EQUAL, refreshed(EQUAL, 0.002)), ((4, 500),)),
    "rare changes, rate .008": (label_case(EQUAL, refreshed(EQUAL, 0.008)), ((4, 500), (1, 2000))),
    "rare changes, .8/.2, rate .008": (label_case(UNEQUAL, refreshed(UNEQUAL, 0.008)), ((4, 500), (1, 2000))),
    "stuck 4:0": (label_case(EQUAL, stuck((0, 0, 0, 0))), ((4, 250),)),
    "stuck 3:1": (label_case(EQUAL, stuck((0, 0, 0, 1))), ((4, 250),)),
    "stuck 2:2": (label_case(EQUAL, stuck((0, 0, 1, 1))), ((4, 250),)),
    "lattice of 12 units, rate .1": (lattice_case(12, 0.1), SIZES),
    "lattice of 12 units, rate .3": (lattice_case(12, 0.3), SIZES),
    "lattice of 40 units, rate .1": (lattice_case(40, 0.1), ((4, 1000),)),
    "lattice of 12 units, rate .1, one .6/.4": (lattice_case(12, 0.1, 0.6), ((4, 1000),)),
    "lattice of 12 units, rate .1, one .65/.35": (lattice_case(12, 0.1, 0.65), ((4, 1000),)),
    "plane": (plane_case((0.7, 0.2, 0.1), 0.3), ((4, 250), (4, 1000))),
    "plane, sampled equally": (plane_case((1 / 3, 1 / 3, 1 / 3), 0.3), ((4, 1000),)),
}


CASES = {name: Case(run, sizes, RUNS) for name, (run, sizes) in KINDS.items()}
STUDIES = (CountedStudy("chain_flux_study", 20271, CASES),)
