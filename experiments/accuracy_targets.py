"""Targets of experiments.accuracy_study, with their exact moments or a long reference run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special, stats

import steincheck as sc
from steincheck.accuracy.control import estimate_moments, stein_features
from steincheck.perturbation.hamiltonian import Trajectory, Walkers, hamiltonian_transition
from steincheck.target import to_constrained
from steincheck.target.evaluation import CountedTarget

from . import mode_targets, targets

POOL = 400_000  # exact draws, of which every replicate takes some
REFERENCE_WALKERS = 400
REFERENCE_TRANSITIONS = 1000


class Truth(NamedTuple):
    """Moments of the user's parameters, and draws to take samples from."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray  #: standard error of the means
    log_sd_error: np.ndarray  #: and of the logs of the sds
    pool: np.ndarray  #: (N, d), in the coordinates of the target


class Case(NamedTuple):
    """A target and what is known about it."""

    target: sc.Target
    modes: sc.Modes
    truth: Truth


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng([ord(letter) for letter in name])


TARGETS: dict[str, Callable[[], targets.Model | mode_targets.Case]] = {}
registered = targets.registered_in(TARGETS)
registered("t4", 4, 3)(targets.student)
registered("logistic_line", 1)(targets.logistic)


@registered("lognormal_scales")
def lognormal_scales() -> targets.Model:
    """Lognormal scales with correlated logs of sd .15 to .45, d = 6."""
    rng = _rng("lognormal")
    spread = np.linspace(0.15, 0.45, 6)
    correlation = 0.5 + 0.5 * np.eye(6)
    covariance = correlation * np.outer(spread, spread)
    precision = np.linalg.inv(covariance)
    centre = rng.normal(size=6)
    target = sc.from_jax(
        lambda x: -0.5 * (x - centre) @ precision @ (x - centre),
        6,
        constrained_names=[f"tau[{k}]" for k in range(6)],
        constrain=jnp.exp,
        unconstrain=jnp.log,
    )
    return targets.Model(target, lambda n, rng: rng.multivariate_normal(centre, covariance, size=n))


@registered("sinh_arcsinh")
def sinh_arcsinh() -> targets.Model:
    """Skew margins with a Gaussian copula, d = 8."""
    rng = _rng("sinh")
    a = rng.normal(size=(8, 8))
    covariance = a @ a.T + np.eye(8)
    width = np.sqrt(np.diag(covariance))
    covariance = covariance / np.outer(width, width)
    precision = np.linalg.inv(covariance)
    skew, tail = np.linspace(-0.4, 0.4, 8), np.linspace(0.9, 1.3, 8)

    def log_density(x):
        inner = tail * jnp.arcsinh(x) - skew
        z = jnp.sinh(inner)
        return -0.5 * z @ precision @ z + jnp.sum(jnp.log(jnp.cosh(inner)) - 0.5 * jnp.log1p(x**2))

    def sample(n, rng):
        z = rng.multivariate_normal(np.zeros(8), covariance, size=n)
        return np.sinh((np.arcsinh(z) + skew) / tail)

    return targets.Model(sc.from_jax(log_density, 8), sample)


registered("overlap", [[0.0, 0, 0], [3.0, 0, 0]], [1.0, 0.8], [0.6, 0.4])(mode_targets.gaussians)
THREE_MODES = ([[0.0, 0, 0, 0], [9.0, 0, 0, 0], [0, 8.0, 4, 0]], [1.0, 0.7, 1.2], [0.5, 0.3, 0.2])
registered("three_modes", *THREE_MODES)(mode_targets.gaussians)


@registered("logistic_regression")
def logistic_regression() -> targets.Model:
    """150 observations, d = 8."""
    rng = _rng("logistic")
    x = np.column_stack([np.ones(150), rng.normal(size=(150, 7))])
    y = rng.random(150) < 1 / (1 + np.exp(-x @ rng.normal(size=8)))

    def log_density(b):
        return jnp.sum(jnp.where(y, -jax.nn.softplus(-x @ b), -jax.nn.softplus(x @ b))) - jnp.sum(b**2) / 12.5

    return targets.Model(sc.from_jax(log_density, 8), None)


@registered("poisson_regression")
def poisson_regression() -> targets.Model:
    """40 counts, d = 12."""
    rng = _rng("poisson")
    x = np.column_stack([np.ones(40), rng.normal(size=(40, 11))])
    y = rng.poisson(np.exp(x @ (0.3 * rng.normal(size=12))))
    target = sc.from_jax(lambda b: jnp.sum(y * (x @ b) - jnp.exp(x @ b)) - jnp.sum(b**2) / 8, 12)
    return targets.Model(target, None)


