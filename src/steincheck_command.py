"""Entry point of the console script, outside the package: an import that fails has a status of its own."""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Import the command line and run it; exit status 1 is kept for a misfit."""
    end_at_once_when_interrupted()
    try:
        from steincheck.cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except Exception as error:  # a module of another name in the way may raise anything
        print(f"error: steincheck cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def end_at_once_when_interrupted() -> None:
    """At Ctrl-C, as long as modules are imported: some of them turn KeyboardInterrupt into ImportError."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # outside the main thread
            signal.signal(signal.SIGINT, _stop)


def _stop(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)  # nothing is open yet
