"""Modes found so far: which points are one mode, which modes have mass, in which order they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

MIN_HESSIAN_EIGENVALUE = 1e-9  # eigenvalues of a Hessian of unit diagonal that are not distinguished from 0
NEGLIGIBLE_WEIGHT = 1e-3  # a mode of a smaller share of the heaviest does not keep the search going
CAPTURE_RADIUS = 0.25  # nats below a known mode within which it may be recognised
CAPTURE_ERROR = 0.05  # nats by which log p may differ there from the mode's parabola


@dataclass(frozen=True, eq=False)
class Peak:
    """A mode, or what stands in for one; a flat one has no parabola, but a width."""

    x: np.ndarray
    log_density: float
    hessian: np.ndarray  #: of -log p; at a flat mode the inverse of its squared width
    kind: Literal["mode", "flat"] = "mode"

    @cached_property
    def root(self) -> np.ndarray:
        """R with R R' the inverse Hessian."""
        return mode_root(self.hessian)

    @cached_property
    def metric(self) -> np.ndarray:
        """The inverse Hessian."""
        return self.root @ self.root.T

    @cached_property
    def sd(self) -> np.ndarray:
        """Standard deviations (d,)."""
        return np.sqrt(np.diag(self.metric))

    @cached_property
    def whiten(self) -> np.ndarray:
        """(x - mode) @ whiten has the identity as Hessian."""
        return self.hessian @ self.root

    @cached_property
    def log_weight(self) -> float:
        """Laplace's log mass, up to a constant."""
        return self.log_density + float(np.linalg.slogdet(self.root)[1])

    def drop(self, x: np.ndarray) -> np.ndarray:
        """By how many nats the parabola of the mode has dropped at points (n, d)."""
        z = (x - self.x) @ self.whiten
        return 0.5 * dot(z, z)


@dataclass
class FoundModes:
    """The modes found so far, no two of them closer than they are wide (paper, Alg. 2)."""

    max_modes: int
    beta: float = 1.0
    peaks: list[Peak] = field(default_factory=list)

    def add(self, peak: Peak) -> int | None:
        """The number of the known mode that this one belongs to, or its own; None if the list is full.

        It belongs to the nearest if d' (H_i + H_j)/2 d < beta, d their difference and H the Hessians of
        -log p, and takes its place if its log density is larger.
        """
        distances = []
        for known in self.peaks:
            gap = peak.x - known.x
            distances.append(0.5 * float(gap @ (peak.hessian @ gap + known.hessian @ gap)))
        k = int(np.argmin(distances)) if distances else 0
        if not distances or distances[k] >= self.beta:
            if self.full:
                return None
            self.peaks.append(peak)
            return len(distances)
        if peak.log_density > self.peaks[k].log_density:
            self.peaks[k] = peak
        return k

    @property
    def full(self) -> bool:
        """Whether there are far more modes than are wanted: minor ones must not fill the list for ever."""
        return len(self.peaks) >= 16 * self.max_modes

    @property
    def heavy(self) -> list[int]:
        """Modes of weight above `NEGLIGIBLE_WEIGHT` times the heaviest, heaviest first."""
        return self.within(-np.log(NEGLIGIBLE_WEIGHT))

    def within(self, cut: float) -> list[int]:
        """Modes whose log weight is less than `cut` below the largest, heaviest first."""
        weight = np.array([peak.log_weight for peak in self.peaks])
        order = np.argsort(-weight, kind="stable")
        return [int(k) for k in order if weight[k] > weight.max() - cut]


def recognise(x: np.ndarray, log_density: np.ndarray, known: Sequence[Peak]) -> np.ndarray:
    """Which known mode each point is at, near its top and on its parabola; -1 if none."""
    label = np.full(len(x), -1)
    for k, peak in enumerate(known):
        drop = peak.log_density - log_density
        near = (label < 0) & (drop > -CAPTURE_ERROR) & (drop < CAPTURE_RADIUS + CAPTURE_ERROR)
        rows = np.flatnonzero(near)
        expected = peak.drop(x[rows])
        label[rows[(expected < CAPTURE_RADIUS) & (np.abs(expected - drop[rows]) < CAPTURE_ERROR)]] = k
    return label


class Spectrum(NamedTuple):
    """Eigenvalues of Hessians brought to unit diagonal, so free of the units of x."""

    scale: np.ndarray
    values: np.ndarray
    vectors: np.ndarray


def spectrum(hessian: np.ndarray) -> Spectrum:
    """The spectrum of Hessians (..., d, d)."""
    size = np.abs(np.einsum("...ii->...i", hessian))
    scale = 1 / np.sqrt(np.where(size > 0, size, 1.0))
    return Spectrum(scale, *np.linalg.eigh(hessian * scale[..., None, :] * scale[..., :, None]))


def mode_root(hessian: np.ndarray) -> np.ndarray:
    """R with R R' the inverse of a positive definite Hessian, as modes have one."""
    scale, values, vectors = spectrum(hessian)
    return scale[..., :, None] * vectors / np.sqrt(values)[..., None, :]


def tie_order(x: np.ndarray, log_density: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Highest first; equally high ones, to 1e-6 nats, by location, compared coordinate by coordinate.

    Coordinates that differ by less than a hundredth of a standard deviation are not compared.
    """
    levels = _steps(-log_density, 1e-6 * np.maximum(1.0, np.abs(log_density).max()))
    cells = [_steps(column, 0.01 * sd) for column, sd in zip(x.T, width, strict=True)]
    return np.lexsort([*cells[::-1], levels])


def _steps(values: np.ndarray, gap: float) -> np.ndarray:
    """How many gaps wider than `gap` there are among the values below each."""
    order = np.argsort(values, kind="stable")
    steps = np.empty(len(values), dtype=int)
    steps[order] = np.cumsum(np.diff(values[order], prepend=values[order[0]]) > gap)
    return steps


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Scalar product of each row of `a` with the same row of `b`."""
    return np.einsum("nd,nd->n", a, b)
