"""The page of a verdict: the answer, errors, shares, pictures, tests, settings.

Pictures are SVG elements that take their colours and their font from the page.
"""

from __future__ import annotations

import io
import platform
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from .. import plot
from .._files import write_text
from .._palette import CONTRAST_COLOUR, MAIN_COLOUR, MAX_BARS, MUTED_COLOUR, PAPER_COLOUR
from .._validation import require_kind, without_user_warnings
from ..draws import as_draws, to_unconstrained
from ..plot.axes import pyplot
from ..plot.samples import coordinates_that_matter, scene_of
from ..result import Verdict
from ..target import Target, require_target
from ..typing import DrawsLike
from ..wording import page as wording
from ..wording.page import TextTable, error_table, share_table, test_table

MAX_ROWS = 40  # of a table: the page stays small enough to read, the JSON has all
COLOURS = {  # drawn in a colour of the palette, then replaced by a variable of the style sheet
    "#101113": "--ink",
    PAPER_COLOUR: "--panel",
    MAIN_COLOUR: "--first",
    CONTRAST_COLOUR: "--second",
    MUTED_COLOUR: "--quiet",
}


def write_html(
    path: str | Path,
    verdict: Verdict,
    draws: DrawsLike,
    target: Target | None = None,
    *,
    title: str | None = None,
    command: Sequence[str] | None = None,
) -> None:
    """Write a verdict as one self-contained page: the answer, errors, shares, pictures, settings.

    Parameters
    ----------
    path : str or Path
        Where; written to a temporary file beside it and moved, so that nothing is left half-written.
    verdict : Verdict
    draws : array (n, d), or anything that `as_draws` takes
        The draws that were checked.
    target : Target, optional
        Gives the parameters' own names and scales and, in one or two dimensions, the density.
    title : str, optional
        What was checked.
    command : sequence of str, optional
        The command that reproduces it; by default a call of `check` is shown.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import steincheck as sc
    >>> target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=1)
    >>> draws = np.random.default_rng(0).normal(size=(200, 1))
    >>> verdict = sc.check(draws, target, modes=[[0.0]], rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sc.report.write_html(f"{folder}/report.html", verdict, draws, target)
    """
    require_kind(verdict, Verdict, "verdict")
    if target is not None:
        require_target(target)
    if title is not None:
        require_kind(title, str, "title")
    if command is not None and not isinstance(command, (list, tuple)):
        raise TypeError(f"`command` must be a list of words, got {type(command).__name__}")
    given: dict[str, Any] = {name: verdict.settings[name] for name in ("weights", "log_weights")}
    if target is None:
        sample = as_draws(draws, verdict.dim, **given)
    else:
        sample = to_unconstrained(draws, target, **given)
    x = sample.values
    if len(x) != verdict.n:
        raise ValueError(f"`draws` must be the {verdict.n} draws of the verdict, got {len(x)}")
    write_text(path, page_html(verdict, x, target, title, command))


def page_html(
    verdict: Verdict, x: np.ndarray, target: Target | None, title: str | None, command: Sequence[str] | None
) -> str:
    """The page as text; arguments as in `write_html`."""
    title = title or "Do the draws fit the density?"
    wrong = [verdict.adjusted_pvalues[name] <= verdict.alpha for name in verdict.tests]
    sections = {
        "Errors": _errors(verdict),
        "Modes": _modes(verdict),
        "Pictures": f'<div class="plots">{"".join(_pictures(verdict, x, target))}</div>',
        "Tests": _table(test_table(verdict), wrong, wording.tests_note(verdict.alpha)),
        "How it was examined": _list(verdict.context),
        "Not examined": _list(verdict.not_examined),
    }
    filled = {name: text for name, text in sections.items() if text}
    links = " · ".join(f'<a href="#{_anchor(name)}">{name}</a>' for name in [*filled, "How to reproduce"])
    parts = [_answer(verdict, title), f'<nav aria-label="Contents">{links}</nav>']
    parts += [f'<h2 id="{_anchor(name)}">{name}</h2>{text}' for name, text in filled.items()]
    parts.append(_reproduce(verdict, command))
    here = Path(__file__).parent
    page = Template((here / "page.html").read_text(encoding="utf-8"))
    style = (here / "style.css").read_text(encoding="utf-8")
    return page.substitute(title=escape(title), style=style, body="\n".join(parts))


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _answer(verdict: Verdict, title: str) -> str:
    """The sentence, what qualifies it, and what is wrong."""
    kind = {True: "fits", False: "misfit", None: "unknown"}[verdict.fits]
    parts = [
        f'<p class="soft">steincheck report: {escape(title)}</p>',
        f'<h1 class="{kind}">{escape(verdict.sentence)}</h1>',
    ]
    if verdict.warnings:
        parts.append(f'<div class="warnings"><strong>Warnings</strong>{_list(verdict.warnings)}</div>')
    parts.append(_list(wording.shown_findings(verdict.findings), "findings"))
    if verdict.advice:
        parts.append(f'<div class="advice"><strong>What to do</strong>{_list(verdict.advice)}</div>')
    parts.append(_note(wording.meaning(verdict)))
    return "\n".join(part for part in parts if part)


def _note(text: str) -> str:
    return f'<p class="soft">{escape(text)}</p>' if text else ""


def _list(texts: Sequence[str], kind: str = "") -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul class="{kind}">{items}</ul>' if texts else ""


