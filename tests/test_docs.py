"""The documentation says what the code does: examples run, pages run, every public name is described."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from conftest import assert_level

import steincheck as sc

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PATHS = sorted((SOURCE / "steincheck").rglob("*.py"))
NAMES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in PATHS
    if ">>>" in path.read_text()
]
DOCS = ROOT / "docs"
OTHER_PACKAGES = {"numpyro", "pymc", "stan", "torch", "arviz"}  # run by make test-adapters
CODE = re.compile(r"```(?:python|\{code-cell\})\n(?::\w+:[^\n]*\n+)*(.*?)```", re.DOTALL)
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if "_build" not in path.parts and path.stem not in OTHER_PACKAGES and CODE.search(path.read_text())
)


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_the_docstrings(name):
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted > 0 or "+SKIP" in Path(module.__file__).read_text()  # needs another package
    assert outcome.failed == 0


@pytest.mark.pages
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in CODE.findall((DOCS / page).read_text()):
        exec(compile(block, page, "exec"), scope)
    plt.close("all")
    for name, fits in EXPECTED.get(page, {}).items():
        assert scope[name].fits is fits, str(scope[name])


def skeletons():
    """The blocks of CONTRIBUTING.md that can run, after the headings under which they stand."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for heading in ("## Adding a test", "## Adding a kernel"):
        block = CODE.search(text, text.index(heading)).group(1)
        scope = {"__name__": "skeleton"}
        exec(compile(block, heading, "exec", dont_inherit=True), scope)
        yield scope


def test_the_skeletons_for_contributors_run():
    of_test, of_kernel = skeletons()
    of_kernel["test_derivatives_of_the_profile"]()
    test = of_test["score_test"]
    target = sc.models.gaussian_mixture([[0.0, 0.0]])
    draws = target.sample(300, 0)
    good = test(draws, target, rng=0)
    assert test(draws, target, rng=good.settings["rng"]).pvalue == good.pvalue
    assert test(draws + 0.5, target, rng=0).pvalue == 0.001
    correct = [target.sample(300, seed) for seed in range(40)]
    assert_level([test(x, target, rng=0).pvalue for x in correct], (0.05, 0.2), exact=True)
    assert_level([test(x.reshape(3, 100, 2), target, rng=0).pvalue for x in correct], (0.05, 0.2), exact=True)
    with pytest.warns(UserWarning, match="cannot tell"):
        assert test(draws[:20].reshape(2, 10, 2), target, rng=0).answer() == "cannot tell"
    with pytest.warns(UserWarning, match="only 20 draws: below 30"):
        test(draws[:20], target, rng=0)


EXPECTED = {  # the answers that the text of a page speaks of
    "start.md": {"verdict": False},
    "limits.md": {"fooled": True, "informed": False},
    "tutorials/numpy.md": {"good": True, "verdict": False},
    "tutorials/missing-mode.md": {"first": False, "verdict": False, "repaired": True},
    "tutorials/compare.md": {"verdict": False},
    "tutorials/variational.md": {"verdict": False},
}


def public():
    """Dotted name and object of all that users may call."""
    for name in sc.__all__:
        thing = getattr(sc, name)
        if inspect.ismodule(thing):
            yield from ((f"{name}.{inner}", getattr(thing, inner)) for inner in thing.__all__)
        elif name != "__version__":
            yield name, thing


def test_every_public_name_is_on_the_api_page():
    listed = re.findall(r"auto(?:function|class):: steincheck\.(\S+)", (DOCS / "api.md").read_text())
    assert sorted(listed) == sorted(name for name, _ in public())


def test_examples_import_public_names_only():
    modules = "|".join(name for name in sc.__all__ if inspect.ismodule(getattr(sc, name)))
    private = re.compile(rf">>> (from|import) steincheck\.(?!({modules})\b)")
    assert not [name for name, thing in public() if private.search(inspect.getdoc(thing))]


def test_public_names_are_in_the_order_of_the_pipeline():
    stages = ["as_draws", "find_modes", "perturb", "ksd_test", "GofResult", "check", "plot"]
    assert sorted(stages, key=sc.__all__.index) == stages


@pytest.mark.parametrize(
    ("name", "thing"), list(public()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_public_name_is_described(name, thing):
    doc = inspect.getdoc(thing)
    if inspect.isclass(thing):
        assert re.search(r"^(Attributes|Parameters)\n---", doc, re.MULTILINE)
        return
    for section in ("Parameters", "Examples") if inspect.signature(thing).parameters else ("Examples",):
        assert re.search(rf"^{section}\n---", doc, re.MULTILINE), section
    returns = inspect.signature(thing).return_annotation
    assert "Returns\n---" in doc or returns == "None"
    for parameter in inspect.signature(thing).parameters:
        assert re.search(rf"(^|, |\*){parameter}\b", doc, re.MULTILINE), parameter
    assert ">>>" in doc
    if name.endswith("_test"):
        assert "References\n---" in doc


def test_links_between_pages_lead_somewhere():
    broken = []
    for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
        for address in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in address and not (path.parent / address).exists():
                broken.append(f"{path.name}: {address}")
    assert broken == []


def test_every_page_is_in_the_table_of_contents():
    entries = re.findall(r"^([a-z][\w/-]*)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert {page for page in pages if not page.startswith("_build")} == {*entries, "index"}


def test_the_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [sc.__version__]


def test_random_sources_have_one_type():
    signatures = [inspect.signature(f) for f in vars(sc).values() if inspect.isfunction(f)]
    sources = [signature.parameters["rng"] for signature in signatures if "rng" in signature.parameters]
    optional = [source.annotation for source in sources if source.default is None]
    assert len(optional) > 10
    assert set(optional) == {"RandomSource"}
