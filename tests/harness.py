"""What tests share: bounds for level, power and coverage, targets, and samplers."""

import functools
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from scipy import signal, stats

import steincheck as sc

REFERENCE = Path(__file__).parent / "reference"

# --- level and power ---

FALSE_ALARM = 1e-4  # of a bar on correct code, over all seeds


def count_rejections(pvalues, alpha):
    """How many p-values are at most `alpha`, or how many decisions are rejections."""
    pvalues = np.asarray(pvalues)
    if pvalues.dtype == bool:
        return int(pvalues.sum())
    assert not np.isnan(pvalues).any(), f"{np.isnan(pvalues).sum()} of {len(pvalues)} p-values are NaN"
    return int(np.sum(pvalues <= alpha))


def assert_level(pvalues, alpha=0.05, *, slack=0.0, exact=False):
    """As many p-values at or below `alpha` as a test that keeps its level may have.

    Parameters
    ----------
    pvalues : array (n,)
        Of independent correct samples; or, as booleans, whether they were rejected.
    alpha : float or sequence of them
    slack : float
        Added to each `alpha`, for a test that keeps its level asymptotically only; say why beside it.
    exact : bool
        The test has the level `alpha`: too few rejections are a fault too.
    """
    n = len(pvalues)
    tail = FALSE_ALARM / (2 if exact else 1)
    for level in np.atleast_1d(alpha):
        rejected = count_rejections(pvalues, level)
        low = int(stats.binom.ppf(tail, n, level)) if exact else 0
        high = int(stats.binom.ppf(1 - tail, n, level + slack))
        assert low <= rejected <= high, (
            f"{rejected} of {n} correct samples rejected at level {level}: {low} to {high} may be"
        )


def assert_uniform(pvalues):
    """P-values of a test that is exact at every level, by Kolmogorov's test."""
    found = stats.kstest(pvalues, "uniform")
    assert found.pvalue > FALSE_ALARM, f"{len(pvalues)} p-values are not uniform: {found}"


def assert_power(pvalues, at_least, alpha=0.05):
    """At least the share `at_least` of wrong samples is rejected at level `alpha`."""
    rejected = count_rejections(pvalues, alpha)
    least = int(np.ceil(at_least * len(pvalues) - 1e-9))
    assert rejected >= least, (
        f"{rejected} of {len(pvalues)} wrong samples rejected at level {alpha}: {least} must be"
    )


def assert_coverage(hits, n, at_least):
    """Of `n` intervals so many cover the truth as where each does with probability `at_least`."""
    least = int(stats.binom.ppf(FALSE_ALARM, n, at_least))
    assert np.all(np.asarray(hits) >= least), f"{hits} of {n} intervals cover: {least} must"


# --- Markov chains ---


def autoregressive(noise, correlation):
    """Stationary AR(1) series with standard normal distribution, driven by `noise` along its first axis."""
    steps = np.sqrt(1 - correlation**2) * np.asarray(noise)
    steps[0] = noise[0]
    return signal.lfilter([1.0], [1.0, -correlation], steps, axis=0)


def ar1_chains(rng, n_chains, length, dim, correlation):
    """Stationary AR(1) chains of the standard normal distribution, (chain, draw, coordinate)."""
    return autoregressive(rng.normal(size=(length, n_chains, dim)), correlation).swapaxes(0, 1)


def labelled_chains(rng, n_chains, length, dim, correlation):
    """AR(1) chains one below the other, (n_chains * length, dim), and the chain of each draw."""
    x = ar1_chains(rng, n_chains, length, dim, correlation)
    return x.reshape(-1, dim), np.repeat(np.arange(n_chains), length)


# --- targets and their draws ---


def normal_log_density(x):
    """Log density of the standard normal distribution up to a constant."""
    return -0.5 * np.sum(x**2, axis=1)


def standard_normal(dim, **options):
    """The standard normal distribution as a plain NumPy target."""
    return sc.Target(normal_log_density, np.negative, dim=dim, **options)


@functools.cache
def jax_normal():
    """The standard normal distribution in two dimensions, compiled by JAX."""
    return sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), 2)


BIMODAL_MODES = (np.array([[0.0], [6.0]]), np.ones((2, 1, 1)))


@functools.cache
def bimodal():
    """The paper's opening example: two unit Gaussians six apart, equal weights."""
    return sc.from_jax(lambda x: jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 6) ** 2), dim=1)


def bimodal_draws(weight, n, rng):
    """Draws of `bimodal`, but with `weight` of the left component."""
    return np.where(rng.random((n, 1)) < weight, 0.0, 6.0) + rng.normal(size=(n, 1))


