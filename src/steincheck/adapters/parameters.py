"""The user's own parameters and the target's coordinates: names, the map between them, draws read by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from ..draws.coerce import read_as_draws
from ..draws.names import variable_of
from ..target import Batch, Target, parameter_names

ROUNDING = 1e-4  # relative: draws stored in float32 or with six digits are no farther off than this
SCALES: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("{}", np.asarray),
    ("log {}", np.exp),
    ("logit {}", special.expit),
)


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a model and how they are transformed to the whole space."""

    names: tuple[str, ...]  #: (k,) of the parameters, as ArviZ writes them
    owners: tuple[str, ...]  #: (d,) the variable that each coordinate belongs to
    constrain: Batch  #: (n, d) -> (n, k)
    unconstrain: Batch  #: (n, k) -> (n, d); NaN or infinite outside the support

    @cached_property
    def blocks(self) -> list[tuple[str, list[int], list[int]]]:
        """Per variable: its name, its coordinates and its columns."""
        variables = dict.fromkeys(variable_of(name) for name in self.names)
        coordinates: dict[str, list[int]] = {variable: [] for variable in variables}
        columns: dict[str, list[int]] = {variable: [] for variable in variables}
        for j, owner in enumerate(self.owners):
            coordinates[owner].append(j)
        for k, name in enumerate(self.names):
            columns[variable_of(name)].append(k)
        return [(variable, coordinates[variable], columns[variable]) for variable in variables]

    @cached_property
    def example(self) -> tuple[np.ndarray, np.ndarray]:
        """A few points and the parameters there."""
        points = probe_points(len(self.owners))
        return points, np.asarray(self.constrain(points))

    @cached_property
    def rows_with_sum_1(self) -> list[list[int]]:
        """Columns of which the values sum to 1: simplices."""
        return self._rows(lambda values: values.sum(axis=1))

    @cached_property
    def rows_with_norm_1(self) -> list[list[int]]:
        """Columns of which the squares sum to 1: unit vectors, Cholesky factors of correlation matrices."""
        return self._rows(lambda values: (values**2).sum(axis=1))

    def _rows(self, total: Callable[[np.ndarray], np.ndarray]) -> list[list[int]]:
        groups: dict[str, list[int]] = {}
        for _, coordinates, columns in self.blocks:
            for k in columns if len(coordinates) < len(columns) else ():
                row = self.names[k].rpartition(",")[0] or variable_of(self.names[k])
                groups.setdefault(row, []).append(k)
        values = self.example[1]
        return [group for group in groups.values() if np.allclose(total(values[:, group]), 1, rtol=1e-9)]

    def coordinate_names(self) -> list[str]:
        """Names (d,) of the coordinates: "mu", "log tau", "logit p", "unconstrained w[0]"."""
        points, values = self.example
        names = [""] * len(self.owners)
        for variable, coordinates, columns in self.blocks:
            matched = len(coordinates) == len(columns)
            for i, j in enumerate(coordinates):
                own = self.names[columns[i]] if matched else f"{variable}[{i}]"
                column = values[:, columns[i]] if matched else np.full(len(values), np.nan)
                names[j] = _scale_of(points[:, j], column).format(own)
        return names

    def coordinates_of(self, values: np.ndarray) -> np.ndarray:
        """Coordinates (n, d) of draws (n, k) of the parameters; an error names rows outside the support."""
        values = self._without_rounding(values)
        points = self._attempt(values)
        bad = np.flatnonzero(~np.isfinite(points).all(axis=1) | self._moved(points, values).any(axis=1))
        if len(bad):
            raise ValueError(
                f"`draws` must lie inside the support of the model: {len(bad)} of {len(values)} rows do not, "
                f"rows {bad[:10].tolist()}; at row {bad[0]}, {self._culprit(values[bad[0]], points[bad[0]])}"
            )
        return points

    def _attempt(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(self.unconstrain(values), dtype=np.float64)

    def _moved(self, points: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Where (n, k) the way there and back does not lead to the same values."""
        with np.errstate(all="ignore"):
            back = np.asarray(self.constrain(points), dtype=np.float64)
            return ~(np.abs(back - values) <= ROUNDING * np.maximum(1, np.abs(values)))

    def _without_rounding(self, values: np.ndarray) -> np.ndarray:
        """Sums and norms that are 1 but for rounding made exactly 1, as strict checks ask for."""
        values = np.array(values, dtype=np.float64)
        for row in self.rows_with_sum_1:
            total = values[:, row].sum(axis=1)
            values[:, row] /= np.where(np.abs(total - 1) < ROUNDING, total, 1)[:, None]
        for row in self.rows_with_norm_1:
            norm = np.linalg.norm(values[:, row], axis=1)
            values[:, row] /= np.where(np.abs(norm - 1) < ROUNDING, norm, 1)[:, None]
        return values

    def _culprit(self, values: np.ndarray, point: np.ndarray) -> str:
        """Which variable of a row is outside: the one that, put alone into a valid row, makes it invalid."""
        valid = self.example[1][0]
        for variable, _, columns in self.blocks:
            row = valid.copy()
            row[columns] = values[columns]
            alone = self._attempt(row[None])
            if not np.isfinite(alone).all() or self._moved(alone, row[None]).any():
                return f"{variable} = {_shown(values[columns])}"
        columns = np.flatnonzero(self._moved(point[None], values[None])[0]).tolist()
        return ", ".join(f"{self.names[k]} = {values[k]:.6g}" for k in columns[:5])


def element_names(variable: str, shape: Sequence[int]) -> list[str]:
    """Names of the elements of an array in row-major order, as ArviZ writes them.

    Examples
    --------
    >>> element_names("mu", ()), element_names("w", (2,)), element_names("L", (1, 2))
    (['mu'], ['w[0]', 'w[1]'], ['L[0,0]', 'L[0,1]'])
    """
    indices = [",".join(map(str, index)) for index in np.ndindex(*shape)]
    return [f"{variable}[{index}]" if index else variable for index in indices]


def probe_points(dim: int, n: int = 3) -> np.ndarray:
    """A few fixed points (n, dim) near 0 without any symmetry."""
    return 0.8 * np.sin(np.outer(np.sqrt(np.arange(2, n + 2)), np.arange(1, dim + 1)))


def with_parameters(target: Target, parameters: Parameters) -> Target:
    """The target with names, and with the way from its coordinates to the user's parameters and back."""

    def unconstrain(draws: Any) -> np.ndarray:
        values = read_as_draws(draws, len(parameters.names), names=parameters.names, minimum=1).values
        return parameters.coordinates_of(values)

    return replace(
        target,
        names=parameters.coordinate_names(),
        constrained_names=parameters.names,
        constrain=parameters.constrain,
        unconstrain=unconstrain,
    )


def to_constrained(points: Any, target: Target) -> tuple[np.ndarray, tuple[str, ...]]:
    """Points (n, d) of the target, such as mode locations, as values (n, k) of the user's parameters.

    Returns
    -------
    values : array (n, k)
    names : tuple of str
        Of the parameters; without `constrain` these are the points themselves with the names of the target.

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
    return points, tuple(parameter_names(target))


class OwnScale(NamedTuple):
    """How one coordinate of a target shows one of the user's parameters."""

    parameter: str  #: the user's own name
    column: int  #: where `constrain` puts it
    scale: str  #: "" if the coordinate is the parameter itself, "log" or "logit"

    def values(self, coordinate: np.ndarray) -> np.ndarray:
        """Values of the parameter at values of the coordinate."""
        inverse = dict((words.removesuffix("{}").strip(), f) for words, f in SCALES)[self.scale]
        return np.asarray(inverse(coordinate))

    def log_slope(self, coordinate: np.ndarray) -> np.ndarray:
        """log of the derivative of the parameter by the coordinate."""
        if self.scale == "log":
            return np.asarray(coordinate)
        if self.scale == "logit":
            return np.asarray(special.log_expit(coordinate) + special.log_expit(-coordinate))
        return np.zeros_like(coordinate)


def own_scales(target: Target) -> dict[str, OwnScale]:
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
    >>> own_scales(target)["log tau"]
    OwnScale(parameter='tau', column=0, scale='log')
    """
    names = parameter_names(target)
    if target.constrain is None or target.constrained_names is None:
        return {name: OwnScale(name, k, "") for k, name in enumerate(names)}
    points = probe_points(target.dim)
    values = np.asarray(target.constrain(points), dtype=np.float64)
    found: dict[str, OwnScale] = {}
    for words, inverse in SCALES:
        column = _same_column(inverse(points), values)
        for j in np.flatnonzero(column >= 0).tolist():
            own = OwnScale(target.constrained_names[column[j]], int(column[j]), words[:-2].strip())
            found.setdefault(names[j], own)
    return found


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


def _scale_of(coordinate: np.ndarray, parameter: np.ndarray) -> str:
    for words, inverse in SCALES:
        if np.allclose(inverse(coordinate), parameter, rtol=1e-9, atol=0):
            return words
    return "unconstrained {}"


def _shown(values: np.ndarray) -> str:
    return f"{values[0]:.6g}" if values.size == 1 else np.array2string(values, precision=6, threshold=8)
