"""The command as a process: signals, imports, errors of the user's code, letters, unwritable outputs."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import steincheck as sc
from steincheck import _startup, cli

MODEL = """
import pathlib, time
import numpy as np
import steincheck as sc

def slow(x):
    pathlib.Path("started").touch()
    time.sleep(0.05)
    return -0.5 * np.sum(x**2, axis=1)

target = sc.Target(slow, lambda x: -x, dim=2)
"""


DRAWS = np.random.default_rng(0).normal(size=(200, 2))


def test_the_installed_command_says_its_version():
    """The one process of the default suite; `make test-processes` starts the others."""
    command = [Path(sys.executable).with_name("steincheck"), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == f"steincheck {sc.__version__}\n", done.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    np.save(tmp_path / "draws.npy", DRAWS)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_command_with_their_status_and_leave_no_file(folder, number, status):
    command = [sys.executable, "-m", "steincheck", "check", "draws.npy", "--target", "model.py:target"]
    before = signal.signal(number, signal.SIG_DFL)  # a shell may have told all its children to ignore it
    running = subprocess.Popen(
        [*command, "--json", "out.json", "--report", "out.html"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(number, before)
    end = time.monotonic() + 60
    while not (folder / "started").exists() and time.monotonic() < end:
        time.sleep(0.05)
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == status
    assert said.split() == ["interrupted"]
    assert sorted(path.name for path in folder.iterdir() if path.suffix in (".json", ".html", ".part")) == []


@pytest.mark.slow
def test_an_interrupted_or_broken_import_is_no_misfit(tmp_path):
    for error, status in (("KeyboardInterrupt", 130), ("ImportError('no jax')", 2), ("ValueError('no')", 2)):
        broken = tmp_path / error[:3] / "steincheck"
        broken.mkdir(parents=True)
        (broken / "__init__.py").write_text(f"raise {error}\n")
        source = os.path.dirname(os.path.dirname(sc.__file__))
        paths = [str(broken.parent), source]
        code = f"import sys; sys.path[:0] = {paths!r}; import steincheck_command as c; c.main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.returncode == status
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("way", ["console script", "python -m steincheck"])
def test_an_interruption_during_the_imports_is_said(tmp_path, way):
    """Modules written in C may turn KeyboardInterrupt into an ImportError."""
    package = tmp_path / "steincheck"
    package.mkdir()
    shutil.copy(Path(sc.__file__).parent / "_startup.py", package)
    (package / "__main__.py").touch()
    (package / "__init__.py").write_text(
        "from . import _startup\n"
        "import pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'started')!r}).touch()\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    raise ImportError('core')\n"
    )
    shutil.copy(Path(sc.__file__).parents[1] / "steincheck_command.py", tmp_path)
    code = "import steincheck_command as c; c.main()"  # the working directory comes first in the path
    options = ["-c", code] if way == "console script" else ["-m", "steincheck"]
    status, said = interrupted([sys.executable, *options], tmp_path, tmp_path / "started")
    assert status == 130
    assert said.split() == ["interrupted"]


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        (["-m", "steincheck"], True),
        (["-I", "-m", "steincheck", "check", "steincheck"], True),
        (["-m", "host", "steincheck"], False),
        (["-m", "host", "-m", "steincheck"], False),
        (["-m", "host"], False),
        (["host.py", "-m", "steincheck"], False),
    ],
)
def test_only_its_own_command_takes_ctrl_c_over(words, taken, monkeypatch):
    handlers = []
    monkeypatch.setattr("steincheck_command.end_at_once_when_interrupted", lambda: handlers.append(1))
    module = words.index("-m") + 1 if words[0] != "host.py" else 0
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, *words])
    monkeypatch.setattr(sys, "argv", ["-m" if module else "host.py", *words[module + 1 :]])
    importlib.reload(_startup)
    assert bool(handlers) is taken


@pytest.mark.slow
def test_a_host_that_imports_the_package_keeps_its_ctrl_c(tmp_path):
    host = tmp_path / "host"
    host.mkdir()
    (host / "__init__.py").write_text("from steincheck import _startup\n")
    (host / "__main__.py").write_text(
        "import signal\nassert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    package = tmp_path / "steincheck"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(Path(sc.__file__).parent / "_startup.py", package)
    shutil.copy(Path(sc.__file__).parents[1] / "steincheck_command.py", tmp_path)
    # a job in the background ignores Ctrl-C, and so would its children
    as_usual = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, "
    )
    command = [sys.executable, "-c", f"{as_usual}[sys.executable, '-m', 'host', 'steincheck'])"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


SWALLOWS = """
import pathlib, time
import numpy as np
import steincheck as sc

def host(x):
    pathlib.Path("started").touch()
    try:
        time.sleep(0.3)
    except KeyboardInterrupt:
        raise ValueError("swallowed")
    return np.float64(-0.5 * np.sum(np.asarray(x) ** 2))

target = sc.Target(lambda x: np.array([host(row) for row in x]), lambda x: -x, dim=2)
"""


def interrupted(command, folder, started):
    """Status and errors of a command that gets SIGINT once a file is there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    end = time.monotonic() + 60
    while not started.exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    return running.returncode, said


@pytest.mark.slow
def test_an_interruption_that_the_density_swallows_ends_the_command_all_the_same(folder):
    (folder / "model.py").write_text(SWALLOWS)
    sooner = "from steincheck import _signals; _signals.SECONDS_BETWEEN = 0.1"
    program = f"{sooner}; import runpy; runpy.run_module('steincheck', run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-c", program, "modes", "--target", "model.py:target"]
    status, said = interrupted(command, folder, folder / "started")
    assert status == 130
    assert said.split() == ["interrupted"]


