"""Draws in whatever form users have them: arrays, chains, ArviZ, data frames, dicts, fits and files."""

from .files import read_draws
from .reading import as_draws, as_matrix, read_as_draws, read_as_parameters, to_unconstrained
from .record import Draws
