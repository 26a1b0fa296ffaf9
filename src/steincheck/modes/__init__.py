"""Modes of a target: where they are, how wide they are, and how they were found."""

from .search import Modes, find_modes

__all__ = ["Modes", "find_modes"]
