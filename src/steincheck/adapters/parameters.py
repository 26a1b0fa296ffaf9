"""The user's own parameters and the target's coordinates: names, the map between them, draws read by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

from .._validation import as_numbers, listed_rows
from ..draws import read_as_draws
from ..draws.names import variable_of
from ..target.record import Batch, Target, in_chunks, probe_points, trace

STORAGE_ROUNDING = 1e-4  # relative: draws stored in float32 or with six digits are no farther off than this


@dataclass(frozen=True)
class Scale:
    """Parameters x between `low` and `high` as functions of real coordinates y, with which they rise.

    x is low + exp(y), high - exp(-y), low + (high - low) / (1 + exp(-y)) or y itself. Edges are numbers or
    arrays (d,); arithmetic is that of `xp`, NumPy or jax.numpy.
    """

    low: Any = -np.inf
    high: Any = np.inf

    @property
    def kinds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether there are two edges, a lower one only, an upper one only."""
        below, above = np.isfinite(self.low), np.isfinite(self.high)
        return below & above, below & ~above, above & ~below

    def _chosen(self, both: Any, low: Any, high: Any, none: Any, xp: Any = np) -> Any:
        """Of four formulas, the one that holds for each coordinate."""
        two, lower, upper = self.kinds
        return xp.where(two, both, xp.where(lower, low, xp.where(upper, high, none)))

    def parameters(self, y: Any, xp: Any = np) -> Any:
        """x of y."""
        two, lower, upper = self.kinds
        low = np.where(two | lower, self.low, 0.0)
        high = np.where(two | upper, self.high, 0.0)
        with np.errstate(over="ignore"):  # infinite far out, where the density is 0
            up = xp.exp(xp.where(lower, y, 0.0))
            down = xp.exp(xp.where(upper, -y, 0.0))
        both = low + (high - low) * xp.exp(-xp.logaddexp(0.0, -y))
        return self._chosen(both, low + up, high - down, y, xp)

    def log_slope(self, y: Any, xp: Any = np) -> Any:
        """log dx/dy."""
        width = np.where(self.kinds[0], np.subtract(self.high, self.low), 1.0)
        both = np.log(width) - xp.logaddexp(0.0, -y) - xp.logaddexp(0.0, y)
        return self._chosen(both, y, -y, xp.zeros_like(y), xp)

    def slope_of_log_slope(self, y: np.ndarray) -> np.ndarray:
        """d log(dx/dy) / dy."""
        return np.asarray(self._chosen(-np.tanh(0.5 * y), 1.0, -1.0, 0.0))

    def coordinates(self, x: Any) -> np.ndarray:
        """y of x; NaN or infinite at the edges and beyond them."""
        x = np.asarray(x, dtype=float)
        with np.errstate(all="ignore"):
            from_low, from_high = np.log(x - self.low), np.log(self.high - x)
            return np.asarray(self._chosen(from_low - from_high, from_low, -from_high, x))


class ParameterScale(NamedTuple):
    """How one coordinate of a target shows one of the user's parameters: on the scale of an interval."""

    parameter: str  #: the user's own name
    column: int  #: where `constrain` puts it
    low: float = -np.inf
    high: float = np.inf

    @property
    def scale(self) -> str:
        """Empty if the coordinate is the parameter itself, else "log" or "logit"."""
        return ("", "log", "logit")[int(np.isfinite(self.low)) + int(np.isfinite(self.high))]

    def values(self, coordinate: np.ndarray) -> np.ndarray:
        """Values of the parameter at values of the coordinate."""
        return np.asarray(Scale(self.low, self.high).parameters(coordinate))

    def log_slope(self, coordinate: np.ndarray) -> np.ndarray:
        """log of the derivative of the parameter by the coordinate."""
        return np.asarray(Scale(self.low, self.high).log_slope(coordinate))

    @property
    def coordinate(self) -> str:
        """The name of the coordinate: "mu", "log tau", "logit p", "log(tau - 2)", "logit rho in (-1, 1)"."""
        name, low, high = self.parameter, self.low, self.high
        if np.isfinite(low) and np.isfinite(high):
            return f"logit {name}" if (low, high) == (0, 1) else f"logit {name} in ({low:g}, {high:g})"
        if np.isfinite(low):
            return f"log {name}" if low == 0 else f"log({name} - {low:g})".replace("- -", "+ ")
        return f"-log({high:g} - {name})" if np.isfinite(high) else name


