"""steincheck: does this sample fit this unnormalised density?

The pipeline: a `Target` (log density and score) and draws go into a test; where the density has several
modes, `find_modes` finds them, `perturb` carries draws between them, and the tests on the perturbed draws see
weights that the plain ones cannot. A test returns a `GofResult`; `check` runs what is needed and returns a
`Verdict` in words.
"""

from .bootstrap import multinomial, wild
from .jumps import barker, metropolis, perturb
from .kernels import IMQ, RBF, median_bandwidth
from .ksd import ksd_test, ospksd_test, pksd_test, spksd_test
from .modes import Modes, find_modes
from .result import GofResult
from .target import Target, check_score, from_jax

__version__ = "0.1.0"
__all__ = [
    "IMQ",
    "RBF",
    "GofResult",
    "Modes",
    "Target",
    "barker",
    "check_score",
    "find_modes",
    "from_jax",
    "ksd_test",
    "median_bandwidth",
    "metropolis",
    "multinomial",
    "ospksd_test",
    "perturb",
    "pksd_test",
    "spksd_test",
    "wild",
]
