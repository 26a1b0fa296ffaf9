"""Sums of the Stein matrix over pairs of blocks of draws: all that sign flips of blocks need, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from math import isqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._progress import ticking
from .kernels import Kernel, products_with_columns, stein_values, with_bandwidth, without_bandwidth
from .sharing import n_workers, share_out
from .tiles import (
    MIN_DRAWS_FOR_LARGE_TILES,
    MIN_EVALUATIONS_FOR_PROGRESS,
    Piece,
    as_bandwidths,
    check_finite,
    padded,
    pairs_to_keep,
)

SMALL_TILE_SIDE = 512  # rows and columns
LARGE_TILE_SIDE = 1024
ROWS_PER_STRIP = 128  # of a tile, evaluated at once: their products stay in the cache of one core
# Largest squared distance from the centre up to which tiles are evaluated in float32, in units of the least
# bandwidth plus the squared distance that 1 % of the pairs fall below: what the kernel sees of a squared
# distance is then wrong by a few thousandths, at all but 1 % of the pairs.
MAX_REACH_IN_SINGLE = 1e4
PIECES_HELD = 1024  # of a sample, as arrays of JAX: at most 80 MB in 10 dimensions
# A piece may meet up to so many blocks; each number compiles once.
BLOCKS_PER_PIECE = (1, 8, 16, 32, 64, 128, 256, 1024)
MIN_EVALUATIONS_TO_SHARE = 10**8  # of the kernel: about a second; with fewer, sending takes longer
PARTS_PER_WORKER = 4  # workers of different speed finish nearly together; each part takes a moment to send


class BlockPairSums(NamedTuple):
    """Sums of the Stein matrices over pairs of blocks; the first axis has one entry per bandwidth."""

    table: np.ndarray  #: (K, J, q, q), symmetric; a draw with itself and identical draws count 0
    row_sums: np.ndarray | None  #: (K, n) sums over all other draws and all samples, if asked for


def sums_of_block_pairs(
    x: np.ndarray,
    scores: np.ndarray,
    kernel: Kernel,
    bandwidths: Any,
    block: np.ndarray,
    *,
    identity: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    row_sums: bool = False,
    single: bool | None = None,
) -> BlockPairSums:
    """Sum the Stein kernel over all pairs of blocks, for every sample of a stack and every bandwidth.

    Every pair of draws is evaluated once per bandwidth, its distance once in all. Nothing of size n x n is
    held. Tiles are shared out among the workers of joblib's active backend, if there is one.

    Parameters
    ----------
    x, scores, kernel, bandwidths, identity
        As in `quadratic_forms`.
    block : int array (n,)
        The block of each draw, 0 to q - 1.
    weight : array (n,), optional
        Weight of each draw in the table; row sums are not weighted.
    row_sums : bool
        Return the row sums of the summed matrix too, in the order of the draws.
    single : bool, optional
        Evaluate tiles in float32, with sums in float64; by default where this is accurate enough.
    """
    order = np.argsort(block, kind="stable")
    bandwidths = as_bandwidths(bandwidths)
    if single is None:
        single = single_suffices(x, bandwidths)
    dtype = np.float32 if single else np.float64
    labels = np.asarray(block)[order]
    options = _Options(without_bandwidth(kernel), tuple(bandwidths.tolist()), row_sums)
    ranks = None if identity is None else identity[order]
    weights = None if weight is None else np.asarray(weight)[order].astype(dtype)
    origin = x[0].mean(axis=0)

    @lru_cache(maxsize=2)
    def sample(j: int) -> _SortedSample:
        centred = (x[j, order] - origin).astype(dtype)
        return _SortedSample(centred, scores[j, order].astype(dtype), ranks, labels, weights)

    table = np.zeros((len(bandwidths), len(x), labels[-1] + 1, labels[-1] + 1))
    rows = np.zeros((len(bandwidths), len(block)))
    for j, sums in _tile_sums(sample, len(x), options):
        table[:, j] += sums.table
        if sums.rows is not None:
            rows += sums.rows
    table += table.transpose(0, 1, 3, 2)
    check_finite(bandwidths, scores, table)
    return BlockPairSums(table, rows[:, np.argsort(order)] if row_sums else None)


def single_suffices(x: np.ndarray, bandwidths: np.ndarray) -> bool:
    """Whether float32 resolves the distances between the draws (J, n, d) as finely as the kernel needs.

    It does not where the kernel's width is not known, a bandwidth of NaN.
    """
    origin = x[0].mean(axis=0)
    reach = max(np.max(np.sum((sample - origin) ** 2, axis=1)) for sample in x)
    some = x[0, :: -(-x.shape[1] // 100)]  # all pairs of these are looked at
    first, second = np.triu_indices(len(some), k=1)
    small = np.quantile(np.sum((some[first] - some[second]) ** 2, axis=1), 0.01)
    return bool(reach <= MAX_REACH_IN_SINGLE * (bandwidths.min() + small))


class _Options(NamedTuple):
    """What is computed of every tile."""

    kernel: Kernel
    bandwidths: tuple[float, ...]
    row_sums: bool


class _SortedSample(NamedTuple):
    """The draws of one sample, sorted by block; arrays that travel to workers."""

    x: np.ndarray  # (n, d)
    scores: np.ndarray  # (n, d)
    identity: np.ndarray | None  # (n,) equal for identical draws
    label: np.ndarray  # (n,) block of each draw
    weight: np.ndarray | None  # (n,) of each draw; None if all have the weight 1


class _TileSums(NamedTuple):
    """Sums over some tiles above the diagonal."""

    table: np.ndarray  # (K, q, q)
    rows: np.ndarray | None  # (K, n)


def _tile_sums(
    sample: Callable[[int], _SortedSample], count: int, options: _Options
) -> Iterator[tuple[int, _TileSums]]:
    """Sums over the tiles of each of `count` samples, in one or several parts, with the sample's number."""
    n = len(sample(0).label)
    side = -(-n // _tile_size(n))
    tiles = range(side * (side + 1) // 2)
    evaluations = n * n // 2 * count * len(options.bandwidths)
    long = evaluations >= MIN_EVALUATIONS_FOR_PROGRESS
    workers = n_workers() if evaluations >= MIN_EVALUATIONS_TO_SHARE else 1
    if workers == 1:
        with ticking("Stein kernel", count * len(tiles), shown=long) as tick:
            for j in range(count):
                yield j, _sum_tiles(*sample(j), tiles, options, tick)
        return
    length = -(-len(tiles) // (workers * max(2, PARTS_PER_WORKER // count)))
    parts = [(tiles[start : start + length], options) for start in tiles[::length]]
    with ticking("Stein kernel", count * len(parts), shown=long) as tick:
        for j in range(count):
            for sums in share_out(_sum_tiles, sample(j), parts):
                tick()
                yield j, sums


def _tile_size(n: int) -> int:
    return LARGE_TILE_SIDE if n > MIN_DRAWS_FOR_LARGE_TILES else SMALL_TILE_SIDE


def _sum_tiles(
    x: np.ndarray,
    scores: np.ndarray,
    identity: np.ndarray | None,
    label: np.ndarray,
    weight: np.ndarray | None,
    tiles: range,
    options: _Options,
    tick: Callable[[], object] = lambda: None,
) -> _TileSums:
    """Sums over the tiles with these numbers, which count them column by column above the diagonal.

    Arrays are arguments of their own: those joblib sends to a worker once.
    """
    sample = _SortedSample(x, scores, identity, label, weight)
    size = _tile_size(len(x))
    count = len(options.bandwidths)
    first = label[::size]
    few = len(first) <= 4  # few tiles are masked like those on the diagonal: compiling takes longer
    width = _blocks_per_piece(label, size)
    table = np.zeros((count, label[-1] + 1 + width, label[-1] + 1 + width))
    rows = np.zeros((count, len(first) * size)) if options.row_sums else None

    @lru_cache(maxsize=PIECES_HELD)
    def piece(k: int) -> Piece:
        return _labelled_piece(sample, slice(k * size, (k + 1) * size))

    with jax.enable_x64(True):
        compute = partial(
            _tile,
            bandwidths=np.array(options.bandwidths, dtype=x.dtype),
            kernel=options.kernel,
            width=width,
            row_sums=options.row_sums,
            repeats=identity is not None,
        )
        for a, b in map(_position, tiles):
            part, sums = compute(piece(a), piece(b), diagonal=a == b or few)
            table[:, first[a] : first[a] + width, first[b] : first[b] + width] += np.asarray(part)
            if rows is not None:
                rows[:, a * size : (a + 1) * size] += np.asarray(sums[0])
                rows[:, b * size : (b + 1) * size] += np.asarray(sums[1])
            tick()
    return _TileSums(table[:, :-width, :-width], None if rows is None else rows[:, : len(x)])


def _blocks_per_piece(label: np.ndarray, size: int) -> int:
    """How many blocks a piece of `size` draws may meet, as one of a few numbers."""
    last = np.append(label[size - 1 :: size], label[-1])[: len(label[::size])]
    widest = np.max(last - label[::size]) + 1
    return next(number for number in BLOCKS_PER_PIECE if number >= widest)


def _position(tile: int) -> tuple[int, int]:
    """Row and column of a tile.

    Examples
    --------
    >>> [_position(tile) for tile in range(4)]
    [(0, 0), (0, 1), (1, 1), (0, 2)]
    """
    column = (isqrt(8 * tile + 1) - 1) // 2
    return tile - column * (column + 1) // 2, column


def _labelled_piece(sample: _SortedSample, rows: slice) -> Piece:
    """Some rows, padded to the full length of the slice; padding has the index and the label -1."""
    x, scores, identity, label, weight = sample
    size = rows.stop - rows.start
    index = np.arange(rows.start, min(rows.stop, len(x)), dtype=np.int32)
    arrays = [
        x[None, rows],
        scores[None, rows],
        index,
        index if identity is None else identity[rows].astype(np.int32),
        (label[rows] - label[rows.start]).astype(np.int32),
    ]
    if weight is not None:
        arrays.append(weight[rows])
    return Piece(*jax.device_put([padded(array, min(array.ndim - 1, 1), size) for array in arrays]))


@partial(jax.jit, static_argnames=("kernel", "width", "row_sums", "repeats", "diagonal"))
def _tile(
    left: Piece,
    right: Piece,
    bandwidths: Any,
    *,
    kernel: Kernel,
    width: int,
    row_sums: bool,
    repeats: bool,
    diagonal: bool,
) -> tuple[Any, Any]:
    """Sums of one tile over pairs of blocks, (K, width, width), and by row and column, (K, rows).

    Padding belongs to no block; only pairs that must not count otherwise are masked, which takes time.
    """
    numbers = jnp.arange(width)
    of_rows = (left.label[:, None] == numbers).astype(jnp.float64)
    of_columns = (right.label[:, None] == numbers).astype(left.x.dtype)
    columns = right.x[0].T.copy()
    column_scores = right.scores[0].T.copy()
    masked = diagonal or repeats
    if left.weight is not None:
        of_rows = of_rows * left.weight[:, None]
        of_columns = of_columns * right.weight[:, None]

    def strip(rows: Piece) -> tuple[Any, Any]:
        products = products_with_columns(rows.x, rows.scores, columns, column_scores)
        keep = pairs_to_keep(rows, right, repeats) if masked else True
        present = (rows.label >= 0).astype(rows.x.dtype)

        def one(bandwidth: Any) -> tuple[Any, Any]:
            u = jnp.where(keep, stein_values(with_bandwidth(kernel, bandwidth), *products), 0)
            by_column = present @ u if row_sums else None  # a product takes a third of the time of a sum
            return u @ of_columns, by_column

        if len(bandwidths) == 1:
            return jax.tree.map(lambda value: value[None], one(bandwidths[0]))
        return jax.lax.map(one, bandwidths)

    by_block, by_column = jax.lax.map(strip, _strips(left))
    by_block = jnp.moveaxis(by_block, 1, 0).reshape(len(bandwidths), -1, width).astype(jnp.float64)
    sums = (by_block.sum(axis=2), by_column.sum(axis=0, dtype=jnp.float64)) if row_sums else None
    return of_rows.T @ by_block, sums


def _strips(piece: Piece) -> Piece:
    """The rows of the one sample of a piece in groups of `ROWS_PER_STRIP`."""
    flat = piece._replace(x=piece.x[0], scores=piece.scores[0])
    return jax.tree.map(lambda a: a.reshape(-1, ROWS_PER_STRIP, *a.shape[1:]), flat)
