"""The architecture: imports point one way, modules stay small, no rag-bag names."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "steincheck"
LAYERS = [
    {"result", "target", "kernels", "bootstrap", "draws"},
    {"ascent"},
    {"neighbours"},
    {"stein", "modes", "adapters", "samplers"},
    {"jumps", "models", "anchors", "lattice", "counts"},
    {"ksd", "aggregate", "fssd", "flux"},
    {"verdict"},
    {"plot"},
    {"report"},
    {"__main__"},
]
ROW = {name: row for row, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in SOURCE.glob("*.py") if path.stem != "__init__")
RULED_OUT = {"utils", "util", "helpers", "helper", "common", "misc", "base", "types", "config"}


def imported(path):
    """Modules of the package that `path` imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names |= {node.module} if node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steincheck"):
            names |= {node.module.partition(".")[2] or "__init__"}
        elif isinstance(node, ast.Import):
            names |= {a.name.partition(".")[2] for a in node.names if a.name.startswith("steincheck")}
    return {name for name in names if name in ROW}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_imports_only_rows_above(path):
    assert path.stem in ROW, "a new module needs a row here and in the docs"
    same_or_below = {name for name in imported(path) if ROW[name] >= ROW[path.stem]}
    assert not same_or_below


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*.py")), ids=lambda path: path.stem)
def test_modules_are_small_and_well_named(path):
    assert len(path.read_text().splitlines()) <= 400
    assert path.stem not in RULED_OUT


def test_the_layers_test_sees_imports():
    assert "stein" in imported(SOURCE / "ksd.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_optional_packages_are_imported_inside_functions(path):
    if path.stem == "__main__":
        return
    optional = {
        "matplotlib",
        "typer",
        "rich",
        "joblib",
        "dask",
        "distributed",
        "arviz",
        "torch",
        "pymc",
        "numpyro",
    }
    top = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    roots = {(getattr(node, "module", None) or node.names[0].name).partition(".")[0] for node in top}
    assert not roots & optional
