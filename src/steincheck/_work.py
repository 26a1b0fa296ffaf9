"""Long work: shared out among the workers of joblib's active backend, and a bar on a terminal meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any


def n_workers() -> int:
    """How many workers the user has asked joblib for by ``joblib.parallel_config``; 1 without it.

    A user who has not imported joblib has not asked for any.
    """
    joblib = sys.modules.get("joblib")
    return 1 if joblib is None else int(joblib.effective_n_jobs(None))


def can_be_sent(value: Any) -> bool:
    """Whether other processes can have it."""
    try:
        cloudpickle().dumps(value)
    except Exception:  # of any kind: every class has its own
        return False
    return True


def cloudpickle() -> Any:
    """The package by which joblib and Dask send functions."""
    try:
        from joblib.externals import cloudpickle as found  # which joblib brought along up to 1.5
    except ImportError:
        import cloudpickle as found
    return found


def share_out(
    function: Callable[..., Any], arrays: Sequence[Any], parts: Sequence[tuple[Any, ...]]
) -> Iterator[Any]:
    """function(*arrays, *part) for all `parts`, in their order.

    The arrays travel once per worker. If a worker is lost, what has not been sent back is computed again.
    """
    from joblib import Parallel, delayed, parallel_config
    from joblib.parallel import get_active_backend

    # by itself joblib sends large arguments to one worker of Dask, which others ask: if it is lost, they wait
    # indefinitely; with Dask every worker gets a copy of the arrays
    client = getattr(get_active_backend()[0], "client", None)
    options: dict[str, Any] = {"backend": "dask", "client": client}
    options["scatter"] = [array for array in arrays if array is not None]
    n_done = 0
    for last_attempt in (False, False, True):
        try:
            with nullcontext() if client is None else parallel_config(**options):
                run = Parallel(return_as="generator", batch_size=1)
                for value in run(delayed(function)(*arrays, *part) for part in parts[n_done:]):
                    n_done += 1
                    yield value
            return
        except Exception:  # each backend has its own errors for a lost worker
            if last_attempt:
                raise


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
