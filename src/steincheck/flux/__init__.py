"""The mode-flux test: is as much of the sample at each mode as the density says?"""

from .anchors import Anchors, local_anchors
from .test import flux_test

__all__ = ["Anchors", "flux_test", "local_anchors"]
