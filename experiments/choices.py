"""Choices of the design, measured: what docs/theory says of alternatives.

    python -m experiments choices [CHOICE]

One process; rows go to results/choices.csv. About half an hour. It reaches into the package for one
alternative that was not chosen, pKSDAgg with a statistic for every jump scale, which no public test makes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.signal import lfilter

import steincheck as sc
from steincheck.aggregate import min_p
from steincheck.stein.tiles import quadratic_forms

from . import fig4, flux_study, table1
from .methods import THETA
from .running import Study

SEED = 31
CHAINS, ITERATIONS, STEP = 200_000, 10, 2.0
MEANS, SCALES, WEIGHTS = np.array([[-2.0, 0.0], [2.0, 1.0]]), np.array([1.0, 0.5]), np.array([0.35, 0.65])
LAWS = ("drawn anew", "carried over", "forced downhill")  # of z
SAMPLES, RESAMPLES = 40, 2000  # 104 statistics need many replicates
RUNS = 4000  # of chains that are cut into blocks
BLOCKS = (12, 20, 40, 80)  # of all four chains together
CHAINS_IN_BLOCKS = {  # autocorrelation, shift of the first coordinate in standard errors, dimensions
    "AR(1) .9, correct, 4 x 1000": (0.9, 0.0, (1, 5, 20)),
    "AR(1) 0, off by 2.8 standard errors, 4 x 1000": (0.0, 2.8, (1, 5)),
}
CORRELATION = 0.64  # of the statistics that are aggregated
AGGREGATED = {(3, 99, 99): 20_000, (10, 99, 99): 20_000, (10, 500, 500): 4000}  # K, B1, B2: repetitions


SEARCHED = {  # how a target is made with a seed, half the width of the box, number of seeds
    "one Gaussian, d = 50": (lambda seed: sc.models.gaussian_mixture(np.zeros((1, 50))), 10.0, 4),
    "t-banana mixture, d = 50": (lambda seed: sc.models.t_banana_mixture(50, rng=seed), 20.0, 4),
    "GB-RBM, 5 hidden units, d = 50": (lambda seed: sc.models.gb_rbm(6 * np.eye(50, 5)), 10.0, 4),
    "sensor posterior, d = 8": (lambda seed: sc.models.sensor_network(), 1.5, 8),
}


def search_costs() -> list[tuple]:
    """Modes found by `box_search`, its evaluations and CPU seconds."""
    rows = []
    for name, (make, box, seeds) in SEARCHED.items():
        found, evaluations, seconds = [], [], []
        for seed in range(seeds):
            target, start = make(seed), time.process_time()
            modes = sc.box_search(target, bounds=(-box, box), rng=SEED + seed)
            seconds.append(time.process_time() - start)
            found.append(len(modes))
            evaluations.append(modes.search.n_evaluations)
        rows += [
            (name, "fewest modes found", min(found), seeds),
            (name, "most modes found", max(found), seeds),
            (name, "median evaluations", round(float(np.median(evaluations))), seeds),
            (name, "median CPU seconds", round(float(np.median(seconds)), 1), seeds),
        ]
    return rows


def sensor_modes() -> list[tuple]:
    """Shares of the eight modes of the sensor posterior, from a million exact draws."""
    return [
        (f"mode {k}, seed {flux_study.SEED}", "share", round(float(share), 4), 10**6)
        for k, share in enumerate(flux_study.sensor_shares())
    ]


def useful_scales() -> list[tuple]:
    """Of the paper's 51 jump scales, those at which true draws of Fig. 4 and of the sensors move."""
    rows = []
    for name, case in (("t-banana, d = 50", fig4.problem(50)), ("sensors", table1.problem())):
        sample, jumps = np.random.default_rng(SEED).spawn(2)
        x = case.target.sample(1000, sample)
        moved = case.perturb(x, jumps).samples
        share = np.any(moved != x, axis=2).mean(axis=1)
        for part, count in (("any", np.sum(share > 0)), ("a tenth", np.sum(share >= 0.1))):
            setting = f"{name}, {part} of 1000 draws moved"
            rows.append((setting, "number of 51 scales", int(count), 1))
    return rows


