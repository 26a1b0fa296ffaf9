"""How the coordinates of a target show the user's own parameters: as they are, or their log or logit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from .record import Target

# per scale of a coordinate, how a parameter follows from it
SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "": np.asarray,
    "log": np.exp,
    "logit": special.expit,
}


class ParameterScale(NamedTuple):
    """How one coordinate of a target shows one of the user's parameters."""

    parameter: str  #: the user's own name
    column: int  #: where `constrain` puts it
    scale: str  #: "" if the coordinate is the parameter itself, "log" or "logit"

    def values(self, coordinate: np.ndarray) -> np.ndarray:
        """Values of the parameter at values of the coordinate."""
        return np.asarray(SCALES[self.scale](coordinate))

    def log_slope(self, coordinate: np.ndarray) -> np.ndarray:
        """log of the derivative of the parameter by the coordinate."""
        if self.scale == "log":
            return np.asarray(coordinate)
        if self.scale == "logit":
            return np.asarray(special.log_expit(coordinate) + special.log_expit(-coordinate))
        return np.zeros_like(coordinate)


def parameter_scales(target: Target) -> dict[str, ParameterScale]:
    """Per name of a coordinate: the user's parameter and the scale on which the coordinate shows it.

    Found from the values of `constrain` at a few points, whatever the coordinates are called. Coordinates
    that mix several parameters (of a simplex, of ordered vectors) are not in it.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(
    ...     lambda u: u[:, 0] - np.exp(u[:, 0]), dim=1, names=["log tau"], constrained_names=["tau"],
    ...     constrain=np.exp, unconstrain=np.log,
    ... )
    >>> parameter_scales(target)["log tau"]
    ParameterScale(parameter='tau', column=0, scale='log')
    """
    names = target.coordinate_names
    if target.constrain is None or target.constrained_names is None:
        return {name: ParameterScale(name, k, "") for k, name in enumerate(names)}
    points = probe_points(target.dim)
    values = np.asarray(target.constrain(points), dtype=np.float64)
    found: dict[str, ParameterScale] = {}
    for scale, inverse in SCALES.items():
        column = _same_column(inverse(points), values)
        for j in np.flatnonzero(column >= 0).tolist():
            parameter = target.constrained_names[column[j]]
            found.setdefault(names[j], ParameterScale(parameter, int(column[j]), scale))
    return found


def scale_of(coordinate: np.ndarray, parameter: np.ndarray) -> str:
    """How a coordinate shows a parameter, with {} for its name, from values of both."""
    for scale, inverse in SCALES.items():
        if np.allclose(inverse(coordinate), parameter, rtol=1e-9, atol=0):
            return f"{scale} {{}}".lstrip()
    return "unconstrained {}"


def _same_column(images: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which column of `values` (n, k) equals each column of `images` (n, d), as (d,); -1 if none does."""
    order = np.argsort(values[0], kind="stable")
    ordered = values[0, order]
    after = np.searchsorted(ordered, images[0]).clip(max=len(order) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(ordered[before] - images[0]) < np.abs(ordered[after] - images[0])
    column = order[np.where(nearer, before, after)]
    same = np.isclose(images, values[:, column], rtol=1e-9, atol=0).all(axis=0)
    return np.where(same, column, -1)


def probe_points(dim: int, n: int = 3) -> np.ndarray:
    """A few fixed points (n, dim) near 0 without any symmetry."""
    return 0.8 * np.sin(np.outer(np.sqrt(np.arange(2, n + 2)), np.arange(1, dim + 1)))


def to_constrained(points: Any, target: Target) -> tuple[np.ndarray, tuple[str, ...]]:
    """Points (n, d) of the target, such as mode locations, as values (n, k) of the user's parameters.

    Returns
    -------
    values : array (n, k)
    names : tuple of str
        Parameter names; without `constrain` these are the points themselves with the names of the target.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda u: -u[:, 0] ** 2, dim=1, constrained_names=["tau"], constrain=np.exp)
    >>> to_constrained(np.zeros((1, 1)), target)
    (array([[1.]]), ('tau',))
    """
    points = np.atleast_2d(np.asarray(points, dtype=np.float64))
    if target.constrain is not None and target.constrained_names is not None:
        return np.asarray(target.constrain(points)), tuple(target.constrained_names)
    return points, target.coordinate_names
