"""The flux test: level, power beside a test given the labels, coverage of shares.

    python -m experiments flux_study [CASE] [--repetitions R] [--n-jobs J]

Rows go to results/flux_study.csv: rejections at level 0.05 with a 95 % interval (Clopper-Pearson); for the
cases `shares` the count is that of intervals which cover the truth. "oracle" is the chi-square test (binomial
for two modes) on the true labels; "Hotelling" is another form of the test, Metropolis flows with an estimated
covariance.

It reaches into the package for the orbits of "Hotelling", which no public test uses, and for the regions that
belong to modes, where the share of a region is the truth to be covered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import steincheck as sc
from steincheck.chains.reading import Sample
from steincheck.flux.orbits import carry_to_anchors, mode_anchors

from .counting import Case, CountedStudy, Events
from .methods import label_test, sign_test

Numbers = tuple[float, ...]
Rng = np.random.Generator
SEED = 20230
FLUX = ("flux", "oracle")
LEVEL = 0.05
FEW_UNITS = 5  # hidden units up to which the labels of an RBM can be counted
LUMPY_MEANS = [[0.0, 0.0], [14.0, 0.0], [0.0, 14.0], [1.0, 0.6], [12.8, 0.5], [0.3, 12.7]]
LUMPY_VARIANCES = np.array([[1.0, 1.0], [0.8, 0.8], [1.3, 1.3], [2.0, 3.0], [3.0, 1.5], [2.5, 2.0]])
LUMPY_COVARIANCES = LUMPY_VARIANCES[:, None] * np.eye(2)


class Problem(NamedTuple):
    """A target, its modes, and the number of anchors per mode (None: chosen by the test)."""

    target: Any
    modes: Any
    anchors: int | None = None


def searched(target: Any, low: float, high: float) -> Problem:
    """A target and its modes, searched in a box."""
    return Problem(target, sc.box_search(target, bounds=(low, high), rng=SEED))


def rejections(
    x: np.ndarray, problem: Problem, methods: Sequence[str], rng: Rng, **oracles: Callable[[], float]
) -> Events:
    """Whether each method rejects."""
    options = {"modes": problem.modes, "anchors": problem.anchors}
    tests = {
        "flux": lambda: sc.flux_test(x, problem.target, rng=rng, **options).pvalue,
        "flux, exact": lambda: sc.flux_test(x, problem.target, variant="exact", rng=rng, **options).pvalue,
        "Hotelling": lambda: hotelling(x, problem),
        "spKSD": lambda: sc.spksd_test(x, problem.target, modes=problem.modes, n_steps=50, rng=rng).pvalue,
        "oracle, units": oracles.get("units"),
    } | oracles
    return {method: bool(tests[method]() <= LEVEL) for method in methods}


def hotelling(x: np.ndarray, problem: Problem) -> float:
    """Metropolis flows between modes and Hotelling's T2 with the estimated covariance, for comparison."""
    sample = Sample(x, problem.target.log_density(x))
    found = carry_to_anchors(sample, problem.target, mode_anchors(problem.modes))
    n = len(x)
    accept = np.exp(np.minimum(found.log_weight - found.log_weight[np.arange(n), found.mode, None], 0))
    accept[np.arange(n), found.mode] = 0
    flow = accept.copy()
    flow[np.arange(n), found.mode] = -accept.sum(axis=1)
    values, vectors = np.linalg.eigh(np.cov(flow.T))
    kept = values > 1e-12 * max(values[-1], 1e-300)
    k = int(kept.sum())
    t2 = n * np.sum((flow.mean(axis=0) @ vectors[:, kept]) ** 2 / values[kept])
    return float(stats.f.sf((n - k) / (k * (n - 1)) * t2, k, n - k))


@lru_cache
def mixture(means: Numbers, scales: Numbers, weights: Numbers) -> Problem:
    variances = np.square(scales)[:, None, None]
    target = sc.models.gaussian_mixture(np.reshape(means, (-1, 1)), variances, weights)
    return searched(target, min(means) - 7, max(means) + 7)


def mixture_case(
    weights: Numbers, sample: Numbers, methods: Sequence[str], n: int, rng: Rng, repetition: int, *,
    means: Numbers = (0.0, 6.0), scales: Numbers = (1.0, 1.0), modes_given: bool = True,
) -> Events:  # fmt: skip
    """Gaussians on the line with the given weights, draws with others; modes may be searched every time."""
    problem = mixture(means, scales, weights)
    if not modes_given:
        problem = problem._replace(modes=None)
    x, labels = problem.target.sample_with_labels(n, rng, weights=sample)
    return rejections(x, problem, methods, rng, oracle=lambda: label_test(labels, weights))


