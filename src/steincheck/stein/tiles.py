"""The streaming engine: totals, row sums and quadratic forms of the Stein matrix, tile by tile.

H is the n x n matrix of Stein kernel values, zero on the diagonal and for pairs of identical draws. It is
never formed: one pass over the tiles above the diagonal, counted twice, gives everything a test needs. For a
stack of J samples H is the sum of the J matrices; for several bandwidths the results are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._progress import ticking
from .kernels import Kernel, pair_products, stein_values, with_bandwidth, without_bandwidth

MIN_DRAWS_FOR_LARGE_TILES = 4096  # below, too much of a large tile would be padding
SMALL_TILE = (256, 256)  # rows, columns
LARGE_TILE = (2048, 1024)
# One product takes up to so many rows of H, columns (of all bandwidths side by side) and replicates: large
# enough to run at full speed, small enough that memory is used again instead of asked for.
ROWS_PER_PRODUCT = 1024
COLUMNS_PER_PRODUCT = 2816
REPLICATES_PER_PRODUCT = 1024
MIN_EVALUATIONS_FOR_PROGRESS = 10**9  # of the kernel or a product with it: seconds, worth a progress bar
MULTIPLY_ADDS_IN_DOUBLE = 3e9  # of the replicates; beyond, tiles are stored in float32


class Forms(NamedTuple):
    """Quadratic forms of H; the first axis has one entry per bandwidth."""

    total: np.ndarray  #: (K,) 1'H1
    replicates: np.ndarray  #: (K, B) w'Hw
    row_sums: np.ndarray | None  #: (K, J, n) H_j 1 for each sample of the stack, if asked for


class Piece(NamedTuple):
    """A range of draws in all samples of a stack, padded to a fixed number of rows."""

    x: Any  # (J, rows, d)
    scores: Any  # (J, rows, d)
    index: Any  # (rows,) position of each draw, -1 for padding
    identity: Any  # (rows,) equal for identical draws
    label: Any = None  # (rows,) block of each draw, counted from the first block of the piece, or -1
    weight: Any = None  # (rows,) of each draw; None if all have the weight 1


def quadratic_forms(
    x: np.ndarray,
    scores: np.ndarray,
    kernel: Kernel,
    bandwidths: Any,
    weights: np.ndarray | None = None,
    *,
    identity: np.ndarray | None = None,
    row_sums: bool = False,
    tile: tuple[int, int] | None = None,
) -> Forms:
    """Stream H = sum_j H_j over a stack of samples and return its quadratic forms.

    Parameters
    ----------
    x, scores : arrays (J, n, d)
        The stack of samples and the scores at them.
    kernel : IMQ, RBF or any object with `profile`
        ``profile(r2) -> phi, phi', phi''`` in JAX operations.
    bandwidths : array (K,) or None
        The kernel is given each in turn. A kernel that takes none is used as it is; None for one without any.
    weights : array (B, n), optional
        Bootstrap weights. Everything is float64 up to 3e9 multiply-adds; beyond, tiles are evaluated in
        float64 and stored in float32, which moves totals and replicates by about 1e-7 of their spread.
    identity : int array (n,), optional
        Pairs of draws with the same number are left out, as the diagonal is; by default all draws differ.
    row_sums : bool
        Return the row sums of each H_j too.
    tile : (rows, columns), optional
        Results do not depend on it beyond rounding.
    """
    n = x.shape[1]
    rows, columns = tile or (LARGE_TILE if n > MIN_DRAWS_FOR_LARGE_TILES else SMALL_TILE)
    bandwidths = as_bandwidths(bandwidths)
    weights = np.zeros((0, n), dtype=np.int8) if weights is None else np.asarray(weights)
    compute = partial(
        _tile,
        kernel=without_bandwidth(kernel),
        single=n * n * len(weights) * len(bandwidths) > MULTIPLY_ADDS_IN_DOUBLE,
        row_sums=row_sums,
        repeats=identity is not None,
    )
    with jax.enable_x64(True):
        left = pieces(x, scores, identity, rows)
        right = pieces(x, scores, identity, columns)
        chunks = [(_cut(chunk, 1, rows), _cut(chunk, 1, columns)) for chunk in _chunks(weights)]
        found = []
        groups = _groups(bandwidths, columns, row_sums)
        long = n * n // 2 * len(bandwidths) * (len(x) + len(weights)) >= MIN_EVALUATIONS_FOR_PROGRESS
        with ticking("Stein kernel", len(groups) * len(right), shown=long) as tick:
            for group in groups:
                sums = _Accumulator(len(group), chunks, rows, row_sums)
                for step in stream(left, right, partial(compute, bandwidths=group)):
                    sums.add(step)
                    if step.closes:
                        tick()
                found.append(sums.forms(n, len(weights)))
    forms = _joined_forms(found)
    check_finite(bandwidths, scores, forms.total, forms.replicates)
    return forms


def as_bandwidths(bandwidths: Any) -> np.ndarray:
    """Bandwidths (K,) for the compiled programs; None, for a kernel without any, becomes NaN."""
    return np.atleast_1d(np.asarray(np.nan if bandwidths is None else bandwidths, dtype=float))


def _joined_forms(found: list[Forms]) -> Forms:
    """Forms of several groups of bandwidths, one after the other."""
    rows = [forms.row_sums for forms in found if forms.row_sums is not None]
    return Forms(
        np.concatenate([forms.total for forms in found]),
        np.concatenate([forms.replicates for forms in found]),
        np.concatenate(rows) if rows else None,
    )


class TileResult(NamedTuple):
    """What was computed for one tile that reaches above the diagonal."""

    row: int
    column: int
    value: Any
    closes: bool  # it is the last tile of its column


def stream(
    left: Sequence[Piece], right: Sequence[Piece], compute: Callable[[Piece, Piece], Any]
) -> Iterator[TileResult]:
    """Evaluate `compute` for every tile of H that reaches above the diagonal, column by column."""
    rows = len(left[0].index)
    columns = len(right[0].index)
    for b, below in enumerate(right):
        last = min(len(left), -(-(b + 1) * columns // rows)) - 1
        for a in range(last + 1):
            yield TileResult(a, b, compute(left[a], below), a == last)


class _Accumulator:
    """Accumulates tiles (rows, K, columns) into the total, the replicates and the row sums."""

    def __init__(self, count: int, weights: list, rows: int, row_sums: bool) -> None:
        self.weights = weights
        self.together = min(4, max(1, ROWS_PER_PRODUCT // rows))  # each number of tiles compiles once
        self.total = np.zeros(count)
        self.replicates = [np.zeros((count, 0))] + [np.zeros((count, len(left[0]))) for left, _ in weights]
        self.by_row: dict[int, Any] | None = {} if row_sums else None
        self.by_column: dict[int, Any] = {}
        self.waiting: list[Any] = []

    def add(self, step: TileResult) -> None:
        h, sums = step.value
        if self.by_row is not None:
            self.by_row[step.row] = self.by_row.get(step.row, 0.0) + sums[0]
            self.by_column[step.column] = self.by_column.get(step.column, 0.0) + sums[1]
        self.total += 2 * np.asarray(_sum(h))  # waits for the tile: without it they pile up in the queue
        self.waiting.append(h)
        if step.closes or len(self.waiting) == self.together:
            self._multiply(step)

    def _multiply(self, step: TileResult) -> None:
        first = step.row + 1 - len(self.waiting)
        for c, (left, across) in enumerate(self.weights, start=1):
            product = _multiply_add(left[first : step.row + 1], self.waiting)
            self.replicates[c] += np.asarray(_contract(product, across[step.column])).T
        self.waiting = []

    def forms(self, n: int, n_replicates: int) -> Forms:
        replicates = np.concatenate(self.replicates, axis=1)[:, :n_replicates]
        if self.by_row is None:
            return Forms(self.total, replicates, None)
        rows, columns = (
            np.concatenate([np.asarray(part) for _, part in sorted(parts.items())], axis=2)[:, :, :n]
            for parts in (self.by_row, self.by_column)
        )
        return Forms(self.total, replicates, rows + columns)


def pieces(x: np.ndarray, scores: np.ndarray, identity: np.ndarray | None, size: int) -> list[Piece]:
    """Cut a stack of samples into pieces of `size` draws; the first sample's mean becomes the origin."""
    n = x.shape[1]
    centred = x - x[0].mean(axis=0)
    index = np.arange(n, dtype=np.int32)
    identity = index if identity is None else np.asarray(identity, dtype=np.int32)
    arrays = ((centred, 1), (np.asarray(scores, dtype=float), 1), (index, 0), (identity, 0))
    cut = [_cut(array, axis, size) for array, axis in arrays]
    return [Piece(*parts) for parts in zip(*cut, strict=True)]


