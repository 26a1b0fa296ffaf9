"""Densities with known or countable modes on which the mode search is judged, each with draws of one mode.

`TARGETS` maps a name (its last number is the dimension, where there is one) to a function without arguments
that builds a `Case`. Where the modes are not known in closed form, the truth is the union of all that any run
finds; `expected` says how many copies the symmetries of the model imply at least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

import steincheck as sc

from . import targets

N_HELD = 50  # held-out draws of one mode, all that the search is given


@dataclass(frozen=True, eq=False)
class Case:
    """A target, draws of one of its modes, and what is known of the others."""

    target: sc.Target
    draws: np.ndarray
    locations: np.ndarray | None = None  #: of all modes, where they are known
    weights: np.ndarray | None = None
    expected: int = 1  #: at least so many modes of weight above 1/1000
    tolerance: Any = 0.5  #: how far from its location a known mode may be found, per mode
    sample: targets.Sampler | None = None  #: exact draws of the whole density


TARGETS: dict[str, Callable[[], Case]] = {}
case = targets.registered_in(TARGETS)


def gaussians(means: Any, sds: Any, weights: Any = None, home: int = 0) -> Case:
    """Round Gaussians, draws of number `home`."""
    means = np.asarray(means, dtype=float)
    sds = np.broadcast_to(np.asarray(sds, dtype=float), (len(means),))
    shares = np.full(len(means), 1 / len(means)) if weights is None else np.asarray(weights, dtype=float)
    d = means.shape[1]
    heights = np.log(shares) - d * np.log(sds)

    def log_density(x: Any) -> Any:
        return logsumexp(heights - 0.5 * jnp.sum((x - means) ** 2, axis=1) / sds**2)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        k = rng.choice(len(means), size=n, p=shares)
        return means[k] + sds[k, None] * rng.standard_normal((n, d))

    draws = means[home] + sds[home] * np.random.default_rng(1).standard_normal((N_HELD, d))
    return Case(sc.from_jax(log_density, d), draws, means, shares, len(means), 0.5 * sds, sample)


def metropolis(target: sc.Target, start: Any, scale: Any) -> np.ndarray:
    """Draws near one mode: random-walk Metropolis from `start`, in parallel, its scale adapted at first."""
    rng = np.random.default_rng(2)
    x = np.repeat(np.asarray(start, dtype=float)[None], 200, axis=0)
    shape = np.diag(np.broadcast_to(np.asarray(scale, dtype=float), x.shape[1:]))
    size = 2.4 / np.sqrt(x.shape[1])

    def log_density(points: np.ndarray) -> np.ndarray:
        return np.nan_to_num(target.log_density(points), nan=-np.inf)

    def propose(points: np.ndarray) -> np.ndarray:
        scales = size * rng.choice([0.1, 0.5, 1.0], size=(len(points), 1))
        return points + scales * (rng.standard_normal(points.shape) @ shape.T)

    for length in (50, 50, 100, 200):
        x = targets.metropolis(x, log_density, propose, length, rng)[:, -1]
        if len(np.unique(x[:, 0])) > 20:
            shape = np.linalg.cholesky(np.cov(x.T).reshape(len(shape), -1) + 1e-12 * np.eye(len(shape)))
    return x[rng.permutation(len(x))[:N_HELD]]


def posterior(
    log_density: Callable[[Any], Any], start: Any, scale: Any = 0.1, *, expected: int = 1, names: Any = None
) -> Case:
    """A posterior whose modes are counted by union; draws of the mode near `start`."""
    start = np.asarray(start, dtype=float)
    target = sc.from_jax(log_density, len(start), names=names)
    # From the start to its mode first: few random-walk steps would stay on the way.
    near = sc.box_search(target, starts=start[None], rng=0)
    return Case(target, metropolis(target, near.locations[0], scale), expected=expected)


@case("two_1_50", 1, 50.0)
@case("two_1_200", 1, 200.0)
@case("two_10_30", 10, 30.0)
@case("two_50_30", 50, 30.0)
@case("two_100_20", 100, 20.0)
def two(d: int, distance: float) -> Case:
    """Two equal Gaussians."""
    way = np.random.default_rng(0).standard_normal(d)
    return gaussians([np.zeros(d), distance * way / np.linalg.norm(way)], 1.0)


@case("narrow_1", 1, 1e-3, 0)
@case("narrow_2", 2, 1e-3, 0)
@case("narrow_5_.1", 5, 0.1, 0)
@case("fromnarrow_2", 2, 1e-3, 1)
@case("fromnarrow_10", 10, 1e-3, 1)
def narrow(d: int, rho: float, home: int) -> Case:
    """A wide Gaussian and a narrow one of equal mass, 10 apart."""
    return gaussians([np.zeros(d), np.full(d, 10 / np.sqrt(d))], [1.0, rho], home=home)


@case("widths_5")
def widths() -> Case:
    """Four Gaussians of four widths and equal mass."""
    means = 12 * np.random.default_rng(3).standard_normal((4, 5))
    return gaussians(means, [1.0, 3.0, 0.5, 0.2])


@case("weights_10")
def unequal_weights() -> Case:
    """Six Gaussians whose weights fall by a factor of 2 each."""
    weights = 0.5 ** np.arange(6)
    means = 8 * np.random.default_rng(4).standard_normal((6, 10))
    return gaussians(means, 1.0, weights / weights.sum())


def t_banana(d: int, home: int) -> Case:
    """The paper's mixture; draws of one component."""
    target = sc.models.t_banana_mixture(d, rng=0)
    tops = np.random.default_rng(0).uniform(-20, 20, size=(20, d))
    tops[10:, 1] -= 0.003 * (tops[10:, 0] ** 2 - 100)
    draws = target.sample(N_HELD, 1, weights=np.eye(20)[home])
    return Case(target, draws, tops, np.full(20, 0.05), 20, 2.0, target.sample)