@registered("gaussian_process")
def gaussian_process() -> targets.Model:
    """Length, amplitude and noise of a Gaussian process with 20 observations, d = 3."""
    rng = _rng("gp")
    t = np.sort(rng.uniform(0, 10, size=20))
    gaps = (t[:, None] - t) ** 2
    y = np.sin(t) + 0.3 * rng.normal(size=20)

    def log_density(u):
        length, amplitude, noise = jnp.exp(u)
        k = amplitude**2 * jnp.exp(-0.5 * gaps / length**2) + (noise**2 + 1e-8) * jnp.eye(20)
        factor = jnp.linalg.cholesky(k)
        half = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return -0.5 * half @ half - jnp.sum(jnp.log(jnp.diag(factor))) - 0.5 * jnp.sum(u**2)

    own_scale = {"constrained_names": ["length", "amplitude", "noise"], "constrain": jnp.exp}
    return targets.Model(sc.from_jax(log_density, 3, **own_scale, unconstrain=jnp.log), None)


@registered("hidden_markov")
def hidden_markov() -> targets.Model:
    """Two ordered states with Gaussian noise and 120 observations, d = 5."""
    rng = _rng("hmm")
    state = [0]
    for _ in range(119):
        state.append(state[-1] if rng.random() < 0.85 else 1 - state[-1])
    y = np.where(state, 1.5, -1.0) + 0.7 * rng.normal(size=120)

    def log_density(u):
        means = jnp.array([u[0], u[0] + jnp.exp(u[1])])
        stay = jax.nn.log_sigmoid(u[2:4])
        leave = jax.nn.log_sigmoid(-u[2:4])
        moves = jnp.array([[stay[0], leave[0]], [leave[1], stay[1]]])
        emit = stats.norm.logpdf(y[:, None], means, jnp.exp(u[4]))

        def step(forward, row):
            return special.logsumexp(forward[:, None] + moves, axis=0) + row, None

        last, _ = jax.lax.scan(step, emit[0], emit[1:])
        prior = stats.norm.logpdf(u, jnp.array([-0.5, 0.5, 1.5, 1.5, -0.3]), 1.0)
        return special.logsumexp(last) + jnp.sum(prior)

    def constrain(u):
        second = u[:, 0] + jnp.exp(u[:, 1])
        return jnp.column_stack([u[:, 0], second, jax.nn.sigmoid(u[:, 2:4]), jnp.exp(u[:, 4])])

    names = ["mu[0]", "mu[1]", "stay[0]", "stay[1]", "sigma"]
    return targets.Model(sc.from_jax(log_density, 5, constrained_names=names, constrain=constrain), None)


@registered("hierarchical_counts")
def hierarchical_counts() -> targets.Model:
    """Counts of 40 groups with random intercepts, not centred, and 3 slopes, d = 45."""
    rng = _rng("counts")
    group = np.repeat(np.arange(40), 4)
    x = rng.normal(size=(160, 3))
    effect = 1.0 + 0.5 * rng.normal(size=40)
    y = rng.poisson(np.exp(effect[group] + x @ np.array([0.3, -0.2, 0.1])))

    def log_density(u):
        eta = u[0] + jnp.exp(u[1]) * u[5:][group] + x @ u[2:5]
        prior = -0.5 * (jnp.sum(u[2:] ** 2) + u[0] ** 2 / 4 + (u[1] + 1) ** 2)
        return jnp.sum(y * eta - jnp.exp(eta)) + prior

    names = ["mu_a", "tau", "b[0]", "b[1]", "b[2]", *(f"z[{k}]" for k in range(40))]

    def constrain(u):
        return jnp.concatenate([u[:, :1], jnp.exp(u[:, 1:2]), u[:, 2:]], axis=1)

    return targets.Model(sc.from_jax(log_density, 45, constrained_names=names, constrain=constrain), None)


@registered("latent_series")
def latent_series() -> targets.Model:
    """Counts of a latent autoregression of length 60, d = 60."""
    rng = _rng("series")
    h = np.zeros(60)
    for k in range(1, 60):
        h[k] = 0.9 * h[k - 1] + 0.4 * rng.normal()
    y = rng.poisson(np.exp(1 + h))

    def log_density(u):
        prior = -0.5 * (u[0] ** 2 * 0.19 + jnp.sum((u[1:] - 0.9 * u[:-1]) ** 2)) / 0.16
        return jnp.sum(y * (1 + u) - jnp.exp(1 + u)) + prior

    return targets.Model(sc.from_jax(log_density, 60), None)


