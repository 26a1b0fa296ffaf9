"""A target that counts its evaluations."""

from __future__ import annotations

import numpy as np

from ..target import Target, outputs_anywhere, raw_score, raw_value_and_score


class CountedDensity:
    """Log density and score of a target anywhere; not finite where they cannot be had."""

    def __init__(self, target: Target, limit: float | None = None) -> None:
        self.target = target
        self.limit = np.inf if limit is None else limit
        self.made = 0
        self.cost = 1 if target.has_score else 2 * target.dim

    @property
    def left(self) -> float:
        """Evaluations that are still allowed."""
        return self.limit - self.made

    def score(self, x: np.ndarray) -> np.ndarray:
        """The score (n, d)."""
        self.made += self.cost * len(x)
        return outputs_anywhere(lambda y: (raw_score(self.target, y),), x, {"score": (self.target.dim,)})[0][
            0
        ]

    def log_density_and_score(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log density (n,) and the score (n, d)."""
        self.made += self.cost * len(x)
        shapes = {"log_density": (), "score": (self.target.dim,)}
        (log_p, score), _ = outputs_anywhere(lambda y: raw_value_and_score(self.target, y), x, shapes)
        return np.where(np.isnan(log_p) | (log_p == np.inf), -np.inf, log_p), score
