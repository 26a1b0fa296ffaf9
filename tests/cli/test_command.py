"""The commands: their outcomes, exit statuses and files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from harness import standard_normal

import steincheck as sc
from steincheck import cli
from steincheck._files import write_text
from steincheck.model_files import load_target

TARGET = ("--target", "model.py:target")
KNOWN = ("--modes", "two.csv")  # the search is a test of its own
NORMAL = ("normal.npy", "--target", "model.py:normal", "--seed", 0)


def test_no_misfit_found(run, folder):
    typed = ("good.csv", *TARGET, *KNOWN, "--json", "v.json", "--report", "v.html")
    status, out, err = run("check", *typed)
    assert (status, err) == (0, "")
    assert out.endswith("wrote v.json\nwrote v.html\n")
    record = json.loads((folder / "v.json").read_text())
    assert record["fits"] is True
    assert out.startswith(record["sentence"])
    page = (folder / "v.html").read_text()
    assert f"steincheck check {' '.join(typed)} --seed {record['seed']}" in page
    assert not list(folder.glob(".*.part"))


def test_misfit_quietly(run):
    assert run("check", "left.npy", *TARGET, *KNOWN, "--seed", 1, "--quiet") == (1, "", "")


def test_cannot_tell(run):
    status, out, _ = run("check", "few.npz", "--key", "x", *TARGET, *KNOWN, "--seed", 1)
    assert status == 3
    assert out.startswith("Cannot tell")


def test_options_are_arguments_of_check(run, folder, monkeypatch):
    given = {}
    np.savetxt(folder / "lq.csv", np.arange(400.0))

    def check(draws, target, **options):
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.verdict, "check", check)
    status, _, err = run(
        *("check", "good.csv", *TARGET, "--alpha", 0.1, "--tolerance", 0.2, "--independent", "--seed", 3),
        *("--log-q", "lq.csv", "--max-evaluations", 5000, "--max-seconds", 2.5, "--bounds", "-9,9;-8,8"),
    )
    assert (status, err) == (130, "interrupted\n")
    np.testing.assert_array_equal(given.pop("log_q"), np.arange(400))
    assert given == {
        "alpha": 0.1,
        "tolerance": 0.2,
        "independent": True,
        "rng": 3,
        "max_evaluations": 5000,
        "max_seconds": 2.5,
        "bounds": [(-9, 9), (-8, 8)],
    }
    given.clear()
    run("check", "good.csv", *TARGET)
    assert given == {"alpha": 0.05, "independent": False, "rng": None}


@pytest.mark.parametrize("source", ["w", "w.csv", "log w"])
def test_weights_are_a_column_or_a_file(run, folder, source):
    """Draws of a normal twice as wide, with the weights that make them draws of the target."""
    x = 2 * np.random.default_rng(0).normal(size=(400, 2))
    log_w = -0.375 * np.sum(x**2, axis=1)
    columns = np.column_stack([x, np.exp(log_w), log_w])
    np.savetxt(folder / "wide.csv", columns, delimiter=",", header="a,b,w,log w", comments="")
    np.savetxt(folder / "plain.csv", x, delimiter=",", header="a,b", comments="")
    np.savetxt(folder / "w.csv", np.exp(log_w), header="w", comments="")
    option = "--log-weights" if source == "log w" else "--weights"
    draws = "plain.csv" if source == "w.csv" else "wide.csv"
    options = ("--target", "model.py:normal", "--seed", 0, "--json", "weighted.json", "--independent")
    status, _, err = run("test", "ksd", draws, *options, option, source)
    assert (status, err) == (0, "")
    expected = sc.ksd_test(x, standard_normal(2), weights=np.exp(log_w), independent=True, rng=0).pvalue
    found = json.loads((folder / "weighted.json").read_text())["pvalue"]
    assert found == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize("name", sorted(cli.TESTS))
def test_every_test_runs_by_name(run, folder, name):
    known = KNOWN if name in ("pksd", "spksd", "ospksd", "pksdagg", "moments", "flux") else ()
    status, out, err = run("test", name, "left.npy", *TARGET, *known, "--seed", 0, "--json", "t.json")
    record = json.loads((folder / "t.json").read_text())
    assert status == int(record["pvalue"] <= 0.05)
    assert out.startswith(record["test"])
    assert "seed 0, steincheck" in out
    assert err == ""
    if name in ("spksd", "ospksd", "pksdagg", "flux"):
        assert status == 1  # these see the missing mode


def test_a_level_out_of_reach_is_no_fit(run):
    status, out, _ = run("test", "ksd", *NORMAL, "--alpha", 0.0005)
    assert status == 3
    assert "cannot tell at level 0.0005" in out


def test_several_files_are_several_chains(run, folder):
    rng = np.random.default_rng(2)
    for k in range(2):
        np.save(folder / f"chain{k}.npy", rng.normal(size=(150, 2)))
    _, out, _ = run("test", "ksd", "chain0.npy", "chain1.npy", "--target", "model.py:make", "--seed", 1)
    assert "2 chains" in out


def test_modes_that_the_command_found_are_taken_back(run, folder):
    options = ("--draws", "good.csv", "--seed", 3, "--json", "found.json", "--quiet")
    assert run("modes", *TARGET, *options) == (0, "", "")
    model = load_target(str(folder / "model.py:target"))
    record = json.loads((folder / "found.json").read_text())
    found = (np.array(record["locations"]), np.array(record["covariances"]))
    np.testing.assert_allclose(np.sort(found[0][:, 0]), [-3, 3], atol=0.01)
    run("test", "flux", "good.csv", *TARGET, "--modes", "found.json", "--seed", 0, "--json", "verdict.json")
    good = np.loadtxt(folder / "good.csv", delimiter=",", skiprows=1)
    expected = sc.flux_test(good, model, modes=found, rng=0)
    assert json.loads((folder / "verdict.json").read_text())["pvalue"] == expected.pvalue


def test_how_often_a_test_rejects(run, folder):
    options = ["--target", "model.py:normal", "--sampler", "model.py:wide", "--n", 50, "--test", "ksd"]
    status, out, _ = run("calibrate", *options, "--repetitions", 4, "--seed", 0, "--json", "rates.json")
    assert status == 0
    assert out.startswith("ksd_test: 4 samples, n = 50, d = 2\n")
    assert json.loads((folder / "rates.json").read_text())["repetitions"] == 4


def test_demo(run):
    status, out, err = run("demo", "--report", "demo.html")
    assert (status, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line.endswith(("blind", "sees it"))}
    assert lines["KSD"].endswith("blind")
    assert all(lines[name].endswith("sees it") for name in ("spKSD", "ospKSD", "flux"))
    assert out.endswith("wrote demo.html\n")


@pytest.mark.parametrize("command", ["check", "test", "modes", "calibrate", "demo"])
def test_help(run, command):
    status, out, _ = run(command, "--help")
    assert status == 0
    assert f"example: steincheck {command} " in out
    assert ("exit status: 0 no misfit found" in out) == (command in ("check", "test"))


def test_version(run):
    assert run("--version") == (0, f"steincheck {sc.__version__}\n", "")


ERRORS = [
    ("check no.csv --target model.py:target", "no.csv"),
    ("check good.csv --target no.py:target", "there is no target file no.py"),
    ("check good.csv --target model:target", "there is no target file model (did you mean model.py?)"),
    ("check good.csv --target model.py", "must look like FILE.py:NAME, got 'model.py'"),
    ("check good.csv --target model.py:traget", "model.py has no 'traget' (did you mean target?)"),
    ("check good.csv --target model.py:number", "must be a steincheck.Target, got int"),
    ("check normal.npy --target model.py:broken", "is a function with arguments; make a target of it"),
    ("check normal.npy --target model.py:leaves", "SystemExit: 0"),
    ("check good.csv --target model.py:target --data data.json", "--data goes with --stan or --numpyro"),
    ("check good.csv", "name the density by one of --target"),
    ("check good.csv --target model.py:target --seed -1", "`rng` must be a non-negative int"),
    ("check good.csv --target model.py:target --bounds 3", "`bounds` must be one (low, high) pair"),
    ("check good.csv --target model.py:target --bounds a,b", "--bounds must be LOW,HIGH"),
    ("check good.csv --target model.py:target --weights w", "`weights` must be a file or a column of the"),
    ("test ksd good.csv --target model.py:target --bounds=-1,1", "the test ksd uses no modes"),
    ("test spksdd good.csv --target model.py:target", "invalid choice: 'spksdd'"),
    ("check good.csv --target model.py:target --json .", "cannot write .: it is a directory"),
    ("check good.csv --target model.py:target --report no/v.html", "there is no directory no"),
    ("check good.csv --target model.py:target --json model.py", "an input or another output"),
    ("check good.csv --target model.py:target --json o.json --report o.json", "an input or another output"),
    ("check few.npz --target model.py:target", "few.npz"),
    ("calibrate --target model.py:normal --n 50", "`sample` must be a function (n, rng) -> draws"),
]


@pytest.mark.parametrize(("typed", "message"), ERRORS)
def test_errors_are_one_message(run, typed, message):
    status, out, err = run(*typed.split())
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


FAILING = [
    ("import no_such_package\n", ["line 1", "ModuleNotFoundError: No module named"]),
    ("x = 1\ndef f(:\n", ["line 2", "SyntaxError"]),
    ("def deep():\n    return 1 / 0\nx = deep()\n", ["line 3", "line 2", "ZeroDivisionError"]),
    ("raise SystemExit(0)\n", ["the target file fails", "line 1", "SystemExit: 0"]),
]


@pytest.mark.parametrize(("text", "parts"), FAILING)
def test_a_target_file_that_fails_shows_its_own_lines(run, folder, text, parts):
    (folder / "failing.py").write_text(text)
    status, _, err = run("check", "good.csv", "--target", "failing.py:x")
    assert status == 2
    assert all(part in err for part in parts)
    assert "importlib" not in err


def test_a_density_that_fails_shows_its_own_line(run):
    status, _, err = run("check", "normal.npy", "--target", "model.py:explodes")
    assert status == 2
    assert "return undefined_name" in err
    assert "NameError: name 'undefined_name' is not defined" in err


def test_a_target_file_may_import_its_neighbours(run, folder):
    (folder / "uses.py").write_text("from model import normal\n")
    assert run("test", "ksd", "normal.npy", "--target", "uses.py:normal", "--quiet")[0] in (0, 1)


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


def test_compiled_programs_are_kept_unless_jax_has_a_directory(monkeypatch, tmp_path):
    set_to = {}

    class Config:
        values = {"jax_compilation_cache_dir": "elsewhere"}  # noqa: RUF012
        update = staticmethod(set_to.__setitem__)

    monkeypatch.setattr(jax, "config", Config)
    cli._keep_compiled_programs()
    assert not set_to
    Config.values["jax_compilation_cache_dir"] = None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cli._keep_compiled_programs()
    assert Path(set_to["jax_compilation_cache_dir"]).parent == tmp_path / "steincheck"


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_change_the_outcome(folder):
    options = "normal.npy --target model.py:normal --seed 0 --json o.json"
    command = f"{sys.executable} -m steincheck test ksd {options} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["/bin/bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["0"]
    assert 0.05 < json.loads((folder / "o.json").read_text())["pvalue"] <= 1


LETTERS = """
import numpy as np
import steincheck as sc
target = sc.Target(lambda x: -0.5 * (x**2).sum(axis=1), np.negative, dim=2, names=["\u03b1", "\u65e5"])
"""


@pytest.mark.slow
def test_letters_that_the_terminal_lacks_are_escaped_on_it_alone(folder):
    (folder / "letters.py").write_text(LETTERS, encoding="utf-8")
    np.save(folder / "wide.npy", 2 * np.random.default_rng(0).normal(size=(120, 2)))
    options = ["--modes", "zero.npy", "--seed", "0", "--json", "out.json", "--report", "out.html"]
    done = subprocess.run(
        [sys.executable, "-m", "steincheck", "check", "wide.npy", "--target", "letters.py:target", *options],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert b"u03b1" in done.stdout
    assert json.loads((folder / "out.json").read_text(encoding="utf-8"))["names"] == ["\u03b1", "\u65e5"]
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "\u65e5" in page[page.index("<svg") : page.rindex("</svg>")]
