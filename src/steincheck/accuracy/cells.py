"""Cells of modes: where the Gaussian of a mode is the largest, and a function that ends at the border."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..flux.anchors import mode_anchors
from ..result import Modes


class Cutoff(NamedTuple):
    """A function h that is 0 at the border of a cell and nearly 1 inside, and its gradient."""

    value: np.ndarray  #: (n,)
    gradient: np.ndarray  #: (n, d)


class Cell(NamedTuple):
    """The cell of one mode among Gaussians of heights offset - (x - centre)' precision (x - centre) / 2."""

    own: int
    centres: np.ndarray  #: (M, d)
    precisions: np.ndarray  #: (M, d, d)
    offsets: np.ndarray  #: (M,)

    def heights(self, x: np.ndarray) -> np.ndarray:
        """Heights (n, M) of the Gaussians at the rows of x."""
        gap = x[:, None] - self.centres
        return self.offsets - 0.5 * np.einsum("nki,kij,nkj->nk", gap, self.precisions, gap, optimize=True)

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Whether the rows of x are in the cell."""
        if len(self.centres) == 1:
            return np.ones(len(x), dtype=bool)
        return np.asarray(self.heights(x).argmax(axis=1) == self.own)

    def cutoff(self, x: np.ndarray) -> Cutoff:
        """h = 1 - exp(-margin), the margin being the own height less the largest of the others."""
        if len(self.centres) == 1:
            return Cutoff(np.ones(len(x)), np.zeros_like(x))
        others = self.heights(x)
        own = others[:, self.own].copy()
        others[:, self.own] = -np.inf
        second = others.argmax(axis=1)
        slope = np.einsum("nij,nj->ni", self.precisions[second], x - self.centres[second])
        slope -= (x - self.centres[self.own]) @ self.precisions[self.own]
        near = np.exp(-np.maximum(own - others.max(axis=1), 0))
        return Cutoff(1 - near, near[:, None] * slope)


def cells_of_modes(modes: Modes) -> list[Cell]:
    """The cells of all modes."""
    anchors = mode_anchors(modes)
    precisions = np.linalg.inv(anchors.covariances)
    offsets = anchors.log_weight + 0.5 * np.linalg.slogdet(precisions)[1]
    return [Cell(k, anchors.centres, precisions, offsets) for k in range(len(modes))]
