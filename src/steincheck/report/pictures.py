"""The pictures of a report: SVG elements that take their colours from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from .. import plot
from .._palette import CONTRAST_COLOUR, MAIN_COLOUR, MAX_BARS
from .._validation import without_user_warnings
from ..plot.axes import MUTED_COLOUR, PAPER_COLOUR
from ..plot.samples import coordinates_that_matter
from ..result import MomentResult, Verdict
from ..target import Target

INK_COLOUR = "#101113"  # drawn in this colour, then replaced by the page's own
COLOURS = {
    INK_COLOUR: "--ink",
    PAPER_COLOUR: "--panel",
    MAIN_COLOUR: "--first",
    CONTRAST_COLOUR: "--second",
    MUTED_COLOUR: "--quiet",
}
FONT_SIZES = {"font.size": 10.5, "axes.labelsize": 10.5, "legend.fontsize": 9.5}


def figures(verdict: Verdict, x: np.ndarray, target: Target | None) -> list[str]:
    """The pictures with their captions."""
    table = verdict.mode_table
    pictures: list[tuple[Callable[[Any], Any], str]] = []
    if table is not None:
        pictures.append(
            (
                lambda ax: plot.mode_shares(table, ax=ax),
                "Share of the draws at each mode, and the share the density gives it, with 95 % intervals.",
            )
        )
    moments = verdict.tests.get("moments")
    if isinstance(moments, MomentResult) and verdict.adjusted_pvalues["moments"] <= verdict.alpha:
        pictures.append(
            (
                lambda ax: plot.effect_sizes(moments, alpha=verdict.alpha, ax=ax),
                "Size of the misfits, with 95 % intervals: means in standard deviations, spreads as log2 of "
                "the factor (1 is twice too wide), correlations as a difference; 0 means no misfit.",
            )
        )
    n_bars = max(len(table) if table is not None else 1, 5)
    height = 3.0 + 0.13 * max(0, min(n_bars, MAX_BARS) - 8)  # room for the names of bars
    drawn = [_figure(_on_one_axes(draw), text, k, (4.3, height)) for k, (draw, text) in enumerate(pictures)]
    drawn.append(_draws_figure(verdict, x, target, len(drawn)))
    return drawn


def _on_one_axes(draw: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Draw into a figure what `draw` draws on axes."""

    def drawn(figure: Any) -> None:
        draw(figure.add_subplot())

    return drawn


def _draws_figure(verdict: Verdict, x: np.ndarray, target: Target | None, number: int) -> str:
    """The draws over the density: one picture, or all pairs of the three coordinates that matter most."""
    chosen = coordinates_that_matter(x, verdict, target)
    text = _scatter_caption(verdict, len(chosen))
    if len(chosen) < 3:

        def one(figure: Any) -> None:
            plot.draws(
                x,
                modes=verdict.modes,
                coordinates=chosen,
                names=None if target else verdict.names,
                target=target,
                ax=figure.add_subplot(),
            )

        return _figure(one, text, number, (4.3, 3.0))

    def all_pairs(figure: Any) -> None:
        axes = figure.subplots(3, 3, squeeze=False)
        names = verdict.names if target is None else None  # a target knows the scales of its parameters
        plot.pairs(x, target, modes=verdict.modes, names=names, coordinates=chosen, axes=axes)

    return _figure(all_pairs, text, number, (6.4, 6.0), "wide")


def _figure(
    draw: Callable[[Any], None], text: str, number: int, size: tuple[float, float], kind: str = ""
) -> str:
    svg = _svg(draw, text, number, size)
    return f'<figure class="{kind}">{svg}<figcaption>{escape(text)}</figcaption></figure>'


def _scatter_caption(verdict: Verdict, count: int) -> str:
    several = verdict.modes is not None and len(verdict.modes) > 1
    what = "the modes" if several else "the mode"
    if verdict.dim == 1:
        return f"The draws, the density and {what}."
    if verdict.dim == 2:
        return f"The draws and the density; numbers mark {what}."
    widths = f"{what} of the density, with ellipses of 1 and 2 standard deviations"
    return f"The draws and {widths}, in the {('two', 'three')[count - 2]} coordinates that matter most."


def _svg(draw: Callable[[Any], None], text: str, number: int, size: tuple[float, float]) -> str:
    """What `draw` draws into a figure, as an SVG element that takes its colours from the page."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("the report needs matplotlib: pip install 'steincheck[plot]'") from None
    style: dict[Any, Any] = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK_COLOUR
    )
    buffer = io.StringIO()
    # the reader's own fonts show letters that Matplotlib's lack: text stays text
    style |= {"svg.fonttype": "none", "svg.hashsalt": "steincheck"}
    with mpl.rc_context(style | FONT_SIZES), without_user_warnings():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
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
