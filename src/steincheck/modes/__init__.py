"""Modes of a target: where they are, how wide they are, and how they were found."""

from ..result import Modes
from .search import box_search, find_modes

__all__ = ["Modes", "box_search", "find_modes"]
