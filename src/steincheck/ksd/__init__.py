"""Tests based on the kernel Stein discrepancy, plain and after perturbation (paper, Sec. 4 and 5)."""

from .optimised import ospksd_test
from .summed import ksd_test, pksd_test, spksd_test

__all__ = ["ksd_test", "ospksd_test", "pksd_test", "spksd_test"]
