"""What the moment test found, in sentences about the user's own parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from scipy import special

from .._series import index_in_chain
from .._validation import listed
from ..moments.columns import SHAPE_KINDS, leading_features, unexplained_shapes
from ..result import Finding, MomentFeature, MomentResult
from .chains import words_listed
from .groups import KINDS_WITH_SIZE, by_size, describe_group, grouped

MAX_FINDINGS = 8  # sentences about moments; the record of the test has the rest
MAX_WARM_UP_SHARE = 0.05  # of a chain, within which impossible draws are its beginning


def moment_findings(
    result: MomentResult,
    pvalue: float,
    alpha: float,
    descriptions: Mapping[int, str] = MappingProxyType({}),
    *,
    factor: float = 1.0,
    names: Sequence[str] = (),
    chain: np.ndarray | None = None,
) -> list[Finding]:
    """The features worth reporting, the largest effects first, and draws that are all but impossible.

    The test has the adjusted `pvalue`; those of single features are to be multiplied by `factor`. The
    `descriptions` say where modes are; each is given once. `names` are those of all parameters, `chain` (n,)
    is that of every draw, if there are any.
    """

    def adjusted(single: float) -> float:
        return float(np.clip(factor * single, pvalue, 1.0))  # named only if the test as a whole rejects too

    reported = by_size(leading_features(result, alpha / factor, limit=len(result.features)))
    reshaped = any(feature.kind in SHAPE_KINDS for feature in (*reported, *unexplained_shapes(result)))
    found = []
    leads = factor * result.impossible_pvalue < 1e-4  # single draws lead only if beyond doubt
    if result.impossible_rows and (leads or not reported):
        p = adjusted(result.impossible_pvalue)
        found.append(Finding.without_size("impossible draws", None, p, describe_impossible(result, chain)))
    descriptions_left = dict(descriptions)
    groups = grouped(reported)
    for group in groups[:MAX_FINDINGS]:
        first = group[0]
        where = "" if first.mode is None else descriptions_left.pop(first.mode, "")
        parameters = tuple(dict.fromkeys(name for feature in group for name in feature.parameters))
        text = as_sentence(_group_sentence(group, names, rough=reshaped, location=where), parameters)
        p = adjusted(min(feature.pvalue for feature in group))
        interval = (np.nan, np.nan) if is_rough(first, rough=reshaped) else first.interval
        found.append(Finding(first.kind, first.mode, parameters, first.estimate, interval, p, text))
    if len(groups) > MAX_FINDINGS:
        text = f'And {len(groups) - MAX_FINDINGS} more: `verdict.tests["moments"].significant()` lists all'
        found.append(Finding.without_size(groups[MAX_FINDINGS][0].kind, None, found[-1].pvalue, text))
    return found


def _group_sentence(
    group: Sequence[MomentFeature], names: Sequence[str], *, rough: bool, location: str
) -> str:
    """One misfit, or many of one kind, in words."""
    joint = len(names) > 1
    if len(group) == 1:
        return describe(group[0], rough=rough, location=location, joint=joint)
    return _at_mode(group[0], describe_group(group, names, _sentence, rough=rough, joint=joint), location)


def as_sentence(text: str, parameters: Sequence[str]) -> str:
    """The text with a capital first letter, unless that is the first of a parameter's name."""
    if any(text.startswith((f"{name} ", f"{name}, ")) for name in parameters):
        return text
    return text[0].upper() + text[1:]


def shape_coordinates(result: MomentResult) -> tuple[str, ...]:
    """The one or two parameters in which moments are farthest off, though none may stand out by itself."""
    largest: dict[str, float] = {}
    for feature in result.features:
        if feature.basis == "parameter" and len(feature.parameters) == 1:
            name = feature.parameters[0]
            largest[name] = max(largest.get(name, 0.0), abs(feature.t))
    chance = special.ndtri(1 - 0.025 / max(len(result.features), 1))  # Bonferroni over as many normal ones
    gate = max(chance, 0.75 * max(largest.values(), default=0.0))
    return tuple(
        sorted((name for name in largest if largest[name] > gate), key=lambda name: -largest[name])[:2]
    )


