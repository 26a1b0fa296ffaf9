"""Ctrl-C and SIGTERM end a command, whatever it is doing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

INTERRUPTED = 130  # exit statuses, as shells give them
TERMINATED = 143
SECONDS_BETWEEN = 1.0  # of work that goes on before the interruption is repeated
MAX_REPETITIONS = 4  # before the process is left


@contextmanager
def ending_signals() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at Ctrl-C and SIGTERM; yields the list of the signals seen.

    Temporary files are then removed and the terminal is left clean. It is raised again every second for as
    long as the work goes on: a library may take it for an error of a user's function, as JAX does where a
    compiled function calls back. If nothing helps, the process is left at once. Only the main thread can
    handle signals; elsewhere nothing is changed.
    """
    seen = list[int]()
    repeated = count()
    timer = getattr(signal, "setitimer", None)  # Windows has none

    def stop(number: int, frame: Any) -> None:
        if number in before:
            seen.append(number)
            if timer is not None:
                timer(signal.ITIMER_REAL, SECONDS_BETWEEN, SECONDS_BETWEEN)
        elif next(repeated) >= MAX_REPETITIONS:
            _leave(seen)
        raise KeyboardInterrupt

    before = dict[int, Any]()
    alarm = None
    with suppress(ValueError):  # outside the main thread
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as in the background of a shell
                before[number] = signal.getsignal(number)
                signal.signal(number, stop)
        if timer is not None:
            alarm = signal.signal(signal.SIGALRM, stop)
    try:
        yield seen
    finally:
        if alarm is not None and timer is not None:
            timer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm)
        with suppress(ValueError, TypeError):
            for changed, handler in before.items():
                signal.signal(changed, handler)


def exit_status(seen: list[int]) -> int:
    """The status of a command that these signals ended."""
    return TERMINATED if signal.SIGTERM in seen else INTERRUPTED


def _leave(seen: list[int]) -> None:
    show_cursor = b"\x1b[?25h" if sys.stderr.isatty() else b""  # progress bars hide it
    os.write(2, show_cursor + b"interrupted\n")
    os._exit(exit_status(seen))
