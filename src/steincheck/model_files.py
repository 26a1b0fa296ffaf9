"""The density that a command line names: a Python file of the user's, or a Stan, PyMC or NumPyro model."""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._work import cloudpickle
from .adapters import from_numpyro, from_pymc, from_stan
from .draws.names import close_names
from .target import Target

MODULE_PREFIX = "steincheck_target_"  # of the module that a file of the user's becomes


class Source(NamedTuple):
    """Where the density comes from: one of the options of the command line, and its data."""

    target: str | None
    stan: Path | None
    pymc: str | None
    numpyro: str | None
    data: Path | None

    def load(self) -> Target:
        """The target, from exactly one of the options."""
        given = [name for name in ("target", "stan", "pymc", "numpyro") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "name the density by one of --target, --stan, --pymc and --numpyro, got "
                f"{' and '.join('--' + name for name in given) or 'none'}"
            )
        if self.stan is not None:
            return from_stan(self.stan, self.data)
        if self.numpyro is not None:
            values = {} if self.data is None else json.loads(self.data.read_text(encoding="utf-8"))
            arrays = {key: np.asarray(x) if isinstance(x, list) else x for key, x in values.items()}
            return from_numpyro(load_named(self.numpyro), **arrays)
        if self.data is not None:
            raise ValueError("--data goes with --stan or --numpyro: a Python file has its own")
        return load_target(self.target) if self.target is not None else from_pymc(_load_made(str(self.pymc)))


def load_target(spec: str) -> Target:
    """The target of "FILE.py:NAME": a Target, or what a function without arguments returns."""
    value = _load_made(spec)
    if not isinstance(value, Target):
        raise TypeError(f"{spec} must be a steincheck.Target, got {type(value).__name__}")
    return value


def _load_made(spec: str) -> Any:
    """The object of "FILE.py:NAME", or what it returns if it is a function without arguments."""
    value = load_named(spec)
    if not callable(value):
        return value
    try:
        return value()
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # from inside the function: shown with its lines
        raise TypeError(
            f"{spec} is a function with arguments; make a target of it: target = steincheck.from_jax("
            f"{spec.rpartition(':')[2]}, dim=...)"
        ) from None


def load_named(spec: str) -> Any:
    """Run FILE.py and return what it calls NAME, from "FILE.py:NAME"."""
    file, _, name = spec.rpartition(":")
    if not file or not name:
        raise ValueError(f"an object of a file must look like FILE.py:NAME, got {spec!r}")
    path = Path(file)
    if not path.is_file():
        hint = f" (did you mean {path}.py?)" if Path(f"{path}.py").is_file() else ""
        raise FileNotFoundError(f"there is no target file {path}{hint}")
    found = importlib.util.spec_from_file_location(MODULE_PREFIX + path.stem, path)
    if found is None or found.loader is None:
        raise ValueError(f"the target file must be Python code and end in .py, got {path}")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # it may import its neighbours, but none instead of an installed package
    found.loader.exec_module(module)
    if not hasattr(module, name):
        known = [key for key in vars(module) if not key.startswith("_")]
        raise ValueError(f"{file} has no {name!r}{close_names(name, known)}")
    return getattr(module, name)


def share_with_workers() -> None:
    """Let worker processes have the files of the user's by value: they cannot import them by name."""
    for name in [name for name in sys.modules if name.startswith(MODULE_PREFIX)]:
        cloudpickle().register_pickle_by_value(sys.modules[name])


def explain(error: BaseException) -> str:
    """The message; if the user's file was running, its own last lines instead, without those around."""
    files = {module.__file__ for name, module in sys.modules.items() if name.startswith(MODULE_PREFIX)}
    origin = error.__cause__ if isinstance(error.__cause__, Exception) else error
    frames = [frame for frame in traceback.extract_tb(origin.__traceback__) if frame.filename in files]
    if not frames:
        known = isinstance(error, (ValueError, TypeError, OSError, ImportError))
        return str(error) if known else _named(error)
    lines = "".join(traceback.format_list(frames[-4:]))
    return f"the target file fails:\n{lines}{_named(origin)}"


def _named(error: BaseException) -> str:
    """The kind of an error and its message, whatever that does."""
    return "".join(traceback.format_exception_only(error)).strip().removeprefix(MODULE_PREFIX)
