"""The pictures of a report: SVG elements that take their colours from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
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
    draw: Callable[[Any], object]  # into a figure
    caption: str
    size: tuple[float, float] = (4.3, 3.0)
    kind: str = ""  # its class in the style sheet


def figures(verdict: Verdict, x: np.ndarray, target: Target | None) -> list[str]:
    """The pictures with their captions: errors, shares, draws."""
    pictures = []
    table = verdict.mode_table
    if verdict.accuracy:
        size = (4.3, _height(len(verdict.accuracy)))
        pictures.append(_Picture(lambda figure: _draw_errors(verdict, figure), wording.Captions.errors, size))
    if table is not None:
        size = (4.3, _height(len(table)))
        draw = lambda figure: plot.mode_shares(table, ax=figure.add_subplot())  # noqa: E731
        pictures.append(_Picture(draw, wording.Captions.shares, size))
    pictures.append(_draws_picture(verdict, x, target))
    return [_figure(picture, number) for number, picture in enumerate(pictures)]


def _height(rows: int) -> float:
    """Inches, with room for the names of the rows."""
    return 3.0 + 0.13 * max(0, min(rows, MAX_BARS) - 8)


def _draw_errors(verdict: Verdict, figure: Any) -> None:
    tolerance = verdict.settings.get("tolerance")
    plot.effect_sizes(verdict.accuracy, tolerance=tolerance, ax=figure.add_subplot())


def _draws_picture(verdict: Verdict, x: np.ndarray, target: Target | None) -> _Picture:
    """The draws over the density: one picture, or all pairs of the three coordinates that matter most."""
    chosen = coordinates_that_matter(scene_of(x, target, verdict), verdict)
    n_modes = 0 if verdict.modes is None else len(verdict.modes)
    caption = wording.draws_caption(verdict.dim, len(chosen), n_modes)
    names = verdict.names if target is None else None  # a target knows the scales of its parameters
    given: dict[str, Any] = {"verdict": verdict, "coordinates": chosen, "names": names}
    if len(chosen) < 3:
        return _Picture(
            lambda figure: plot.draws(x, target=target, ax=figure.add_subplot(), **given), caption
        )

    def draw_pairs(figure: Any) -> None:
        plot.pairs(x, target, axes=figure.subplots(3, 3, squeeze=False), **given)

    return _Picture(draw_pairs, caption, (6.4, 6.0), "wide")


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
    with plt.rc_context(style), without_user_warnings():
        figure = plt.Figure(figsize=picture.size, layout="constrained")
        picture.draw(figure)
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
    return f'<figure class="{picture.kind}">{svg}<figcaption>{caption}</figcaption></figure>'