USER_ERRORS = ["EOFError", "BrokenPipeError(32, 'Broken pipe')", "GeneratorExit", "BaseException('stop')"]


@pytest.fixture
def command(folder, monkeypatch, capsys):
    """Status and errors of the command, run in this process."""

    def call(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["steincheck", *arguments])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, capsys.readouterr().err

    return call


@pytest.mark.parametrize("error", USER_ERRORS)
@pytest.mark.parametrize("where", ["file", "density"])
def test_no_error_of_the_users_code_has_the_status_of_a_misfit(folder, command, error, where):
    text = f"raise {error}\n"
    if where == "density":
        text = MODEL.replace("    time.sleep(0.05)\n", f"    raise {error}\n")
    (folder / "model.py").write_text(text)
    status, said = command("check", "draws.npy", "--target", "model.py:target")
    assert status == 2
    assert "the target file fails" in said
    assert "model.py" in said
    assert error.partition("(")[0] in said


@pytest.mark.slow
def test_a_module_beside_the_target_is_never_taken_for_an_installed_one(folder):
    """Neither the target's own folder nor, with -m, the working directory comes before installed packages."""
    (folder / "model.py").write_text("from neighbour import target\n")
    (folder / "neighbour.py").write_text(MODEL.replace("    time.sleep(0.05)\n", ""))
    for name in ("matplotlib", "scipy", "typing"):
        (folder / f"{name}.py").write_text(f"raise ValueError('this is not {name}')\n")
    (folder / "elsewhere").mkdir()
    for place in (folder, folder / "elsewhere"):
        target = os.path.relpath(folder / "model.py", place) + ":target"
        command = [sys.executable, "-m", "steincheck", "modes", "--target", target, "--bounds=-5,5"]
        done = subprocess.run(
            [*command, "--picture", "out.png"], cwd=place, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert (place / "out.png").exists()


@pytest.mark.slow
def test_a_standard_output_that_cannot_be_written_is_named(folder):
    (folder / "model.py").write_text(MODEL.replace("time.sleep(0.05)", "pass"))
    options = ["modes", "--target", "model.py:target", "--bounds=-5,5"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "steincheck", *options],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode == 2
    assert "cannot write to the standard output: No space left on device" in done.stderr


def test_a_file_that_cannot_be_written_is_named(folder, command):
    (folder / "model.py").write_text(MODEL.replace("time.sleep(0.05)", "pass"))
    options = ["modes", "--target", "model.py:target", "--bounds=-5,5"]
    status, said = command(*options, "--json", "/dev/full")
    assert status == 2
    assert "cannot write /dev/full: No space left on device" in said


@pytest.mark.slow
def test_a_picture_that_cannot_be_written_leaves_the_old_one(folder):
    (folder / "model.py").write_text(MODEL.replace("time.sleep(0.05)", "pass"))
    (folder / "old.png").write_bytes(b"old")
    options = "--target model.py:target --bounds=-5,5 --picture old.png"
    command = f"ulimit -f 4; {sys.executable} -m steincheck modes {options}"
    done = subprocess.run(
        ["/bin/bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "cannot write old.png: File too large" in done.stderr
    assert (folder / "old.png").read_bytes() == b"old"


LETTERS = """
import numpy as np
import steincheck as sc
target = sc.Target(lambda x: -0.5 * np.sum(x**2, axis=1), lambda x: -x, dim=2, names=["\u03b1", "\u65e5"])
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "model.py").write_text(LETTERS, encoding="utf-8")
    np.save(tmp_path / "draws.npy", np.random.default_rng(0).normal(size=(120, 2)))
    np.save(tmp_path / "mode.npy", [[0.0, 0.0]])

    def call(*arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "steincheck", *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            timeout=120,
        )

    return call


@pytest.mark.slow
def test_a_terminal_without_greek_and_a_name_that_is_no_utf8_keep_the_json(run, tmp_path):
    name = os.fsdecode(b"draws-\xff.npy")
    np.save(tmp_path / name, 2 * np.random.default_rng(0).normal(size=(120, 2)))
    done = run(
        *("check", name, "--target", "model.py:target", "--modes", "mode.npy", "--seed", "0"),
        *("--json", "out.json"),
        PYTHONIOENCODING="ascii",
        LC_ALL="C",
    )
    assert done.returncode == 1, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"u03b1" in done.stdout
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert written["names"] == ["\u03b1", "\u65e5"]


@pytest.mark.slow
def test_a_report_shows_every_letter_and_warns_of_none(run, tmp_path):
    name = os.fsdecode(b"draws-\xff.npy")
    np.save(tmp_path / name, np.random.default_rng(0).normal(size=(120, 2)))
    options = ("--target", "model.py:target", "--modes", "mode.npy", "--seed", "0", "--report", "out.html")
    done = run("check", name, *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    pictures = page[page.index("<svg") : page.rindex("</svg>")]
    assert "\u65e5" in pictures
    assert "\u65e5" in page[page.rindex("</svg>") :]
    assert "draws-\\udcff.npy" in page


@pytest.mark.slow
def test_an_overlong_name_is_told_in_one_line(run):
    name = "x" * 300 + ".json"
    done = run("test", "ksd", "draws.npy", "--target", "model.py:target", "--json", name)
    assert done.returncode == 2
    assert b"cannot write " + name.encode() in done.stderr.replace(b"\n", b"")
    assert b"Traceback" not in done.stderr
