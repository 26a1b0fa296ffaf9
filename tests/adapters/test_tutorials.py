"""The tutorials do what they say: their code is run, block after block, and its findings are looked at."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.adapters
PAGES = Path(__file__).parents[2] / "docs" / "tutorials"


def run(name):
    """Names defined by the code of a page, after running it."""
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.DOTALL):
        exec(compile(block, f"{name}.md", "exec"), scope)
    return scope


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "fits", "kinds"),
    [
        ("numpyro", False, {"missing mode"}),
        ("pymc", False, {"sd"}),
        ("torch", False, {"mode share", "missing mode"}),
        ("stan", True, set()),
        ("arviz", False, {"mode share", "missing mode"}),
    ],
)
def test_tutorial(name, fits, kinds):
    scope = run(name)
    verdict = scope["verdict"]
    page = " ".join((PAGES / f"{name}.md").read_text().split())
    assert verdict.sentence.partition(" (p")[0].partition(":")[0] in page  # numbers depend on the platform
    assert verdict.fits in ({True, None} if fits else {False}), str(verdict)
    assert not kinds or kinds & {finding.kind for finding in verdict.findings}, str(verdict)
    assert Path(f"{name}.png").stat().st_size > 5000
