"""Tests based on the kernel Stein discrepancy: ksd_test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .bootstrap import multinomial, normaliser, pvalue
from .draws import as_draws, as_generator
from .kernels import IMQ, median_bandwidth
from .result import GofResult, note
from .stein import quadratic_forms
from .target import Target, log_density_at, score_at
from .target import check_score as compare_score

Bootstrap = Callable[[int, int, np.random.Generator], np.ndarray]


class Prepared(NamedTuple):
    """Validated input of a quadratic test."""

    x: np.ndarray
    whiten: np.ndarray | None  # L with precondition = L L'
    streams: list[np.random.Generator]
    warnings: list[str]


def ksd_test(
    x: Any,
    target: Target,
    *,
    kernel: Any = IMQ(),  # noqa: B008 - frozen
    precondition: np.ndarray | None = None,
    bootstrap: Bootstrap = multinomial,
    n_resamples: int = 999,
    check_score: bool = True,
    n_jobs: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> GofResult:
    """Kernel Stein discrepancy test.

    H0: the draws are independent and come from the target. The statistic is the U-statistic

        1/(n(n-1)) sum_{i != j} u(x_i, x_j)

    of the Stein kernel u, its null distribution comes from weighted forms w'Hw in the same matrix. It sees
    misfit inside the modes, and is blind to wrong weights of well-separated modes.

    Parameters
    ----------
    x : array (n, d)
        The draws.
    target : Target
        The density.
    kernel : IMQ, RBF or alike
        Without a bandwidth, the median squared distance of the draws is used.
    precondition : array (d, d), optional
        Positive definite matrix C: distances become (x-y)' C^-1 (x-y), so that coordinates on different
        scales count alike. With a covariance of the target the p-value does not depend on linear maps.
    bootstrap : callable
        ``(n, size, rng) -> weights``: `multinomial` (the paper's) or `wild`.
    n_resamples : int
        Number of bootstrap replicates B.
    check_score : bool
        Compare the score with finite differences at a few draws first.
    n_jobs : int, optional
        Accepted by all tests for the search of modes; this one has none and always uses every core.
    rng : Generator or int, optional
        Source of randomness.

    References
    ----------
    Liu, Lee and Jordan (2016); Chwialkowski, Strathmann and Gretton (2016).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.from_jax(lambda x: -0.5 * jnp.sum(x**2), dim=2)
    >>> draws = np.random.default_rng(0).normal(loc=0.5, size=(500, 2))
    >>> sc.ksd_test(draws, target, rng=0).pvalue
    0.001
    """
    ready = prepare(x, target, precondition, n_resamples, check_score, rng)
    width, kernel = choose_bandwidth(ready, kernel)
    forms, null = stacked_forms(ready, target, ready.x[None], kernel, width, bootstrap, n_resamples)
    n, d = ready.x.shape
    statistic = float(forms.total[0] / (n * (n - 1)))
    return GofResult(
        "KSD test", statistic, pvalue(statistic, null), null, n, d, tuple(ready.warnings),
        settings(kernel, width, precondition, bootstrap, n_resamples, rng),
    )  # fmt: skip


def prepare(
    x: Any, target: Target, precondition: Any, n_resamples: int, check_score: bool, rng: Any
) -> Prepared:
    """Validate what all quadratic tests share and spawn one random stream a stage."""
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")
    x = as_draws(x, target.dim)
    if not isinstance(n_resamples, (int, np.integer)) or n_resamples < 1:
        raise ValueError(f"`n_resamples` must be a positive integer, got {n_resamples!r}")
    streams = as_generator(rng).spawn(6)
    notes: list[str] = []
    log_density_at(target, x)
    if not target.has_score:
        note(notes, "the target has no score: finite differences of its log density are used")
    elif check_score:
        compare_score(target, x)
    return Prepared(x, None if precondition is None else _root(precondition, target.dim), streams, notes)


def _root(precondition: Any, dim: int) -> np.ndarray:
    matrix = np.asarray(precondition, dtype=float)
    if matrix.shape != (dim, dim):
        raise ValueError(f"`precondition` must have shape {(dim, dim)}, got {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0):
        raise ValueError("`precondition` must be symmetric")
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0] if np.isfinite(matrix).all() else np.nan
        raise ValueError(
            f"`precondition` must be positive definite, its smallest eigenvalue is {smallest:.3g}"
        ) from None


def whitened(x: np.ndarray, whiten: np.ndarray | None) -> np.ndarray:
    """z = L^-1 x for rows of x (..., d)."""
    return x if whiten is None else np.linalg.solve(whiten, x[..., None])[..., 0]


def choose_bandwidth(ready: Prepared, kernel: Any) -> tuple[float, Any]:
    """The kernel's bandwidth, or the median squared distance of the observed draws."""
    if not callable(getattr(kernel, "profile", None)):
        raise TypeError(f"`kernel` must have a method profile(r2), as IMQ() and RBF() have, got {kernel!r}")
    width = getattr(kernel, "bandwidth", 1.0)
    if width is None:
        width = median_bandwidth(whitened(ready.x, ready.whiten), rng=ready.streams[0])
    return float(width), kernel


def stacked_forms(
    ready: Prepared, target: Target, samples: np.ndarray, kernel: Any, widths: Any,
    bootstrap: Bootstrap, n_resamples: int, *, row_sums: bool = False,
) -> tuple[Any, np.ndarray]:  # fmt: skip
    """Forms of the summed H of a stack of samples (J, n, d), and the normalised replicates."""
    count, n, d = samples.shape
    scores = score_at(target, samples.reshape(-1, d)).reshape(samples.shape)
    if ready.whiten is not None:
        samples, scores = whitened(samples, ready.whiten), scores @ ready.whiten
    weights = resample(bootstrap, n, n_resamples, ready.streams[1])
    forms = quadratic_forms(samples, scores, kernel, widths, weights, row_sums=row_sums)
    null = forms.replicates / normaliser(weights)
    return forms, null[0] if len(null) == 1 else null


def resample(bootstrap: Bootstrap, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Weights of the bootstrap, validated, shape (size, n)."""
    weights = np.asarray(bootstrap(n, size, rng))
    if weights.shape != (size, n):
        raise ValueError(f"`bootstrap` must return weights of shape {(size, n)}, got {weights.shape}")
    return weights


def settings(
    kernel: Any,
    width: float,
    precondition: Any,
    bootstrap: Bootstrap,
    n_resamples: int,
    rng: Any,
    **more: Any,
) -> dict[str, Any]:
    """What would be needed to run the test again."""
    return {
        "kernel": repr(kernel),
        "bandwidth": width,
        "precondition": precondition,
        "bootstrap": getattr(bootstrap, "__name__", repr(bootstrap)),
        "n_resamples": n_resamples,
        "rng": rng if isinstance(rng, (int, np.integer)) else None,
        **more,
    }