def noisy_rbm(noise, n, rng, dim=20, hidden=8):
    """The paper's standard Gaussian-Bernoulli RBM, and draws of one whose B has noise on it."""
    b_matrix, b, c = (
        rng.choice([-1.0, 1.0], size=(dim, hidden)),
        rng.normal(size=dim),
        rng.normal(size=hidden),
    )
    noisy = b_matrix + noise * rng.normal(size=b_matrix.shape)
    return sc.models.gb_rbm(b_matrix, b, c), sc.models.gb_rbm(noisy, b, c).sample(n, rng)


def mixture_log_density(means, covariances, weights):
    """NumPy log density of a Gaussian mixture, independent of the package."""
    parts = []
    for mean, covariance, weight in zip(means, covariances, weights, strict=True):
        z = np.linalg.inv(np.linalg.cholesky(covariance))
        constant = np.log(weight) - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
        parts.append((mean, z, constant))

    def log_density(x):
        terms = [c - 0.5 * np.sum(((x - m) @ z.T) ** 2, axis=1) for m, z, c in parts]
        return np.logaddexp.reduce(terms, axis=0)

    def score(x):
        terms = np.array([c - 0.5 * np.sum(((x - m) @ z.T) ** 2, axis=1) for m, z, c in parts])
        share = np.exp(terms - np.logaddexp.reduce(terms, axis=0))
        slopes = np.array([-(x - m) @ z.T @ z for m, z, c in parts])
        return np.einsum("kn,knd->nd", share, slopes)

    return log_density, score


def numpy_mixture(means, covariances=None, weights=None, *, score=True):
    """A Gaussian mixture as a plain NumPy target: no Hessian, so it is differenced."""
    means = np.asarray(means, dtype=float)
    d = means.shape[1]
    covariances = np.tile(np.eye(d), (len(means), 1, 1)) if covariances is None else covariances
    weights = np.full(len(means), 1 / len(means)) if weights is None else weights
    log_density, gradient = mixture_log_density(means, np.asarray(covariances, dtype=float), weights)
    return sc.Target(log_density, gradient if score else None, dim=d)


def mixture_draws(means, covariances, weights, n, rng):
    """Draws of a Gaussian mixture, independent of the package."""
    labels = rng.choice(len(weights), size=n, p=weights)
    roots = np.linalg.cholesky(np.asarray(covariances, dtype=float))
    noise = rng.normal(size=(n, np.shape(means)[1]))
    return np.asarray(means, dtype=float)[labels] + np.einsum("nij,nj->ni", roots[labels], noise)


def quiet_check(*arguments, **options):
    """`check` with seed 0, its warnings unheard."""
    with warnings.catch_warnings(action="ignore"):
        return sc.check(*arguments, rng=0, **options)


PLANE = (  # means, covariances and weights of a mixture
    [[-3.0, 0.0], [3.0, 1.0], [0.0, 5.0]],
    [[[1.0, 0.3], [0.3, 0.5]], [[0.4, -0.2], [-0.2, 2.0]], [[1.0, 0.0], [0.0, 1.0]]],
    [0.5, 0.3, 0.2],
)
CORRELATED = np.array([[1.0, 0.8, 0.3], [0.8, 2.0, 0.1], [0.3, 0.1, 0.5]])


def gaussian(covariance, names=None):
    """A Gaussian centred at 0 as a plain NumPy target."""
    precision = np.linalg.inv(covariance)
    return sc.Target(
        lambda x: -0.5 * np.einsum("ni,ij,nj->n", x, precision, x),
        lambda x: -x @ precision,
        dim=len(covariance),
        names=names,
    )


def gaussian_with_modes(covariance, names=None):
    """A Gaussian centred at 0, and its modes."""
    return gaussian(covariance, names), (np.zeros((1, len(covariance))), covariance[None])


def on_the_log_scale():
    """tau of a Gamma(3) and mu of a normal distribution; the coordinates are log tau and mu."""
    return sc.Target(
        lambda u: 3 * u[:, 0] - np.exp(u[:, 0]) - 0.5 * u[:, 1] ** 2,
        lambda u: np.stack([3 - np.exp(u[:, 0]), -u[:, 1]], axis=1),
        dim=2,
        names=["log tau", "mu"],
        constrained_names=["tau", "mu"],
        constrain=lambda u: np.stack([np.exp(u[:, 0]), u[:, 1]], axis=1),
        unconstrain=lambda x: np.stack([np.log(x[:, 0]), x[:, 1]], axis=1),
    )


def quiet_moment_test(x, target, modes, **options):
    """`moment_test` with seed 0, its warnings of far draws unheard."""
    with warnings.catch_warnings(action="ignore"):
        return sc.moment_test(x, target, modes=modes, rng=0, **options)


def find_feature(result, kind, parameters, basis="parameter", mode=None):
    """The one feature of a result of the moment test with this description."""
    found = [
        f
        for f in result.features
        if (f.kind, set(f.parameters), f.basis, f.mode) == (kind, set(parameters), basis, mode)
    ]
    assert len(found) == 1
    return found[0]
