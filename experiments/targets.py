"""Targets with exact draws, independent or as stationary chains; `MODELS` are those of the calibration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import signal

import steincheck as sc

SEED = 2026
Sampler = Callable[[int, np.random.Generator], Any]


class Model(NamedTuple):
    """A target and a sampler: draws of the target, or wrong ones where the power is asked for."""

    target: sc.Target
    sample: Any  #: a Sampler, or None
    modes: Any = None  #: locations, where they are known


def exact(target: sc.Target) -> Model:
    """A target of `steincheck.models` and its own draws."""
    return Model(target, target.sample)


def registered_in(table: dict[str, Callable]) -> Callable:
    """A decorator that registers a builder in `table` under a name, to be called with arguments."""

    def decorator(name: str, *arguments: Any) -> Callable:
        def register(function: Callable) -> Callable:
            table[name] = functools.partial(function, *arguments)
            return function

        return register

    return decorator


MODELS: dict[str, Callable[[], Model]] = {}
model = registered_in(MODELS)


@functools.cache
def build(name: str) -> Model:
    """The model, compiled once per process."""
    return MODELS[name]()


@functools.cache
def modes_of(name: str) -> sc.Modes:
    """Its modes, found once from draws that no test sees."""
    target, sample, _ = build(name)
    draws = np.reshape(sample(1000, np.random.default_rng(SEED)), (-1, target.dim))
    return sc.find_modes(target, draws=draws, rng=SEED)


@model("Gaussian, d = 1", 1)
@model("Gaussian, d = 10", 10)
@model("Gaussian, d = 50", 50)
@model("Gaussian, d = 200", 200)
@functools.cache
def gaussian(d: int) -> Model:
    """Standard normal."""
    target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), d)
    return Model(target, lambda n, rng: rng.normal(size=(n, d)), np.zeros((1, d)))


@functools.cache
def correlated(d: int, correlation: float) -> Model:
    """Standard normal coordinates with equal correlations."""
    root = np.linalg.cholesky(np.full((d, d), correlation) + (1 - correlation) * np.eye(d))
    precision = np.linalg.inv(root @ root.T)
    target = sc.from_jax(lambda x: -0.5 * x @ precision @ x, d)
    return Model(target, lambda n, rng: rng.normal(size=(n, d)) @ root.T, np.zeros((1, d)))


@model("correlation .999, d = 2")
def nearly_a_line() -> Model:
    """Two coordinates that are nearly one."""
    return exact(sc.models.gaussian_mixture([[0.0, 0.0]], [[[1.0, 0.999], [0.999, 1.0]]]))


@model("rounded draws, d = 2")
def rounded() -> Model:
    """Draws of a Gaussian written with two decimals."""
    target = gaussian(2).target
    return Model(target, lambda n, rng: np.round(rng.normal(size=(n, 2)), 2))


def on_first_axis(positions: Any, d: int) -> np.ndarray:
    """Points (k, d) on the first axis."""
    return np.outer(positions, np.eye(d)[0])


def mixture(distance: float, weights: Any, d: int) -> sc.Target:
    """Two Gaussians."""
    return sc.models.gaussian_mixture(on_first_axis([0.0, distance], d), weights=weights)


@model("two Gaussians 6 apart, d = 1", 6.0, (0.5, 0.5), 1)
@model("two Gaussians 6 apart, d = 50", 6.0, (0.5, 0.5), 50)
@model("two Gaussians 3 apart, d = 2", 3.0, (0.5, 0.5), 2)
@model("a mode of weight .01, d = 2", 8.0, (0.99, 0.01), 2)
def two_gaussians(distance: float, weights: Any, d: int) -> Model:
    """A mixture and its own draws."""
    return exact(mixture(distance, weights, d))


@model("three Gaussians, unequal covariances, d = 2")
def plane() -> Model:
    """Three modes with weights .5, .3, .2."""
    covariances = [[[1, 0.3], [0.3, 0.5]], [[0.4, -0.2], [-0.2, 2]], [[1, 0], [0, 1]]]
    return exact(sc.models.gaussian_mixture([[-3, 0], [3, 1], [0, 5]], covariances, (0.5, 0.3, 0.2)))


@model("units from 1e-6 to 1e6, d = 3")
def units() -> Model:
    """Two modes in units that differ by 12 orders of magnitude."""
    scale = np.array([1e-6, 1.0, 1e6])
    return exact(sc.models.gaussian_mixture(on_first_axis([0.0, 6.0], 3) * scale, [np.diag(scale**2)] * 2))


@model("t-banana mixture, d = 5")
def t_banana() -> Model:
    """The paper's mixture, smaller."""
    return exact(sc.models.t_banana_mixture(5, n_t=2, n_banana=2, rng=SEED))


@model("Boltzmann machine, d = 10")
def boltzmann() -> Model:
    """Eight modes, the corners of a cube."""
    return exact(sc.models.gb_rbm(6 * np.eye(10, 3)))


@model("sensor network, d = 8")
def sensors() -> Model:
    """The paper's sensor network."""
    return exact(sc.models.sensor_network())


