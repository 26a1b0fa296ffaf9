"""The demo's report and the built site in headless Chromium: make test-browser."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import matplotlib.pyplot as plt
import pytest

import steincheck as sc
from steincheck import cli

pytestmark = pytest.mark.browser
DOCS = Path(__file__).parents[2] / "docs"
IMAGES = DOCS / "images"
SITE = DOCS / "_build" / "html"  # make docs
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
    with pytest.MonkeyPatch.context() as m:
        m.chdir(path.parent)
        m.setattr(sys, "argv", ["steincheck", "demo", "--report", path.name])
        m.setattr(cli, "_keep_compiled_programs", lambda: None)
        with pytest.raises(SystemExit) as stop:
            cli.main()
    assert stop.value.code in (0, None)
    return path


def test_the_picture_of_the_readme_is_made_of_its_lines():
    lines = {}
    exec((IMAGES.parents[1] / "README.md").read_text().split("```python\n")[1].split("```")[0], lines)
    verdict = sc.check(lines["draws"], lines["target"], rng=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
    sc.plot.draws(lines["draws"], verdict=verdict, target=lines["target"], ax=left)
    sc.plot.mode_shares(verdict.mode_table, ax=right)
    figure.savefig(IMAGES / "example.png")
    assert [text.get_text() for text in right.get_yticklabels()] == ["mode 0", "mode 1"]


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
    for text in ("share of the density", "Not examined", "How to reproduce"):
        assert page.get_by_text(text).first.is_visible(), text
    assert not page.get_by_text("seed 0, steincheck").first.is_visible()  # settings are folded away
    page.locator("summary").click()
    assert page.get_by_text("seed 0, steincheck").first.is_visible()
    page.locator("summary").click()
    assert page.locator("figure svg").count() >= 2  # shares, draws, and errors where they are known
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(OVERLAPS) == []
    IMAGES.mkdir(exist_ok=True)
    page.screenshot(path=IMAGES / f"report-{name}.png", full_page=True)
    if name == "light":
        top = {"x": 0, "y": 0, "width": width, "height": 860}
        page.screenshot(path=IMAGES / "report-top.png", clip=top, full_page=True)
    context.close()


def violations(page):
    """What axe-core finds at the levels of WCAG 2 A and AA: rule and first element."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]}).response["violations"]
    return [(rule["id"], rule["nodes"][0]["html"][:120]) for rule in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_is_accessible(report, browser, scheme):
    context = browser.new_context(viewport={"width": 1100, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(report.as_uri())
    assert violations(page) == []
    context.close()


@pytest.fixture(scope="module")
def site():
    """The address of the built site on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def offline(browser, site):
    """A page of phone width that reaches nothing but the site."""
    context = browser.new_context(viewport={"width": 360, "height": 740})
    context.route(
        "**/*", lambda route: route.continue_() if route.request.url.startswith(site) else route.abort()
    )
    yield context.new_page()
    context.close()


@pytest.mark.parametrize(
    "name",
    ["index", "start", "choose", "limits", "gallery", "tutorials/missing-mode", "theory/symbols", "api"],
)
def test_pages_of_the_site_on_a_phone_and_their_accessibility(offline, site, name):
    offline.goto(f"{site}{name}.html")
    assert offline.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert violations(offline) == []


def test_the_search_of_the_site_finds_a_test(offline, site):
    offline.goto(f"{site}search.html?q=flux_test")
    offline.wait_for_selector("ul.search li a", timeout=15_000)
    assert "flux_test" in offline.inner_text("#search-results")


def test_the_report_prints(report, browser, tmp_path):
    page = browser.new_page()
    page.goto(report.as_uri())
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
    page.close()
