"""The moment test: which mean, standard deviation, correlation or shape is wrong."""

from .core import moment_test
from .impossible import ImpossibleDraws, impossible_draws

__all__ = ["ImpossibleDraws", "impossible_draws", "moment_test"]
