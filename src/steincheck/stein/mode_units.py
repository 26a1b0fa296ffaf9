"""The Stein kernel in the units of each mode: for modes whose widths differ, where one metric fits none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from .._whitening import Gaussians, average_root, standardised
from ..result import Modes
from .kernels import Kernel
from .quadratic import Replicated, flip_signs
from .resampling import Resampling
from .tiles import sums_of_block_pairs


class ModeView(NamedTuple):
    """Draws as one mode sees them: those for which it is responsible, in its standardised coordinates."""

    rows: np.ndarray  # (m,) of the draws
    z: np.ndarray  # (m, d)
    scores: np.ndarray  # (m, d) of the density times the responsibility, with respect to z
    weight: np.ndarray  # (m,) the responsibility


def widths_differ(modes: Modes) -> bool:
    """Whether, relative to the average covariance, one mode is much wider than another along some axis."""
    root = average_root(modes.covariances)
    relative = np.linalg.solve(root, np.linalg.solve(root, modes.covariances).transpose(0, 2, 1))
    variances = np.linalg.eigvalsh(relative)
    # up to a ratio of 3 the average covariance is a fair unit for all modes
    return bool(variances.max() > 3.0**2 * variances.min())


def laplace_responsibilities(x: np.ndarray, modes: Modes) -> np.ndarray:
    """Shares (M, n) of the modes' Gaussians, with Laplace weights, in the density at each draw."""
    log_weight = np.log(modes.laplace_weights.clip(1e-300))
    return special.softmax(Gaussians(modes.locations, modes.covariances, log_weight).heights(x), axis=1).T


def gaussian_score(x: np.ndarray, centre: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Score of a Gaussian at the rows of `x`."""
    return (centre - x) @ precision


def mixture_score(
    x: np.ndarray, shares: np.ndarray, centres: np.ndarray, precisions: np.ndarray
) -> np.ndarray:
    """Score (n, d) of a mixture of M Gaussians with responsibilities `shares` (M, n)."""
    total = np.zeros_like(x)
    for share, centre, precision in zip(shares, centres, precisions, strict=True):
        total += share[:, None] * gaussian_score(x, centre, precision)
    return total


def mode_views(x: np.ndarray, scores: np.ndarray, modes: Modes) -> Iterator[ModeView]:
    """The draws as each mode sees them, one mode after the other.

    With responsibilities r_k, sum_k r_k = 1, the field r_k(x) k(z_k(x), .) has the Stein kernel
    r_k(x) r_k(y) u(z_k(x), z_k(y)) with the score s + grad log r_k, where grad log r_k = g_k - sum_l r_l g_l
    and g_l is the score of Gaussian l.
    """
    shares = laplace_responsibilities(x, modes)
    precisions = np.linalg.inv(modes.covariances)
    slope = scores - mixture_score(x, shares, modes.locations, precisions)
    for k, (share, centre) in enumerate(zip(shares, modes.locations, strict=True)):
        rows = np.flatnonzero(share > 1e-10)  # with less, a draw adds nothing
        root = np.linalg.cholesky(modes.covariances[k])
        own = slope[rows] + gaussian_score(x[rows], centre, precisions[k])
        yield ModeView(rows, standardised(x[rows], centre, root), own @ root, share[rows])


def at_own_mode(x: np.ndarray, modes: Modes) -> np.ndarray:
    """Standardised coordinates (n, d) of each draw at the mode most responsible for it."""
    z = np.empty_like(x)
    owner = laplace_responsibilities(x, modes).argmax(axis=0)
    for k in np.unique(owner):
        rows = owner == k
        z[rows] = standardised(x[rows], modes.locations[k], np.linalg.cholesky(modes.covariances[k]))
    return z


def replicate_over_modes(
    x: np.ndarray,
    scores: np.ndarray,
    modes: Modes,
    kernel: Kernel,
    bandwidths: np.ndarray,
    resampled: Resampling,
) -> Replicated:
    """`replicated_statistics` with the sum of the Stein kernels of all modes, for a bootstrap of blocks."""
    block = resampled.block
    assert block is not None
    q = int(block.max()) + 1
    table = np.zeros((len(bandwidths), 1, q, q))
    for view in mode_views(x, scores, modes):
        if len(view.rows) < 2:
            continue
        labels = block[view.rows]
        part = sums_of_block_pairs(
            view.z[None], view.scores[None], kernel, bandwidths, labels, weight=view.weight
        ).table
        met = labels.max() + 1  # blocks after the last one with a draw at this mode add nothing
        table[:, :, :met, :met] += part
    return flip_signs(table, np.bincount(block), resampled.weights)
