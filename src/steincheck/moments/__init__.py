"""The moment test: which mean, standard deviation, correlation or shape is wrong."""

from .core import moment_test
from .rays import impossible_draws

__all__ = ["impossible_draws", "moment_test"]
