"""Sums of the Stein matrix over pairs of blocks of draws: all that sign flips of blocks need, in one pass."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .kernels import pair_products, stein_values
from .tiles import Piece, check_finite, pairs_to_keep, pieces, stream, with_bandwidth, without_bandwidth

MIN_DRAWS_FOR_LARGE_TILES = 4096  # below, too much of a large tile would be padding
SMALL_TILE = 512  # rows and columns
LARGE_TILE = 1024
# Largest squared distance from the centre, in units of the smallest bandwidth, up to which tiles are
# evaluated in float32: squared distances are then wrong by at most a few thousandths of a bandwidth.
MAX_REACH_IN_SINGLE = 1e4
BLOCKS_PER_PIECE = (16, 64, 256, 1024)  # a piece may meet up to so many blocks; each number compiles once


class BlockSums(NamedTuple):
    """Sums of the Stein matrices over pairs of blocks; the first axis has one entry per bandwidth."""

    table: np.ndarray  #: (K, J, q, q), symmetric; a draw with itself and identical draws count 0
    row_sums: np.ndarray | None  #: (K, n) sums over all other draws and all samples, if asked for


def block_sums(
    x: np.ndarray,
    scores: np.ndarray,
    kernel: Any,
    bandwidths: Any,
    block: np.ndarray,
    *,
    identity: np.ndarray | None = None,
    row_sums: bool = False,
    single: bool | None = None,
) -> BlockSums:
    """Sum the Stein kernel over all pairs of blocks, for every sample of a stack and every bandwidth.

    Every pair of draws is evaluated once per bandwidth, its distance once in all. Nothing of size n x n is
    held.

    Parameters
    ----------
    x, scores, kernel, bandwidths, identity
        As in `quadratic_forms`.
    block : int array (n,)
        The block of each draw, 0 to q - 1.
    row_sums : bool
        Return the row sums of the summed matrix too, in the order of the draws.
    single : bool, optional
        Evaluate tiles in float32, with sums in float64; by default where this is accurate enough.
    """
    order = np.argsort(block, kind="stable")
    labels = np.asarray(block)[order]
    widths = np.atleast_1d(np.asarray(bandwidths, dtype=float))
    compute = partial(
        _tile,
        kernel=without_bandwidth(kernel),
        row_sums=row_sums,
        repeats=identity is not None,
    )
    ranks = None if identity is None else identity[order]
    dtype = np.float32 if (single_suffices(x, widths) if single is None else single) else np.float64
    tables = []
    rows = np.zeros((len(widths), len(block)))
    with jax.enable_x64(True):
        compute = partial(compute, bandwidths=jnp.asarray(widths, dtype=dtype))
        for points, slopes in zip(x, scores, strict=True):
            cut = _labelled_pieces(points[None, order], slopes[None, order], ranks, labels, dtype)
            table, sums = _sum_tiles(cut, compute, len(widths), labels)
            tables.append(table)
            rows += sums
    result = np.stack(tables, axis=1)
    check_finite(widths, scores, result)
    return BlockSums(result, rows[:, np.argsort(order)] if row_sums else None)


def single_suffices(x: np.ndarray, bandwidths: np.ndarray) -> bool:
    """Whether float32 resolves the distances between the draws (J, n, d) as finely as the kernel needs."""
    reach = np.max(np.sum((x - x[0].mean(axis=0)) ** 2, axis=2))
    return bool(reach <= MAX_REACH_IN_SINGLE * bandwidths.min())


class _Cut(NamedTuple):
    """Draws sorted by block, cut into pieces."""

    pieces: list[Piece]
    first: list[int]  # the first block of each piece
    width: int  # number of blocks that a piece may meet


def _labelled_pieces(
    x: np.ndarray, scores: np.ndarray, identity: np.ndarray | None, labels: np.ndarray, dtype: Any
) -> _Cut:
    size = LARGE_TILE if len(labels) > MIN_DRAWS_FOR_LARGE_TILES else SMALL_TILE
    starts = range(0, len(labels), size)
    parts = [labels[start : start + size] for start in starts]
    widest = max(part[-1] - part[0] + 1 for part in parts)
    width = next(number for number in BLOCKS_PER_PIECE if number >= widest)
    cut = []
    for piece, part in zip(pieces(x, scores, identity, size, dtype), parts, strict=True):
        local = np.full(size, -1, dtype=np.int32)
        local[: len(part)] = part - part[0]
        cut.append(piece._replace(label=jnp.asarray(local)))
    return _Cut(cut, [int(part[0]) for part in parts], width)


def _sum_tiles(cut: _Cut, compute: Any, count: int, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric table (K, q, q) of one sample, and its row sums (K, n), 0 if not computed."""
    q = int(labels[-1]) + 1
    size = len(cut.pieces[0].index)
    table = np.zeros((count, q + cut.width, q + cut.width))
    rows = np.zeros((count, len(cut.pieces) * size))
    for step in stream(cut.pieces, cut.pieces, partial(compute, width=cut.width)):
        part, sums = step.value
        a = cut.first[step.row]
        b = cut.first[step.column]
        table[:, a : a + cut.width, b : b + cut.width] += np.asarray(part)
        if sums is not None:
            rows[:, step.row * size : (step.row + 1) * size] += np.asarray(sums[0])
            rows[:, step.column * size : (step.column + 1) * size] += np.asarray(sums[1])
    half = table[:, :q, :q]
    return half + half.transpose(0, 2, 1), rows[:, : len(labels)]


@partial(jax.jit, static_argnames=("kernel", "width", "row_sums", "repeats"))
def _tile(
    left: Piece, right: Piece, bandwidths: Any, *, kernel: Any, width: int, row_sums: bool, repeats: bool
) -> tuple[Any, Any]:
    """Sums of one tile over pairs of blocks, (K, width, width), and by row and column, (K, rows)."""
    keep = pairs_to_keep(left, right, repeats)
    products = pair_products(left.x[0], left.scores[0], right.x[0], right.scores[0])
    numbers = jnp.arange(width)
    of_rows = (left.label[:, None] == numbers).astype(jnp.float64)
    of_columns = (right.label[:, None] == numbers).astype(left.x.dtype)

    def one(bandwidth: Any) -> tuple[Any, Any]:
        u = jnp.where(keep, stein_values(with_bandwidth(kernel, bandwidth), *products), 0)
        by_block = (u @ of_columns).astype(jnp.float64)
        sums = (by_block.sum(axis=1), jnp.sum(u, axis=0, dtype=jnp.float64)) if row_sums else None
        return of_rows.T @ by_block, sums

    return jax.lax.map(one, bandwidths)
