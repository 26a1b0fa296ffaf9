"""Draws in whatever form users have them: arrays, chains, ArviZ, data frames, dicts, fits and files."""

from .coerce import as_draws, as_matrix
from .files import read_draws
from .record import Draws
from .unconstrained import to_unconstrained

__all__ = ["Draws", "as_draws", "as_matrix", "read_draws", "to_unconstrained"]
