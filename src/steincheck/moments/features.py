"""Stein features of affine, quadratic and cubic fields: coordinates, sums over blocks of draws, records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from ..adapters.parameters import ParameterScale
from ..draws.record import index_in_chain
from ..result import FeatureKind, Modes, MomentFeature
from ..stein.quadratic import laplace_responsibilities, skewness

MAX_CORRELATIONS = 5000  # pairs examined per basis, a limit of memory: all of them up to d = 100
DAMPING = 3.0  # standard deviations at which skewness and tails stop growing: 0.3 % of a Gaussian lie beyond
FREEDOM = 5.0  # degrees of freedom of the responsibilities, see "two modes" and "ring" in moment_study


class Coordinates(NamedTuple):
    """Arrays of the compiled program; rows are modes, columns of `project` the K directions examined.

    With y = (x - centre) / sd and t = sd * score the standardised coordinates are z = y `project`, their
    conjugate scores u = t `conjugate`; for a Gaussian mode u = -z. The first d directions are the parameters,
    the others principal axes.
    """

    centre: np.ndarray  # (M, d)
    sd: np.ndarray  # (M, d)
    log_weight: np.ndarray  # (M,) of the modes, less half the log determinant of their covariances
    precision: np.ndarray  # (M, d, d)
    project: np.ndarray  # (M, d, K)
    conjugate: np.ndarray  # (M, d, K)
    pairs: np.ndarray  # (2, P) directions whose correlations are examined
    ordered_pairs: np.ndarray  # (2, Q) parameters, the second examined for curvature in the first
    conditional: np.ndarray  # (C,) parameters examined given the others
    axis_rank: np.ndarray  # (K - d,) position of each axis among all, widest first
    middle: np.ndarray  # (K,) about which skewness and tails are measured
    width: np.ndarray  # (K,) in units of which they are measured
    radius: np.ndarray  # () squared, of the draws over that of a Gaussian

    @property
    def pairs_left_out(self) -> int:
        """Correlations not examined."""
        d, axes = self.centre.shape[1], len(self.axis_rank)
        return d * (d - 1) // 2 + axes * (axes - 1) // 2 - self.pairs.shape[1]


def mode_coordinates(modes: Modes, x: np.ndarray) -> Coordinates:
    """Directions from the modes; middle and width of the damping from the draws `x`.

    The features have mean zero for every middle and width: taking these from the tested draws moves no
    statistic by more than a term of smaller order.
    """
    sd = np.sqrt(np.diagonal(modes.covariances, axis1=1, axis2=2))
    units = sd[:, :, None] * sd[:, None, :]
    correlation = modes.covariances / units
    inverse = np.linalg.inv(correlation)
    axes, rank = _principal_axes(correlation)
    d = sd.shape[1]
    project = np.concatenate([np.broadcast_to(np.eye(d), correlation.shape), axes], axis=2)
    ordered = np.stack(np.nonzero(1 - np.eye(d)))
    middle, width, radius = _damping(x, modes, project / sd[:, :, None])
    # the most correlated parameters at the modes if there are too many pairs, and pairs of wide axes
    pairs = np.stack(np.triu_indices(d, 1))
    if pairs.shape[1] > MAX_CORRELATIONS:
        strength = np.abs(correlation[:, pairs[0], pairs[1]]).max(axis=0)
        pairs = pairs[:, np.sort(np.argsort(-strength, kind="stable")[:MAX_CORRELATIONS])]
    of_axes = np.stack(np.triu_indices(len(rank), 1))[:, :MAX_CORRELATIONS] + d
    return Coordinates(
        centre=modes.locations,
        sd=sd,
        log_weight=np.log(modes.laplace_weights.clip(1e-300)) - 0.5 * np.linalg.slogdet(modes.covariances)[1],
        precision=inverse / units,
        project=project,
        conjugate=correlation @ project,
        pairs=np.concatenate([pairs, of_axes], axis=1),
        ordered_pairs=ordered if ordered.shape[1] <= MAX_CORRELATIONS else ordered[:, :0],
        # below, given the others is as good as by itself
        conditional=np.flatnonzero(np.diagonal(inverse, axis1=1, axis2=2).max(axis=0) > 1.05),
        axis_rank=rank,
        middle=middle,
        width=width,
        radius=radius,
    )


def _damping(
    x: np.ndarray, modes: Modes, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middle, width and radius of the draws, robustly; each draw as its own mode sees it."""
    owner = laplace_responsibilities(x, modes).argmax(axis=0)
    z = np.empty((len(x), directions.shape[2]))
    square = np.empty(len(x))
    for k in np.unique(owner):
        rows = owner == k
        away = x[rows] - modes.locations[k]
        z[rows] = away @ directions[k]
        square[rows] = np.sum(np.linalg.solve(modes.covariances[k], away.T).T * away, axis=1)
    middle = np.median(z, axis=0)
    spread = np.median(np.abs(z - middle), axis=0) / special.ndtri(0.75)
    radius = np.median(square) / special.chdtri(x.shape[1], 0.5)
    return middle, spread.clip(1.0), np.maximum(radius, 1.0)