case("tbanana_10", 10, 0)(t_banana)
case("tbanana_50", 50, 0)(t_banana)
case("tbananaW_50", 50, 15)(t_banana)


@case("rbm_50")
def rbm() -> Case:
    """32 corners of a cube in the first five of 50 coordinates."""
    target = sc.models.gb_rbm(6 * np.eye(50, 5))
    corners = 3.0 * np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1).T
    means = np.pad(corners, ((0, 0), (0, 45)))
    draws = means[0] + np.random.default_rng(1).standard_normal((N_HELD, 50))
    return Case(target, draws, means, np.full(32, 1 / 32), 32)


@case("sensor_8")
def sensors() -> Case:
    """The sensor network; draws of one of its eight modes."""
    target = sc.models.sensor_network()
    x, label = target.sample_with_labels(4000, 1)
    return Case(target, x[label == np.bincount(label).argmax()][:N_HELD], expected=8)


def mixture_posterior(k: int, order: Any = None, units: Any = None) -> Case:
    """Means, log standard deviations and logits of k components: k! copies of every mode; d = 3k - 1."""
    d = 3 * k - 1
    centres = 5.0 * np.arange(k) - 2.5 * (k - 1)
    rng = np.random.default_rng(5)
    y = rng.choice(centres, size=40 * k) + rng.standard_normal(40 * k)
    order = np.arange(d) if order is None else order
    units = np.ones(d) if units is None else units

    def log_density(x: Any) -> Any:
        x = (x / units)[np.argsort(order)]
        mean, log_sd = x[:k], x[k : 2 * k]
        logits = jnp.append(x[2 * k :], 0.0)
        z = (y[:, None] - mean) * jnp.exp(-log_sd)
        likelihood = logsumexp(jax.nn.log_softmax(logits) - 0.5 * z**2 - log_sd, axis=1)
        # Normal priors on symmetric contrasts: the density is the same under any order of the labels.
        prior = jnp.sum(mean**2) / 100 + jnp.sum(log_sd**2) + jnp.sum((logits - jnp.mean(logits)) ** 2)
        return jnp.sum(likelihood) - 0.5 * prior

    start = np.concatenate([centres, np.zeros(2 * k - 1)])[order] * units
    return posterior(log_density, start, 0.05 * units, expected=factorial(k))


case("mix2_5", 2)(mixture_posterior)
case("mix3_8", 3)(mixture_posterior)
case("mix4_11", 4)(mixture_posterior)
case("lab6_17", 6)(mixture_posterior)
case("units_8", 3, np.array([5, 2, 7, 0, 3, 1, 6, 4]), 10.0 ** np.linspace(-4, 4, 8))(mixture_posterior)


