"""What the draws' own numbers should be: means and standard deviations of the density, with intervals."""

from .estimate import accuracy_core, estimate_accuracy

__all__ = ["accuracy_core", "estimate_accuracy"]
