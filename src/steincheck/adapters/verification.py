"""Does a target made from a model say what the model itself says? Looked at when the target is made."""

from __future__ import annotations

import warnings

import numpy as np

from ..target import Batch, Target, check_score
from ..target.parameter_scale import probe_points
from .parameters import Parameters

PROBE_COORDINATES = (30.0, 300.0)  # along a coordinate; exp(300) squared is still a number
DIFFERENCE_STEP = 1e-5  # of finite differences at coordinates of size 1: errors of about 1e-10


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
        warnings.warn(
            f"the log density of the {source} model is not finite at any of {len(probe_points(1))} points "
            "near 0 of the unconstrained space: sign, Jacobian and score could not be verified",
            stacklevel=3,
        )
        return
    jacobian = log_jacobian(parameters, points)
    if jacobian is not None:
        _compare(value, np.asarray(without_jacobian(points)) + jacobian, source)
    check_score(target, points)
    _check_tails(target)


def _compare(value: np.ndarray, expected: np.ndarray, source: str) -> None:
    """Raise unless both agree up to a constant."""

    def differ(one: np.ndarray, two: np.ndarray) -> bool:
        gap = one - two
        return not bool(np.ptp(gap) <= 1e-5 * (1 + np.ptp(two)) + 1e-9 * np.abs(two).max())

    if differ(value, expected):
        reason = (
            "the sign is reversed" if not differ(-value, expected) else "they differ by more than a constant"
        )
        raise RuntimeError(
            f"the target made from the {source} model disagrees with {source}'s own log density: {reason}, "
            f"{value.tolist()} against {expected.tolist()}; please report this with the version of {source}"
        )


def log_jacobian(parameters: Parameters, points: np.ndarray) -> np.ndarray | None:
    """log |det dc/du| (n,) by finite differences; of a simplex all but the last element count.

    None where the parameters have redundant elements of another kind, such as correlation matrices.
    """
    n, d = points.shape
    redundant = {row[-1] for row in parameters.rows_with_sum_1}
    columns = [k for k in range(len(parameters.names)) if k not in redundant]
    if len(columns) != d or d > 1000:  # a dense determinant by finite differences is cheap up to d = 1000
        return None
    moves = DIFFERENCE_STEP * np.eye(d)
    ahead = parameters.constrain((points[:, None] + moves).reshape(-1, d))[:, columns]
    behind = parameters.constrain((points[:, None] - moves).reshape(-1, d))[:, columns]
    slopes = (ahead - behind).reshape(n, d, d) / (2 * DIFFERENCE_STEP)
    return np.linalg.slogdet(slopes)[1]


def _check_tails(target: Target) -> None:
    """Raise where the density is flat along a coordinate, warn where it grows: it cannot be normalised."""
    start = probe_points(target.dim, 1)
    directions = np.concatenate([np.eye(target.dim), -np.eye(target.dim)])
    with np.errstate(all="ignore"):
        near, far = (
            np.asarray(target.log_density(start + t * directions), dtype=float) for t in PROBE_COORDINATES
        )
        change = far - near
    known = np.isfinite(near) & np.isfinite(far)
    names = target.coordinate_names
    flat = np.flatnonzero(known & (change == 0))
    if len(flat):
        raise ValueError(
            f"the density does not depend on {names[flat[0] % target.dim]}, at least far out: it is improper "
            "and cannot be sampled; give the parameter a proper prior"
        )
    growing = np.flatnonzero(known & (change > 0))
    if len(growing):
        sign = "+" if growing[0] < target.dim else "-"
        warnings.warn(
            f"the density grows towards {names[growing[0] % target.dim]} = {sign}{PROBE_COORDINATES[1]:g}: "
            "it may be improper (no finite integral), and then no draws can fit it",
            stacklevel=4,
        )
