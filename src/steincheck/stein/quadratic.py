"""What the quadratic tests share: validated input, one random stream per stage, calibrated statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._validation import Seed, as_numbers, check_count, seeded
from ..chains.blocks import Blocks, autocorrelation_time, block_signs, cut_blocks
from ..draws import Draws, as_matrix
from ..target import Target, log_density_at, score_at, support_warnings
from ..target import check_score as compare_score
from .blocks import block_sums
from .bootstrap import normaliser, random_blocks
from .kernels import median_bandwidth
from .tiles import quadratic_forms

Bootstrap = Callable[[int, int, np.random.Generator], np.ndarray]

MIN_DRAWS_FOR_LEVEL = 30  # with fewer, bootstraps reject true draws too often
MAX_DRAWS_WITHOUT_BLOCKS = 10_000  # beyond, n^2 B for a bootstrap of the draws is most of the cost


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


class Prepared(NamedTuple):
    """Validated input of a quadratic test."""

    x: np.ndarray
    whiten: np.ndarray | None  # L with precondition = L L'
    streams: Streams
    warnings: list[str]
    log_p: np.ndarray  # log density of the draws
    seed: Seed


def prepare(
    draws: Any, target: Target, precondition: Any, n_resamples: int, check_score: bool, rng: Any
) -> Prepared:
    """Validate what all quadratic tests share and spawn one random stream per stage; nothing is announced."""
    if not isinstance(target, Target):
        raise TypeError(f"`target` must be a steincheck.Target (see from_jax), got {type(target).__name__}")
    x = as_matrix(draws, target.dim, name="draws")
    check_count(n_resamples, "n_resamples")
    generator, seed = seeded(rng)
    streams = spawn_streams(generator)
    log_p = log_density_at(target, x)
    notes = support_warnings(target, x, log_p, streams.inspection)
    note_chains(draws, notes)
    note_resamples(n_resamples, "n_resamples", notes)
    if len(x) < MIN_DRAWS_FOR_LEVEL:
        notes.append(
            f"{len(x)} draws are few: below {MIN_DRAWS_FOR_LEVEL} the bootstrap rejects true draws too often"
        )
    if not target.has_score:
        notes.append("the target has no score: finite differences of its log density are used")
    elif check_score:
        compare_score(target, x)
    whiten = None if precondition is None else _root(precondition, target.dim)
    return Prepared(x, whiten, streams, notes, log_p, seed)


def note_chains(draws: Any, notes: list[str]) -> None:
    """Note if draws that are known to be chains are tested as independent ones."""
    if isinstance(draws, Draws) and draws.chain is not None:
        notes.append(
            "the draws are Markov chains, but this test takes them for independent: its p-value is too small "
            "if they are autocorrelated; check and flux_test take chains as chains"
        )


def note_resamples(count: int, name: str, notes: list[str]) -> None:
    """Note if the p-value can never be as small as 0.05."""
    if count < 19:
        notes.append(f"with `{name}` = {count} no p-value can be below {1 / (count + 1):.3g}")


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


def split_rows(n: int, train_fraction: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a random part of n draws to train with, and of the others."""
    if not (isinstance(train_fraction, (int, float)) and 0 < train_fraction < 1):
        raise ValueError(f"`train_fraction` must lie strictly between 0 and 1, got {train_fraction!r}")
    n_train = round(train_fraction * n)
    if min(n_train, n - n_train) < 2:
        raise ValueError(
            f"`train_fraction` must leave at least 2 draws on either side, but {train_fraction} of {n} "
            f"draws is {n_train}"
        )
    order = rng.permutation(n)
    return order[:n_train], order[n_train:]


def whitened(x: np.ndarray, whiten: np.ndarray | None) -> np.ndarray:
    """z = L^-1 x for rows of x (..., d)."""
    if whiten is None:
        return x
    return np.ascontiguousarray(np.linalg.solve(whiten, x.reshape(-1, x.shape[-1]).T).T).reshape(x.shape)


def whitened_scores(scores: np.ndarray, whiten: np.ndarray | None) -> np.ndarray:
    """Scores L's of the whitened density, for rows of `scores` (..., d)."""
    return scores if whiten is None else scores @ whiten


def choose_bandwidth(
    x: np.ndarray, kernel: Any, whiten: np.ndarray | None, rng: np.random.Generator
) -> float:
    """The kernel's own bandwidth, or the median squared distance of the draws `x`."""
    width = getattr(kernel, "bandwidth", 1.0)
    if width is None:
        width = median_bandwidth(whitened(x, whiten), rng=rng)
    return float(width)


def identical_draws(x: np.ndarray, notes: list[str]) -> np.ndarray | None:
    """A number per draw, equal for identical ones, and a note; None if all draws differ."""
    _, first, counts = np.unique(x[:, 0], return_inverse=True, return_counts=True)
    rows = np.flatnonzero(counts[first] > 1)  # only these may repeat
    if not len(rows):
        return None
    values, group = np.unique(x[rows], axis=0, return_inverse=True)
    repeated = len(rows) - len(values)
    if not repeated:
        return None
    notes.append(
        f"{repeated} of {len(x)} draws repeat others exactly, as those of Markov chains do: pairs of "
        "identical draws are left out of the statistic"
    )
    identity = np.arange(len(x)) + len(values)
    identity[rows] = group.ravel()
    return identity


