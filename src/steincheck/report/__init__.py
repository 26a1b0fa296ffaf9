"""A verdict as one self-contained HTML page: no script, no network request, light, dark and on paper."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shlex
from collections.abc import Callable, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from .. import plot
from .._validation import require_kind
from ..draws import as_draws
from ..result import MomentResult, Verdict, as_plain, pvalue_text
from ..result.rows import mode_rows
from ..result.verdict import test_rows
from ..target import Target, require_target

INK = "#101113"  # drawn in this colour, then replaced by the page's own
COLOURS = {
    INK: "--ink",
    plot.PAPER: "--panel",
    plot.FIRST: "--first",
    plot.SECOND: "--second",
    plot.QUIET: "--quiet",
}
SIZES = {"font.size": 10.5, "axes.labelsize": 10.5, "legend.fontsize": 9.5}
MAX_SETTING_LENGTH = 120  # characters of a setting; arrays are shown by their shape
MAX_MODES = 40  # rows of the table; the JSON has all


def write_html(
    path: str | Path,
    verdict: Verdict,
    draws: Any,
    target: Target | None = None,
    *,
    title: str | None = None,
    command: Sequence[str] | None = None,
) -> None:
    """Write a verdict as one self-contained page: the sentence, mode table, plots, numbers, how to reproduce.

    Parameters
    ----------
    path : str or Path
        Where; written to a temporary file beside it and moved, so that nothing is left half-written.
    verdict : Verdict
    draws : array (n, d), or anything that `as_draws` takes
        The draws that were checked.
    target : Target, optional
        Gives names to the coordinates and, in one dimension, a curve to the density.
    title : str, optional
        What was checked.
    command : sequence of str, optional
        The command that reproduces it; by default a call of `check` is shown.
    """
    require_kind(verdict, Verdict, "verdict")
    if target is not None:
        require_target(target)
    if title is not None:
        require_kind(title, str, "title")
    if command is not None and not isinstance(command, (list, tuple)):
        raise TypeError(f"`command` must be a list of words, got {type(command).__name__}")
    x = as_draws(draws, verdict.dim, names=None if target is None else target.names).values
    if len(x) != verdict.n:
        raise ValueError(f"`draws` must be the {verdict.n} draws of the verdict, got {len(x)}")
    write_text(path, render(verdict, x, target, title=title, command=command))


def render(
    verdict: Verdict,
    x: np.ndarray,
    target: Target | None = None,
    *,
    title: str | None = None,
    command: Sequence[str] | None = None,
) -> str:
    """The page as text; arguments as in `write_html`."""
    title = title or "Do the draws fit the density?"
    parts = [
        _answer(verdict, title),
        '<div class="plots">' + "".join(_figures(verdict, x, target)) + "</div>",
        _modes(verdict),
        "<h2>Tests</h2>" + _tests(verdict),
        "<h2>How it was examined</h2>" + _list(verdict.context) if verdict.context else "",
        "<h2>Not examined</h2>" + _list(verdict.not_examined) if verdict.not_examined else "",
        "<details><summary>How to reproduce</summary>" + _reproduce(verdict, x, command) + "</details>",
    ]
    here = Path(__file__).parent
    page = Template((here / "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(title),
        style=(here / "style.css").read_text(encoding="utf-8"),
        body="\n".join(part for part in parts if part),
    )


def _answer(verdict: Verdict, title: str) -> str:
    """The sentence, what qualifies it, and what is wrong."""
    kind = {True: "fits", False: "misfit", None: "unknown"}[verdict.fits]
    parts = [
        f'<p class="soft">steincheck report: {escape(title)}</p>',
        f'<h1 class="{kind}">{_unbroken(verdict.sentence)}</h1>',
    ]
    if verdict.warnings:
        parts.append(f'<div class="warnings"><strong>Warnings</strong>{_list(verdict.warnings)}</div>')
    parts.append(_list([finding.text for finding in verdict.findings], "findings"))
    meaning = "A small p-value is evidence against the fit."
    if verdict.fits:
        meaning = "Finding no misfit is no proof that there is none; what was not examined is listed below."
    parts.append(f'<p class="soft">{verdict.n} draws of dimension {verdict.dim}. {meaning}</p>')
    return "\n".join(part for part in parts if part)


def write_text(path: str | Path, text: str) -> None:
    """Write to a temporary file beside `path` and move it there: all or nothing."""
    place = Path(os.path.realpath(check_output(path)))
    if place.exists() and not place.is_file():  # a pipe or a terminal: there is nothing to move
        place.write_text(text, encoding="utf-8")
        return
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)


def check_output(path: str | Path) -> Path:
    """The path, if a file can be written there; otherwise an error that says why not."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a directory")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no directory {path.parent}")
    exists, in_place = path.exists(), path.exists() and not path.is_file()  # a pipe or a terminal
    needed = [path] * exists + [path.parent] * (not in_place)
    if not all(os.access(place, os.W_OK) for place in needed):
        raise PermissionError(f"cannot write {path}: permission denied, for the file or its directory")
    return path


