"""One answer from all tests: `check`."""

from .answer import check

__all__ = ["check"]
