"""Published posteriors that can be sampled exactly: eight schools, batting averages, stack loss.

Coordinates are unconstrained: a standard deviation enters by its logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate

Sampler = Callable[[int, np.random.Generator], np.ndarray]

#: Rubin (1981): effects of coaching in eight schools and their standard errors
SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SCHOOL_ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
#: Efron and Morris (1975): hits of 18 players in their first 45 times at bat
HITS = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])
#: Brownlee (1965): air flow, water temperature, acid concentration, stack loss on 21 days
STACK_LOSS = np.array(
    [
        [80, 27, 89, 42], [80, 27, 88, 37], [75, 25, 90, 37], [62, 24, 87, 28], [62, 22, 87, 18],
        [62, 23, 87, 18], [62, 24, 93, 19], [62, 24, 93, 20], [58, 23, 87, 15], [58, 18, 80, 14],
        [58, 18, 89, 14], [58, 17, 88, 13], [58, 18, 82, 11], [58, 19, 93, 12], [50, 18, 89, 8],
        [50, 18, 86, 7], [50, 19, 72, 8], [50, 19, 79, 8], [50, 20, 80, 9], [56, 20, 82, 15],
        [70, 20, 91, 15],
    ],
    dtype=float,
)  # fmt: skip


def hierarchical(effects: np.ndarray, errors: np.ndarray, scale: float) -> tuple[Any, int, Sampler]:
    """y_j ~ N(mu + tau eta_j, errors_j^2), eta_j ~ N(0, 1), mu ~ N(0, scale^2), tau half-normal with scale.

    Coordinates mu, log tau, eta. Exact draws: tau from its marginal by quadrature, then mu, then eta.
    """
    import jax.numpy as jnp

    def log_density(x: Any) -> Any:
        mu, log_tau, eta = x[0], x[1], x[2:]
        prior = -0.5 * (mu / scale) ** 2 - 0.5 * (jnp.exp(log_tau) / scale) ** 2 + log_tau
        residuals = (effects - mu - jnp.exp(log_tau) * eta) / errors
        return prior - 0.5 * jnp.sum(eta**2) - 0.5 * jnp.sum(residuals**2)

    def mean_and_precision(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of mu given tau and the data."""
        weights = 1 / (errors**2 + tau[:, None] ** 2)
        precision = weights.sum(axis=1) + scale**-2
        return weights @ effects / precision, precision

    grid = np.linspace(np.log(scale) - 16, np.log(scale) + 3, 40_001)  # of log tau
    tau = np.exp(grid)
    centre, precision = mean_and_precision(tau)
    variances = errors**2 + tau[:, None] ** 2
    fit = -0.5 * np.sum(np.log(variances) + effects**2 / variances, axis=1)
    height = fit + 0.5 * centre**2 * precision - 0.5 * np.log(precision) - 0.5 * (tau / scale) ** 2 + grid
    mass = integrate.cumulative_trapezoid(np.exp(height - height.max()), grid, initial=0)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        log_tau = np.interp(rng.random(n) * mass[-1], mass, grid)
        spread = np.exp(log_tau)
        centre, precision = mean_and_precision(spread)
        mu = centre + rng.normal(size=n) / np.sqrt(precision)
        shrunk = 1 + (spread[:, None] / errors) ** 2
        eta = spread[:, None] * (effects - mu[:, None]) / errors**2 / shrunk
        eta = eta + rng.normal(size=eta.shape) / np.sqrt(shrunk)
        return np.column_stack([mu, log_tau, eta])

    return log_density, 2 + len(effects), sample


def regression(table: np.ndarray) -> tuple[Any, int, Sampler]:
    """Linear regression of the last column, p(beta, sigma) = 1 / sigma; coordinates beta and log sigma.

    Exact draws: sigma^2 is scaled inverse chi-squared, beta given sigma Gaussian.
    """
    import jax.numpy as jnp

    design = np.column_stack([np.ones(len(table)), table[:, :-1] - table[:, :-1].mean(axis=0)])
    outcome = table[:, -1]
    n_rows, p = design.shape
    root = np.linalg.cholesky(np.linalg.inv(design.T @ design))
    beta_hat = np.linalg.lstsq(design, outcome)[0]
    squares = np.sum((outcome - design @ beta_hat) ** 2)

    def log_density(x: Any) -> Any:
        residuals = outcome - design @ x[:p]
        return -n_rows * x[p] - 0.5 * jnp.sum(residuals**2) * jnp.exp(-2 * x[p])

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        sigma = np.sqrt(squares / rng.chisquare(n_rows - p, size=n))
        beta = beta_hat + sigma[:, None] * (rng.normal(size=(n, p)) @ root.T)
        return np.column_stack([beta, np.log(sigma)])

    return log_density, p + 1, sample


def published(name: str) -> tuple[Any, int, Sampler]:
    """Log density of one point, dimension and exact sampler of a posterior by name."""
    if name == "eight schools":
        return hierarchical(SCHOOLS, SCHOOL_ERRORS, 5.0)
    if name == "batting averages":
        turned = np.sqrt(45) * np.arcsin(2 * HITS / 45 - 1)
        return hierarchical(turned - turned.mean(), np.ones(len(HITS)), 2.0)
    if name == "stack loss":
        return regression(STACK_LOSS)
    raise ValueError(f"name must be eight schools, batting averages or stack loss, got {name!r}")