def _unbroken(sentence: str) -> str:
    """Escaped, with "p = 0.1" kept on one line."""
    return re.sub(r"\(p (.*?) (.*?)\)", "(p&nbsp;\\1&nbsp;\\2)", escape(sentence))


def _list(texts: Sequence[str], kind: str = "") -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul class="{kind}">{items}</ul>' if texts else ""


def _table(
    head: Sequence[str], kinds: Sequence[str], rows: Sequence[Sequence[str]], wrong: Sequence[bool]
) -> str:
    """Rows of text; `kinds` are the classes of the columns."""

    def row(cells: Sequence[str], tag: str, mark: str = "") -> str:
        inner = (
            f'<{tag} class="{kind}">{escape(cell)}</{tag}>' for cell, kind in zip(cells, kinds, strict=True)
        )
        return f"<tr{mark}>{''.join(inner)}</tr>"

    body = "".join(row(r, "td", ' class="wrong"' if bad else "") for r, bad in zip(rows, wrong, strict=True))
    return f'<div class="scroll"><table><thead>{row(head, "th")}</thead><tbody>{body}</tbody></table></div>'


def _modes(verdict: Verdict) -> str:
    table = verdict.mode_table
    if table is None:
        return ""
    names = verdict.names
    rows = []
    for (number, *cells), location in zip(mode_rows(table)[:MAX_MODES], table.locations, strict=False):
        rows.append((number, *cells, ", ".join(f"{value:.3g}" for value in location[:3])))
    wrong = [words.startswith("too") and bool(verdict.findings) for words in table.words]
    where = "location: " + ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    head = ("mode", "draws", "share of the draws", "share of the density", "says", where)
    kinds = ("", "number", "number", "number", "words", "where")
    more = f"<p>The {MAX_MODES} highest of {len(table)} modes.</p>" if len(table) > MAX_MODES else ""
    note = '<p class="soft">In brackets: 95 % intervals, each for one mode alone.</p>'
    return "<h2>Modes</h2>" + _table(head, kinds, rows, wrong[:MAX_MODES]) + more + note


def _tests(verdict: Verdict) -> str:
    rows = test_rows(verdict)
    head = ("what was tested", "p-value", "adjusted", "says")
    kinds = ("", "number", "number", "words")
    table = _table(head, kinds, rows, [row[-1] == "misfit found" for row in rows])
    note = (
        f"Combined: p {pvalue_text(verdict.pvalue)}, level {verdict.alpha:g}. Adjusted p-values account for "
        f"the number of tests (Holm's method)."
    )
    return table + f'<p class="soft">{escape(note)}</p>'


