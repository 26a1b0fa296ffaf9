"""Log density and score of a target at rows of points, validated, or at any point; finite differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._validation import as_host, as_numbers, listed_rows
from .record import Batch, Target

MAX_BEND = 1e-4  # nats by which log p may bend over the steps of a finite difference
MAX_ROUNDING = 0.01  # nats; log densities are compared with each other


def raw_score(target: Target, x: np.ndarray) -> np.ndarray:
    """The score at the rows of `x` as it comes, by finite differences where the target has none."""
    if target.score is None:
        return differences(target.log_density, np.asarray(x, dtype=float)).central
    return _as_floats("score", call_batch("score", target.score, x), x.shape)


def read_only(x: np.ndarray) -> np.ndarray:
    """A view that the user's functions cannot write to."""
    view = np.asarray(x).view()
    view.flags.writeable = False
    return view


class Differences(NamedTuple):
    """Finite differences of log p along m directions, or all coordinates, at n points: arrays (n, m)."""

    central: np.ndarray
    bend: np.ndarray  # nats by which log p leaves a straight line: by its curvature, a kink or its noise
    step: np.ndarray
    rounding: np.ndarray  # what the rounding of log p may contribute


def differences(
    log_density: Batch, x: np.ndarray, step: Any = None, directions: np.ndarray | None = None
) -> Differences:
    """Finite differences of log p at the rows of `x`, along `directions` (m, d) or all coordinates.

    Steps are made shorter until log p bends by little over them: the width of the density is not known. Where
    a shorter step bends no less, by noise or a jump of log p, they are left as they are.
    """
    along = np.eye(x.shape[1]) if directions is None else directions
    raw = np.asarray(log_density(read_only(x)))
    eps = rounding_of(raw)
    middle = raw.astype(float)[:, None]
    noise = 10 * eps * np.abs(middle)
    fine = eps ** (1 / 3)
    h = np.empty((len(x), len(along)))
    h[:] = fine * np.maximum(1.0, np.abs(x)) if step is None else step * max(1.0, 1e4 * fine)
    ahead, behind = np.empty((2, *h.shape))
    rows = np.arange(len(x))
    before = np.inf
    for _ in range(9):  # eight shortenings make steps shorter by a factor of 1e-24 at most
        ahead[rows] = _moved_log_density(log_density, x[rows], along, h[rows])
        behind[rows] = _moved_log_density(log_density, x[rows], along, -h[rows])
        with np.errstate(invalid="ignore"):
            bend = np.abs(ahead + behind - 2 * middle)
        long = ~(bend <= np.maximum(MAX_BEND, noise)) & ~(bend > 0.9 * before)
        before = bend
        rows = np.flatnonzero(long.any(axis=1))
        used = h.copy()
        shorter = np.where(np.isfinite(bend), np.sqrt(MAX_BEND / np.maximum(bend, MAX_BEND)), 0.1)
        h[long] *= np.clip(shorter[long], 1e-3, 0.5)
        if not len(rows):
            break
    with np.errstate(invalid="ignore"):
        return Differences((ahead - behind) / (2 * used), bend, used, 5 * noise / used)


def rounding_of(value: Any) -> float:
    """The relative rounding of what a function returned, by its own dtype."""
    dtype = np.asarray(as_host(value)).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else float).eps)


def _moved_log_density(log_density: Batch, x: np.ndarray, along: np.ndarray, step: np.ndarray) -> np.ndarray:
    """log p (n, m) with each row moved by its steps (n, m) along each direction (m, d) in turn."""
    points = x + along[:, None, :] * step.T[:, :, None]  # (m, n, d)
    return np.asarray(log_density(points.reshape(-1, x.shape[1])), dtype=float).reshape(step.T.shape).T


def log_density_at(target: Target, x: np.ndarray, *, proposal: bool = False) -> np.ndarray:
    """log p at the rows of `x`, validated; at a `proposal` -inf is a value, NaN is not."""
    raw = call_batch("log_density", target.log_density, x)
    value = _as_floats("log_density", raw, (len(x),))
    bad = np.isnan(value) | (value == np.inf) if proposal else ~np.isfinite(value)
    _check_finite("log_density", x, value, bad)
    rounding = rounding_of(raw) * np.median(np.abs(value)) if len(value) and not proposal else 0.0
    if rounding > MAX_ROUNDING:
        raise ValueError(
            f"`log_density` must be smaller: near {np.median(value):.2g} it is rounded to {rounding:.2g}, "
            "which hides how draws differ; subtract a constant"
        )
    if not proposal and target.jax_log_density is None and len(x) > 1:
        _refuse_mixed_rows(target, x, value)
    return value


