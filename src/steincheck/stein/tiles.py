"""The streaming engine: totals, row sums and quadratic forms of the Stein matrix, tile by tile.

H is the n x n matrix of Stein kernel values with zero diagonal. It is never formed: one pass over the
tiles above the diagonal, counted twice, gives everything a test needs. For a stack of J samples H is the
sum of the J matrices; for several bandwidths the results are kept apart.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

UNROLL = 8  # up to this dimension differences are formed coordinate by coordinate
LARGE = 4096  # draws from which on large tiles pay
SMALL_TILE, LARGE_TILE = (256, 256), (2048, 1024)  # rows, columns
# One product takes up to DEEP rows of H, up to BROAD columns (of all bandwidths side by side) and up to CHUNK
# replicates: large enough to run at full speed, small enough that memory is used again instead of asked for.
DEEP, BROAD, CHUNK = 1024, 2816, 1024
SINGLE_FROM = 3e9  # multiply-adds of the replicates from which on tiles are stored in float32


class Forms(NamedTuple):
    """Quadratic forms of H; the first axis has one entry a bandwidth."""

    total: np.ndarray  #: (K,) 1'H1
    replicates: np.ndarray  #: (K, B) w'Hw
    row_sums: np.ndarray | None  #: (K, J, n) H_j 1 for each sample of the stack, if asked for


def quadratic_forms(
    x: np.ndarray,
    scores: np.ndarray,
    kernel: Any,
    bandwidths: Any,
    weights: np.ndarray | None = None,
    *,
    row_sums: bool = False,
    tile: tuple[int, int] | None = None,
) -> Forms:
    """Stream H = sum_j H_j over a stack of samples and return its quadratic forms.

    Parameters
    ----------
    x, scores : arrays (J, n, d)
        The stack of samples and the scores at them.
    kernel : IMQ, RBF or alike
        Anything with ``profile(r2) -> phi, phi', phi''`` in JAX operations.
    bandwidths : array (K,)
        The kernel's `bandwidth` is replaced by each in turn; ignored by kernels without one.
    weights : array (B, n), optional
        Bootstrap weights. Everything is float64 up to 3e9 multiply-adds; beyond, tiles are evaluated in
        float64 and stored in float32, which moves totals and replicates by about 1e-7 of their spread.
    row_sums : bool
        Return the row sums of each H_j too.
    tile : (rows, columns), optional
        Results do not depend on it beyond rounding.
    """
    n = x.shape[1]
    high, wide = tile or (LARGE_TILE if n > LARGE else SMALL_TILE)
    bandwidths = np.atleast_1d(np.asarray(bandwidths, dtype=float))
    abreast = 1 if row_sums else max(1, BROAD // wide)  # row sums of several at once would be slower
    groups = np.array_split(bandwidths, -(-len(bandwidths) // abreast))
    weights = np.zeros((0, n), dtype=np.int8) if weights is None else np.asarray(weights)
    single = n * n * len(weights) * len(bandwidths) > SINGLE_FROM
    if _has_bandwidth(kernel):
        kernel = replace(kernel, bandwidth=None)  # the static part; the bandwidth itself is traced
    centred = x - x[0].mean(axis=0)
    options = {"kernel": kernel, "single": single, "row_sums": row_sums}
    with jax.enable_x64(True):
        above = [_blocks(a, axis, high) for a, axis in ((centred, 1), (scores, 1), (_index(n), 0))]
        right = [_blocks(a, axis, wide) for a, axis in ((centred, 1), (scores, 1), (_index(n), 0))]
        chunks = [(_blocks(chunk, 1, high), _blocks(chunk, 1, wide)) for chunk in _chunks(weights)]
        results = [
            _stream(
                list(zip(*above, strict=True)), list(zip(*right, strict=True)), chunks, group, (high, wide),
                options,
            )
            for group in groups
        ]  # fmt: skip
    totals, replicates, sums = zip(*results, strict=True)
    total, drawn = np.concatenate(totals), np.concatenate(replicates)[:, : len(weights)]
    bad = ~(np.isfinite(total) & np.isfinite(drawn).all(axis=1))
    if bad.any():
        raise ValueError(
            f"the Stein kernel is not finite with the bandwidth {bandwidths[bad][0]:.3g} and scores up to "
            f"{np.abs(scores).max():.3g}: give `kernel` another bandwidth, or other units to the draws"
        )
    return Forms(
        total,
        drawn,
        np.concatenate([s[:, :, :n] for s in sums]) if row_sums else None,
    )


def stein_kernel(kernel: Any, x: Any, sx: Any, y: Any, sy: Any) -> Any:
    """u(x_i, y_j) for all rows of x (n, d) and y (m, d) with scores sx, sy: an (n, m) JAX array.

    u(x, y) = phi s(x).s(y) - 2 phi' (s(x) - s(y)).(x - y) - 2 d phi' - 4 r2 phi''
    """
    d = x.shape[1]
    if d <= UNROLL:
        r2 = cross = inner = jnp.zeros(())
        for k in range(d):
            dx = x[:, k, None] - y[None, :, k]
            r2 = r2 + dx * dx
            cross = cross + dx * (sx[:, k, None] - sy[None, :, k])
            inner = inner + sx[:, k, None] * sy[None, :, k]
    else:
        inner = sx @ sy.T
        r2 = jnp.maximum(jnp.sum(x * x, 1)[:, None] + jnp.sum(y * y, 1) - 2 * (x @ y.T), 0.0)
        cross = jnp.sum(x * sx, 1)[:, None] + jnp.sum(y * sy, 1) - x @ sy.T - sx @ y.T
    phi, first, second = kernel.profile(r2)
    return phi * inner - 2 * first * (cross + d) - 4 * r2 * second


def _index(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.int32)


def _has_bandwidth(kernel: Any) -> bool:
    return is_dataclass(kernel) and any(f.name == "bandwidth" for f in fields(kernel))


def _blocks(a: np.ndarray, axis: int, size: int) -> list[Any]:
    """Cut `a` along `axis` into blocks of exactly `size`; padding is 0 for numbers, -1 for indices."""
    blocks = []
    for start in range(0, a.shape[axis], size):
        block = a[(slice(None),) * axis + (slice(start, start + size),)]
        missing = size - block.shape[axis]
        if missing:
            width = [(0, missing if k == axis else 0) for k in range(a.ndim)]
            block = np.pad(block, width, constant_values=-1 if a.dtype == np.int32 else 0)
        blocks.append(jnp.asarray(block))
    return blocks


def _chunks(weights: np.ndarray) -> list[np.ndarray]:
    """Cut the rows of `weights` into equal chunks; the last is filled up with zeros."""
    count = -(-len(weights) // CHUNK)
    size = -(-len(weights) // max(1, count))
    filled = np.pad(weights, ((0, count * size - len(weights)), (0, 0)))
    return [filled[c * size : (c + 1) * size] for c in range(count)]


def _stream(
    above: list, right: list, weights: list, bandwidths: np.ndarray, tile: tuple[int, int], options: dict
) -> tuple:
    """Total, replicates and row sums of one H a bandwidth: tiles that reach above the diagonal, by column."""
    high, wide = tile
    together = min(4, max(1, DEEP // high))  # each number of tiles multiplied together compiles once
    total = np.zeros(len(bandwidths))
    replicates = [np.zeros((len(bandwidths), 0))]
    replicates += [np.zeros((len(bandwidths), len(left[0]))) for left, _ in weights]
    row_parts: list[Any] = [0.0] * len(above)
    column_parts: list[Any] = [0.0] * len(right)
    for b, (xb, sb, ib) in enumerate(right):
        tiles: list[Any] = []
        last = min(len(above), -(-(b + 1) * wide // high)) - 1
        for a, (xa, sa, ia) in enumerate(above[: last + 1]):
            h, sums = _tile(xa, sa, ia, xb, sb, ib, bandwidths, **options)
            if options["row_sums"]:
                row_parts[a] = row_parts[a] + sums[0]
                column_parts[b] = column_parts[b] + sums[1]
            total += 2 * np.asarray(_sum(h))  # waits for the tile: without it they pile up in the queue
            tiles.append(h)
            if a == last or len(tiles) == together:
                for c, (left, across) in enumerate(weights, start=1):
                    product = _multiply_add(left[a + 1 - len(tiles) : a + 1], tiles)
                    replicates[c] += np.asarray(_contract(product, across[b])).T
                tiles = []
    forms = total, np.concatenate(replicates, axis=1)
    if not options["row_sums"]:
        return *forms, None
    rows = np.concatenate([np.asarray(part) for part in row_parts], axis=2)
    columns = np.concatenate([np.asarray(part) for part in column_parts], axis=2)
    width = min(rows.shape[2], columns.shape[2])
    return *forms, rows[:, :, :width] + columns[:, :, :width]


@partial(jax.jit, static_argnames=("kernel", "single", "row_sums"))
def _tile(
    xa: Any, sa: Any, ia: Any, xb: Any, sb: Any, ib: Any, bandwidths: Any,
    *, kernel: Any, single: bool, row_sums: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """The part of one tile of H above the diagonal, (rows, K, columns), and its sums by row and column."""
    keep = (ia[:, None] < ib[None, :]) & (ia[:, None] >= 0)
    kind = jnp.float32 if single else jnp.float64

    def matrix(bandwidth: Any) -> tuple[Any, Any]:
        own = replace(kernel, bandwidth=bandwidth) if _has_bandwidth(kernel) else kernel

        def one(sample: tuple[Any, Any, Any, Any]) -> Any:
            return jnp.where(keep, stein_kernel(own, *sample), 0.0)

        def add(h: Any, sample: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
            u = one(sample)
            ones = jnp.ones(u.shape[0]), jnp.ones(u.shape[1])
            return h + u, ((u @ ones[1], ones[0] @ u) if row_sums else None)

        if len(xa) == 1 and not row_sums:
            return one((xa[0], sa[0], xb[0], sb[0])).astype(kind), None
        h, sums = jax.lax.scan(add, jnp.zeros(keep.shape), (xa, sa, xb, sb))
        return h.astype(kind), sums

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
