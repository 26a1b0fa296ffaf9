import functools
import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import steincheck as sc
from steincheck import report
from steincheck._files import write_text
from steincheck.report import page
from steincheck.result import Finding, Modes, ParameterAccuracy

EVIL = '<script>alert("1")</script>'
VOID = {"meta", "link", "br"}


@functools.cache
def checked(dim):
    """The verdict about draws at one of two modes."""
    modes = np.outer([0.0, 5.0], np.ones(dim))
    x = np.random.default_rng(0).normal(size=(300, dim))
    return sc.check(x, sc.models.gaussian_mixture(modes), modes=modes, tolerance=0.1, rng=12)


def a_verdict(n, dim, **changes):
    """The same with texts that a page must escape, said of n draws."""
    verdict = checked(dim)
    texts = {name: (EVIL,) for name in ("advice", "not_examined", "warnings")}
    findings = (Finding("missing mode", 1, (), 0.5, (0.4, 0.6), 0.002, f"Mode 1 is missing {EVIL}"),)
    texts["findings"] = findings
    names = (EVIL, "a$\\frac{", *(f"x[{k}]" for k in range(2, dim)))[:dim]
    accuracy = (replace(verdict.accuracy[0], parameter=EVIL), *verdict.accuracy[1:])
    return replace(verdict, **({"n": n, "names": names, "accuracy": accuracy} | texts | changes))


def page_html(verdict, x, target=None, title=None, command=None):
    return page.page_html(verdict, x, target, title, command)


class Reader(HTMLParser):
    """Tags that open and close, and addresses the page would fetch."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.addresses, self.ids = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "action", "data"):
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def large():
    """A page of 10,000 draws in ten dimensions."""
    x = np.random.default_rng(0).normal(size=(10_000, 10))
    return page_html(a_verdict(10_000, 10), x, title=EVIL, command=["steincheck", "check", EVIL])


def test_the_page_is_small_and_stands_alone(large):
    assert len(large.encode()) < 1_000_000
    read = Reader(large)
    assert read.open == []
    assert "script" not in read.tags
    assert read.tags.count("svg") == 3
    assert read.addresses.count("#modes") == 1
    assert {address for address in read.addresses if not address.startswith("#")} == {"data:,"}
    assert {address[1:] for address in read.addresses if address.startswith("#")} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    assert not re.search(r"@import|https?://|url\((?!#)", large)


def test_user_strings_are_escaped(large):
    assert "<script" not in large
    assert large.count("&lt;script&gt;") >= 7  # in texts, tables and pictures


def test_the_sentence_comes_first_and_everything_follows(large):
    sections = ("Errors", "Modes", "Pictures", "Tests", "How it was examined", "Not examined")
    parts = ['<h1 class="misfit">The draws are off by more', "<strong>Warnings", '<ul class="findings">']
    parts += [*(f">{name}</h2>" for name in sections), "<summary>How to"]
    places = [large.index(part) for part in parts]
    assert places == sorted(places)
    table, error = checked(10).mode_table, checked(10).accuracy[1].mean_error
    share = f"{table.implied[1]:.1%} ({table.implied_interval[1, 0]:.1%} to "
    for text in (f">{error:+.2g}", share, "seed 12, steincheck", f"numpy {np.__version__}"):
        assert text in large


def test_colours_come_from_the_page(large):
    pictures = "".join(re.findall(r"<svg.*?</svg>", large, flags=re.DOTALL))
    assert not re.search("#[0-9a-f]{6}", pictures)
    assert "var(--ink)" in pictures
    assert "prefers-color-scheme: dark" in large
    assert "@media print" in large


@pytest.mark.parametrize(("fits", "kind"), [(True, "fits"), (None, "unknown")])
def test_other_verdicts(fits, kind):
    x = np.random.default_rng(0).normal(size=(60, 2))
    text = page_html(a_verdict(60, 2, fits=fits, findings=(), warnings=()), x)
    assert f'<h1 class="{kind}">' in text
    assert ("does not prove a fit" in text) == (fits is True)
    assert "Warnings" not in text


def test_the_call_that_is_shown_gives_the_verdict_again():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    x = target.sample(200, 0)
    pair = ([[-3.0], [3.0]], np.ones((2, 1, 1)))
    for given in ({"modes": np.array([[-3.0], [3.0]])}, {"modes": pair, "alpha": 0.1}):
        verdict = sc.check(x, target, rng=0, **given)
        text = html.unescape(page_html(verdict, x))
        names = {"steincheck": sc, "draws": x, "target": target, "modes": given["modes"]}
        exec(re.search("<pre>(.*)</pre>", text).group(1), names)
        assert names["verdict"].to_json() == verdict.to_json()


def test_one_mode_and_one_dimension():
    verdict = a_verdict(60, 1)
    one = Modes(np.zeros((1, 1)), np.ones((1, 1, 1)), np.zeros(1))
    target = sc.models.gaussian_mixture([[0.0]])
    without_shares = {"modes": one, "mode_table": None, "tests": {}, "adjusted_pvalues": {}}
    text = page_html(replace(verdict, **without_shares), target.sample(60, 0), target)
    assert text.count("<svg") == 2  # errors and draws
    assert ">Modes</h2>" not in text
    assert "The draws and the density; " in text


def test_links_are_followed_and_modes_kept(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_without_accuracy_modes_or_tests_these_sections_are_missing():
    x = np.random.default_rng(0).normal(size=(60, 2))
    unknown = tuple(ParameterAccuracy(name) for name in "ab")
    bare = a_verdict(60, 2, accuracy=unknown, mode_table=None, tests={}, adjusted_pvalues={})
    text = page_html(bare, x)
    assert ">Tests</h2>" not in text
    assert ">Errors</h2>" not in text


def test_writing(tmp_path):
    verdict, x = a_verdict(60, 2), np.random.default_rng(0).normal(size=(60, 2))
    report.write_html(tmp_path / "v.html", verdict, x)
    assert (tmp_path / "v.html").read_text() == page_html(verdict, x)
    with pytest.raises(ValueError, match="`draws` must be the 60 draws of the verdict, got 59"):
        report.write_html(tmp_path / "w.html", verdict, x[1:])
    with pytest.raises(TypeError, match="`command` must be a list of words, got str"):
        report.write_html(tmp_path / "a.html", verdict, x, command="steincheck check")
    for path, error, message in (
        (tmp_path, IsADirectoryError, "it is a directory"),
        (tmp_path / "no" / "v.html", FileNotFoundError, "there is no directory"),
        (tmp_path / "v.html" / "a.html", OSError, "cannot write"),
        (3, TypeError, "`path` must be the path of a file"),
        ("a\x00.html", TypeError, "`path` must be the path of a file"),
    ):
        with pytest.raises(error, match=message):
            report.write_html(path, verdict, x)
    assert [path.name for path in tmp_path.iterdir()] == ["v.html"]
