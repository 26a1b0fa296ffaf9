"""Level and power of `check`.

python -m experiments.check_study [level | searched | needles | edges | missing | wrong] [--case NAME]

level: exact independent draws, modes given, as the search itself is judged by experiments.mode_study.
searched: exact independent draws of targets of experiments.mode_targets, modes searched from held-out draws.
needles: the same for `flux_test` where 30 rare modes are far too narrow to be found.
edges: exact independent draws of positive and bounded parameters, on their own scale and by `unbounded`.
missing: 50 draws of one mode of each multimodal target of experiments.mode_targets, modes searched, 3 seeds.
wrong: one thing is wrong with a Gaussian in d dimensions, 1000 draws.

Writes experiments/results/check_study.csv, one row per case as it goes; rows of other cases are kept.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

import steincheck as sc

from .mode_targets import TARGETS, gaussians
from .tables import RESULTS, Table, commit

COUNTS = Table(
    RESULTS / "check_study.csv",
    ("part", "case", "n", "samples", "misfit", "cannot_tell", "named", "seed", "version", "commit"),
    ("part", "case"),
)
SEED = 2026
LEVEL_SAMPLES = 200
NEEDLE_SAMPLES = 300
SHORT_SEARCH = 20_000  # evaluations: the level does not depend on how many modes are found
SEARCHED = (
    "two_1_50",
    "two_10_30",
    "narrow_1",
    "fromnarrow_2",
    "widths_5",
    "weights_10",
    "tbanana_10",
    "tmix_20",
    "corr_20",
    "t3_20",
    "eggbox_2",
    "ring_2",
)
POWER_SAMPLES = 100
Sampler = Callable[[int, np.random.Generator], np.ndarray]


def gaussian(d: int) -> sc.Target:
    """Standard normal."""
    return sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), d)


def t3(d: int) -> tuple[sc.Target, Sampler]:
    """Independent t with 3 degrees of freedom."""
    target = sc.from_jax(lambda x: -2.0 * jnp.sum(jnp.log1p(x**2 / 3)), d)
    return target, lambda n, rng: rng.standard_t(3, size=(n, d))


def log_gamma(shape: float, d: int) -> tuple[sc.Target, Sampler]:
    """Logarithms of independent gamma variables."""
    target = sc.from_jax(lambda x: jnp.sum(shape * x - jnp.exp(x)), d)
    return target, lambda n, rng: np.log(rng.gamma(shape, size=(n, d)))


def level_cases() -> Iterator[tuple[str, int, sc.Target, Sampler, np.ndarray]]:
    """Name, n, target, exact sampler, mode locations."""
    for d in (1, 5, 20, 50):
        yield (
            f"Gaussian, d = {d}",
            500,
            gaussian(d),
            lambda n, rng, d=d: rng.normal(size=(n, d)),
            np.zeros((1, d)),
        )
    yield "t3, d = 10", 500, *t3(10), np.zeros((1, 10))
    for shape in (0.5, 3.0):
        yield f"log-gamma({shape:g}), d = 2", 500, *log_gamma(shape, 2), np.full((1, 2), np.log(shape))
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


def count(part: str, case: str, verdicts: list[sc.Verdict], named: list[bool]) -> dict[str, object]:
    """One row of the table."""
    return {
        "part": part,
        "case": case,
        "n": verdicts[0].n,
        "samples": len(verdicts),
        "misfit": sum(v.fits is False for v in verdicts),
        "cannot_tell": sum(v.fits is None for v in verdicts),
        "named": sum(named),
        "seed": SEED,
        "version": sc.__version__,
        "commit": commit(),
    }


def seed_from(rng: np.random.Generator) -> int:
    """A seed for one of many verdicts, drawn from the stream that draws their samples."""
    return int(rng.integers(2**32))


def level(wanted: str) -> Iterator[dict[str, object]]:
    """How often `check` rejects true draws."""
    for name, n, target, sample, modes in level_cases():
        if wanted not in name:
            continue
        rng = np.random.default_rng(SEED)
        found = [
            sc.check(sample(n, rng), target, modes=modes, rng=seed_from(rng)) for _ in range(LEVEL_SAMPLES)
        ]
        yield count("level", name, found, [])


def searched(wanted: str) -> Iterator[dict[str, object]]:
    """How often `check` rejects true draws if it searches for the modes itself."""
    for name in SEARCHED:
        if wanted not in name:
            continue
        case = TARGETS[name]()
        assert case.sample is not None
        rng = np.random.default_rng(SEED)
        found = []
        for _ in range(LEVEL_SAMPLES):
            x = case.sample(200, rng)
            found.append(
                sc.check(
                    x,
                    case.target,
                    independent=True,
                    max_evaluations=SHORT_SEARCH,
                    progress=False,
                    rng=seed_from(rng),
                )
            )
        yield count("searched", name, found, [])


def needles(wanted: str) -> Iterator[dict[str, object]]:
    """How often the flux test rejects true draws where rare modes are missed: three modes, 30 needles."""
    name = "30 needles of 5 % together"
    if wanted not in name:
        return
    rng = np.random.default_rng(SEED)
    means = np.concatenate([[[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0]], rng.uniform(-20, 20, size=(30, 2))])
    sds = np.repeat([1.0, 0.02], [3, 30])
    weights = np.repeat([0.95 / 3, 0.05 / 30], [3, 30])
    case = gaussians(means, sds, weights)
    assert case.sample is not None
    pvalues = []
    for _ in range(NEEDLE_SAMPLES):
        x = case.sample(200, rng)
        modes = sc.find_modes(
            case.target, draws=x[:20], max_evaluations=SHORT_SEARCH, progress=False, rng=rng
        )
        pvalues.append(sc.flux_test(x[20:], case.target, modes=modes, rng=rng).pvalue)
    row = {"part": "needles", "case": name, "n": 180, "samples": NEEDLE_SAMPLES}
    row |= {"misfit": int(np.sum(np.array(pvalues) <= 0.05)), "cannot_tell": 0, "named": 0, "seed": SEED}
    yield row | {"version": sc.__version__, "commit": commit()}


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


def edges(wanted: str) -> Iterator[dict[str, object]]:
    """How often `check` rejects true draws of a density with an edge, as it is and on unconstrained space.

    Instead of what is named, the column `named` has the rejections of the kernel test by itself.
    """
    for name, bounds, target, sample in edge_cases():
        if wanted not in name:
            continue
        free = sc.unbounded(target, bounds)
        for scale, known in (("own scale", target), ("unbounded", free)):
            rng = np.random.default_rng(SEED)
            found = []
            by_kernel = []
            for _ in range(LEVEL_SAMPLES):
                x = sample(200, rng)
                x = x if known is target else free.unconstrain(x)
                found.append(sc.check(x, known, max_evaluations=2000, progress=False, rng=seed_from(rng)))
                sizes = {"n_resamples": 2000, "n_level_resamples": 2000}
                by_kernel.append(sc.ksdagg_test(x, known, **sizes, rng=rng).reject())
            yield count("edges", f"{name}, {scale}", found, by_kernel)


def missing(wanted: str) -> Iterator[dict[str, object]]:
    """Whether `check` finds and names missing modes from draws of one of them."""
    for name, build in TARGETS.items():
        if wanted not in name:
            continue
        case = build()
        if case.expected < 2:
            continue
        found = [sc.check(case.draws, case.target, independent=True, rng=SEED + k) for k in range(3)]
        kinds = [{finding.kind for finding in verdict.findings} for verdict in found]
        yield count("missing", name, found, [bool(k & {"missing mode", "mode share", "flow"}) for k in kinds])


def wrong(wanted: str) -> Iterator[dict[str, object]]:
    """How often `check` rejects a Gaussian sample with one fault, and names the coordinate."""
    for d in (5, 20, 50):
        target = gaussian(d)
        for fault, sample in wrong_cases(d):
            if wanted not in f"{fault}, d = {d}":
                continue
            rng = np.random.default_rng(SEED)
            found = [
                sc.check(sample(1000, rng), target, modes=np.zeros((1, d)), rng=seed_from(rng))
                for _ in range(POWER_SAMPLES)
            ]
            named = [any("x[0]" in finding.parameters for finding in verdict.findings) for verdict in found]
            yield count("wrong", f"{fault}, d = {d}", found, named)


def main() -> None:
    """Run the parts asked for, all by default; only cases whose name holds that of `--case`."""
    parts = {
        "level": level,
        "searched": searched,
        "needles": needles,
        "edges": edges,
        "missing": missing,
        "wrong": wrong,
    }
    parser = argparse.ArgumentParser(prog="python -m experiments.check_study", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="all by default")
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in options.parts or parts:
            for row in parts[part](options.case):
                COUNTS.merge([row])
                print(row, flush=True)


if __name__ == "__main__":
    main()
