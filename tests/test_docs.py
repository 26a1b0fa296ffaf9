"""The documentation says what the code does: examples run, pages run, every public name is described."""

import dataclasses
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import steincheck as sc
from steincheck.cli.options import make_parser

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PATHS = sorted((SOURCE / "steincheck").rglob("*.py"))
NAMES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in PATHS
    if ">>> " in path.read_text()
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


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in CODE.findall((DOCS / page).read_text()):
        exec(compile(block, page, "exec"), scope)
    plt.close("all")
    for name in [name for name in scope if name.startswith("test_")]:
        scope[name]()  # a page may show how to write one
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


@pytest.mark.slow
def test_the_skeletons_for_contributors_run():
    of_test, of_kernel = skeletons()
    of_kernel["test_derivatives_of_the_profile"]()
    test = of_test["score_test"]
    target = sc.models.gaussian_mixture([[0.0, 0.0]])
    draws = target.sample(300, 0)
    good = test(draws, target, rng=0)
    assert test(draws, target, rng=good.settings["rng"]).pvalue == good.pvalue
    assert test(draws + 0.5, target, rng=0).pvalue == 0.001
    with pytest.warns(UserWarning, match="only 20 draws: below 30"):
        test(draws[:20], target, rng=0)


EXPECTED = {  # the answers that the text of a page speaks of
    "start.md": {"verdict": False, "good_enough": True},
    "limits.md": {"fooled": True, "informed": False, "tails": None, "neck": True, "parity": True},
    "tutorials/numpy.md": {"good": True, "verdict": False},
    "tutorials/missing-mode.md": {"first": False, "verdict": False, "repaired": True},
    "tutorials/compare.md": {"verdict": False},
    "tutorials/variational.md": {"verdict": False},
    "tutorials/weights.md": {"weighted": True, "forgotten": False, "stuck": False, "repaired": True},
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
    of_rooms = ("result.", "verdict.", "perturbation.", "flux.", "testing.")  # not at the root
    assert sorted(n for n in listed if not n.startswith(of_rooms)) == sorted(name for name, _ in public())


def test_examples_import_public_names_only():
    modules = "|".join(name for name in sc.__all__ if inspect.ismodule(getattr(sc, name)))
    private = re.compile(rf">>> (from|import) steincheck\.(?!({modules})\b)")
    assert not [name for name, thing in public() if private.search(inspect.getdoc(thing))]


def section(doc, title):
    """What stands under a heading of a docstring; empty if there is none."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^[^\n]+\n---|\Z)", doc, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def described(doc, title):
    """The names that have an entry under a heading: ``x, y : float`` describes both."""
    entries = re.findall(r"^(\S.*?)(?: : .*)?$", section(doc, title), re.MULTILINE)
    return [name.strip(" *") for entry in entries for name in entry.split(",")]


def undescribed(thing):
    """What the docstring of a public function or class leaves out, or describes though it is not there."""
    doc = inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        own = described(doc, "Attributes") + described(doc, "Parameters")
        inherited = {name for parent in thing.__mro__[1:] for name in members(parent)}
        missing = [name for name in members(thing) if name not in inherited and name not in own]
        faults = {f"no {name}" for name in missing if f"`{name}`" not in doc}
        return faults if own else {*faults, "no Attributes, no Parameters"}
    signature = inspect.signature(thing)
    faults = {f"parameter {name}" for name in {*signature.parameters} ^ {*described(doc, "Parameters")}}
    if not section(doc, "Returns") and signature.return_annotation not in ("None", None):
        faults.add("no Returns")
    if ">>> " not in section(doc, "Examples"):
        faults.add("no Examples")
    if thing.__name__.endswith("_test") and not section(doc, "References"):
        faults.add("no References")
    return faults


def members(cls):
    """Fields of a record."""
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.name[0] != "_"]
    return getattr(cls, "_fields", ())


@pytest.mark.parametrize(
    ("name", "thing"), list(public()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_public_name_is_described(name, thing):
    assert not undescribed(thing)


def test_every_option_of_every_command_is_on_the_page_of_the_command_line():
    """The usage that argparse prints and the synopsis of the page have the same options."""
    parser = make_parser(["ksd"])
    (commands,) = [action for action in parser._actions if hasattr(action, "choices") and action.choices]
    page = (DOCS / "cli.md").read_text()
    synopsis, density = re.search(r"```\n(steincheck .*?)\n\nDENSITY: (.*?)```", page, re.DOTALL).groups()
    table = re.findall(r"^\| (`--.*?) \|", page, re.MULTILINE)
    explained = {name for row in table for name in re.findall(r"--[\w-]+", row)}
    for name, command in commands.choices.items():
        usage = re.search(rf"^steincheck {name} .*?(?=^steincheck|\Z)", synopsis, re.MULTILINE | re.DOTALL)[0]
        written = set(re.findall(r"--[\w-]+", usage.replace("DENSITY", density)))
        options = {option for action in command._actions for option in action.option_strings}
        assert written == {option for option in options if option.startswith("--")} - {"--help"}, name
        assert written <= explained


def test_links_between_pages_lead_somewhere():
    broken = []
    for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
        for address in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in address and not (path.parent / address).exists():
                broken.append(f"{path.name}: {address}")
    assert broken == []


def test_lines_of_the_docs_are_short():
    """Tables and code of other packages included: an editor shows 120 characters."""
    pages = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    long = [
        f"{path.relative_to(DOCS).as_posix()}: {number}"
        for path in pages
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert long == []


def test_every_page_is_in_the_table_of_contents():
    entries = re.findall(r"^([a-z][\w/-]*)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert {page for page in pages if not page.startswith("_build")} == {*entries, "index"}


def test_the_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [sc.__version__]
