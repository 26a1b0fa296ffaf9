"""steincheck: does this sample fit this unnormalised density?

The pipeline: a `Target` (log density and score) and draws go into a test; a test returns a `GofResult`.
"""

from .bootstrap import multinomial, wild
from .kernels import IMQ, RBF, median_bandwidth
from .ksd import ksd_test
from .result import GofResult
from .target import Target, check_score, from_jax

__version__ = "0.1.0"
__all__ = [
    "IMQ",
    "RBF",
    "GofResult",
    "Target",
    "check_score",
    "from_jax",
    "ksd_test",
    "median_bandwidth",
    "multinomial",
    "wild",
]
