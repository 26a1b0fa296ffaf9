"""The moment test: which mean, standard deviation or correlation is wrong, and by how much."""

from .test import leading, moment_test

__all__ = ["leading", "moment_test"]
