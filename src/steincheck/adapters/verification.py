"""Does a target made from a model say what the model itself says? Looked at when the target is made."""

from __future__ import annotations

import warnings

import numpy as np

from ..target import Batch, Target, check_score, probe_points
from ..wording.draws import unverified_density
from .parameters import Parameters


def verify(target: Target, parameters: Parameters, without_jacobian: Batch, source: str) -> None:
    """Raise unless log density, Jacobian and score agree with an independent evaluation at a few points.

    Parameters
    ----------
    target : Target
        As made.
    parameters : Parameters
        Its transformation: the density of the coordinates u is that of the parameters times |dc/du|.
    without_jacobian : callable
        Batch function (n, d) -> (n,): the model's own log density of the parameters at these coordinates,
        by another route than the target's.
    source : str
        What made the model, for messages.
    """
    points = probe_points(target.dim)
    value = np.asarray(target.log_density(points), dtype=np.float64)
    points = points[np.isfinite(value)]
    value = value[np.isfinite(value)]
    if not len(value):
        warnings.warn(unverified_density(source, len(probe_points(1))), stacklevel=3)
        return
    jacobian = log_jacobian(parameters, points)
    if jacobian is not None:
        _compare(value, np.asarray(without_jacobian(points)) + jacobian, source)
    check_score(target, points)
    _check_dependence(target)


def _compare(value: np.ndarray, expected: np.ndarray, source: str) -> None:
    """Raise unless both agree up to a constant."""
    allowed = 1e-5 * (1 + np.ptp(expected)) + 1e-9 * np.abs(expected).max()
    if np.ptp(value - expected) <= allowed:
        return
    reversed_sign = np.ptp(-value - expected) <= allowed
    reason = "the sign is reversed" if reversed_sign else "they differ by more than a constant"
    raise RuntimeError(
        f"the target made from the {source} model disagrees with {source}'s own log density: {reason}, "
        f"{value.tolist()} against {expected.tolist()}; please report this with the version of {source}"
    )


def log_jacobian(parameters: Parameters, points: np.ndarray) -> np.ndarray | None:
    """log |det dc/du| (n,) by finite differences; of a simplex all but the last element count.

    None where the parameters have redundant elements of another kind, such as correlation matrices.
    """
    n, d = points.shape
    redundant = {row[-1] for row in parameters.rows_with_norm_1(1)}
    columns = [k for k in range(len(parameters.names)) if k not in redundant]
    if len(columns) != d or d > 1000:  # a dense determinant by finite differences is cheap up to d = 1000
        return None
    step = 1e-5  # errors of about 1e-10 at coordinates of size 1
    moves = step * np.eye(d)
    ahead = parameters.constrain((points[:, None] + moves).reshape(-1, d))[:, columns]
    behind = parameters.constrain((points[:, None] - moves).reshape(-1, d))[:, columns]
    slopes = (ahead - behind).reshape(n, d, d) / (2 * step)
    return np.linalg.slogdet(slopes)[1]


def _check_dependence(target: Target) -> None:
    """Raise where the density is constant along a coordinate: it cannot be normalised."""
    start = probe_points(target.dim, 1)
    directions = np.concatenate([np.eye(target.dim), -np.eye(target.dim)])
    with np.errstate(all="ignore"):  # exp(300) squared is still a number
        near, far = (np.asarray(target.log_density(start + t * directions)) for t in (30.0, 300.0))
    flat = np.flatnonzero(np.isfinite(near) & (near == far))
    if len(flat):
        raise ValueError(
            f"the density does not depend on {target.coordinate_names[flat[0] % target.dim]}, at least far "
            "out: it is improper and cannot be sampled; give the parameter a proper prior"
        )