def _principal_axes(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Axes (M, d, A) that are not parameters and have another spread, and their ranks, widest first.

    Their largest loading is positive.
    """
    values, vectors = np.linalg.eigh(correlation)
    values = values[:, ::-1].clip(1e-300)
    vectors = vectors[:, :, ::-1]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None, :], axis=1)
    vectors = vectors * np.sign(largest)
    # beyond a squared loading of .95 an axis is as good as the parameter itself
    mixed = (vectors**2).max(axis=1) < 0.95
    stretched = np.abs(np.log(values)) > np.log(1.05)
    rank = np.flatnonzero((mixed & stretched).any(axis=0))
    return (vectors / np.sqrt(values)[:, None, :])[:, :, rank], rank


@lru_cache
def tail_coefficient(d: int) -> float:
    """How much of the scale is in the tails of a Gaussian on R^d: E[tails scale] / E[scale^2] = E[q h(q)]."""
    q = 2 * special.gammaincinv(d / 2, (np.arange(20_000) + 0.5) / 20_000) / d
    return float(np.mean((q / (1 + q / DAMPING**2)) ** 2))


@lru_cache
def skew_coefficient() -> float:
    """How much of the location is in the skewness of a Gaussian: E[skewness location] = E[h(z)]."""
    square = special.ndtri((np.arange(20_000) + 0.5) / 20_000) ** 2
    return float(np.mean(square * (1 + square / DAMPING**2) ** -1.5))


class Sums(NamedTuple):
    """Sums of features over q blocks; those with an axis for the M modes are of single modes."""

    correlation: Any  # (q, P), with the standard deviations held fixed
    curvature: Any  # (q, Q)
    location: Any  # (q, M, K)
    scale: Any  # (q, M, K)
    conditional_location: Any  # (q, C)
    conditional_scale: Any  # (q, C)
    skewness: Any  # (q, K)
    tails: Any  # (q, K)
    extremes: Any  # (q, K), scale without the far tails
    overall_scale: Any  # (q, M, 1)
    radial_tails: Any  # (q, 1)
    count: Any  # (q, M, 1), responsibilities


def feature_sums(
    x: np.ndarray, scores: np.ndarray, weight: np.ndarray, coordinates: Coordinates, blocks: np.ndarray
) -> Sums:
    """Sums of weighted features over blocks; `blocks` (n,) numbers that of each draw, 0, 1, ..."""
    rows, owner = _pieces(blocks)
    modes, _, directions = coordinates.project.shape
    # some 8 features per draw and direction, and products of all directions per piece, for each mode
    numbers = (2 + modes) * directions * (8 * rows.shape[1] + directions)
    fits = max(1, 4_000_000 // numbers)  # 4 million take 32 MB
    # a power of 2, so that another number of draws seldom compiles anything
    size = min(1 << int(np.log2(fits)), 1 << int(np.ceil(np.log2(len(rows)))))
    chunks = []
    with jax.enable_x64(True):
        for start in range(0, len(rows), size):
            index = rows[start : start + size]
            index = np.pad(index, ((0, size - len(index)), (0, 0)), constant_values=-1)
            present = np.where(index >= 0, weight[index], 0.0)
            chunks.append(_sums(x[index], scores[index], present, coordinates))
    firsts = np.flatnonzero(np.diff(owner, prepend=-1))
    return jax.tree.map(lambda *parts: np.add.reduceat(np.concatenate(parts)[: len(owner)], firsts), *chunks)


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


@jax.jit
def _sums(x: Any, scores: Any, weight: Any, coordinates: Coordinates) -> Sums:
    """Sums over pieces; the responsibilities are those of a mixture of Student's t distributions."""
    n_modes, d = coordinates.centre.shape
    away = x[None] - coordinates.centre[:, None, None, :]
    slope = -jnp.einsum("ksld,kde->ksle", away, coordinates.precision)
    square = -jnp.sum(slope * away, axis=-1)
    share = jnp.ones_like(square)
    if n_modes > 1:
        height = -0.5 * (FREEDOM + d) * jnp.log1p(square / FREEDOM)
        share = jax.nn.softmax(coordinates.log_weight[:, None, None] + height, axis=0)
        slope = slope * ((FREEDOM + d) / (FREEDOM + square))[..., None]
    pull = jnp.sum(share[..., None] * slope, axis=0)

    def one_mode(k: Any) -> Sums:
        own = share[k] * weight  # 0 for padding
        t = (scores + slope[k] - pull) * coordinates.sd[k]  # of the density times the responsibility
        z = away[k] / coordinates.sd[k] @ coordinates.project[k]
        u = t @ coordinates.conjugate[k]
        bowl, *shapes = _shapes(u, z, coordinates)
        given = t[..., coordinates.conditional], z[..., coordinates.conditional]
        parts = [u, u * z + 1, given[0], given[0] * given[1] + 1, *shapes]
        parts += [*_radial(t, z, square[k], coordinates), jnp.ones_like(own)[..., None]]
        # one matrix product is faster than sums
        ends = np.cumsum([part.shape[-1] for part in parts])
        weighted = jnp.einsum("sl,slw->sw", own, jnp.concatenate(parts, axis=-1))
        totals = jnp.split(weighted, ends[:-1], axis=-1)
        u = own[..., None] * u
        products = jnp.einsum("slk,slm->skm", z, u), jnp.einsum("slk,slm->skm", bowl, u)
        return Sums(*_of_pairs(*products, totals[1], totals[-1], coordinates, k), *totals)

    each = jax.lax.map(one_mode, jnp.arange(n_modes))
    pooled = Sums(*(jnp.sum(part, axis=0) for part in each))
    single = {name: getattr(each, name) for name in ("location", "scale", "overall_scale", "count")}
    return pooled._replace(**{name: jnp.swapaxes(part, 0, 1) for name, part in single.items()})


def _of_pairs(
    products: Any, bowl_products: Any, scale: Any, count: Any, coordinates: Coordinates, k: Any
) -> tuple[Any, Any]:
    """Correlation and curvature of pairs of directions.

    The former is f_ij - R_ij (f_ii + f_jj) / 2, f_ij the product of z and u: spreads are held fixed. The
    latter is h(z_i) (u_j - R_ij u_i) with h quadratic: of a Gaussian, a bend in the regression of z_j on z_i.
    """
    i, j = coordinates.ordered_pairs
    curvature = bowl_products[:, i, j] - coordinates.conjugate[k, i, j] * bowl_products[:, i, i]
    i, j = coordinates.pairs
    overlap = jnp.sum(coordinates.project[k][:, i] * coordinates.conjugate[k][:, j], axis=0)
    pairs = 0.5 * (products[:, i, j] + products[:, j, i]) + overlap * count
    return pairs - 0.5 * overlap * (scale[:, i] + scale[:, j]), curvature


def _shapes(u: Any, z: Any, coordinates: Coordinates) -> tuple[Any, Any, Any, Any]:
    """A quadratic h, and s.v + div v for v = h(z) along each direction: h this one, cubic less linear, cubic.

    All are damped, the last twice as near: its feature has the shortest tails, whatever the draws are.
    """
    unit = 1 / coordinates.width
    scaled = (z - coordinates.middle) * unit
    square = scaled * scaled
    damp = 1 / (1 + (1 / DAMPING**2) * square)
    cube = damp * jnp.sqrt(damp)  # products and roots: powers are slow
    bowl_slope = (2 - (3 / DAMPING**2) * square * damp) * scaled * cube
    bowl = square * cube - skew_coefficient()
    skewness = u * bowl + bowl_slope * unit
    along = u * scaled + unit
    height, slope = _tail_profile(square)
    tails = (height - tail_coefficient(1)) * along + slope * unit
    height, slope = _tail_profile(4 * square)
    extremes = height * along + slope * unit
    return bowl, skewness, tails, extremes


def _tail_profile(q: Any) -> tuple[Any, Any]:
    """h(q) and 2 q h'(q) for h = q / (1 + q/c^2)^2."""
    damp = 1 / (1 + (1 / DAMPING**2) * q)
    height = q * damp * damp
    return height, 2 * height * (1 - (1 / DAMPING**2) * q) * damp


def _radial(t: Any, z: Any, square: Any, coordinates: Coordinates) -> tuple[Any, Any]:
    """Overall scale and tails of the radius, (S, L, 1) each."""
    d = t.shape[-1]
    overall = jnp.sum(z[..., :d] * t, axis=-1) + d
    height, slope = _tail_profile(square / (d * coordinates.radius))
    tails = (height - tail_coefficient(d)) * overall + slope
    return overall[..., None], tails[..., None]


class Column(NamedTuple):
    """What one feature is about: one direction, a pair of them, or none."""

    kind: FeatureKind
    basis: str
    mode: int | None
    directions: tuple[int, ...]


class Columns(NamedTuple):
    """Features and their sums over q blocks, in one order."""

    about: list[Column]  # of length F
    sums: np.ndarray  # (q, F)


def feature_columns(coordinates: Coordinates, sums: Sums, rank_sums: np.ndarray) -> Columns:
    """All features; `rank_sums` (q, 1), or (q, 0) without ranks, are those of the radius.

    Where there are several modes, those with a responsibility for 40 draws have features of their own.
    """
    d = coordinates.centre.shape[1]
    bases = ["parameter"] * d + [f"axis {rank + 1}" for rank in coordinates.axis_rank]
    single = [(basis, (j,)) for j, basis in enumerate(bases)]
    given = [("given the others", (j,)) for j in coordinates.conditional.tolist()]
    pairs = [("parameter" if i < d else "axis", (i, j)) for i, j in coordinates.pairs.T.tolist()]
    ordered = [("parameter", (i, j)) for i, j in coordinates.ordered_pairs.T.tolist()]
    every = [("all", ())]
    parts: list[tuple[FeatureKind, int | None, list, np.ndarray]] = [
        ("location", None, single, sums.location.sum(axis=1)),
        ("scale", None, single, sums.scale.sum(axis=1)),
        ("correlation", None, pairs, sums.correlation),
        ("location", None, given, sums.conditional_location),
        ("scale", None, given, sums.conditional_scale),
        ("skewness", None, single, sums.skewness),
        ("tails", None, single, sums.tails),
        ("extremes", None, single, sums.extremes),
        ("curvature", None, ordered, sums.curvature),
        ("overall scale", None, every, sums.overall_scale.sum(axis=1)),
        ("tails", None, every, sums.radial_tails),
    ]
    count = sums.count.sum(axis=(0, 2))
    for k in np.flatnonzero(count >= 40).tolist() if len(count) > 1 else []:
        parts += [
            ("location", k, single, sums.location[:, k]),
            ("scale", k, single, sums.scale[:, k]),
            ("overall scale", k, every, sums.overall_scale[:, k]),
        ]
    if rank_sums.shape[1]:
        parts.append(("radius", None, every, rank_sums))
    about = [Column(kind, basis, mode, where) for kind, mode, places, _ in parts for basis, where in places]
    return Columns(about, np.concatenate([part[3] for part in parts], axis=1))


def skewness_of_directions(columns: Columns) -> np.ndarray:
    """For each feature (F,) the largest skewness of a location along one of its directions; 0 for ranks.

    All scores along a direction miss the same large ones: what the skewness of the feature itself does not
    show.
    """
    of_direction: dict[int | None, dict[int, float]] = {}
    for column, sums in zip(columns.about, columns.sums.T, strict=True):
        if column.kind == "location":  # plain, and given the other parameters
            known = of_direction.setdefault(column.mode, {})
            (j,) = column.directions
            known[j] = max(known.get(j, 0.0), skewness(sums[:, None]))
    largest = np.zeros(len(columns.about))
    for k, column in enumerate(columns.about):
        if column.kind != "radius":
            known = of_direction[column.mode]
            largest[k] = max(known[j] for j in column.directions or known)
    return largest


def feature_record(
    column: Column, t: float, pvalue: float, coordinates: Coordinates, parameters: Sequence[ParameterScale]
) -> MomentFeature:
    """The feature with the names of its parameters: of an axis at most four with the largest loadings."""
    # Stein features fall where draws are too high, too wide or too far out; ranks on rays rise.
    sign = 1.0 if column.kind == "radius" else -1.0
    n_modes, d = coordinates.centre.shape
    mode = 0 if n_modes == 1 else column.mode
    loadings: dict[int, float] = {}
    if len(column.directions) == 1 and column.directions[0] >= d and mode is not None:
        axis = coordinates.project[mode, :, column.directions[0]]
        row = axis / np.linalg.norm(axis)
        largest = np.argsort(-np.abs(row), kind="stable")[:4]
        loadings = {int(j): float(row[j]) for j in largest if abs(row[j]) > 0.3 * np.abs(row).max()}
    about = [parameters[j] for j in (loadings or column.directions) if j < len(parameters)]
    names = tuple(one.parameter for one in about)
    scales = tuple(one.scale for one in about if any(other.scale for other in about))
    if column.basis == "axis":
        names = tuple(f"axis {coordinates.axis_rank[j - len(parameters)] + 1}" for j in column.directions)
    weights = tuple(loadings.values())
    return MomentFeature(column.kind, column.basis, column.mode, names, scales, weights, sign * t, pvalue)
