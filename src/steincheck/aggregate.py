"""Aggregated tests: many bandwidths (and perturbations), calibrated together by the smallest p-value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._validation import as_generator, as_numbers, as_positive, check_count
from .modes.search import known_modes
from .perturbation import Accept, metropolis, note_moves, perturb
from .result import GofResult, check_level
from .stein.bootstrap import normaliser, wild
from .stein.kernels import IMQ, check_kernel, median_bandwidth
from .stein.quadratic import Prepared, note_resamples, prepare, whitened
from .stein.tiles import quadratic_forms
from .target import Target, score_at

FIRST = 500  # draws among which the largest distance of the default collection is taken
THETA = np.linspace(0.5, 1.5, 51)


class MinP(NamedTuple):
    """Outcome of the aggregation of K statistics."""

    pvalue: float
    pvalues: np.ndarray  #: (K,) of the single tests
    levels: np.ndarray  #: (K,) at which they are made, for the level asked for
    thresholds: np.ndarray  #: (K,) of the statistics at these levels
    null: np.ndarray  #: (B2,) minus the smallest weighted p-value of each level replicate


def ksdagg_test(
    x: Any,
    target: Target,
    *,
    bandwidths: Any = None,
    weights: Any = "uniform",
    kernel: Any = IMQ(),
    precondition: np.ndarray | None = None,
    n_resamples: int = 2000,
    n_level_resamples: int = 2000,
    alpha: float = 0.05,
    check_score: bool = True,
    n_jobs: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """KSD test aggregated over bandwidths (KSDAgg): no bandwidth to choose, no draws spent on choosing.

    H0: the draws are independent and come from the target. For each bandwidth the KSD statistic is compared
    with wild bootstrap replicates that share their signs; the test rejects if

        p_k <= u w_k  for some k,

    p_k the p-values of the single tests, w the weights, and u as large as a second set of replicates allows
    at the level. The p-value is the smallest level at which this rejects.

    Parameters
    ----------
    x, target, precondition, check_score, n_jobs, rng
        As in `ksd_test`.
    bandwidths : array, "paper" or None
        Bandwidths lambda in units of *squared* distance. By default ten, as in the reference implementation:
        b^2 for b from 1/d to the largest distance / d, evenly on the log scale; made for draws of unit scale,
        so give `precondition` for others. "paper": (median distance * 2^i)^2 for i = 0..10.
    weights : "uniform" or array
        Weights of the bandwidths; positive, with sum 1.
    kernel : IMQ, RBF or alike
        Its bandwidth is replaced by each of `bandwidths`.
    n_resamples, n_level_resamples : int
        Replicates for the single p-values, and for the level of the whole.
    alpha : float
        Level for which the thresholds in the result are given.

    Returns
    -------
    GofResult
        With `bandwidths`, `statistics`, `pvalues`, `levels` (largest p_k that reject at `alpha`) and
        `thresholds`. `statistic` is minus the smallest weighted p-value, `null_distribution` its replicates.

    References
    ----------
    Schrab, Guedj and Gretton (2022).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    >>> draws = np.random.default_rng(0).normal(scale=1.3, size=(500, 2))
    >>> sc.ksdagg_test(draws, target, rng=0).reject()
    True
    """
    ready = _prepare(x, target, kernel, precondition, n_resamples, n_level_resamples, alpha, check_score, rng)
    z = whitened(ready.x, ready.whiten)
    widths = collection(z, bandwidths, ready.streams[0])
    shares = _weights(weights, len(widths))
    signs = wild(len(z), n_resamples + n_level_resamples, ready.streams[1])
    statistics, replicates = _forms(ready, target, ready.x[None], kernel, widths, signs)
    outcome = min_p(statistics, replicates[:, :n_resamples], replicates[:, n_resamples:], shares, alpha)
    return _result(
        "KSDAgg test", ready, outcome, statistics, widths, shares, kernel, precondition, alpha,
        (n_resamples, n_level_resamples), rng, {},
    )  # fmt: skip


def pksdagg_test(
    x: Any,
    target: Target,
    *,
    bandwidths: Any = None,
    weights: Any = None,
    kernel: Any = IMQ(),
    precondition: np.ndarray | None = None,
    modes: Any = None,
    bounds: Any = None,
    theta: Any = THETA,
    n_steps: int = 10,
    accept: Accept = metropolis,
    n_resamples: int = 1000,
    n_level_resamples: int = 1000,
    alpha: float = 0.05,
    check_score: bool = True,
    n_jobs: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """Perturbed KSD test aggregated over bandwidths: no split of the draws, no theta or bandwidth to choose.

    H0: the draws are independent and come from the target. For every bandwidth there are two statistics: that
    of the draws as they are (the fit inside the modes), and the sum of those of the draws perturbed with each
    theta (the weights of the modes). All are calibrated together as in `ksdagg_test`, with the same signs.

    Parameters
    ----------
    x, target, kernel, precondition, n_resamples, n_level_resamples, alpha, check_score, rng
        As in `ksdagg_test`.
    bandwidths : array or None
        By default 1 and 4 times the median squared distance of the draws.
    weights : array, "uniform" or None
        Weights of the statistics: of the draws as they are by bandwidth, then of the perturbed ones. By
        default a quarter for the former and three quarters for the latter.
    modes, bounds, theta, n_steps, accept, n_jobs
        As in `spksd_test`.

    Returns
    -------
    GofResult
        As of `ksdagg_test`, statistics in the order of `weights`, and `modes`, `theta`, `acceptance`.
    """
    theta = as_positive(theta, "theta")
    check_count(n_steps, "n_steps")
    ready = _prepare(x, target, kernel, precondition, n_resamples, n_level_resamples, alpha, check_score, rng)
    z = whitened(ready.x, ready.whiten)
    if bandwidths is None:
        bandwidths = median_bandwidth(z, rng=ready.streams[0]) * np.array([1.0, 4.0])
    widths = collection(z, bandwidths, ready.streams[0])
    if weights is None:
        weights = np.repeat([0.25, 0.75], len(widths)) / len(widths)
    shares = _weights(weights, 2 * len(widths))
    found, _ = known_modes(
        modes, target, ready.x, bounds, in_box=True, rng=ready.streams[2], notes=ready.warnings
    )
    moved = perturb(ready.x, target, found, theta, n_steps=n_steps, accept=accept, rng=ready.streams[3])
    note_moves(moved, ready.warnings)
    signs = wild(len(z), n_resamples + n_level_resamples, ready.streams[1])
    parts = [_forms(ready, target, stack, kernel, widths, signs) for stack in (ready.x[None], moved.samples)]
    statistics, replicates = (np.concatenate(part) for part in zip(*parts, strict=True))
    outcome = min_p(statistics, replicates[:, :n_resamples], replicates[:, n_resamples:], shares, alpha)
    return _result(
        "pKSDAgg test", ready, outcome, statistics, np.tile(widths, 2), shares, kernel, precondition, alpha,
        (n_resamples, n_level_resamples), rng,
        {"modes": found, "theta": theta, "acceptance": moved.acceptance},
    )  # fmt: skip


def min_p(
    statistics: np.ndarray, first: np.ndarray, second: np.ndarray, weights: np.ndarray, alpha: float
) -> MinP:
    """Aggregate K tests by their smallest weighted p-value.

    Parameters
    ----------
    statistics : array (K,)
    first, second : arrays (K, B1), (K, B2)
        Replicates for the single p-values and for the level; column b of either is one bootstrap for all K.
    weights : array (K,)
        Positive, with sum 1.
    alpha : float
        Level of `levels` and `thresholds`.
    """
    size, level_size = first.shape[1] + 1, second.shape[1]
    ordered = np.sort(np.column_stack([first, statistics]), axis=1)
    # number of values of the first set, observed statistic included, that are at least as large
    own = np.array([size - np.searchsorted(row, t) for row, t in zip(ordered, statistics, strict=True)])
    theirs = np.stack([size - np.searchsorted(row, t) for row, t in zip(ordered, second, strict=True)])
    smallest = np.min(own / weights) / size
    null = np.min(theirs / weights[:, None], axis=0) / size
    count = int(np.sum(null <= smallest * (1 + 1e-12)))  # equal but for the rounding of weights is equal
    below = np.sort(null)
    allowed = int(np.floor(alpha * level_size + 1e-9))  # replicates that may reject
    u = min(below[allowed] if allowed < level_size else np.inf, 1 / weights.max())
    # largest number of values at or above a statistic with which its test rejects: less than u w size
    most = np.ceil(u * weights * size - 1e-9).astype(int) - 1
    thresholds = ordered[np.arange(len(ordered)), size - 1 - np.clip(most, 0, size - 1)]
    p = count / level_size if count else 1 / (level_size + 1)
    return MinP(p, own / size, most / size, thresholds, -null)


def collection(x: np.ndarray, bandwidths: Any, rng: np.random.Generator | int | None = None) -> np.ndarray:
    """Bandwidths in units of squared distance: the given ones, or a collection by name.

    Examples
    --------
    >>> import numpy as np
    >>> collection(np.array([[0.0], [3.0]]), None).round(2)[[0, -1]]
    array([1., 9.])
    """
    if bandwidths is None:
        head = x[:FIRST]
        farthest = max(np.linalg.norm(head - row, axis=1).max() for row in head)
        return (max(farthest, 2.0) ** (np.arange(10) / 9) / x.shape[1]) ** 2
    if isinstance(bandwidths, str):
        if bandwidths != "paper":
            raise ValueError(f"`bandwidths` must be an array, None or 'paper', got {bandwidths!r}")
        return median_bandwidth(x, rng=as_generator(rng)) * 4.0 ** np.arange(11)
    return as_positive(bandwidths, "bandwidths")


def _weights(weights: Any, count: int) -> np.ndarray:
    if isinstance(weights, str):
        if weights != "uniform":
            raise ValueError(f"`weights` must be an array or 'uniform', got {weights!r}")
        return np.full(count, 1 / count)
    values = as_numbers(weights, "weights", "an array of numbers or 'uniform'")
    if values.shape != (count,):
        raise ValueError(f"`weights` must have one weight a statistic, shape ({count},), got {values.shape}")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"`weights` must be positive and finite, got {values.tolist()}")
    if abs(values.sum() - 1) > 1e-8:
        raise ValueError(f"`weights` must sum to 1, their sum is {values.sum():.6g}")
    return values


def _prepare(
    x: Any, target: Target, kernel: Any, precondition: Any, n_resamples: Any, n_level_resamples: Any,
    alpha: float, check_score: bool, rng: Any,
) -> Prepared:  # fmt: skip
    check_level(alpha)
    check_kernel(kernel)
    check_count(n_level_resamples, "n_level_resamples")
    ready = prepare(x, target, precondition, n_resamples, check_score, rng)
    note_resamples(n_level_resamples, "n_level_resamples", ready.warnings)
    return ready


def _forms(
    ready: Prepared, target: Target, stack: np.ndarray, kernel: Any, widths: np.ndarray, signs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Statistics (K,) and replicates (K, B) of the summed matrix of a stack of samples, by bandwidth."""
    n, d = stack.shape[1:]
    scores = score_at(target, stack.reshape(-1, d)).reshape(stack.shape)
    if ready.whiten is not None:
        stack, scores = whitened(stack, ready.whiten), scores @ ready.whiten
    forms = quadratic_forms(stack, scores, kernel, widths, signs)
    return forms.total / (n * (n - 1)), forms.replicates / normaliser(signs)


def _result(
    name: str, ready: Prepared, outcome: MinP, statistics: np.ndarray, widths: np.ndarray,
    weights: np.ndarray, kernel: Any, precondition: Any, alpha: float, sizes: tuple[int, int], rng: Any,
    details: dict[str, Any],
) -> GofResult:  # fmt: skip
    n, d = ready.x.shape
    settings = {
        "kernel": repr(kernel), "precondition": precondition, "n_resamples": sizes[0],
        "n_level_resamples": sizes[1], "alpha": alpha,
        "rng": rng if isinstance(rng, (int, np.integer)) else None,
    }  # fmt: skip
    details = {
        "bandwidths": widths, "weights": weights, "statistics": statistics, "pvalues": outcome.pvalues,
        "levels": outcome.levels, "thresholds": outcome.thresholds, **details,
    }  # fmt: skip
    smallest = -float(np.min(outcome.pvalues / weights))
    return GofResult(
        name, smallest, outcome.pvalue, outcome.null, n, d, tuple(ready.warnings), settings, details
    )
