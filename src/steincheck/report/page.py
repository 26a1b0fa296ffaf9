"""The page of a verdict: the answer, errors, shares, pictures, tests, settings."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from string import Template

import numpy as np

from .._files import write_text
from .._validation import require_kind, shown
from ..draws import as_draws, to_unconstrained
from ..result import Verdict, as_plain
from ..target import Target, require_target
from ..typing import DrawsLike
from ..wording import report as wording
from ..wording.verdict import MODE_COLUMNS, mode_rows, test_rows
from .pictures import figures

MAX_ROWS = 40  # of a table: the page stays small enough to read, the JSON has all


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
    sample = as_draws(draws, verdict.dim) if target is None else to_unconstrained(draws, target)
    x = sample.values
    if len(x) != verdict.n:
        raise ValueError(f"`draws` must be the {verdict.n} draws of the verdict, got {len(x)}")
    write_text(path, page_html(verdict, x, target, title, command))


def page_html(
    verdict: Verdict, x: np.ndarray, target: Target | None, title: str | None, command: Sequence[str] | None
) -> str:
    """The page as text; arguments as in `write_html`."""
    title = title or "Do the draws fit the density?"
    sections = {
        "Errors": _errors(verdict),
        "Modes": _modes(verdict),
        "Pictures": f'<div class="plots">{"".join(figures(verdict, x, target))}</div>',
        "Parameters": _parameters(verdict),
        "Tests": _tests(verdict),
        "How it was examined": _list(verdict.context),
        "Not examined": _list(verdict.not_examined),
    }
    filled = {name: text for name, text in sections.items() if text}
    links = " · ".join(f'<a href="#{_anchor(name)}">{name}</a>' for name in [*filled, "How to reproduce"])
    parts = [_answer(verdict, title), f'<nav aria-label="Contents">{links}</nav>']
    parts += [f'<h2 id="{_anchor(name)}">{name}</h2>{text}' for name, text in filled.items()]
    parts.append(_reproduce(verdict, x, command))
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
    parts.append(_list([finding.text for finding in verdict.findings], "findings"))
    if verdict.advice:
        parts.append(f'<div class="advice"><strong>What to do</strong>{_list(verdict.advice)}</div>')
    parts.append(_note(wording.meaning(verdict.fits, verdict.n, verdict.dim)))
    return "\n".join(part for part in parts if part)


def _note(text: str) -> str:
    return f'<p class="soft">{escape(text)}</p>' if text else ""


def _list(texts: Sequence[str], kind: str = "") -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul class="{kind}">{items}</ul>' if texts else ""


def _table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], wrong: Sequence[bool] = ()
) -> str:
    """Rows of text; those that are `wrong` are marked. A column is its head and its class for the style."""

    def line(cells: Sequence[str], tag: str, mark: str = "") -> str:
        pairs = zip(cells, columns, strict=True)
        inner = (f'<{tag} class="{kind}">{escape(cell)}</{tag}>' for cell, (_, kind) in pairs)
        return f"<tr{mark}>{''.join(inner)}</tr>"

    marks = [' class="wrong"' if bad else "" for bad in wrong] or [""] * len(rows)
    body = "".join(line(row, "td", mark) for row, mark in zip(rows, marks, strict=True))
    head = line([head for head, _ in columns], "th")
    return f'<div class="scroll" tabindex="0"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _errors(verdict: Verdict) -> str:
    """Means and standard deviations of the draws beside those of the density; nothing if they are unknown."""
    records = verdict.accuracy
    if not records:
        return ""
    heads = ("mean of the draws", "of the density", "error", "sd of the draws", "of the density", "error")
    columns = [("parameter", ""), *((head, "number") for head in heads), ("", "words")]
    rows = []
    for item in records[:MAX_ROWS]:
        mean = _with_interval(item.mean, item.mean_interval)
        sd = _with_interval(item.sd, item.sd_interval)
        off = f"{item.mean_error:+.2f} sd" if np.isfinite(item.mean_error) else "-"
        ratio = f"{np.expm1(item.sd_error):+.0%}" if np.isfinite(item.sd_error) else "-"
        draws = f"{item.draws_mean:.4g}", f"{item.draws_sd:.4g}"
        rough = "rough" if item.rough else ""
        rows.append((item.parameter, draws[0], mean, off, draws[1], sd, ratio, rough))
    named = {name for finding in verdict.findings for name in finding.parameters}
    wrong = [item.parameter in named for item in records[:MAX_ROWS]]
    more = wording.first_of(MAX_ROWS, len(records), "parameters")
    return _table(columns, rows, wrong) + _note(more) + _note(wording.PageNotes.errors)


def _with_interval(value: float, interval: Sequence[float]) -> str:
    if not np.isfinite([value, *interval]).all():
        return "-"
    return f"{value:.4g} ({interval[0]:.4g} to {interval[1]:.4g})"


def _modes(verdict: Verdict) -> str:
    table = verdict.mode_table
    if table is None:
        return ""
    places = verdict.mode_descriptions or ("",) * len(table)
    rows = [(*cells, where) for cells, where in zip(mode_rows(table), places, strict=True)][:MAX_ROWS]
    found = {finding.mode for finding in verdict.findings}
    kinds = ("", "number", "number", "number", "where")
    columns = list(zip((*MODE_COLUMNS, "where"), kinds, strict=True))
    more = wording.first_of(MAX_ROWS, len(table), "modes")
    return (
        _table(columns, rows, [k in found for k in range(len(rows))])
        + _note(more)
        + _note(wording.PageNotes.shares)
    )


def _parameters(verdict: Verdict) -> str:
    """The summary, one row per parameter."""
    table = verdict.parameter_table
    if not len(table):
        return ""
    columns = [(name.replace("_", " "), "number" if k else "") for k, name in enumerate(table.columns)]
    more = wording.first_of(MAX_ROWS, len(table), "parameters")
    return _table(columns, table.cells()[:MAX_ROWS]) + _note(more)


def _tests(verdict: Verdict) -> str:
    if not verdict.tests:
        return _note(wording.PageNotes.no_test)
    columns = [("what was tested", ""), ("p-value", "number"), ("adjusted", "number"), ("result", "words")]
    wrong = [verdict.adjusted_pvalues[name] <= verdict.alpha for name in verdict.tests]
    note = _note(wording.tests_note(verdict.alpha))
    return _table(columns, test_rows(verdict), wrong) + note


def _reproduce(verdict: Verdict, x: np.ndarray, command: Sequence[str] | None) -> str:
    """The command or the call, versions, a checksum of the draws, and the settings."""
    packages = [f"{name} {version(name)}" for name in ("numpy", "scipy", "jax")]
    digest = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]
    given = {name: value for name, value in verdict.settings.items() if value is not None}
    rows = [
        (
            "versions",
            ", ".join([f"steincheck {verdict.version}", f"Python {platform.python_version()}", *packages]),
        ),
        ("draws", f"{verdict.n} x {verdict.dim}, SHA-256 of the float64 values {digest}..."),
        *((name, shown(as_plain(value))) for name, value in given.items()),
    ]
    words = [f"{name}={value if isinstance(value, (int, float)) else name}" for name, value in given.items()]
    call = f"verdict = steincheck.check(draws, target, {', '.join(words)})"
    text = escape(shlex.join(command) if command else call)
    table = _table([("setting", ""), ("value", "value")], rows)
    summary = "<summary>How to reproduce</summary>"
    return f'<details id="how-to-reproduce">{summary}<pre>{text}</pre>{table}</details>'
