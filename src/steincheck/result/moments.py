"""The result of the moment test and its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._validation import check_level
from ..wording.moments import feature_lines, pairs_examined
from .gof import GofResult
from .modes import Modes
from .plain import Record

FeatureKind = Literal[
    "location",
    "scale",
    "correlation",
    "overall scale",
    "skewness",
    "tails",
    "extremes",
    "curvature",
    "radius",
    "radius spread",
]


@dataclass(frozen=True, eq=False)
class MomentFeature(Record):
    """One feature of `moment_test`: a mean, a standard deviation, a correlation or a shape.

    Attributes
    ----------
    kind : str
        "location", "scale", "correlation", "overall scale", "skewness", "tails" (given the scale), "extremes"
        (tails and scale together), "curvature" (of the regression of the second parameter on the first),
        "radius" or "radius spread" (mean and spread of the rank of a draw on the ray from the mode).
    basis : str
        "parameter": the parameters as named. "given the others": one parameter with all others held fixed.
        "axis 1", "axis 2", ...: along a principal axis of the mode's covariance, widest first. "all": all
        parameters together.
    mode : int or None
        The mode it is about; None if it is about all of them.
    parameters : tuple of str
        One parameter, the two of a correlation or curvature, the main ones of an axis, or none.
    scales : tuple of str
        Per parameter the scale on which the statement holds: "log", "logit" or "" for its own; empty if all
        are on their own.
    loadings : tuple of float
        Coefficients of `parameters` in the principal axis, in units of their standard deviations; empty
        otherwise.
    t, pvalue : float
        Studentised mean, and p-value adjusted for all features. Positive t: the mean of the draws is too
        high, they are too wide, too correlated, too skewed to the right, heavy-tailed, too high where another
        parameter is far from its middle, too far from the mode or too spread out on the rays from it.
    """

    kind: FeatureKind
    basis: str
    mode: int | None
    parameters: tuple[str, ...]
    scales: tuple[str, ...]
    loadings: tuple[float, ...]
    t: float
    pvalue: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MomentResult(GofResult):
    """Outcome of `moment_test`; `statistic` is the largest balanced |t|.

    Attributes
    ----------
    features : tuple of MomentFeature
        All features that were tested, the largest |t| first. In the statistic each |t| is divided by how much
        farther the null distribution of its kind reaches than a normal one and, for correlations and shapes,
        by a number that depends on how many there are (docs/theory/moments.md).
    modes : Modes
        The modes in whose coordinates the draws were looked at.
    n_blocks : int
        Number of blocks of draws that were resampled.
    pairs_left_out : int
        Correlations not examined, because there are too many pairs.
    """

    features: tuple[MomentFeature, ...]
    modes: Modes
    n_blocks: int
    pairs_left_out: int

    def _remarks(self, alpha: float) -> list[str]:
        """Those of every result, and the features of single parameters that are most significant."""
        wrong = [feature for feature in self.significant(alpha) if feature.basis == "parameter"]
        remarks = [*super()._remarks(alpha), *feature_lines(wrong)]
        if self.pairs_left_out:
            own = [f for f in self.features if (f.kind, f.basis) == ("correlation", "parameter")]
            remarks.append(pairs_examined(len(own)))
        return remarks

    def significant(self, alpha: float = 0.05) -> tuple[MomentFeature, ...]:
        """Features whose adjusted p-value is at most `alpha`, the largest |t| first."""
        check_level(alpha)
        return tuple(feature for feature in self.features if feature.pvalue <= alpha)