def describe(feature: MomentFeature, *, rough: bool = False, location: str = "", joint: bool = False) -> str:
    """What a feature of the moment test says, with its size.

    A feature without a size compares a parameter with its distribution given the others: where there are
    others, `joint`, the words say so.

    Sizes are exact for draws that are a shifted and stretched copy of the density; where the shape is wrong
    too they are `rough`, and neither an interval nor what the value should be is given. For a parameter that
    was examined on another scale, its own scale is used where that is exact: a mean on the log scale
    is a geometric mean, a standard deviation there a factor.

    Examples
    --------
    >>> from steincheck.result import MomentFeature
    >>> nan = float("nan")
    >>> sizes = {"estimate": 0.78, "interval": (0.73, 0.83), "observed": 0.39, "expected": 0.5}
    >>> describe(MomentFeature("scale", "parameter", None, ("sigma",), (), **sizes, t=9.0, pvalue=0.001))
    'sigma is 1.28 (1.20 to 1.37) times too narrow: sd of the draws 0.39, should be 0.5'
    >>> sizes = {"estimate": 2.0, "interval": (1.9, 2.1), "observed": 0.7, "expected": 0.1}
    >>> sizes |= {"t": 9.0, "pvalue": 0.0, "scales": ("log",)}
    >>> print(describe(MomentFeature("location", "parameter", None, ("tau",), (), **sizes)))
    tau is 1.82 times too large, 2 sd (1.9 to 2.1) on the log scale: geometric mean of the draws 2.01,
    should be 1.11
    """
    text = _rough(feature) if is_rough(feature, rough=rough) else _sentence(feature, joint=joint)
    return _at_mode(feature, text, location)


def is_rough(feature: MomentFeature, *, rough: bool) -> bool:
    """Whether the size of a feature is an order of magnitude only, as the shape is wrong too."""
    return rough and feature.kind in KINDS_WITH_SIZE and bool(np.isfinite(feature.estimate))


def _at_mode(feature: MomentFeature, text: str, location: str) -> str:
    """The words with the mode that they are about."""
    if feature.mode is None:
        return text
    where = f" ({location})" if location else ""
    return f"Mode {feature.mode}{where}: {text}"


def _sentence(feature: MomentFeature, *, joint: bool = False) -> str:
    """What a feature says, without its mode."""
    sized = {"location": _location, "scale": _scale, "correlation": _correlation, "overall scale": _scale}
    shapes = {"skewness": _skewness, "tails": _tails, "extremes": _tails}
    if feature.kind in shapes:
        return shapes[feature.kind](feature, _subject(feature, joint=joint))
    if feature.kind in sized and np.isfinite(feature.estimate):
        return sized[feature.kind](feature)
    if feature.kind in sized:
        return _unsized(feature, joint=joint)
    return _radius(feature) if feature.kind == "radius" else _radius_spread(feature)


def _unsized(feature: MomentFeature, *, joint: bool) -> str:
    """What does not fit, where no shift and rescaling explains it."""
    what = {"location": "mean", "correlation": "correlation"}.get(feature.kind, "spread")
    subject = _subject(feature, joint=joint)
    if feature.kind == "correlation":
        subject = " and ".join(feature.parameters)
    return f"{what} of {subject}{_on_scale(feature)} does not fit, and no shift or rescaling corrects it"


def _rough(feature: MomentFeature) -> str:
    """Direction and order of magnitude of a misfit of location or scale."""
    subject = _subject(feature)
    on_scale = _on_scale(feature)
    verb = "are" if feature.basis == "all" else "is"
    if feature.kind == "location":
        more = "high" if feature.estimate > 0 else "low"
        return f"mean of {subject} is too {more}, by roughly {abs(feature.estimate):.1g} sd{on_scale}"
    if feature.estimate == 0:
        return f"{subject} {verb} constant"
    word = "narrow" if feature.estimate < 1 else "wide"
    factor = max(feature.estimate, 1 / feature.estimate)
    size = f", by a factor of roughly {factor:.1f}" if factor < 1000 else ", by orders of magnitude"
    if factor < 1.05:  # not to be told from 1
        size = ""
    return f"{subject} {verb} too {word}{on_scale}{size}; the shape is wrong too"


