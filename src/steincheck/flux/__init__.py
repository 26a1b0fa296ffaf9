"""The mode-flux test: is as much of the sample at each mode as the density says?"""

from .anchors import Anchors, local_anchors
from .shares import mode_weights
from .test import flux_core, flux_test

__all__ = ["Anchors", "flux_core", "flux_test", "local_anchors", "mode_weights"]
