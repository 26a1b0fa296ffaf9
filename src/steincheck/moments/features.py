"""Stein features of affine, quadratic and cubic fields, summed over blocks of draws by a compiled program."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._compilation import precise
from .frames import DAMPING, Constants, Frame, skew_coefficient

CHUNK_NUMBERS = 4_000_000  # of features in memory at a time: 32 MB


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
    totals: list[np.ndarray] = []
    with precise():
        for start in range(0, len(rows), size):
            index = rows[start : start + size]
            index = np.pad(index, ((0, size - len(index)), (0, 0)), constant_values=-1)
            out = program(*(array[index] for array in arrays), (index >= 0).astype(float))
            home = owner[start : start + size]
            parts = [np.asarray(part) for part in out]
            if not totals:
                totals = [_room(part, axis, len(starts)) for part, axis in zip(parts, axes, strict=True)]
            for total, part, axis in zip(totals, parts, axes, strict=True):
                _add(total, part, axis, home)
    return totals


def _room(part: np.ndarray, axis: int | None, count: int) -> np.ndarray:
    shape = list(part.shape)
    if axis is not None:
        shape[axis] = count
    return np.zeros(shape)


def _add(total: np.ndarray, part: np.ndarray, axis: int | None, home: np.ndarray) -> None:
    """Add the pieces along `axis` to the blocks `home`; without an axis the part is a sum over all pieces."""
    if axis is None:
        total += part
        return
    blocks_first = np.moveaxis(total, axis, 0)
    kept = np.moveaxis(part, axis, 0)[: len(home)]
    if len(home) == home[-1] - home[0] + 1:  # one piece per block
        blocks_first[home[0] : home[-1] + 1] += kept
    else:
        np.add.at(blocks_first, home, kept)


def _pieces(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of draws (S, length of a piece), -1 where a piece is not full, and the block each belongs to."""
    piece = min(1 << int(np.ceil(np.log2(np.median(lengths)))), 1024)
    owner = np.repeat(np.arange(len(starts)), -(-lengths // piece))
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)
    offset = number[:, None] * piece + np.arange(piece)
    rows = np.where(offset < lengths[owner, None], starts[owner, None] + offset, -1)
    return rows, owner


def _chunk_size(rows: np.ndarray, width: int) -> int:
    """Pieces in a chunk: a power of 2, so that another number of draws seldom compiles anything."""
    fits = max(1, CHUNK_NUMBERS // (rows.shape[1] * width))
    return min(1 << int(np.log2(fits)), 1 << int(np.ceil(np.log2(len(rows)))))


def _responsibilities(x: Any, present: Any, constants: Constants) -> tuple[Any, Any, Any]:
    """Responsibilities (M, S, L), 0 for padding; squared distances; gradient of the log Gaussian mixture."""
    away = x[None] - constants.centre[:, None, None, :]
    slope = -jnp.einsum("ksld,kde->ksle", away, constants.precision)
    square = -jnp.sum(slope * away, axis=-1)
    share = jax.nn.softmax(constants.sharpness * (constants.log_weight[:, None, None] - 0.5 * square), axis=0)
    return share * present, square, jnp.sum(share[..., None] * slope, axis=0)


def _shapes(u: Any, z: Any, constants: Constants, skew: float) -> tuple[Any, Any, Any]:
    """s.v + div v for v = h(z) along each direction: h quadratic, cubic less linear, and cubic, damped."""
    scaled = (z - constants.middle) / constants.width
    damp = 1 / jnp.sqrt(1 + (scaled / DAMPING) ** 2)
    cube = damp * damp * damp  # products: powers are slow
    bowl = scaled**2 * cube
    bowl_slope = (2 - 3 * (scaled * damp / DAMPING) ** 2) * scaled * cube
    skewness = u * (bowl - skew) + bowl_slope / constants.width
    cubic, slope = _tail_profile(scaled**2)
    extremes = u * scaled * cubic + (cubic + slope) / constants.width
    tails = extremes - constants.tail_coefficient[0] * (u * scaled + 1 / constants.width)
    return skewness, tails, extremes


def _tail_profile(q: Any) -> tuple[Any, Any]:
    """h(q) and 2 q h'(q) for h = q / (1 + q/c^2)^2."""
    damp = 1 / (1 + q / DAMPING**2)
    height = q * damp * damp
    return height, 2 * height * (1 - q / DAMPING**2) * damp


class View(NamedTuple):
    """Draws as one mode sees them, all (S, L, ...)."""

    share: Any  # the responsibility, with a last axis of length 1
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
        return View(shares[k][..., None], away, score, y, t, z, t @ constants.conjugate[k], squares[k])

    return view


def _affine(view: View, k: Any, constants: Constants) -> list[Any]:
    """Location, scale, correlation, and location and scale given the others, summed over pieces."""
    r = view.share
    products = jnp.einsum("slk,slm->skm", r * view.u, view.z)
    pairs = products[:, constants.pair_first, constants.pair_second]
    pairs = 0.5 * (pairs + products[:, constants.pair_second, constants.pair_first])
    t = view.t[..., constants.conditional]
    y = view.y[..., constants.conditional]
    return [
        jnp.sum(r * view.u, axis=1),
        jnp.sum(r * (view.u * view.z + 1), axis=1),
        pairs + constants.pair_overlap[k] * jnp.sum(r, axis=1),
        jnp.sum(r * t, axis=1),
        jnp.sum(r * (t * y + 1), axis=1),
    ]


def _radial(view: View, constants: Constants) -> Any:
    """Overall scale and tails of the radius, (S, L, 2)."""
    d = view.away.shape[-1]
    overall = jnp.sum(view.away * view.score, axis=-1) + d
    height, slope = _tail_profile(view.square / (d * constants.radius))
    return jnp.stack([overall, (height - constants.tail_coefficient[1]) * overall + slope], axis=-1)


@jax.jit
def _sums(x: Any, scores: Any, present: Any, *, constants: Constants, skew: Any) -> Sums:
    view_of = _views(x, scores, present, constants)

    def one_mode(k: Any) -> Sums:
        view = view_of(k)
        affine = _affine(view, k, constants)
        shapes = [jnp.sum(view.share * f, axis=1) for f in _shapes(view.u, view.z, constants, skew)]
        radial = jnp.sum(view.share * _radial(view, constants), axis=1)
        count = jnp.sum(view.share[..., 0], axis=1)
        z = jnp.sum(view.share * view.z, axis=(0, 1))
        return Sums(*[*affine, *shapes, radial, affine[0], affine[1], radial[:, 0], count, z])

    each = jax.lax.map(one_mode, jnp.arange(len(constants.centre)))
    return Sums(*(jnp.sum(part, axis=0) for part in each[:9]), *each[9:])
