"""Models named on the command line: a Stan program, or an object of the user's own Python code."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..draws.names import close_names
from ..target import Target
from .numpyro import from_numpyro
from .pymc import from_pymc
from .stan import from_stan

MODULE_PREFIX = "steincheck_target_"  # of the module a target file becomes


def load_model(
    *, stan: Path | None = None, pymc: str | None = None, numpyro: str | None = None, data: Path | None = None
) -> Target:
    """Make a `Target` from one model, given by file.

    Parameters
    ----------
    stan : path, optional
        A Stan program.
    pymc : str, optional
        ``"FILE.py:NAME"`` of a ``pymc.Model`` or of a function without arguments that returns one.
    numpyro : str, optional
        ``"FILE.py:NAME"`` of a NumPyro model.
    data : path, optional
        JSON file: the data of the Stan program, or the keyword arguments of the NumPyro model.
    """
    if stan is not None:
        return from_stan(Path(stan), data)
    if numpyro is not None:
        return from_numpyro(load_named(numpyro), **_arguments(data))
    if pymc is None or data is not None:
        raise ValueError(
            "one of `stan`, `pymc` and `numpyro` must be given; a PyMC model has its `data` in it"
        )
    model = load_named(pymc)
    return from_pymc(model() if callable(model) and not hasattr(model, "free_RVs") else model)


def load_named(source: str) -> Any:
    """Run FILE.py and return what it calls NAME, from "FILE.py:NAME"."""
    file, _, name = source.rpartition(":")
    if not file or not name:
        raise ValueError(f"an object of a file must look like FILE.py:NAME, got {source!r}")
    module = run_file(Path(file))
    if not hasattr(module, name):
        known = [key for key in vars(module) if not key.startswith("_")]
        raise ValueError(f"{file} has no {name!r}{close_names(name, known)}")
    return getattr(module, name)


def _arguments(data: Path | None) -> dict[str, Any]:
    values = {} if data is None else json.loads(Path(data).read_text(encoding="utf-8"))
    return {key: np.asarray(value) if isinstance(value, list) else value for key, value in values.items()}


def run_file(path: Path) -> ModuleType:
    """Run a file of the user's, as a module whose name starts with `MODULE_PREFIX`."""
    if not path.is_file():
        other = Path(f"{path}.py")
        hint = f" (did you mean {other}?)" if other.is_file() else ""
        raise FileNotFoundError(f"there is no target file {path}{hint}")
    spec = importlib.util.spec_from_file_location(MODULE_PREFIX + path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"the target file must be Python code and end in .py, got {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # it may import its neighbours, but none instead of an installed package
    try:
        spec.loader.exec_module(module)
    except SystemExit as stop:
        raise ValueError(f"{path} ends the program while it is read ({stop!r})") from None
    return module
