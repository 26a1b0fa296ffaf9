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
from typing import Any

import numpy as np

from .. import plot
from ..draws import as_draws
from ..result import Verdict, as_plain, pvalue_text
from ..target import Target

INK = "#101113"  # drawn in this colour, then replaced by the page's own
COLOURS = {
    INK: "--ink",
    plot.PAPER: "--panel",
    plot.FIRST: "--first",
    plot.SECOND: "--second",
    plot.QUIET: "--quiet",
}
SIZES = {"font.size": 10.5, "axes.labelsize": 10.5, "legend.fontsize": 9.5}
LONGEST_SETTING = 120
MOST_MODES = 40  # rows of the table; the JSON has all

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1a1c1f; --soft: #5b6068; --line: #d9dce1;
  --panel: #f5f6f8; --first: #2a6fb0; --second: #c2571a; --quiet: #a3a8b1;
  --fits: #1c7a45; --misfit: #b3321f; --unknown: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --page: #15171a; --ink: #e8eaed; --soft: #a3a9b3;
  --line: #383c43; --panel: #1e2125; --first: #6aaef0; --second: #f0935a; --quiet: #7b818b;
  --fits: #62c98c; --misfit: #f28672; --unknown: #e0b354; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .2rem 0 .8rem; padding-left: .8rem;
  border-left: .4rem solid; }
h1.fits { color: var(--fits); } h1.misfit { color: var(--misfit); } h1.unknown { color: var(--unknown); }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
p, li { max-width: 46rem; } ul { padding-left: 1.2rem; } .soft, figcaption, caption { color: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem 1.2rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; } td.number, th.number { text-align: right; white-space: nowrap; }
td.words, td.p { white-space: nowrap; } td.p, th.p { text-align: right; }
td.value { overflow-wrap: anywhere; min-width: 12rem; }
@media (max-width: 40rem) { body { font-size: 15px; } h1 { font-size: 1.35rem; }
  th, td { padding-right: .5rem; font-size: .85rem; }
  td.number, th.number, td.words { white-space: normal; } }
tr.wrong td:first-child { font-weight: 600; color: var(--misfit); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.2rem; }
figure { margin: 0; padding: .8rem; background: var(--panel); border-radius: .5rem; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; } figcaption { font-size: .9rem; margin-top: .5rem; }
pre { background: var(--panel); padding: .8rem; border-radius: .5rem; white-space: pre-wrap;
  font-size: .85rem; }
@media print { :root { color-scheme: light; --page: #fff; --ink: #000; --soft: #444; --line: #bbb;
  --panel: #fff; --first: #2a6fb0; --second: #c2571a; --quiet: #a3a8b1; --fits: #1c7a45; --misfit: #b3321f;
  --unknown: #8a6100; } body { font-size: 12px; } main { max-width: none; padding: 0; }
  .plots { grid-template-columns: 1fr 1fr; }
  h2 { break-after: avoid; } tr { break-inside: avoid; } }
"""


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
    draws : array (n, d)
        The draws that were checked.
    target : Target, optional
        Gives names to the coordinates and, in one dimension, a curve to the density.
    title : str, optional
        What was checked.
    command : sequence of str, optional
        The command that reproduces it; by default a call of `check` is shown.
    """
    x = as_draws(draws, verdict.dim, name="draws")
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
    kind = {True: "fits", False: "misfit", None: "unknown"}[verdict.fits]
    title = title or "Do the draws fit the density?"
    parts = [
        f'<p class="soft">steincheck report: {escape(title)}</p>',
        f'<h1 class="{kind}">{_unbroken(verdict.sentence)}</h1>',
        _list(verdict.findings),
        f'<p class="soft">{verdict.n} draws of dimension {verdict.dim}. '
        + (
            "Finding no misfit is no proof that there is none; what was not examined is listed below."
            if verdict.fits
            else "A small p-value is evidence against the fit."
        )
        + "</p>",
        _modes(verdict),
        '<h2>Pictures</h2><div class="plots">' + "".join(_figures(verdict, x, target)) + "</div>",
        "<h2>Numbers</h2>" + _tests(verdict),
        "<h2>Not examined</h2>" + _list(verdict.not_examined),
        "<h2>Warnings</h2>" + _list(verdict.warnings) if verdict.warnings else "",
        "<h2>How to reproduce</h2>" + _reproduce(verdict, x, command),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)} - steincheck</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


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


