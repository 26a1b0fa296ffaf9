"""Validated input of the quadratic tests, and one random stream per stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from .._series import index_in_chain
from .._validation import (
    Seed,
    as_count,
    as_numbers,
    asymmetries,
    check_switch,
    is_number,
    resample_warnings,
    seeded,
    shown,
)
from ..chains.reading import Sample, read_sample
from ..target import Target, require_target, score_warnings, support_warnings
from .bootstrap import Bootstrap, multinomial, wild
from .kernels import IMQ, Kernel, check_kernel


class Streams(NamedTuple):
    """One random stream per stage, so that a change of one stage leaves the others alone."""

    bandwidth: np.random.Generator
    bootstrap: np.random.Generator
    modes: np.random.Generator
    perturbation: np.random.Generator
    split: np.random.Generator
    blocks: np.random.Generator
    inspection: np.random.Generator


def spawn_streams(rng: np.random.Generator) -> Streams:
    """The streams of one test."""
    return Streams(*rng.spawn(7))


class QuadraticOptions(NamedTuple):
    """What the user of a quadratic test asks for, as in `ksd_test`."""

    kernel: Kernel = IMQ()
    precondition: Any = None
    bootstrap: Bootstrap | Literal["blocks"] | None = None
    n_resamples: int = 999
    check_score: bool = True
    independent: bool = False


@dataclass(frozen=True, eq=False)
class Prepared:
    """Validated input of a quadratic test."""

    sample: Sample
    options: QuadraticOptions
    whiten: np.ndarray | None  # L with precondition = L L'
    streams: Streams
    seed: Seed
    warnings: tuple[str, ...]


def prepare(draws: Any, target: Target, options: QuadraticOptions, rng: Any) -> Prepared:
    """Validate what all quadratic tests share and spawn one random stream per stage; nothing is announced."""
    kernel, precondition, bootstrap, n_resamples, check_score, independent = options
    check_kernel(kernel)
    require_target(target)
    as_count(n_resamples, "n_resamples")
    check_bootstrap(bootstrap)
    check_switch(check_score, "check_score")
    whiten = None if precondition is None else _cholesky_of_precondition(precondition, target.dim)
    generator, seed = seeded(rng)
    sample = read_sample(draws, target, independent=independent)
    if sample.chain is not None:
        _refuse_resampled_draws(bootstrap)
    streams = spawn_streams(generator)
    warnings = (
        *sample.warnings,
        *support_warnings(target, sample.x, sample.log_p, streams.inspection),
        *resample_warnings(n_resamples, "n_resamples"),
        *score_warnings(target, sample.x, check=check_score),
    )
    return Prepared(sample, options, whiten, streams, seed, warnings)


def check_bootstrap(bootstrap: Any) -> None:
    """Raise unless `bootstrap` is a function, "blocks" or None."""
    if not (
        bootstrap is None or callable(bootstrap) or (isinstance(bootstrap, str) and bootstrap == "blocks")
    ):
        raise TypeError(
            f"`bootstrap` must be a function (n, size, rng) -> weights, or 'blocks', got {bootstrap!r}"
        )


def _refuse_resampled_draws(bootstrap: Any) -> None:
    """Raise if dependent draws are to be resampled one by one; a function of the user's may know better."""
    if bootstrap in (multinomial, wild):
        raise ValueError(
            f"`bootstrap` = {bootstrap.__name__} resamples draws one by one, but `draws` are Markov chains: "
            "leave it out to flip the signs of blocks, or give `independent=True` if they are independent"
        )


def _cholesky_of_precondition(precondition: Any, dim: int) -> np.ndarray:
    matrix = as_numbers(precondition, "precondition", f"a matrix of numbers, shape {(dim, dim)}")
    if matrix.shape != (dim, dim):
        raise ValueError(f"`precondition` must have shape {(dim, dim)}, got {matrix.shape}")
    for i, j in np.argwhere(~np.isfinite(matrix)):
        raise ValueError(f"`precondition` must be finite, got {matrix[i, j]} at row {i}, column {j}")
    for i, j in np.argwhere(asymmetries(matrix)):
        raise ValueError(
            f"`precondition` must be symmetric, got {matrix[i, j]:g} at row {i}, column {j} and "
            f"{matrix[j, i]:g} at row {j}, column {i}"
        )
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise ValueError(
            f"`precondition` must be positive definite, its smallest eigenvalue is {smallest:.3g}"
        ) from None


def check_fraction(train_fraction: Any) -> None:
    """Raise unless a part of the draws may be trained with, and a part is left to test."""
    if not is_number(train_fraction) or not 0 < train_fraction < 1:
        raise ValueError(f"`train_fraction` must lie strictly between 0 and 1, got {shown(train_fraction)}")


def split_rows(
    n: int, train_fraction: float, rng: np.random.Generator, chain: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a part of n draws to train with, and of the others.

    The part is random for independent draws. Of Markov chains it is the beginning of every one: the two parts
    touch once per chain, and are nearly independent.
    """
    n_train = round(train_fraction * n)
    if min(n_train, n - n_train) < 2:
        raise ValueError(
            f"`train_fraction` must leave at least 2 draws on either side, but {train_fraction} of {n} "
            f"draws is {n_train}"
        )
    if chain is None:
        order = rng.permutation(n)
        return order[:n_train], order[n_train:]
    lengths = np.bincount(chain)
    early = index_in_chain(chain) < np.round(train_fraction * lengths)[chain]
    return np.flatnonzero(early), np.flatnonzero(~early)
