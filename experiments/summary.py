"""The tables of README.md from the committed rows: `python -m experiments summary` writes them anew."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from .drawing import LEVEL, STYLE
from .rows import RESULTS, Row, read_rows
from .running import FIGURES

README = Path(__file__).parent / "README.md"


def rates(rows: Sequence[Row]) -> str:
    """Rejection rates by setting and method, and the repetitions they are of."""
    methods = [m for m in STYLE if any(row.method == m for row in rows)]
    lines = [["setting", *methods, "repetitions"]]
    for setting in dict.fromkeys(row.setting for row in rows):
        p = {m: [r.pvalue for r in rows if r.setting == setting and r.method == m] for m in methods}
        counts = sorted({len(v) for v in p.values() if v})
        lines.append([setting, *(_rate(p[m]) for m in methods), " to ".join(map(str, counts))])
    return markdown(lines)


def _rate(p: Sequence[float]) -> str:
    return f"{sum(v <= LEVEL for v in p) / len(p):.2f}" if p else ""


def discrepancies(rows: Sequence[Row]) -> str:
    """Fig. 2: mean U-statistics at some jump scales."""
    chosen = ("KSD", *(f"pKSD {theta:.2f}" for theta in (0.5, 0.78, 1, 1.28, 1.5)))
    values = [[r.statistic for r in rows if r.method == m] for m in chosen]
    return markdown([["", *chosen], ["mean", *(f"{sum(v) / len(v):.4f}" for v in values)]])


def rejections(rows: Sequence[Row]) -> str:
    """Table 1: rejections out of the repetitions, and what is known about the chains."""
    methods = [m for m in STYLE if any(row.method == m for row in rows)]
    facts = [m for m in dict.fromkeys(row.method for row in rows) if m not in STYLE]
    lines = [["setting", *methods, *facts]]
    for setting in dict.fromkeys(row.setting for row in rows):
        mine = [row for row in rows if row.setting == setting]
        line = [setting]
        for method in methods:
            p = [r.pvalue for r in mine if r.method == method]
            told = sum(v == v for v in p)
            line.append(f"{sum(v <= LEVEL for v in p)}/{told}" if told else "too short" if p else "")
        for fact in facts:
            v = [r.statistic for r in mine if r.method == fact]
            line.append(
                ("" if not v else f"{min(v):.3g}") + (f" to {max(v):.3g}" if v and min(v) < max(v) else "")
            )
        lines.append(line)
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table; the first line is its head."""
    head, *body = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(lines[0]), *body])


TABLES: dict[str, Callable[[Sequence[Row]], str]] = {"fig2": discrepancies, "table1": rejections}


def filled(text: str) -> str:
    """The text with every table between its markers made anew."""
    for figure in FIGURES:
        rows = read_rows(RESULTS / f"{figure}.csv")
        record = json.loads((RESULTS / f"{figure}.json").read_text())
        table = TABLES.get(figure, rates)(rows)
        minutes = f"{record['minutes_of_wall_time']:.0f} minutes with `--n-jobs 2`"
        text = re.sub(
            rf"(<!-- {figure} -->\n).*?(<!-- end -->)",
            lambda m, t=f"{table}\n\nMade in {minutes}, {record['cells']} cells.\n": m[1] + t + m[2],
            text,
            flags=re.DOTALL,
        )
    return text