def aggregation() -> list[tuple]:
    """Power of pKSDAgg with the sum over theta, and with a statistic of its own for every theta."""
    target, n = sc.models.gaussian_mixture([[0.0], [6.0]]), 1000
    modes = ([[0.0], [6.0]], np.ones((2, 1, 1)))
    sizes = {"n_resamples": RESAMPLES, "n_level_resamples": RESAMPLES}
    rejected = np.zeros(2)
    for source in np.random.default_rng(SEED).spawn(SAMPLES):
        streams = source.spawn(4)
        x = target.sample(n, streams[0], weights=[0.4, 0.6])
        rejected[0] += sc.pksdagg_test(x, target, modes=modes, rng=streams[1], **sizes).reject()
        seed = streams[2].bit_generator.seed_seq
        moved = sc.perturb(x, target, modes, THETA, n_steps=10, rng=seed).samples
        widths, signs = sc.median_bandwidth(x) * np.array([1.0, 4.0]), sc.wild(n, 2 * RESAMPLES, streams[3])
        forms = [
            quadratic_forms(y[None], target.score(y)[None], sc.IMQ(), widths, signs) for y in (x, *moved)
        ]
        statistics = np.concatenate([f.total for f in forms]) / (n * (n - 1))
        replicates = np.concatenate([f.replicates for f in forms]) / (n * (n - 1))
        weights = np.repeat([0.25, *[0.75 / len(THETA)] * len(THETA)], 2) / 2
        both = np.split(replicates, 2, axis=1)
        rejected[1] += min_p(statistics, *both, weights, 0.05).pvalue <= 0.05
    names = ("one statistic for the sum over theta", "one statistic for every theta")
    return [
        (name, "power", round(float(count) / SAMPLES, 3), SAMPLES)
        for name, count in zip(names, rejected, strict=True)
    ]


def replicates() -> list[tuple]:
    """Level at .05 of the smallest of K weighted p-values, by the numbers of replicates of both kinds."""
    return [
        (
            f"K = {k}, B1 = {first}, B2 = {second}",
            "rejected",
            share_aggregated(k, first, second, repetitions),
            repetitions,
        )
        for (k, first, second), repetitions in AGGREGATED.items()
    ]


def share_aggregated(k: int, first: int, second: int, repetitions: int) -> float:
    """The share rejected at .05 of Gaussian vectors of `k` correlated statistics, their weights equal."""
    rng = np.random.default_rng([SEED, k, first, second])
    weights = np.full(k, 1 / k)
    count = 0
    for _ in range(repetitions):
        shared = rng.standard_normal(1 + first + second)
        noise = rng.standard_normal((k, 1 + first + second))
        values = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * noise
        sets = (values[:, 0], values[:, 1 : first + 1], values[:, first + 1 :])
        count += min_p(*sets, weights, 0.05).pvalue <= 0.05
    return round(count / repetitions, 4)


def chain_blocks() -> list[tuple]:
    """Rejections at level .05 by random signs of blocks of chains, by the number of blocks in all.

    The features are the coordinates of four AR(1) chains of 1000 draws; with autocorrelation .9 these are
    worth 210 independent draws. Shifted chains are independent: their blocks hide no variance.
    """
    rows = []
    for what, (rho, shift, dimensions) in CHAINS_IN_BLOCKS.items():
        for d in dimensions:
            for count in BLOCKS:
                share = share_rejected(rho, shift, d, count)
                rows.append((f"{what}, d = {d}, {count} blocks", "rejected", share, RUNS))
    return rows


def share_rejected(rho: float, shift: float, d: int, count: int) -> float:
    """The share of runs in which random signs of so many blocks reject."""
    rng = np.random.default_rng([SEED, d, count])
    return round(sum(_signs_reject(rho, shift, d, count, rng) for _ in range(RUNS)) / RUNS, 4)


