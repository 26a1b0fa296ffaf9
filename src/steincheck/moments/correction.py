"""The affine map that makes draws fit the density: Stein's identity solved for mean, spread, correlation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

MAX_STEPS = 25
MAX_SHIFT = 10.0  # standard deviations per step
MAX_LOG_STRETCH = 1.5  # per step and direction
SMALLEST_PRODUCT = 0.05  # of draws and scores, 1 if the spread is right: below, a step does not go farther
ROWS_PER_DIRECTION = 4  # draws per dimension below which the mode's Gaussian stands in for those missing

Scores = Callable[[np.ndarray], np.ndarray]


class Affine(NamedTuple):
    """The map y -> matrix y + offset."""

    matrix: np.ndarray  # (d, d)
    offset: np.ndarray  # (d,)

    def __call__(self, y: np.ndarray) -> np.ndarray:
        """The rows of `y`, moved."""
        return y @ self.matrix.T + self.offset


class Step(NamedTuple):
    """One step of Fisher scoring, in the coordinates in which the draws are white."""

    mean: np.ndarray  # (d,) of the draws
    root: np.ndarray  # (d, d) symmetric root of their covariance
    inverse_root: np.ndarray
    inverse: np.ndarray  # (d, d), of -E[u w'], which is the identity if the spread is right
    information: np.ndarray  # (2 d, 2 d) of location and scale
    pair_variance: np.ndarray  # (d, d) of the features of pairs
    shift: np.ndarray  # (d,)
    stretch: np.ndarray  # (d, d) symmetric, the matrix exponential of the step

    @property
    def size(self) -> float:
        """The largest part of the step, in standard deviations."""
        return float(max(np.abs(self.shift).max(), np.abs(self.stretch - np.eye(len(self.shift))).max()))

    @property
    def map(self) -> Affine:
        """In the coordinates of the draws."""
        matrix = self.root @ self.stretch @ self.inverse_root
        return Affine(matrix, self.mean + self.root @ self.shift - matrix @ self.mean)


def solve(y: np.ndarray, t: np.ndarray, weight: np.ndarray, prior: np.ndarray, scores: Scores) -> Affine:
    """The affine map after which draws `y` (n, d) satisfy Stein's identity for all affine fields.

    Fisher scoring from the scores `t` of the draws themselves; `scores` evaluates them at moved draws. If the
    draws are an affine image of the density, the moved ones are draws of the density. The identity is
    returned where the steps do not converge; `prior` (d, d) is the covariance of the mode's Gaussian.
    """
    d = y.shape[1]
    nothing = Affine(np.eye(d), np.zeros(d))
    tolerance = 0.02 / np.sqrt(weight.sum())
    total = nothing
    moved = y
    for _ in range(MAX_STEPS):
        step = scoring_step(moved, t, weight, prior)
        if step.size < tolerance:
            return total
        move = step.map
        total = Affine(move.matrix @ total.matrix, move.matrix @ total.offset + move.offset)
        moved = total(y)
        t = scores(moved)
        if not np.isfinite(t).all():
            return nothing
    return total if step.size < 0.1 else nothing


class White(NamedTuple):
    """Draws and scores in the coordinates in which the draws have mean zero and unit covariance."""

    mean: np.ndarray  # (d,)
    root: np.ndarray  # (d, d) symmetric root of the covariance
    inverse_root: np.ndarray
    w: np.ndarray  # (n, d) draws
    u: np.ndarray  # (n, d) scores less their mean
    pull: np.ndarray  # (d,) mean of the scores
    product: np.ndarray  # (d, d), -E[u w'], symmetric; the identity if the spread is right
    share: np.ndarray  # (n,) weights with sum 1
    trust: float  # in the fourth moments of the draws, against those of a Gaussian


def _whitened(y: np.ndarray, t: np.ndarray, weight: np.ndarray, prior: np.ndarray) -> White:
    d = y.shape[1]
    total = weight.sum()
    added = max(0.0, 1 - total / (ROWS_PER_DIRECTION * d))  # share of the mode's Gaussian
    share = weight / total
    mean = share @ y
    away = y - mean
    covariance = (1 - added) * (share[:, None] * away).T @ away + added * prior
    root, inverse_root = _roots(covariance)
    w = away @ inverse_root
    u = t @ root
    pull = share @ u
    u -= pull
    product = (share[:, None] * -u).T @ w
    product = (1 - added) * 0.5 * (product + product.T)
    if added:
        product += added * inverse_root @ prior @ inverse_root
    trust = (1 - added) * total / (total + 2 * d)
    return White(mean, root, inverse_root, w, u, pull, product, share, trust)


def scoring_step(y: np.ndarray, t: np.ndarray, weight: np.ndarray, prior: np.ndarray) -> Step:
    """Where location, scale and correlation of the draws `y` with scores `t` should go, to first order.

    With white draws w, conjugate scores u and P = -E[u w'] the step is exp(-log(P) / information): exact for
    Gaussian draws and a Gaussian density however far apart they are. The information of location and scale is
    the covariance of their features, that of each pair the variance of its own.
    """
    d = y.shape[1]
    white = _whitened(y, t, weight, prior)
    values, vectors = np.linalg.eigh(white.product)
    values = np.clip(values, SMALLEST_PRODUCT, 1e8)
    inverse = (vectors / values) @ vectors.T
    log_product = (vectors * np.log(values)) @ vectors.T
    information, pair_variance = _information(white.u @ inverse, white)
    first = np.linalg.solve(information, np.concatenate([inverse @ white.pull, -np.diag(log_product)]))
    generator = -log_product / (2 * pair_variance)
    np.fill_diagonal(generator, first[d:])
    shift = first[:d] * min(1.0, MAX_SHIFT / max(np.abs(first[:d]).max(), 1e-300))
    return Step(
        white.mean,
        white.root,
        white.inverse_root,
        inverse,
        information,
        pair_variance,
        shift,
        _exponential(generator),
    )


def _roots(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric root and its inverse, of a matrix that may be all but singular."""
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.maximum(values, 1e-14 * values.max()).clip(1e-280))
    return (vectors * root) @ vectors.T, (vectors / root) @ vectors.T


def _exponential(generator: np.ndarray) -> np.ndarray:
    """Of a symmetric matrix, its eigenvalues limited."""
    values, vectors = np.linalg.eigh(generator)
    limited = np.exp(np.clip(values, -MAX_LOG_STRETCH, MAX_LOG_STRETCH))
    return (vectors * limited) @ vectors.T


def _information(u: np.ndarray, white: White) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of the features u and u w + 1, and variance of (u_i w_j + u_j w_i) / 2.

    Drawn to those of a Gaussian by as much as matrices of this size cannot be known from so many draws.
    """
    d = u.shape[1]
    w = white.w
    share = white.share[:, None]
    first = np.concatenate([u, u * w + 1], axis=1)
    first -= white.share @ first
    gaussian = np.diag(np.repeat([1.0, 2.0], d))
    information = white.trust * (share * first).T @ first + (1 - white.trust) * gaussian
    squares = (share * u**2).T @ w**2
    variance = 0.25 * (squares + squares.T) + 0.5 * (share * u * w).T @ (u * w)
    variance = white.trust * variance + (1 - white.trust)
    return information, np.maximum(variance, 0.05)
