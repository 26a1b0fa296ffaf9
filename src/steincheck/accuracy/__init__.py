"""What the draws' own numbers should be: means and standard deviations of the density, with intervals."""

from .combine import Shares
from .estimate import accuracy_core, estimate_accuracy

__all__ = ["Shares", "accuracy_core", "estimate_accuracy"]
