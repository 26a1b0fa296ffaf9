"""Examples in docstrings print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PATHS = sorted((SOURCE / "steincheck").rglob("*.py"))
NAMES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in PATHS
    if ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_the_docstrings(name):
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted > 0 or "+SKIP" in Path(module.__file__).read_text()  # needs another package
    assert outcome.failed == 0


def test_every_public_test_has_an_example():
    import steincheck as sc

    tests = [name for name in sc.__all__ if name.endswith("_test")]
    assert tests
    assert [name for name in tests if ">>>" not in getattr(sc, name).__doc__] == []
