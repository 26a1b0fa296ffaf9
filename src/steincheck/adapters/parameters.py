"""The user's own parameters and the target's coordinates: names, the map between them, draws read by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from .._validation import as_numbers, listed_rows
from ..draws import read_as_draws
from ..draws.names import variable_of
from ..target import Batch, Target, in_chunks, probe_points, scale_of, trace

STORAGE_ROUNDING = 1e-4  # relative: draws stored in float32 or with six digits are no farther off than this


class Block(NamedTuple):
    """A variable, its coordinates and the columns of its elements."""

    variable: str
    coordinates: list[int]
    columns: list[int]


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a model and how they are transformed to unconstrained space."""

    names: tuple[str, ...]  #: (k,) of the parameters, as ArviZ writes them
    owners: tuple[str, ...]  #: (d,) the variable that each coordinate belongs to
    constrain: Batch  #: (n, d) -> (n, k)
    unconstrain: Batch  #: (n, k) -> (n, d); NaN or infinite outside the support

    @cached_property
    def blocks(self) -> list[Block]:
        """The variables."""
        owners = np.array(self.owners)
        variables = np.array([variable_of(name) for name in self.names])
        return [
            Block(name, np.flatnonzero(owners == name).tolist(), np.flatnonzero(variables == name).tolist())
            for name in dict.fromkeys(variables.tolist())
        ]

    @cached_property
    def example(self) -> tuple[np.ndarray, np.ndarray]:
        """A few points and the parameters there."""
        points = probe_points(len(self.owners))
        return points, np.asarray(self.constrain(points))

    def rows_with_norm_1(self, power: int) -> list[list[int]]:
        """Columns of which this power of the values sums to 1.

        These are simplices (1), unit vectors and Cholesky factors of correlation matrices (2).
        """
        groups: dict[str, list[int]] = {}
        for _, coordinates, columns in self.blocks:
            for k in columns if len(coordinates) < len(columns) else ():
                row = self.names[k].rpartition(",")[0] or variable_of(self.names[k])
                groups.setdefault(row, []).append(k)
        values = self.example[1] ** power
        return [group for group in groups.values() if np.allclose(values[:, group].sum(axis=1), 1, rtol=1e-9)]

    def coordinate_names(self) -> list[str]:
        """Names (d,) of the coordinates: "mu", "log tau", "logit p", "unconstrained w[0]"."""
        points, values = self.example
        names = [""] * len(self.owners)
        for variable, coordinates, columns in self.blocks:
            matched = len(coordinates) == len(columns)
            for i, j in enumerate(coordinates):
                label = self.names[columns[i]] if matched else f"{variable}[{i}]"
                column = values[:, columns[i]] if matched else np.full(len(values), np.nan)
                names[j] = scale_of(points[:, j], column).format(label)
        return names

    def coordinates_of(self, values: np.ndarray) -> np.ndarray:
        """Coordinates (n, d) of draws (n, k) of the parameters; an error names rows outside the support."""
        values = self._without_rounding(values)
        points, wrong = self._attempt(values)
        bad = np.flatnonzero(wrong.any(axis=1))
        if len(bad):
            raise ValueError(
                f"`draws` must lie inside the support of the model: {len(bad)} of {len(values)} rows do not, "
                f"{listed_rows(bad)}; at row {bad[0]}, {self._culprit(values[bad[0]])}"
            )
        return points

    def _attempt(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates (n, d) of values (n, k), and where (n, k) they do not lead back to the values."""
        with np.errstate(all="ignore"):
            points = np.asarray(self.unconstrain(values), dtype=np.float64)
            gap = np.abs(np.asarray(self.constrain(points)) - values)
        close = gap <= STORAGE_ROUNDING * np.maximum(1, np.abs(values))
        return points, ~(close & np.isfinite(points).all(axis=1, keepdims=True))

    def _without_rounding(self, values: np.ndarray) -> np.ndarray:
        """Sums and norms that are 1 but for rounding made exactly 1, as strict checks ask for."""
        values = np.array(values, dtype=np.float64)
        for power in (1, 2):
            for row in self.rows_with_norm_1(power):
                norm = np.sum(values[:, row] ** power, axis=1) ** (1 / power)
                values[:, row] /= np.where(np.abs(norm - 1) < STORAGE_ROUNDING, norm, 1)[:, None]
        return values

    def _culprit(self, values: np.ndarray) -> str:
        """Which variable of a row is outside: the one that, put alone into a valid row, makes it invalid."""
        for variable, _, columns in self.blocks:
            row = self.example[1][0].copy()
            row[columns] = values[columns]
            if self._attempt(row[None])[1].any():
                return f"{variable} = {_shown(values[columns])}"
        return f"the values are {_shown(values)}"


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


def _shown(values: np.ndarray) -> str:
    return f"{values[0]:.6g}" if values.size == 1 else np.array2string(values, precision=6, threshold=8)
