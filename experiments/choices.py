"""Choices of the design, measured: what docs/theory says of alternatives, and what the mode search costs.

    python -m experiments.choices [CHOICE ...]

One process; rows go to results/choices.csv. About half an hour. It reaches into the package for one
alternative that was not chosen, pKSDAgg with a statistic for every jump scale, which no public test makes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .tables import RESULTS, Table

SEED = 31
MEASURED = Table(
    RESULTS / "choices.csv",
    ("choice", "setting", "quantity", "value", "repetitions", "seed", "version"),
    ("choice",),  # all rows of a choice are measured together
)
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
THETA = np.linspace(0.5, 1.5, 51)  # the paper's jump scales
CORRELATION = 0.64  # of the statistics that are aggregated
AGGREGATED = {(3, 99, 99): 20_000, (10, 99, 99): 20_000, (10, 500, 500): 4000}  # K, B1, B2: repetitions


def search_costs() -> list[tuple]:
    """Modes found, evaluations and CPU seconds of `box_search`."""
    from steincheck import box_search, models

    shapes: dict[str, tuple[Callable[[int], Any], float, int]] = {
        "one Gaussian, d = 50": (lambda _: models.gaussian_mixture(np.zeros((1, 50))), 10.0, 4),
        "t-banana mixture, d = 50": (lambda seed: models.t_banana_mixture(50, rng=seed), 20.0, 4),
        "GB-RBM, 5 hidden units, d = 50": (lambda _: models.gb_rbm(6 * np.eye(50, 5)), 10.0, 4),
        "sensor posterior, d = 8": (lambda _: models.sensor_network(), 1.5, 8),
    }
    rows = []
    for name, (make, box, seeds) in shapes.items():
        found, evaluations, seconds = [], [], []
        for seed in range(seeds):
            target, start = make(seed), time.process_time()
            modes = box_search(target, bounds=(-box, box), rng=SEED + seed)
            seconds.append(time.process_time() - start)
            found.append(len(modes))
            evaluations.append(modes.search.n_evaluations)
        for quantity, value in (
            ("fewest modes found", min(found)),
            ("most modes found", max(found)),
            ("median evaluations", round(float(np.median(evaluations)))),
            ("median CPU seconds", round(float(np.median(seconds)), 1)),
        ):
            rows.append(("search of modes", name, quantity, value, seeds))
    return rows


def sensor_modes() -> list[tuple]:
    """Shares of the eight modes of the sensor posterior, from a million exact draws."""
    from .flux_study import SEED as SEED_OF_DRAWS
    from .flux_study import sensor_shares

    return [
        ("sensor posterior", f"mode {k}, seed {SEED_OF_DRAWS}", "share", round(float(share), 4), 10**6)
        for k, share in enumerate(sensor_shares())
    ]


def useful_scales() -> list[tuple]:
    """Of the paper's 51 jump scales, those at which true draws of Fig. 4 and of the sensors move."""
    from . import fig4, table1

    rows = []
    for name, case in (("t-banana, d = 50", fig4.problem(50)), ("sensors", table1.problem())):
        sample, jumps = np.random.default_rng(SEED).spawn(2)
        x = case.target.sample(1000, sample)
        moved = case.perturb(x, jumps).samples
        share = np.any(moved != x, axis=2).mean(axis=1)
        for part, count in (("any", np.sum(share > 0)), ("a tenth", np.sum(share >= 0.1))):
            setting = f"{name}, {part} of 1000 draws moved"
            rows.append(("jump scales", setting, "number of 51 scales", int(count), 1))
    return rows


def aggregation() -> list[tuple]:
    """Power of pKSDAgg with the sum over theta, and with a statistic of its own for every theta."""
    import steincheck as sc
    from steincheck.aggregate import min_p
    from steincheck.stein.tiles import quadratic_forms

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
        ("pKSDAgg, weight 0.4", name, "power", round(float(count) / SAMPLES, 3), SAMPLES)
        for name, count in zip(names, rejected, strict=True)
    ]


