"""What the moment test says, in sentences about the user's own parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..result import MomentFeature

SENTENCES = {  # with the word for positive t, and for negative
    "location": ("the mean of {0} is too {word}", "high", "low"),
    "scale": ("{0} is too {word}", "wide", "narrow"),
    "correlation": ("the correlation of {0} and {1} is too {word}", "high", "low"),
    "overall scale": ("the draws are too {word} in all directions", "wide", "narrow"),
    "skewness": ("{0} is too skewed to the {word}", "right", "left"),
    "tails": ("the tails of {0} are {word} than the density's", "heavier", "lighter"),
    "extremes": ("the extremes of {0} lie too far {word}", "out", "in"),
    "curvature": ("{1} is too {word} where {0} is far from its middle", "high", "low"),
    "radius": ("the draws lie too {word} the mode", "far from", "close to"),
    "radius spread": ("too {word} draws lie very close to the mode or very far from it", "many", "few"),
}


def describe_feature(feature: MomentFeature) -> str:
    """What a feature says, without a size: "mode 1: the tails of tau (log scale) are heavier than ..."."""
    sentence, high, low = SENTENCES[feature.kind]
    mode = "" if feature.mode is None else f"mode {feature.mode}: "
    return mode + sentence.format(*_subjects(feature), word=high if feature.t > 0 else low)


def _subjects(feature: MomentFeature) -> list[str]:
    """The parameter or the two of a pair, or the axis: "principal axis 1 (0.71 a -0.71 log b)"."""
    scales = feature.scales or ("",) * len(feature.parameters)
    if feature.basis == "all":
        return ["the distances from the mode"]
    if feature.loadings:
        parts = zip(feature.loadings, scales, feature.parameters, strict=True)
        terms = " ".join(f"{value:+.2f} {f'{scale} {name}'.strip()}" for value, scale, name in parts)
        return [f"principal {feature.basis} ({terms.removeprefix('+')})"]
    pairs = zip(feature.parameters, scales, strict=True)
    names = [f"{name} ({scale} scale)" if scale else name for name, scale in pairs]
    given = " given the others" if feature.basis == "given the others" else ""
    return [name + given for name in names] or [f"principal {feature.basis}"]


def feature_lines(features: Sequence[MomentFeature], most: int = 5) -> list[str]:
    """The significant features of a printed result."""
    lines = [f"{describe_feature(feature)} (t = {feature.t:.1f})" for feature in features[:most]]
    more = len(features) - most
    return [*lines, f"and {more} more in `features`"] if more > 0 else lines


def pairs_examined(count: int) -> str:
    """Which correlations were tested where there are too many."""
    return f"correlations were examined for the {count} pairs of parameters most correlated at the modes"


def repeated_draws(repeated: int, n: int) -> str:
    """A warning about draws that are not independent."""
    return f"{repeated} of {n} draws repeat others exactly: this test counts each as an independent draw"


def few_draws(n: int, enough: int) -> str:
    """A warning about the level."""
    return f"only {n} draws: below {enough} correct samples may be rejected too often"


def overflowing_moments(count: int, total: int) -> str:
    """A warning about features that cannot be computed."""
    return f"{count} of {total} moments overflow and were left out"
