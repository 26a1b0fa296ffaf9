"""Modes that a user brings: validated, with inverse Hessians where there are no covariances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._validation import as_numbers
from ..draws import as_matrix
from ..result import Modes
from ..target import Target, check_hessian, log_density_at
from .climb import climb
from .merge import inverse_root, merge
from .single import curvature
from .surface import Surface

MAX_STANDARD_DEVIATIONS = 1.0  # from a maximum, by one Newton step, at which a location is still taken for it
FARTHEST_START = 1e15  # neighbouring numbers are 0.1 apart there
MAX_NAMED = 5  # locations named in warnings


def refuse_modes_and_bounds(modes: Any, bounds: Any) -> None:
    """Raise if both are given: where modes are known no search is made."""
    if modes is not None and bounds is not None:
        raise ValueError("`bounds` is the box of the mode search: give `modes` or `bounds`, not both")


def as_modes(modes: Any, target: Target, warnings: list[str] | None = None) -> Modes:
    """Validate a user's modes, in the user's order: `Modes`, a tuple (locations, covariances), or locations.

    Without covariances the inverse Hessians of -log p at the locations are taken. Locations that are far from
    any maximum are warned of in `warnings`.
    """
    locations, covariances = _as_pair(modes)
    if not np.size(locations):
        raise ValueError("`modes` must hold at least one location, got none")
    x = as_matrix(locations, target.dim, minimum=1, name="modes")
    log_density = log_density_at(target, x)
    matrices = _inverse_hessians(target, x) if covariances is None else _as_covariances(covariances, x.shape)
    label = merge(x, np.linalg.inv(matrices), log_density, beta=1e-6)[1]
    twins = np.flatnonzero(np.bincount(label)[label] > 1)
    if len(twins):
        raise ValueError(f"`modes` must differ from each other, rows {twins[:10].tolist()} hold duplicates")
    if isinstance(modes, Modes):  # found for another constant, perhaps: the heights are those of this target
        return replace(modes, locations=x, covariances=matrices, log_density=log_density)
    if warnings is not None:
        warnings.extend(_far_from_maxima(target, x, matrices))
    return Modes(x, matrices, log_density, np.zeros(len(x), dtype=int))


def _far_from_maxima(target: Target, x: np.ndarray, covariances: np.ndarray) -> list[str]:
    """Which locations are not local maxima: the gradient is large per standard deviation."""
    surface = Surface(target)
    slope = surface.value_and_score(x)[1]
    steps = np.sqrt(np.einsum("ni,nij,nj->n", slope, covariances, slope))
    far = np.flatnonzero(steps > MAX_STANDARD_DEVIATIONS)
    if not len(far):
        return []
    ends = climb(surface, x[far], covariances[far], 0.3)
    warnings = []
    for i, k in enumerate(far[:MAX_NAMED]):
        text = f"`modes` must be local maxima: the gradient at row {k}, ({_short(x[k])}), is "
        text += f"{steps[k]:.2g} per standard deviation"
        if ends.rest[i]:
            visible = np.abs(ends.x[i]) > 1e-6 * np.sqrt(np.diag(covariances[k]))
            text += f"; a climb from there ends at ({_short(np.where(visible, ends.x[i], 0.0))})"
        warnings.append(text)
    if len(far) > MAX_NAMED:
        warnings.append(f"`modes`: {len(far) - MAX_NAMED} more rows are not local maxima")
    return warnings


def _short(x: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in x[:5]) + (", ..." if len(x) > 5 else "")


def _as_pair(modes: Any) -> tuple[Any, Any]:
    """Locations, and covariances or None: a tuple of two is a pair if its second member has three axes."""
    if isinstance(modes, Modes):
        return modes.locations, modes.covariances
    if isinstance(modes, tuple) and len(modes) == 2 and np.ndim(modes[0]) == 2:
        return modes
    return modes, None


def _inverse_hessians(target: Target, x: np.ndarray) -> np.ndarray:
    surface = Surface(target)
    hessians = [curvature(surface, point, np.ones(target.dim)) for point in x]
    roots = [inverse_root(hessian) for hessian in hessians]
    bad = [k for k, root in enumerate(roots) if root is None]
    if bad:
        if target.hessian is not None:
            bend = np.abs(np.diag(hessians[bad[0]]))
            check_hessian(target, x[bad[0]], 1 / np.sqrt(np.where(bend > 0, bend, 1.0)))
        raise ValueError(
            f"`modes` must be local maxima: at rows {bad[:10]} the Hessian of -log p is not positive "
            "definite; correct them, or give covariances too, as a tuple (locations, covariances)"
        )
    return np.array([root @ root.T for root in roots if root is not None])


def _as_covariances(covariances: Any, shape: tuple[int, int]) -> np.ndarray:
    matrices = as_numbers(covariances, "modes", "given with covariances that are numbers")
    expected = (*shape, shape[1])
    if matrices.shape != expected or not np.isfinite(matrices).all():
        raise ValueError(
            f"the covariances of `modes` must be finite, of shape {expected}, got shape {matrices.shape}"
        )
    for k, matrix in enumerate(matrices):
        smallest = np.linalg.eigvalsh(matrix)[0]
        if smallest <= 0 or not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * np.abs(matrix).max()):
            raise ValueError(
                f"the covariances of `modes` must be symmetric and positive definite, number {k} is not: its "
                f"smallest eigenvalue is {smallest:.3g}"
            )
    return matrices


def as_starts(starts: Any, dim: int) -> np.ndarray:
    """Starts (n, d) of a search; raises where numbers are too far apart to show a mode."""
    x = as_matrix(starts, dim, minimum=1, name="starts")
    size = np.abs(x).max()
    if size > FARTHEST_START:
        raise ValueError(
            f"`starts` must be within {FARTHEST_START:g} of 0, got {size:.4g}: so far out, rounding hides "
            "modes of ordinary width"
        )
    return x