def user_parameters(target: Target) -> list[ParameterScale]:
    """The user's own parameter behind each coordinate: "sigma" on the scale "log" where it is "log sigma".

    Found from the values of `constrain` at a few points, whatever the coordinates are called. Coordinates
    that mix several parameters (of a simplex, of ordered vectors) are parameters of their own.

    Examples
    --------
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(
    ...     lambda u: u[:, 0] - np.exp(u[:, 0]), dim=1, names=["log tau"], constrained_names=["tau"],
    ...     constrain=np.exp, unconstrain=np.log,
    ... )
    >>> user_parameters(target)[0]
    ParameterScale(parameter='tau', column=0, low=0.0, high=inf)
    """
    found: dict[int, ParameterScale] = {}
    if target.constrain is not None and target.constrained_names is not None:
        points = probe_points(target.dim)
        values = np.asarray(target.constrain(points), dtype=np.float64)
        found = _scales(points, values, target.constrained_names)
    return [found.get(j, ParameterScale(name, j)) for j, name in enumerate(target.coordinate_names)]


def _scales(points: np.ndarray, values: np.ndarray, names: Sequence[str]) -> dict[int, ParameterScale]:
    """The scales of coordinates that show one parameter, from coordinates (4, d) and parameters (4, k).

    A parameter between edges is an increasing linear function of one between -inf, 0 and 1, with slope 1 if
    an edge is infinite.
    """
    found: dict[int, ParameterScale] = {}
    for low, high in ((-np.inf, np.inf), (0.0, np.inf), (-np.inf, 0.0), (0.0, 1.0)):
        images = Scale(low, high).parameters(points)
        column = _same_column(images, values)
        for j in np.flatnonzero(column >= 0).tolist():
            x, y = values[:, column[j]], images[:, j]
            slope = _short((x[1] - x[0]) / (y[1] - y[0]), 1.0)
            start = _short(x[0] - slope * y[0], np.abs(x).max())
            shifted_only = slope == 1 and (start == 0 or low == 0 or high == 0)
            if shifted_only or (slope > 0 and high == 1):
                edges = (start + slope * low, start + slope * high)
                found.setdefault(j, ParameterScale(names[column[j]], int(column[j]), *edges))
    return found


def _short(number: float, unit: float) -> float:
    """The number without rounding errors: nine digits, or 0 if it is small beside `unit`."""
    return 0.0 if abs(number) < 1e-9 * unit else float(f"{number:.9g}")


