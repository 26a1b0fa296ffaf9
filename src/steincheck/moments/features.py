"""Stein features of affine, quadratic and cubic fields, summed over blocks of draws by a compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._series import index_in_chain
from .frames import DAMPING, Constants, Frame, skew_coefficient


class Sums(NamedTuple):
    """Sums of features over blocks; the first axis is the block, or mode and block."""

    location: Any  # (q, K)
    scale: Any  # (q, K)
    correlation: Any  # (q, P)
    conditional_location: Any  # (q, C)
    conditional_scale: Any  # (q, C)
    skewness: Any  # (q, K)
    tails: Any  # (q, K)
    extremes: Any  # (q, K), tails and scale together
    radial: Any  # (q, 2), overall scale and tails
    mode_location: Any  # (M, q, K)
    mode_scale: Any  # (M, q, K)
    mode_overall: Any  # (M, q)
    mode_count: Any  # (M, q), responsibilities
    mode_z: Any  # (M, K), over all blocks


def feature_sums(x: np.ndarray, scores: np.ndarray, frame: Frame, blocks: np.ndarray) -> Sums:
    """Sums of all features over blocks, `blocks` (n,) being numbers 0, 1, ... that do not decrease."""
    constants = frame.constants
    width = len(constants.pair_first) + len(constants.conditional) + constants.project.shape[2]
    program = partial(_sums, constants=constants, skew=skew_coefficient())
    axes = (0,) * 9 + (1,) * 4 + (None,)
    return Sums(*_by_blocks(program, (x, scores), blocks, axes, width * (2 + len(constants.centre))))


def _by_blocks(
    program: Any, arrays: tuple, blocks: np.ndarray, axes: tuple[int | None, ...], width: int
) -> list[np.ndarray]:
    """Run `program` over pieces of blocks, padded to few shapes, and add the pieces of a block up."""
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    lengths = np.diff(starts, append=len(blocks))
    rows, owner = _pieces(starts, lengths)
    size = _chunk_size(rows, width)
    chunks = []
    with jax.enable_x64(True):
        for start in range(0, len(rows), size):
            index = rows[start : start + size]
            index = np.pad(index, ((0, size - len(index)), (0, 0)), constant_values=-1)
            out = program(*(_taken(array, index) for array in arrays), (index >= 0).astype(float))
            chunks.append([np.asarray(part) for part in out])
    return [
        _over_blocks(parts, axis, owner) for parts, axis in zip(zip(*chunks, strict=True), axes, strict=True)
    ]


def _taken(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Rows of an array; without a copy where they are neighbours."""
    first = index[0, 0]
    if np.all(np.diff(index.ravel()) == 1):
        return array[first : first + index.size].reshape(*index.shape, -1)
    return array[index]


def _over_blocks(parts: Sequence[np.ndarray], axis: int | None, owner: np.ndarray) -> np.ndarray:
    """Add the pieces along `axis` up to the blocks that own them; without an axis, all of them."""
    if axis is None:
        return np.sum(parts, axis=0)
    pieces = np.concatenate(parts, axis=axis).take(range(len(owner)), axis=axis)
    return np.add.reduceat(pieces, np.flatnonzero(np.diff(owner, prepend=-1)), axis=axis)


