"""A progress bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def progress_bar(progress: bool | None) -> Iterator[Callable[[str, int, int], object]]:
    """A function (text, done, total) that shows progress, on a terminal only unless asked for."""
    shown = sys.stderr.isatty() if progress is None else progress
    if not (shown and find_spec("rich")):
        yield lambda text, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)