def _refuse_mixed_rows(target: Target, x: np.ndarray, value: np.ndarray) -> None:
    """Raise if the log density of a point depends on the points it is evaluated with, or on the call.

    A few points are evaluated again, neither the highest nor the lowest: they may be what all others depend
    on.
    """
    n = len(x)
    rows = np.argsort(value)[np.linspace(0.75 * n, 0.25 * n, num=min(5, n // 2)).astype(int)]
    again = _as_floats("log_density", call_batch("log_density", target.log_density, x[rows]), (len(rows),))
    # single precision leaves 1e-5
    for k in np.flatnonzero(~(np.abs(again - value[rows]) <= MAX_ROUNDING + 1e-5 * np.abs(value[rows]))):
        raise ValueError(
            "`log_density` must give every point a value of its own, whatever the other points and whenever "
            f"it is called: at row {rows[k]} it is {value[rows[k]]:.6g} in a call with {n} points, "
            f"{again[k]:.6g} in a call with {len(rows)}"
        )


def score_at(target: Target, x: np.ndarray) -> np.ndarray:
    """The score at the rows of `x`, validated, shape (n, d)."""
    value = raw_score(target, x)
    _check_finite("score", x, value, ~np.isfinite(value).all(axis=1))
    return value


def log_density_anywhere(log_density: Batch, x: np.ndarray) -> np.ndarray:
    """log p (n,) at points that may be impossible: -inf where it is not finite or the function raises."""
    value = output_anywhere("log_density", log_density, x, ())[0]
    return np.where(np.isfinite(value), value, -np.inf)


def score_anywhere(target: Target, x: np.ndarray) -> np.ndarray:
    """The score (n, d) at points that may be impossible: not finite where it cannot be had."""
    return output_anywhere("score", partial(raw_score, target), x, (target.dim,))[0]


def output_anywhere(
    name: str, function: Callable[[np.ndarray], Any], x: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, Exception | None]:
    """The output of a batch function, NaN in the rows where it raises, and the last exception if any.

    Those rows are found by halving. `shape` is that of the output at one point.
    """
    try:
        with np.errstate(all="ignore"):
            output = function(read_only(x))
    except Exception as error:  # of the user's function: here it means "not a possible point"
        if len(x) <= 1:
            return np.full((len(x), *shape), np.nan), error
        half = len(x) // 2
        first, first_error = output_anywhere(name, function, x[:half], shape)
        second, second_error = output_anywhere(name, function, x[half:], shape)
        return np.concatenate([first, second]), second_error or first_error or error
    return _as_floats(name, output, (len(x), *shape)), None


def call_batch(name: str, function: Batch, x: np.ndarray) -> Any:
    """What a function of the user's returns for all rows of `x`; its errors name it."""
    try:
        return function(read_only(x))
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"`{name}` fails for all {len(x)} points at once, a read-only array of shape {x.shape} with one "
            "per row; a function of one point needs vectorized=False in steincheck.Target; "
            f"{type(error).__name__}: {error}"
        ) from error


def _as_floats(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    value = as_numbers(value, name, "a function that returns an array of real numbers", verb="returns")
    if value.shape != shape and 1 in shape and value.size == np.prod(shape) and value.ndim < len(shape):
        return value.reshape(shape)  # squeezed: one point, or one coordinate
    if value.shape != shape:
        raise ValueError(
            f"`{name}` must return shape {shape} for {shape[0]} points, got {value.shape}; it is called with "
            "all points at once, one per row, unless steincheck.Target is given vectorized=False"
        )
    return value


def _check_finite(name: str, x: np.ndarray, value: np.ndarray, bad: np.ndarray) -> None:
    """Raise if any rows are `bad`."""
    rows = np.flatnonzero(bad)
    if len(rows):
        raise ValueError(
            f"`{name}` must be finite at every point: {len(rows)} of {len(x)} rows are not, "
            f"{listed_rows(rows)}; at row {rows[0]}, x = {np.array2string(x[rows[0]], threshold=8)}, "
            f"it is {value[rows[0]]}"
        )