def _table(table: TextTable, wrong: Sequence[bool], note: str = "") -> str:
    """Rows of text, of which those that are `wrong` are marked, and a note; nothing if there are no rows."""
    if not table.rows:
        return ""
    kinds = ["number" if side == ">" else "" for side in table.sides]

    def line(cells: Sequence[str], tag: str, mark: str = "") -> str:
        pairs = zip(cells, kinds, strict=True)
        inner = (f'<{tag} class="{kind}">{escape(cell)}</{tag}>' for cell, kind in pairs)
        return f"<tr{mark}>{''.join(inner)}</tr>"

    marks = [' class="wrong"' if bad else "" for bad in wrong]
    body = "".join(line(row, "td", mark) for row, mark in zip(table.rows, marks, strict=True))
    inner = f"<table><thead>{line(table.head, 'th')}</thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{inner}</div>' + _note(table.more) + _note(note)


def _errors(verdict: Verdict) -> str:
    """The errors of means and standard deviations, the largest first; nothing if they are unknown."""
    table = error_table(verdict.accuracy, MAX_ROWS)
    mixing = {item.parameter: (item.ess_bulk, item.ess_tail, item.r_hat) for item in verdict.accuracy}
    if np.isfinite(list(mixing.values())).any():  # of chains
        rows = [(*row, *map("{:.4g}".format, mixing[row[0]])) for row in table.rows]
        head = (*table.head, "bulk ESS", "tail ESS", "R-hat")
        table = table._replace(head=head, sides=f"{table.sides}>>>", rows=rows)
    named = {name for finding in verdict.findings for name in finding.parameters}
    return _table(table, [row[0] in named for row in table.rows], wording.Captions.error_table)


def _modes(verdict: Verdict) -> str:
    """The shares of the draws and of the density; nothing if there are not several modes."""
    if verdict.mode_table is None:
        return ""
    table = share_table(verdict.mode_table, verdict.mode_descriptions, MAX_ROWS)
    found = {finding.mode for finding in verdict.findings}
    return _table(table, [k in found for k in range(len(table.rows))])


def _reproduce(verdict: Verdict, command: Sequence[str] | None) -> str:
    """The command or the call, the seed and versions."""
    packages = [f"{name} {version(name)}" for name in ("numpy", "scipy", "jax")]
    given = {name: value for name, value in verdict.settings.items() if value is not None}
    versions = [f"steincheck {verdict.version}", f"Python {platform.python_version()}", *packages]
    origin = _note(", ".join([f"seed {verdict.seed}", *versions]))
    words = [f"{name}={value if isinstance(value, (int, float)) else name}" for name, value in given.items()]
    call = f"verdict = steincheck.check(draws, target, {', '.join(words)})"
    text = escape(shlex.join(command) if command else call)
    summary = "<summary>How to reproduce</summary>"
    return f'<details id="how-to-reproduce">{summary}<pre>{text}</pre>{origin}</details>'


def _pictures(verdict: Verdict, x: np.ndarray, target: Target | None) -> list[str]:
    """The pictures with their captions: errors, shares, draws."""
    figures = []
    draw: Callable[..., object]
    known = [item for item in verdict.accuracy if np.isfinite(item.largest_error)]
    if known:
        draw = partial(plot.effect_sizes, known, tolerance=verdict.tolerance)
        figures.append(_figure(draw, wording.Captions.errors, 0, rows=len(known)))
    if verdict.mode_table is not None:
        draw = partial(plot.mode_shares, verdict.mode_table)
        figures.append(_figure(draw, wording.Captions.shares, 1, rows=len(verdict.mode_table)))
    # the draws over the density: one picture, or all pairs of the three coordinates that matter most
    names = verdict.names if target is None else None  # a target knows the scales of its parameters
    chosen = coordinates_that_matter(scene_of(x, target, verdict, None, names), verdict)
    caption = wording.draws_caption(verdict.dim, len(chosen))
    given: dict[str, Any] = {"target": target, "verdict": verdict, "coordinates": chosen, "names": names}
    several = len(chosen) == 3
    draw = partial(plot.pairs if several else plot.draws, x, **given)
    return [*figures, _figure(draw, caption, 2, panels=3 if several else 1)]


def _figure(draw: Callable[..., object], caption: str, number: int, *, panels: int = 1, rows: int = 0) -> str:
    """The picture as an SVG element that takes its colours and its font from the page, with its caption.

    `draw` takes `ax`, or `axes` of several panels; `rows` have names at the side.
    """
    plt = pyplot()
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    ink = dict.fromkeys(inked, "#101113")
    # the reader's own fonts show letters that Matplotlib's lack: text stays text
    fonts = {"svg.fonttype": "none", "font.size": 10.5, "axes.labelsize": 10.5, "legend.fontsize": 9.5}
    style: dict[Any, Any] = {**ink, **fonts, "svg.hashsalt": "steincheck"}
    buffer = io.StringIO()
    single = (4.3, 3.0 + 0.13 * max(0, min(rows, MAX_BARS) - 8))  # room for the names of the rows
    size, kind = (single, "") if panels == 1 else ((6.4, 6.0), "wide")
    with plt.rc_context(style), without_user_warnings():
        figure = plt.Figure(figsize=size, layout="constrained")
        axes = figure.subplots(panels, panels)
        draw(**{"ax" if panels == 1 else "axes": axes})
        figure.savefig(buffer, format="svg", transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    own = r'<metadata>.*?</metadata>|<style.*?</style>|font-family:[^;"]*;?'
    svg = re.sub(own, "", svg, flags=re.DOTALL)
    svg = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>p{number}-", svg)
    caption = escape(caption)
    opening = f'<svg viewBox="\\1" role="img" aria-label="{caption}">'
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, svg)
    for colour, name in COLOURS.items():
        svg = svg.replace(colour, f"var({name})")
    return f'<figure class="{kind}">{svg}<figcaption>{caption}</figcaption></figure>'
