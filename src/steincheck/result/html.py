"""Verdicts and results as HTML for notebooks: no script, no style sheet, colours that suit light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from .._palette import ANSWER_COLOUR, CONTRAST_COLOUR, MAIN_COLOUR, MAX_BARS
from ..wording.verdict import ACCURACY_COLUMNS, MODE_COLUMNS, accuracy_row, foot, mode_rows, test_rows
from .mode_table import ModeTable
from .table import html_table

if TYPE_CHECKING:
    from .verdict import Verdict


def answer_html(text: str, fits: bool | None) -> str:
    """The answer behind a bar of its colour."""
    style = f"border-left:.4em solid {ANSWER_COLOUR[fits]};padding-left:.6em;font-size:1.1em"
    return f'<p style="{style}">{escape(text)}</p>'


def list_html(texts: Sequence[str], title: str = "") -> str:
    """A list under a title; nothing if there is nothing to list."""
    if not texts:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return (f"<strong>{escape(title)}</strong>" if title else "") + f"<ul>{items}</ul>"


def modes_html(table: ModeTable, descriptions: Sequence[str]) -> str:
    """The shares as bars and as a table."""
    rows = []
    for k, row in enumerate(mode_rows(table)[:MAX_BARS]):
        rows.append((*row, descriptions[k] if k < len(descriptions) else ""))
    more = f"<p>... and {len(table) - MAX_BARS} more modes</p>" if len(table) > MAX_BARS else ""
    return share_bars(table) + html_table((*MODE_COLUMNS, "where"), "rrrrl", rows) + more


def share_bars(table: ModeTable) -> str:
    """Observed and implied share of each mode as an SVG picture."""
    count = min(len(table), MAX_BARS)
    lines = []
    for k in range(count):
        top = 26 * k
        lines.append(f'<text x="52" y="{top + 17}" text-anchor="end" fill="currentColor">mode {k}</text>')
        for share, shift, colour in (
            (table.observed[k], 4, MAIN_COLOUR),
            (table.implied[k], 13, CONTRAST_COLOUR),
        ):
            if np.isfinite(share):
                width = max(300 * float(share), 1.0)
                bar = f'x="60" y="{top + shift}" width="{width:.1f}" height="8" fill="{colour}"'
                lines.append(f"<rect {bar}/>")
    foot = 26 * count + 16
    lines.append(f'<text x="60" y="{foot}" fill="{MAIN_COLOUR}">share of the draws</text>')
    lines.append(f'<text x="190" y="{foot}" fill="{CONTRAST_COLOUR}">share of the density</text>')
    words = "; ".join(
        f"mode {k}: {table.observed[k]:.1%} of the draws, {table.implied[k]:.1%} of the density"
        for k in range(count)
    )
    return (
        f'<svg role="img" aria-label="{escape(words)}" viewBox="0 0 370 {foot + 6}" '
        f'style="max-width:30em;display:block;font:11px sans-serif">{"".join(lines)}</svg>'
    )


def verdict_html(verdict: Verdict) -> str:
    """A verdict for a notebook: the answer, the errors, the shares, and the rest behind a fold."""
    parts = [
        answer_html(verdict.sentence, verdict.fits),
        list_html(verdict.warnings, "Warnings"),
        list_html([finding.text for finding in verdict.findings]),
        list_html(verdict.advice, "What to do"),
    ]
    if verdict.accuracy:
        parts.append(html_table(ACCURACY_COLUMNS, "lrrrrl", list(map(accuracy_row, verdict.accuracy))))
    if verdict.mode_table is not None:
        parts.append(modes_html(verdict.mode_table, verdict.mode_descriptions))
    tests = test_rows(verdict)
    folded = html_table(("what was tested", "p-value", "adjusted", "result"), "lrrl", tests) if tests else ""
    folded += list_html(verdict.context, "How it was examined")
    folded += list_html(verdict.not_examined, "Not examined")
    parts.append(f"<details><summary>Tests, how it was examined</summary>{folded}</details>")
    return f"<div>{''.join(parts)}<p>{foot(verdict)}</p></div>"
