"""The result of the moment test and its features."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from .._validation import check_level
from .gof import GofResult
from .modes import Modes
from .plain import as_plain, pvalue_text

FeatureKind = Literal[
    "location",
    "scale",
    "correlation",
    "overall scale",
    "skewness",
    "tails",
    "extremes",
    "radius",
    "radius spread",
]


MAX_FEATURES_PRINTED = 5
SIZES = {"location": "off by {:+.2g} sd", "scale": "{:.2g} times as wide", "correlation": "off by {:+.2g}"}


@dataclass(frozen=True, eq=False)
class MomentFeature:
    """One feature of `moment_test`: a mean, a standard deviation, a correlation or a shape.

    Attributes
    ----------
    kind : str
        "location", "scale", "correlation", "overall scale", "skewness", "tails" (given the scale), "extremes"
        (tails and scale together), "radius" or "radius spread" (mean and spread of the rank of a draw on
        the ray from the mode).
    basis : str
        "parameter": the parameters as named. "given the others": one parameter with all others held fixed.
        "axis 1", "axis 2", ...: along a principal axis of the mode's covariance, widest first. "all": all
        parameters together.
    mode : int or None
        The mode it is about; None if it is about all of them.
    parameters : tuple of str
        One parameter, the two of a correlation, the main ones of an axis, or none.
    scales : tuple of str
        Per parameter the scale on which the statement holds: "log", "logit" or "" for its own; empty if all
        are on their own.
    loadings : tuple of float
        Coefficients of `parameters` in the principal axis, in units of their standard deviations; empty
        otherwise.
    estimate, interval : float, (float, float)
        Location: how far the mean of the draws is too high, in standard deviations. Scale: by which factor
        the draws are too wide. Correlation: of the draws less that of the density. Shapes have no size (NaN),
        and no size is given if the draws still misfit after correction for shift and scale. Each interval has
        95 % coverage by itself.
    observed, expected : float
        Mean, standard deviation or correlation of the draws, and what the density says, in the units of
        the scale; NaN where this has no meaning.
    t, pvalue : float
        Studentised mean, and p-value adjusted for all features. Positive t: the mean of the draws is too
        high, they are too wide, too correlated, too skewed to the right, heavy-tailed, too far from the mode
        or too spread out on the rays from it.
    corrected_t : float
        The studentised mean after the draws have been shifted and stretched by the sizes: near 0 if these
        explain it; NaN where there are no sizes.
    """

    kind: FeatureKind
    basis: str
    mode: int | None
    parameters: tuple[str, ...]
    loadings: tuple[float, ...]
    estimate: float
    interval: tuple[float, float]
    observed: float
    expected: float
    t: float
    pvalue: float
    scales: tuple[str, ...] = ()
    corrected_t: float = float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return as_plain(dict(self.__dict__))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MomentResult(GofResult):
    """Outcome of `moment_test`; `statistic` is the largest balanced |t|.

    Attributes
    ----------
    features : tuple of MomentFeature
        All features that were tested, the largest |t| first. In the statistic each |t| is balanced: divided
        by how much farther the null distribution of its kind reaches than a normal one, and for correlations
        and shapes by a ratio that leaves half of the level to locations and scales (docs/theory/moments.md).
    modes : Modes
        The modes in whose coordinates the draws were looked at.
    n_blocks : int
        Number of blocks of draws that were resampled.
    pairs_left_out : int
        Correlations not examined, because there are too many pairs.
    impossible_rows : tuple of int
        Rows of the draws to which the density assigns negligible probability.
    impossible_pvalue : float
        p-value of the least probable draw, adjusted for the number of draws.
    """

    features: tuple[MomentFeature, ...]
    modes: Modes
    n_blocks: int
    pairs_left_out: int
    impossible_rows: tuple[int, ...]
    impossible_pvalue: float

    def _remarks(self, alpha: float) -> list[str]:
        """Those of every result, and the features of single parameters that are most significant."""
        wrong = [
            feature
            for feature in self.significant(alpha)
            if feature.basis == "parameter" and not _is_no_effect(feature)
        ]
        lines = [_line(feature) for feature in wrong[:MAX_FEATURES_PRINTED]]
        if len(wrong) > MAX_FEATURES_PRINTED:
            lines.append(f"and {len(wrong) - MAX_FEATURES_PRINTED} more in `features`")
        return [*super()._remarks(alpha), *lines]

    def significant(self, alpha: float = 0.05) -> tuple[MomentFeature, ...]:
        """Features whose adjusted p-value is at most `alpha`, the largest |t| first."""
        check_level(alpha)
        return tuple(feature for feature in self.features if feature.pvalue <= alpha)


def _is_no_effect(feature: MomentFeature) -> bool:
    """Whether a feature has a size that is none: another misfit is what makes it significant."""
    low, high = feature.interval
    return low <= (1.0 if feature.kind == "scale" else 0.0) <= high


def _line(feature: MomentFeature) -> str:
    """One feature in a line: what it is about, its size if it has one, its p-value."""
    names = [
        f"{scale} {name}" if scale else name
        for name, scale in zip_longest(feature.parameters, feature.scales, fillvalue="")
    ]
    mode = "" if feature.mode is None else f" at mode {feature.mode}"
    size = ""
    if feature.kind in SIZES and np.isfinite(feature.estimate):
        low, high = feature.interval
        interval = f" ({low:.2g} to {high:.2g})" if np.isfinite(low) else ""
        size = f", {SIZES[feature.kind].format(feature.estimate)}{interval}"
    return f"{feature.kind} of {' and '.join(names)}{mode}{size}, p {pvalue_text(feature.pvalue)}"
