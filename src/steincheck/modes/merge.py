"""Modes found so far: which points are one mode, which modes have mass."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from .climb import KnownPeaks, squared_lengths

MIN_HESSIAN_EIGENVALUE = 1e-9  # eigenvalues of a Hessian of unit diagonal that are not distinguished from 0
NEGLIGIBLE_WEIGHT = 1e-3  # a mode of a smaller share of the heaviest does not keep the search going


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


@dataclass
class FoundModes:
    """The modes found so far, with the climbs that ended at each and the rounds that used it for starts."""

    dim: int
    max_modes: int
    beta: float = 1.0
    peaks: list[Peak] = field(default_factory=list)
    n_starts: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)

    def add(self, peak: Peak) -> int | None:
        """The number of the known mode that this one belongs to, or its own; None if the list is full."""
        x = np.array([known.x for known in self.peaks]).reshape(-1, self.dim)
        hessians = np.array([known.hessian for known in self.peaks]).reshape(-1, self.dim, self.dim)
        k = nearest_index(peak.x, peak.hessian, x, hessians, self.beta)
        if k == len(self.peaks):
            if self.full:
                return None
            self.peaks.append(peak)
            self.n_starts.append(0)
            self.uses.append(0)
        elif peak.log_density > self.peaks[k].log_density:
            self.peaks[k] = peak
        return k

    @property
    def full(self) -> bool:
        """Whether there are far more modes than are wanted: minor ones must not fill the list for ever."""
        return len(self.peaks) >= 16 * self.max_modes

    @property
    def log_weight(self) -> np.ndarray:
        """Laplace's log mass of each mode, up to a constant."""
        return np.array([peak.log_weight for peak in self.peaks])

    def heavy(self) -> list[int]:
        """Modes of weight above `NEGLIGIBLE_WEIGHT` times the heaviest, heaviest first."""
        return self.within(-np.log(NEGLIGIBLE_WEIGHT))

    def within(self, cut: float) -> list[int]:
        """Modes whose log weight is less than `cut` below the largest, heaviest first."""
        weight = self.log_weight
        order = np.argsort(-weight, kind="stable")
        return [int(k) for k in order if weight[k] > weight.max(initial=-np.inf) - cut]

    def known(self) -> KnownPeaks:
        """What climbs need to recognise these modes."""
        x = np.array([peak.x for peak in self.peaks]).reshape(-1, self.dim)
        whiten = np.array([peak.whiten for peak in self.peaks]).reshape(-1, self.dim, self.dim)
        return KnownPeaks(x, np.array([peak.log_density for peak in self.peaks]), whiten)


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
