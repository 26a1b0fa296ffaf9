"""From sums over blocks to a table of features with names, sizes and p-values; which of them to tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..result import MomentFeature, MomentResult
from .effects import Correlations, Effects
from .features import Sums
from .frames import Frame, axis_parameters

MIN_DRAWS_PER_MODE = 40  # responsibility below which a mode has no features of its own
SHAPES = ("skewness", "tails", "extremes", "radius", "radius spread")


class Column(NamedTuple):
    """What one feature is about: one direction, a pair of them, or none."""

    kind: str
    basis: str
    mode: int | None
    directions: tuple[int, ...]


def columns_of(frame: Frame, sums: Sums, ranked: bool) -> tuple[list[Column], list[np.ndarray]]:
    """All features in one order: their meaning, and their sums over blocks (q, ...)."""
    constants = frame.constants
    d = constants.centre.shape[1]
    directions = range(constants.project.shape[2])
    pairs = zip(constants.pair_first.tolist(), constants.pair_second.tolist(), strict=True)
    others = constants.conditional.tolist()
    about = [Column("location", _basis(frame, j, d), None, (j,)) for j in directions]
    about += [Column("scale", _basis(frame, j, d), None, (j,)) for j in directions]
    about += [Column("correlation", "own" if i < d else "axis", None, (i, j)) for i, j in pairs]
    about += [Column("location", "given the others", None, (j,)) for j in others]
    about += [Column("scale", "given the others", None, (j,)) for j in others]
    about += [Column("skewness", _basis(frame, j, d), None, (j,)) for j in directions]
    about += [Column("tails", _basis(frame, j, d), None, (j,)) for j in directions]
    about += [Column("extremes", _basis(frame, j, d), None, (j,)) for j in directions]
    about += [Column("overall scale", "all", None, ()), Column("tails", "all", None, ())]
    parts = [sums.location, sums.scale, pure_correlation(sums, frame), *sums[3:9]]
    if len(constants.centre) > 1:
        for k in np.flatnonzero(sums.mode_count.sum(axis=1) >= MIN_DRAWS_PER_MODE).tolist():
            about += [Column("location", _basis(frame, j, d), k, (j,)) for j in directions]
            about += [Column("scale", _basis(frame, j, d), k, (j,)) for j in directions]
            about.append(Column("overall scale", "all", k, ()))
            parts += [sums.mode_location[k], sums.mode_scale[k], sums.mode_overall[k][:, None]]
    if ranked:
        about += [Column("radius", "all", None, ()), Column("radius spread", "all", None, ())]
    return about, parts


def pure_correlation(sums: Sums, frame: Frame) -> np.ndarray:
    """Correlation with the standard deviations held fixed: f_ij - R_ij (f_ii + f_jj) / 2, over all modes."""
    constants = frame.constants
    pure = sums.correlation.copy()
    for overlap, scale in zip(constants.pair_overlap, sums.mode_scale, strict=True):
        used = np.flatnonzero(np.abs(overlap) > 1e-12)
        first = scale[:, constants.pair_first[used]]
        pure[:, used] -= 0.5 * overlap[used] * (first + scale[:, constants.pair_second[used]])
    return pure


def _basis(frame: Frame, direction: int, d: int) -> str:
    return "own" if direction < d else f"axis {frame.axis_rank[direction - d] + 1}"


class Table(NamedTuple):
    """What is needed to turn columns into records."""

    frame: Frame
    names: Sequence[str]
    effects: Effects
    pairs: Correlations
    sums: Sums
    n: int
    quantile: float

    def record(self, column: Column, t: float, p: float) -> MomentFeature:
        """The feature with its size."""
        parameters, loadings = self._about(column)
        size = self._size(column, t)
        return MomentFeature(column.kind, column.basis, column.mode, parameters, loadings, *size, t, p)

    def _about(self, column: Column) -> tuple[tuple[str, ...], tuple[float, ...]]:
        d = len(self.names)
        if column.basis == "all":
            return (), ()
        if column.basis in ("own", "given the others"):
            return tuple(self.names[j] for j in column.directions), ()
        if column.kind == "correlation":
            ranks = [self.frame.axis_rank[j - d] + 1 for j in column.directions]
            return tuple(f"axis {rank}" for rank in ranks), ()
        if column.mode is None and len(self.frame.loadings) > 1:
            return (), ()
        main = axis_parameters(self.frame, self.names, column.directions[0] - d, column.mode or 0)
        return tuple(name for name, _ in main), tuple(value for _, value in main)

    def _size(self, column: Column, t: float) -> tuple[float, tuple[float, float], float, float]:
        """Estimate, interval, observed, expected."""
        if column.basis == "given the others":
            return self._conditional(column)
        if column.kind == "correlation":
            return self._correlation(column)
        row = len(self.frame.constants.centre) if column.mode is None else column.mode
        if column.kind == "location":
            return self._shift(column, row)
        if column.kind == "scale":
            return self._factor(column, row)
        if column.kind == "overall scale":
            log = self.effects.overall[row]
            low, high = self._ends(log, self.effects.overall_se[row])
            return float(np.exp(log)), (float(np.exp(low)), float(np.exp(high))), np.nan, np.nan
        step = self.quantile / self.n**0.5
        size = t / self.n**0.5
        return size, (size - step, size + step), np.nan, np.nan

    def _ends(self, value: float, error: float) -> tuple[float, float]:
        return float(value - self.quantile * error), float(value + self.quantile * error)

    def _unit(self, column: Column, row: int) -> float:
        """Of the direction in the user's units; NaN for axes, and where modes are pooled."""
        constants = self.frame.constants
        direction = column.directions[0]
        if direction >= len(self.names) or (column.mode is None and len(constants.centre) > 1):
            return np.nan
        return float(constants.sd[row if column.mode is not None else 0, direction])

    def _shift(self, column: Column, row: int) -> tuple[float, tuple[float, float], float, float]:
        j = column.directions[0]
        effects = self.effects
        sd = effects.z_sd[row, j] * np.exp(-effects.log_factor[row, j])  # what it should be, in units of z
        still = effects.z_sd[row, j] <= 1e-12 * max(1.0, abs(effects.z_mean[row, j]))
        known = np.isfinite(effects.shift[row, j]) and not still
        shift = effects.shift[row, j] if known else effects.z_mean[row, j]
        sd = sd if np.isfinite(sd) and known else 1.0
        error = effects.shift_se[row, j] if known else 0.0
        unit = self._unit(column, row)
        centre = self.frame.constants.centre[column.mode or 0, j] if np.isfinite(unit) else np.nan
        mean = float(centre + unit * effects.z_mean[row, j])
        return float(shift / sd), self._ends(shift / sd, error / sd), mean, float(mean - unit * shift)

    def _factor(self, column: Column, row: int) -> tuple[float, tuple[float, float], float, float]:
        j = column.directions[0]
        effects = self.effects
        observed = float(self._unit(column, row) * effects.z_sd[row, j])
        if effects.z_sd[row, j] <= 1e-12 * max(1.0, abs(effects.z_mean[row, j])):
            return 0.0, (0.0, 0.0), observed, np.nan
        log = effects.log_factor[row, j]
        low, high = self._ends(log, effects.log_factor_se[row, j])
        factor = float(np.exp(log))
        return factor, (float(np.exp(low)), float(np.exp(high))), observed, observed / factor

    def _correlation(self, column: Column) -> tuple[float, tuple[float, float], float, float]:
        constants = self.frame.constants
        match = (constants.pair_first == column.directions[0]) & (
            constants.pair_second == column.directions[1]
        )
        k = int(np.argmax(match))
        excess = float(self.pairs.excess[k])
        observed = float(self.pairs.observed[k])
        return (
            excess,
            self._ends(excess, self.pairs.excess_se[k]),
            observed,
            float(np.clip(observed - excess, -1, 1)),
        )

    def _conditional(self, column: Column) -> tuple[float, tuple[float, float], float, float]:
        """Shift or factor of one coordinate with the others held fixed, for the mode's Gaussian."""
        position = int(np.flatnonzero(self.frame.constants.conditional == column.directions[0])[0])
        share = self.sums.mode_count.sum(axis=1)
        stiffness = float(share @ self.frame.precision_diagonal[:, column.directions[0]] / share.sum())
        sums = self.sums.conditional_location if column.kind == "location" else self.sums.conditional_scale
        block = sums[:, position]
        mean = block.sum() / self.n
        error = block.std() * np.sqrt(len(block)) / self.n
        if column.kind == "location":
            low, high = self._ends(-mean / stiffness**0.5, error / stiffness**0.5)
            return -mean / stiffness**0.5, (low, high), np.nan, np.nan
        ends = [_stretch(value, stiffness) for value in (mean, *self._ends(mean, error))]
        return ends[0], (ends[2], ends[1]), np.nan, np.nan