def describe_impossible(result: MomentResult, chain: np.ndarray | None = None) -> str:
    """Which draws have negligible probability, by chain and draw where there are chains; empty if none."""
    count = len(result.impossible_rows)
    if not count:
        return ""
    many = f"At least {count} draws are" if count > 1 else "One draw is"
    where = f"{_rows(result.impossible_rows)}, counted from 0"
    if chain is not None and first_of_chains(result.impossible_rows, chain):
        where = _beginnings(result.impossible_rows, chain)
    elif chain is not None and chain.max() > 0:
        where = f"{_in_chains(result.impossible_rows, chain)}, counted from 0"
    return f"{many} of negligible probability under the density ({where})"


def first_of_chains(rows: Sequence[int], chain: np.ndarray) -> bool:
    """Whether all these rows are among the first draws of their chains: warm-up that was not discarded."""
    chosen = np.asarray(rows, dtype=int)
    index = index_in_chain(chain)[chosen]
    length = np.bincount(chain)[chain[chosen]]
    return bool(len(chosen)) and bool((index < np.maximum(MAX_WARM_UP_SHARE * length, 2)).all())


def _rows(rows: Sequence[int]) -> str:
    return f"row{'s' * (len(rows) > 1)} {listed(rows)}"


def _beginnings(rows: Sequence[int], chain: np.ndarray) -> str:
    """The words "the first draws of chains 0 and 2, up to draw 5"."""
    chosen = np.asarray(rows, dtype=int)
    last = int(np.max(index_in_chain(chain)[chosen]))
    concerned = np.unique(chain[chosen]).tolist()
    whose = ""
    if chain.max() > 0:
        whose = f" of chain{'s' * (len(concerned) > 1)} {words_listed([str(c) for c in concerned])}"
    return f"the first draws{whose}, up to draw {last}"


def _in_chains(rows: Sequence[int], chain: np.ndarray) -> str:
    index = index_in_chain(chain)
    rows_named = [f"chain {chain[row]}, draw {index[row]}" for row in rows[:5]]
    return "; ".join(rows_named) + ("; ..." if len(rows) > 5 else "")


def _scale_name(feature: MomentFeature, k: int = 0) -> str:
    """The scale of the k-th parameter: "log", "logit", or "" for its own."""
    return feature.scales[k] if len(feature.scales) > k else ""


def _on_scale(feature: MomentFeature) -> str:
    """The words "on the log scale" where a statement about one parameter holds there."""
    alone = feature.basis in ("parameter", "given the others") and len(feature.parameters) == 1
    scale = _scale_name(feature) if alone else ""
    return f" on the {scale} scale" if scale else ""


def _subject(feature: MomentFeature, *, joint: bool = False) -> str:
    """The parameter or direction, "principal axis 1 (0.71 a - 0.71 log b)"; if `joint`, given the others."""
    if feature.basis == "all":
        return "the draws"
    given = " given the others" if joint or feature.basis == "given the others" else ""
    if feature.basis in ("parameter", "given the others"):
        return " and ".join(feature.parameters) + given
    if not feature.loadings:
        return f"principal {feature.basis}{given}"
    names = [f"{_scale_name(feature, k)} {name}".strip() for k, name in enumerate(feature.parameters)]
    terms = [f"{value:+.2f} {name}" for name, value in zip(names, feature.loadings, strict=True)]
    return f"principal {feature.basis} ({' '.join(terms).removeprefix('+')}){given}"


