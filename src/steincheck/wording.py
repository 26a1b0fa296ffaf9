"""Findings and verdicts as sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .chains import Blocks
from .moments.test import leading
from .result import (
    AgreementResult,
    Finding,
    FluxResult,
    GofResult,
    ModeTable,
    MomentFeature,
    MomentResult,
    Verdict,
    pvalue_text,
)

MAX_MODES_NAMED = 5  # findings about single modes; the mode table has the rest
MAX_MODES_PRINTED = 15  # rows of the printed mode table
MAX_COORDINATES_NAMED = 3  # of a mode location in a sentence
CLEARLY_IMPOSSIBLE = 1e-4  # p-value below which single draws are told before what else is wrong
SHAPES = ("skewness", "tails", "extremes", "radius", "radius spread")
WHAT = {
    "kernel": ("shape", "kernel test"),
    "moments": ("location, spread, correlation, tails", "moment test"),
    "weights": ("mode weights", "flux test"),
    "chains": ("agreement of the chains", "permutation of blocks"),
}


def headline(fits: bool | None, alpha: float, pvalue: float, reasons: Sequence[str]) -> str:
    """The answer in one sentence."""
    if fits is None:
        return f"Cannot tell whether the draws fit the density: {'; '.join(reasons)}."
    p = f"p {pvalue_text(pvalue)}"
    if fits:
        return f"No misfit found at level {alpha:g} ({p})."
    return f"The draws do not fit the density: misfit found at level {alpha:g} ({p})."


def place(location: np.ndarray, names: Sequence[str]) -> str:
    """Where a mode is, in its first coordinates: "mu = 2.03, tau = 0.5, ..."."""
    size = np.max(np.abs(location), initial=1e-300)
    rounded = np.where(np.abs(location) < 1e-6 * max(size, 1.0), 0.0, location)
    shown = [
        f"{name} = {value:.4g}" for name, value in zip(names[:MAX_COORDINATES_NAMED], rounded, strict=False)
    ]
    return ", ".join(shown) + (", ..." if len(location) > MAX_COORDINATES_NAMED else "")


def test_rows(verdict: Verdict) -> list[tuple[str, str, str, str]]:
    """The tests as rows of text: what was tested, p-value, adjusted p-value, what it says."""
    rows = []
    several = verdict.modes is not None and len(verdict.modes) > 1
    for key, result in verdict.tests.items():
        what, test = WHAT[key]
        where = " within modes" if several and key in ("kernel", "moments") else ""
        said = "misfit found" if verdict.adjusted[key] <= verdict.alpha else "no misfit found"
        open_question = isinstance(result, FluxResult) and result.inconclusive and said == "no misfit found"
        if np.isnan(result.pvalue) or open_question:
            said = "cannot tell"
        raw = pvalue_text(result.pvalue).removeprefix("= ")
        adjusted = pvalue_text(verdict.adjusted[key]).removeprefix("= ")
        rows.append((f"{what}{where} ({test})", raw, adjusted, said))
    return rows


def mode_rows(table: ModeTable) -> list[tuple[str, str, str, str, str]]:
    """The modes as rows of text: number, draws, observed share, implied share, what that says."""
    rows = []
    for k, said in enumerate(table.words):
        observed = _share(table.observed[k], table.observed_interval[k])
        implied = _share(table.implied[k], table.implied_interval[k])
        words = f"missing, {said}" if table.n_draws[k] == 0 else said
        rows.append((str(k), str(table.n_draws[k]), observed, implied, words))
    return rows


def render(verdict: Verdict) -> str:
    """All that ``print(verdict)`` shows: the answer, what qualifies it, what is wrong, the numbers."""
    lines = [verdict.sentence]
    lines += [f"  Warning: {text}" for text in verdict.warnings]
    lines += [f"  - {finding}" for finding in verdict.findings]
    tests = [("what was tested", "p", "adjusted", ""), *test_rows(verdict)]
    lines += ["", *_aligned(tests, "lrrl")]
    if verdict.mode_table is not None:
        head = ("mode", "draws", "share of the draws", "share of the density", "")
        rows = mode_rows(verdict.mode_table)
        lines += ["", *_aligned([head, *rows[:MAX_MODES_PRINTED]], "rrrrl")]
        if len(rows) > MAX_MODES_PRINTED:
            lines.append(f"  ... and {len(rows) - MAX_MODES_PRINTED} more")
    if verdict.context:
        lines += ["", *verdict.context]
    if verdict.not_examined:
        lines += ["", "Not examined:", *(f"  - {text}" for text in verdict.not_examined)]
    foot = f"n = {verdict.n}, d = {verdict.dim}, seed {verdict.seed}, steincheck {verdict.version}"
    return "\n".join([*lines, "", foot])


def weight_findings(
    result: FluxResult, shown: np.ndarray, shown_names: Sequence[str], names: Sequence[str], pvalue: float
) -> list[Finding]:
    """What is wrong with the mode weights, missing modes first.

    `shown` (M, k) are the mode locations in the user's own parameters, `names` those of the coordinates.
    """
    table = result.mode_table
    if table is None:
        return [_wrong_flow(result, names, pvalue)]
    gap = np.nan_to_num(table.observed - table.implied).round(4)  # equal but for rounding is equal
    order = np.lexsort((gap, -np.abs(gap)))
    wrong = [int(k) for k in order if table.words[k].startswith("too")]
    wrong.sort(key=lambda k: table.n_draws[k] > 0)
    if not wrong:
        return [_wrong_as_a_whole(result, table, names, pvalue)]
    found = [_wrong_share(table, k, place(shown[k], shown_names), pvalue) for k in wrong[:MAX_MODES_NAMED]]
    if len(wrong) > MAX_MODES_NAMED:
        rest = len(wrong) - MAX_MODES_NAMED
        found.append(_finding("mode share", None, pvalue, f"And {rest} more modes have wrong shares"))
    return found


def kernel_finding(pvalue: float, *, several: bool) -> Finding:
    """The shape is wrong in a way that no moment shows."""
    where = " within modes" if several else ""
    return _finding("shape", None, pvalue, f"The shape of the distribution{where} is wrong")


def agreement_finding(result: AgreementResult, pvalue: float) -> Finding:
    """Which chain differs, or that the beginnings do."""
    if result.start_pvalue < result.between_pvalue:
        text = "The beginnings of the chains differ from the rest: leave out more draws as warm-up"
    else:
        text = f"Chain {result.odd_chain} differs from the others: look at it, and at its starting point"
    return _finding("chains", None, pvalue, text)


def chain_worth(blocks: Blocks, weights: GofResult | None) -> str:
    """How many independent draws the chains are worth."""
    n = len(blocks.label)
    text = (
        f"The {n} tested draws are worth about {blocks.ess:.0f} independent ones for the shape "
        f"(autocorrelation time {blocks.tau:.3g}; {blocks.count} blocks were compared)"
    )
    if isinstance(weights, FluxResult) and weights.chains is not None:
        chains = weights.chains
        if chains.n_changes == 0:
            return f"{text}; they never change mode, so that the shares of the modes are those of the starts."
        text += f" and about {chains.effective_draws:.0f} for the mode weights"
        text += f" ({chains.n_changes} changes of mode)"
    return text + "."


def _wrong_share(table: ModeTable, k: int, where: str, pvalue: float) -> Finding:
    low, high = table.implied_interval[k]
    known = not np.isnan(low)
    missing = table.n_draws[k] == 0
    kind = "missing mode" if missing else "mode share"
    state = ""
    if missing:
        state = " is missing"
    elif known and table.observed_interval[k, 1] < 0.1 * low:
        state = " is all but missing"
    more = "fewer" if table.words[k] == "too many draws" else "more"
    says = f"{table.implied[k]:.1%} ({low:.1%} to {high:.1%})" if known else more
    text = f"Mode {k} ({where}){state}: {table.observed[k]:.1%} of the draws, the density says {says}"
    return Finding(kind, k, (), float(table.implied[k]), (float(low), float(high)), pvalue, text)


def _wrong_as_a_whole(result: FluxResult, table: ModeTable, names: Sequence[str], pvalue: float) -> Finding:
    text = "The mode weights are wrong, though no mode by itself stands out"
    if not result.trend_pvalue <= result.pvalue:
        return _finding("mode share", None, pvalue, text)
    assert result.net_flow is not None
    extent = np.ptp(table.locations, axis=0).clip(1e-300)
    shift = -result.net_flow @ table.locations / extent
    k = int(np.argmax(np.abs(shift)))
    side = "large" if shift[k] > 0 else "small"
    text += f": too many draws at modes with a {side} {names[k]}"
    return _finding("trend", None, pvalue, text, (names[k],))


def _wrong_flow(result: FluxResult, names: Sequence[str], pvalue: float) -> Finding:
    """The displacement of a lattice of modes along which the flow is farthest from balance."""
    lattice = result.lattice
    assert lattice is not None
    error = np.where(lattice.net_flow_se > 0, lattice.net_flow_se, np.inf)
    k = int(np.argmax(np.abs(lattice.net_flow) / error))
    step = lattice.displacements[k] * np.sign(lattice.net_flow[k])
    order = np.argsort(-np.abs(step), kind="stable")[:MAX_COORDINATES_NAMED]
    largest = [j for j in order if abs(step[j]) > 0.1 * np.abs(step).max()]
    direction = ", ".join(f"{names[j]} {step[j]:+.3g}" for j in largest)
    text = f"The mode weights are wrong: too little mass in direction ({direction})"
    return _finding("flow", None, pvalue, text, tuple(names[j] for j in largest))


def _finding(
    kind: str, mode: int | None, pvalue: float, text: str, parameters: tuple[str, ...] = ()
) -> Finding:
    return Finding(kind, mode, parameters, np.nan, (np.nan, np.nan), pvalue, text)


def _share(share: float, interval: np.ndarray) -> str:
    if np.isnan(share):
        return "-"
    return f"{share:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Rows of cells as lines, columns aligned to the left or right by the letters of `sides`."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(sides))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def moment_findings(result: MomentResult, pvalue: float, alpha: float) -> list[Finding]:
    """The features worth telling, and draws that are all but impossible."""
    # by which Holm's method has adjusted the test, of four at the most
    factor = float(np.clip(pvalue / max(result.pvalue, 1e-300), 1.0, 4.0))
    told = leading(result, alpha / factor)
    reshaped = any(feature.kind in SHAPES for feature in told)
    found = []
    p = min(1.0, factor * result.impossible_pvalue)
    if result.impossible and (p < CLEARLY_IMPOSSIBLE or not told):
        found.append(_finding("impossible draws", None, p, describe_impossible(result)))
    for feature in told:
        text = describe(feature, rough=reshaped)
        if text.startswith(("mean", "correlation", "the ", "too ", "tails")):  # else it begins with a name
            text = text[0].upper() + text[1:]
        p = min(1.0, factor * feature.pvalue)
        found.append(
            Finding(
                feature.kind,
                feature.mode,
                feature.parameters,
                feature.estimate,
                feature.interval,
                p,
                text[0].upper() + text[1:]
                if text.startswith(("mean", "correlation", "the", "too"))
                else text,
            )
        )
    return found


def describe(feature: MomentFeature, *, rough: bool = False) -> str:
    """What a feature of the moment test says, with its size.

    Sizes are exact for draws that are a shifted and stretched copy of the density; where the shape is wrong
    too they are `rough`, and neither an interval nor what the value should be is told.

    Examples
    --------
    >>> from steincheck.result import MomentFeature
    >>> nan = float("nan")
    >>> sizes = {"estimate": 0.78, "interval": (0.73, 0.83), "observed": 0.39, "expected": 0.5}
    >>> describe(MomentFeature("scale", "own", None, ("sigma",), (), **sizes, t=9.0, pvalue=0.001))
    'sigma is 1.28 (1.20 to 1.37) times too narrow: sd of the draws 0.39, should be 0.5'
    """
    said = {
        "location": _location,
        "scale": _scale,
        "correlation": _correlation,
        "overall scale": _scale,
        "skewness": _skewness,
        "tails": _tails,
        "extremes": _tails,
        "radius": _radius,
        "radius spread": _radius_spread,
    }[feature.kind](feature)
    if rough and feature.kind in ("location", "scale", "overall scale"):
        said = _rough(feature)
    return said if feature.mode is None else f"Mode {feature.mode}: {said}"


def _rough(feature: MomentFeature) -> str:
    """Direction and order of magnitude of a misfit of location or scale."""
    subject = _subject(feature)
    verb = "are" if feature.basis == "all" else "is"
    if feature.kind == "location":
        more = "high" if feature.estimate > 0 else "low"
        return f"mean of {subject} is too {more}, by roughly {abs(feature.estimate):.1g} sd"
    if feature.estimate == 0:
        return f"{subject} {verb} constant"
    if not np.isfinite(feature.estimate):
        return f"{subject} {verb} too {'narrow' if feature.t > 0 else 'wide'}"
    word = "narrow" if feature.estimate < 1 else "wide"
    factor = max(feature.estimate, 1 / feature.estimate)
    size = f"a factor of roughly {factor:.1f}" if factor < 1000 else "orders of magnitude"
    return f"{subject} {verb} too {word}, by {size}; the shape is wrong too"


def describe_impossible(result: MomentResult) -> str:
    """Which draws the density all but excludes; empty if there are none."""
    count = len(result.impossible)
    if not count:
        return ""
    rows = ", ".join(map(str, result.impossible[:10])) + (", ..." if count > 10 else "")
    many = f"At least {count} draws are" if count > 1 else "One draw is"
    return (
        f"{many} all but impossible (row{'s' * (count > 1)} {rows}): "
        f"p {pvalue_text(result.impossible_pvalue)}, adjusted for all {result.n} draws"
    )


def _subject(feature: MomentFeature) -> str:
    """The parameter, or the direction: "the axis 0.71 a - 0.71 b"."""
    if feature.basis == "all":
        return "the draws"
    if feature.basis in ("own", "given the others"):
        given = " given the others" if feature.basis == "given the others" else ""
        return " and ".join(feature.parameters) + given
    if not feature.loadings:
        return f"principal {feature.basis}"
    terms = [f"{value:+.2f} {name}" for name, value in zip(feature.parameters, feature.loadings, strict=True)]
    return f"principal {feature.basis} ({' '.join(terms).removeprefix('+')})"


def _location(feature: MomentFeature) -> str:
    low, high = np.sort(np.abs(feature.interval))
    more = "high" if feature.estimate > 0 else "low"
    size = f"{abs(feature.estimate):.2g} sd ({low:.2g} to {high:.2g}) too {more}"
    where = ""
    if np.isfinite(feature.observed):
        where = f": mean of the draws {feature.observed:.3g}, should be {feature.expected:.3g}"
    return f"mean of {_subject(feature)} is {size}{where}"


def _scale(feature: MomentFeature) -> str:
    subject = _subject(feature)
    plural = feature.basis == "all"
    verb = "are" if plural else "is"
    if feature.estimate == 0:
        return f"{subject} {verb} constant"
    if not np.isfinite(feature.estimate):
        return f"{subject} {verb} too {'narrow' if feature.t > 0 else 'wide'}"
    narrow = feature.estimate < 1
    factor = 1 / feature.estimate if narrow else feature.estimate
    ends = np.sort(1 / np.maximum(feature.interval, 1e-300) if narrow else feature.interval)
    word = "narrow" if narrow else "wide"
    size = f"{factor:.2f} ({ends[0]:.2f} to {ends[1]:.2f}) times too {word}"
    overall = " in all directions taken together" if plural else ""
    sd = ""
    if np.isfinite(feature.observed) and np.isfinite(feature.expected):
        sd = f": sd of the draws {feature.observed:.3g}, should be {feature.expected:.3g}"
    return f"{subject} {verb} {size}{overall}{sd}"


def _correlation(feature: MomentFeature) -> str:
    pair = " and ".join(feature.parameters)
    if not np.isfinite(feature.expected):
        return f"correlation of {pair} is wrong: {feature.observed:.2f}"
    return f"correlation of {pair}: {feature.observed:.2f}, should be {feature.expected:.2f}"


def _skewness(feature: MomentFeature) -> str:
    side = "right" if feature.t < 0 else "left"
    verb = "are" if feature.basis == "all" else "is"
    return f"{_subject(feature)} {verb} too skewed to the {side}"


def _tails(feature: MomentFeature) -> str:
    return f"the tails of {_subject(feature)} are too {'light' if feature.t > 0 else 'heavy'}"


def _radius(feature: MomentFeature) -> str:
    return "the draws lie too " + ("close to the mode" if feature.t < 0 else "far from the mode")


def _radius_spread(feature: MomentFeature) -> str:
    many = "many" if feature.t > 0 else "few"
    return f"too {many} draws lie very close to the mode or very far from it"