@case("mreg_6")
def mixture_of_regressions() -> Case:
    """Two lines: intercepts, slopes, log standard deviations."""
    rng = np.random.default_rng(6)
    t = rng.uniform(-2, 2, size=80)
    first = rng.random(80) < 0.5
    y = np.where(first, 1 + 2 * t, -1 - t) + 0.4 * rng.standard_normal(80)

    def log_density(x: Any) -> Any:
        a, b, log_sd = x[:2], x[2:4], x[4:]
        z = (y[:, None] - a - b * t[:, None]) * jnp.exp(-log_sd)
        return jnp.sum(logsumexp(-0.5 * z**2 - log_sd, axis=1)) - 0.5 * jnp.sum(x**2) / 25

    return posterior(log_density, [1.0, -1, 2, -1, -1, -1], 0.05, expected=2)


def factor_model(n_factors: int) -> Case:
    """Loadings of Gaussian factors with known noise: any factor may change its sign."""
    p = 6 if n_factors == 1 else 5
    rng = np.random.default_rng(7)
    mask = np.tril(np.ones((p, n_factors))).astype(bool) if n_factors > 1 else np.ones((p, 1), bool)
    true = np.where(mask, rng.uniform(0.5, 1.5, size=(p, n_factors)), 0.0)
    y = rng.standard_normal((100, n_factors)) @ true.T + 0.7 * rng.standard_normal((100, p))
    data = np.linalg.cholesky(y.T @ y).T  # p rows with the same second moments
    rows, columns = np.nonzero(mask)

    def log_density(x: Any) -> Any:
        loading = jnp.zeros((p, n_factors)).at[rows, columns].set(x)
        root = jnp.linalg.cholesky(loading @ loading.T + 0.49 * jnp.eye(p))
        z = jax.scipy.linalg.solve_triangular(root, data.T, lower=True)
        return -100 * jnp.sum(jnp.log(jnp.diag(root))) - 0.5 * jnp.sum(z**2) - 0.5 * jnp.sum(x**2) / 4

    return posterior(log_density, true[rows, columns], 0.05, expected=2**n_factors)


case("factor_6", 1)(factor_model)
case("factor2_9", 2)(factor_model)


@case("ica_9")
def ica() -> Case:
    """An unmixing matrix: rows in any order, with any sign, 3! 2^3 = 48 copies."""
    rng = np.random.default_rng(8)
    mixing = np.array([[1.0, 0.3, -0.2], [0.2, 1.0, 0.4], [-0.3, 0.1, 1.0]])
    y = rng.laplace(size=(150, 3)) @ mixing.T

    def log_density(x: Any) -> Any:
        w = x.reshape(3, 3)
        source = y @ w.T
        likelihood = 150 * jnp.linalg.slogdet(w)[1] - 1.5 * jnp.sum(jnp.logaddexp(source, -source))
        return likelihood - 0.5 * x @ x / 9

    return posterior(log_density, np.linalg.inv(mixing).ravel(), 0.03, expected=48)


@case("freq_3")
def frequency() -> Case:
    """Amplitude, frequency, phase of a wave: the mirror image has the other signs."""
    rng = np.random.default_rng(9)
    t = np.linspace(0, 10, 60)
    y = 1.5 * np.sin(1.7 * t + 0.5) + 0.5 * rng.standard_normal(60)

    def log_density(x: Any) -> Any:
        fit = x[0] * jnp.sin(x[1] * t + x[2])
        return -2 * jnp.sum((y - fit) ** 2) - 0.5 * (x[0] ** 2 / 4 + x[1] ** 2 / 4 + x[2] ** 2)

    return posterior(log_density, [1.5, 1.7, 0.5], 0.05, expected=2)


def network(order: Any = None) -> Case:
    """Three hidden tanh units: 3! 2^3 = 48 copies of a mode."""
    rng = np.random.default_rng(10)
    t = np.linspace(-5, 5, 80)
    y = np.tanh(2 * t + 6) - 1.5 * np.tanh(2 * t) + 0.8 * np.tanh(2 * t - 6) + 0.1 * rng.standard_normal(80)
    order = np.arange(10) if order is None else order
    back = np.argsort(order)

    def log_density(x: Any) -> Any:
        x = x[back]
        fit = jnp.tanh(t[:, None] * x[:3] + x[3:6]) @ x[6:9] + x[9]
        return -0.5 * jnp.sum((y - fit) ** 2) / 0.1**2 - 0.5 * jnp.sum(x**2) / 16

    start = np.array([2, 2, 2, 6, 0, -6, 1, -1.5, 0.8, 0])[order]
    return posterior(log_density, start, 0.03, expected=48)


