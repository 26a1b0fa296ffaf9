"""Quadratic forms of the Stein matrices of a sample and its perturbations, where few draws have moved.

`steincheck.stein.quadratic_forms` evaluates the matrix of every perturbation afresh and never stores one.
Where few draws have moved, only their rows and columns differ from those of the sample: the studies, which
have some thousand draws at most, keep the matrix of the sample and put in the changes.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from steincheck.stein.kernels import IMQ
from steincheck.stein.kernels import stein_kernel
from steincheck.stein.tiles import MULTIPLY_ADDS_IN_DOUBLE as SINGLE_FROM
from steincheck.stein.tiles import Forms

FEW = 0.25  # share of the rows of all perturbations up to which this pays: streaming uses the symmetry


def few_moved(samples: np.ndarray) -> bool:
    """Whether few draws of the perturbations `samples` (J, n, d) differ from those of the first."""
    moved = np.any(samples[1:] != samples[0], axis=2)
    return bool(np.sum(moved) <= FEW * moved.size)


def forms_of_moves(
    samples: np.ndarray, scores: np.ndarray, widths: Any, weights: np.ndarray
) -> tuple[Forms, Forms]:
    """Forms of H_0, and of the sum of H_j over the perturbations: as two calls of `quadratic_forms`."""
    n, widths = samples.shape[1], np.asarray(widths, dtype=float)
    everyone = np.arange(n)
    own = _rows(samples[0], scores[0], everyone, widths)
    own[:, everyone, everyone] = 0
    total = (len(samples) - 1) * own
    for x, s in zip(samples[1:], scores[1:], strict=True):
        rows = np.flatnonzero(np.any(x != samples[0], axis=1))
        change = _rows(x, s, rows, widths) - own[:, rows]
        change[:, np.arange(len(rows)), rows] = 0
        # Twice, for the columns: forms see the symmetric part only. Among the moved, rows have it all.
        change *= 2
        change[:, :, rows] *= 0.5
        total[:, rows] += change
    kind = np.float32 if n * n * len(weights) * len(widths) > SINGLE_FROM else np.float64
    w = weights.astype(kind)

    def forms(h: np.ndarray) -> Forms:
        replicates = [np.einsum("bi,bi->b", w @ one.astype(kind), w) for one in h]
        return Forms(h.sum(axis=(1, 2)), np.array(replicates, dtype=float), None)

    return forms(own), forms(total)


def _rows(x: np.ndarray, s: np.ndarray, rows: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Stein kernel of the given rows with all draws, (K, m, n); padded, so that a new m compiles little."""
    size = min(len(x), max(32, 1 << (len(rows) - 1).bit_length()))
    padded = np.resize(rows, size)
    with jax.enable_x64(True):
        return np.array(_strip(x[padded], s[padded], x, s, widths)[:, : len(rows)])


@jax.jit
def _strip(xa: Any, sa: Any, xb: Any, sb: Any, widths: Any) -> Any:
    return jax.vmap(lambda width: stein_kernel(IMQ(width), xa, sa, xb, sb))(widths)