class Resampling(NamedTuple):
    """How the null distribution is simulated."""

    name: str
    weights: np.ndarray  # (B, n) of the draws, or (B, q) signs of the blocks
    block: np.ndarray | None  # (n,) block of each draw
    identity: np.ndarray | None  # (n,) equal for identical draws


def check_bootstrap(bootstrap: Any) -> None:
    """Raise unless `bootstrap` is a function, "blocks" or None."""
    if not (
        bootstrap is None or callable(bootstrap) or (isinstance(bootstrap, str) and bootstrap == "blocks")
    ):
        raise TypeError(
            f"`bootstrap` must be a function (n, size, rng) -> weights, or 'blocks', got {bootstrap!r}"
        )


def resampling(
    x: np.ndarray,
    bootstrap: Any,
    default: Bootstrap,
    n_resamples: int,
    streams: Streams,
    *,
    notes: list[str],
    block: np.ndarray | None = None,
) -> Resampling:
    """Weights or signs of the null distribution.

    Given blocks are used; otherwise random blocks if `bootstrap` is "blocks", or None and there are many
    draws; otherwise weights of the draws by `bootstrap`, or `default`.
    """
    n = len(x)
    identity = identical_draws(x, notes)
    if block is None and (bootstrap == "blocks" or (bootstrap is None and n > MAX_DRAWS_WITHOUT_BLOCKS)):
        block = random_blocks(n, streams.blocks, identity=identity)
    if block is not None:
        signs = block_signs(int(block.max()) + 1, n_resamples, streams.bootstrap)
        return Resampling("blocks", signs, block, identity)
    function = default if bootstrap is None else bootstrap
    weights = np.asarray(function(n, n_resamples, streams.bootstrap))
    if weights.shape != (n_resamples, n):
        raise ValueError(f"`bootstrap` must return weights of shape {(n_resamples, n)}, got {weights.shape}")
    return Resampling(getattr(function, "__name__", repr(function)), weights, None, identity)


def chain_blocks(
    z: np.ndarray, slopes: np.ndarray, kernel: Any, bandwidths: Any, chain: np.ndarray
) -> Blocks:
    """Blocks of chains for the kernel test, from the autocorrelation time of the draws' contributions.

    h_t, the row sums of the Stein matrix of whitened draws `z` with whitened scores `slopes`, show the slow
    directions along which the sum over all draws happens to point; the slowest bandwidth counts.
    """
    most = cut_blocks(1.0, chain)
    h = block_sums(z[None], slopes[None], kernel, bandwidths, most.label, row_sums=True).row_sums
    assert h is not None
    return cut_blocks(float(np.max(autocorrelation_time(h.T, chain))), chain)


class Calibrated(NamedTuple):
    """U-statistics of the summed matrix of a stack of samples and their replicates, per bandwidth."""

    statistics: np.ndarray  #: (K,)
    replicates: np.ndarray  #: (K, B)
    parts: np.ndarray | None  #: (K, J) contribution of each sample, if asked for


def calibrate(
    samples: np.ndarray,
    scores: np.ndarray,
    kernel: Any,
    bandwidths: Any,
    resampled: Resampling,
    *,
    parts: bool = False,
) -> Calibrated:
    """Statistics and replicates of samples (J, n, d) of the same draws, in whitened coordinates.

    With blocks, pairs of draws of one block are left out: signs of blocks do not change their sum.
    """
    weights = resampled.weights
    if resampled.block is None:
        n = samples.shape[1]
        forms = quadratic_forms(
            samples, scores, kernel, bandwidths, weights, identity=resampled.identity, row_sums=parts
        )
        each = None if forms.row_sums is None else forms.row_sums.sum(axis=2) / (n * (n - 1))
        return Calibrated(forms.total / (n * (n - 1)), forms.replicates / normaliser(weights), each)
    block = resampled.block
    sums = block_sums(samples, scores, kernel, bandwidths, block, identity=resampled.identity)
    return flip_signs(sums.table, np.bincount(block), weights)


def flip_signs(table: np.ndarray, sizes: np.ndarray, signs: np.ndarray) -> Calibrated:
    """U-statistics over pairs of draws in different blocks, and what they become with signs of the blocks.

    Parameters
    ----------
    table : array (K, J, q, q)
        Sums of the Stein kernel over pairs of blocks.
    sizes : int array (q,)
        Numbers of draws of the blocks.
    signs : array (B, q)
    """
    pairs = float(sizes.sum() ** 2 - np.sum(sizes**2))
    between = table * (1 - np.eye(len(sizes))) / pairs
    signs = signs.astype(float)
    replicates = [np.einsum("bq,bq->b", signs @ one, signs) for one in between.sum(axis=1)]
    each = between.sum(axis=(2, 3))
    return Calibrated(each.sum(axis=1), np.array(replicates), each)


def scores_of_moved(target: Target, x: np.ndarray, scores: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Scores (J, n, d) at samples of which most draws may be those of `x`, whose scores are known."""
    moved = np.any(samples != x, axis=2)
    out = np.repeat(scores[None], len(samples), axis=0)
    if moved.any():
        out[moved] = score_at(target, samples[moved])
    return out


def settings(
    kernel: Any, whiten: np.ndarray | None, bootstrap: str, n_resamples: int, **more: Any
) -> dict[str, Any]:
    """What is needed to run the test again, but for the seed."""
    return {
        "kernel": repr(kernel),
        "precondition": None if whiten is None else whiten @ whiten.T,
        "bootstrap": bootstrap,
        "n_resamples": n_resamples,
        **more,
    }
