"""The streaming engine: sums of the Stein matrix over pairs of blocks, quadratic forms and row sums.

H is the n x n matrix of Stein kernel values, zero on the diagonal. It is never formed: one pass over the
tiles above the diagonal, each counted twice, gives all that a test needs. A tile is multiplied by factors
(n, p): weights of the draws, or indicators of blocks. For several bandwidths the results are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from math import isqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._progress import ticking
from .._sharing import n_workers, share_out
from .kernels import Kernel, products_with_columns, stein_values, with_bandwidth, without_bandwidth

SMALL_TILE = 256  # rows and columns
LARGE_TILE = 1024  # for more than 4096 draws; below, too much of it would be padding
ROWS_PER_STRIP = 128  # of a tile, evaluated at once: their products stay in the cache of one core
MIN_EVALUATIONS_FOR_PROGRESS = 10**9  # of the kernel: seconds, worth a progress bar
MIN_EVALUATIONS_TO_SHARE = 10**8  # of the kernel: about a second; with fewer, sending takes longer


class Forms(NamedTuple):
    """Quadratic forms of H; the first axis has one entry per bandwidth."""

    total: np.ndarray  #: (K,) 1'H1
    replicates: np.ndarray  #: (K, B) w'Hw
    row_sums: np.ndarray | None  #: (K, J, n) H_j 1 for each sample of the stack, if asked for


class BlockPairSums(NamedTuple):
    """Sums of the Stein matrices over pairs of blocks; the first axis has one entry per bandwidth."""

    table: np.ndarray  #: (K, J, q, q), symmetric; a draw with itself counts 0
    row_sums: np.ndarray | None  #: (K, n) sums over all other draws and all samples, if asked for


def quadratic_forms(
    x: np.ndarray,
    scores: np.ndarray,
    kernel: Kernel,
    bandwidths: Any,
    weights: np.ndarray | None = None,
    *,
    row_sums: bool = False,
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
        float64 and multiplied in float32, which moves totals and replicates by about 1e-7 of their spread.
    row_sums : bool
        Return the row sums of each H_j too.
    """
    n = x.shape[1]
    widths = _as_bandwidths(bandwidths)
    weights = np.zeros((0, n), dtype=np.int8) if weights is None else np.asarray(weights)
    every = np.concatenate([np.ones((1, n), dtype=weights.dtype), weights])
    dtype = np.float32 if n * n * len(weights) * len(widths) > 3e9 else np.float64
    options = _Options(without_bandwidth(kernel), tuple(widths.tolist()), row_sums)
    centred = x - x[0].mean(axis=0)
    parts = np.array_split(every, -(-len(every) // 1024))  # whose weights are held in float64
    found = []
    for k, part in enumerate(parts):
        sample = _Stack(centred, np.asarray(scores, dtype=float), None, part.T.astype(dtype))
        found.append(_sum_stack(sample, options._replace(row_sums=row_sums and k == 0)))
    values = 2 * np.concatenate([sums.values for sums in found], axis=1)
    _check_finite(widths, scores, values)
    return Forms(values[:, 0], values[:, 1:], found[0].rows)


def sums_of_block_pairs(
    x: np.ndarray,
    scores: np.ndarray,
    kernel: Kernel,
    bandwidths: Any,
    block: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    row_sums: bool = False,
    single: bool | None = None,
) -> BlockPairSums:
    """Sum the Stein kernel over all pairs of blocks, for every sample of a stack and every bandwidth.

    Every pair of draws is evaluated once per bandwidth, its distance once in all.

    Parameters
    ----------
    x, scores, kernel, bandwidths
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
    widths = _as_bandwidths(bandwidths)
    dtype = np.float32 if (single_suffices(x, widths) if single is None else single) else np.float64
    options = _Options(without_bandwidth(kernel), tuple(widths.tolist()), row_sums)
    weights = None if weight is None else np.asarray(weight)[order].astype(dtype)
    origin = x[0].mean(axis=0)
    tables = []
    rows = np.zeros((len(widths), len(block)))
    for points, slopes in zip(x, scores, strict=True):
        z = (points[order] - origin).astype(dtype)
        sample = _Stack(z[None], slopes[None, order].astype(dtype), np.asarray(block)[order], weights)
        sums = _sum_stack(sample, options)
        tables.append(sums.values + sums.values.transpose(0, 2, 1))
        if sums.rows is not None:
            rows += sums.rows[:, 0]
    table = np.stack(tables, axis=1)
    _check_finite(widths, scores, table)
    return BlockPairSums(table, rows[:, np.argsort(order)] if row_sums else None)


def single_suffices(x: np.ndarray, bandwidths: np.ndarray) -> bool:
    """Whether float32 resolves the distances between the draws (J, n, d) as finely as the kernel needs.

    The largest squared distance from the centre may be 10^4 times the least bandwidth plus the squared
    distance that 1 % of the pairs fall below: what the kernel sees of a squared distance is then wrong by a
    few thousandths, at all but 1 % of the pairs. It does not suffice where the kernel's width is not known, a
    bandwidth of NaN.
    """
    origin = x[0].mean(axis=0)
    reach = max(np.max(np.sum((sample - origin) ** 2, axis=1)) for sample in x)
    some = x[0, :: -(-x.shape[1] // 100)]  # all pairs of these are looked at
    first, second = np.triu_indices(len(some), k=1)
    small = np.quantile(np.sum((some[first] - some[second]) ** 2, axis=1), 0.01)
    return bool(reach <= 1e4 * (bandwidths.min() + small))


def _as_bandwidths(bandwidths: Any) -> np.ndarray:
    """Bandwidths (K,) for the compiled programs; None, for a kernel without any, becomes NaN."""
    return np.atleast_1d(np.asarray(np.nan if bandwidths is None else bandwidths, dtype=float))


def _check_finite(bandwidths: np.ndarray, scores: np.ndarray, values: np.ndarray) -> None:
    """Raise if any of `values` (K, ...) is not finite, and name the bandwidth."""
    bad = ~np.isfinite(values).reshape(len(bandwidths), -1).all(axis=1)
    if bad.any():
        bandwidth = bandwidths[bad][0]
        used = "" if np.isnan(bandwidth) else f"the bandwidth {bandwidth:.3g} and "
        raise ValueError(
            f"the Stein kernel is not finite with {used}scores up to "
            f"{np.abs(scores).max():.3g}: give `kernel` another bandwidth, or rescale the draws"
        )


class _Options(NamedTuple):
    """What is computed of every tile."""

    kernel: Kernel
    bandwidths: tuple[float, ...]
    row_sums: bool


class _Stack(NamedTuple):
    """Samples of the same draws, centred; for blocks sorted by them. Arrays that travel to workers."""

    x: np.ndarray  # (J, n, d)
    scores: np.ndarray  # (J, n, d)
    label: np.ndarray | None  # (n,) block of each draw, ascending
    weight: np.ndarray | None  # (n,) of each draw in its block, or (n, p) weights


class _TileSums(NamedTuple):
    """Sums over some tiles above the diagonal."""

    values: np.ndarray  # (K, q, q) over pairs of blocks, or (K, p) forms
    rows: np.ndarray | None  # (K, J, n)


def _sum_stack(stack: _Stack, options: _Options) -> _TileSums:
    """Sums over all tiles, shared out among the workers of joblib's active backend, if there is one."""
    n_samples, n, _ = stack.x.shape
    side = -(-n // _tile_size(n))
    tiles = range(side * (side + 1) // 2)
    evaluations = n * n // 2 * n_samples * len(options.bandwidths)
    workers = n_workers() if evaluations >= MIN_EVALUATIONS_TO_SHARE else 1
    length = -(-len(tiles) // (4 * workers)) if workers > 1 else 1  # workers finish nearly together
    parts = [(tiles[start : start + length], options) for start in range(0, len(tiles), length)]
    with ticking("Stein kernel", len(parts), shown=evaluations >= MIN_EVALUATIONS_FOR_PROGRESS) as tick:
        if workers == 1:
            return _sum_tiles(*stack, tiles, options, tick)
        found = []
        for sums in share_out(_sum_tiles, stack, parts):
            found.append(sums)
            tick()
    rows = sum(sums.rows for sums in found) if options.row_sums else None
    return _TileSums(sum(sums.values for sums in found), rows)


def _tile_size(n: int) -> int:
    return LARGE_TILE if n > 4096 else SMALL_TILE


def _sum_tiles(
    x: np.ndarray,
    scores: np.ndarray,
    label: np.ndarray | None,
    weight: np.ndarray | None,
    tiles: range,
    options: _Options,
    tick: Callable[[], object] = lambda: None,
) -> _TileSums:
    """Sums over the tiles with these numbers, which count them column by column above the diagonal.

    Arrays are arguments of their own: those joblib sends to a worker once.
    """
    stack = _Stack(x, scores, label, weight)
    size = _tile_size(x.shape[1])
    starts = range(0, x.shape[1], size)
    few = len(starts) <= 4  # few tiles are masked like those on the diagonal: compiling takes longer
    count = len(options.bandwidths)
    if label is None:
        assert weight is not None
        first, width = np.zeros(len(starts), dtype=int), 0
        values = np.zeros((count, weight.shape[1]))
    else:
        first, width = label[::size], _blocks_per_piece(label, size)
        values = np.zeros((count, label[-1] + 1 + width, label[-1] + 1 + width))
    rows = np.zeros((count, len(x), len(starts) * size)) if options.row_sums else None

    @lru_cache(maxsize=1024)  # as arrays of JAX, at most 80 MB for one sample in 10 dimensions
    def piece(k: int) -> _Piece:
        return _piece(stack, slice(k * size, (k + 1) * size))

    with jax.enable_x64(True):
        widths = np.array(options.bandwidths, dtype=x.dtype)
        compute = partial(_tile, kernel=options.kernel, width=width, row_sums=options.row_sums)
        for a, b in map(_position, tiles):
            part, sums = compute(piece(a), piece(b), widths, diagonal=a == b or few)
            place = np.s_[:, first[a] : first[a] + width, first[b] : first[b] + width] if width else np.s_[:]
            values[place] += np.asarray(part)
            if rows is not None:
                rows[:, :, a * size : (a + 1) * size] += np.asarray(sums[0])
                rows[:, :, b * size : (b + 1) * size] += np.asarray(sums[1])
            tick()
    values = values[:, :-width, :-width] if width else values
    return _TileSums(values, None if rows is None else rows[:, :, : x.shape[1]])


def _blocks_per_piece(label: np.ndarray, size: int) -> int:
    """How many blocks a piece of `size` draws may meet, as one of a few numbers: each compiles once."""
    last = np.append(label[size - 1 :: size], label[-1])[: len(label[::size])]
    widest = np.max(last - label[::size]) + 1
    return next(width for width in (1, 8, 16, 32, 128, size) if width >= widest)


def _position(tile: int) -> tuple[int, int]:
    """Row and column of a tile.

    Examples
    --------
    >>> [_position(tile) for tile in range(4)]
    [(0, 0), (0, 1), (1, 1), (0, 2)]
    """
    column = (isqrt(8 * tile + 1) - 1) // 2
    return tile - column * (column + 1) // 2, column


class _Piece(NamedTuple):
    """A range of draws in all samples of a stack, padded to the size of a tile."""

    x: Any  # (J, rows, d)
    scores: Any  # (J, rows, d)
    index: Any  # (rows,) position of each draw, -1 for padding
    label: Any  # (rows,) block of each draw, counted from the first block of the piece, or -1
    weight: Any  # (rows,), (rows, p) or None


def _piece(stack: _Stack, rows: slice) -> _Piece:
    x, scores, label, weight = stack
    index = np.arange(rows.start, min(rows.stop, x.shape[1]), dtype=np.int32)
    missing = rows.stop - rows.start - len(index)

    def padded(values: np.ndarray | None, axis: int = 0) -> np.ndarray | None:
        """0 for numbers, -1 for indices."""
        if values is None or not missing:
            return values
        width = [(0, missing if k == axis else 0) for k in range(values.ndim)]
        return np.pad(values, width, constant_values=-1 if values.dtype == np.int32 else 0)

    return jax.device_put(
        _Piece(
            padded(x[:, rows], 1),
            padded(scores[:, rows], 1),
            padded(index),
            None if label is None else padded((label[rows] - label[rows.start]).astype(np.int32)),
            None if weight is None else padded(weight[rows]),
        )
    )


@partial(jax.jit, static_argnames=("kernel", "width", "row_sums", "diagonal"))
def _tile(
    left: _Piece,
    right: _Piece,
    bandwidths: Any,
    *,
    kernel: Kernel,
    width: int,
    row_sums: bool,
    diagonal: bool,
) -> tuple[Any, Any]:
    """Sums of a tile: over pairs of blocks (K, width, width) or forms (K, p); by row and column (K, J, rows).

    Padding has no weight; only pairs that must not count otherwise are masked, which takes time.
    """
    of_columns = _factor(right, width)
    columns = jnp.swapaxes(right.x, 1, 2).copy()
    column_scores = jnp.swapaxes(right.scores, 1, 2).copy()
    present = (right.index >= 0).astype(left.x.dtype)

    def strip(rows: _Piece) -> tuple[Any, Any]:
        keep = (rows.index[:, None] < right.index) & (rows.index[:, None] >= 0) if diagonal else True
        here = (rows.index >= 0).astype(rows.x.dtype)

        def one(bandwidth: Any) -> tuple[Any, Any]:
            own = with_bandwidth(kernel, bandwidth)

            def matrix(sample: tuple[Any, ...]) -> tuple[Any, Any]:
                u = jnp.where(keep, stein_values(own, *products_with_columns(*sample)), 0)
                return u, (u @ present, here @ u) if row_sums else None

            samples = (rows.x, rows.scores, columns, column_scores)
            if len(columns) == 1:
                u, sums = matrix(tuple(part[0] for part in samples))
                sums = jax.tree.map(lambda value: value[None], sums)
            else:
                zero = jnp.zeros((len(rows.index), len(present)), rows.x.dtype)
                u, sums = jax.lax.scan(lambda h, sample: _add(h, *matrix(sample)), zero, samples)
            return u.astype(of_columns.dtype) @ of_columns, sums

        if len(bandwidths) == 1:
            return jax.tree.map(lambda value: value[None], one(bandwidths[0]))
        return jax.lax.map(one, bandwidths)

    products, sums = jax.lax.map(strip, _strips(left))  # (strips, K, rows of a strip, p)
    products = jnp.moveaxis(products, 1, 0).reshape(len(bandwidths), len(left.index), -1)
    of_rows = _factor(left, width).astype(jnp.float64)
    if width:
        found = of_rows.T @ products.astype(jnp.float64)
    else:
        found = jnp.sum(products * of_rows, axis=1, dtype=jnp.float64)
    if row_sums:
        by_row = jnp.moveaxis(sums[0], 0, 2).reshape(len(bandwidths), len(left.x), -1)
        sums = by_row.astype(jnp.float64), sums[1].sum(axis=0, dtype=jnp.float64)
    return found, sums


def _add(total: Any, u: Any, sums: Any) -> tuple[Any, Any]:
    return total + u, sums


def _factor(piece: _Piece, width: int) -> Any:
    """What a tile is multiplied by: the weights (rows, p), or the indicators (rows, width) of the blocks."""
    if not width:
        return piece.weight
    member = (piece.label[:, None] == jnp.arange(width)).astype(piece.x.dtype)
    return member if piece.weight is None else member * piece.weight[:, None]


def _strips(piece: _Piece) -> _Piece:
    """The rows of a piece in groups of `ROWS_PER_STRIP`."""
    count = len(piece.index) // ROWS_PER_STRIP

    def cut(values: Any) -> Any:
        return jnp.moveaxis(values.reshape(len(values), count, ROWS_PER_STRIP, -1), 1, 0)

    return _Piece(cut(piece.x), cut(piece.scores), piece.index.reshape(count, -1), None, None)