@registered("skew_series")
def skew_series() -> targets.Model:
    """A log-gamma variable, a logistic one about half its square, and a Gaussian about that, d = 3."""

    def log_density(x):
        noise = (x[1] - 0.5 * x[0] ** 2) / 0.6
        last = (x[2] - 0.7 * x[1]) / 0.5
        return 2 * x[0] - jnp.exp(x[0]) - noise - 2 * jnp.logaddexp(0.0, -noise) - 0.5 * last**2

    def sample(n, rng):
        first = np.log(rng.gamma(2.0, size=n))
        second = 0.5 * first**2 + 0.6 * rng.logistic(size=n)
        return np.stack([first, second, 0.7 * second + 0.5 * rng.normal(size=n)], axis=1)

    return targets.Model(sc.from_jax(log_density, 3), sample)


@registered("rare_tail")
def rare_tail() -> targets.Model:
    """A Gaussian with 1 draw in 200 of another that is five times as wide: 11 % of the variance, d = 1."""
    return targets.exact(sc.models.gaussian_mixture([[0.0], [0.0]], [[[1.0]], [[25.0]]], (0.995, 0.005)))


@cache
def case(name: str) -> Case:
    """The target with its modes and truth; a reference run is kept among temporary files."""
    made = TARGETS[name]()
    target, sample = made.target, made.sample
    rng = _rng("truth of " + name)
    pool = None if sample is None else sample(POOL, rng)
    starts = rng.normal(size=(20, target.dim)) if pool is None else pool[:20]
    modes = sc.find_modes(target, starts=starts, rng=1)
    if name in ("hidden_markov", "gaussian_process", "hierarchical_counts"):  # nearly all of the mass
        modes = sc.Modes(modes.locations[:1], modes.covariances[:1], modes.log_density[:1])
    if pool is not None:
        return Case(target, modes, _truth(pool, to_constrained(pool, target)[0], walkers=False))
    return Case(target, modes, _truth_of_walkers(target, _reference(name, target, modes, rng)))


def _truth(pool: np.ndarray, values: np.ndarray, *, walkers: bool) -> Truth:
    """Moments of a pool; the units of their errors are draws, or walkers of a reference run."""
    mean, sd = values.mean(axis=0), values.std(axis=0)
    z = (values - mean) / sd
    influences = [z, (z**2 - 1) / 2]
    if walkers:
        influences = [f.reshape(-1, REFERENCE_WALKERS, f.shape[1]).mean(axis=0) for f in influences]
    first, second = (f.std(axis=0) / np.sqrt(len(f)) for f in influences)
    return Truth(mean, sd, sd * first, second, pool)


def _truth_of_walkers(target: sc.Target, pool: np.ndarray) -> Truth:
    """Moments of a reference run: plain, or with control variates where these have smaller errors.

    Plain means are often less precise than the estimates that are to be judged. Control variates use every
    tenth transition of all walkers.
    """
    plain = _truth(pool, to_constrained(pool, target)[0], walkers=True)
    x = pool.reshape(-1, REFERENCE_WALKERS, target.dim)[::10].reshape(-1, target.dim)
    border = np.ones(len(x)), np.zeros_like(x)
    metric = np.cov(pool, rowvar=False)
    features = stein_features(x - pool.mean(axis=0), target.score(x), metric, *border, 300)
    moments = estimate_moments(to_constrained(x, target)[0], features, REFERENCE_WALKERS, ordered=False)
    (mean, log_sd), (mean_error, log_sd_error) = moments.estimate[:2]
    better = mean_error < plain.mean_error
    better_sd = log_sd_error < plain.log_sd_error
    return Truth(
        np.where(better, mean, plain.mean),
        np.where(better_sd, np.exp(log_sd), plain.sd),
        np.where(better, mean_error, plain.mean_error),
        np.where(better_sd, log_sd_error, plain.log_sd_error),
        pool,
    )


def _reference(name: str, target: sc.Target, modes: sc.Modes, rng: np.random.Generator) -> np.ndarray:
    """States of long Hamiltonian chains."""
    path = Path(tempfile.gettempdir()) / f"steincheck_reference_{name}.npy"
    if path.exists():
        return np.load(path)
    density = CountedTarget(target)
    root = np.linalg.cholesky(modes.covariances[0])
    x = modes.locations[0] + 0.3 * rng.normal(size=(REFERENCE_WALKERS, target.dim)) @ root.T
    walkers = Walkers(x, *density.log_density_and_score(x))
    step, kept = 0.5, []
    for k in range(REFERENCE_TRANSITIONS + 200):
        trajectory = Trajectory(root, step * rng.uniform(0.5, 1.2), max(int(np.ceil(2 / step)), 4))
        walkers, moved = hamiltonian_transition(walkers, density, trajectory, rng)
        if k < 100:
            step *= np.exp(0.3 * (moved.mean() - 0.9))
        if k == 100:
            root = np.linalg.cholesky(np.cov(walkers.x, rowvar=False) * 0.5 + 0.5 * root @ root.T)
        if k >= 200:
            kept.append(walkers.x)
    pool = np.concatenate(kept)
    np.save(path, pool)
    return pool
