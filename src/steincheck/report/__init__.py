"""A verdict as one self-contained HTML page: no script, no network request, light, dark and on paper."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from .. import plot
from .._validation import require_kind, shown, without_user_warnings
from ..draws import as_draws, to_unconstrained
from ..plot.axes import MUTED_COLOUR, PAPER_COLOUR
from ..plot.samples import coordinates_that_matter
from ..result import FluxResult, KsdaggResult, MomentResult, Verdict, as_plain, pvalue_text
from ..result.html import CONTRAST_COLOUR, MAIN_COLOUR, MAX_BARS
from ..result.rows import mode_rows
from ..result.verdict import test_rows
from ..target import Target, require_target
from ..typing import DrawsLike

__all__ = ["write_html"]

INK_COLOUR = "#101113"  # drawn in this colour, then replaced by the page's own
COLOURS = {
    INK_COLOUR: "--ink",
    PAPER_COLOUR: "--panel",
    MAIN_COLOUR: "--first",
    CONTRAST_COLOUR: "--second",
    MUTED_COLOUR: "--quiet",
}
FONT_SIZES = {"font.size": 10.5, "axes.labelsize": 10.5, "legend.fontsize": 9.5}
MAX_SETTING_LENGTH = 120  # characters of a setting; the JSON has all
MAX_MODE_ROWS = 40  # rows of the table; the JSON has all
MAX_PARAMETER_ROWS = 40  # rows of the summary; the JSON has all
MAX_CHAIN_ROWS = 16  # rows of the shares per chain
MAX_CHAIN_COLUMNS = 8  # and its columns


def __dir__() -> list[str]:
    return __all__


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
        "Pictures": '<div class="plots">' + "".join(_figures(verdict, x, target)) + "</div>",
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


def write_text(path: str | Path, text: str) -> None:
    """Write to a temporary file beside `path` and move it there: all or nothing.

    Characters of file names that are no UTF-8 are escaped.
    """
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write to a temporary file beside `path` and move it there: all or nothing."""
    place = Path(os.path.realpath(check_output(path)))
    part = place.with_name(f".steincheck-{os.getpid()}-{threading.get_ident()}.part")
    try:
        if place.exists() and not place.is_file():  # a pipe or a terminal: there is nothing to move
            place.write_bytes(content)
            return
        part.write_bytes(content)
        os.replace(part, place)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def check_output(path: str | Path) -> Path:
    """The path, if a file can be written there; otherwise an error that says why not."""
    if not isinstance(path, (str, os.PathLike)) or "\x00" in os.fspath(path):
        raise TypeError(f"`path` must be the path of a file, got {shown(path)}")
    path = Path(path)
    try:
        path.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:  # the name is too long, a directory on the way is a file
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a directory")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no directory {path.parent}")
    exists = path.exists()
    in_place = exists and not path.is_file()  # a pipe or a terminal
    needed = [path] * exists + [path.parent] * (not in_place)
    if not all(os.access(place, os.W_OK) for place in needed):
        raise PermissionError(f"cannot write {path}: permission denied, for the file or its directory")
    return path


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
    places = verdict.mode_places or ("",) * len(table)
    rows = [(*cells, where) for cells, where in zip(mode_rows(table), places, strict=True)]
    wrong = [words.startswith("too") and bool(verdict.findings) for words in table.words]
    head = ("mode", "draws", "share of the draws", "share of the density", "result", "where")
    kinds = ("", "number", "number", "number", "words", "where")
    more = f"<p>The {MAX_MODE_ROWS} highest of {len(table)} modes.</p>" if len(table) > MAX_MODE_ROWS else ""
    note = '<p class="soft">In brackets: 95 % intervals, each for one mode alone.</p>'
    return _table(head, kinds, rows[:MAX_MODE_ROWS], wrong[:MAX_MODE_ROWS]) + more + note + _chains(verdict)


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
    table = verdict.parameters
    if not len(table):
        return ""
    kinds = ["number" if column not in ("parameter", "scale") else "" for column in table.columns]
    wrong = [bool(verdict.findings) and p <= verdict.alpha for p in table["pvalue"]]
    rows = table.cells()
    more = f"<p>The first {MAX_PARAMETER_ROWS} of {len(rows)}.</p>" if len(rows) > MAX_PARAMETER_ROWS else ""
    note = (
        "Mean and sd of the draws on the parameter's own scale; shift: standard deviations by which the mean "
        "is too high; sd_factor: how many times too wide, both on the scale that is named."
    )
    head = [column.replace("_", " ") for column in table.columns]
    body = _table(head, kinds, rows[:MAX_PARAMETER_ROWS], wrong[:MAX_PARAMETER_ROWS])
    return f'{body}{more}<p class="soft">{escape(note)}</p>'


def _tests(verdict: Verdict) -> str:
    rows = test_rows(verdict)
    if not rows:
        return '<p class="soft">No test was made.</p>'
    head = ("what was tested", "p-value", "adjusted", "result")
    kinds = ("", "number", "number", "words")
    table = _table(head, kinds, rows, [row[-1] == "misfit found" for row in rows])
    note = (
        f"Combined: p {pvalue_text(verdict.pvalue)}, level {verdict.alpha:g}. Adjusted p-values account for "
        f"the number of tests (Holm's method)."
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


def _figures(verdict: Verdict, x: np.ndarray, target: Target | None) -> list[str]:
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
    if isinstance(moments, MomentResult) and verdict.adjusted["moments"] <= verdict.alpha:
        pictures.append(
            (
                lambda ax: plot.effect_sizes(moments, alpha=verdict.alpha, ax=ax),
                "Size of the misfits, with 95 % intervals: means in standard deviations, spreads as log2 of "
                "the factor (1 is twice too wide), correlations as a difference; 0 means no misfit.",
            )
        )
    n_bars = max(len(table) if table is not None else 1, 5)
    height = 3.0 + 0.13 * max(0, min(n_bars, MAX_BARS) - 8)  # room for the names of bars
    figures = [_figure(_on_one_axes(draw), text, k, (4.3, height)) for k, (draw, text) in enumerate(pictures)]
    figures.append(_draws_figure(verdict, x, target, len(figures)))
    return figures


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
