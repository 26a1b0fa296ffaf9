"""Stein features of affine, quadratic and cubic fields, summed over blocks of draws by a compiled program."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._series import index_in_chain
from .coordinates import DAMPING, Coordinates, skew_coefficient, tail_coefficient


class Sums(NamedTuple):
    """Sums of features over q blocks, and over all modes."""

    correlation: Any  # (q, P), with the standard deviations held fixed
    curvature: Any  # (q, Q)
    location: Any  # (q, K)
    scale: Any  # (q, K)
    conditional_location: Any  # (q, C)
    conditional_scale: Any  # (q, C)
    skewness: Any  # (q, K)
    tails: Any  # (q, K)
    extremes: Any  # (q, K), tails and scale together
    overall_scale: Any  # (q, 1)
    radial_tails: Any  # (q, 1)
    count: Any  # (q, 1), responsibilities


class ModeSums(NamedTuple):
    """Sums of features over q blocks, mode by mode."""

    location: Any  # (q, M, K)
    scale: Any  # (q, M, K)
    overall_scale: Any  # (q, M, 1)
    count: Any  # (q, M, 1), responsibilities


class BlockSums(NamedTuple):
    """Sums of all features over blocks of draws."""

    pooled: Sums
    of_modes: ModeSums


def feature_sums(
    x: np.ndarray, scores: np.ndarray, coordinates: Coordinates, blocks: np.ndarray
) -> BlockSums:
    """Sums of all features over blocks; `blocks` (n,) numbers that of each draw, 0, 1, ..., in any order."""
    rows, owner = _pieces(blocks)
    size = _chunk_size(rows, coordinates)
    chunks = []
    with jax.enable_x64(True):
        for start in range(0, len(rows), size):
            index = rows[start : start + size]
            index = np.pad(index, ((0, size - len(index)), (0, 0)), constant_values=-1)
            present = (index >= 0).astype(float)
            chunks.append(_sums(x[index], scores[index], present, coordinates))
    firsts = np.flatnonzero(np.diff(owner, prepend=-1))

    def over_blocks(*parts: Any) -> np.ndarray:
        return np.add.reduceat(np.concatenate(parts)[: len(owner)], firsts)

    return jax.tree.map(over_blocks, *chunks)


def _pieces(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of draws (S, length of a piece), -1 where a piece is not full, and the block each belongs to."""
    order = np.append(np.argsort(blocks, kind="stable"), -1)
    lengths = np.bincount(blocks)
    starts = np.cumsum(lengths) - lengths
    piece = min(1 << int(np.ceil(np.log2(np.median(lengths)))), 1024)
    owner = np.repeat(np.arange(len(starts)), -(-lengths // piece))
    offset = index_in_chain(owner)[:, None] * piece + np.arange(piece)
    place = np.where(offset < lengths[owner, None], starts[owner, None] + offset, -1)
    return order[place], owner


def _chunk_size(rows: np.ndarray, coordinates: Coordinates) -> int:
    """Pieces in a chunk: a power of 2, so that another number of draws seldom compiles anything."""
    modes, _, directions = coordinates.project.shape
    # some 8 features per draw and direction, and products of all directions per piece, for each mode
    numbers = (2 + modes) * directions * (8 * rows.shape[1] + directions)
    fits = max(1, 4_000_000 // numbers)  # 4 million take 32 MB
    return min(1 << int(np.log2(fits)), 1 << int(np.ceil(np.log2(len(rows)))))


class View(NamedTuple):
    """Draws as one mode sees them, all (S, L, ...) for S pieces of L draws."""

    share: Any  # the responsibility, 0 for padding
    t: Any  # score of the density plus gradient of the log responsibility, in standard deviations
    z: Any  # along the directions
    u: Any  # conjugate to z
    square: Any  # squared distance in the metric of the mode


@jax.jit
def _sums(x: Any, scores: Any, present: Any, coordinates: Coordinates) -> BlockSums:
    away = x[None] - coordinates.centre[:, None, None, :]
    slope = -jnp.einsum("ksld,kde->ksle", away, coordinates.precision)
    square = -jnp.sum(slope * away, axis=-1)
    share = jnp.ones_like(square)
    if len(coordinates.centre) > 1:
        height = coordinates.log_weight[:, None, None] - 0.5 * square
        share = jax.nn.softmax(coordinates.sharpness * height, axis=0)
    pull = jnp.sum(share[..., None] * slope, axis=0)

    def one_mode(k: Any) -> Sums:
        t = (scores + coordinates.sharpness * (slope[k] - pull)) * coordinates.sd[k]
        z = away[k] / coordinates.sd[k] @ coordinates.project[k]
        view = View(share[k] * present, t, z, t @ coordinates.conjugate[k], square[k])
        return _sums_of_mode(view, coordinates, k)

    each = jax.lax.map(one_mode, jnp.arange(len(coordinates.centre)))
    own = (each.location, each.scale, each.overall_scale, each.count)
    return BlockSums(
        Sums(*(jnp.sum(part, axis=0) for part in each)),
        ModeSums(*(jnp.swapaxes(part, 0, 1) for part in own)),
    )


def _sums_of_mode(view: View, coordinates: Coordinates, k: Any) -> Sums:
    """Sums over pieces, weighted by responsibilities."""
    bowl, *shapes = _shapes(view.u, view.z, coordinates)
    t = view.t[..., coordinates.conditional]
    y = view.z[..., coordinates.conditional]
    ones = jnp.ones_like(view.share)[..., None]
    features = [view.u, view.u * view.z + 1, t, t * y + 1, *shapes, *_radial(view, coordinates), ones]
    totals = _totals(view.share, features)
    u = view.share[..., None] * view.u
    scale, count = totals[1], totals[-1]
    pairs = _correlation(jnp.einsum("slk,slm->skm", view.z, u), scale, count, coordinates, k)
    curvature = _curvature(jnp.einsum("slk,slm->skm", bowl, u), coordinates, k)
    return Sums(pairs, curvature, *totals)


def _totals(share: Any, parts: list[Any]) -> list[Any]:
    """Weighted sums over the draws of a piece; as one matrix product, which is faster than sums."""
    ends = np.cumsum([part.shape[-1] for part in parts])
    total = jnp.einsum("sl,slw->sw", share, jnp.concatenate(parts, axis=-1))
    return jnp.split(total, ends[:-1], axis=-1)


def _correlation(products: Any, scale: Any, count: Any, coordinates: Coordinates, k: Any) -> Any:
    """f_ij - R_ij (f_ii + f_jj) / 2, where f_ij is the product of z and u: spreads are held fixed."""
    i, j = coordinates.pairs
    overlap = jnp.sum(coordinates.project[k][:, i] * coordinates.conjugate[k][:, j], axis=0)
    pairs = 0.5 * (products[:, i, j] + products[:, j, i]) + overlap * count
    return pairs - 0.5 * overlap * (scale[:, i] + scale[:, j])


def _curvature(products: Any, coordinates: Coordinates, k: Any) -> Any:
    """h(z_i) (u_j - R_ij u_i) with h quadratic: for a Gaussian, a bend in the regression of z_j on z_i."""
    i, j = coordinates.ordered_pairs
    return products[:, i, j] - coordinates.conjugate[k, i, j] * products[:, i, i]


def _shapes(u: Any, z: Any, coordinates: Coordinates) -> tuple[Any, Any, Any, Any]:
    """A quadratic h, and s.v + div v for v = h(z) along each direction: h this one, cubic less linear, cubic.

    All are damped.
    """
    unit = 1 / coordinates.width
    scaled = (z - coordinates.middle) * unit
    square = scaled * scaled
    damp = _damp(square)
    cube = damp * jnp.sqrt(damp)  # products and roots: powers are slow
    bowl_slope = (2 - (3 / DAMPING**2) * square * damp) * scaled * cube
    bowl = square * cube - skew_coefficient()
    skewness = u * bowl + bowl_slope * unit
    cubic, slope = _tail_profile(square, damp)
    along = u * scaled
    extremes = along * cubic + (cubic + slope) * unit
    tails = extremes - tail_coefficient(1) * (along + unit)
    return bowl, skewness, tails, extremes


def _damp(q: Any) -> Any:
    return 1 / (1 + (1 / DAMPING**2) * q)


def _tail_profile(q: Any, damp: Any) -> tuple[Any, Any]:
    """h(q) and 2 q h'(q) for h = q / (1 + q/c^2)^2; `damp` is the root of the denominator's inverse."""
    height = q * damp * damp
    return height, 2 * height * (1 - (1 / DAMPING**2) * q) * damp


def _radial(view: View, coordinates: Coordinates) -> tuple[Any, Any]:
    """Overall scale and tails of the radius, (S, L, 1) each."""
    d = view.t.shape[-1]
    overall = jnp.sum(view.z[..., :d] * view.t, axis=-1) + d
    square = view.square / (d * coordinates.radius)
    height, slope = _tail_profile(square, _damp(square))
    tails = (height - tail_coefficient(d)) * overall + slope
    return overall[..., None], tails[..., None]