def _reproduce(verdict: Verdict, x: np.ndarray, command: Sequence[str] | None) -> str:
    call = (
        f"verdict = steincheck.check(draws, target, alpha={verdict.alpha!r}, rng={verdict.seed})"
        "  # and the modes or bounds, if you gave any"
    )
    versions = ["steincheck " + verdict.version, "Python " + platform.python_version()]
    for name in ("numpy", "scipy", "jax"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} of unknown version")
    digest = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]
    rows = [
        ("seed", str(verdict.seed)),
        ("versions", ", ".join(versions)),
        ("draws", f"{verdict.n} x {verdict.dim}, SHA-256 of the float64 values {digest}..."),
    ]
    for result in verdict.tests.values():
        for key, value in as_plain(result.settings).items():
            if value is not None:
                rows.append((f"{result.test}: {key}", _shortened(value)))
    text = shlex.join(command) if command else call
    return f"<pre>{escape(text)}</pre>" + _table(
        ("setting", "value"), ("", "value"), rows, [False] * len(rows)
    )


def _shortened(value: Any) -> str:
    text = str(value)
    if len(text) <= MAX_SETTING_LENGTH:
        return text
    return f"{text[:MAX_SETTING_LENGTH]}..." if isinstance(value, str) else f"array {np.shape(value)}"


def _figures(verdict: Verdict, x: np.ndarray, target: Target | None) -> list[str]:
    """The pictures with their captions."""
    table = verdict.mode_table
    modes = verdict.modes
    pictures: list[tuple[Callable[[Any], Any], str]] = []
    if table is not None:
        pictures.append(
            (
                lambda ax: plot.mode_shares(table, ax=ax),
                "Share of the draws at each mode, and the share the density gives it, with 95 % intervals.",
            )
        )
    moments = verdict.tests.get("moments")
    if isinstance(moments, MomentResult) and verdict.adjusted["moments"] <= verdict.alpha:
        pictures.append(
            (
                lambda ax: plot.effect_sizes(moments, alpha=verdict.alpha, ax=ax),
                "How much is off, with 95 % intervals: means in standard deviations, spreads as log2 of the "
                "factor (1 is twice too wide), correlations as a difference.",
            )
        )
    pictures.append(
        (
            lambda ax: plot.draws(x, modes=modes, names=verdict.names, target=target, ax=ax),
            _scatter_caption(verdict),
        )
    )
    n_bars = max(len(table) if table is not None else 1, verdict.dim)
    height = 3.0 + 0.13 * max(0, min(n_bars, plot.MAX_BARS) - 8)  # room for the names of bars
    return [
        f"<figure>{_svg(draw, text, k, height)}<figcaption>{escape(text)}</figcaption></figure>"
        for k, (draw, text) in enumerate(pictures)
    ]


def _scatter_caption(verdict: Verdict) -> str:
    several = verdict.modes is not None and len(verdict.modes) > 1
    what = "the modes" if several else "the mode"
    if verdict.dim == 1:
        return f"The draws, the density and {what}."
    widths = f"{what} of the density, with ellipses of 1 and 2 standard deviations"
    if verdict.dim == 2 or not several:
        return f"The draws and {widths}."
    return f"The draws and {widths}, in the two coordinates in which the modes are farthest apart."


def _svg(draw: Callable[[Any], Any], text: str, number: int, height: float) -> str:
    """What `draw` draws, as an SVG element that takes its colours from the page."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("the report needs matplotlib: pip install 'steincheck[plot]'") from None
    style: dict[Any, Any] = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    )
    buffer = io.StringIO()
    with mpl.rc_context(style | {"svg.fonttype": "none", "svg.hashsalt": "steincheck"} | SIZES):
        figure = Figure(figsize=(4.3, height), layout="constrained")
        draw(figure.add_subplot())
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>p{number}-", svg)
    svg = re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        f'<svg viewBox="\\1" role="img" aria-label="{escape(text)}">',
        svg,
    )
    svg = re.sub(r"font-family:[^;\"]*;?", "", svg)  # the page's own font
    for colour, name in COLOURS.items():
        svg = svg.replace(colour, f"var({name})")
    return svg
