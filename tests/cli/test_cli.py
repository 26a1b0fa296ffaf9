import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import steincheck as sc
from steincheck import cli
from steincheck._files import write_text
from steincheck.cli.words import PARAMETERS, in_options
from steincheck.model_files import load_target

MODEL = """
from dataclasses import replace
import jax.numpy as jnp
import steincheck as sc

def log_density(x):
    return jnp.logaddexp(-0.5 * jnp.sum((x + 3) ** 2), -0.5 * jnp.sum((x - 3) ** 2))

# compiled once, whichever tests read this file
target = replace(sc.models.gaussian_mixture([[-3.0, -3.0], [3.0, 3.0]]), names=["a", "b"], sample=None)
number = 3

def make():
    return sc.from_jax(log_density, dim=2)

def broken(x):
    return undefined_name

explodes = sc.Target(broken, dim=2)
sloped = sc.Target(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: x, dim=2)
nowhere = sc.Target(lambda x: x[:, 0] - jnp.inf, dim=2)

def three(n, rng):
    return rng.normal(size=(3, 2))
"""


TARGET = ("--target", "model.py:target")
KNOWN = ("--modes", "two.csv")  # the search is a test of its own


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("cli")
    (place / "model.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    good = rng.normal(size=(400, 2)) + np.where(rng.random(400) < 0.5, -3, 3)[:, None]
    np.savetxt(place / "good.csv", good, delimiter=",", header="a,b", comments="")
    np.save(place / "left.npy", rng.normal(-3, 1, size=(400, 2)))
    np.savez(place / "few.npz", x=good[:20], y=good)
    np.savetxt(place / "two.csv", [[-3, -3], [3, 3]], delimiter=",", header="a,b", comments="")
    return place


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run the command in the folder; returns exit status, output, errors."""

    def call(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["steincheck", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return stop.value.code or 0, printed.out, printed.err

    return call


def test_modes_from_a_file(run, folder):
    given = ["left.npy", *TARGET, *KNOWN, "--seed", 0]
    status, out, _ = run("check", *given, "--report", "given.html")
    assert status == 1
    assert "Mode search" not in out
    assert "is missing" in out
    assert "--modes two.csv" in (folder / "given.html").read_text()
    status, _, said = run("check", *given, "--bounds=-9,9")
    assert status == 2
    assert "--bounds is the box of the mode search: give --modes or --bounds, not both" in said


def test_modes_that_the_command_found_are_taken_back(run, folder):
    box = ("--bounds=-10,10", "--seed", 3)
    assert run("modes", *TARGET, *box, "--json", "found.json", "--quiet") == (0, "", "")
    model = load_target(str(folder / "model.py:target"))
    found = sc.find_modes(model, bounds=(-10, 10), rng=3)
    good = np.loadtxt(folder / "good.csv", delimiter=",", skiprows=1)
    expected = sc.check(good, model, modes=found, rng=0)
    options = ("good.csv", *TARGET, "--modes", "found.json", "--seed", 0, "--json", "verdict.json")
    status, out, _ = run("check", *options)
    assert status == cli.FITS
    assert out.startswith(expected.sentence)
    assert json.loads((folder / "verdict.json").read_text()) == json.loads(expected.to_json())
    for name, test in (("flux", sc.flux_test), ("pksd", sc.pksd_test)):
        run("test", name, *options)
        record = json.loads((folder / "verdict.json").read_text())
        assert record["pvalue"] == test(good, model, modes=found, rng=0).pvalue


PLACES = np.array([[-3.0, -3.0], [3.0, 3.1]])
SHAPES = np.array([[[1.0, 0.5], [0.5, 2.0]]] * 2)
GIVEN = sc.Modes(PLACES, SHAPES, np.zeros(2), np.zeros(2, dtype=int), names=("a", "b"))
TURNED = replace(GIVEN, locations=PLACES[:, ::-1], covariances=SHAPES[:, ::-1, ::-1], names=("b", "a"))


@pytest.mark.parametrize(
    ("record", "modes"),
    [
        ({"locations": PLACES.tolist()}, PLACES),
        ({"locations": PLACES.tolist(), "covariances": SHAPES.tolist()}, (PLACES, SHAPES)),
        (GIVEN.to_dict(), GIVEN),
        (TURNED.to_dict(), GIVEN),
    ],
)
def test_modes_as_json_with_less_or_in_another_order(run, folder, record, modes):
    model = load_target(str(folder / "model.py:target"))
    (folder / "some.json").write_text(json.dumps(record))
    run("test", "flux", "good.csv", *TARGET, "--modes", "some.json", "--seed", 0, "--json", "t.json")
    good = np.loadtxt(folder / "good.csv", delimiter=",", skiprows=1)
    expected = sc.flux_test(good, model, modes=modes, rng=0)
    assert json.loads((folder / "t.json").read_text())["statistic"] == expected.statistic


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "bad.json cannot be read as JSON"),
        ("[[1, 2]]", 'bad.json must hold an object with "locations"'),
        ('{"modes": 3}', 'bad.json must hold an object with "locations"'),
        ('{"locations": [[1, 2, 3]]}', "--modes must have shape (n, 2) as the target has dim = 2"),
        ('{"locations": "text"}', "--modes must be an array of real numbers"),
        ('{"locations": [[3, 3]], "covariances": [[1]]}', "covariances of --modes must be finite"),
        ('{"locations": [[3, 3]], "search": {}}', "bad.json: `covariances` must be real numbers, got None"),
    ],
)
def test_json_that_does_not_hold_modes(run, folder, text, message):
    (folder / "bad.json").write_text(text)
    status, _, said = run("check", "good.csv", *TARGET, "--modes", "bad.json")
    assert (status, message in said) == (cli.ERROR, True), said


def test_json_of_modes_has_the_names_of_the_density(run, folder):
    modes = replace(GIVEN, names=("a", "c"))
    (folder / "other.json").write_text(json.dumps(modes.to_dict()))
    said = run("check", "good.csv", *TARGET, "--modes", "other.json")[2]
    assert "other.json has no column 'b'; its columns are a, c, the target's names a, b" in said
    assert "there is no file none.json" in run("check", "good.csv", *TARGET, "--modes", "none.json")[2]


@pytest.mark.parametrize("model", ["one", "positive"])
def test_one_mode_from_a_file(run, folder, model):
    (folder / "one.py").write_text(
        "import numpy as np\nimport steincheck as sc\n"
        "def log_density(x):\n    return -0.5 * x[:, 0] ** 2\n"
        "one = sc.Target(log_density, np.negative, dim=1, names=['a'])\n"
        "positive = sc.Target(log_density, np.negative, dim=1, names=['log b'], constrained_names=['b'], "
        "constrain=np.exp, unconstrain=np.log)\n"
    )
    draws = np.random.default_rng(0).normal(size=(200, 1))
    names = {"one": ("a", draws, 0.0), "positive": ("b", np.exp(draws), 1.0)}
    name, values, place = names[model]
    np.savetxt(folder / "normal.csv", values, header=name, comments="")
    (folder / "mode.csv").write_text(f"{name}\n{place}\n")
    status, out, said = run(
        "check", "normal.csv", "--target", f"one.py:{model}", "--modes", "mode.csv", "--seed", 0
    )
    assert (status, said) == (0, "")
    assert "No misfit found" in out


def test_no_misfit_found(run, folder):
    status, out, err = run(
        "check",
        "good.csv",
        "--target",
        "model.py:target",
        "--seed",
        1,
        "--json",
        "v.json",
        "--report",
        "v.html",
    )
    assert status == 0
    assert out.startswith("No misfit found at level 0.05 (p = ")
    assert out.endswith("wrote v.json\nwrote v.html\n")
    assert err == ""
    record = json.loads((folder / "v.json").read_text())
    assert record["fits"] is True
    assert record["seed"] == 1
    page = (folder / "v.html").read_text()
    assert "steincheck check good.csv --target model.py:target --seed 1" in page
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


def test_misfit_quietly(run):
    assert run("check", "left.npy", "--target", "model.py:make", "--seed", "1", "--quiet") == (1, "", "")


def test_cannot_tell(run):
    status, out, _ = run("check", "few.npz", "--key", "x", *TARGET, *KNOWN, "--seed", "1")
    assert status == cli.CANNOT_TELL
    assert out.startswith("Cannot tell whether the draws fit the density: 20 draws are too few")


def test_chains_that_never_change_mode_cannot_tell(run, folder):
    rng = np.random.default_rng(0)
    for k, centre in enumerate((-3, 3)):
        np.savetxt(folder / f"stuck{k}.csv", rng.normal(centre, 1, size=(300, 2)), delimiter=",")
    status, out, _ = run("test", "flux", "stuck0.csv", "stuck1.csv", *TARGET, *KNOWN, "--seed", 0)
    assert status == cli.CANNOT_TELL
    assert out.startswith("flux test: cannot tell at level 0.05")
    assert "\n  reason: the chains never change mode" in out
    assert out.count("cannot tell") == 1


@pytest.mark.parametrize("name", ["ksd", "fssd", "moments"])
def test_chains_that_are_too_short_cannot_tell(run, folder, name):
    walks = np.cumsum(np.random.default_rng(0).normal(size=(2, 30, 2)), axis=1)
    np.save(folder / "walks.npy", walks)
    known = KNOWN if name == "moments" else ()
    status, out, _ = run("test", name, "walks.npy", *TARGET, *known, "--seed", 0)
    assert status == cli.CANNOT_TELL
    assert "\n  reason: the effective sample size of the " in out
    assert out.count("cannot tell") == 1


def test_the_level_is_passed_on(run, folder):
    np.save(folder / "half.npy", np.loadtxt(folder / "good.csv", delimiter=",", skiprows=1)[:200])
    status, out, _ = run("check", "half.npy", *TARGET, *KNOWN, "--seed", 0, "--alpha", 0.9)
    assert (status, "at level 0.9 " in out) == (1, True)


@pytest.mark.parametrize("name", sorted(cli.TESTS))
def test_every_test_runs_by_name(run, folder, name):
    """With modes from a file where it needs some; the flux test searches for them."""
    known = KNOWN if name in ("pksd", "spksd", "ospksd", "pksdagg", "moments") else ()
    status, out, err = run("test", name, "left.npy", *TARGET, *known, "--seed", 0, "--json", "t.json")
    record = json.loads((folder / "t.json").read_text())
    assert status == int(record["pvalue"] <= 0.05)
    assert out.startswith(record["test"])
    assert "seed 0, steincheck" in out
    assert err == ""
    if name in ("spksd", "ospksd", "pksdagg", "flux"):
        assert status == 1  # these see the missing mode


def test_modes(run, folder):
    status, out, _ = run(
        "modes", "--target", "model.py:target", "--bounds=-10,10", "--seed", 0, "--json", "m.json"
    )
    assert status == 0
    record = json.loads((folder / "m.json").read_text())
    assert sorted(round(x, 3) for x, _ in record["locations"]) == [-3, 3]
    assert "Laplace weight" in out
    status, out, _ = run(
        "modes", "--target", "model.py:target", "--draws", "good.csv", "--quiet", "--picture", "modes.png"
    )
    assert (status, out) == (0, "")
    assert (folder / "modes.png").read_bytes().startswith(b"\x89PNG")
    options = ("--bounds=-10,10", "--seed", 0, "--quiet", "--picture", "alone.svg")
    assert run("modes", "--target", "model.py:target", *options)[0] == 0
    assert "<!-- draws -->" not in (folder / "alone.svg").read_text()
    status, out, _ = run(
        "modes", "--target", "model.py:target", "--draws", "good.csv", "--seed", 0, "--max-evaluations", 5000
    )
    assert "(a = 3, b = 3)" in out


@pytest.mark.parametrize("label", ["chain", "Chain", "CHAIN_ID", ".chain"])
def test_a_column_of_chains_may_be_capitalised(run, folder, label):
    """Else it would be left out, and the chains tested as one sample of independent draws."""
    good = np.loadtxt(folder / "good.csv", delimiter=",", skiprows=1)
    table = np.column_stack([np.repeat(np.arange(4), 100), good])
    np.savetxt(folder / "columns.csv", table, delimiter=",", header=f"{label},a,b", comments="")
    for name in ("target", "make"):
        out = run("test", "ksd", "columns.csv", "--target", f"model.py:{name}", "--seed", 0)[1]
        assert "tested as 4 chains" in out


@pytest.mark.parametrize("command", ["check", "test", "modes", "calibrate"])
def test_the_help_of_a_command(run, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "200")
    status, out, _ = run(command, "--help")
    assert status == 0
    assert f"Example: steincheck {command} " in out
    assert ("Exit status: 0 no misfit found" in out) == (command in ("check", "test"))
    (quiet,) = [line for line in out.splitlines() if "--quiet" in line]
    assert ("exit status" in quiet) == (command in ("check", "test"))
    assert "<bool>" not in quiet
    if command == "test":
        about = " ".join(out.partition("Arguments")[0].split())
        assert all(re.search(rf"\b{name}\b", about) for name in cli.TESTS)


def test_version(run):
    assert run("--version") == (0, f"steincheck {sc.__version__}\n", "")


def test_several_files_are_several_chains(run, folder):
    rng = np.random.default_rng(2)
    for k in range(4):
        side = np.where(rng.random(150) < 0.5, -3, 3)[:, None]
        np.save(folder / f"chain{k}.npy", rng.normal(size=(150, 2)) + side)
    files = [f"chain{k}.npy" for k in range(4)]
    status, out, _ = run("check", *files, *TARGET, *KNOWN, "--seed", 1)
    assert status == 0
    assert "The 4 x 150 draws were tested as 4 chains" in out


def test_an_interrupted_run_has_a_status_of_its_own(run, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.verdict, "check", interrupt)
    assert run("check", "good.csv", "--target", "model.py:target")[0] == 130


def test_demo(run, folder):
    status, out, err = run("demo", "--report", "demo.html")
    assert (status, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line.endswith(("blind", "sees it"))}
    assert lines["KSD"].endswith("blind")
    assert all(lines[name].endswith("sees it") for name in ("spKSD", "ospKSD", "flux"))
    assert "missing: 0." in out
    assert "The draws do not fit the density" in out
    assert out.endswith("wrote demo.html\n")


ERRORS = {
    "missing draws": (["check", "no.csv", "--target", "model.py:target"], "there is no file no.csv"),
    "missing target": (["check", "good.csv", "--target", "no.py:target"], "there is no target file no.py"),
    "no suffix": (
        ["check", "good.csv", "--target", "model:target"],
        "there is no target file model (did you mean model.py?)",
    ),
    "no file name": (["check", "good.csv", "--target", "./:x"], "there is no target file ."),
    "no name": (["check", "good.csv", "--target", "model.py"], "must look like FILE.py:NAME, got 'model.py'"),
    "near name": (
        ["check", "good.csv", "--target", "model.py:traget"],
        "model.py has no 'traget' (did you mean target?); its targets: target, explodes, sloped, nowhere",
    ),
    "not a target": (
        ["check", "good.csv", "--target", "model.py:number"],
        "must be a steincheck.Target, got int",
    ),
    "bare function": (
        ["check", "good.csv", "--target", "model.py:log_density"],
        "is a function with arguments; make",
    ),
    "near test": (
        ["test", "spksdd", "good.csv", "--target", "model.py:target"],
        "there is no test 'spksdd' (did you mean spksd or",
    ),
    "level": (
        ["check", "good.csv", "--target", "model.py:target", "--alpha", "2"],
        "--alpha must lie strictly between",
    ),
    "bounds": (["modes", "--target", "model.py:target", "--bounds", "3"], "--bounds must be LOW,HIGH"),
    "picture": (
        ["modes", "--target", "model.py:target", "--picture", "a.xyz"],
        "cannot draw a.xyz: the suffix must be one of",
    ),
    "no box": (
        ["test", "ksd", "good.csv", "--target", "model.py:target", "--bounds", "-1,1"],
        "the test ksd uses no modes",
    ),
    "directory": (
        ["check", "good.csv", "--target", "model.py:target", "--json", "."],
        "cannot write .: it is a directory",
    ),
    "no directory": (
        ["check", "good.csv", "--target", "model.py:target", "--report", "no/v.html"],
        "cannot write no/v.html: there is no directory no",
    ),
    "several arrays": (["check", "few.npz", "--target", "model.py:target"], "holds several arrays"),
    "usage": (["check", "good.csv"], "name the density by one of --target"),
    "no command": (["chekc"], "No such command 'chekc'"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(run, case):
    arguments, message = ERRORS[case]
    status, out, err = run(*arguments)
    assert status == 2
    assert message in " ".join(err.replace("│", "").split())
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "bad.csv, line 3: 1 values, but line 1 has 2"),
        ("1,2,3\n4,5,6\n", "bad.csv has 3 columns, but the target has `dim` = 2"),
        (
            "1,2\n3,nan\n",
            "`bad.csv` must be finite: 1 of 2 draws contain NaN or infinity, rows [1] (counted from 0)",
        ),
        (
            "a;b\n1;2\n3,5;4\n",
            "bad.csv, line 3, column a: '3,5' is not a number (a decimal comma): write a point",
        ),
        ("b,c\n1,2\n", "bad.csv` has no column 'a'; its columns are b, c, the target's names a, b"),
    ],
)
def test_bad_draws(run, folder, text, message):
    (folder / "bad.csv").write_text(text)
    status, _, err = run("check", "bad.csv", "--target", "model.py:target")
    assert (status, message in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "import no_such_package\n",
            ["line 1", "import no_such_package", "ModuleNotFoundError: No module named"],
        ),
        ("x = 1\ndef f(:\n", ["line 2", "SyntaxError"]),
        (
            "def deep():\n    return 1 / 0\nx = deep()\n",
            ["line 3", "line 2", "ZeroDivisionError: division by zero"],
        ),
        ("raise SystemExit(0)\n", ["ends the program while it is read"]),
        ("x = '\0'\n", ["failing.py", "SyntaxError: source code"]),
        (
            "class Mute(Exception):\n    def __str__(self):\n        return 1 / 0\nraise Mute\n",
            ["line 4", "failing.Mute: <exception str() failed>"],
        ),
    ],
)
def test_a_target_file_that_fails(run, folder, text, parts):
    (folder / "failing.py").write_text(text)
    status, _, err = run("check", "good.csv", "--target", "failing.py:x")
    assert status == 2
    for part in parts:
        assert part in err
    assert "importlib" not in err
    assert len(err.splitlines()) < 12


def test_a_density_that_fails_shows_its_own_line(run):
    status, _, err = run("check", "good.csv", "--target", "model.py:explodes")
    assert status == 2
    assert "return undefined_name" in err
    assert "NameError: name 'undefined_name' is not defined" in err


def test_a_target_file_may_import_its_neighbours(run, folder):
    (folder / "neighbour.py").write_text(MODEL)
    (folder / "uses.py").write_text("from neighbour import target\n")
    assert run("test", "ksd", "good.csv", "--target", "uses.py:target", "--quiet")[0] in (0, 1)


def test_nothing_is_left_half_written(folder, monkeypatch):
    place = folder / "kept.json"
    place.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_text(place, "new")
    assert place.read_text() == "old"
    assert not list(folder.glob(".*.part"))


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_change_the_outcome(folder):
    options = "good.csv --target model.py:target --seed 0 --json o.json"
    command = f"{sys.executable} -m steincheck test ksd {options}"
    done = subprocess.run(
        f"{command} | true; echo ${{PIPESTATUS[0]}}", shell=True, executable="/bin/bash", cwd=folder,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.split() == ["0"]
    assert 0.05 < json.loads((folder / "o.json").read_text())["pvalue"] <= 1


@pytest.mark.slow
def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "steincheck", "--help"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    for word in ("check", "test", "modes", "demo", "Exit status"):
        assert word in done.stdout


@pytest.mark.slow
def test_without_typer_the_extra_is_named():
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "import runpy; runpy.run_module('steincheck', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "pip install 'steincheck[cli]'" in done.stderr


def test_code_that_ends_the_program_is_an_error_not_a_fit(run, folder):
    (folder / "leaves.py").write_text("import sys\ndef target():\n    sys.exit(0)\n")
    status, _, errors = run("check", "good.csv", "--target", "leaves.py:target")
    assert status == cli.ERROR
    assert "ends the program" in errors


def test_outputs_never_replace_inputs_or_each_other(run, folder):
    before = (folder / "good.csv").read_bytes()
    for extra in (["--json", "good.csv"], ["--json", "model.py"], ["--json", "o.json", "--report", "o.json"]):
        status, _, errors = run("check", "good.csv", "--target", "model.py:target", *extra)
        assert status == cli.ERROR
        assert "input or another output" in errors
    assert (folder / "good.csv").read_bytes() == before


def test_a_level_out_of_reach_is_no_fit(run):
    for name, alpha in (("ksd", "0.0005"), ("ksdagg", "0.001")):
        status, out, _ = run(
            "test", name, "good.csv", "--target", "model.py:target", "--alpha", alpha, "--seed", 0
        )
        assert status == cli.CANNOT_TELL
        assert f"test: cannot tell at level {alpha}" in out
        assert f"above the level {alpha}" in out
        assert "no misfit found" not in out


def test_replicates_of_one_test_may_be_chosen(run, folder):
    options = ("good.csv", "--target", "model.py:target", "--seed", 0, "--json", "one.json")
    for name, known in (("ksd", ()), ("flux", KNOWN)):
        run("test", name, *options, *known, "--n-resamples", 199)
        assert json.loads((folder / "one.json").read_text())["settings"]["n_resamples"] == 199
    run("test", "ksdagg", *options, "--n-resamples", 199, "--alpha", 0.1)
    settings = json.loads((folder / "one.json").read_text())["settings"]
    assert (settings["n_resamples"], settings["n_level_resamples"], settings["alpha"]) == (199, 199, 0.1)
    status, _, errors = run("test", "ksd", *options, "--n-resamples", 0)
    assert status == cli.ERROR
    assert "--n-resamples" in errors


def test_how_often_a_test_rejects(run, folder):
    (folder / "wide.py").write_text(
        "import steincheck as sc\n"
        "target = sc.models.gaussian_mixture([[0.0, 0.0]])\n"
        "def wide(n, rng):\n    return 2 * target.sample(n, rng)\n"
    )
    options = ["--target", "wide.py:target", "--n", 50, "--test", "ksd", "--repetitions", 4, "--seed", 0]
    status, out, _ = run("calibrate", *options, "--sampler", "wide.py:wide", "--json", "rates.json")
    assert status == 0
    assert out.startswith("ksd_test: 4 samples, n = 50, d = 2\n")
    assert out.endswith(f"seed 0, steincheck {sc.__version__}\nwrote rates.json\n")
    assert json.loads((folder / "rates.json").read_text())["repetitions"] == 4
    assert run("calibrate", *options, "--quiet") == (0, "", "")
    assert run("calibrate", *options, "--jobs", 2, "--quiet") == (0, "", "")


def test_modes_have_the_names_of_the_columns_where_the_density_has_none(run):
    status, out, _ = run("modes", "--draws", "good.csv", "--target", "model.py:make", "--seed", 0)
    assert status == 0
    assert "a = " in out or " a " in out


def test_data_of_a_model_do_not_go_with_a_python_file(run, folder):
    (folder / "data.json").write_text("{}")
    status, _, said = run("check", "good.csv", "--target", "model.py:target", "--data", "data.json")
    assert status == 2
    assert "--data goes with --stan or --numpyro" in said


WRONG = [  # what is typed beside the target, and what is said about it
    ("check good.csv --alpha 0", "--alpha must lie strictly between 0 and 1, got 0.0"),
    ("test ksd good.csv --alpha nan", "--alpha must lie strictly between 0 and 1"),
    ("check good.csv --seed -1", "'--seed'"),
    ("check good.csv --bounds 3,1", "--bounds must have low < high"),
    ("check good.csv --bounds 1,2,3", "--bounds must be LOW,HIGH or"),
    ("check good.csv --bounds=-inf,1", "--bounds must be finite"),
    ("check good.csv --bounds 1,2;1,2;1,2", "--bounds must be one pair LOW,HIGH or 2 of them, got 3"),
    ("test flux good.csv --bounds=-9,nan", "--bounds must have low < high"),
    ("modes --bounds 2,1", "--bounds must have low < high"),
    ("check good.csv --modes twice.csv", "--modes must differ from each other, rows [0, 1] (counted from 0)"),
    ("test flux good.csv --modes saddle.csv", "--modes must be local maxima: at rows [0]"),
    ("test flux good.csv --modes saddle.csv", "or give --modes as a pair (locations, covariances)"),
    ("test flux good.csv --modes twice.csv --bounds 1,2", "give --modes or --bounds, not both"),
    ("check good.csv --modes modes.doc", "--modes must end in .json, .csv"),
    ("check good.csv --modes few.npz", "--modes takes a file with one array, few.npz holds x, y"),
    ("test ksd good.csv --n-resamples 10000000", "--n-resamples must be at most 1000000"),
    ("modes --max-evaluations 9 --seed 0", "--max-evaluations was reached before"),
    ("modes --max-evaluations 10000000000000", "--max-evaluations must be at most"),
    ("check few.npz", "it holds x, y: name one by --key"),
    ("check few.npz --key z", "has no array 'z'; it holds x, y: name one by --key"),
    ("check good.csv --key z", "--key selects an array of an .npz file"),
    ("check modes.doc", "DRAWS must end in .csv, .tsv"),
    ("modes --draws modes.doc", "--draws must end in .csv, .tsv"),
    ("check across.npy", "it looks transposed: one row per point is expected"),
    ("check across.csv", "it looks transposed: one row per point is expected"),
    (
        "check three.csv --target model.py:sloped",
        "(a, b, c), but the target has `dim` = 2: one column per "
        "coordinate is needed; select columns by the target's `names`",
    ),
    ("check flat.npy", "one point per row, got the 1-d shape (800,)"),
    ("check good.csv single.csv", "independent draws go together, in shape (n, d)"),
    ("check good.csv --target model.py:sloped", "in Python, `check_score=False` makes tests go on"),
    ("modes --target model.py:nowhere", "give --draws or other starting points inside its support"),
    ("check good.csv --numpyro model.py:number", "`model` must be a function with NumPyro"),
    ("calibrate --n 50", "--sampler must be a function (n, rng) -> draws: the target has none"),
    ("calibrate --n 50 --sampler model.py:number", "--sampler must be a function"),
    ("calibrate --n 50 --sampler model.py:three", "--sampler must return n = 50 draws, got 3"),
    ("calibrate --n 50 --sampler model.py:three --jobs 0", "--jobs must be an integer from -1024 to 1024"),
    ("calibrate --n 50 --sampler model.py:three --jobs 9999", "--jobs must be an integer from -1024 to 1024"),
    ("calibrate --n 50 --sampler model.py:three --repetitions 9999999", "--repetitions must be at most"),
]


@pytest.fixture(scope="module")
def wrong(folder):
    good = np.loadtxt(folder / "good.csv", delimiter=",", skiprows=1)
    np.savetxt(folder / "twice.csv", [[3, 3], [3, 3]], delimiter=",", header="a,b", comments="")
    np.savetxt(folder / "saddle.csv", [[0, 0], [3, 3]], delimiter=",", header="a,b", comments="")
    np.savetxt(folder / "single.csv", good[:1], delimiter=",", header="a,b", comments="")
    named = np.column_stack([good, good[:, 0]])
    np.savetxt(folder / "three.csv", named, delimiter=",", header="a,b,c", comments="")
    np.save(folder / "across.npy", good.T)
    np.savetxt(folder / "across.csv", good.T, delimiter=",")
    np.save(folder / "flat.npy", good.ravel())
    (folder / "modes.doc").write_text("")


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize(("typed", "message"), WRONG)
def test_errors_speak_of_options(run, typed, message):
    density = () if "model.py:s" in typed or "nowhere" in typed or "numpyro" in typed else TARGET
    status, out, said = run(*typed.split(), *density)
    assert (status, out) == (cli.ERROR, "")
    assert message in " ".join(said.replace("│", "").split())
    options = cli._typed_options()
    named = [word for word in re.findall(r"`(\w+)", said) if PARAMETERS.get(word, word) in options]
    assert not named


def test_options_are_those_of_the_command(monkeypatch):
    for words, expected in (
        (["check"], {"modes_file": "--modes", "seed": "--seed", "draws": "DRAWS"}),
        (["modes"], {"draws": "--draws", "max_evaluations": "--max-evaluations"}),
        (["calibrate"], {"jobs": "--jobs", "n": "--n", "sampler": "--sampler"}),
        ([], {"report": "--report"}),
    ):
        monkeypatch.setattr(sys, "argv", ["steincheck", *words])
        typed = cli._typed_options()
        assert typed | expected == typed
    assert "modes_file" not in typed


def test_warnings_and_advice_speak_of_options(run, folder):
    status, out, _ = run("test", "ksd", "good.csv", *TARGET, "--n-resamples", 5, "--seed", 0)
    assert status == cli.CANNOT_TELL
    assert "with --n-resamples 5 no p-value can be below" in out
    walk = np.cumsum(np.random.default_rng(0).normal(scale=0.3, size=(300, 2)), axis=0)
    np.savetxt(folder / "walk.csv", walk, delimiter=",")
    out = run("test", "ksd", "walk.csv", *TARGET, "--seed", 0)[1]
    assert "shuffle them or give --independent" in out
    out = run("check", "left.npy", *TARGET, *KNOWN, "--seed", 0, "--report", "left.html")[1]
    for text in (out, (folder / "left.html").read_text()):
        assert "sample again from every mode (locations: `verdict.modes.locations`)" in text


def test_what_the_users_code_says_is_left_alone(run, folder):
    (folder / "speaks.py").write_text("raise ValueError('`alpha` and `rng` are mine')\n")
    assert "ValueError: `alpha` and `rng` are mine" in run("check", "good.csv", "--target", "speaks.py:x")[2]


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("`rng` must be a non-negative int", "--seed must be a non-negative int"),
        ("with `n_resamples` = 5 no p-value", "with --n-resamples 5 no p-value"),
        ("shuffle them or give `independent=True`", "shuffle them or give --independent"),
        ("give `modes`, or a larger `max_evaluations`", "give --modes, or a larger --max-evaluations"),
        ("`max_evaluations` was reached", "--max-evaluations was reached"),
        ("but `draws` are Markov chains", "but DRAWS are Markov chains"),
        ("`names` must differ; `max_modes` = 3", "`names` must differ; `max_modes` = 3"),
        ("with `n_level_resamples` = 5", "with `n_level_resamples` = 5"),
        ("max_evaluations(3), `a.rng` and n_jobs", "max_evaluations(3), `a.rng` and n_jobs"),
        ("`program` does not compile", "--stan does not compile"),
    ],
)
def test_arguments_become_options(said, typed):
    options = ("seed", "independent", "n_resamples", "max_evaluations", "stan")
    known = {name: f"--{name.replace('_', '-')}" for name in options} | {
        "draws": "DRAWS",
        "modes_file": "--modes",
    }
    assert in_options(said, known) == typed
