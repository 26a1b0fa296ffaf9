"""One answer from all tests: `check`, and `compare` for several samples."""

from .answer import check, compare

__all__ = ["check", "compare"]
