"""The demo's report in headless Chromium: make test-browser."""

import sys
from pathlib import Path

import pytest

from steincheck.cli import main

pytestmark = pytest.mark.browser
IMAGES = Path(__file__).parents[1] / "docs" / "images"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
OVERLAPS = """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const out = ([, b]) => b.left < frame.left - 1 || b.right > frame.right + 1 || b.bottom > frame.bottom + 1;
  const cut = boxes.filter(out).map(([t]) => 'cut off: ' + t);
  const met = ([t, a], k) => boxes.slice(k + 1).filter(([, b]) => meet(a, b)).map(([u]) => t + ' / ' + u);
  return cut.concat(boxes.flatMap(met));
})"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "demo-report.html"
    patch = pytest.MonkeyPatch()
    with patch.context() as m:
        m.chdir(path.parent)
        m.setattr(sys, "argv", ["steincheck", "demo", "--report", path.name])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code in (0, None)
    return path


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield chromium
        chromium.close()


@pytest.mark.parametrize(
    ("name", "scheme", "width"), [("light", "light", 1100), ("dark", "dark", 1100), ("phone", "light", 375)]
)
def test_the_report_opens_alone_and_shows_its_texts(report, browser, name, scheme, width):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    problems, requests = [], []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(report.as_uri())
    page.wait_for_load_state("networkidle")
    assert problems == []
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    for text in (
        "The draws do not fit the density",
        "all but missing",
        "Not examined",
        "How to reproduce",
    ):
        assert page.get_by_text(text).first.is_visible(), text
    assert not page.get_by_text("SHA-256").first.is_visible()  # settings are folded away
    page.get_by_text("How to reproduce").first.click()
    assert page.get_by_text("SHA-256").first.is_visible()
    page.get_by_text("How to reproduce").first.click()
    assert page.locator("figure svg").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(OVERLAPS) == []
    IMAGES.mkdir(exist_ok=True)
    page.screenshot(path=IMAGES / f"report-{name}.png", full_page=True)
    context.close()


def test_the_report_prints(report, browser, tmp_path):
    page = browser.new_page()
    page.goto(report.as_uri())
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
    page.close()
