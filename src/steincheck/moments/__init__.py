"""The moment test: which mean, standard deviation or correlation is wrong, and by how much."""

from .columns import leading_features
from .core import moment_test

__all__ = ["leading_features", "moment_test"]
