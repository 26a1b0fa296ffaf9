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
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._validation import shown
from ..draws.containers import counted_from_0
from ..target import Target
from .parameters import Parameters, with_parameters
from .verification import verify

COMPILER_FLAGS = ("-O1", "-std=c++17", "-fPIC", "-shared", "-w")
COMPILER_MACROS = ("-DBOOST_DISABLE_ASSERTS", "-DBOOST_PHOENIX_NO_VARIADIC_EXPRESSION", "-D_REENTRANT")
LINKED_LIBRARIES = ("sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial", "tbb")
MESSAGE_SIZE = 4096  # characters kept of an error message of Stan


def from_stan(program: str | os.PathLike[str], data: Any = None) -> Target:
    """Make a `Target` from a Stan program: its posterior density on the unconstrained space.

    The program is compiled with the compiler and headers of httpstan, without a network, in about half a
    minute; the result is kept in the user's cache directory (``$XDG_CACHE_HOME/steincheck``) by content. The
    first call of a program says so on a terminal. Where Stan throws the log density is ``-inf``.

    Parameters
    ----------
    program : str or path
        A ``.stan`` file, or the code itself.
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
    text = _as_json(data)
    model = StanModel(str(compiled(program)), text)
    if not model.dim:
        raise ValueError("`program` must have parameters: there is nothing to test without any")
    parameters = Parameters(model.names, model.owners, model.constrain, model.unconstrain)
    target = with_parameters(Target(model.log_density, model.score, dim=model.dim), parameters)
    verify(target, parameters, model.log_density_without_jacobian, "Stan")
    return target


def compiled(program: str | os.PathLike[str]) -> Path:
    """The shared library of a Stan program, built if it is not in the cache."""
    home = _home_of_httpstan()
    code, folder, name = _source(program)
    cpp = _translated(home, code, folder, name) + Path(__file__).with_name("stan_batch.cpp").read_text()
    mark = hashlib.sha256("\0".join((cpp, str(home), *COMPILER_FLAGS, *COMPILER_MACROS)).encode()).hexdigest()
    library = _cache() / f"{mark[:32]}.so"
    if not library.exists():
        _build(home, cpp, library, name)
    return library


def _home_of_httpstan() -> Path:
    try:
        import httpstan
    except ImportError:
        raise ImportError("from_stan needs httpstan to compile: pip install 'steincheck[stan]'") from None
    return Path(httpstan.__file__).parent


def _source(program: str | os.PathLike[str]) -> tuple[str, Path, str]:
    """Code of the program, the folder of its includes, and its name for messages."""
    if isinstance(program, str) and ("{" in program or "\n" in program):
        return program, Path.cwd(), "program.stan"
    if not isinstance(program, (str, os.PathLike)):
        raise TypeError(f"`program` must be Stan code or a file, got {shown(program)}")
    path = Path(program)
    if not path.is_file():
        raise FileNotFoundError(f"`program` must be Stan code or a file; there is no file {path}")
    return path.read_text(encoding="utf-8"), path.resolve().parent, path.name


def _translated(home: Path, code: str, folder: Path, name: str) -> str:
    """C++ code by stanc, or its message."""
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


def _cache() -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = caches / "steincheck" / "stan"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _build(home: Path, cpp: str, library: Path, name: str) -> None:
    """Compile to a file of its own and move it into place: two processes may build at once."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("from_stan needs a C++ compiler: install g++ or clang++, or set CXX")
    _say(f"Compiling {name}: about half a minute, once; kept in {library.parent} ...")
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        source = Path(scratch) / "model.cpp"
        source.write_text(cpp, encoding="utf-8")
        made = Path(scratch) / "model.so"
        links = [
            f"-L{home / 'lib'}",
            *(f"-l{each}" for each in LINKED_LIBRARIES),
            f"-Wl,-rpath,{home / 'lib'}",
        ]
        options = [*COMPILER_FLAGS, *COMPILER_MACROS, f"-I{home / 'include'}"]
        command = [*compiler.split(), *options, str(source), "-o", str(made), *links]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"{compiler} failed on the code that stanc wrote:\n{done.stderr[-MESSAGE_SIZE:]}"
            )
        made.replace(library)