def _signs_reject(rho: float, shift: float, d: int, count: int, rng: np.random.Generator) -> bool:
    """Whether random signs of so many blocks reject; the first coordinate is off by `shift`."""
    noise = rng.normal(size=(4, 1000, d))
    noise[:, 0] /= np.sqrt(1 - rho**2)  # stationary from the beginning
    x = lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise, axis=1)
    x[..., 0] += shift / np.sqrt(4000)
    cuts = np.arange(count // 4) * 1000 // (count // 4)
    sums = np.add.reduceat(x, cuts, axis=1).reshape(count, d)
    forms = np.sum(((2 * rng.integers(2, size=(199, count)) - 1) @ sums) ** 2, axis=1)
    return bool((1 + np.sum(forms >= np.sum(sums.sum(axis=0) ** 2))) / 200 <= 0.05)


def invariance(laws: Sequence[str] = LAWS) -> list[tuple]:
    """Hotelling's T2 of exact draws moved by repelling-attracting Metropolis, by the law of z."""
    target = sc.models.gaussian_mixture(MEANS, SCALES[:, None, None] ** 2 * np.eye(2), WEIGHTS)
    rows = []
    for law in laws:
        for seed in (SEED, SEED + 1):
            start = target.sample(CHAINS, seed)
            moved = _features(ram(target, start, law, np.random.default_rng(seed))) - _features(start)
            mean = moved.mean(axis=0)
            t2 = CHAINS * mean @ np.linalg.solve(np.cov(moved.T), mean)
            setting = f"z {law}, {len(mean)} degrees of freedom, seed {seed}"
            rows.append((setting, "T2", round(float(t2), 1), CHAINS))
    return rows


def _features(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, x**2, x[:, 0] > 0])


def ram(target: Any, x: np.ndarray, law: str, rng: np.random.Generator) -> np.ndarray:
    """A plain version of the sampler, coordinate by coordinate, with several laws of z."""
    z = x + STEP * rng.standard_normal(x.shape)
    for _ in range(ITERATIONS):
        for block in range(2):
            if law == "drawn anew":
                z = _step(x, block, rng)
            elif law == "forced downhill":
                z = _forced(target, x, block, -1, rng)
            top = _forced(target, _forced(target, x, block, -1, rng), block, 1, rng)
            below = _forced(target, top, block, -1, rng)
            log_x, log_z, log_top, log_below = (target.log_density(y) for y in (x, z, top, below))
            log_ratio = log_top - log_x + np.minimum(0, log_x - log_z) - np.minimum(0, log_top - log_below)
            accept = -rng.standard_exponential(len(x)) < log_ratio
            x = np.where(accept[:, None], top, x)
            z = np.where(accept[:, None], below, z)
    return x


def _step(x: np.ndarray, block: int, rng: np.random.Generator) -> np.ndarray:
    y = x.copy()
    y[:, block] += STEP * rng.standard_normal(len(x))
    return y


def _forced(target: Any, x: np.ndarray, block: int, sign: int, rng: np.random.Generator) -> np.ndarray:
    """Propose until accepted, downhill (-1) or uphill (1)."""
    y, todo = x.copy(), np.arange(len(x))
    while len(todo):
        trial = _step(x[todo], block, rng)
        rise = sign * (target.log_density(trial) - target.log_density(x[todo]))
        taken = -rng.standard_exponential(len(todo)) < rise
        y[todo[taken]] = trial[taken]
        todo = todo[~taken]
    return y


CHOICES: dict[str, Callable[[], list[tuple]]] = {
    "search of modes": search_costs,
    "sensor posterior": sensor_modes,
    "jump scales": useful_scales,
    "pKSDAgg, weight 0.4": aggregation,
    "replicates of aggregated tests": replicates,
    "repelling-attracting Metropolis": invariance,
    "blocks of chains": chain_blocks,
}
FIELDS = ("choice", "setting", "quantity", "value", "repetitions", "seed", "version")


def rows(choice: str) -> list[dict[str, Any]]:
    """All rows of a choice: they are measured together."""
    made_by = (SEED, sc.__version__)
    return [dict(zip(FIELDS, (choice, *row, *made_by), strict=True)) for row in CHOICES[choice]()]


STUDIES = (Study("choices", FIELDS, ("choice",), lambda: ((name,) for name in CHOICES), rows),)
