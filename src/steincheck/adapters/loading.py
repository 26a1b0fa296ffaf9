"""Python files of the user's that hold models, named on the command line."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

MODULE_PREFIX = "steincheck_target_"  # of the module a target file becomes


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
    except SyntaxError as error:
        error.filename = error.filename or str(path)  # Python names no file that holds null bytes
        raise
    return module