@lru_cache
def t_banana(dim: int) -> Problem:
    return searched(sc.models.t_banana_mixture(dim, rng=SEED), -20, 20)


def t_banana_case(dim: int, sigma: float, n: int, rng: Rng, repetition: int) -> Events:
    """20 modes; draws with weights proportional to exp(sigma z), z fresh every time."""
    problem = t_banana(dim)
    weights = np.exp(sigma * rng.standard_normal(20))
    x, labels = problem.target.sample_with_labels(n, rng, weights=weights / weights.sum())
    methods = ("flux", "Hotelling", "oracle")
    return rejections(x, problem, methods, rng, oracle=lambda: label_test(labels, np.full(20, 0.05)))


@lru_cache
def rbm(hidden: int, rotated: bool) -> Problem:
    return searched(sc.models.gb_rbm(rbm_matrix(hidden, rotated)), -10, 10)


def rbm_matrix(hidden: int, rotated: bool) -> np.ndarray:
    matrix = 6 * np.eye(50, hidden)
    return stats.ortho_group.rvs(50, random_state=SEED) @ matrix if rotated else matrix


def rbm_case(
    hidden: int, c0: float, methods: Sequence[str], rotated: bool, n: int, rng: Rng, repetition: int
) -> Events:
    """2^hidden modes; draws with c = (c0, c0, 0, ...)."""
    c = np.zeros(hidden)
    c[:2] = c0
    x, h = sc.models.gb_rbm(rbm_matrix(hidden, rotated), c=c).sample_with_labels(n, rng)
    oracles = {"oracle": lambda: labels_test(h), "units": lambda: sign_test(h)}
    return rejections(x, rbm(hidden, rotated), methods, rng, **oracles)


def labels_test(h: np.ndarray) -> float:
    """Chi-square test of the 2^d_h labels; of the signs of the units where labels are too many."""
    hidden = h.shape[1]
    if hidden > FEW_UNITS:
        return sign_test(h)
    return label_test((h > 0) @ 2 ** np.arange(hidden), np.full(2**hidden, 2.0**-hidden))


@lru_cache
def sensors() -> Problem:
    return searched(sc.models.sensor_network(), -1.5, 1.5)


@lru_cache
def sensor_shares() -> np.ndarray:
    """Shares of the eight modes, to 0.05 % (a million draws)."""
    rng, target = np.random.default_rng(SEED), sc.models.sensor_network()
    labels = [sc.models.sensor_labels(target.sample(100_000, rng)) for _ in range(10)]
    return np.bincount(np.concatenate(labels), minlength=8) / 1e6


def sensor_case(
    n: int, rng: Rng, repetition: int, *,
    tilt: float = 0.0, drop: bool = False, anchors: int | None = 4, methods: Sequence[str] = FLUX,
) -> Events:  # fmt: skip
    """Exact draws; weights multiplied by 1 + tilt and 1 - tilt in turn, one mode dropped."""
    problem = sensors()._replace(anchors=anchors)
    keep = np.where(np.arange(8) % 2, 1 - tilt, 1 + tilt)
    if drop:
        keep[repetition % 8] = 0
    enough = 2 * n + 100 if np.ptp(keep) else n
    x, labels = problem.target.sample_with_labels(enough, rng)
    kept = np.flatnonzero(rng.random(len(x)) < keep[labels] / keep.max())[:n]
    return rejections(
        x[kept], problem, methods, rng, oracle=lambda: label_test(labels[kept], sensor_shares())
    )


@lru_cache
def lumpy() -> Problem:
    """Three modes with weights .7, .2, .1, each of two Gaussians: no linear map carries one upon another."""
    weights = np.tile([0.35, 0.1, 0.05], 2)
    return searched(sc.models.gaussian_mixture(LUMPY_MEANS, LUMPY_COVARIANCES, weights), -8, 22)


def lumpy_shares(modes: sc.Modes) -> np.ndarray:
    """The weights in the order of the modes."""
    return np.select([modes.locations[:, 0] > 7, modes.locations[:, 1] > 7], [0.2, 0.1], 0.7)


def shares_case(sample: Numbers, n: int, rng: Rng, repetition: int) -> Events:
    """Whether the 95 % intervals of the implied shares cover the weights .7, .2, .1."""
    target, modes, _ = lumpy()
    x = target.sample(n, rng, weights=0.5 * np.tile(sample, 2))
    intervals = sc.flux_test(x, target, modes=modes, rng=rng).mode_table.implied_interval
    covered = zip(lumpy_shares(modes), *intervals.T, strict=True)
    return {f"covers share {weight:g}": bool(low <= weight <= high) for weight, low, high in covered}


