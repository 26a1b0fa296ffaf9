"""Models named on the command line: a Stan program, or an object of the user's own Python code."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..target import Target
from .numpyro import from_numpyro
from .pymc import from_pymc
from .stan import from_stan

MODULE_PREFIX = "steincheck_target_"  # of the module a target file becomes


def load_model(
    *,
    stan: str | os.PathLike[str] | None = None,
    pymc: Any = None,
    numpyro: Any = None,
    data: str | os.PathLike[str] | None = None,
) -> Target:
    """Make a `Target` from one model, given by file or by name.

    Parameters
    ----------
    stan : path, optional
        A Stan program.
    pymc : str or object, optional
        ``"module:name"`` or ``"file.py:name"`` of a ``pymc.Model`` or of a function without arguments that
        returns one; or the object itself.
    numpyro : str or object, optional
        The same of a NumPyro model.
    data : path, optional
        JSON file: the data of the Stan program, or the keyword arguments of the NumPyro model.
    """
    choices = {"stan": stan, "pymc": pymc, "numpyro": numpyro}
    given = [name for name, value in choices.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of `stan`, `pymc` and `numpyro` must be given, got {given or 'none'}")
    if stan is not None:
        return from_stan(Path(stan), data)
    if numpyro is not None:
        return from_numpyro(_loaded(numpyro), **_arguments(data))
    if data is not None:
        raise ValueError(
            "`data` belongs to a Stan program or a NumPyro model: a PyMC model has its data in it"
        )
    model = _loaded(pymc)
    return from_pymc(model() if callable(model) and not hasattr(model, "free_RVs") else model)


def _loaded(source: Any) -> Any:
    """The object called "module:name" or "file.py:name"; anything but text is the object itself."""
    if not isinstance(source, str):
        return source
    place, _, name = source.rpartition(":")
    if not place:
        raise ValueError(f"a model is given as module:name or file.py:name, got {source!r}")
    module = run_file(Path(place)) if place.endswith(".py") else _module(place)
    if not hasattr(module, name):
        raise ValueError(f"{place} has no {name!r}")
    return getattr(module, name)


def _module(name: str) -> Any:
    _search_last(Path.cwd())
    return importlib.import_module(name)


def _search_last(folder: Path) -> None:
    """Let modules of a folder be imported, but none instead of an installed package of the same name."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


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
    _search_last(path.resolve().parent)  # it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except SystemExit as stop:
        raise ValueError(f"{path} ends the program while it is read ({stop!r})") from None
    except SyntaxError as error:
        error.filename = error.filename or str(path)  # Python names no file that holds null bytes
        raise
    return module


def _arguments(data: str | os.PathLike[str] | None) -> dict[str, Any]:
    if data is None:
        return {}
    values = json.loads(Path(data).read_text(encoding="utf-8"))
    return {key: np.asarray(value) if isinstance(value, list) else value for key, value in values.items()}
