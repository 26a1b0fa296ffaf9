"""The streaming engine: sums of the Stein matrix over pairs of blocks, quadratic forms and row sums.

H is the n x n matrix of Stein kernel values, zero on the diagonal. It is never formed: one pass over the
tiles above the diagonal, each counted twice, gives all that a test needs. A tile is multiplied by factors
(n, p): weights of the draws, or indicators of blocks. For several bandwidths the results are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._work import n_workers, progress_bar, share_out
from .kernels import Kernel, stein_kernel_of_columns, with_bandwidth, without_bandwidth

SMALL_TILE = 256  # rows and columns
LARGE_TILE = 1024  # for more than 4096 draws; below, too much of it would be padding
ROWS_PER_STRIP = 128  # of a tile, evaluated at once: their products stay in the cache of one core
MIN_EVALUATIONS_TO_SHARE = 10**8  # of the kernel: about a second; ten times as many show a progress bar


class Forms(NamedTuple):
    """Quadratic forms of H; the first axis has one entry per bandwidth."""

    total: np.ndarray  #: (K,) 1'H1
    replicates: np.ndarray  #: (K, B) w'Hw
    row_sums: np.ndarray | None  #: (K, J, n) H_j 1 for each sample of the stack, if asked for


class BlockPairSums(NamedTuple):
    """Sums of the Stein matrices over pairs of blocks; the first axis has one entry per bandwidth."""

    table: np.ndarray  #: (K, J, q, q), symmetric; a draw with itself counts 0
    row_sums: Any  #: (K, n) sums over all other draws and all samples, if asked for


def quadratic_forms(
    x: np.ndarray,
    scores: np.ndarray,
    kernel: Kernel,
    bandwidths: Any,
    multipliers: np.ndarray | None = None,
    *,
    weight: np.ndarray | None = None,
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
    multipliers : array (B, n), optional
        Of the draws, by a bootstrap. Everything is float64 up to 3e9 multiply-adds; beyond, tiles are
        evaluated in float64 and multiplied in float32, which moves totals and replicates by about 1e-7 of
        their spread.
    weight : array (n,), optional
        Of each draw; H_ij is multiplied by those of i and j.
    row_sums : bool
        Return the row sums of each H_j too.
    """
    n = x.shape[1]
    widths = _as_bandwidths(bandwidths)
    weight = np.ones(n) if weight is None else weight
    multipliers = np.zeros((0, n), dtype=np.int8) if multipliers is None else np.asarray(multipliers)
    every = np.concatenate([np.ones((1, n), dtype=multipliers.dtype), multipliers])
    dtype = np.float32 if n * n * len(multipliers) * len(widths) > 3e9 else np.float64
    work = partial(_sum_tiles, kernel=without_bandwidth(kernel), bandwidths=widths)
    centred = x - x[0].mean(axis=0)
    parts = np.array_split(every, -(-len(every) // 1024))  # of which one is held in float64
    found = []
    for k, part in enumerate(parts):
        factor = (part.T * weight[:, None]).astype(dtype)
        stack = _Stack(centred, np.asarray(scores, dtype=float), weight, None, factor)
        found.append(_sum_stack(partial(work, row_sums=row_sums and k == 0), stack, len(widths)))
    values = 2 * np.concatenate([part for part, _ in found], axis=1)
    _check_finite(widths, scores, values)
    return Forms(values[:, 0], values[:, 1:], found[0][1] if row_sums else None)


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
    weight
        As in `quadratic_forms`.
    row_sums : bool
        Return the row sums of the summed matrix too, in the order of the draws.
    single : bool, optional
        Evaluate tiles in float32, with sums in float64; by default where this is accurate enough.
    """
    order = np.argsort(block, kind="stable")
    widths = _as_bandwidths(bandwidths)
    dtype = np.float32 if (single_suffices(x, widths) if single is None else single) else np.float64
    common = {"kernel": without_bandwidth(kernel), "bandwidths": widths.astype(dtype)}
    work = partial(_sum_tiles, **common, row_sums=row_sums)
    weights = np.ones(len(block), dtype) if weight is None else np.asarray(weight)[order].astype(dtype)
    origin = x[0].mean(axis=0)
    tables = []
    rows = np.zeros((len(widths), len(block)))
    for points, slopes in zip(x, scores, strict=True):
        z = (points[order] - origin).astype(dtype)
        stack = _Stack(z[None], slopes[None, order].astype(dtype), weights, np.asarray(block)[order], None)
        values, sums = _sum_stack(work, stack, len(widths))
        tables.append(values + values.transpose(0, 2, 1))
        if row_sums:
            rows += sums[:, 0]
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


class _Stack(NamedTuple):
    """Samples of the same draws, centred; for blocks sorted by them. Arrays that travel to workers."""

    x: np.ndarray  # (J, n, d)
    scores: np.ndarray  # (J, n, d)
    weight: np.ndarray  # (n,)
    label: np.ndarray | None  # (n,) block of each draw, ascending
    factor: np.ndarray | None  # (n, p) by which H is multiplied, where there are no blocks


def _sum_stack(
    work: Callable[..., tuple[np.ndarray, np.ndarray]], stack: _Stack, n_bandwidths: int
) -> tuple[np.ndarray, np.ndarray]:
    """`_sum_tiles` over all tiles, shared out among the workers of joblib's active backend, if it has any."""
    n_samples, n, _ = stack.x.shape
    columns, rows = np.tril_indices(-(-n // _tile_size(n)))
    tiles = np.column_stack([rows, columns])  # column by column above the diagonal
    evaluations = n * n // 2 * n_samples * n_bandwidths
    workers = n_workers() if evaluations >= MIN_EVALUATIONS_TO_SHARE else 1
    length = -(-len(tiles) // (4 * workers)) if workers > 1 else 1  # workers finish nearly together
    parts = [(tiles[start : start + length],) for start in range(0, len(tiles), length)]
    with progress_bar(None if evaluations >= 10 * MIN_EVALUATIONS_TO_SHARE else False) as show:
        if workers == 1:
            return work(*stack, tiles, lambda done: show("Stein kernel", done, len(tiles)))
        found = []
        for sums in share_out(work, stack, parts):
            found.append(sums)
            show("Stein kernel", len(found), len(parts))
    return sum(values for values, _ in found), sum(by_row for _, by_row in found)


def _tile_size(n: int) -> int:
    return LARGE_TILE if n > 4096 else SMALL_TILE


def _sum_tiles(
    x: np.ndarray,
    scores: np.ndarray,
    weight: np.ndarray,
    label: np.ndarray | None,
    factor: np.ndarray | None,
    tiles: np.ndarray,
    tick: Callable[[int], object] = lambda done: None,
    *,
    kernel: Kernel,
    bandwidths: np.ndarray,
    row_sums: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the tiles with these rows and columns (T, 2).

    They are sums over pairs of blocks (K, q, q) or forms (K, p), and by row (K, J, n). Arrays of the stack
    are arguments of their own: those joblib sends to a worker once.
    """
    n_samples, n, _ = x.shape
    size = _tile_size(n)
    starts = range(0, n, size)
    few = len(starts) <= 4  # few tiles are masked like those on the diagonal: compiling takes longer
    rows = np.zeros((len(bandwidths), n_samples, len(starts) * size))
    if label is None:
        assert factor is not None
        first, width = np.zeros(len(starts), dtype=int), 0
        values = np.zeros((len(bandwidths), factor.shape[1]))
    else:
        first, width = label[::size], _blocks_per_piece(label, size)
        values = np.zeros((len(bandwidths), label[-1] + 1 + width, label[-1] + 1 + width))

    # as arrays of JAX, at most 80 MB for one sample in 10 dimensions
    piece = lru_cache(maxsize=1024)(partial(_piece, _Stack(x, scores, weight, label, factor), size))
    with jax.enable_x64(True):
        compute = partial(_tile, kernel=kernel, width=width, row_sums=row_sums)
        for done, (a, b) in enumerate(tiles.tolist(), start=1):
            part, sums = compute(piece(a), piece(b), bandwidths, diagonal=a == b or few)
            place = np.s_[:, first[a] : first[a] + width, first[b] : first[b] + width] if width else np.s_[:]
            values[place] += np.asarray(part)
            if row_sums:
                rows[:, :, a * size : (a + 1) * size] += np.asarray(sums[0])
                rows[:, :, b * size : (b + 1) * size] += np.asarray(sums[1])
            tick(done)
    return values[:, :-width, :-width] if width else values, rows[:, :, :n] * weight


def _blocks_per_piece(label: np.ndarray, size: int) -> int:
    """How many blocks a piece of `size` draws may meet, as one of a few numbers: each compiles once."""
    last = np.append(label[size - 1 :: size], label[-1])[: len(label[::size])]
    widest = np.max(last - label[::size]) + 1
    return next(width for width in (1, 8, 16, 32, 128, size) if width >= widest)


class _Piece(NamedTuple):
    """A range of draws in all samples of a stack, padded with zeros to the size of a tile."""

    x: Any  # (J, rows, d)
    scores: Any  # (J, rows, d)
    index: Any  # (rows,) position of each draw, n for padding
    weight: Any  # (rows,)
    label: Any = None  # (rows,) block of each draw, counted from the first block of the piece
    factor: Any = None  # (rows, p)


def _piece(stack: _Stack, size: int, k: int) -> _Piece:
    """Range number k of the draws."""
    x, scores, weight, label, factor = stack
    n, rows = x.shape[1], slice(k * size, (k + 1) * size)
    missing = (0, max(0, rows.stop - n))
    samples = ((0, 0), missing, (0, 0))
    piece = _Piece(
        np.pad(x[:, rows], samples),
        np.pad(scores[:, rows], samples),
        np.minimum(np.arange(rows.start, rows.stop, dtype=np.int32), n),
        np.pad(weight[rows], missing),
    )
    if label is not None:
        piece = piece._replace(label=np.pad((label[rows] - label[rows.start]).astype(np.int32), missing))
    if factor is not None:
        piece = piece._replace(factor=np.pad(factor[rows], samples[1:]))
    return jax.device_put(piece)


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

    def strip(rows: _Piece) -> tuple[Any, Any]:
        keep = rows.index[:, None] < right.index if diagonal else True
        zero = jnp.zeros((len(rows.index), len(right.index)), rows.x.dtype)

        def one(bandwidth: Any) -> tuple[Any, Any]:
            own = with_bandwidth(kernel, bandwidth)

            def add(total: Any, sample: tuple[Any, ...]) -> tuple[Any, Any]:
                u = jnp.where(keep, stein_kernel_of_columns(own, *sample), 0)
                return total + u, (u @ right.weight, rows.weight @ u) if row_sums else None

            total, sums = jax.lax.scan(add, zero, (rows.x, rows.scores, columns, column_scores))
            return total.astype(of_columns.dtype) @ of_columns, sums

        return jax.lax.map(one, bandwidths)

    shape = (len(left.x), -1, ROWS_PER_STRIP, left.x.shape[2])
    samples = (jnp.moveaxis(values.reshape(shape), 1, 0) for values in (left.x, left.scores))
    strips = _Piece(*samples, *(one.reshape(-1, ROWS_PER_STRIP) for one in (left.index, left.weight)))
    products, sums = jax.lax.map(strip, strips)  # (strips, K, rows of a strip, p)
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


def _factor(piece: _Piece, width: int) -> Any:
    """What a tile is multiplied by: the factor (rows, p), or the weights by block (rows, width)."""
    if not width:
        return piece.factor
    return (piece.label[:, None] == jnp.arange(width)) * piece.weight[:, None]