def _list(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>" if texts else ""


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
    table, names = verdict.modes, verdict.coordinates["names"]
    if table is None:
        return "<h2>Modes</h2><p>The modes are a lattice too large to be listed.</p>"
    rows = []
    for (number, *cells), place in zip(table.rows()[:MOST_MODES], table.locations, strict=False):
        rows.append((number, *cells, ", ".join(f"{value:.3g}" for value in place[:3])))
    wrong = [words.startswith(("missing", "too")) and bool(verdict.findings) for words in table.words]
    where = "where: " + ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    head = ("mode", "draws", "share of the draws", "share of the density", "says", where)
    kinds = ("", "number", "number", "number", "words", "")
    more = f"<p>The {MOST_MODES} highest of {len(table)} modes.</p>" if len(table) > MOST_MODES else ""
    note = '<p class="soft">In brackets: 95 % intervals, each for one mode alone.</p>'
    return "<h2>Modes</h2>" + _table(head, kinds, rows, wrong[:MOST_MODES]) + more + note


def _tests(verdict: Verdict) -> str:
    rows = verdict.rows()
    head = ("test", "p-value", "adjusted (Holm)", "says")
    table = _table(
        head, ("", "number", "number", "words"), rows, [said == "misfit found" for *_, said in rows]
    )
    return table + f"<p>Combined: p {escape(pvalue_text(verdict.pvalue))}, level {verdict.alpha:g}.</p>"


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
    for result in filter(None, (verdict.local, verdict.weights)):
        for key, value in as_plain(result.settings).items():
            text = str(value)
            if len(text) > LONGEST_SETTING:
                text = (
                    f"{text[:LONGEST_SETTING]}..." if isinstance(value, str) else f"array {np.shape(value)}"
                )
            if value is not None:
                rows.append((f"{result.test}: {key}", text))
    text = shlex.join(command) if command else call
    return f"<pre>{escape(text)}</pre>" + _table(
        ("setting", "value"), ("", "value"), rows, [False] * len(rows)
    )


def _figures(verdict: Verdict, x: np.ndarray, target: Target | None) -> list[str]:
    names = verdict.coordinates["names"]
    table = verdict.modes
    pictures: list[tuple[Callable[[Any], Any], str]] = []
    if table is not None and len(table) > 1:
        pictures.append(
            (
                lambda ax: plot.mode_shares(table, ax=ax),
                "Share of the draws in each mode, and the share the density gives it, with 95 % intervals.",
            )
        )
    pictures.append(
        (
            lambda ax: plot.draws(x, locations=table and table.locations, names=names, target=target, ax=ax),
            "The draws and the modes of the density."
            if verdict.dim < 3
            else "The draws in the two coordinates in which the modes are farthest apart.",
        )
    )
    if verdict.local.null_distribution is not None:
        pictures.append(
            (
                lambda ax: plot.null_distribution(verdict.local, ax=ax),
                "Fit inside the modes: the statistic, and where it would lie if the draws fitted. Farther to "
                "the right is worse.",
            )
        )
    if "thresholds" in verdict.local.details:
        pictures.append(
            (
                lambda ax: plot.bandwidth_profile(verdict.local, ax=ax),
                "Fit inside the modes by the width of the kernel: small widths see fine detail, large ones "
                "the whole.",
            )
        )
    if verdict.dim > 1:
        pictures.append(
            (
                lambda ax: plot.coordinate_misfit(verdict.coordinates, ax=ax),
                "Fit inside the modes by coordinate. The largest of many may exceed 1 by chance.",
            )
        )
    rows = max(len(table) if table is not None else 1, verdict.dim)
    height = 3.0 + 0.13 * max(0, min(rows, plot.MOST_BARS) - 8)  # room for the names of bars
    return [
        f"<figure>{_svg(draw, text, k, height)}<figcaption>{escape(text)}</figcaption></figure>"
        for k, (draw, text) in enumerate(pictures)
    ]


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
