import sys

import numpy as np
import pytest

from steincheck import cli

MODEL = """
from dataclasses import replace
import numpy as np
import steincheck as sc

# compiled once, whichever tests read this file
target = replace(sc.models.gaussian_mixture([[-3.0, -3.0], [3.0, 3.0]]), names=["a", "b"], sample=None)
normal = sc.Target(lambda x: -0.5 * (x**2).sum(axis=1), np.negative, dim=2, names=["a", "b"])
number = 3

def make():
    return normal

def broken(x):
    return undefined_name

explodes = sc.Target(broken, dim=2)

def leaves():
    raise SystemExit(0)

def wide(n, rng):
    return 2 * rng.normal(size=(n, 2))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, draws that fit, and draws at one of two modes."""
    place = tmp_path_factory.mktemp("cli")
    (place / "model.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    good = rng.normal(size=(400, 2)) + np.where(rng.random(400) < 0.5, -3, 3)[:, None]
    np.savetxt(place / "good.csv", good, delimiter=",", header="a,b", comments="")
    np.save(place / "left.npy", rng.normal(-3, 1, size=(400, 2)))
    np.save(place / "normal.npy", rng.normal(size=(200, 2)))
    np.savez(place / "few.npz", x=good[:20], y=good)
    np.savetxt(place / "two.csv", [[-3, -3], [3, 3]], delimiter=",", header="a,b", comments="")
    np.save(place / "zero.npy", [[0.0, 0.0]])
    return place


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run the command in the folder; returns exit status, output, errors."""

    def call(*words):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["steincheck", *map(str, words)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setattr(cli, "_keep_compiled_programs", lambda: None)  # tests have a cache of their own
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return stop.value.code or 0, printed.out, printed.err

    return call
