"""The modes that a search has found so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .climb import Known
from .merge import Peak, mode_root, nearest_index
from .starts import Base

NEGLIGIBLE_WEIGHT = 1e-3  # a mode of a smaller share of the mass, by Laplace, does not keep the search going


class Limits(NamedTuple):
    """How many modes to keep, which are the same, and how hard to look."""

    max_modes: int
    beta: float
    cut: float
    effort: float  #: share of the usual number of starts, below 1 for slow targets


@dataclass
class Atlas:
    """The modes found so far, with what the starts of the next round need."""

    limits: Limits
    peaks: list[Peak] = field(default_factory=list)
    roots: list[np.ndarray] = field(default_factory=list)
    whiten: list[np.ndarray] = field(default_factory=list)
    log_volume: list[float] = field(default_factory=list)
    n_starts: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)

    def add(self, peak: Peak) -> int | None:
        """The number of the known peak that this one belongs to, or its own; None if the atlas is full."""
        x = np.array([known.x for known in self.peaks]).reshape(-1, len(peak.x))
        hessians = np.array([known.hessian for known in self.peaks]).reshape(-1, *peak.hessian.shape)
        k = nearest_index(peak.x, peak.hessian, x, hessians, self.limits.beta)
        if k == len(self.peaks):
            if self.full:
                return None
            self.n_starts.append(0)
            self.uses.append(0)
        elif peak.log_density <= self.peaks[k].log_density:
            return k
        root = mode_root(peak.hessian)
        self.peaks[k:] = [peak, *self.peaks[k + 1 :]]
        self.roots[k:] = [root, *self.roots[k + 1 :]]
        self.log_volume[k:] = [float(np.linalg.slogdet(root)[1]), *self.log_volume[k + 1 :]]
        self.whiten[k:] = [np.linalg.inv(root).T, *self.whiten[k + 1 :]]
        return k

    @property
    def log_weight(self) -> np.ndarray:
        """Laplace's log mass of each mode, up to a constant."""
        height = np.array([peak.log_density for peak in self.peaks])
        return height + np.array(self.log_volume)

    @property
    def full(self) -> bool:
        """Too many modes of some mass, or of any: minor ones must not fill the list indefinitely."""
        weight = self.log_weight
        some = int(np.sum(weight > weight.max(initial=-np.inf) - 10))
        return some >= 6 * self.limits.max_modes or len(weight) >= 24 * self.limits.max_modes

    def heavy(self) -> list[int]:
        """Modes of weight above `NEGLIGIBLE_WEIGHT` times the heaviest, heaviest first."""
        weight = self.log_weight
        order = np.argsort(-weight, kind="stable")
        return [int(k) for k in order if weight[k] > weight.max(initial=-np.inf) + np.log(NEGLIGIBLE_WEIGHT)]

    def known(self) -> Known:
        """What climbs need to recognise these modes."""
        x = np.array([peak.x for peak in self.peaks])
        return Known(x, np.array([peak.log_density for peak in self.peaks]), np.array(self.whiten))

    def base(self, k: int) -> Base:
        """Mode k as a place for starts."""
        return Base(self.peaks[k].x, self.roots[k])
