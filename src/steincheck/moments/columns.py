"""From sums over blocks to a table of features with names, sizes and p-values; which of them to report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from ..result import FeatureKind, MomentFeature, MomentResult
from .effects import Effects
from .features import Sums
from .coordinates import Frame, axis_parameters

SHAPE_KINDS = ("skewness", "tails", "extremes", "radius", "radius spread")


class Column(NamedTuple):
    """What one feature is about: one direction, a pair of them, or none."""

    kind: FeatureKind
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
    about += [Column("correlation", "parameter" if i < d else "axis", None, (i, j)) for i, j in pairs]
    about += [Column("location", "given the others", None, (j,)) for j in others]
    about += [Column("scale", "given the others", None, (j,)) for j in others]
    about += [Column("skewness", _basis(frame, j, d), None, (j,)) for j in directions]
    about += [Column("tails", _basis(frame, j, d), None, (j,)) for j in directions]
    about += [Column("extremes", _basis(frame, j, d), None, (j,)) for j in directions]
    about += [Column("overall scale", "all", None, ()), Column("tails", "all", None, ())]
    parts = [sums.location, sums.scale, pure_correlation(sums, frame), *sums[3:9]]
    if len(constants.centre) > 1:
        # with less responsibility a mode has no features of its own
        for k in np.flatnonzero(sums.mode_count.sum(axis=1) >= 40).tolist():
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
    return "parameter" if direction < d else f"axis {frame.axis_rank[direction - d] + 1}"


class FeatureWriter(NamedTuple):
    """What is needed to turn columns into records."""

    frame: Frame
    names: Sequence[str]
    effects: Sequence[Effects]  # per mode, the last about all modes
    quantile: float

    def record(self, column: Column, t: float, p: float, after: float) -> MomentFeature:
        """The feature with its size; `after` is its t for draws corrected by the sizes."""
        parameters, loadings = self._about(column)
        size = self._size(column)
        # Stein features fall where draws are too high, too wide or too far out; ranks on rays rise.
        sign = 1.0 if column.kind in ("radius", "radius spread") else -1.0
        return MomentFeature(
            column.kind,
            column.basis,
            column.mode,
            parameters,
            loadings,
            *size,
            sign * t,
            p,
            corrected_t=sign * after,
        )

    def _about(self, column: Column) -> tuple[tuple[str, ...], tuple[float, ...]]:
        d = len(self.names)
        if column.basis == "all":
            return (), ()
        if column.basis in ("parameter", "given the others"):
            return tuple(self.names[j] for j in column.directions), ()
        if column.kind == "correlation":
            ranks = [self.frame.axis_rank[j - d] + 1 for j in column.directions]
            return tuple(f"axis {rank}" for rank in ranks), ()
        if column.mode is None and len(self.frame.loadings) > 1:
            return (), ()
        main = axis_parameters(self.frame, self.names, column.directions[0] - d, column.mode or 0)
        return tuple(name for name, _ in main), tuple(value for _, value in main)

    def _size(self, column: Column) -> tuple[float, tuple[float, float], float, float]:
        """Estimate, interval, observed, expected."""
        effects = self.effects[-1 if column.mode is None else column.mode]
        if column.basis == "given the others":
            return self._conditional(column, effects)
        if column.kind == "correlation":
            return self._correlation(column, effects)
        if column.kind == "location":
            return self._shift(column, effects)
        if column.kind == "scale":
            return self._factor(column, effects)
        if column.kind == "overall scale":
            return *self._exponential(float(effects.overall), float(effects.overall_se)), np.nan, np.nan
        return np.nan, (np.nan, np.nan), np.nan, np.nan  # a shape has no size

    def _ends(self, value: float, error: float) -> tuple[float, float]:
        return float(value - self.quantile * error), float(value + self.quantile * error)

    def _exponential(self, log: float, error: float) -> tuple[float, tuple[float, float]]:
        """A factor and its interval from those of its logarithm."""
        low, high = self._ends(log, error)
        return float(np.exp(log)), (float(np.exp(low)), float(np.exp(high)))

    def _unit(self, column: Column) -> float:
        """Of the direction in the user's units; NaN for axes, and where modes are pooled."""
        constants = self.frame.constants
        direction = column.directions[0]
        if direction >= len(self.names) or (column.mode is None and len(constants.centre) > 1):
            return np.nan
        return float(constants.sd[column.mode or 0, direction])

    def _shift(self, column: Column, effects: Effects) -> tuple[float, tuple[float, float], float, float]:
        j = column.directions[0]
        still = _is_constant(effects, j)
        shift = effects.mean[j] if still else effects.shift[j]
        # what it should be, in units of z
        sd = 1.0 if still else effects.sd[j] * np.exp(-effects.log_factor[j])
        error = 0.0 if still else effects.shift_se[j]
        unit = self._unit(column)
        centre = self.frame.constants.centre[column.mode or 0, j] if np.isfinite(unit) else np.nan
        mean = float(centre + unit * effects.mean[j])
        return float(shift / sd), self._ends(shift / sd, error / sd), mean, float(mean - unit * shift)

    def _factor(self, column: Column, effects: Effects) -> tuple[float, tuple[float, float], float, float]:
        j = column.directions[0]
        observed = float(self._unit(column) * effects.sd[j])
        if _is_constant(effects, j):
            return 0.0, (0.0, 0.0), observed, np.nan
        factor, interval = self._exponential(effects.log_factor[j], effects.log_factor_se[j])
        return factor, interval, observed, observed / factor

    def _correlation(
        self, column: Column, effects: Effects
    ) -> tuple[float, tuple[float, float], float, float]:
        constants = self.frame.constants
        match = (constants.pair_first == column.directions[0]) & (
            constants.pair_second == column.directions[1]
        )
        k = int(np.argmax(match))
        excess = float(effects.excess[k])
        observed = float(effects.correlation[k])
        return excess, self._ends(excess, effects.excess_se[k]), observed, observed - excess

    def _conditional(
        self, column: Column, effects: Effects
    ) -> tuple[float, tuple[float, float], float, float]:
        """Shift or factor of one coordinate with the others held fixed."""
        j = column.directions[0]
        if column.kind == "location":
            shift = float(effects.given_shift[j])
            return shift, self._ends(shift, effects.given_shift_se[j]), np.nan, np.nan
        factor = self._exponential(effects.given_log_factor[j], effects.given_log_factor_se[j])
        return *factor, np.nan, np.nan