case("bnn_10")(network)
case("bnnperm_10", np.random.default_rng(11).permutation(10))(network)


@case("gp_3")
def gaussian_process() -> Case:
    """Logarithms of length scale, amplitude and noise; Cholesky fails far out, log p is NaN there."""
    rng = np.random.default_rng(15)
    t = np.linspace(0, 1, 15)
    y = 0.8 * np.sin(9 * t) + 0.6 * rng.standard_normal(15)
    squared = (t[:, None] - t) ** 2

    def log_density(x: Any) -> Any:
        kernel = jnp.exp(2 * x[1] - 0.5 * squared * jnp.exp(-2 * x[0])) + jnp.exp(2 * x[2]) * jnp.eye(15)
        root = jnp.linalg.cholesky(kernel)
        z = jax.scipy.linalg.solve_triangular(root, y, lower=True)
        prior = (x[0] + 1) ** 2 / 4 + x[1] ** 2 / 4 + (x[2] + 1) ** 2
        return -0.5 * z @ z - jnp.sum(jnp.log(jnp.diag(root))) - 0.5 * prior

    return posterior(log_density, [-2.0, 0.0, -1.0], 0.1)


@case("eggbox_2")
def eggbox() -> Case:
    """A Gaussian with a lattice of dents."""

    def log_density(x: Any) -> Any:
        return 2 * jnp.sum(jnp.cos(2 * x)) - 0.5 * jnp.sum(x**2) / 25

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        x = 5 * rng.standard_normal((20 * n, 2))  # about one in eleven is accepted
        accepted = np.log(rng.random(len(x))) < 2 * np.sum(np.cos(2 * x) - 1, axis=1)
        return x[accepted][:n]

    many = sample(100 * N_HELD, np.random.default_rng(1))
    centre = many[np.all(np.abs(many) < np.pi / 2, axis=1)][:N_HELD]  # a random walk would leave the dent
    return Case(sc.from_jax(log_density, 2), centre, expected=40, sample=sample)


@case("shekel_4")
def shekel() -> Case:
    """Shekel's function, one of whose five dents has nearly all of the mass."""
    centres = np.array([[4.0] * 4, [1.0] * 4, [8.0] * 4, [6.0] * 4, [3.0, 7, 3, 7]])
    widths = np.array([0.1, 0.2, 0.2, 0.4, 0.4])

    def log_density(x: Any) -> Any:
        return 4 * jnp.sum(1 / (jnp.sum((x - centres) ** 2, axis=1) + widths)) - 0.01 * jnp.sum((x - 5) ** 2)

    return posterior(log_density, [4.0] * 4, 0.1)


@case("ring_2")
def ring() -> Case:
    """A ring with two tops."""

    def log_density(x: Any) -> Any:
        r = jnp.sqrt(x @ x + 1e-12)
        return -0.5 * ((r - 5) / 0.3) ** 2 + 0.3 * (x[0] ** 2 - x[1] ** 2) / 25

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        r = 5 + 0.3 * rng.standard_normal(8 * n)
        angle = rng.uniform(-np.pi, np.pi, size=8 * n)
        tilt = 0.3 * (r / 5) ** 2 * np.cos(2 * angle)
        x = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
        return x[rng.random(8 * n) * 10 * np.exp(0.6) < r * np.exp(tilt)][:n]

    many = sample(4 * N_HELD, np.random.default_rng(1))
    right = many[many[:, 0] > 0][:N_HELD]  # a random walk would go round the ring
    return Case(sc.from_jax(log_density, 2), right, expected=2, sample=sample)


@case("phi4_32")
def phi4() -> Case:
    """A chain of coupled double wells: all up or all down."""

    def log_density(x: Any) -> Any:
        return -jnp.sum(0.25 * (x**2 - 1) ** 2) * 4 - jnp.sum((x - jnp.roll(x, 1)) ** 2) * 20

    return posterior(log_density, np.ones(32), 0.1, expected=2)