def replicates() -> list[tuple]:
    """Level at .05 of the smallest of K weighted p-values, by the numbers of replicates of both kinds."""
    return [
        (
            "replicates of aggregated tests",
            f"K = {k}, B1 = {first}, B2 = {second}",
            "rejected",
            share_aggregated(k, first, second, repetitions),
            repetitions,
        )
        for (k, first, second), repetitions in AGGREGATED.items()
    ]


def share_aggregated(k: int, first: int, second: int, repetitions: int) -> float:
    """The share rejected at .05 of Gaussian vectors of `k` correlated statistics, their weights equal."""
    from steincheck.aggregate import min_p

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


def replicate_table() -> str:
    """The rows of `replicates` on disk as a table in Markdown, with the bound of the theorem."""
    found = {row["setting"]: float(row["value"]) for row in MEASURED.read()}
    lines = ["| $K$ | $B_1$ | $B_2$ | $P(p\\le.05)$ | bound |", "|---|---|---|---|---|"]
    for k, first, second in AGGREGATED:
        share = f"{found[f'K = {k}, B1 = {first}, B2 = {second}']:.3f}".removeprefix("0")
        bound = f"{(int(0.05 * second) + 1) / (second + 1):.3f}".removeprefix("0")
        lines.append(f"| {k} | {first} | {second} | {share} | {bound} |")
    return "\n".join(lines)


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
                rows.append(("blocks of chains", f"{what}, d = {d}, {count} blocks", "rejected", share, RUNS))
    return rows


def block_table() -> str:
    """The rows of `chain_blocks` on disk as a table in Markdown."""
    found = {row["setting"]: float(row["value"]) for row in MEASURED.read()}
    lines = [f"| blocks in all | {' | '.join(map(str, BLOCKS))} |", "|---|" + "---|" * len(BLOCKS)]
    for what, (_, _, dimensions) in CHAINS_IN_BLOCKS.items():
        for d in dimensions:
            shares = [found[f"{what}, d = {d}, {count} blocks"] for count in BLOCKS]
            cells = [f"{share:.3f}".removeprefix("0") for share in shares]
            lines.append(f"| {what}, d = {d} | {' | '.join(cells)} |")
    return "\n".join(lines)


def share_rejected(rho: float, shift: float, d: int, count: int) -> float:
    """The share of runs in which random signs of so many blocks reject."""
    rng = np.random.default_rng([SEED, d, count])
    return round(sum(_signs_reject(rho, shift, d, count, rng) for _ in range(RUNS)) / RUNS, 4)


def _signs_reject(rho: float, shift: float, d: int, count: int, rng: np.random.Generator) -> bool:
    """Whether random signs of so many blocks reject; the first coordinate is off by `shift`."""
    from scipy.signal import lfilter

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
    from steincheck import models

    target = models.gaussian_mixture(MEANS, SCALES[:, None, None] ** 2 * np.eye(2), WEIGHTS)
    rows = []
    for law in laws:
        for seed in (SEED, SEED + 1):
            start = target.sample(CHAINS, seed)
            moved = _features(ram(target, start, law, np.random.default_rng(seed))) - _features(start)
            mean = moved.mean(axis=0)
            t2 = CHAINS * mean @ np.linalg.solve(np.cov(moved.T), mean)
            setting = f"z {law}, {len(mean)} degrees of freedom, seed {seed}"
            rows.append(("repelling-attracting Metropolis", setting, "T2", round(float(t2), 1), CHAINS))
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
    "search": search_costs,
    "sensors": sensor_modes,
    "scales": useful_scales,
    "aggregation": aggregation,
    "replicates": replicates,
    "invariance": invariance,
    "blocks": chain_blocks,
}


def main() -> None:
    """Measure what is asked for; the rows of a choice are written as soon as it is measured."""
    from steincheck import __version__

    parser = argparse.ArgumentParser(
        prog="python -m experiments.choices", description=__doc__.splitlines()[0]
    )
    parser.add_argument("choices", nargs="*", choices=[*CHOICES, []], help="all by default")
    for name in parser.parse_args().choices or CHOICES:
        rows = [(*row, SEED, __version__) for row in CHOICES[name]()]
        MEASURED.merge(dict(zip(MEASURED.fields, row, strict=True)) for row in rows)


if __name__ == "__main__":
    main()
