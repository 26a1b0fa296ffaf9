"""Hessians of -log p: the target's own, or differences of its score."""

from __future__ import annotations

import numpy as np

from ..target import Batch
from .surface import Surface


def hessian_at(surface: Surface, x: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The Hessian at a point: the target's own, else by differences.

    The steps must be small against the mode: `width` is a first guess, the first pass makes a better one.
    """
    target = surface.target
    if target.hessian is not None:
        hessian = -np.asarray(target.hessian(x[None]), dtype=float)[0]
    else:
        _, learnt = differenced_hessians(surface, surface.score, x[None], width[None])
        hessian = differenced_hessians(surface, surface.score, x[None], learnt)[0][0]
    if hessian.shape != (len(x), len(x)) or not np.isfinite(hessian).all():
        raise ValueError(f"`hessian` must return finite values (n, d, d), at x = {x} it returns {-hessian}")
    return 0.5 * (hessian + hessian.T)


def differenced_hessians(
    surface: Surface, score: Batch, x: np.ndarray, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hessians at points (n, d) by differences of `score` over steps small against `width` (n, d).

    Returned with the widths that they imply.
    """
    n, d = x.shape
    h = width * (1e-4 if surface.target.has_score else 1e-2)
    moves = h[:, None, :] * np.eye(d)
    points = np.concatenate([x[:, None] + moves, x[:, None] - moves], axis=1)
    scores = score(points.reshape(-1, d)).reshape(n, 2, d, d)
    hessian = (scores[:, 1] - scores[:, 0]) / (2 * h[:, :, None])
    hessian = 0.5 * (hessian + hessian.transpose(0, 2, 1))
    bend = np.einsum("nii->ni", hessian)
    learnt = np.isfinite(bend) & (bend > 0)
    return hessian, np.where(learnt, 1 / np.sqrt(np.where(learnt, bend, 1.0)), width)
