"""steincheck: does this sample fit this unnormalised density?

The pipeline: a `Target` (log density and score) and draws go into a test; where the density has several
modes, `find_modes` finds them, `perturb` carries draws between them, and the tests on the perturbed draws see
weights that the plain ones cannot. A test returns a `GofResult`; `check` runs what is needed and returns a
`Verdict` in words.
"""

from . import models, plot, report, samplers
from .aggregate import ksdagg_test, pksdagg_test
from .bootstrap import multinomial, wild
from .flux import flux_test
from .fssd import fssd_test
from .jumps import barker, metropolis, perturb
from .kernels import IMQ, RBF, median_bandwidth
from .ksd import ksd_test, ospksd_test, pksd_test, spksd_test
from .modes import Modes, find_modes
from .result import GofResult, ModeTable, Verdict
from .target import Target, check_score, from_jax
from .verdict import check

__version__ = "0.1.0"
__all__ = [
    "IMQ",
    "RBF",
    "GofResult",
    "ModeTable",
    "Modes",
    "Target",
    "Verdict",
    "barker",
    "check",
    "check_score",
    "find_modes",
    "flux_test",
    "from_jax",
    "fssd_test",
    "ksd_test",
    "ksdagg_test",
    "median_bandwidth",
    "metropolis",
    "models",
    "multinomial",
    "ospksd_test",
    "perturb",
    "pksd_test",
    "pksdagg_test",
    "plot",
    "report",
    "samplers",
    "spksd_test",
    "wild",
]
