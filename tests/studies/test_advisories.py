"""Known vulnerabilities of pinned versions, from advisories in the OSV format."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from experiments import advisories

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def record(number=1, name="Some.Package", *, events=None, versions=(), ecosystem="PyPI", **more):
    """An advisory about one package."""
    ranges = [{"type": "ECOSYSTEM", "events": events}] if events else []
    entry = {"package": {"ecosystem": ecosystem, "name": name}, "ranges": ranges, "versions": list(versions)}
    return {
        "id": f"PYSEC-2026-{number}",
        "modified": f"2026-0{number}-01T00:00:00Z",
        "aliases": ["CVE-2026-1"],
        "summary": "It reads files of others.",
        "affected": [entry],
        **more,
    }


@pytest.mark.parametrize(
    ("events", "inside", "outside"),
    [
        ([{"introduced": "0"}, {"fixed": "2.11.3"}], ["0.1", "2.11.2", "2.11.3rc1"], ["2.11.3", "3.0"]),
        ([{"introduced": "1.0"}, {"last_affected": "1.4"}], ["1.0", "1.4.0"], ["0.9", "1.4.1", "1.5"]),
        ([{"introduced": "3"}], ["3.0", "99"], ["2.9"]),
        (
            [{"fixed": "1.2"}, {"introduced": "2.0"}, {"introduced": "0"}, {"fixed": "2.1"}],
            ["1.1", "2.0.5"],
            ["1.2", "1.9", "2.1"],
        ),
        ([{"introduced": "1.0", "fixed": "1.1"}], ["1.0.9"], ["1.1"]),
    ],
)
def test_ranges(events, inside, outside):
    (entry,) = record(events=events)["affected"]
    assert all(advisories.affected(version, entry) for version in inside)
    assert not any(advisories.affected(version, entry) for version in outside)


def test_listed_versions_and_ranges_of_commits():
    (entry,) = record(versions=["1.0", "not a version", "2.0.0"])["affected"]
    entry["ranges"] = [{"type": "GIT", "events": [{"introduced": "0"}, {"fixed": "8f1e2d"}]}]
    assert advisories.affected("2.0", entry)
    assert not advisories.affected("1.1", entry)


@pytest.fixture
def pinned(tmp_path):
    path = tmp_path / "constraints.txt"
    path.write_text("# pins\nsome_package==1.5  # a comment\n\nother==3.0\n")
    return path


def run(path, pinned, capsys):
    """Exit status, what is printed."""
    status = advisories.main([str(path), "--pins", str(pinned)])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("kind", ["folder", "archive", "yaml", "file"])
def test_a_vulnerable_pin_is_found_and_a_fixed_one_is_not(tmp_path, pinned, capsys, kind):
    records = [
        record(1, events=[{"introduced": "0"}, {"fixed": "1.6"}]),
        record(2, "other", events=[{"introduced": "0"}, {"fixed": "3.0"}]),
    ]
    folder = tmp_path / "advisories" / "below"
    folder.mkdir(parents=True)
    path = tmp_path / "advisories"
    for item in records:
        if kind == "yaml":  # JSON is YAML
            (folder / f"{item['id']}.yaml").write_text(json.dumps(item))
        else:
            (folder / f"{item['id']}.json").write_text(json.dumps(item))
    (folder / "README.md").write_text("none")
    if kind == "archive":
        path = tmp_path / "all.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in folder.iterdir():
                archive.write(file, file.name)
    if kind == "file":
        path = folder / "PYSEC-2026-1.json"
    status, out = run(path, pinned, capsys)
    assert status == 1
    assert "some-package 1.5: PYSEC-2026-1: It reads files of others. (CVE-2026-1)" in out
    assert "other 3.0" not in out
    pinned.write_text("some-package==1.6\nother==3.0\n")
    status, out = run(path, pinned, capsys)
    assert status == 0
    month, count = (1, 1) if kind == "file" else (2, 2)
    assert out == f"2 pins, {count} advisories, the last of 2026-0{month}-01: none applies\n"


def test_withdrawn_advisories_and_other_ecosystems_do_not_count(tmp_path, pinned, capsys):
    every = [{"introduced": "0"}]
    for item in (
        record(1, events=every, withdrawn="2026-02-01T00:00:00Z"),
        record(2, events=every, ecosystem="npm"),
        record(3, "unpinned", events=every),
    ):
        (tmp_path / f"{item['id']}.json").write_text(json.dumps(item))
    assert run(tmp_path, pinned, capsys) == (
        0,
        "2 pins, 1 advisories, the last of 2026-03-01: none applies\n",
    )


def test_what_cannot_be_judged_is_no_pass(tmp_path, pinned, capsys):
    (tmp_path / "odd.json").write_text(json.dumps(record(events=[{"introduced": "0"}, {"fixed": "r2004-b"}])))
    status, out = run(tmp_path, pinned, capsys)
    assert status == 1
    assert "some-package 1.5: PYSEC-2026-1: cannot tell: " in out


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "there is no file or folder"), ("{}", "holds no advisories"), ("{", "cannot be")],
)
def test_nothing_looked_up_is_an_error(tmp_path, pinned, capsys, content, words):
    path = tmp_path / "advisory.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit) as stop:
        run(path, pinned, capsys)
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_every_dependency_is_pinned():
    assert {"numpy", "scipy", "jax"} <= set(advisories.pins())


def test_pins_of_another_kind_are_refused(tmp_path):
    (tmp_path / "pins.txt").write_text("numpy>=2\n")
    with pytest.raises(ValueError, match="must pin every package by =="):
        advisories.pins(tmp_path / "pins.txt")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_audit_passes_only_where_pins_were_looked_up(tmp_path):
    """By a database without the network, else by pip-audit, which must not skip what it cannot look up."""
    (tmp_path / "one.json").write_text(json.dumps(record(events=[{"introduced": "0"}])))
    make = ["make", "--old-file=setup", "audit", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(
        [*make, f"ADVISORIES={tmp_path}"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "1 advisories, the last of 2026-01-01: none applies" in done.stdout
    planned = subprocess.run([*make, "--dry-run"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "pip-audit --strict --requirement constraints.txt" in planned.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_licences_need_no_network():
    command = ["make", "--old-file=setup", "licences", f"BIN={Path(sys.executable).parent}"]
    nowhere = {"https_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "no_proxy": ""}
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert f"numpy {np.__version__}: BSD" in done.stdout
