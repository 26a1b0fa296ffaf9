"""The density that a command line names: a Python file of the user's, or a Stan, PyMC or NumPyro model."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import NamedTuple

from .adapters.loading import MODULE_PREFIX, load_model, load_named
from .target import Target


class Source(NamedTuple):
    """Where the density comes from: one of the options of the command line, and its data."""

    target: str | None
    stan: Path | None
    pymc: str | None
    numpyro: str | None
    data: Path | None

    @property
    def name(self) -> str:
        """What the user calls the density."""
        return str(self.target or self.stan or self.pymc or self.numpyro)

    def options(self) -> list[str]:
        """The options of the command line that name it."""
        given = {name: value for name, value in self._asdict().items() if value is not None}
        return [part for name, value in given.items() for part in (f"--{name}", str(value))]

    def load(self) -> Target:
        """The target, from exactly one of the options."""
        given = [name for name in ("target", "stan", "pymc", "numpyro") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "name the density by one of --target, --stan, --pymc and --numpyro, got "
                f"{' and '.join('--' + name for name in given) or 'none'}"
            )
        if self.target is None:
            return load_model(stan=self.stan, pymc=self.pymc, numpyro=self.numpyro, data=self.data)
        if self.data is not None:
            raise ValueError("--data goes with --stan or --numpyro: the file of --target has its own")
        return load_target(self.target)


def share_with_workers() -> None:
    """Let worker processes have the files of the user's by value: they cannot import them by name."""
    try:
        from joblib.externals import cloudpickle  # which joblib brought along up to 1.5
    except ImportError:
        import cloudpickle

    for name in [name for name in sys.modules if name.startswith(MODULE_PREFIX)]:
        cloudpickle.register_pickle_by_value(sys.modules[name])


def load_target(spec: str) -> Target:
    """The target of "FILE.py:NAME": a Target, or what a function without arguments returns."""
    value = load_named(spec)
    file, _, name = spec.rpartition(":")
    if callable(value) and not isinstance(value, Target):
        try:
            value = value()
        except SystemExit as stop:
            raise ValueError(f"{name} in {file} ends the program ({stop!r})") from None
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from inside the function: shown with its lines
            raise TypeError(
                f"{name} in {file} is a function with arguments; make a target of it: "
                f"target = steincheck.from_jax({name}, dim=...)"
            ) from None
    if not isinstance(value, Target):
        raise TypeError(f"{name} in {file} must be a steincheck.Target, got {type(value).__name__}")
    return value


def explain(error: BaseException) -> str:
    """The message; if the user's file was running, its own last lines instead, without those around."""
    user_files = {
        module.__file__ for name, module in list(sys.modules.items()) if name.startswith(MODULE_PREFIX)
    }
    if isinstance(error, SyntaxError):
        return f"the target file fails:\n{_named(error)}"
    origin = error.__cause__ if isinstance(error.__cause__, Exception) else error
    frames = [frame for frame in traceback.extract_tb(origin.__traceback__) if frame.filename in user_files]
    if not frames:
        known = isinstance(error, (ValueError, TypeError, OSError, ImportError))
        return str(error) if known else _named(error)
    lines = "".join(traceback.format_list(frames[-4:]))
    return f"the target file fails:\n{lines}{_named(origin)}"


def _named(error: BaseException) -> str:
    """The kind of an error and its message, whatever that does."""
    return "".join(traceback.format_exception_only(error)).strip().removeprefix(MODULE_PREFIX)
