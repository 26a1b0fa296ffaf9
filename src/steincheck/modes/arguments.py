"""Modes, starts and boxes that a user brings, validated; locations are climbed to their maximum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._validation import as_numbers, as_pairs, asymmetries, listed, listed_rows
from ..draws import as_matrix
from ..result import Modes
from ..target import Target, log_density_at
from ..target.counting import Budget, CountedTarget
from .climb import Ends, starts_at
from .merge import FoundModes, merge
from .rounds import Origin, Search, absorb, climb_from
from .settle import differenced_hessians


def as_modes(modes: Any, target: Target, budget: Budget | None = None) -> Modes:
    """Validate a user's modes, in the user's order: `Modes`, a tuple (locations, covariances), or locations.

    Locations alone are climbed to their maxima, and the inverse Hessians of -log p there are taken.
    """
    modes = _by_name(modes, target)
    locations, covariances = as_pair(modes)
    if not np.size(locations):
        raise ValueError("`modes` must hold at least one location, got none")
    x = as_matrix(locations, target.dim, minimum=1, name="modes")
    log_density = log_density_at(target, x)
    if covariances is None:
        return _maxima(x, log_density, CountedTarget(target, budget))
    matrices = as_covariances(covariances, x.shape)
    label = merge(x, np.linalg.inv(matrices), log_density, beta=1e-6)[1]
    _refuse_duplicates(label)
    if isinstance(modes, Modes):  # found for another constant, perhaps: the heights are those of this target
        return replace(modes, locations=x, covariances=matrices, log_density=log_density)
    return Modes(x, matrices, log_density, np.zeros(len(x), dtype=int))


def _maxima(x: np.ndarray, log_density: np.ndarray, density: CountedTarget) -> Modes:
    """The modes at locations: Newton steps from each, and a climb where these lead nowhere."""
    scale = differenced_hessians(density, x, np.ones(x.shape))[1].min(axis=0)
    origin = Origin(x[0], scale, x, x[:0])
    state = Search(density, origin, FoundModes(x.shape[1], len(x)), np.random.default_rng(0), 0)
    nowhere = np.full(len(x), -1)
    here = Ends(x, log_density, np.ones(len(x), bool), nowhere, np.broadcast_to(scale, x.shape))
    label = absorb(state, here, here.rest, flat=True)
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
    return Modes(
        np.array([peak.x for peak in peaks]),
        np.array([peak.metric for peak in peaks]),
        np.array([peak.log_density for peak in peaks]),
        np.zeros(len(x), dtype=int),
    )


def _refuse_duplicates(label: np.ndarray) -> None:
    twins = np.flatnonzero(np.bincount(label)[label] > 1)
    if len(twins):
        raise ValueError(f"`modes` must differ from each other, {listed_rows(twins)} hold duplicates")


def _by_name(modes: Any, target: Target) -> Any:
    """Modes with names, their coordinates in the order of the target's; others as they are."""
    if not isinstance(modes, Modes) or not modes.names or target.names is None:
        return modes
    if sorted(modes.names) != sorted(target.names):
        raise ValueError(
            f"`modes` must have the coordinates of the target, {listed(target.names)}, got "
            f"{listed(modes.names)}"
        )
    order = [modes.names.index(name) for name in target.names]
    return replace(
        modes,
        locations=modes.locations[:, order],
        covariances=modes.covariances[:, order][:, :, order],
        names=tuple(target.names),
        symmetries=() if order != sorted(order) else modes.symmetries,
    )


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


def as_starts(starts: Any, dim: int) -> np.ndarray:
    """Starts (n, d) of a search; raises where numbers are too far apart to show a mode."""
    x = as_matrix(starts, dim, minimum=1, name="starts")
    size = np.abs(x).max()
    if size > 1e15:  # neighbouring numbers are 0.1 apart there
        raise ValueError(
            f"`starts` must be within 1e+15 of 0, got {size:.4g}: so far out, rounding hides modes of "
            "ordinary width"
        )
    return x


def as_box(bounds: Any, dim: int) -> np.ndarray:
    """Lower and upper corner (2, d) of one finite (low, high) pair or one per coordinate."""
    box = as_pairs(bounds, dim)
    for k in np.flatnonzero(~np.isfinite(box).all(axis=0)):
        raise ValueError(f"`bounds` must be finite, coordinate {k} has {box[:, k].tolist()}")
    return box
