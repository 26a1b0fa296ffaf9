"""The finite-set Stein discrepancy: a test linear in n that says where the misfit is."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._validation import as_numbers, as_positive, check_count
from .result import GofResult, note
from .stein.bootstrap import pvalue
from .stein.kernels import median_bandwidth
from .stein.quadratic import Prepared, prepare, split
from .target import Target, score_at

ROWS = 2048  # draws in a chunk: the only shape compiled, whatever n
REGULARISATION = 1e-2  # in the power criterion, as in the reference implementation
SEEN = 1e-12  # largest eigenvalue times width below which no location sees a draw
SEEN_IN_TRAINING = 1e-6  # share of what the start sees below which the locations found are not taken
REACH = 30.0  # locations stay within so many standard deviations of the training draws
ITERATIONS = 200


def fssd_test(
    x: Any,
    target: Target,
    *,
    n_locations: int = 10,
    train_fraction: float = 0.2,
    optimise: bool = True,
    locations: Any = None,
    width: float | None = None,
    n_resamples: int = 3000,
    check_score: bool = True,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """Finite-set Stein discrepancy test (FSSD-opt).

    H0: the draws are independent and come from the target. With the Gaussian kernel
    k(x, v) = exp(-|x-v|^2 / (2 width)) and J locations v_j, the features

        tau(x) = (s(x) k(x, v_j) + grad_x k(x, v_j)) / sqrt(d J),    d J numbers a draw,

    have mean zero under H0. The statistic is n times the unbiased estimate of |E tau|^2; its null law is
    sum_i w_i (Z_i^2 - 1) with w the eigenvalues of the covariance of tau, and is simulated. Locations and
    width maximise the estimated power on a training split; the test uses the other draws. Linear in n.

    Parameters
    ----------
    x, target, check_score, rng
        As in `ksd_test`.
    n_locations : int
        J, if `locations` are not given.
    train_fraction : float
        Share of the draws used to place the locations, in (0, 1).
    optimise : bool
        Maximise the power criterion; otherwise locations are drawn from a Gaussian fitted to the training
        draws and the width is half of their median squared distance.
    locations : array (J, d), optional
        Locations of your own: nothing is trained and all draws are tested.
    width : float, optional
        Squared width of the kernel to go with `locations`; by default half of the median squared distance of
        the draws.
    n_resamples : int
        Simulated values of the null law.

    Returns
    -------
    GofResult
        With `locations` (J, d), `width`, `contributions` (J,) of the locations to the statistic (large: the
        misfit is there), `eigenvalues`, `power_criterion` on the tested draws and `n_test`.

    References
    ----------
    Jitkrittum, Xu, Szabo, Fukumizu and Gretton (2017).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    >>> draws = np.random.default_rng(0).normal(loc=0.5, size=(1000, 2))
    >>> sc.fssd_test(draws, target, rng=0).reject()
    True
    """
    ready = prepare(x, target, None, n_resamples, check_score, rng)
    if locations is not None:
        test = ready.x
        places, scale = _given(locations, width, ready)
    else:
        if width is not None:
            raise ValueError(
                "`width` goes with `locations`; without them both are found on the training draws"
            )
        train, test = _split(ready, n_locations, train_fraction)
        places, scale = _start(train, n_locations, ready)
        if optimise:
            places, scale = _optimise(train, score_at(target, train), places, scale)
    total, square, second = feature_moments(test, target, places, scale)
    n = len(test)
    mean = total / n
    values = np.linalg.eigvalsh((second / n - np.outer(mean, mean)) * (n / (n - 1)))
    values = np.clip(values[::-1], 0.0, None)
    unbiased = n / (n - 1) * (mean**2 - square / n**2)  # feature by feature; square is the sum of tau^2
    statistic = float(n * unbiased.sum())
    null = _simulate(values, n_resamples, ready.streams[1])
    p = pvalue(statistic, null)
    # free of units: tau^2 is of the order of 1/width where the kernel sees draws
    if values[0] * scale < SEEN:
        p = np.nan
        note(ready.warnings, "cannot tell: all locations are too far from the draws to see any of them")
    return GofResult(
        "FSSD test", statistic, p, null, len(ready.x), target.dim,
        tuple(ready.warnings),
        {
            "n_locations": len(places), "train_fraction": None if locations is not None else train_fraction,
            "optimise": optimise and locations is None, "n_resamples": n_resamples,
            "rng": rng if isinstance(rng, (int, np.integer)) else None,
        },
        {
            "locations": places, "width": scale, "eigenvalues": values, "n_test": n,
            "contributions": n * unbiased.reshape(target.dim, len(places)).sum(axis=0),
            "power_criterion": float(_criterion(mean @ mean, square.sum() / n, mean @ second @ mean / n, n)),
        },
    )  # fmt: skip


def feature_moments(
    x: np.ndarray, target: Target, locations: np.ndarray, width: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum of tau, of tau^2 and of tau tau' over the draws, features in the order (coordinate, location)."""
    total: Any = 0.0
    second: Any = 0.0
    for start in range(0, len(x), ROWS):
        block = x[start : start + ROWS]
        padded, present = _pad(block, ROWS)
        scores = _pad(score_at(target, block), ROWS)[0]
        with jax.enable_x64(True):
            first, outer = _block_moments(padded, scores, present, locations, width)
            total, second = total + np.asarray(first), second + np.asarray(outer)
    return total, np.diag(second), second


