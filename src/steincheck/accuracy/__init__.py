"""What the draws' own numbers should be: means and standard deviations of the density, with intervals."""

from .estimate import accuracy_core, better_records, estimate_accuracy, importance_accuracy

__all__ = ["accuracy_core", "better_records", "estimate_accuracy", "importance_accuracy"]