def _same_column(images: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which column of `values` (4, k) is a linear function of each column of `images` (4, d); -1 if none."""
    with np.errstate(all="ignore"):
        sought, given = ((x[2:] - x[0]) / (x[1] - x[0]) for x in (images, values))
    order = np.argsort(given[0], kind="stable")
    ordered = given[0, order]
    after = np.searchsorted(ordered, sought[0]).clip(max=len(order) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(ordered[before] - sought[0]) < np.abs(ordered[after] - sought[0])
    column = order[np.where(nearer, before, after)]
    same = np.isclose(sought, given[:, column], rtol=1e-7, atol=0).all(axis=0)
    return np.where(same, column, -1)


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a model and how they are transformed to unconstrained space."""

    names: tuple[str, ...]  #: (k,) of the parameters, as ArviZ writes them
    dim: int  #: of unconstrained space
    constrain: Batch  #: (n, d) -> (n, k)
    unconstrain: Batch  #: (n, k) -> (n, d); NaN or infinite outside the support

    @cached_property
    def example(self) -> tuple[np.ndarray, np.ndarray]:
        """A few points and the parameters there."""
        points = probe_points(self.dim)
        return points, np.asarray(self.constrain(points))

    def coordinate_names(self) -> list[str]:
        """Names (d,) of the coordinates: "mu", "log tau", "logit p", "unconstrained w[0]".

        One that shows no single parameter has the name of the first element that changes with it and has not
        named another: L[1,0] of a Cholesky factor, w[0] of a simplex.
        """
        points, values = self.example
        scales = _scales(points, values, self.names)
        names = {j: scale.coordinate for j, scale in scales.items()}
        others = [j for j in range(self.dim) if j not in names]
        moved = np.tile(points[0], (len(others), 1))
        moved[range(len(others)), others] += 0.5
        changed = np.asarray(self.constrain(moved)) != values[0] if others else ()
        taken = {scale.column for scale in scales.values()}
        for j, change in zip(others, changed, strict=True):
            k = next(k for k in np.flatnonzero(change).tolist() if k not in taken)
            taken.add(k)
            names[j] = f"unconstrained {self.names[k]}"
        return [names[j] for j in range(self.dim)]

    def coordinates_of(self, values: np.ndarray) -> np.ndarray:
        """Coordinates (n, d) of draws (n, k) of the parameters; an error names rows outside the support."""
        values = np.array(values, dtype=np.float64)
        groups: dict[str, list[int]] = {}
        for k, name in enumerate(self.names):
            groups.setdefault(name.rpartition(",")[0] or variable_of(name), []).append(k)
        # strict checks ask that simplices (1), unit vectors and Cholesky rows (2) have a norm of exactly 1
        for power, row in product((1, 2), groups.values()):
            if np.allclose(np.sum(self.example[1][:, row] ** power, axis=1), 1, rtol=1e-9):
                norm = np.sum(values[:, row] ** power, axis=1) ** (1 / power)
                values[:, row] /= np.where(np.abs(norm - 1) < STORAGE_ROUNDING, norm, 1)[:, None]
        with np.errstate(all="ignore"):
            points = np.asarray(self.unconstrain(values), dtype=np.float64)
            gap = np.abs(np.asarray(self.constrain(points)) - values)
        close = gap <= STORAGE_ROUNDING * np.maximum(1, np.abs(values))
        bad = np.flatnonzero(~(close.all(axis=1) & np.isfinite(points).all(axis=1)))
        if len(bad):
            shown = np.array2string(values[bad[0]], precision=6, threshold=8)
            raise ValueError(
                f"`draws` must lie inside the support of the model: {len(bad)} of {len(values)} rows do not, "
                f"{listed_rows(bad)}; at row {bad[0]} the parameters are {shown}"
            )
        return points


def with_parameters(target: Target, parameters: Parameters) -> Target:
    """The target with names, and with the way from its coordinates to the user's parameters and back."""

    def constrain(x: Any) -> np.ndarray:
        """Parameters of coordinates (n, d)."""
        points = as_numbers(x, "x", "an array of numbers, one point per row")
        if points.ndim != 2 or points.shape[1] != target.dim:
            raise ValueError(f"`x` must have shape (n, {target.dim}), one point per row, got {points.shape}")
        return parameters.constrain(points)

    def unconstrain(draws: Any) -> np.ndarray:
        """Coordinates of draws of the parameters: (n, d), or (chain, draw, d) of chains of one length."""
        read = read_as_draws(draws, len(parameters.names), names=parameters.names, minimum=1)
        values = parameters.coordinates_of(read.values)
        if read.chain is None or len(np.unique(np.bincount(read.chain))) > 1:
            return values
        return values.reshape(read.n_chains, -1, values.shape[1])

    return replace(
        target,
        names=parameters.coordinate_names(),
        constrained_names=parameters.names,
        constrain=constrain,
        unconstrain=unconstrain,
    )


def compiled_map(function: Callable[[Any], Any], width: int) -> Batch:
    """Batch function of a JAX function of one row of this width, in float64."""
    return in_chunks(jax.jit(jax.vmap(trace(function, width)[0])), width)


def split(row: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """One row, an array of NumPy or JAX, as the values of variables.

    Examples
    --------
    >>> split(np.arange(3.0), {"mu": (), "w": (2,)})
    {'mu': array(0.), 'w': array([1., 2.])}
    """
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])
    parts = zip(shapes.items(), np.concatenate([[0], ends]), ends, strict=False)
    return {name: row[start:end].reshape(shape) for (name, shape), start, end in parts}
