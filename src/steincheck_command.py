"""Entry point of the console script, outside the package: an import that fails has a status of its own."""

import os
import signal
import sys
from contextlib import suppress
from typing import Any


def main() -> None:
    """Import the command line and run it; exit status 1 is kept for a misfit."""
    before = _end_at_once_when_interrupted()
    try:
        from steincheck.cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except ImportError as error:
        print(f"error: steincheck cannot be imported: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if before is not None:
        signal.signal(signal.SIGINT, before)
    run()


def _end_at_once_when_interrupted() -> Any:
    """At Ctrl-C, as long as modules are imported: some of them turn KeyboardInterrupt into ImportError."""

    def stop(number: int, frame: object) -> None:
        os.write(2, b"interrupted\n")
        os._exit(130)  # nothing is open yet

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        return None
    with suppress(ValueError):  # outside the main thread
        signal.signal(signal.SIGINT, stop)
    return before
