"""float64 in JAX, and compiled programs kept on disk: both inside our own calls only."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import jax

CACHE_VARIABLE = "STEINCHECK_COMPILATION_CACHE"  # "off", or another directory
DIRECTORY_SETTING = "jax_compilation_cache_dir"  # the two settings of JAX that matter
MIN_SECONDS_SETTING = "jax_persistent_cache_min_compile_time_secs"
MIN_SECONDS = 0.05  # programs that compile faster are not worth a file
MAX_BYTES = 200_000_000  # of all files; beyond, the older half goes


@contextmanager
def precise() -> Iterator[None]:
    """Compute in float64, and read compiled programs from the user's cache directory or write them there.

    The user's JAX settings are as before afterwards, and a compilation cache of the user's own is used
    instead of ours. The environment variable ``STEINCHECK_COMPILATION_CACHE`` may be ``off`` or name a
    directory.
    """
    with jax.enable_x64(True), _kept_on_disk():
        yield


_lock = threading.Lock()
_inside = list[float]()  # calls in all threads; each entry is the user's MIN_SECONDS_SETTING


@contextmanager
def _kept_on_disk() -> Iterator[None]:
    """Set the directory of compiled programs, where the user has none.

    JAX has one directory for all threads: the first call inside sets it, the last one restores the settings.
    """
    with _lock:
        ours = bool(_inside)
        directory = None if ours or getattr(jax.config, DIRECTORY_SETTING) else _directory()
        if directory is not None:
            _inside.append(getattr(jax.config, MIN_SECONDS_SETTING))
            _set(directory, MIN_SECONDS)
        elif ours:
            _inside.append(_inside[0])
    if not ours and directory is None:
        yield
        return
    try:
        yield
    finally:
        with _lock:
            seconds = _inside.pop()
            if not _inside:
                _set(None, seconds)


def _set(directory: str | None, seconds: float) -> None:
    reset = _reset_cache()
    assert reset is not None  # there is no directory without it
    jax.config.update(DIRECTORY_SETTING, directory)
    jax.config.update(MIN_SECONDS_SETTING, seconds)
    reset()


def _reset_cache() -> Callable[[], None] | None:
    """JAX's function that makes it look at its settings again; None for versions without it."""
    try:
        from jax.experimental.compilation_cache.compilation_cache import reset_cache
    except ImportError:
        return None
    return reset_cache


@cache
def _directory() -> str | None:
    """The directory of compiled programs, made and cleared once per process; None for none."""
    chosen = os.environ.get(CACHE_VARIABLE, "")
    if chosen.lower() in ("off", "0", "no", "false") or _reset_cache() is None:
        return None
    try:
        path = Path(chosen) if chosen else user_cache() / f"jax-{jax.__version__}-{_processor()}"
        path.mkdir(parents=True, exist_ok=True)
        _drop_old(path)
        _drop_damaged(path)
    except (OSError, RuntimeError):  # the latter if there is no home directory
        return None
    return str(path) if os.access(path, os.W_OK) else None


def user_cache() -> Path:
    """Our folder in the user's cache directory, by the rules of the platform; it may not exist yet."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "steincheck"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "steincheck"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steincheck"


def _processor() -> str:
    """A short name of the kind of processor: a program compiled for one may not run on another."""
    kind = platform.machine() + platform.processor()
    described = Path("/proc/cpuinfo")
    if described.exists():
        lines = described.read_text(errors="replace").splitlines()
        kind += "".join(
            sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
        )
    return hashlib.sha256(kind.encode()).hexdigest()[:8]


def _drop_old(path: Path) -> None:
    files = sorted(path.glob("*-cache"), key=lambda file: file.stat().st_mtime)
    if sum(file.stat().st_size for file in files) > MAX_BYTES:
        for file in files[: len(files) // 2 + 1]:
            file.unlink(missing_ok=True)


def _drop_damaged(path: Path) -> None:
    """Remove programs that were not written to their end: JAX warns of them at every use and replaces none.

    Only those written since the last look are read.
    """
    looked = path / "looked-at"
    last = looked.stat().st_mtime if looked.exists() else 0.0
    looked.touch()
    for file in path.glob("*-cache"):
        with suppress(FileNotFoundError):  # another process was faster
            if file.stat().st_mtime >= last and not _is_whole(file.read_bytes()):
                file.unlink()


def _is_whole(program: bytes) -> bool:
    try:
        from jax._src.compilation_cache import decompress_executable
    except ImportError:  # the module is private; without it JAX itself says what is damaged
        return True
    try:
        decompress_executable(program)
    except Exception:  # zlib and zstd have their own kinds
        return False
    return True