@lru_cache
def heavy_tailed(df: int, d: int) -> tuple[Problem, float]:
    """N(0, I) and, 10 away, a multivariate t, of equal weights; and the share of the second mode's region."""
    import jax.numpy as jnp

    place = np.zeros(d)
    place[0] = 10.0
    second = stats.multivariate_t(place, np.eye(d), df)
    height = second.logpdf(place)

    def log_density(x: Any) -> Any:
        normal = -0.5 * jnp.sum(x**2) - 0.5 * d * jnp.log(2 * jnp.pi)
        return jnp.logaddexp(normal, height - 0.5 * (df + d) * jnp.log1p(jnp.sum((x - place) ** 2) / df))

    target = sc.from_jax(log_density, d)
    locations = np.stack([np.zeros(d), place])
    modes = sc.perturb(locations, target, locations, 1.0, n_steps=1, rng=SEED).modes  # with their covariances
    anchors = mode_anchors(modes)
    rng = np.random.default_rng(SEED)
    draws = [rng.normal(size=(10**6, d)), second.rvs(10**6, random_state=rng).reshape(-1, d)]
    return Problem(target, modes, 1), float(np.mean([np.mean(anchors.largest(x) == 1) for x in draws]))


def heavy_case(df: int, d: int, n: int, rng: Rng, repetition: int) -> Events:
    """Whether the 95 % interval covers the share of a mode without draws that has heavier tails."""
    problem, truth = heavy_tailed(df, d)
    x = rng.normal(size=(n, d))
    result = sc.flux_test(x, problem.target, modes=problem.modes, anchors=problem.anchors, rng=rng)
    low, high = result.mode_table.implied_interval[1]
    return {"covers share of the missing mode": bool(low <= truth <= high)}


@lru_cache
def modulated(last: int) -> Problem:
    """A Gaussian times exp(4 cos x): a lattice of modes, listed up to number `last` on either side."""

    def log_density(x: np.ndarray) -> np.ndarray:
        return -0.5 * (x[:, 0] / 12) ** 2 + 4 * np.cos(x[:, 0])

    target = sc.Target(log_density, lambda x: -x / 144 - 4 * np.sin(x), dim=1)
    locations = 2 * np.pi * np.arange(-last, last + 1)[:, None] * (1 - 1 / (4 * 144))
    return Problem(target, locations)


def modulated_case(last: int, widest: float, n: int, rng: Rng, repetition: int) -> Events:
    """Draws of the density within `widest`; with last = 2 most of them are at listed modes, but not all."""
    problem = modulated(last)
    grid = np.arange(-90, 90, 1e-3)
    mass = np.exp(problem.target.log_density(grid[:, None])) * (np.abs(grid) <= widest)
    x = np.interp(rng.random(n), np.cumsum(mass) / mass.sum(), grid)[:, None]
    return rejections(x, problem, ("flux",), rng)