def pairs_to_keep(left: Piece, right: Piece, repeats: bool) -> Any:
    """Mask (rows, columns) of the pairs above the diagonal, without padding and identical draws."""
    keep = (left.index[:, None] < right.index[None, :]) & (left.index[:, None] >= 0)
    return keep & (left.identity[:, None] != right.identity[None, :]) if repeats else keep


def check_finite(bandwidths: np.ndarray, scores: np.ndarray, *values: np.ndarray) -> None:
    """Raise if any of `values` (K, ...) is not finite, and name the bandwidth."""
    finite = [np.isfinite(value).reshape(len(bandwidths), -1).all(axis=1) for value in values]
    bad = ~np.all(finite, axis=0)
    if bad.any():
        bandwidth = bandwidths[bad][0]
        used = "" if np.isnan(bandwidth) else f"the bandwidth {bandwidth:.3g} and "
        raise ValueError(
            f"the Stein kernel is not finite with {used}scores up to "
            f"{np.abs(scores).max():.3g}: give `kernel` another bandwidth, or rescale the draws"
        )


def _groups(bandwidths: np.ndarray, columns: int, row_sums: bool) -> list[np.ndarray]:
    """Bandwidths whose tiles lie side by side in one product; with row sums that would be slower."""
    abreast = 1 if row_sums else max(1, COLUMNS_PER_PRODUCT // columns)
    return np.array_split(bandwidths, -(-len(bandwidths) // abreast))


def _cut(a: np.ndarray, axis: int, size: int) -> list[Any]:
    """Cut `a` along `axis` into parts of exactly `size`."""
    parts = []
    for start in range(0, a.shape[axis], size):
        part = a[(slice(None),) * axis + (slice(start, start + size),)]
        parts.append(jax.device_put(padded(part, axis, size)))
    return parts


def padded(a: np.ndarray, axis: int, size: int) -> np.ndarray:
    """`a` with padding at the end of `axis` up to `size`: 0 for numbers, -1 for indices."""
    missing = size - a.shape[axis]
    if not missing:
        return a
    width = [(0, missing if k == axis else 0) for k in range(a.ndim)]
    return np.pad(a, width, constant_values=-1 if a.dtype == np.int32 else 0)


def _chunks(weights: np.ndarray) -> list[np.ndarray]:
    """Cut the rows of `weights` into equal chunks; the last is filled up with zeros."""
    count = -(-len(weights) // REPLICATES_PER_PRODUCT)
    size = -(-len(weights) // max(1, count))
    filled = np.pad(weights, ((0, count * size - len(weights)), (0, 0)))
    return [filled[c * size : (c + 1) * size] for c in range(count)]


@partial(jax.jit, static_argnames=("kernel", "single", "row_sums", "repeats"))
def _tile(
    left: Piece, right: Piece, bandwidths: Any, *, kernel: Kernel, single: bool, row_sums: bool, repeats: bool
) -> tuple[Any, Any]:
    """The part of one tile of H above the diagonal, (rows, K, columns), and its sums by row and column."""
    keep = pairs_to_keep(left, right, repeats)
    stored = jnp.float32 if single else jnp.float64

    def matrix(bandwidth: Any) -> tuple[Any, Any]:
        own = with_bandwidth(kernel, bandwidth)

        def one(sample: tuple[Any, Any, Any, Any]) -> Any:
            return jnp.where(keep, stein_values(own, *pair_products(*sample)), 0.0)

        def add(h: Any, sample: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
            u = one(sample)
            if not row_sums:
                return h + u, None
            return h + u, (u @ jnp.ones(u.shape[1]), jnp.ones(u.shape[0]) @ u)

        samples = (left.x, left.scores, right.x, right.scores)
        if len(left.x) == 1 and not row_sums:
            return one(tuple(part[0] for part in samples)).astype(stored), None
        h, sums = jax.lax.scan(add, jnp.zeros(keep.shape), samples)
        return h.astype(stored), sums

    return jax.vmap(matrix, out_axes=(1, 0))(bandwidths)


# Compiled apart from `_tile`: fused into it, XLA would evaluate the kernel again inside the product.
@jax.jit
def _sum(h: Any) -> Any:
    return jnp.sum(jnp.sum(h, axis=2, dtype=jnp.float64), axis=0)


@jax.jit
def _multiply_add(w: Any, h: Any) -> Any:
    """sum_i w_bi h_ikj over the rows of all tiles `h`, which lie below each other, and their weights `w`."""
    h = jnp.concatenate(h)
    w = jnp.concatenate(w, axis=1).astype(h.dtype)
    return (w @ h.reshape(len(h), -1)).reshape(len(w), *h.shape[1:])


@jax.jit
def _contract(product: Any, w: Any) -> Any:
    """2 sum_j product_bkj w_bj for every replicate b; as a product, it is four times as fast as a sum."""
    return 2 * jnp.einsum("bkj,bj->bk", product, w.astype(product.dtype)).astype(jnp.float64)