@model("funnel, d = 3", 3, 1.0)
@functools.cache
def funnel(d: int, sd: float) -> Model:
    """A log scale v ~ N(0, sd^2) and other coordinates with standard deviation exp(v/2)."""

    def log_density(x: Any) -> Any:
        return -0.5 * (x[0] / sd) ** 2 - 0.5 * (d - 1) * x[0] - 0.5 * jnp.exp(-x[0]) * jnp.sum(x[1:] ** 2)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        v = sd * rng.normal(size=(n, 1))
        return np.concatenate([v, np.exp(v / 2) * rng.normal(size=(n, d - 1))], axis=1)

    mode = -0.5 * (d - 1) * sd**2
    return Model(sc.from_jax(log_density, d), sample, on_first_axis([mode], d))


@functools.cache
def multivariate_t(df: float, d: int) -> Model:
    """One t distribution in d dimensions."""
    target = sc.from_jax(lambda x: -0.5 * (df + d) * jnp.log1p(jnp.sum(x**2) / df), d)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(df, (n, 1)) / df)

    return Model(target, sample, np.zeros((1, d)))


@model("ring, d = 2")
def ring() -> Model:
    """Radius N(5, .5), angle of von Mises' distribution."""

    def log_density(x: Any) -> Any:
        r = jnp.sqrt(jnp.sum(x**2))
        return -2 * (r - 5) ** 2 - jnp.log(r) + x[0] / r

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        r = rng.normal(5, 0.5, size=n)
        angle = rng.vonmises(0, 1, size=n)
        return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)

    return Model(sc.from_jax(log_density, 2), sample)


@model("Cauchy, d = 1", 1, 1)
@model("t2, d = 2", 2, 2)
@model("t3, d = 2", 3, 2)
def student(df: int, d: int) -> Model:
    """Independent t."""
    target = sc.from_jax(lambda x: -0.5 * (df + 1) * jnp.sum(jnp.log1p(x**2 / df)), d)
    return Model(target, lambda n, rng: rng.standard_t(df, size=(n, d)), np.zeros((1, d)))


@model("log-gamma .3, d = 2", 0.3, 2)
@model("log-gamma 2, d = 2", 2.0, 2)
@functools.cache
def log_gamma(shape: float, d: int) -> Model:
    """Logarithms of gamma variables."""
    target = sc.from_jax(lambda x: jnp.sum(shape * x - jnp.exp(x)), d)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.log(rng.gamma(shape, size=(n, d)).clip(1e-300))

    return Model(target, sample, np.full((1, d), np.log(shape)))


@model("Gumbel, d = 3")
def gumbel() -> Model:
    """Independent Gumbel variables."""
    target = sc.from_jax(lambda x: -jnp.sum(x + jnp.exp(-x)), 3)
    return Model(target, lambda n, rng: rng.gumbel(size=(n, 3)))


@model("logistic, d = 3", 3)
def logistic(d: int) -> Model:
    """Independent logistic variables."""
    target = sc.from_jax(lambda x: -jnp.sum(x + 2 * jax.nn.softplus(-x)), d)
    return Model(target, lambda n, rng: rng.logistic(size=(n, d)))


def autoregression(noise: np.ndarray, rho: float) -> np.ndarray:
    """Stationary chains (chain, draw, d) with autocorrelation rho of standard normal noise."""
    step = np.sqrt(1 - rho**2) * noise
    step[:, 0] = noise[:, 0]
    return signal.lfilter([1.0], [1.0, -rho], step, axis=1)


def metropolis(
    x: np.ndarray, log_density: Callable, propose: Callable, length: int, rng: np.random.Generator
) -> np.ndarray:
    """States (chain, draw, d) of Metropolis chains from `x` (chain, d) with symmetric proposals."""
    log_p = log_density(x)
    states = np.empty((len(x), length, x.shape[1]))
    for t in range(length):
        y = propose(x)
        proposed = log_density(y)
        accepted = np.log(rng.random(len(x))) < proposed - log_p
        x = np.where(accepted[:, None], y, x)
        log_p = np.where(accepted, proposed, log_p)
        states[:, t] = x
    return states


def refreshed(fresh: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Chains (chain, draw) that keep their value, but for probability `rate` to take that of `fresh`."""
    renewed = rng.random(fresh.shape) < rate
    renewed[:, 0] = True
    last = np.maximum.accumulate(np.where(renewed, np.arange(fresh.shape[1]), 0), axis=1)
    return np.take_along_axis(fresh, last, axis=1)


@model("4 chains of a Gaussian, autocorrelation .8, d = 5")
def chains() -> Model:
    """Stationary autoregressions."""
    return Model(gaussian(5).target, lambda n, rng: autoregression(rng.normal(size=(4, n // 4, 5)), 0.8))


@model("4 chains between two Gaussians, d = 2")
def switching_chains() -> Model:
    """Stationary autoregressions around a mean that changes sides once in ten draws."""
    target = mixture(6.0, (0.5, 0.5), 2)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        x = autoregression(rng.normal(size=(4, n // 4, 2)), 0.8)
        changes = rng.random(x.shape[:2]) < 0.1
        changes[:, 0] = rng.random(4) < 0.5
        x[..., 0] += 6.0 * (np.cumsum(changes, axis=1) % 2)
        return x

    return Model(target, sample)


@model("power: left component only", (1.0, 0.0), 0.0)
@model("power: weight .4", (0.4, 0.6), 0.0)
@model("power: weight .3", (0.3, 0.7), 0.0)
@model("power: shift .3", (0.5, 0.5), 0.3)
def wrong_mixture(weights: Any, shift: float) -> Model:
    """Wrong draws of two Gaussians 6 apart."""
    target = mixture(6.0, (0.5, 0.5), 1)
    return Model(target, lambda n, rng: target.sample(n, rng, weights=weights) + shift)
