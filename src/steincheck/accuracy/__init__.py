"""What the draws' own numbers should be: means and standard deviations of the density, with intervals."""

from .estimate import accuracy_core, estimate_accuracy
from .intervals import Shares

__all__ = ["Shares", "accuracy_core", "estimate_accuracy"]
