"""steincheck: does this sample fit this unnormalised density?

The pipeline: a `Target` (log density and score) and draws go into a test; where the density has several
modes, `find_modes` finds them, `perturb` carries draws between them, and the tests on the perturbed draws see
weights that the plain ones cannot. A test returns a `GofResult`; `check` runs what is needed and returns a
`Verdict` in words.
"""

from . import models, plot, report, samplers
from ._version import __version__
from .aggregate import ksdagg_test, pksdagg_test
from .flux.test import flux_test
from .fssd import fssd_test
from .ksd import ksd_test, ospksd_test, pksd_test, spksd_test
from .modes.search import Modes, box_search, find_modes
from .perturbation import barker, metropolis, perturb
from .result import GofResult, ModeTable, Verdict
from .stein.bootstrap import multinomial, wild
from .stein.kernels import IMQ, RBF, median_bandwidth
from .target import Target, check_score, from_jax
from .verdict import check

__all__ = [
    "IMQ",
    "RBF",
    "GofResult",
    "ModeTable",
    "Modes",
    "Target",
    "Verdict",
    "__version__",
    "barker",
    "box_search",
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
