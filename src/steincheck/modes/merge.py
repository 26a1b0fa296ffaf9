"""Stationary points: what they are, which of them are the same, which have mass."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from .climb import squared_lengths

MIN_HESSIAN_EIGENVALUE = 1e-9  # eigenvalues of a Hessian of unit diagonal that are not distinguished from 0

# a "flat" or "rough" point has no parabola, or none that settled; a "moving" one is not stationary yet
PointKind = Literal["mode", "flat", "rough", "saddle", "moving"]


class Peak(NamedTuple):
    """A stationary point, or one that was taken for it."""

    x: np.ndarray
    log_density: float
    hessian: np.ndarray  #: of -log p; at a flat mode the inverse of its squared width
    kind: PointKind


def merge(
    locations: np.ndarray, hessians: np.ndarray, log_density: np.ndarray, *, beta: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Merge points that are closer than they are wide (paper, Alg. 2).

    In turn each joins the nearest of those kept if d' (H_i + H_j)/2 d < beta, d their difference and H the
    Hessians of -log p, and takes its place if its log density is larger; else it is kept itself. Returns the
    rows kept, and for every row the position among them of the one it joined.
    """
    kept = list[int]()
    label = np.empty(len(locations), dtype=int)
    for i, x in enumerate(locations):
        label[i] = k = nearest_index(x, hessians[i], locations[kept], hessians[kept], beta)
        if k == len(kept):
            kept.append(i)
        elif log_density[i] > log_density[kept[k]]:
            kept[k] = i
    return np.array(kept, dtype=int), label


def nearest_index(
    x: np.ndarray, hessian: np.ndarray, others: np.ndarray, hessians: np.ndarray, beta: float
) -> int:
    """The nearest of the others, or their number if none is within `beta`."""
    distance = 0.5 * (squared_lengths(others - x, hessian) + squared_lengths(others - x, hessians))
    return int(np.argmin(distance)) if distance.min(initial=np.inf) < beta else len(others)


def default_cut(dim: int) -> float:
    """How far below the largest log Laplace weight a mode is dropped, unless the user says."""
    return 20 + dim / 2


def columns(peaks: list[Peak]) -> tuple[np.ndarray, ...]:
    """Locations, log densities, Hessians and kinds as arrays."""
    return tuple(np.array(column) for column in zip(*peaks, strict=True))


def log_weights(peaks: list[Peak]) -> np.ndarray:
    """Laplace's log mass of each, up to a constant."""
    return np.array([peak.log_density - 0.5 * np.linalg.slogdet(peak.hessian)[1] for peak in peaks])


def spectrum(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scale, eigenvalues and eigenvectors of Hessians (..., d, d) of unit diagonal, so free of units."""
    size = np.abs(np.einsum("...ii->...i", hessian))
    scale = 1 / np.sqrt(np.where(size > 0, size, 1.0))
    return scale, *np.linalg.eigh(hessian * scale[..., None, :] * scale[..., :, None])


def inverse_root(hessian: np.ndarray) -> np.ndarray | None:
    """L with L L' = inverse Hessian, or None where that is not positive definite."""
    return None if spectrum(hessian)[1][0] <= MIN_HESSIAN_EIGENVALUE else mode_root(hessian)


def mode_root(hessian: np.ndarray) -> np.ndarray:
    """L with L L' = inverse of a positive definite Hessian, as modes have one."""
    scale, values, vectors = spectrum(hessian)
    return scale[..., :, None] * vectors / np.sqrt(values)[..., None, :]


def tie_order(x: np.ndarray, log_density: np.ndarray, width: np.ndarray) -> list[int]:
    """Highest first; equally high ones, to 1e-6 nats, by location, compared coordinate by coordinate."""
    order = [int(k) for k in np.argsort(-log_density, kind="stable")]
    level = np.zeros(len(x), dtype=int)
    for before, after in pairwise(order):
        apart = log_density[before] - log_density[after] > 1e-6 * max(1.0, abs(log_density[before]))
        level[after] = level[before] + int(apart)
    # Coordinates that differ by less than a hundredth of a standard deviation are not compared.
    cells = np.empty(x.shape, dtype=int)
    for i in range(x.shape[1]):
        by_value = np.argsort(x[:, i], kind="stable")
        gaps = np.diff(x[by_value, i]) > 0.01 * width[i]
        cells[by_value, i] = np.concatenate([[0], np.cumsum(gaps)])
    return [int(k) for k in np.lexsort([*cells.T[::-1], level])]
