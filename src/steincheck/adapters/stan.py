"""Targets from Stan programs: compiled once, kept by content, evaluated in batches."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._validation import needs, shown
from ..draws.names import counted_from_0
from ..target import Target
from .parameters import Parameters, with_parameters


def from_stan(program: Any, data: Any = None) -> Target:
    """Make a `Target` from a Stan program: its posterior density on the unconstrained space.

    The program is compiled with the compiler and headers of httpstan, without a network, in about half a
    minute; the result is kept in the user's cache directory (``$XDG_CACHE_HOME/steincheck``) by content. The
    first call of a program says so on a terminal. Where Stan throws the log density is ``-inf``.

    Parameters
    ----------
    program : str, path or bridgestan.StanModel
        A ``.stan`` file, or the code itself. A model of BridgeStan has its data and is compiled already; it
        is evaluated one point per call.
    data : mapping or path, optional
        Data by name, or a JSON file as CmdStan reads it.

    Returns
    -------
    Target
        ``target.unconstrain(fit)`` maps draws of the parameters, ``target.constrain`` maps back.

    Raises
    ------
    ValueError
        If the program does not compile or the data do not fit: the message is Stan's.

    Examples
    --------
    >>> import steincheck as sc
    >>> code = "parameters { real<lower=0> tau; } model { tau ~ exponential(2); }"
    >>> target = sc.from_stan(code)  # doctest: +SKIP
    >>> target.names, target.constrained_names  # doctest: +SKIP
    (('log tau',), ('tau',))
    """
    model: StanModel | BridgeModel
    if hasattr(program, "log_density_gradient"):
        model = BridgeModel(program)
    else:
        model = StanModel(str(compile_program(program)), _as_json(data))
    names = tuple(counted_from_0(name) for name in model.parameter_names)
    dim = len(model.coordinate_names)
    if not dim:
        raise ValueError("`program` must have parameters: there is nothing to test without any")
    parameters = Parameters(names, dim, model.constrain, model.unconstrain)
    return with_parameters(Target(model.log_density, model.score, dim=dim), parameters)


def compile_program(program: str | os.PathLike[str]) -> Path:
    """The shared library of a Stan program, built if it is not in the cache."""
    with needs("from_stan", "httpstan to compile", "stan"):
        import httpstan
    home = Path(httpstan.__file__).parent
    if isinstance(program, str) and ("{" in program or "\n" in program):
        code, folder, name = program, Path.cwd(), "program.stan"
    elif not isinstance(program, (str, os.PathLike)):
        raise TypeError(f"`program` must be Stan code or a file, got {shown(program)}")
    else:
        path = Path(program)
        if not path.is_file():
            raise FileNotFoundError(f"`program` must be Stan code or a file; there is no file {path}")
        code, folder, name = path.read_text(encoding="utf-8"), path.resolve().parent, path.name
    cpp = _cpp_code(home, code, folder, name) + Path(__file__).with_name("stan_batch.cpp").read_text()
    mark = hashlib.sha256("\0".join((cpp, *_compiler_options(home))).encode()).hexdigest()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    library = caches / "steincheck" / "stan" / f"{mark[:32]}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _build(home, cpp, library, name)
    return library


def _compiler_options(home: Path) -> list[str]:
    """Options of g++ and clang++ for the code of stanc, headers and libraries included."""
    libraries = ("sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial", "tbb")
    macros = ("BOOST_DISABLE_ASSERTS", "BOOST_PHOENIX_NO_VARIADIC_EXPRESSION", "_REENTRANT")
    return [
        *("-O1", "-std=c++17", "-fPIC", "-shared", "-w", f"-I{home / 'include'}"),
        *(f"-D{each}" for each in macros),
        f"-L{home / 'lib'}",
        *(f"-l{each}" for each in libraries),
        f"-Wl,-rpath,{home / 'lib'}",
    ]


def _cpp_code(home: Path, code: str, folder: Path, name: str) -> str:
    """C++ code by stanc, or its message; `folder` is that of includes, `name` is for messages."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "program.stan"
        file.write_text(code, encoding="utf-8")
        # stanc writes its options into the code: a path would make equal programs differ
        options = ["--name=steincheck_model", "--include-paths=.", f"--filename-in-msg={name}"]
        output = Path(scratch) / "program.cpp"
        command = [str(home / "stanc"), *options, f"--o={output}", str(file)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(
                f"`program` does not compile, stanc says:\n{(done.stderr or done.stdout).strip()}"
            )
        return output.read_text(encoding="utf-8")


def _build(home: Path, cpp: str, library: Path, name: str) -> None:
    """Compile to a file of its own and move it into place: two processes may build at once."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("from_stan needs a C++ compiler: install g++ or clang++, or set CXX")
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        text = f"Compiling {name}: about half a minute, once; kept in {library.parent} ..."
        print(text, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        source = Path(scratch) / "model.cpp"
        source.write_text(cpp, encoding="utf-8")
        made = Path(scratch) / "model.so"
        command = [*compiler.split(), str(source), "-o", str(made), *_compiler_options(home)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{compiler} failed on the code that stanc wrote:\n{done.stderr[-4096:]}")
        made.replace(library)


def _as_json(data: Any) -> str:
    if data is None:
        return "{}"
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        if not path.is_file():
            raise FileNotFoundError(f"`data` must be a mapping or a JSON file; there is no file {path}")
        return path.read_text(encoding="utf-8")
    if not isinstance(data, Mapping):
        raise TypeError(f"`data` must be a mapping by name or a JSON file, got {type(data).__name__}")
    return json.dumps(dict(data), default=lambda value: np.asarray(value).tolist())


class StanModel:
    """A compiled Stan program with its data; pickled as the file and the data.

    Stan's automatic differentiation is not safe in several threads of this build: calls hold the GIL.
    """

    def __init__(self, library: str, data: str) -> None:
        self.library = library
        self.data = data
        self._functions = ctypes.PyDLL(library)
        self._functions.steincheck_new.restype = ctypes.c_void_p
        self._functions.steincheck_names.restype = ctypes.c_long
        message = ctypes.create_string_buffer(4096)
        size = ctypes.c_long(len(message))
        self._model = ctypes.c_void_p(self._functions.steincheck_new(data.encode(), message, size))
        if not self._model:
            raise ValueError(f"`data` do not fit the Stan program, Stan says: {_text(message)}")
        self.parameter_names = self._names(0)
        self.coordinate_names = self._names(1)

    def __reduce__(self) -> tuple[Any, ...]:
        return StanModel, (self.library, self.data)

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._functions.steincheck_delete(self._model)

    def _names(self, which: int) -> list[str]:
        """Stan's names of the parameters (0) or of the unconstrained coordinates (1)."""
        size = self._functions.steincheck_names(self._model, which, None, ctypes.c_long(0)) + 1
        buffer = ctypes.create_string_buffer(size)
        self._functions.steincheck_names(self._model, which, buffer, ctypes.c_long(size))
        return _text(buffer).split()

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n,)"""
        value = self._rows("log_density", x, 1, None)[:, 0]
        return np.where(np.isnan(value), -np.inf, value)

    def score(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, d)"""
        slope = np.empty((len(x), len(self.coordinate_names)))
        self._rows("log_density", x, 1, _pointer(slope))
        return slope

    def constrain(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, k)"""
        width = len(self.parameter_names)
        return self._rows("constrain", x, width, ctypes.c_long(width))

    def unconstrain(self, values: np.ndarray) -> np.ndarray:
        """(n, k) -> (n, d); NaN outside the support."""
        width = ctypes.c_long(len(self.parameter_names))
        return self._rows("unconstrain", values, len(self.coordinate_names), width)

    def _rows(self, name: str, rows: np.ndarray, width: int, last: Any) -> np.ndarray:
        """A function at every row, (n, width); `last` is the gradient or the number of parameters."""
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        out = np.empty((len(rows), width))
        sizes = ctypes.c_long(len(rows)), ctypes.c_long(len(self.coordinate_names))
        function = getattr(self._functions, f"steincheck_{name}")
        function(self._model, _pointer(rows), *sizes, _pointer(out), last)
        return out


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class BridgeModel:
    """A ``bridgestan.StanModel``, of which the functions take one point, as functions of batches."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.parameter_names = model.param_names()
        self.coordinate_names = model.param_unc_names()

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n,)"""
        return _rows(partial(self.model.log_density, propto=False), x, 1, -np.inf)[:, 0]

    def score(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, d)"""
        return _rows(lambda point: self.model.log_density_gradient(point, propto=False)[1], x, x.shape[1])

    def constrain(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, k)"""
        return _rows(self.model.param_constrain, x, len(self.parameter_names))

    def unconstrain(self, values: np.ndarray) -> np.ndarray:
        """(n, k) -> (n, d)"""
        return _rows(self.model.param_unconstrain, values, len(self.coordinate_names))


def _rows(
    function: Callable[[np.ndarray], Any], x: np.ndarray, width: int, missing: float = np.nan
) -> np.ndarray:
    """A function at every row; a row at which Stan throws is `missing`."""
    out = np.full((len(x), width), missing)
    for i, row in enumerate(np.ascontiguousarray(x, dtype=np.float64)):
        with suppress(RuntimeError, ValueError):
            out[i] = function(row)
    return out


def _text(buffer: Any) -> str:
    return buffer.value.decode(errors="replace").strip()
