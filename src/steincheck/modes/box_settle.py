"""The end of one climb made exact, in the search in a box: SciPy's BFGS, then Newton steps.

`settle` does this in the search without a box, for many ends at once and far faster. The two differ: here
saddle points, which the box search counts, are told from other ends; an end settles at a Newton decrement of
1e-8 nats, not 1e-6; and log p must be a parabola at a thousandth of the width, not at a tenth. One routine
for both would change the committed rows of the paper's figures.
"""

from __future__ import annotations

import numpy as np

from .climb import MAX_CLIMB_ITERATIONS
from .hessian import hessian_at
from .merge import MIN_HESSIAN_EIGENVALUE, Peak, PointKind, inverse_root, mode_root, spectrum
from .settle import flat_top
from .surface import Surface


def settle_one(surface: Surface, x: np.ndarray, width: np.ndarray) -> Peak:
    """SciPy's BFGS from `x`, a few Newton steps, and what kind of stationary point it is."""
    from scipy.optimize import minimize  # slow to import

    root = inverse_root(hessian_at(surface, x, width))
    root = np.diag(width) if root is None else root

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        point = (x + root @ z)[None]
        value = -float(surface.log_density(point)[0])
        return value, -surface.score(point)[0] @ root if value < np.inf else np.zeros_like(z)

    # Whitened by the Hessian, BFGS starts from the right metric and its test of the gradient is free of the
    # units of x. Its own verdict is not used: at a perfect optimum it often reports a loss of precision.
    options = {"maxiter": MAX_CLIMB_ITERATIONS, "gtol": 1e-7}
    with np.errstate(all="ignore"):
        found = minimize(objective, np.zeros(len(x)), jac=True, method="BFGS", options=options)
    x = x + root @ found.x
    width = np.sqrt(np.diag(root @ found.hess_inv @ root.T))
    g = surface.score(x[None])[0]
    for _ in range(5):
        hessian = hessian_at(surface, x, width)
        newton = inverse_root(hessian)
        if newton is None or np.sum((g @ newton) ** 2) < 1e-20:
            break
        ahead = (x + newton @ (g @ newton))[None]
        if surface.log_density(ahead)[0] == -np.inf:
            break
        gradient = surface.score(ahead)[0]
        if np.sum((gradient @ newton) ** 2) >= np.sum((g @ newton) ** 2):
            break
        x = ahead[0]
        g = gradient
    log_density = float(surface.log_density(x[None])[0])
    kind = _kind(surface, x, log_density, g, hessian)
    if kind == "flat":
        top = flat_top(surface, x, width)[0]
        return Peak(x, log_density, hessian, "moving") if top is None else top
    return Peak(x, log_density, hessian, kind)


def _kind(
    surface: Surface, x: np.ndarray, log_density: float, g: np.ndarray, hessian: np.ndarray
) -> PointKind:
    """What a point is, by the gradient and the Hessian there."""
    scale, values, vectors = spectrum(hessian)
    if 0.5 * np.sum(((g * scale) @ vectors) ** 2 / np.maximum(np.abs(values), MIN_HESSIAN_EIGENVALUE)) > 1e-8:
        return "moving"
    if values[0] < -MIN_HESSIAN_EIGENVALUE:
        return "saddle"
    if values[0] <= MIN_HESSIAN_EIGENVALUE:
        return "flat"
    # Is log p a parabola at a thousandth of its width? At the top of -x^4 the Hessian is an accident.
    axes = 1e-3 * mode_root(hessian).T
    around = surface.log_density(np.concatenate([x + axes, x - axes]))
    return "flat" if log_density - around.min() > 1e-4 else "mode"