def _is_constant(effects: Effects, direction: int) -> bool:
    """Whether the draws do not vary along a direction."""
    return not effects.sd[direction] > 1e-12 * max(1.0, abs(effects.mean[direction]))


def leading_features(
    result: MomentResult, alpha: float = 0.05, *, limit: int = 8
) -> tuple[MomentFeature, ...]:
    """A short list of significant features, none of which repeats another one.

    Parameters as named come first; all of them together, one given the others and principal axes come in
    where they show what the named ones do not. A single mode is reported where it shows more than all modes
    pooled.

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
    if any(feature.kind not in SHAPE_KINDS for feature in found):  # else nothing is reported that explains
        left = unexplained_shapes(result)
        found = [
            feature
            for feature in found
            if np.isnan(feature.corrected_t) or not _is_consequence(feature, left)
        ]
    found = [feature for feature in found if feature.kind not in SHAPE_KINDS or not _hidden(feature, found)]
    parts = max((abs(f.t) for f in found if f.basis != "all" and f.kind not in SHAPE_KINDS), default=0.0)
    for feature in sorted(found, key=lambda feature: _priority(feature, parts)):
        if not any(_repeats(feature, other) for other in chosen):
            chosen.append(feature)
    return tuple(sorted(chosen[:limit], key=lambda feature: -abs(feature.t)))


def unexplained_shapes(result: MomentResult) -> tuple[MomentFeature, ...]:
    """Shapes that are wrong even after the draws have been shifted and stretched by the sizes.

    Where a mean or a spread is off, so are features of every parameter whose score depends on it: those of mu
    where only sigma is wrong. Bonferroni's threshold at the level .01 tells these from the others.
    """
    shapes = [f for f in result.features if f.kind in SHAPE_KINDS and np.isfinite(f.corrected_t)]
    threshold = special.ndtri(1 - 0.005 / max(len(shapes), 1))
    return tuple(feature for feature in shapes if abs(feature.corrected_t) > threshold)


def _is_consequence(feature: MomentFeature, left: Sequence[MomentFeature]) -> bool:
    """Whether a shape is none of those `left` after the correction; tails are wrong with or without scale."""
    if feature.kind not in SHAPE_KINDS:
        return False
    family = {"tails": ("tails", "extremes"), "extremes": ("tails", "extremes")}.get(
        feature.kind, (feature.kind,)
    )
    return not any(
        other.kind in family
        and (other.basis, other.mode, other.parameters) == (feature.basis, feature.mode, feature.parameters)
        and other.corrected_t * feature.t > 0
        for other in left
    )


def _differs(feature: MomentFeature) -> bool:
    """Whether a size is 3 standard errors from "no misfit": a moment may be off because of another one.

    The 95 % intervals end at 2 of them, and there are many features. That of a correlation is taken as it is:
    it is long where the correlation is far off.
    """
    low, high = feature.interval
    if feature.kind == "correlation":
        return not low <= 0 <= high
    if feature.kind in ("scale", "overall scale"):
        low, high = np.log(np.maximum(feature.interval, 1e-300))
    elif feature.kind != "location":
        return True
    return not abs(low + high) <= 1.5 * (high - low)  # NaN differs


def _hidden(shape: MomentFeature, found: Sequence[MomentFeature]) -> bool:
    """Whether a shift, factor or correlation is so large that it alone would make the shape look wrong."""
    for feature in found:
        if None not in (feature.mode, shape.mode) and feature.mode != shape.mode:
            continue
        size = abs(feature.estimate)  # NaN where no size corrects the draws: the shape is then the point
        if feature.kind == "location" and size > 1.0:
            return True
        if feature.kind in ("scale", "overall scale") and (size < 0.6 or size > 1.7):
            return True
        if feature.kind == "correlation" and size > 0.5:
            return True
    return False


def _priority(feature: MomentFeature, parts: float) -> tuple[int, float]:
    """How plainly the feature speaks, then |t|; an overall scale that shows more than any part is first."""
    if feature.kind in SHAPE_KINDS:
        return (3, -abs(feature.t))
    if feature.kind == "correlation":
        return (1 if feature.basis == "parameter" else 4, -abs(feature.t))
    if feature.basis == "parameter":
        alone = 1.0 if feature.mode is None else 1.25  # where all of M modes are off, pooling gains sqrt(M)
        return (0, -alone * abs(feature.t))
    if feature.basis == "all" and abs(feature.t) > 1.5 * parts:
        return (-1, -abs(feature.t))
    return (2, -abs(feature.t))


def _repeats(new: MomentFeature, reported: MomentFeature) -> bool:
    """Whether `reported` accounts for `new`."""
    if reported.mode is not None and new.mode is not None and reported.mode != new.mode:
        return False
    if new.kind in SHAPE_KINDS:
        return _shape_repeats(new, reported)
    if new.kind == "correlation":
        return _correlation_repeats(new, reported)
    shared = bool(set(new.parameters) & set(reported.parameters))
    if new.basis == "all":
        return not abs(new.t) > 1.5 * abs(reported.t)
    if reported.basis == "all":
        return _same_size(new, reported)
    if new.basis == "parameter":
        return shared and new.kind == reported.kind
    return (shared and new.kind == reported.kind) or not abs(new.t) > 2 * abs(reported.t)


def _shape_repeats(new: MomentFeature, reported: MomentFeature) -> bool:
    """A shape is reported beside a location or scale if it shows more, and once per parameter."""
    shared = bool(set(new.parameters) & set(reported.parameters)) or "all" in (new.basis, reported.basis)
    shared = shared or not new.basis == reported.basis == "parameter"
    if reported.kind in SHAPE_KINDS:
        return shared and (new.kind == reported.kind or "skewness" not in (new.kind, reported.kind))
    needed = 0.7 if new.kind in ("tails", "skewness") else 1.3
    if reported.basis == "all":
        needed = 0.7
    return shared and not abs(new.t) > needed * abs(reported.t)


def _correlation_repeats(new: MomentFeature, reported: MomentFeature) -> bool:
    """Each parameter is reported in one correlation; axes are not reported beside anything plainer."""
    if new.basis != "parameter":
        return reported.kind != "location"
    return reported.kind == "correlation" and bool(set(new.parameters) & set(reported.parameters))


def _same_size(new: MomentFeature, reported: MomentFeature) -> bool:
    """Whether the factor of one parameter may be that of all parameters together."""
    if new.kind != "scale" or reported.kind != "overall scale":
        return False
    low, high = np.log(np.maximum(new.interval, 1e-300))
    return bool(abs(np.log(reported.estimate) - 0.5 * (low + high)) < high - low)


def sorted_features(records: Iterator[MomentFeature]) -> tuple[MomentFeature, ...]:
    """Features by |t|, the largest first."""
    return tuple(sorted(records, key=lambda feature: -abs(feature.t)))