def _location(feature: MomentFeature) -> str:
    low, high = np.sort(np.abs(feature.interval))
    high_or_low = "high" if feature.estimate > 0 else "low"
    size = f"{abs(feature.estimate):.2g} sd ({low:.2g} to {high:.2g})"
    subject = _subject(feature)
    on_scale = _on_scale(feature)
    known = np.isfinite(feature.observed) and np.isfinite(feature.expected)
    if known and on_scale == " on the log scale":
        gap = feature.observed - feature.expected
        more = "large" if gap > 0 else "small"
        values = f"{np.exp(feature.observed):.3g}, should be {np.exp(feature.expected):.3g}"
        factor = f"{np.exp(abs(gap)):.3g} times too {more}"
        return f"{subject} is {factor}, {size}{on_scale}: geometric mean of the draws {values}"
    text = f"mean of {subject} is {size} too {high_or_low}{on_scale}"
    if not known:
        return text
    if on_scale == " on the logit scale":
        observed = special.expit(feature.observed)
        expected = special.expit(feature.expected)
        return f"{text}: centre of the draws {observed:.3g}, should be {expected:.3g}"
    unit = abs(feature.observed - feature.expected) / max(abs(feature.estimate), 1e-300)
    values = f"{_rounded(feature.observed, unit)}, should be {_rounded(feature.expected, unit)}"
    return f"{text}: mean of the draws {values}"


def _rounded(value: float, unit: float) -> str:
    """Three digits; 0 for what is small for the standard deviation, `unit`."""
    return "0" if abs(value) < 0.005 * unit else f"{value:.3g}"


def _scale(feature: MomentFeature) -> str:
    subject = _subject(feature)
    plural = feature.basis == "all"
    verb = "are" if plural else "is"
    on_scale = _on_scale(feature)
    if feature.estimate == 0:
        return f"{subject} {verb} constant"
    narrow = feature.estimate < 1
    factor = 1 / feature.estimate if narrow else feature.estimate
    ends = np.sort(1 / np.maximum(feature.interval, 1e-300) if narrow else feature.interval)
    word = "narrow" if narrow else "wide"
    size = f"{factor:.2f} ({ends[0]:.2f} to {ends[1]:.2f}) times too {word}"
    overall = " in all directions taken together" if plural else ""
    return f"{subject} {verb} {size}{on_scale}{overall}{_spread(feature, on_scale)}"


def _spread(feature: MomentFeature, on_scale: str) -> str:
    """The standard deviation of the draws and what it should be; on the log scale as factors."""
    if not (np.isfinite(feature.observed) and np.isfinite(feature.expected)):
        return ""
    if on_scale == " on the log scale":
        values = f"{np.exp(feature.observed):.3g}, should be {np.exp(feature.expected):.3g}"
        return f": geometric sd of the draws {values}"
    return f": sd of the draws {feature.observed:.3g}, should be {feature.expected:.3g}"


def _correlation(feature: MomentFeature) -> str:
    named = []
    for k, name in enumerate(feature.parameters):
        scale = _scale_name(feature, k)
        named.append(f"{name} (on the {scale} scale)" if scale else name)
    pair = " and ".join(named)
    if not np.isfinite(feature.expected):
        return f"correlation of {pair} is wrong: {feature.observed:.2f}"
    return f"correlation of {pair}: {feature.observed:.2f}, should be {feature.expected:.2f}"


def _skewness(feature: MomentFeature, subject: str) -> str:
    side = "right" if feature.t > 0 else "left"
    verb = "are" if feature.basis == "all" else "is"
    return f"{subject} {verb} too skewed to the {side}{_on_scale(feature)}"


def _tails(feature: MomentFeature, subject: str) -> str:
    weight = "heavy" if feature.t > 0 else "light"
    return f"the tails of {subject} are too {weight}{_on_scale(feature)}"


def _radius(feature: MomentFeature) -> str:
    return "the draws lie too " + ("close to the mode" if feature.t < 0 else "far from the mode")


def _radius_spread(feature: MomentFeature) -> str:
    many = "many" if feature.t > 0 else "few"
    return f"too {many} draws lie very close to the mode or very far from it"
