"""Coordinates in which draws are uncorrelated: densities far longer than wide are searched in these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial

from .._whitening import standardised
from ..result import Modes
from ..target import Target
from ..target.compiled import jax_target
from ..target.evaluation import raw_score


class UncorrelatedCoordinates(NamedTuple):
    """x = centre + root z."""

    centre: np.ndarray
    root: np.ndarray

    def inward(self, x: np.ndarray) -> np.ndarray:
        """The coordinates z of the rows of `x`."""
        return standardised(x, self.centre, self.root)

    def outward(self, z: np.ndarray) -> np.ndarray:
        """The rows x with coordinates `z`."""
        return self.centre + z @ self.root.T

    def target(self, target: Target) -> Target:
        """The density as a function of z, up to a constant."""
        if target.jax_log_density is not None:
            with jax.enable_x64(True):
                inner = Partial(_log_density_in_z, target.jax_log_density, self.centre, self.root)
                return jax_target(inner, target.dim)
        return Target(
            lambda z: target.log_density(self.outward(z)),
            (lambda z: raw_score(target, self.outward(z)) @ self.root) if target.has_score else None,
            dim=target.dim,
        )

    def modes(self, found: Modes, names: Any) -> Modes:
        """Modes found in z, in the coordinates x; symmetries are those of z and are not kept."""
        covariances = self.root @ found.covariances @ self.root.T
        return replace(
            found,
            locations=self.outward(found.locations),
            covariances=0.5 * (covariances + covariances.transpose(0, 2, 1)),
            symmetries=(),
            names=tuple(names or ()),
        )


def _log_density_in_z(log_density: Any, centre: Any, root: Any, z: Any) -> Any:
    return log_density(centre + root @ z)


def uncorrelated_coordinates(draws: np.ndarray | None) -> UncorrelatedCoordinates | None:
    """Coordinates for draws (n, d) that are nearly on a plane; None if they are not, or too few to say."""
    # with fewer than 2 d draws their covariance is mostly noise
    if draws is None or len(draws) < 2 * draws.shape[1] or draws.shape[1] < 2:
        return None
    if not (draws.std(axis=0) > 0).all():
        return None
    if np.linalg.eigvalsh(np.corrcoef(draws.T))[0] > 1e-7:  # the usual search can bear this
        return None
    singular, vectors = np.linalg.svd(draws - draws.mean(axis=0), full_matrices=False)[1:]
    if singular[-1] <= 1e-13 * singular[0]:  # exactly on a plane: there are no units across it
        return None
    return UncorrelatedCoordinates(np.median(draws, axis=0), vectors.T * singular / np.sqrt(len(draws)))
