"""Mode locations in words, by the names of the parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MAX_COORDINATES_NAMED = 3  # of a mode location in a sentence


def mode_description(location: np.ndarray, names: Sequence[str]) -> str:
    """Where a mode is, in its first coordinates: "mu = 2.03, tau = 0.5, ..."."""
    return mode_descriptions(np.asarray(location)[None], names)[0]


def mode_descriptions(locations: np.ndarray, names: Sequence[str]) -> tuple[str, ...]:
    """Where modes (M, k) are, in the coordinates in which they differ most.

    Examples
    --------
    >>> mode_descriptions(np.array([[0.0, 1, 2, 3, 4], [0, 1, 2, -3, 4]]), "abcde")
    ('a = 0, b = 1, d = 3, ...', 'a = 0, b = 1, d = -3, ...')
    """
    size = np.max(np.abs(locations), axis=1, initial=1e-300, keepdims=True)
    rounded = np.where(np.abs(locations) < 1e-6 * np.maximum(size, 1.0), 0.0, locations)
    largest = np.maximum(np.abs(rounded).max(axis=0), 1e-300)
    differ = np.round(np.ptp(rounded, axis=0) / largest, 3)
    chosen = np.sort(np.argsort(-differ, kind="stable")[:MAX_COORDINATES_NAMED])
    more = ", ..." if locations.shape[1] > MAX_COORDINATES_NAMED else ""
    return tuple(", ".join(f"{names[k]} = {row[k]:.4g}" for k in chosen) + more for row in rounded)