def _pad(block: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """`block` filled up to `size` rows, and which of them are draws."""
    missing = size - len(block)
    present = np.concatenate([np.ones(len(block)), np.zeros(missing)])
    return np.concatenate([block, np.zeros((missing, block.shape[1]))]), present


def features(x: Any, scores: Any, locations: Any, width: Any) -> Any:
    """tau (n, d, J) at the rows of x (n, d)."""
    j, d = locations.shape
    gap = x[:, :, None] - locations.T
    k = jnp.exp(-0.5 * jnp.sum(gap**2, axis=1, keepdims=True) / width)
    return (scores[:, :, None] - gap / width) * k / jnp.sqrt(d * j)


@jax.jit
def _block_moments(x: Any, scores: Any, present: Any, locations: Any, width: Any) -> tuple[Any, Any]:
    tau = features(x, scores, locations, width).reshape(len(x), -1) * present[:, None]
    return tau.sum(axis=0), tau.T @ tau


def _criterion(norm: Any, square: Any, along: Any, n: Any) -> Any:
    """Estimated mean over standard deviation of the statistic under H1.

    `norm` is |m|^2, `square` the mean of |tau|^2, `along` the mean of (tau.m)^2, m the mean of tau.
    """
    return (n * norm - square) / (n - 1) / (4 * along - 4 * norm**2 + REGULARISATION) ** 0.5


@partial(jax.jit, static_argnames="shape")
def _negative_criterion(parameters: Any, x: Any, scores: Any, present: Any, *, shape: tuple[int, int]) -> Any:
    locations, width = parameters[:-1].reshape(shape), jnp.exp(parameters[-1])
    tau = features(x, scores, locations, width).reshape(len(x), -1) * present[:, None]
    n = present.sum()
    mean = tau.sum(axis=0) / n
    return -_criterion(jnp.sum(mean**2), jnp.sum(tau**2) / n, jnp.sum((tau @ mean) ** 2) / n, n)


_slope = jax.jit(jax.value_and_grad(_negative_criterion), static_argnames="shape")


def _optimise(
    x: np.ndarray, scores: np.ndarray, locations: np.ndarray, width: float
) -> tuple[np.ndarray, float]:
    """Locations and width of the largest power criterion on the training draws (L-BFGS), if of any use."""
    from scipy.optimize import minimize

    size = max(256, 2 ** (len(x) - 1).bit_length())  # few shapes to compile: one every doubling of n
    padded, present = _pad(x, size)
    scores = _pad(scores, size)[0]
    spread = np.maximum(x.std(axis=0), 1e-12)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        with jax.enable_x64(True):
            value, slope = _slope(parameters * scale + shift, padded, scores, present, shape=locations.shape)
            return float(value), np.asarray(slope, dtype=float) * scale

    # the optimiser works on coordinates in units of the spread of the draws
    scale = np.append(np.tile(spread, len(locations)), 1.0)
    shift = np.append(np.tile(x.mean(axis=0), len(locations)), np.log(width))
    start = (np.append(locations.ravel(), np.log(width)) - shift) / scale
    bounds = [(-REACH, REACH)] * locations.size + [(-np.log(1e4), np.log(1e4))]
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": ITERATIONS}
    )
    best = found.x * scale + shift
    places, narrow = best[:-1].reshape(locations.shape), float(np.exp(best[-1]))

    def seen(v: np.ndarray, w: float) -> float:
        with jax.enable_x64(True):
            return float(np.trace(_block_moments(padded, scores, present, v, w)[1])) * w  # free of units

    # where nothing is wrong the criterion is largest, zero, far from all draws, where nothing can be tested
    if found.fun >= 0 or seen(places, narrow) < SEEN_IN_TRAINING * seen(locations, width):
        return locations, width
    return places, narrow


def _simulate(values: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of sum_i w_i (Z_i^2 - 1)."""
    rows = max(1, 2**22 // len(values))
    parts = [
        (rng.standard_normal((min(rows, size - start), len(values))) ** 2 - 1) @ values
        for start in range(0, size, rows)
    ]
    return np.concatenate(parts)


def _given(locations: Any, width: Any, ready: Prepared) -> tuple[np.ndarray, float]:
    places = as_numbers(locations, "locations", "an array of numbers with one location a row")
    dim = ready.x.shape[1]
    if places.ndim != 2 or places.shape[1] != dim or not len(places) or not np.isfinite(places).all():
        raise ValueError(f"`locations` must be finite with shape (J, {dim}), got shape {places.shape}")
    if width is None:
        return places, 0.5 * median_bandwidth(ready.x, rng=ready.streams[0])
    if np.ndim(width):
        raise ValueError(f"`width` must be one number, got shape {np.shape(width)}")
    return places, float(as_positive(width, "width")[0])


def _split(ready: Prepared, n_locations: Any, train_fraction: Any) -> tuple[np.ndarray, np.ndarray]:
    check_count(n_locations, "n_locations")
    train, test = split(ready, train_fraction)
    if n_locations > len(train):
        raise ValueError(
            f"`n_locations` must not exceed the training draws, got {n_locations} for {len(train)}; "
            "use fewer locations, more draws or a larger `train_fraction`"
        )
    return train, test


def _start(train: np.ndarray, n_locations: int, ready: Prepared) -> tuple[np.ndarray, float]:
    """Locations drawn from a Gaussian fitted to the training draws; half of their median squared distance."""
    noise = ready.streams[5].standard_normal((n_locations, train.shape[1]))
    covariance = np.atleast_2d(np.cov(train.T)) + 1e-12 * np.eye(train.shape[1])
    values, vectors = np.linalg.eigh(covariance)
    places = train.mean(axis=0) + noise * np.sqrt(np.clip(values, 0, None)) @ vectors.T
    return places, 0.5 * median_bandwidth(train, rng=ready.streams[0])