@case("illcond_20")
def ill_conditioned() -> Case:
    """Two Gaussians with standard deviations from 1e-3 to 1e3, turned."""
    rng = np.random.default_rng(12)
    turn = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    sd = 10 ** np.linspace(-3, 3, 20)
    gap = turn @ (sd * rng.standard_normal(20) * 3)

    def log_density(x: Any) -> Any:
        return jnp.logaddexp(*(-0.5 * jnp.sum((((x - m) @ turn) / sd) ** 2) for m in (np.zeros(20), gap)))

    draws = (sd * rng.standard_normal((N_HELD, 20))) @ turn.T
    reach = 0.5 * np.linalg.norm(gap)
    return Case(sc.from_jax(log_density, 20), draws, np.stack([np.zeros(20), gap]), np.full(2, 0.5), 2, reach)


@case("tmix_20")
def t_mixture() -> Case:
    """Five t distributions with 3 degrees of freedom."""
    means = 15 * np.random.default_rng(13).standard_normal((5, 20))

    def log_density(x: Any) -> Any:
        return logsumexp(-11.5 * jnp.log1p(jnp.sum((x - means) ** 2, axis=1) / 3))

    noise = targets.multivariate_t(3, 20).sample

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        return noise(n, rng) + means[rng.integers(5, size=n)]

    draws = means[0] + noise(N_HELD, np.random.default_rng(1))
    return Case(sc.from_jax(log_density, 20), draws, means, np.full(5, 0.2), 5, sample=sample)


@case("mvmix_15")
def bivariate_mixture() -> Case:
    """Three bivariate components: means, log scales and unconstrained weights, 3! copies; d = 15."""
    rng = np.random.default_rng(14)
    centres = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 5.0]])
    y = centres[rng.integers(3, size=120)] + rng.standard_normal((120, 2))

    def log_density(x: Any) -> Any:
        parts = x.reshape(3, 5)
        mean, log_sd, logits = parts[:, :2], parts[:, 2:4], parts[:, 4]
        z = (y[:, None] - mean) * jnp.exp(-log_sd)
        terms = jax.nn.log_softmax(logits) - 0.5 * jnp.sum(z**2, axis=2) - jnp.sum(log_sd, axis=1)
        prior = jnp.sum(mean**2) / 25 + jnp.sum(parts[:, 2:] ** 2)
        return jnp.sum(logsumexp(terms, axis=1)) - 0.5 * prior

    start = np.concatenate([centres, np.zeros((3, 3))], axis=1).ravel()
    return posterior(log_density, start, 0.05, expected=6)


@case("gap_2")
def gap() -> Case:
    """A density that is 0 between its two modes."""

    def log_density(x: Any) -> Any:
        inside = jnp.abs(x[0] - 5) > 3
        two = jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 10) ** 2) - 0.5 * x[1] ** 2
        return jnp.where(inside, two, -jnp.inf)

    many = np.random.default_rng(1).standard_normal((4 * N_HELD, 2))
    draws = many[many[:, 0] < 2][:N_HELD]
    return Case(sc.from_jax(log_density, 2), draws, np.array([[0.0, 0], [10, 0]]), np.full(2, 0.5), 2)


@case("corr_20", targets.correlated, 20, 0.9)
@case("funnel_10", targets.funnel, 10, 3.0)
@case("t3_20", targets.multivariate_t, 3, 20)
@case("gauss_100", targets.gaussian, 100)
def one_mode(build: Callable[..., targets.Model], *arguments: Any) -> Case:
    """A density with one mode."""
    target, sample, modes = build(*arguments)
    draws = sample(N_HELD, np.random.default_rng(1))
    return Case(target, draws, modes, np.ones(1), 1, 2.0, sample)


@case("schools_10")
def eight_schools() -> Case:
    """Eight schools, not centred: mean, log scale, eight standardised effects."""
    y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    sigma = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def log_density(x: Any) -> Any:
        tau = jnp.exp(x[1])
        likelihood = jnp.sum(((y - x[0] - tau * x[2:]) / sigma) ** 2)
        prior = (x[0] / 5) ** 2 + jnp.sum(x[2:] ** 2)
        return -0.5 * likelihood - 0.5 * prior + x[1] - jnp.log1p((tau / 5) ** 2)

    return posterior(log_density, [5.0, 1.0] + [0.0] * 8, 0.5)