def _pieces(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of draws (S, length of a piece), -1 where a piece is not full, and the block each belongs to."""
    piece = min(1 << int(np.ceil(np.log2(np.median(lengths)))), 1024)
    owner = np.repeat(np.arange(len(starts)), -(-lengths // piece))
    number = index_in_chain(owner)
    offset = number[:, None] * piece + np.arange(piece)
    rows = np.where(offset < lengths[owner, None], starts[owner, None] + offset, -1)
    return rows, owner


def _chunk_size(rows: np.ndarray, width: int) -> int:
    """Pieces in a chunk: a power of 2, so that another number of draws seldom compiles anything."""
    fits = max(1, 4_000_000 // (rows.shape[1] * width))  # 4 million features take 32 MB
    return min(1 << int(np.log2(fits)), 1 << int(np.ceil(np.log2(len(rows)))))


def _responsibilities(x: Any, present: Any, constants: Constants) -> tuple[Any, Any, Any]:
    """Responsibilities (M, S, L), 0 for padding; squared distances; gradient of the log Gaussian mixture."""
    away = x[None] - constants.centre[:, None, None, :]
    slope = -jnp.einsum("ksld,kde->ksle", away, constants.precision)
    square = -jnp.sum(slope * away, axis=-1)
    if len(constants.centre) == 1:
        return present[None], square, slope[0]
    share = jax.nn.softmax(constants.sharpness * (constants.log_weight[:, None, None] - 0.5 * square), axis=0)
    return share * present, square, jnp.sum(share[..., None] * slope, axis=0)


def _shapes(u: Any, z: Any, constants: Constants, skew: float) -> tuple[Any, Any, Any]:
    """s.v + div v for v = h(z) along each direction: h quadratic, cubic less linear, and cubic, damped."""
    unit = 1 / constants.width
    scaled = (z - constants.middle) * unit
    square = scaled * scaled
    damp = _damp(square)
    cube = damp * jnp.sqrt(damp)  # products and roots: powers are slow
    bowl_slope = (2 - (3 / DAMPING**2) * square * damp) * scaled * cube
    skewness = u * (square * cube - skew) + bowl_slope * unit
    cubic, slope = _tail_profile(square, damp)
    along = u * scaled
    extremes = along * cubic + (cubic + slope) * unit
    tails = extremes - constants.tail_coefficient[0] * (along + unit)
    return skewness, tails, extremes


def _damp(q: Any) -> Any:
    return 1 / (1 + (1 / DAMPING**2) * q)


def _tail_profile(q: Any, damp: Any) -> tuple[Any, Any]:
    """h(q) and 2 q h'(q) for h = q / (1 + q/c^2)^2; `damp` is the root of the denominator's inverse."""
    height = q * damp * damp
    return height, 2 * height * (1 - (1 / DAMPING**2) * q) * damp


class View(NamedTuple):
    """Draws as one mode sees them, all (S, L, ...)."""

    share: Any  # the responsibility
    away: Any  # x - centre
    score: Any  # of the density, plus the gradient of the log responsibility
    y: Any  # in standard deviations
    t: Any  # the score in these units
    z: Any  # along the directions
    u: Any  # conjugate to z
    square: Any  # squared distance in the metric of the mode


def _views(x: Any, scores: Any, present: Any, constants: Constants) -> Any:
    """A function from the number of a mode to its view."""
    shares, squares, pull = _responsibilities(x, present, constants)

    def view(k: Any) -> View:
        away = x - constants.centre[k]
        score = scores
        if len(constants.centre) > 1:
            score = scores - constants.sharpness * (away @ constants.precision[k] + pull)
        y = away / constants.sd[k]
        t = score * constants.sd[k]
        z = y @ constants.project[k]
        return View(shares[k], away, score, y, t, z, t @ constants.conjugate[k], squares[k])

    return view


def _per_draw(view: View, constants: Constants, skew: float) -> list[Any]:
    """Features of single draws, (S, L, their number) each: those of `Sums` but the correlations, in order."""
    t = view.t[..., constants.conditional]
    y = view.y[..., constants.conditional]
    return [
        view.u,
        view.u * view.z + 1,
        t,
        t * y + 1,
        *_shapes(view.u, view.z, constants, skew),
        _radial(view, constants),
        jnp.ones_like(view.share)[..., None],
        view.z,
    ]


def _totals(share: Any, parts: list[Any]) -> list[Any]:
    """Sums over pieces, weighted by responsibilities; as one matrix product, which is faster than sums."""
    ends = np.cumsum([part.shape[-1] for part in parts])
    total = jnp.einsum("sl,slw->sw", share, jnp.concatenate(parts, axis=-1))
    return jnp.split(total, ends[:-1], axis=-1)


def _correlations(view: View, k: Any, count: Any, constants: Constants) -> Any:
    """Symmetric products of z and u of all pairs of directions, summed over pieces."""
    products = jnp.einsum("slk,slm->skm", view.share[..., None] * view.u, view.z)
    pairs = products[:, constants.pair_first, constants.pair_second]
    pairs = 0.5 * (pairs + products[:, constants.pair_second, constants.pair_first])
    return pairs + constants.pair_overlap[k] * count


def _radial(view: View, constants: Constants) -> Any:
    """Overall scale and tails of the radius, (S, L, 2)."""
    d = view.away.shape[-1]
    overall = jnp.sum(view.away * view.score, axis=-1) + d
    square = view.square / (d * constants.radius)
    height, slope = _tail_profile(square, _damp(square))
    return jnp.stack([overall, (height - constants.tail_coefficient[1]) * overall + slope], axis=-1)


@jax.jit
def _sums(x: Any, scores: Any, present: Any, *, constants: Constants, skew: Any) -> Sums:
    view_of = _views(x, scores, present, constants)

    def one_mode(k: Any) -> Sums:
        view = view_of(k)
        *affine, skewness, tails, extremes, radial, count, z = _totals(
            view.share, _per_draw(view, constants, skew)
        )
        pairs = _correlations(view, k, count, constants)
        of_mode = [*affine[:2], radial[:, 0], count[:, 0], jnp.sum(z, axis=0)]
        return Sums(*[*affine[:2], pairs, *affine[2:], skewness, tails, extremes, radial, *of_mode])

    each = jax.lax.map(one_mode, jnp.arange(len(constants.centre)))
    return Sums(*(jnp.sum(part, axis=0) for part in each[:9]), *each[9:])
