"""The coordinates in which draws are examined: the user's own, and the principal axes of each mode."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from ..result import Modes
from ..stein.quadratic import at_own_mode, laplace_responsibilities

MAX_CORRELATIONS = 5000  # pairs examined per basis, a limit of memory: all of them up to d = 100
DAMPING = 3.0  # standard deviations at which skewness and tails stop growing: 0.3 % of a Gaussian lie beyond


class Coordinates(NamedTuple):
    """Arrays of the compiled program; rows are modes, columns of `project` the K directions examined.

    With y = (x - centre) / sd and t = sd * score the standardised coordinates are z = y `project`, their
    conjugate scores u = t `conjugate`; for a Gaussian mode u = -z. The first d directions are the parameters,
    the others principal axes.
    """

    centre: np.ndarray  # (M, d)
    sd: np.ndarray  # (M, d)
    log_weight: np.ndarray  # (M,) of the modes' Gaussians, with their normalising constants
    sharpness: np.ndarray  # () exponent of these Gaussians in the responsibilities
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
    """Directions from the modes; middle and width of the damping, and the sharpness, from the draws `x`.

    The features have mean zero for every middle and width: taking these from the tested draws moves no
    statistic by more than a term of smaller order.
    """
    sd = np.sqrt(np.diagonal(modes.covariances, axis1=1, axis2=2))
    units = sd[:, :, None] * sd[:, None, :]
    correlation = modes.covariances / units
    precision = np.linalg.inv(correlation)
    axes, rank = _principal_axes(correlation)
    d = sd.shape[1]
    project = np.concatenate([np.broadcast_to(np.eye(d), correlation.shape), axes], axis=2)
    conditioning = np.diagonal(precision, axis1=1, axis2=2).max(axis=0)
    some = x[:: -(-len(x) // 10_000)]
    found = Coordinates(
        centre=modes.locations,
        sd=sd,
        log_weight=np.log(modes.laplace_weights.clip(1e-300)) - 0.5 * np.linalg.slogdet(modes.covariances)[1],
        sharpness=np.ones(()),
        precision=precision / units,
        project=project,
        conjugate=correlation @ project,
        pairs=_pairs(correlation, len(rank)),
        ordered_pairs=_ordered_pairs(d),
        conditional=np.flatnonzero(conditioning > 1.05),  # below, given the others is as good as by itself
        axis_rank=rank,
        middle=np.zeros(project.shape[2]),
        width=np.ones(project.shape[2]),
        radius=np.ones(()),
    )
    found = _with_damping(found, modes, some)
    return found._replace(sharpness=np.asarray(_sharpness(found, some[:: -(-len(some) // 1000)])))


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


def _pairs(correlation: np.ndarray, n_axes: int) -> np.ndarray:
    """Pairs of parameters, the most correlated at the modes if they are too many, and pairs of wide axes."""
    d = correlation.shape[1]
    own = np.stack(np.triu_indices(d, 1))
    if own.shape[1] > MAX_CORRELATIONS:
        strength = np.abs(correlation[:, own[0], own[1]]).max(axis=0)
        order = np.argsort(-strength, kind="stable")[:MAX_CORRELATIONS]
        own = own[:, np.sort(order)]
    axes = np.stack(np.triu_indices(n_axes, 1))[:, :MAX_CORRELATIONS] + d
    return np.concatenate([own, axes], axis=1)


def _ordered_pairs(d: int) -> np.ndarray:
    """All pairs of different parameters in either order; none if there are too many."""
    if d * (d - 1) > MAX_CORRELATIONS:
        return np.empty((2, 0), dtype=int)
    return np.stack(np.nonzero(~np.eye(d, dtype=bool)))


def _with_damping(coordinates: Coordinates, modes: Modes, x: np.ndarray) -> Coordinates:
    """Middle and width of the draws along every direction, robustly; each draw as its own mode sees it."""
    owner = laplace_responsibilities(x, modes).argmax(axis=0)
    z = np.empty((len(x), coordinates.project.shape[2]))
    for k in np.unique(owner):
        rows = owner == k
        z[rows] = (x[rows] - modes.locations[k]) / coordinates.sd[k] @ coordinates.project[k]
    middle = np.median(z, axis=0)
    spread = np.median(np.abs(z - middle), axis=0) / special.ndtri(0.75)
    radius = np.median(np.sum(at_own_mode(x, modes) ** 2, axis=1)) / special.chdtri(x.shape[1], 0.5)
    return coordinates._replace(middle=middle, width=spread.clip(1.0), radius=np.maximum(radius, 1.0))


def _sharpness(coordinates: Coordinates, x: np.ndarray) -> float:
    """The largest exponent of the responsibilities at which the draws show what the gradient of these does.

    The gradient of r_k is part of every feature. Where the density passes from one mode to the next and
    Gaussians do not describe it (a ring with two tops), the gradient may be concentrated on a strip so thin
    that hardly a draw lies in it: the features then have mean zero because of draws that are not there. The
    share of the strip in the variance is estimated with softer exponents, whose strips hold draws; it grows
    in proportion to the exponent as long as the density is about constant across the strip.
    """
    if len(coordinates.centre) == 1:
        return 1.0
    exponents = 2.0 ** -np.arange(15)
    shares = np.nan_to_num(_strip_shares(coordinates, x, exponents))
    for k in range(11):  # 1, 1/2, ..., 1/1024 are tried, each by what it and up to 16 times softer ones show
        softer = slice(k, k + 5)
        if np.max(shares[softer] * exponents[k] / exponents[softer]) <= 0.03:
            return float(exponents[k])
    return float(exponents[11])


@np.errstate(all="ignore")  # draws at the modes, or beyond the range of squares, have no share
def _strip_shares(coordinates: Coordinates, x: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Mean square of z_j times the derivative of r_k by z_j, over that of z_j, for the worst parameter j."""
    away = x - coordinates.centre[:, None, :]
    slope = -np.einsum("knd,kde->kne", away, coordinates.precision)
    height = coordinates.log_weight[:, None] + 0.5 * np.sum(slope * away, axis=2)
    square = (away / coordinates.sd[:, None, :]) ** 2
    found = []
    for exponent in exponents:
        share = special.softmax(exponent * height, axis=0)
        pull = np.einsum("kn,kne->ne", share, slope)
        gradient = exponent * share[..., None] * (slope - pull)
        strip = np.sum((gradient * away) ** 2, axis=(0, 1))
        found.append(np.max(strip / np.einsum("kn,knd->d", share, square)))
    return np.array(found)


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
