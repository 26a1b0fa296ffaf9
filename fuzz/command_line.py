"""Spoilt files for the readers and odd options for the command line."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings

import numpy as np

import steincheck as sc

from .arguments import folder
from .runner import Hang, time_limit

ODD_CELLS = (
    "nan",
    "inf",
    "",
    "a",
    "1_5",
    "1e400",
    "0x10",
    "1,2",
    '"',
    "\x00",
    "é",
    "-",
    "1 2",
    "#",
    "1;2",
    "٣",
)
WORDS = (
    "check",
    "test",
    "modes",
    "calibrate",
    "demo2",
    "ksd",
    "ksdagg",
    "fssd",
    "flux",
    "moments",
    "nothing",
    "good.csv",
    "good.npy",
    "absent.csv",
    "spoilt.csv",
    "--target",
    "model.py:target",
    "model.py:number",
    "model.py:broken",
    "model.py:",
    ":target",
    "absent.py:target",
    "--alpha",
    "0.05",
    "2",
    "nan",
    "--seed",
    "0",
    "-1",
    "1e9",
    "--bounds=0,1",
    "--bounds",
    "1,0",
    "a,b",
    "--json",
    "out.json",
    "/nowhere/out.json",
    "good.csv",
    "--report",
    "out.html",
    "--quiet",
    "--independent",
    "--key",
    "x",
    "--max-evaluations",
    "100",
    "0",
    "--n",
    "30",
    "--repetitions",
    "2",
    "--test",
    "--jobs",
    "--version",
    "--help",
    "",
    "é",
    "x" * 300,
)


def carry_out_file_call(seed: int, number: int) -> tuple[str, str]:
    """A reader with a spoilt file, or a command line; its label and what is wrong with how it ended."""
    rng = np.random.default_rng([seed, number])
    if rng.random() < 0.8:
        return _read(rng)
    return _command(rng)


def _read(rng: np.random.Generator) -> tuple[str, str]:
    kind = str(rng.choice(["good.csv", "good.npy", "good.npz"]))
    content = (folder() / kind).read_bytes()
    how = str(rng.choice(["cell", "cut", "bytes", "row", "suffix", "line"]))
    spoilt = _spoilt(content, how, rng)
    suffix = (
        str(rng.choice([".csv", ".txt", ".CSV", ".npy", ".npz", ".xyz"])) if how == "suffix" else kind[4:]
    )
    path = folder() / f"spoilt{suffix}"
    path.write_bytes(spoilt)
    options: dict[str, object] = {} if rng.random() < 0.5 else {"dim": 2}
    if kind == "good.npz" and rng.random() < 0.7:
        options["key"] = "x"
    label = f"read_draws({kind} spoilt by {how}, {options})"
    try:
        with time_limit(30), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sc.read_draws(path, **options)  # type: ignore[arg-type]
    except (TypeError, ValueError, OSError) as error:
        return label, "" if "spoilt" in str(error) or "`" in str(error) else f"unnamed: {error}"
    except Hang:
        return label, "hang"
    except Exception as error:
        return label, f"raw: {type(error).__name__}: {str(error)[:160]}"
    return label, ""


def _spoilt(content: bytes, how: str, rng: np.random.Generator) -> bytes:
    if how == "cut":
        return content[: int(rng.integers(len(content)))]
    if how == "bytes":
        array = bytearray(content)
        for _ in range(int(rng.integers(1, 20))):
            array[int(rng.integers(len(array)))] = int(rng.integers(256))
        return bytes(array)
    lines = content.split(b"\n")
    k = int(rng.integers(len(lines)))
    odd = str(rng.choice(ODD_CELLS)).encode()
    if how == "cell":
        lines[k] = lines[k].split(b",")[0] + b"," + odd
    elif how == "row":
        lines[k] = lines[k] + b"," + odd
    elif how == "line":
        lines.insert(k, odd)
    return b"\n".join(lines)


def _command(rng: np.random.Generator) -> tuple[str, str]:
    """A sound command with some words changed, or words at random."""
    from steincheck import cli

    words = ["test", "ksd", "good.csv", "--target", "model.py:target", "--seed", "0"]
    if rng.random() < 0.3:
        words = []
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(words) + 1))
        words[place : place + int(rng.integers(2))] = [str(rng.choice(WORDS))]
    label = "steincheck " + " ".join(words)
    out, err = io.StringIO(), io.StringIO()
    before = os.getcwd(), sys.argv, list(sys.path)
    os.chdir(folder())
    sys.argv = ["steincheck", *words]
    try:
        with time_limit(60), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as stop:
        sound = stop.code in (None, 0, 1, 2, 3)
        return label, "" if sound and "Traceback" not in err.getvalue() else f"exit {stop.code}"
    except Hang:
        return label, "hang"
    except BaseException as error:
        return label, f"raw: {type(error).__name__}: {str(error)[:160]}"
    finally:
        os.chdir(before[0])
        sys.argv = before[1]
        sys.path[:] = before[2]
    return label, ""
