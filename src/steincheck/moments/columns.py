"""What every feature of the moment test is about: its column among the sums over blocks, and its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..adapters.parameters import ParameterScale, parameter_scales
from ..result import FeatureKind, MomentFeature
from ..target import Target
from .coordinates import Coordinates
from .features import BlockSums


class Column(NamedTuple):
    """What one feature is about: one direction, a pair of them, or none."""

    kind: FeatureKind
    basis: str
    mode: int | None
    directions: tuple[int, ...]


class Columns(NamedTuple):
    """Features and their sums over q blocks, in one order."""

    about: list[Column]  # of length F
    sums: np.ndarray  # (q, F)


def feature_columns(coordinates: Coordinates, sums: BlockSums, rank_sums: np.ndarray) -> Columns:
    """All features; `rank_sums` (q, 2), or (q, 0) without ranks, are those of the radius and its spread."""
    pooled = sums.pooled
    given = [("given the others", (j,)) for j in coordinates.conditional.tolist()]
    single = _directions(coordinates)
    d = coordinates.centre.shape[1]
    pairs = [("parameter" if i < d else "axis", (i, j)) for i, j in coordinates.pairs.T.tolist()]
    ordered = [("parameter", (i, j)) for i, j in coordinates.ordered_pairs.T.tolist()]
    every = [("all", ())]
    parts: list[tuple[FeatureKind, int | None, list, np.ndarray]] = [
        ("location", None, single, pooled.location),
        ("scale", None, single, pooled.scale),
        ("correlation", None, pairs, pooled.correlation),
        ("location", None, given, pooled.conditional_location),
        ("scale", None, given, pooled.conditional_scale),
        ("skewness", None, single, pooled.skewness),
        ("tails", None, single, pooled.tails),
        ("extremes", None, single, pooled.extremes),
        ("curvature", None, ordered, pooled.curvature),
        ("overall scale", None, every, pooled.overall_scale),
        ("tails", None, every, pooled.radial_tails),
    ]
    for k in _modes_with_features(sums):
        own = sums.of_modes
        parts += [
            ("location", k, single, own.location[:, k]),
            ("scale", k, single, own.scale[:, k]),
            ("overall scale", k, every, own.overall_scale[:, k]),
        ]
    if rank_sums.shape[1]:
        parts += [("radius", None, every, rank_sums[:, :1]), ("radius spread", None, every, rank_sums[:, 1:])]
    about = [
        Column(kind, basis, mode, directions)
        for kind, mode, places, _ in parts
        for basis, directions in places
    ]
    return Columns(about, np.concatenate([part[3] for part in parts], axis=1))


def _directions(coordinates: Coordinates) -> list[tuple[str, tuple[int, ...]]]:
    """Basis and number of every single direction."""
    d = coordinates.centre.shape[1]
    bases = ["parameter"] * d + [f"axis {rank + 1}" for rank in coordinates.axis_rank]
    return [(basis, (j,)) for j, basis in enumerate(bases)]


def _modes_with_features(sums: BlockSums) -> list[int]:
    """Modes with features of their own: those with a responsibility for 40 draws, if there are several."""
    count = sums.of_modes.count.sum(axis=(0, 2))
    return np.flatnonzero(count >= 40).tolist() if len(count) > 1 else []


def user_parameters(target: Target) -> list[ParameterScale]:
    """The user's own parameter behind each coordinate: "sigma" on the scale "log" where it is "log sigma"."""
    known = parameter_scales(target)
    names = enumerate(target.coordinate_names)
    return [known.get(name, ParameterScale(name, j)) for j, name in names]


def feature_record(
    column: Column, t: float, pvalue: float, coordinates: Coordinates, parameters: Sequence[ParameterScale]
) -> MomentFeature:
    """The feature with the names of its parameters."""
    # Stein features fall where draws are too high, too wide or too far out; ranks on rays rise.
    sign = 1.0 if column.kind in ("radius", "radius spread") else -1.0
    loadings = _axis_loadings(column, coordinates)
    about = [parameters[j] for j in (loadings or column.directions) if j < len(parameters)]
    names = tuple(one.parameter for one in about)
    scales = tuple(one.scale for one in about if any(other.scale for other in about))
    if column.basis == "axis":
        names = tuple(f"axis {coordinates.axis_rank[j - len(parameters)] + 1}" for j in column.directions)
    weights = tuple(loadings.values())
    return MomentFeature(column.kind, column.basis, column.mode, names, scales, weights, sign * t, pvalue)


def _axis_loadings(column: Column, coordinates: Coordinates) -> dict[int, float]:
    """Loadings of the at most four parameters that make up an axis of one mode, the largest first."""
    n_modes, d = coordinates.centre.shape
    mode = 0 if n_modes == 1 else column.mode
    if len(column.directions) != 1 or column.directions[0] < d or mode is None:
        return {}
    axis = coordinates.project[mode, :, column.directions[0]]
    row = axis / np.linalg.norm(axis)
    largest = np.argsort(-np.abs(row), kind="stable")[:4]
    return {int(j): float(row[j]) for j in largest if abs(row[j]) > 0.3 * np.abs(row).max()}
