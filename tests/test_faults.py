"""Faults from outside: signals, full disks, threads, pickles; what is the user's stays as it was."""

import copy
import dataclasses
import importlib
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import standard_normal

import steincheck as sc
from steincheck import _signals, _startup, cli
from steincheck.report import write_text

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


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    np.save(tmp_path / "draws.npy", DRAWS)
    return tmp_path


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
    command = [sys.executable, "-m", "host", "steincheck"]
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


def test_a_module_beside_the_target_is_never_taken_for_an_installed_one(folder):
    """Neither the target's own folder nor, with -m, the working directory comes before installed packages."""
    (folder / "model.py").write_text("from neighbour import target\n")
    (folder / "neighbour.py").write_text(MODEL.replace("    time.sleep(0.05)\n", ""))
    for name in ("matplotlib", "scipy", "typing"):
        (folder / f"{name}.py").write_text(f"raise ValueError('this is not {name}')\n")
    (folder / "elsewhere").mkdir()
    for place in (folder, folder / "elsewhere"):
        files = [os.path.relpath(folder / name, place) for name in ("draws.npy", "model.py")]
        command = [sys.executable, "-m", "steincheck", "check", files[0], "--target", f"{files[1]}:target"]
        done = subprocess.run(
            [*command, "--report", "out.html"], cwd=place, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert (place / "out.html").exists()


def test_outputs_that_cannot_be_written_are_named(folder, command):
    (folder / "model.py").write_text(MODEL.replace("time.sleep(0.05)", "pass"))
    options = ["modes", "--target", "model.py:target"]
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
    status, said = command(*options, "--json", "/dev/full")
    assert status == 2
    assert "cannot write /dev/full: No space left on device" in said


def test_a_picture_that_cannot_be_written_leaves_the_old_one(folder):
    (folder / "model.py").write_text(MODEL.replace("time.sleep(0.05)", "pass"))
    (folder / "old.png").write_bytes(b"old")
    command = f"ulimit -f 4; {sys.executable} -m steincheck modes --target model.py:target --picture old.png"
    done = subprocess.run(
        ["/bin/bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "cannot write old.png: File too large" in done.stderr
    assert (folder / "old.png").read_bytes() == b"old"


def test_a_full_disk_is_named_and_the_old_file_stays(tmp_path, monkeypatch):
    place = tmp_path / "out.json"
    place.write_text("old")

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"cannot write .*out.json.*No space left"):
        write_text(place, "new")
    assert place.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_two_processes_may_write_one_file(tmp_path):
    place = tmp_path / "out.json"
    code = """
import sys
from steincheck.report import write_text
for _ in range(50):
    write_text(sys.argv[1], sys.argv[2] * 5000)
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(place), letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if place.exists():
            seen.add(place.read_text())
        else:
            time.sleep(0.01)  # they are importing
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen <= {"a" * 5000, "b" * 5000}
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_tests_called_from_several_threads_give_what_they_give_alone():
    target = sc.models.gaussian_mixture([[0.0, 0.0]])
    alone = [sc.ksd_test(DRAWS, target, rng=seed).pvalue for seed in range(4)]
    found = [None] * 4

    def work(seed):
        found[seed] = sc.ksd_test(DRAWS, target, rng=seed).pvalue

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_calibration_in_several_threads_leaves_the_warnings_filters_as_they_were():
    """The first thread to come in is the first to go."""
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    waits = {
        "first": lambda: (first_in.set(), second_in.wait(30)),
        "second": lambda: (second_in.set(), first_out.wait(30)),
    }

    def work(name):
        def sample(n, rng):
            waits[name]()
            warnings.warn("not for the user", stacklevel=1)
            return rng.normal(size=(n, 2))

        target = standard_normal(2)
        sc.calibrate(target, sample, 50, test=sc.ksd_test, repetitions=1, rng=0)

    with warnings.catch_warnings():
        filters = list(warnings.filters)
        first, second = (threading.Thread(target=work, args=(name,)) for name in waits)
        first.start()
        first_in.wait(30)
        second.start()
        first.join()
        first_out.set()
        second.join()
        assert warnings.filters == filters


def one_point(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize(
    "target",
    [
        sc.models.gaussian_mixture([[0.0, 1.0], [3.0, 4.0]]),
        sc.models.t_banana_mixture(3, n_t=2, n_banana=1),
        sc.models.gb_rbm(3 * np.eye(3, 2)),
        sc.models.sensor_network(),
        sc.from_jax(one_point, 2, names=["a", "b"]),
    ],
    ids=["mixture", "t-banana", "Boltzmann machine", "sensors", "from_jax"],
)
def test_targets_pickle_in_full_precision(target):
    again = pickle.loads(pickle.dumps(target))
    x = np.random.default_rng(0).normal(size=(5, target.dim))
    assert np.array_equal(again.log_density(x), target.log_density(x))
    assert np.array_equal(again.score(x), target.score(x))
    assert again.names == target.names
    if target.sample is not None:
        assert np.array_equal(again.sample(3, 0), target.sample(3, 0))


def test_a_target_with_a_field_replaced_pickles_with_it():
    """Compiled functions cannot be pickled: the target is made again, then the field is replaced again."""
    renamed = dataclasses.replace(sc.models.gaussian_mixture([[-3.0], [3.0]]), names=["mu"])
    for _ in range(2):
        renamed = pickle.loads(pickle.dumps(renamed))
        assert renamed.names == ("mu",)
        np.testing.assert_array_equal(
            renamed.score([[1.0]]), sc.models.gaussian_mixture([[-3.0], [3.0]]).score([[1.0]])
        )
        assert renamed.sample(3, 0).shape == (3, 1)
    other = pickle.loads(pickle.dumps(dataclasses.replace(renamed, log_density=np.sum)))
    assert other.log_density is np.sum
    assert other.names == ("mu",)


def test_the_tests_of_a_verdict_are_read_only_and_survive_copies():
    target = sc.models.gaussian_mixture([[0.0]])
    verdict = sc.check(target.sample(150, 0), target, modes=[[0.0]], rng=0)
    copies = [copy.copy(verdict), copy.deepcopy(verdict), pickle.loads(pickle.dumps(verdict))]
    for one in (verdict, dataclasses.replace(verdict, alpha=0.1), *copies):
        assert list(one.tests) == ["kernel", "moments"]
        assert one.adjusted == verdict.adjusted
        with pytest.raises(TypeError, match="does not support item assignment"):
            one.tests["kernel"] = None
        with pytest.raises(TypeError, match="does not support item assignment"):
            one.adjusted["kernel"] = 1.0


def test_results_verdicts_and_modes_pickle():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    draws = target.sample(150, 0)
    verdict = sc.check(draws, target, modes=[[-3.0], [3.0]], rng=0)
    again = pickle.loads(pickle.dumps(verdict))
    assert str(again) == str(verdict)
    assert json.loads(again.to_json()) == json.loads(verdict.to_json())
    assert np.array_equal(pickle.loads(pickle.dumps(verdict.modes)).locations, verdict.modes.locations)
    for result in verdict.tests.values():
        assert pickle.loads(pickle.dumps(result)).pvalue == result.pvalue


def test_settings_of_results_and_verdicts_of_a_comparison_are_read_only():
    target = sc.models.gaussian_mixture([[0.0]])
    draws = target.sample(100, 0)
    result = sc.ksd_test(draws, target, n_resamples=99, rng=0)
    verdict = sc.check(draws, target, modes=[[0.0]], rng=0)
    comparison = sc.Comparison({"one": verdict}, verdict.parameters)
    for mapping in (
        result.settings,
        copy.deepcopy(result).settings,
        pickle.loads(pickle.dumps(result)).settings,
        dataclasses.replace(result, settings=dict(result.settings)).settings,
        comparison.verdicts,
        pickle.loads(pickle.dumps(comparison)).verdicts,
    ):
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["rng"] = 5
    assert pickle.loads(pickle.dumps(result)).settings == result.settings
    assert sc.ksd_test(draws, target, **result.settings).pvalue == result.pvalue


def test_a_target_has_names_of_its_own():
    names = ["a", "b"]
    target = sc.Target(_log_density, dim=2, names=names, constrained_names=names)
    names.append("c")
    assert target.names == target.constrained_names == ("a", "b")
    assert sc.Target(_log_density, dim=1, names=np.array(["a"])).names == ("a",)


def _log_density(x):
    return -np.sum(x**2, axis=1)


def test_what_is_the_users_stays_as_it_was():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    draws = target.sample(150, 0)
    kept = draws.copy()
    settings = dict(jax.config.values)
    legacy = np.random.get_state()[1].tolist()  # noqa: NPY002
    python = random.getstate()
    errors = np.geterr()
    with warnings.catch_warnings():
        filters = list(warnings.filters)
        sc.check(draws, target, rng=0)
        sc.spksd_test(draws, target, modes=[[-3.0], [3.0]], n_resamples=99, rng=0)
        assert warnings.filters == filters
    assert dict(jax.config.values) == settings
    assert not jax.config.jax_enable_x64
    assert np.random.get_state()[1].tolist() == legacy  # noqa: NPY002
    assert random.getstate() == python
    assert np.geterr() == errors
    assert np.array_equal(draws, kept)


def handlers():
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_is_repeated_until_the_work_ends(number, status, monkeypatch):
    """The first one is swallowed, as JAX does; the timer raises the next, and is off afterwards."""
    monkeypatch.setattr(_signals, "SECONDS_BETWEEN", 0.02)
    own = signal.signal(number, signal.default_int_handler)  # a shell may have told its children to ignore it
    before = handlers()
    with _signals.ending_signals() as seen:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(10)
    assert seen == [number]
    assert _signals.exit_status(seen) == status
    assert handlers() == before
    signal.signal(number, own)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_ignored_signals_stay_ignored_and_other_threads_change_nothing():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _signals.ending_signals() as seen:
        signal.raise_signal(signal.SIGINT)
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN
    assert seen == []
    inside = []

    def work():
        with _signals.ending_signals():
            inside.append(handlers())

    outside = handlers()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [outside] == [handlers()]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_licences_need_no_network():
    command = ["make", "--old-file=setup", "licences", f"BIN={Path(sys.executable).parent}"]
    nowhere = {"https_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "no_proxy": ""}
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert f"numpy {np.__version__}: BSD" in done.stdout
