"""The architecture: imports point one way, no cycles, modules stay small, no rag-bag names."""

import ast
import functools
import importlib
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

PACKAGE = "steincheck"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE
LAYERS = [
    {"_palette", "_validation", "_version", "_whitening", "_work"},
    {"wording"},
    {"_files", "result"},
    {"target"},
    {"typing"},
    {"draws"},
    {"chains"},
    {"stein", "samplers"},
    {"modes", "models", "adapters"},
    {"perturbation"},
    {"ksd", "aggregate", "fssd", "moments", "flux"},
    {"accuracy"},
    {"verdict"},
    {"calibration", "testing"},
    {"plot"},
    {"report"},
    {"model_files"},
    {"cli"},
    {"__main__"},
]
ROW = {room: row for row, rooms in enumerate(LAYERS) for room in rooms}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")
RULED_OUT = {"utils", "util", "helpers", "helper", "common", "misc", "base", "types", "config"}
MAX_LINES = 500
MAX_BODY_LINES = 40
REQUIRED = {"jax", "numpy", "scipy"}


def name_of(path):
    """Dotted name of the module below the package: "modes.search", "ksd"; a sub-package is "modes"."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def resolve(node, importer, is_package):
    """Dotted names below the package that an ``import`` or ``from ... import`` may refer to."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        home = f"{PACKAGE}.{importer}" if is_package else f"{PACKAGE}.{importer}".rpartition(".")[0]
        prefix = resolve_name("." * node.level + (node.module or ""), home)
        inner = [f"{prefix}.{alias.name}" for alias in node.names]
        names = [name if name.partition(".")[2] in MODULES else prefix for name in inner]
    return [name.partition(".")[2] for name in names if name.split(".")[0] == PACKAGE]


@functools.cache
def imported(path):
    """Modules of the package that `path` imports, anywhere in it; "" is the package root."""
    for_types = {
        id(inner)
        for outer in ast.walk(parsed(path))
        if isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING"
        for inner in ast.walk(outer)
    }
    nodes = [
        node
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in for_types
    ]
    return {name for node in nodes for name in resolve(node, name_of(path), path.stem == "__init__")}


def room(name):
    return name.partition(".")[0]


@pytest.mark.parametrize("name", MODULES)
def test_a_room_imports_only_rooms_above(name):
    assert room(name) in ROW, "a new room needs a row here and in the docs"
    others = {other for other in imported(MODULES[name]) if room(other) != room(name)}
    assert not {other for other in others if other and ROW[room(other)] >= ROW[room(name)]}


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) not in ("cli", "__main__")])
def test_nothing_inside_imports_the_package_root(name):
    assert "" not in imported(MODULES[name])


def test_there_is_no_cycle():
    graph = {name: {other for other in imported(path) if other != name} for name, path in MODULES.items()}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"imports go round in a circle: {error.args[1]}")


@pytest.mark.parametrize("path", [SOURCE / "__init__.py", *FILES], ids=name_of)
def test_modules_are_small_and_well_named(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES
    assert path.stem not in RULED_OUT


@pytest.mark.parametrize("name", [name for name in MODULES if name != "__main__"])
def test_no_function_hides_its_module(name):
    module = importlib.import_module(f"{PACKAGE}.{name}")
    parent, _, own = module.__name__.rpartition(".")
    assert getattr(importlib.import_module(parent), own) is module


def body_lines(function):
    """Lines of a function without its signature and its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", [SOURCE / "__init__.py", *FILES], ids=name_of)
def test_functions_are_short(path):
    functions = [n for n in ast.walk(parsed(path)) if isinstance(n, ast.FunctionDef)]
    assert not {n.name: body_lines(n) for n in functions if body_lines(n) > MAX_BODY_LINES}


def definitions(path):
    """Names of the constants and classes that a module defines."""
    for node in parsed(path).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id.isupper():
                yield target.id
        elif isinstance(node, ast.ClassDef):
            yield node.name


def test_the_name_of_a_constant_or_a_class_means_one_thing():
    found = Counter(name for path in FILES for name in definitions(path))
    assert "Budget" in found
    assert [name for name, count in found.items() if count > 1] == []


def test_the_layers_test_sees_imports_of_every_kind():
    assert {"stein.quadratic", "perturbation.move"} <= imported(SOURCE / "aggregate.py")
    assert "modes.rounds" in imported(SOURCE / "modes" / "search.py")
    assert "target" in imported(SOURCE / "modes" / "search.py")
    node = ast.parse("from ... import result").body[0]
    assert resolve(node, "a.b.c", is_package=False) == ["result"]
    assert resolve(ast.parse("from .. import __version__").body[0], "report", is_package=True) == [""]


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) != "cli"])
def test_packages_that_are_not_required_are_imported_inside_functions(name):
    body = parsed(MODULES[name]).body
    top = {node.names[0].name for node in body if isinstance(node, ast.Import)}
    top |= {node.module for node in body if isinstance(node, ast.ImportFrom) and not node.level}
    assert {module.split(".")[0] for module in top} <= REQUIRED | sys.stdlib_module_names


@pytest.mark.parametrize("name", ["", ".models", ".plot", ".report", ".samplers"])
def test_completion_offers_the_public_names_only(name):
    module = importlib.import_module(f"{PACKAGE}{name}")
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, public) for public in dir(module))
