"""A progress bar with the time left, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count


@contextmanager
def progress_bar(progress: bool | None) -> Iterator[Callable[[str, int, int], object]]:
    """A function (text, done, total) that shows progress, on a terminal only unless asked for."""
    terminal = getattr(sys.stderr, "isatty", None)  # there may be no standard error at all
    shown = bool(terminal and terminal()) if progress is None else progress
    if not (shown and find_spec("rich")):
        yield lambda text, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeRemainingColumn

    columns = [*Progress.get_default_columns()[:-1], TimeRemainingColumn(), TextColumn("left")]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)


@contextmanager
def ticking(text: str, total: int, *, shown: bool) -> Iterator[Callable[[], object]]:
    """A function to be called `total` times, which moves a bar on a terminal if `shown`."""
    numbers = count(1)
    with progress_bar(None if shown else False) as show:
        yield lambda: show(text, next(numbers), total)
