"""One answer from all tests: `check`."""

from .check import check

__all__ = ["check"]
