"""The mode-flux test: is as much of the sample at each mode as the density says?"""

from .anchors import Anchors, local_anchors
from .core import flux_core, flux_test
from .shares import importance_weights

__all__ = ["Anchors", "flux_core", "flux_test", "importance_weights", "local_anchors"]
