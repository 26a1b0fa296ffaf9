"""The mode-flux test: is as much of the sample at each mode as the density says?"""

from .core import flux_core, flux_test
from .orbits import importance_weights

__all__ = ["flux_core", "flux_test", "importance_weights"]
