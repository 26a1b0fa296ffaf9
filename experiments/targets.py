"""Targets with exact draws, independent or as stationary chains; `MODELS` are those of the calibration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import steincheck as sc

SEED = 2026
Sampler = Callable[[int, np.random.Generator], Any]


class Model(NamedTuple):
    """A target and a sampler: draws of the target, or wrong ones where the power is asked for."""

    target: sc.Target
    sample: Sampler


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
    target, sample = build(name)
    draws = np.reshape(sample(1000, np.random.default_rng(SEED)), (-1, target.dim))
    return sc.find_modes(target, draws=draws, rng=SEED)


@model("Gaussian, d = 1", 1)
@model("Gaussian, d = 10", 10)
@model("Gaussian, d = 50", 50)
@model("Gaussian, d = 200", 200)
def gaussian(d: int) -> Model:
    """Standard normal."""
    return Model(sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), d), lambda n, rng: rng.normal(size=(n, d)))


@model("correlation .999, d = 2")
def correlated() -> Model:
    """Two coordinates that are nearly one."""
    covariance = np.array([[1.0, 0.999], [0.999, 1.0]])
    target = sc.models.gaussian_mixture([[0.0, 0.0]], [covariance])
    return Model(target, target.sample)


@model("rounded draws, d = 2")
def rounded() -> Model:
    """Draws of a Gaussian written with two decimals."""
    target = gaussian(2).target
    return Model(target, lambda n, rng: np.round(rng.normal(size=(n, 2)), 2))


def mixture(distance: float, weights: Any, d: int) -> sc.Target:
    """Two Gaussians."""
    means = np.zeros((2, d))
    means[1, 0] = distance
    return sc.models.gaussian_mixture(means, weights=weights)


@model("two Gaussians 6 apart, d = 1", 6.0, (0.5, 0.5), 1)
@model("two Gaussians 6 apart, d = 50", 6.0, (0.5, 0.5), 50)
@model("two Gaussians 3 apart, d = 2", 3.0, (0.5, 0.5), 2)
@model("a mode of weight .01, d = 2", 8.0, (0.99, 0.01), 2)
def two_gaussians(distance: float, weights: Any, d: int) -> Model:
    """A mixture and its own draws."""
    target = mixture(distance, weights, d)
    return Model(target, target.sample)


@model("three Gaussians, unequal covariances, d = 2")
def plane() -> Model:
    """Three modes with weights .5, .3, .2."""
    covariances = [[[1, 0.3], [0.3, 0.5]], [[0.4, -0.2], [-0.2, 2]], [[1, 0], [0, 1]]]
    target = sc.models.gaussian_mixture([[-3, 0], [3, 1], [0, 5]], covariances, (0.5, 0.3, 0.2))
    return Model(target, target.sample)


@model("units from 1e-6 to 1e6, d = 3")
def units() -> Model:
    """Two modes in units that differ by 12 orders of magnitude."""
    scale = np.array([1e-6, 1.0, 1e6])
    means = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 0.0]]) * scale
    target = sc.models.gaussian_mixture(means, [np.diag(scale**2)] * 2)
    return Model(target, target.sample)


@model("t-banana mixture, d = 5")
def t_banana() -> Model:
    """The paper's mixture, smaller."""
    target = sc.models.t_banana_mixture(5, n_t=2, n_banana=2, rng=SEED)
    return Model(target, target.sample)


@model("Boltzmann machine, d = 10")
def boltzmann() -> Model:
    """Eight modes, the corners of a cube."""
    target = sc.models.gb_rbm(6 * np.eye(10, 3))
    return Model(target, target.sample)


@model("sensor network, d = 8")
def sensors() -> Model:
    """The paper's sensor network."""
    target = sc.models.sensor_network()
    return Model(target, target.sample)


@model("funnel, d = 3", 3, 1.0)
def funnel(d: int, sd: float) -> Model:
    """A log scale v ~ N(0, sd^2) and other coordinates with standard deviation exp(v/2)."""

    def log_density(x: Any) -> Any:
        return -0.5 * (x[0] / sd) ** 2 - 0.5 * (d - 1) * x[0] - 0.5 * jnp.exp(-x[0]) * jnp.sum(x[1:] ** 2)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        v = sd * rng.normal(size=(n, 1))
        return np.concatenate([v, np.exp(v / 2) * rng.normal(size=(n, d - 1))], axis=1)

    return Model(sc.from_jax(log_density, d), sample)


def multivariate_t(df: float, d: int) -> Model:
    """One t distribution in d dimensions."""
    target = sc.from_jax(lambda x: -0.5 * (df + d) * jnp.log1p(jnp.sum(x**2) / df), d)
    return Model(target, lambda n, rng: rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(df, (n, 1)) / df))


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
    return Model(target, lambda n, rng: rng.standard_t(df, size=(n, d)))


@model("log-gamma .3, d = 2", 0.3, 2)
@model("log-gamma 2, d = 2", 2.0, 2)
def log_gamma(shape: float, d: int) -> Model:
    """Logarithms of gamma variables."""
    target = sc.from_jax(lambda x: jnp.sum(shape * x - jnp.exp(x)), d)
    return Model(target, lambda n, rng: np.log(rng.gamma(shape, size=(n, d)).clip(1e-300)))


@model("Gumbel, d = 3")
def gumbel() -> Model:
    """Independent Gumbel variables."""
    target = sc.from_jax(lambda x: -jnp.sum(x + jnp.exp(-x)), 3)
    return Model(target, lambda n, rng: rng.gumbel(size=(n, 3)))


@model("logistic, d = 3")
def logistic() -> Model:
    """Independent logistic variables."""
    target = sc.from_jax(lambda x: -jnp.sum(x + 2 * jnp.log1p(jnp.exp(-x))), 3)
    return Model(target, lambda n, rng: rng.logistic(size=(n, 3)))


def autoregression(n_chains: int, length: int, d: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Stationary chains (chain, draw, d) of standard normal draws with autocorrelation rho."""
    noise = rng.normal(size=(n_chains, length, d))
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    for t in range(1, length):
        noise[:, t] += rho * noise[:, t - 1]
    return noise


@model("4 chains of a Gaussian, autocorrelation .8, d = 5")
def chains() -> Model:
    """Stationary autoregressions."""
    return Model(gaussian(5).target, lambda n, rng: autoregression(4, n // 4, 5, 0.8, rng))


@model("4 chains between two Gaussians, d = 2")
def switching_chains() -> Model:
    """Stationary autoregressions around a mean that changes sides once in ten draws."""
    target = mixture(6.0, (0.5, 0.5), 2)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        x = autoregression(4, n // 4, 2, 0.8, rng)
        changes = rng.random(x.shape[:2]) < 0.1
        changes[:, 0] = rng.random(4) < 0.5
        x[..., 0] += 6.0 * (np.cumsum(changes, axis=1) % 2)
        return x

    return Model(target, sample)


def _drawn(weights: Any, shift: float) -> Sampler:
    source = mixture(6.0, (0.5, 0.5), 1).sample
    return lambda n, rng: source(n, rng, weights=weights) + shift


@model("power: left component only", (1.0, 0.0), 0.0)
@model("power: weight .4", (0.4, 0.6), 0.0)
@model("power: weight .3", (0.3, 0.7), 0.0)
@model("power: shift .3", (0.5, 0.5), 0.3)
def wrong_mixture(weights: Any, shift: float) -> Model:
    """Wrong draws of two Gaussians 6 apart."""
    return Model(mixture(6.0, (0.5, 0.5), 1), _drawn(weights, shift))
