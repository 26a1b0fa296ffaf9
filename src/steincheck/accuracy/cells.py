"""Cells of modes: where the Gaussian of a mode is the largest, and a function that ends at the border."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._whitening import Gaussians
from ..flux.anchors import mode_anchors
from ..result import Modes


class Cutoff(NamedTuple):
    """A function h that is 0 at the border of a cell and nearly 1 inside, and its gradient."""

    value: np.ndarray  #: (n,)
    gradient: np.ndarray  #: (n, d)


class Cell(NamedTuple):
    """The cell of one mode: where its Gaussian is the largest."""

    own: int
    gaussians: Gaussians

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Whether the rows of x are in the cell."""
        return np.asarray(self.gaussians.largest(x) == self.own)

    def cutoff(self, x: np.ndarray) -> Cutoff:
        """h = 1 - exp(-margin), the margin being the own height less the largest of the others."""
        centres = self.gaussians.centres
        if len(centres) == 1:
            return Cutoff(np.ones(len(x)), np.zeros_like(x))
        others = self.gaussians.heights(x)
        own = others[:, self.own].copy()
        others[:, self.own] = -np.inf
        second = others.argmax(axis=1)
        inverse = self.gaussians.roots.inverse
        slope = np.einsum("nij,nj->ni", inverse[second] @ inverse[second], x - centres[second])
        slope -= (x - centres[self.own]) @ inverse[self.own] @ inverse[self.own]
        near = np.exp(-np.maximum(own - others.max(axis=1), 0))
        return Cutoff(1 - near, near[:, None] * slope)


def cells_of_modes(modes: Modes) -> list[Cell]:
    """The cells of all modes."""
    gaussians = mode_anchors(modes)
    return [Cell(k, gaussians) for k in range(len(modes))]
