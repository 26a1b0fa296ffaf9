"""Several misfits of one kind in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..result import FindingKind, MomentFeature
from .chains import words_listed

MIN_GROUP = 4  # misfits of one kind and direction, from which on they share a sentence
MAX_PAIRS_LISTED = 3  # correlations listed in a sentence
KINDS_WITH_SIZE = ("location", "scale", "overall scale")

Describe = Callable[[MomentFeature], str]


def size_of_effect(kind: FindingKind, estimate: float) -> float:
    """How large a misfit is: in standard deviations, as the logarithm of a factor, as a difference.

    These are about comparable: a shift of 0.1 sd and a factor of 1.1 misplace the same share of the
    probability. 0 for what has no size.

    Examples
    --------
    >>> [round(size_of_effect(*case), 2) for case in (("location", -0.5), ("scale", 0.5), ("tails", 9.0))]
    [0.5, 0.69, 0.0]
    """
    if np.isnan(estimate) or kind not in ("location", "scale", "overall scale", "correlation"):
        return 0.0
    if kind in ("location", "correlation"):
        return abs(estimate)
    return float(abs(np.log(estimate))) if estimate > 0 else np.inf


def by_size(features: Sequence[MomentFeature]) -> list[MomentFeature]:
    """The largest effects first, then what has no size."""
    return sorted(features, key=lambda feature: -size_of_effect(feature.kind, feature.estimate))


def grouped(features: Sequence[MomentFeature]) -> list[list[MomentFeature]]:
    """Misfits of one kind, mode, direction and scale together where they are many; the order is kept."""
    groups: dict[tuple[object, ...], list[MomentFeature]] = {}
    for feature in features:
        groups.setdefault(_group_key(feature), []).append(feature)
    parts = []
    for group in groups.values():
        parts += [group] if len(group) >= MIN_GROUP else [[feature] for feature in group]
    return sorted(parts, key=lambda part: features.index(part[0]))


def _group_key(feature: MomentFeature) -> tuple[object, ...]:
    """What misfits must have in common to share a sentence."""
    if feature.basis != "parameter" or feature.estimate == 0:
        return (id(feature),)
    if feature.kind == "correlation" or (feature.kind in KINDS_WITH_SIZE and np.isnan(feature.estimate)):
        return (feature.kind, feature.mode, bool(np.isnan(feature.estimate)))
    direction = feature.estimate < 1 if feature.kind == "scale" else feature.t > 0
    if feature.kind == "location":
        direction = feature.estimate > 0
    return (feature.kind, feature.mode, direction, feature.scales)


def describe_group(
    group: Sequence[MomentFeature],
    names: Sequence[str],
    describe: Describe,
    *,
    rough: bool,
    joint: bool = False,
) -> str:
    """What many misfits of one kind say, without their mode; the first one is the largest.

    `names` are all parameters, in the user's order; `describe` puts one misfit into words. What has no size
    is about each parameter given the others, if there are any, `joint`.
    """
    first = group[0]
    if first.kind == "correlation":
        return _correlations(group, describe)
    listed = listing([feature.parameters[0] for feature in group], names)
    each = f"{listed}, each given the others," if joint else listed
    if first.kind in KINDS_WITH_SIZE and np.isnan(first.estimate):
        what = "means" if first.kind == "location" else "spreads"
        return f"{what} of {each} do not fit, and no shift or rescaling corrects them"
    on_scale = f" on the {first.scales[0]} scale" if first.scales and first.scales[0] else ""
    if first.kind == "skewness":
        return f"{each} are too skewed to the {'right' if first.t > 0 else 'left'}{on_scale}"
    if first.kind in ("tails", "extremes"):
        return f"the tails of {each} are too {'heavy' if first.t > 0 else 'light'}{on_scale}"
    sizes = [abs(feature.estimate) for feature in group]
    if first.kind == "location":
        direction = "high" if first.estimate > 0 else "low"
        size = f"means of {listed} are {_range(sizes, '.2g')} sd too {direction}{on_scale}"
    else:
        narrow = first.estimate < 1
        factors = [1 / size if narrow else size for size in sizes]
        size = f"{listed} are {_range(factors, '.3g')} times too {'narrow' if narrow else 'wide'}{on_scale}"
    details = "" if rough else describe(first).partition(": ")[2]
    most = f", {first.parameters[0]} the most" if len(set(sizes)) > 1 else ""
    return f"{size}{most}" + (f": {details}" if details else "")


def _range(values: Sequence[float], digits: str) -> str:
    low, high = f"{min(values):{digits}}", f"{max(values):{digits}}"
    return low if low == high else f"{low} to {high}"


def _correlations(group: Sequence[MomentFeature], describe: Describe) -> str:
    if np.isnan(group[0].estimate):
        pairs = [" and ".join(feature.parameters) for feature in group[:MAX_PAIRS_LISTED]]
        return f"correlations do not fit, among them those of {'; '.join(pairs)}"
    weaker = [abs(feature.observed) < abs(feature.expected) for feature in group]
    word = "too weak" if all(weaker) else "wrong" if any(weaker) else "too strong"
    pairs = [describe(feature).removeprefix("correlation of ") for feature in group[:MAX_PAIRS_LISTED]]
    return f"correlations are {word}, among them those of {'; '.join(pairs)}"


def listing(chosen: Sequence[str], names: Sequence[str]) -> str:
    """Some of the parameters, in the order of `names`: all of them, from first to last, or the first ones.

    Examples
    --------
    >>> listing("ca", "abcdefgh"), listing("fedcb", "abcdefgh"), listing("hgcab", "abcdefgh")
    ('a and c', 'b ... f', 'a, b, c and 2 more')
    """
    order = {name: k for k, name in enumerate(names)}
    ordered = sorted(chosen, key=lambda name: order.get(name, len(order)))
    if len(ordered) <= 4:
        return words_listed(ordered)
    span = order.get(ordered[-1], -1) - order.get(ordered[0], 0)
    if span == len(ordered) - 1:
        return f"{ordered[0]} ... {ordered[-1]}"
    return f"{', '.join(ordered[:3])} and {len(ordered) - 3} more"