def _say(text: str) -> None:
    """A sentence on a terminal or in a notebook; nothing in a pipe."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        print(text, file=sys.stderr, flush=True)


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
    return json.dumps({str(key): _plain(value) for key, value in data.items()})


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`data` must hold numbers and arrays of numbers, got {type(value).__name__}")
    return (array.astype(int) if array.dtype.kind == "b" else array).tolist()


class StanModel:
    """A compiled Stan program with its data; pickled as the file and the data.

    Stan's automatic differentiation is not safe in several threads of this build: calls hold the GIL.
    """

    def __init__(self, library: str, data: str) -> None:
        self.library = library
        self.data = data
        message = ctypes.create_string_buffer(MESSAGE_SIZE)
        self._handle = ctypes.c_void_p(self._functions.steincheck_new(data.encode(), message, MESSAGE_SIZE))
        if not self._handle:
            raise ValueError(f"`data` do not fit the Stan program, Stan says: {_decoded(message)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return StanModel, (self.library, self.data)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._functions.steincheck_delete(self._handle)

    @cached_property
    def _functions(self) -> ctypes.PyDLL:
        functions = ctypes.PyDLL(self.library)
        pointer, integer, text = ctypes.c_void_p, ctypes.c_long, ctypes.c_char_p
        functions.steincheck_new.argtypes = [text, text, integer]
        functions.steincheck_new.restype = pointer
        functions.steincheck_delete.argtypes = [pointer]
        functions.steincheck_names.argtypes = [pointer, ctypes.c_int, text, integer]
        functions.steincheck_names.restype = integer
        functions.steincheck_log_density.argtypes = [*[pointer] * 2, *[integer] * 3, *[pointer] * 2]
        functions.steincheck_constrain.argtypes = [pointer, pointer, integer, integer, integer, pointer]
        functions.steincheck_unconstrain.argtypes = functions.steincheck_constrain.argtypes
        return functions

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the parameters, counted from 0."""
        return tuple(counted_from_0(name) for name in self._listed(0))

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """The variable of each unconstrained coordinate."""
        return tuple(name.partition(".")[0] for name in self._listed(1))

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates."""
        return len(self.owners)

    def _listed(self, which: int) -> list[str]:
        size = self._functions.steincheck_names(self._handle, which, None, 0) + 1
        buffer = ctypes.create_string_buffer(size)
        self._functions.steincheck_names(self._handle, which, buffer, size)
        return _decoded(buffer).split()

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n,)"""
        return self._evaluated(x, jacobian=True)[0]

    def log_density_without_jacobian(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n,): of the parameters, at coordinates."""
        return self._evaluated(x, jacobian=False)[0]

    def score(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, d)"""
        return self._evaluated(x, jacobian=True, gradient=True)[1]

    def _evaluated(
        self, x: np.ndarray, *, jacobian: bool, gradient: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        x = np.ascontiguousarray(x, dtype=np.float64)
        value = np.empty(len(x))
        slope = np.empty(x.shape if gradient else (0, self.dim))
        place = slope.ctypes.data if gradient else None
        self._functions.steincheck_log_density(
            self._handle, x.ctypes.data, len(x), self.dim, int(jacobian), value.ctypes.data, place
        )
        value[np.isnan(value)] = -np.inf
        return value, slope

    def constrain(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, k)"""
        return self._mapped(self._functions.steincheck_constrain, x, len(self.names))

    def unconstrain(self, values: np.ndarray) -> np.ndarray:
        """(n, k) -> (n, d); NaN outside the support."""
        return self._mapped(self._functions.steincheck_unconstrain, values, self.dim)

    def _mapped(self, function: Any, rows: np.ndarray, width: int) -> np.ndarray:
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        out = np.empty((len(rows), width))
        function(self._handle, rows.ctypes.data, len(rows), self.dim, len(self.names), out.ctypes.data)
        return out


def _decoded(buffer: Any) -> str:
    return buffer.value.decode(errors="replace").strip()
