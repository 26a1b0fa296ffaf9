"""The affine map that makes draws fit the density: Stein's identity solved for mean, spread, correlation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._whitening import symmetric_roots
from ..target import Batch


class Affine(NamedTuple):
    """The map y -> matrix y + offset."""

    matrix: np.ndarray  # (d, d)
    offset: np.ndarray  # (d,)

    def __call__(self, y: np.ndarray) -> np.ndarray:
        """The rows of `y`, moved."""
        return y @ self.matrix.T + self.offset


class ScoringStep(NamedTuple):
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
        """The step as a map of the draws in their own coordinates."""
        matrix = self.root @ self.stretch @ self.inverse_root
        return Affine(matrix, self.mean + self.root @ self.shift - matrix @ self.mean)


class FirstMoments(NamedTuple):
    """Means and products of draws y and their scores t."""

    weight: float  # of all draws
    mean: np.ndarray  # (d,)
    pull: np.ndarray  # (d,) mean of t
    covariance: np.ndarray  # (d, d)
    product: np.ndarray  # (d, d), covariance of t and y


class WeightedDraws(NamedTuple):
    """Draws, scores at them and weights."""

    y: np.ndarray  # (n, d)
    t: np.ndarray  # (n, d)
    weight: np.ndarray  # (n,)

    def first_moments(self) -> FirstMoments:
        """Weighted first moments of draws and scores."""
        share = self.weight / self.weight.sum()
        mean = share @ self.y
        pull = share @ self.t
        weighted = share[:, None] * (self.y - mean)
        covariance = (self.y - mean).T @ weighted
        return FirstMoments(float(self.weight.sum()), mean, pull, covariance, (self.t - pull).T @ weighted)


def solve_affine(sample: WeightedDraws, prior: np.ndarray, scores: Batch) -> Affine:
    """The affine map after which the draws satisfy Stein's identity for all affine fields.

    Fisher scoring; `scores` evaluates them at moved draws. If the draws are an affine image of the density,
    the moved ones are draws of the density. The identity is returned where the steps do not converge; `prior`
    (d, d) is the covariance of the mode's Gaussian.
    """
    d = sample.y.shape[1]
    nothing = Affine(np.eye(d), np.zeros(d))
    tolerance = 0.02 / np.sqrt(sample.weight.sum())
    total = nothing
    moved = sample
    for _ in range(25):  # Fisher scoring takes a few, or does not converge
        step = scoring_step(moved.first_moments(), moved, prior)
        if step.size < tolerance:
            return total
        move = step.map
        total = Affine(move.matrix @ total.matrix, move.matrix @ total.offset + move.offset)
        y = total(sample.y)
        moved = WeightedDraws(y, scores(y), sample.weight)
        if not np.isfinite(moved.t).all():
            return nothing
    return total if step.size < 0.1 else nothing


def scoring_step(first: FirstMoments, sample: WeightedDraws, prior: np.ndarray) -> ScoringStep:
    """Where location, scale and correlation should go, to first order; fourth moments are those of `sample`.

    With white draws w, conjugate scores u and P = -E[u w'] the step is exp(-log(P) / information): exact for
    Gaussian draws and a Gaussian density however far apart they are. The information of location and scale is
    the covariance of their features, that of each pair the variance of its own.
    """
    white = _white(first, prior)
    values, vectors = np.linalg.eigh(white.product)
    values = np.where(values > 0, values.clip(1e-4, 1e8), 0.2)  # where the density is convex: widen, a little
    inverse = (vectors / values) @ vectors.T
    log_product = (vectors * np.log(values)) @ vectors.T
    w = (sample.y - first.mean) @ white.inverse_root
    u = (sample.t - first.pull) @ white.root @ inverse
    information, pairs = _information(u, w, sample.weight / sample.weight.sum(), white.trust)
    shift, generator = _towards_fit(inverse @ white.root @ first.pull, log_product, information, pairs)
    stretch = _exponential(generator)
    return ScoringStep(
        first.mean, white.root, white.inverse_root, inverse, information, pairs, shift, stretch
    )


class White(NamedTuple):
    """Coordinates in which the draws are white."""

    root: np.ndarray  # (d, d) symmetric root of the covariance
    inverse_root: np.ndarray
    product: np.ndarray  # (d, d), -E[u w'], symmetric; the identity if the spread is right
    trust: float  # in the fourth moments of the draws, against those of a Gaussian


def _white(first: FirstMoments, prior: np.ndarray) -> White:
    """From the draws, with the mode's Gaussian in the place of those missing."""
    d = len(first.mean)
    # the mode's Gaussian stands in for draws that are fewer than 4 per dimension
    added = max(0.0, 1 - first.weight / (4 * d))
    # draws may be all but singular
    root, inverse_root, _ = symmetric_roots((1 - added) * first.covariance + added * prior, floor=1e-14)
    product = -root @ first.product @ inverse_root
    product = (1 - added) * 0.5 * (product + product.T) + added * inverse_root @ prior @ inverse_root
    return White(root, inverse_root, product, (1 - added) * first.weight / (first.weight + 2 * d))


def _towards_fit(
    pull: np.ndarray, log_product: np.ndarray, information: np.ndarray, pair_variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shift, limited, and generator of the stretch; far from a fit, each feature for itself."""
    d = len(pull)
    features = np.concatenate([pull, -np.diag(log_product)])
    if np.abs(features).max() > 1:
        joint = features / np.diag(information)
    else:
        joint = np.linalg.solve(information, features)
    generator = -log_product / (2 * pair_variance)
    np.fill_diagonal(generator, joint[d:])
    return joint[:d] * min(1.0, 100.0 / max(np.abs(joint[:d]).max(), 1e-300)), generator


def _exponential(generator: np.ndarray) -> np.ndarray:
    """Of a symmetric matrix, its eigenvalues limited."""
    values, vectors = np.linalg.eigh(generator)
    limited = np.exp(np.clip(values, -5.0, 5.0))
    return (vectors * limited) @ vectors.T


def _information(
    u: np.ndarray, w: np.ndarray, share: np.ndarray, trust: float
) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of the features u and u w + 1, and variance of (u_i w_j + u_j w_i) / 2.

    Drawn to those of a Gaussian by as much as matrices of this size cannot be known from so many draws.
    """
    d = u.shape[1]
    features = np.concatenate([u, u * w + 1], axis=1)
    features -= share @ features
    weighted = share[:, None] * features
    information = trust * features.T @ weighted + (1 - trust) * np.diag(np.repeat([1.0, 2.0], d))
    squares = (share[:, None] * u**2).T @ w**2
    variance = 0.25 * (squares + squares.T) + 0.5 * (share[:, None] * u * w).T @ (u * w)
    return information, np.maximum(trust * variance + (1 - trust), 0.05)
