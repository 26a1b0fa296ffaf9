"""The coordinates in which draws are examined: the user's own, and the principal axes of each mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from ..result import Modes

MAX_CORRELATIONS = 5000  # correlations per basis: all of them up to d = 100
MIN_CONDITIONING = 1.05  # variance over conditional variance below which the two are as good as equal
N_EXPONENTS = 11  # 1, 1/2, ..., 1/1024 are tried for the responsibilities,
N_SOFTER = 4  # each by what it and up to 16 times softer ones show
DAMPING = 3.0  # standard deviations at which skewness and tails stop growing: 0.3 % of a Gaussian lie beyond


class Constants(NamedTuple):
    """Arrays of the compiled program; rows are modes, columns of `project` the directions examined.

    With y = (x - centre) / sd and t = sd * score the standardised coordinates are z = y `project`, their
    conjugate scores u = t `conjugate`; for a Gaussian mode u = -z.
    """

    centre: np.ndarray  # (M, d)
    sd: np.ndarray  # (M, d)
    log_weight: np.ndarray  # (M,) of the modes' Gaussians, with their normalising constants
    sharpness: np.ndarray  # () exponent of these Gaussians in the responsibilities
    precision: np.ndarray  # (M, d, d)
    project: np.ndarray  # (M, d, K)
    conjugate: np.ndarray  # (M, d, K)
    pair_overlap: np.ndarray  # (M, P), the correlation of the two directions of a pair at the mode
    pair_first: np.ndarray  # (P,) columns of the pairs
    pair_second: np.ndarray  # (P,)
    conditional: np.ndarray  # (C,) coordinates examined given the others
    middle: np.ndarray  # (K,) about which skewness and tails are measured
    width: np.ndarray  # (K,) in units of which they are measured
    radius: np.ndarray  # () of the draws over that of a Gaussian
    tail_coefficient: np.ndarray  # (2,) of the scale in the tails, for one coordinate and for the radius


@dataclass(frozen=True, eq=False)
class Frame:
    """Constants of the program, and what its columns mean."""

    constants: Constants
    n_axes: int
    axis_rank: np.ndarray  # (n_axes,) position of each axis among all, widest first
    loadings: np.ndarray  # (M, n_axes, d), of unit length, in standardised coordinates
    pairs_left_out: int


def make_frame(modes: Modes, x: np.ndarray) -> Frame:
    """Directions from the modes; middle and width of the damping from the draws.

    The features have mean zero whatever middle and width are: taking them from the tested draws moves no
    statistic by more than a term of smaller order.
    """
    sd = np.sqrt(np.diagonal(modes.covariances, axis1=1, axis2=2))
    units = sd[:, :, None] * sd[:, None, :]
    correlation = modes.covariances / units
    precision = np.linalg.inv(correlation)
    project, kept, loadings = _directions(correlation)
    conditioning = np.diagonal(precision, axis1=1, axis2=2)
    d = sd.shape[1]
    first, second, left_out = _pairs(correlation, d, len(kept))
    conjugate = correlation @ project
    constants = Constants(
        centre=modes.locations,
        sd=sd,
        log_weight=np.log(modes.laplace_weights.clip(1e-300)) - 0.5 * np.linalg.slogdet(modes.covariances)[1],
        sharpness=np.ones(()),
        precision=precision / units,
        project=project,
        conjugate=conjugate,
        pair_overlap=np.einsum("kdp,kdp->kp", project[:, :, first], conjugate[:, :, second]),
        pair_first=first,
        pair_second=second,
        conditional=np.flatnonzero(conditioning.max(axis=0) > MIN_CONDITIONING),
        middle=np.zeros(project.shape[2]),
        width=np.ones(project.shape[2]),
        radius=np.ones(()),
        tail_coefficient=np.array([tail_coefficient(1), tail_coefficient(d)]),
    )
    some = x[:: -(-len(x) // 10_000)]
    constants = _softened(_damped(constants, some), some)
    return Frame(constants, len(kept), kept, loadings, left_out)


def _directions(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates and distinct principal axes as columns (M, d, K), ranks of the axes, and their loadings."""
    vectors, values = _axes(correlation)
    kept = _distinct_axes(vectors, values)
    coordinates = np.broadcast_to(np.eye(correlation.shape[1]), correlation.shape)
    axes = (vectors / np.sqrt(values)[:, None, :])[:, :, kept]
    return np.concatenate([coordinates, axes], axis=2), kept, vectors[:, :, kept].transpose(0, 2, 1)


