"""What the quadratic tests share: validated input, one random stream per stage, forms of stacked samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._validation import as_generator, as_numbers, check_count
from ..draws import as_matrix
from ..result import note
from ..target import Target, log_density_at, oddities, score_at
from ..target import check_score as compare_score
from .bootstrap import normaliser
from .kernels import check_kernel, median_bandwidth
from .tiles import quadratic_forms

Bootstrap = Callable[[int, int, np.random.Generator], np.ndarray]

FEW = 30  # draws below which the level is not kept


class Prepared(NamedTuple):
    """Validated input of a quadratic test."""

    x: np.ndarray
    whiten: np.ndarray | None  # L with precondition = L L'
    streams: list[np.random.Generator]
    warnings: list[str]


def prepare(
    x: Any, target: Target, precondition: Any, n_resamples: int, check_score: bool, rng: Any
) -> Prepared:
    """Validate what all quadratic tests share and spawn one random stream a stage."""
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")
    x = as_matrix(x, target.dim)
    check_count(n_resamples, "n_resamples")
    streams = as_generator(rng).spawn(7)
    notes: list[str] = []
    for text in oddities(target, x, log_density_at(target, x), streams[6]):
        note(notes, text)
    note_resamples(n_resamples, "n_resamples", notes)
    if len(x) < FEW:
        note(notes, f"{len(x)} draws are few: below {FEW} the bootstrap rejects true draws too often")
    if not target.has_score:
        note(notes, "the target has no score: finite differences of its log density are used")
    elif check_score:
        compare_score(target, x)
    return Prepared(x, None if precondition is None else _root(precondition, target.dim), streams, notes)


def note_resamples(count: int, name: str, notes: list[str]) -> None:
    """Say so if the p-value can never be as small as 0.05."""
    if count < 19:
        note(notes, f"with `{name}` = {count} no p-value can be below {1 / (count + 1):.3g}")


def _root(precondition: Any, dim: int) -> np.ndarray:
    matrix = as_numbers(precondition, "precondition", f"a matrix of numbers, shape {(dim, dim)}")
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


def split(ready: Prepared, train_fraction: Any) -> tuple[np.ndarray, np.ndarray]:
    """A random part of the draws to train with, and the others."""
    if not (isinstance(train_fraction, (int, float)) and 0 < train_fraction < 1):
        raise ValueError(f"`train_fraction` must lie strictly between 0 and 1, got {train_fraction!r}")
    n = len(ready.x)
    n_train = round(train_fraction * n)
    if min(n_train, n - n_train) < 2:
        raise ValueError(
            f"`train_fraction` must leave at least 2 draws on either side, but {train_fraction} of {n} "
            f"draws is {n_train}"
        )
    order = ready.streams[4].permutation(n)
    return ready.x[order[:n_train]], ready.x[order[n_train:]]


def whitened(x: np.ndarray, whiten: np.ndarray | None) -> np.ndarray:
    """z = L^-1 x for rows of x (..., d)."""
    return x if whiten is None else np.linalg.solve(whiten, x[..., None])[..., 0]


def choose_bandwidth(ready: Prepared, x: np.ndarray, kernel: Any) -> float:
    """The kernel's own bandwidth, or the median squared distance of the draws `x`."""
    check_kernel(kernel)
    width = getattr(kernel, "bandwidth", 1.0)
    if width is None:
        width = median_bandwidth(whitened(x, ready.whiten), rng=ready.streams[0])
    return float(width)


def stacked_forms(
    ready: Prepared, target: Target, samples: np.ndarray, kernel: Any, widths: Any,
    bootstrap: Bootstrap | None, n_resamples: int, *, row_sums: bool = False,
) -> tuple[Any, np.ndarray]:  # fmt: skip
    """Forms of the summed H of a stack of samples (J, n, d), and the normalised replicates."""
    n, d = samples.shape[1:]
    scores = score_at(target, samples.reshape(-1, d)).reshape(samples.shape)
    if ready.whiten is not None:
        samples, scores = whitened(samples, ready.whiten), scores @ ready.whiten
    if bootstrap is None:
        return quadratic_forms(samples, scores, kernel, widths, row_sums=row_sums), np.empty(0)
    weights = resample(bootstrap, n, n_resamples, ready.streams[1])
    forms = quadratic_forms(samples, scores, kernel, widths, weights, row_sums=row_sums)
    null = forms.replicates / normaliser(weights)
    return forms, null[0] if len(null) == 1 else null


def resample(bootstrap: Bootstrap, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Weights of the bootstrap, validated, shape (size, n)."""
    if not callable(bootstrap):
        raise TypeError(f"`bootstrap` must be a function (n, size, rng) -> weights, got {bootstrap!r}")
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
