"""Files written as a whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ._validation import shown


def write_text(path: str | Path, text: str) -> None:
    """Write to a temporary file beside `path` and move it there: all or nothing.

    Characters of file names that are no UTF-8 are escaped.
    """
    place = Path(os.path.realpath(check_output(path)))
    part = place.with_name(f".steincheck-{os.getpid()}-{threading.get_ident()}.part")
    in_place = place.exists() and not place.is_file()  # a pipe or a terminal: there is nothing to move
    try:
        (place if in_place else part).write_text(text, encoding="utf-8", errors="backslashreplace")
        if not in_place:
            os.replace(part, place)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def check_output(path: str | Path) -> Path:
    """The path, if a file can be written there; otherwise an error that says why not."""
    if not isinstance(path, (str, os.PathLike)) or "\x00" in os.fspath(path):
        raise TypeError(f"`path` must be the path of a file, got {shown(path)}")
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a directory")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no directory {path.parent}")
    exists = path.exists()
    moved_there = not exists or path.is_file()  # otherwise it is a pipe or a terminal
    if (exists and not os.access(path, os.W_OK)) or (moved_there and not os.access(path.parent, os.W_OK)):
        raise PermissionError(f"cannot write {path}: permission denied, for the file or its directory")
    return path
