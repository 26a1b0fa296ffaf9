"""The source archive and the wheel made of it: installed without extras, used as in the README."""

import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
OPTIONAL = ("arviz", "dask", "joblib", "matplotlib", "numpyro", "pymc", "rich", "torch")


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from the source archive of a copy: an earlier build may have left modules that were moved."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-I", "-m", "build", "--outdir", folder, copy)  # the wheel is made of the archive
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment that has the wheel and what it requires, nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    interpreter = folder / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    # isolated: a path to the sources would count as installed
    run(interpreter, "-I", "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel)
    return interpreter


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"steincheck"}
    assert "steincheck/py.typed" in names
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources


def test_the_first_lines_of_the_readme_run_without_extras(python, tmp_path):
    text = (ROOT / "README.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)\n  \.\.\.\n```", text, re.DOTALL).groups()
    assert run(python, "-I", "-c", code, cwd=tmp_path).startswith(shown)


def test_no_optional_package_is_there(python, tmp_path):
    code = f"import importlib.util as u; print([n for n in {OPTIONAL!r} if u.find_spec(n)])"
    assert run(python, "-I", "-c", code, cwd=tmp_path).strip() == "[]"


def test_the_command_runs_without_extras_and_says_what_a_report_needs(python, tmp_path):
    assert run(python, "-I", "-m", "steincheck", "--version", cwd=tmp_path).startswith("steincheck ")
    command = [str(python), "-I", "-m", "steincheck", "demo", "--report", "demo.html"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "steincheck[plot]" in done.stderr
