"""Verdicts and results as HTML for notebooks: no script, no style sheet, colours that suit light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .._palette import ANSWER_COLOUR
from ..wording.verdict import TextTable, foot, size_tables, test_table
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


def table_html(table: TextTable) -> str:
    """A table of words; nothing if it has no rows."""
    more = f"<p>{escape(table.more)}</p>" if table.more else ""
    return html_table(table.head, table.sides, table.rows) + more if table.rows else ""


def verdict_html(verdict: Verdict) -> str:
    """A verdict for a notebook: the answer, the errors, the shares, and the rest behind a fold."""
    parts = [
        answer_html(verdict.sentence, verdict.fits),
        list_html(verdict.warnings, "Warnings"),
        list_html([finding.text for finding in verdict.findings[1:]]),
        list_html(verdict.advice, "What to do"),
        *(table_html(table) for table in size_tables(verdict)),
        "<details><summary>Tests, how it was examined</summary>",
        table_html(test_table(verdict)),
        list_html(verdict.context, "How it was examined"),
        list_html(verdict.not_examined, "Not examined"),
        "</details>",
    ]
    return f"<div>{''.join(parts)}<p>{foot(verdict)}</p></div>"