def _axes(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Principal axes, widest first, as columns whose largest loading is positive, and their variances."""
    values, vectors = np.linalg.eigh(correlation)
    values = values[:, ::-1].clip(1e-300)
    vectors = vectors[:, :, ::-1]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None, :], axis=1)
    return vectors * np.sign(largest), values


def _distinct_axes(vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Ranks of the axes that are not coordinates and have a spread unlike that of any coordinate."""
    # beyond this squared loading an axis is as good as the coordinate itself
    mixed = (vectors**2).max(axis=1) < 0.95
    stretched = np.abs(np.log(values)) > np.log(MIN_CONDITIONING)
    return np.flatnonzero((mixed & stretched).any(axis=0))


def _pairs(correlation: np.ndarray, d: int, n_axes: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Columns of the pairs of coordinates and of the pairs of axes, and how many pairs are left out.

    Over the budget, coordinates come in the order of their correlation at the modes, axes of their widths.
    """
    coordinates = np.stack(np.triu_indices(d, 1))
    if coordinates.shape[1] > MAX_CORRELATIONS:
        strength = np.abs(correlation[:, coordinates[0], coordinates[1]]).max(axis=0)
        order = np.argsort(-strength, kind="stable")[:MAX_CORRELATIONS]
        coordinates = coordinates[:, np.sort(order)]
    axes = np.stack(np.triu_indices(n_axes, 1))[:, :MAX_CORRELATIONS] + d
    left_out = d * (d - 1) // 2 + n_axes * (n_axes - 1) // 2 - coordinates.shape[1] - axes.shape[1]
    return *np.concatenate([coordinates, axes], axis=1), left_out


def _damped(constants: Constants, x: np.ndarray) -> Constants:
    """With middle and width of the draws, robustly."""
    z = np.empty((len(x), constants.project.shape[2]))
    radius = np.empty(len(x))
    label = most_responsible(constants, x)
    for k in np.unique(label):
        rows = label == k
        away = x[rows] - constants.centre[k]
        z[rows] = (away / constants.sd[k]) @ constants.project[k]
        radius[rows] = np.einsum("ni,ij,nj->n", away, constants.precision[k], away)
    middle = np.median(z, axis=0)
    spread = np.median(np.abs(z - middle), axis=0) / special.ndtri(0.75)
    expected = special.chdtri(x.shape[1], 0.5)
    return constants._replace(
        middle=middle, width=spread.clip(1.0), radius=np.maximum(np.median(radius) / expected, 1.0)
    )


def _softened(constants: Constants, x: np.ndarray) -> Constants:
    """With responsibilities that change slowly enough for the draws to show what their gradient does.

    The gradient of r_k is part of every feature. Where the density passes from one mode to the next and
    Gaussians do not describe it (a ring with two tops), the gradient may be concentrated on a strip so thin
    that hardly a draw lies in it: the features then have mean zero because of draws that are not there. Its
    share of the variance is estimated with softer exponents, whose strips hold draws; it grows in proportion
    to the exponent as long as the density is about constant across the strip.
    """
    if len(constants.centre) == 1:
        return constants
    some = x[:: -(-len(x) // 1000)]  # these tell the share of the strip
    exponents = 2.0 ** -np.arange(N_EXPONENTS + N_SOFTER)
    with np.errstate(all="ignore"):  # draws at the modes, or beyond the range of squares, have no share
        shares = np.array([_strip_share(constants._replace(sharpness=b), some) for b in exponents])
    shares = np.nan_to_num(shares)
    for k in range(N_EXPONENTS):
        softer = slice(k, k + 1 + N_SOFTER)
        if np.max(shares[softer] * exponents[k] / exponents[softer]) <= 0.03:
            return constants._replace(sharpness=np.asarray(exponents[k]))
    return constants._replace(sharpness=np.asarray(exponents[N_EXPONENTS]))


def _strip_share(constants: Constants, x: np.ndarray) -> float:
    """Mean square of z_j times the derivative of r_k by z_j, over that of z_j, for the worst coordinate j."""
    share = responsibilities(constants, x).T
    away = x - constants.centre[:, None, :]
    slope = -constants.sharpness * np.einsum("knd,kde->kne", away, constants.precision)
    pull = np.einsum("kn,kne->ne", share, slope)
    gradient = share[..., None] * (slope - pull)
    strip = np.sum((gradient * away) ** 2, axis=(0, 1))
    spread = np.einsum("kn,knd->d", share, (away / constants.sd[:, None, :]) ** 2)
    return float(np.max(strip / spread))


def responsibilities(constants: Constants, x: np.ndarray) -> np.ndarray:
    """Shares (n, M) of the modes' Gaussians, to the power of the sharpness, at the rows of `x`."""
    if len(constants.centre) == 1:
        return np.ones((len(x), 1))
    return special.softmax(log_responsibilities(constants, x), axis=1)


def log_responsibilities(constants: Constants, x: np.ndarray) -> np.ndarray:
    """Logarithms of the responsibilities at the rows of `x`, (n, M), up to a constant per row."""
    columns = []
    for centre, precision, weight in zip(
        constants.centre, constants.precision, constants.log_weight, strict=True
    ):
        away = x - centre
        columns.append(weight - 0.5 * np.einsum("ni,ni->n", away @ precision, away))
    return constants.sharpness * np.stack(columns, axis=1)


def most_responsible(constants: Constants, x: np.ndarray) -> np.ndarray:
    """The mode with the largest responsibility for each row of `x`."""
    if len(constants.centre) == 1:
        return np.zeros(len(x), dtype=int)
    return log_responsibilities(constants, x).argmax(axis=1)


@lru_cache
def tail_coefficient(d: int) -> float:
    """How much of the scale is in the tails of a Gaussian on R^d: E[tails scale] / E[scale^2]."""
    q = 2 * special.gammaincinv(d / 2, (np.arange(20_000) + 0.5) / 20_000) / d
    scale = d * (1 - q)
    damp = 1 + q / DAMPING**2
    profile = q / damp**2
    slope = (1 - q / DAMPING**2) / damp**3
    return float(np.mean((profile * scale + 2 * q * slope) * scale) / np.mean(scale**2))


@lru_cache
def skew_coefficient() -> float:
    """How much of the location is in the skewness of a Gaussian: E[skewness location] / E[location^2]."""
    z = special.ndtri((np.arange(20_000) + 0.5) / 20_000)
    damp = 1 + (z / DAMPING) ** 2
    profile = z**2 * damp**-1.5
    slope = 2 * z * damp**-1.5 - 3 * z**3 / DAMPING**2 * damp**-2.5
    return float(np.mean((-z * profile + slope) * -z))


def axis_parameters(
    frame: Frame, names: Sequence[str], axis: int, mode: int
) -> tuple[tuple[str, float], ...]:
    """Names and loadings of the coordinates that make up an axis, the largest first, at most four."""
    row = frame.loadings[mode, axis]
    order = [j for j in np.argsort(-np.abs(row), kind="stable")[:4] if abs(row[j]) > 0.3 * np.abs(row).max()]
    return tuple((names[j], float(row[j])) for j in order)
