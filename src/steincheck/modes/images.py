"""Modes that a signed permutation of the coordinates maps onto each other: labels, signs of units."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ..result import Modes, SignedPermutation
from ..target import Target, log_density_anywhere
from .symmetry import matching_map, probes, verified_maps


class Image(NamedTuple):
    """A mode as the image of another."""

    mode: int
    symmetry: SignedPermutation


def images_of_modes(target: Target, modes: Modes, rng: np.random.Generator) -> list[Image | None]:
    """For every mode the earlier mode of which it is an exact image, or None.

    Modes of equal height are matched coordinate by coordinate; the match counts if log p(g x) = log p(x) at
    random points near the mode and far from it.
    """
    hessians = np.linalg.inv(modes.covariances)
    widths = np.sqrt(np.einsum("nii->ni", modes.covariances))
    found: list[Image | None] = []
    for k in range(len(modes)):
        image = None
        for j in (j for j in range(k) if found[j] is None and _equally_high(modes, j, k)):
            g = matching_map(modes.locations[[j, k]], hessians[[j, k]], widths[j])
            if g is not None and _holds(target, modes, j, g, rng):
                image = Image(j, g)
                break
        found.append(image)
    return found


def _equally_high(modes: Modes, j: int, k: int) -> bool:
    height = modes.log_density[j]
    return abs(modes.log_density[k] - height) <= 1e-6 * (1 + abs(height))


def _holds(target: Target, modes: Modes, k: int, g: SignedPermutation, rng: np.random.Generator) -> bool:
    """Whether log p(g x) = log p(x) at points about mode k."""
    root = np.linalg.cholesky(modes.covariances[k])
    points = np.concatenate([probes(modes.locations[k], root, rng) for _ in range(3)])
    return bool(verified_maps(partial(log_density_anywhere, target.log_density), [g], points))
