"""Entry point of the console script, outside the package: an import that fails has a status of its own."""

import sys


def main() -> None:
    """Import the command line and run it; exit status 1 is kept for a misfit."""
    try:
        from steincheck.cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except ImportError as error:
        print(f"error: steincheck cannot be imported: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    run()
