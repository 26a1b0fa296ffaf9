"""The page of a verdict: the answer, pictures, tables, settings."""

from __future__ import annotations

import hashlib
import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from .._files import write_text
from .._validation import require_kind
from ..draws import as_draws, to_unconstrained
from ..result import FluxResult, KsdaggResult, Verdict, as_plain, pvalue_text
from ..result.mode_table import MODE_COLUMNS, mode_rows
from ..result.verdict import rows_of_tests, smallest_at_floor
from ..target import Target, require_target
from ..typing import DrawsLike
from .pictures import figures

MAX_SETTING_LENGTH = 120  # characters of a setting; the JSON has all
MAX_MODE_ROWS = 40  # rows of the table; the JSON has all
MAX_PARAMETER_ROWS = 40  # rows of the summary; the JSON has all
MAX_CHAIN_ROWS = 16  # rows of the shares per chain
MAX_CHAIN_COLUMNS = 8  # and its columns


def write_html(
    path: str | Path,
    verdict: Verdict,
    draws: DrawsLike,
    target: Target | None = None,
    *,
    title: str | None = None,
    command: Sequence[str] | None = None,
) -> None:
    """Write a verdict as one self-contained page: the answer, what to do, pictures, numbers, settings.

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
    sample = as_draws(draws, verdict.dim) if target is None else to_unconstrained(draws, target)
    x = sample.values
    if len(x) != verdict.n:
        raise ValueError(f"`draws` must be the {verdict.n} draws of the verdict, got {len(x)}")
    write_text(path, page_html(verdict, x, target, title=title, command=command))


def page_html(
    verdict: Verdict,
    x: np.ndarray,
    target: Target | None = None,
    *,
    title: str | None = None,
    command: Sequence[str] | None = None,
) -> str:
    """The page as text; arguments as in `write_html`."""
    title = title or "Do the draws fit the density?"
    sections = {
        "Pictures": '<div class="plots">' + "".join(figures(verdict, x, target)) + "</div>",
        "Modes": _modes(verdict),
        "Parameters": _parameters(verdict),
        "Tests": _tests(verdict),
        "How it was examined": _list(verdict.context),
        "Not examined": _list(verdict.not_examined),
    }
    shown = {name: text for name, text in sections.items() if text}
    links = " · ".join(f'<a href="#{_anchor(name)}">{name}</a>' for name in [*shown, "How to reproduce"])
    parts = [_answer(verdict, title), f'<nav aria-label="Contents">{links}</nav>']
    parts += [f'<h2 id="{_anchor(name)}">{name}</h2>{text}' for name, text in shown.items()]
    parts.append(
        '<details id="how-to-reproduce"><summary>How to reproduce</summary>'
        f"{_reproduce(verdict, x, command)}</details>"
    )
    here = Path(__file__).parent
    page = Template((here / "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(title),
        style=(here / "style.css").read_text(encoding="utf-8"),
        body="\n".join(parts),
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


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
    if verdict.advice:
        parts.append(f'<div class="advice"><strong>What to do</strong>{_list(verdict.advice)}</div>')
    meaning = "A small p-value is evidence against the fit."
    if verdict.fits:
        meaning = "No misfit found does not prove a fit; what was not examined is listed below."
    parts.append(f'<p class="soft">{verdict.n} draws of dimension {verdict.dim}. {meaning}</p>')
    return "\n".join(part for part in parts if part)


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
    descriptions = verdict.mode_descriptions or ("",) * len(table)
    rows = [(*cells, where) for cells, where in zip(mode_rows(table), descriptions, strict=True)]
    wrong = [words.startswith("too") and bool(verdict.findings) for words in table.words]
    kinds = ("", "number", "number", "number", "words", "where")
    more = f"<p>The {MAX_MODE_ROWS} highest of {len(table)} modes.</p>" if len(table) > MAX_MODE_ROWS else ""
    note = '<p class="soft">In brackets: 95 % intervals, each for one mode alone.</p>'
    body = _table(MODE_COLUMNS, kinds, rows[:MAX_MODE_ROWS], wrong[:MAX_MODE_ROWS])
    return body + more + note + _chains(verdict)


def _chains(verdict: Verdict) -> str:
    """Shares of the modes per chain."""
    weights = verdict.tests.get("weights")
    chains = weights.chains if isinstance(weights, FluxResult) else None
    if (
        chains is None
        or not 1 < len(chains.shares) <= MAX_CHAIN_ROWS
        or chains.shares.shape[1] > MAX_CHAIN_COLUMNS
    ):
        return ""
    head = ("chain", *(f"mode {k}" for k in range(chains.shares.shape[1])))
    rows = [(str(c), *(f"{share:.1%}" for share in row)) for c, row in enumerate(chains.shares)]
    kinds = ("", *("number" for _ in head[1:]))
    return "<p>Share of each mode in the draws of each chain:</p>" + _table(
        head, kinds, rows, [False] * len(rows)
    )


def _parameters(verdict: Verdict) -> str:
    """The summary, one row per parameter; those with a misfit are marked."""
    table = verdict.parameter_table
    if not len(table):
        return ""
    kinds = ["number" if column not in ("parameter", "scale") else "" for column in table.columns]
    wrong = [bool(verdict.findings) and p <= verdict.alpha for p in table["pvalue"]]
    rows = table.cells()
    more = f"<p>The first {MAX_PARAMETER_ROWS} of {len(rows)}.</p>" if len(rows) > MAX_PARAMETER_ROWS else ""
    note = (
        "Mean and sd of the draws on the parameter's own scale; shift: standard deviations by which the mean "
        "is too high; sd factor: how many times too wide, both on the scale that is named and, where there "
        "are several modes, within them."
    )
    head = [column.replace("_", " ") for column in table.columns]
    body = _table(head, kinds, rows[:MAX_PARAMETER_ROWS], wrong[:MAX_PARAMETER_ROWS])
    return f'{body}{more}<p class="soft">{escape(note)}</p>'


def _tests(verdict: Verdict) -> str:
    rows = rows_of_tests(verdict)
    if not rows:
        return '<p class="soft">No test was run.</p>'
    head = ("what was tested", "p-value", "adjusted", "result")
    kinds = ("", "number", "number", "words")
    table = _table(head, kinds, rows, [row[-1] == "misfit found" for row in rows])
    smallest = smallest_at_floor(verdict.tests, verdict.adjusted_pvalues)
    p = pvalue_text(verdict.pvalue, smallest=smallest)
    note = (
        f"Combined: p {p}, level {verdict.alpha:g}. Adjusted p-values account for the number of tests "
        "(Holm's method)."
    )
    return table + f'<p class="soft">{escape(note)}</p>'


def _reproduce(verdict: Verdict, x: np.ndarray, command: Sequence[str] | None) -> str:
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
    given = {name: value for name, value in verdict.settings.items() if value is not None and name != "rng"}
    for name, value in given.items():
        written = _written(value)
        end = "..." if len(written) > MAX_SETTING_LENGTH else ""
        rows.append((name, written[:MAX_SETTING_LENGTH] + end))
    for result in verdict.tests.values():
        if isinstance(result, KsdaggResult):
            rows.append((f"{result.test}: units", result.units))
    text = shlex.join(command) if command else _call(verdict.settings)
    return f"<pre>{escape(text)}</pre>" + _table(
        ("setting", "value"), ("", "value"), rows, [False] * len(rows)
    )


def _call(settings: Mapping[str, Any]) -> str:
    """The call of `check` that gives the verdict again; what is no short literal goes by its name."""
    given = {name: value for name, value in settings.items() if value is not None}
    named = [f"`{name}`" for name, value in given.items() if not _literal(value)]
    arguments = "".join(f", {name}={_literal(value) or name}" for name, value in given.items())
    remark = f"  # {' and '.join(named)} as you gave them" if named else ""
    return f"verdict = steincheck.check(draws, target{arguments}){remark}"


def _literal(value: Any) -> str:
    """Numbers and short arrays as one writes them in Python; empty for all else."""
    text = _written(value)
    is_number = isinstance(value, (bool, int, float, list, tuple, np.ndarray)) and "'" not in text
    return text if is_number and len(text) <= MAX_SETTING_LENGTH else ""


def _written(value: Any) -> str:
    """A setting in one line."""
    if isinstance(value, (list, np.ndarray)):
        value = as_plain(value)
    return repr(tuple(as_plain(value)) if isinstance(value, tuple) else value)
