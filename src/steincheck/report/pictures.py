"""The pictures of a report: SVG elements that take their colours from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any, NamedTuple

import numpy as np

from .. import plot
from .._palette import CONTRAST_COLOUR, MAIN_COLOUR, MAX_BARS, MUTED_COLOUR, PAPER_COLOUR
from .._validation import without_user_warnings
from ..plot.axes import pyplot
from ..plot.samples import coordinates_that_matter, scene_of
from ..result import Verdict
from ..target import Target
from ..wording import report as wording

COLOURS = {  # drawn in a colour of the palette, then replaced by a variable of the style sheet
    "#101113": "--ink",
    PAPER_COLOUR: "--panel",
    MAIN_COLOUR: "--first",
    CONTRAST_COLOUR: "--second",
    MUTED_COLOUR: "--quiet",
}


class _Picture(NamedTuple):
    draw: Callable[[np.ndarray], object]  # on axes (panels, panels)
    caption: str
    panels: int = 1
    rows: int = 0  # with names at the side


def figures(verdict: Verdict, x: np.ndarray, target: Target | None) -> list[str]:
    """The pictures with their captions: errors, shares, draws."""
    pictures = []
    errors = verdict.accuracy
    table = verdict.mode_table
    width = verdict.settings.get("tolerance")
    if errors:
        picture = _Picture(
            lambda axes: plot.effect_sizes(errors, tolerance=width, ax=axes[0, 0]),
            wording.Captions.errors,
            rows=len(errors),
        )
        pictures.append(picture)
    if table is not None:
        draw = partial(plot.mode_shares, table)
        pictures.append(_Picture(lambda axes: draw(ax=axes[0, 0]), wording.Captions.shares, rows=len(table)))
    pictures.append(_draws_picture(verdict, x, target))
    return [_figure(picture, number) for number, picture in enumerate(pictures)]


def _draws_picture(verdict: Verdict, x: np.ndarray, target: Target | None) -> _Picture:
    """The draws over the density: one picture, or all pairs of the three coordinates that matter most."""
    chosen = coordinates_that_matter(scene_of(x, target, verdict), verdict)
    n_modes = 0 if verdict.modes is None else len(verdict.modes)
    caption = wording.draws_caption(verdict.dim, len(chosen), n_modes)
    names = verdict.names if target is None else None  # a target knows the scales of its parameters
    given: dict[str, Any] = {"target": target, "verdict": verdict, "coordinates": chosen, "names": names}
    if len(chosen) < 3:
        return _Picture(lambda axes: plot.draws(x, ax=axes[0, 0], **given), caption)
    return _Picture(lambda axes: plot.pairs(x, axes=axes, **given), caption, panels=3)


def _figure(picture: _Picture, number: int) -> str:
    """The picture as an SVG element that takes its colours and its font from the page, with its caption."""
    plt = pyplot()
    ink = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), "#101113"
    )
    # the reader's own fonts show letters that Matplotlib's lack: text stays text
    fonts = {"svg.fonttype": "none", "font.size": 10.5, "axes.labelsize": 10.5, "legend.fontsize": 9.5}
    style: dict[Any, Any] = {**ink, **fonts, "svg.hashsalt": "steincheck"}
    buffer = io.StringIO()
    single = (4.3, 3.0 + 0.13 * max(0, min(picture.rows, MAX_BARS) - 8))  # room for the names of the rows
    size, kind = (single, "") if picture.panels == 1 else ((6.4, 6.0), "wide")
    with plt.rc_context(style), without_user_warnings():
        figure = plt.Figure(figsize=size, layout="constrained")
        picture.draw(figure.subplots(picture.panels, picture.panels, squeeze=False))
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>p{number}-", svg)
    caption = escape(picture.caption)
    opening = f'<svg viewBox="\\1" role="img" aria-label="{caption}">'
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, svg)
    svg = re.sub(r"font-family:[^;\"]*;?", "", svg)
    for colour, name in COLOURS.items():
        svg = svg.replace(colour, f"var({name})")
    return f'<figure class="{kind}">{svg}<figcaption>{caption}</figcaption></figure>'