def _stretch(mean: float, stiffness: float) -> float:
    """The c with mean = 1 - stiffness c^2 + (stiffness - 1) c: one coordinate of a Gaussian stretched."""
    linear = stiffness - 1
    root = linear**2 + 4 * stiffness * (1 - mean)
    return float((linear + np.sqrt(max(root, 0.0))) / (2 * stiffness))


def leading(result: MomentResult, alpha: float = 0.05, *, limit: int = 8) -> tuple[MomentFeature, ...]:
    """A short list of significant features, none of which repeats another one.

    Parameters as named come first; all of them together, one given the others and principal axes come in
    where they show what the named ones do not. One mode is told where it shows more than all modes pooled.

    Parameters
    ----------
    result : MomentResult
    alpha : float
        The level of the adjusted p-values.
    limit : int
        Length of the list, at most.
    """
    chosen: list[MomentFeature] = []
    found = [feature for feature in result.significant(alpha) if _differs(feature)]
    parts = max((abs(f.t) for f in found if f.basis != "all" and f.kind not in SHAPES), default=0.0)
    for feature in sorted(found, key=lambda feature: _priority(feature, parts)):
        if not any(_repeats(feature, other) for other in chosen):
            chosen.append(feature)
    return tuple(sorted(chosen[:limit], key=lambda feature: -abs(feature.t)))


