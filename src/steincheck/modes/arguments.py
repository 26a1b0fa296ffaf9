"""Modes that a user brings, validated; locations are climbed to their maximum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._validation import as_numbers, asymmetries, listed, listed_rows
from ..draws import as_matrix
from ..result import Modes
from ..target import Target, log_density_at
from ..target.evaluation import Budget, CountedTarget
from .climb import Ends, differenced_hessians, starts_at
from .peaks import FoundModes, Peak
from .rounds import Origin, Search, absorb, climb_from


def as_modes(modes: Any, target: Target, budget: Budget | None = None) -> Modes:
    """Validate a user's modes, in the user's order: `Modes`, a tuple (locations, covariances), or locations.

    Locations alone are climbed to their maxima, and the inverse Hessians of -log p there are taken.
    """
    if isinstance(modes, Modes) and modes.names and target.names and modes.names != tuple(target.names):
        raise ValueError(
            f"`modes` must have the coordinates of the target in its order, {listed(target.names)}, got "
            f"{listed(modes.names)}"
        )
    locations, covariances = as_pair(modes)
    if not np.size(locations):
        raise ValueError("`modes` must hold at least one location, got none")
    x = as_matrix(locations, target.dim, minimum=1, name="modes")
    log_density = log_density_at(target, x)
    if covariances is None:
        return _maxima(x, log_density, CountedTarget(target, budget))
    matrices = as_covariances(covariances, x.shape)
    given = FoundModes(len(x), beta=1e-6)
    peaks = (Peak(*each) for each in zip(x, log_density, np.linalg.inv(matrices), strict=True))
    _refuse_duplicates(np.array([given.add(peak) for peak in peaks]))
    if isinstance(modes, Modes):  # found for another constant, perhaps: the heights are those of this target
        return replace(modes, locations=x, covariances=matrices, log_density=log_density)
    return Modes(x, matrices, log_density)


def _maxima(x: np.ndarray, log_density: np.ndarray, density: CountedTarget) -> Modes:
    """The modes at locations: Newton steps from each, and a climb where these lead nowhere."""
    scale = differenced_hessians(density, x, np.ones(x.shape))[1].min(axis=0)
    state = Search(density, Origin(x[0], scale, x, x[:0]), FoundModes(len(x)), np.random.default_rng(0))
    at_rest = np.ones(len(x), bool)
    here = Ends(x, log_density, at_rest, np.full(len(x), -1), np.broadcast_to(scale, x.shape))
    label = absorb(state, here, at_rest, flat=True)
    lost = np.flatnonzero(label < 0)
    if len(lost):
        ends = climb_from(state, starts_at(x[lost], np.diag(scale**2)), iterations=1000)
        label[lost] = absorb(state, ends, ends.rest, flat=True)
    for row in np.flatnonzero(label[lost] < 0)[:1]:
        raise ValueError(
            f"`modes` must be local maxima: ascending from row {lost[row]}, ({_short(x[lost[row]])}), leads "
            f"to ({_short(ends.x[row])}), where the log density is {ends.log_density[row]:.4g}, and to no "
            "maximum; correct it, or give `modes` as a pair (locations, covariances)"
        )
    _refuse_duplicates(label)
    peaks = [state.found.peaks[k] for k in label]
    heights = np.array([peak.log_density for peak in peaks])
    return Modes(np.array([peak.x for peak in peaks]), np.array([peak.metric for peak in peaks]), heights)


def _refuse_duplicates(label: np.ndarray) -> None:
    twins = np.flatnonzero(np.bincount(label)[label] > 1)
    if len(twins):
        raise ValueError(f"`modes` must lead to different maxima, but {listed_rows(twins)} lead to one")


def _short(x: np.ndarray) -> str:
    return listed([f"{value:.4g}" for value in x], 5)


def as_pair(modes: Any) -> tuple[Any, Any]:
    """Locations, and covariances or None: a tuple of two is a pair if its first member has two axes."""
    if isinstance(modes, Modes):
        return modes.locations, modes.covariances
    if isinstance(modes, tuple) and len(modes) == 2 and np.ndim(modes[0]) == 2:
        return modes
    return modes, None


def as_covariances(covariances: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Covariance matrices (M, d, d) of modes of this shape (M, d), or one clear error."""
    matrices = as_numbers(covariances, "modes", "given with covariances that are numbers")
    expected = (*shape, shape[1])
    if matrices.shape != expected or not np.isfinite(matrices).all():
        raise ValueError(
            f"the covariances of `modes` must be finite, of shape {expected}, got shape {matrices.shape}"
        )
    for k, matrix in enumerate(matrices):
        smallest = np.linalg.eigvalsh(matrix)[0]
        if smallest <= 0 or asymmetries(matrix).any():
            raise ValueError(
                f"the covariances of `modes` must be symmetric and positive definite, number {k} is not: its "
                f"smallest eigenvalue is {smallest:.3g}"
            )
    return matrices