ALL = ("flux", "flux, exact", "Hotelling", "oracle")
UNITS = ("flux", "oracle", "oracle, units")
EIGHT: dict[str, Any] = {"means": tuple(7.0 * k + 0.3 * k * k for k in range(8)), "scales": (1.0, 1.4) * 4}
EQUAL = (0.5, 0.5)
SAME = (0.125,) * 8
LEANING = tuple(0.125 + 0.005 * (k - 3.5) for k in range(8))
IN_TURN = tuple(0.125 + 0.014 * (-1) ** k for k in range(8))
THREE: dict[str, Any] = {"means": (0.0, 8.0, 20.0), "scales": (1.0, 1.5, 0.7)}
CASES: dict[str, Case] = {
    "bimodal 6 apart, level": Case(partial(mixture_case, EQUAL, EQUAL, ALL), (1000,), 2000),
    "bimodal 6 apart, .53/.47": Case(partial(mixture_case, EQUAL, (0.53, 0.47), ALL), (1000,), 400),
    "bimodal 6 apart, .55/.45": Case(partial(mixture_case, EQUAL, (0.55, 0.45), ALL), (1000,), 400),
    "bimodal 6 apart, level, modes searched every time": Case(
        partial(mixture_case, EQUAL, EQUAL, FLUX, modes_given=False), (1000,), 400
    ),
    "bimodal 6 apart, .55/.45, modes searched every time": Case(
        partial(mixture_case, EQUAL, (0.55, 0.45), FLUX, modes_given=False), (1000,), 400
    ),
    "weights .98/.02, level": Case(partial(mixture_case, (0.98, 0.02), (0.98, 0.02), ALL), (100, 200), 2000),
    "weights .998/.002, level": Case(
        partial(mixture_case, (0.998, 0.002), (0.998, 0.002), ALL), (1000,), 2000
    ),
    "three modes .6/.38/.02, level": Case(
        partial(mixture_case, (0.6, 0.38, 0.02), (0.6, 0.38, 0.02), ALL, **THREE), (50, 200, 1000), 2000
    ),
    "eight modes in a row, level": Case(partial(mixture_case, SAME, SAME, ALL, **EIGHT), (50, 1000), 2000),
    "eight modes in a row, leaning": Case(partial(mixture_case, SAME, LEANING, ALL, **EIGHT), (1000,), 400),
    "eight modes in a row, more in turn": Case(
        partial(mixture_case, SAME, IN_TURN, ALL, **EIGHT), (1000,), 400
    ),
    **{
        f"t-banana d={d}, sigma={sigma:g}": Case(partial(t_banana_case, d, sigma), (1000,), repetitions)
        for d in (10, 50)
        for sigma, repetitions in {0.0: 2000, 0.1: 100, 0.2: 100}.items()
    },
    "RBM d_h=5, c0=0": Case(partial(rbm_case, 5, 0.0, UNITS, False), (1000,), 2000),
    "RBM d_h=5, c0=0.1": Case(partial(rbm_case, 5, 0.1, UNITS, False), (1000,), 200),
    **{
        f"RBM d_h={hidden}, c0={c0:g}": Case(partial(rbm_case, hidden, c0, FLUX, False), (1000,), repetitions)
        for hidden in (20, 40)
        for c0, repetitions in {0.0: 400, 0.1: 100, 0.2: 100}.items()
    },
    "RBM d_h=20 rotated, c0=0": Case(partial(rbm_case, 20, 0.0, FLUX, True), (1000,), 200),
    "RBM d_h=20 rotated, c0=0.2": Case(partial(rbm_case, 20, 0.2, FLUX, True), (1000,), 100),
    "RBM d_h=20, c0=0.2, spKSD": Case(partial(rbm_case, 20, 0.2, ("spKSD",), False), (1000,), 10),
    "RBM d_h=40, c0=0.2, spKSD": Case(partial(rbm_case, 40, 0.2, ("spKSD",), False), (1000,), 10),
    "sensors, level": Case(sensor_case, (300, 1000, 4000), 1000),
    "sensors, one anchor per mode, level": Case(
        partial(sensor_case, anchors=1, methods=("flux", "Hotelling")), (300, 1000), 1000
    ),
    "sensors, anchors=None, level": Case(partial(sensor_case, anchors=None), (1000,), 500),
    "sensors, one mode dropped": Case(partial(sensor_case, drop=True), (300, 1000), 200),
    "sensors, weights tilted by 10 %": Case(partial(sensor_case, tilt=0.1), (1000,), 200),
    "sensors, weights tilted by 20 %": Case(partial(sensor_case, tilt=0.2), (1000,), 200),
    "sensors, anchors=None, weights tilted by 20 %": Case(
        partial(sensor_case, tilt=0.2, anchors=None), (1000,), 40
    ),
    "lattice of 21 modes, all listed, level": Case(partial(modulated_case, 10, np.inf), (1000,), 300),
    "lattice of 21 modes, all listed, central 87 %": Case(partial(modulated_case, 10, 18.0), (1000,), 100),
    "lattice of 21 modes, 5 listed, level": Case(partial(modulated_case, 2, np.inf), (1000,), 300),
    "lattice of 21 modes, 5 listed, central 87 %": Case(partial(modulated_case, 2, 18.0), (1000,), 100),
    "shares .7/.2/.1": Case(partial(shares_case, (0.7, 0.2, 0.1)), (1000,), 300),
    "shares .7/.2/.1, sampled equally": Case(partial(shares_case, (1 / 3, 1 / 3, 1 / 3)), (1000,), 300),
    "shares .7/.2/.1, third mode missing": Case(partial(shares_case, (7 / 9, 2 / 9, 0.0)), (1000,), 300),
    **{
        f"shares, t{df} mode missing, d={d}": Case(partial(heavy_case, df, d), (1000,), 300)
        for df, d in ((3, 1), (3, 2), (5, 1), (5, 5))
    },
}


STUDIES = (CountedStudy("flux_study", SEED, CASES),)