def _differs(feature: MomentFeature) -> bool:
    """Whether the interval of a size leaves out "no misfit": a moment may be off because of another one."""
    nothing = {"location": 0.0, "correlation": 0.0, "scale": 1.0, "overall scale": 1.0}.get(feature.kind)
    return nothing is None or not feature.interval[0] <= nothing <= feature.interval[1]


def _priority(feature: MomentFeature, parts: float) -> tuple[int, float]:
    """How plainly the feature speaks, then |t|; an overall scale that shows more than any part is first."""
    if feature.kind in SHAPES:
        return (3, -abs(feature.t))
    if feature.kind == "correlation":
        return (1 if feature.basis == "own" else 4, -abs(feature.t))
    if feature.basis == "own":
        alone = 1.0 if feature.mode is None else 1.25  # where all of M modes are off, pooling gains sqrt(M)
        return (0, -alone * abs(feature.t))
    if feature.basis == "all" and abs(feature.t) > 1.5 * parts:
        return (-1, -abs(feature.t))
    return (2, -abs(feature.t))


def _repeats(new: MomentFeature, said: MomentFeature) -> bool:
    """Whether `said` accounts for `new`."""
    if said.mode is not None and new.mode is not None and said.mode != new.mode:
        return False
    if new.kind in SHAPES:
        return _shape_repeats(new, said)
    if new.kind == "correlation":
        return _correlation_repeats(new, said)
    shared = bool(set(new.parameters) & set(said.parameters))
    if new.basis == "all":
        return not abs(new.t) > 1.5 * abs(said.t)
    if said.basis == "all":
        return _same_size(new, said)
    if new.basis == "own":
        return shared and new.kind == said.kind
    return (shared and new.kind == said.kind) or not abs(new.t) > 2 * abs(said.t)


def _shape_repeats(new: MomentFeature, said: MomentFeature) -> bool:
    """A shape is told beside a location or scale if it shows more, and once per parameter."""
    shared = bool(set(new.parameters) & set(said.parameters)) or "all" in (new.basis, said.basis)
    shared = shared or not new.basis == said.basis == "own"
    if said.kind in SHAPES:
        return shared and (new.kind == said.kind or "skewness" not in (new.kind, said.kind))
    needed = 0.7 if new.kind in ("tails", "skewness") else 1.3
    if said.basis == "all":
        needed = 0.7
    return shared and not abs(new.t) > needed * abs(said.t)


def _correlation_repeats(new: MomentFeature, said: MomentFeature) -> bool:
    """Each parameter is told in one correlation; axes are not told beside anything plainer."""
    if new.basis != "own":
        return said.kind != "location"
    return said.kind == "correlation" and bool(set(new.parameters) & set(said.parameters))


def _same_size(new: MomentFeature, said: MomentFeature) -> bool:
    """Whether the factor of one parameter may be that of all parameters together."""
    if new.kind != "scale" or said.kind != "overall scale":
        return False
    low, high = np.log(np.maximum(new.interval, 1e-300))
    return bool(abs(np.log(said.estimate) - 0.5 * (low + high)) < high - low)


def ordered(records: Iterator[MomentFeature]) -> tuple[MomentFeature, ...]:
    """Features by |t|, the largest first."""
    return tuple(sorted(records, key=lambda feature: -abs(feature.t)))
