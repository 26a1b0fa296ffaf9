"""steincheck: does this sample fit this unnormalised density?

The pipeline: draws (`as_draws`, `read_draws`) and a `Target` (log density and score) go into a test. Where
the density has several modes `find_modes` finds them and `perturb` carries draws between them. Every test
returns a result of its own, a `GofResult`; `check` runs what is needed and returns a `Verdict` in words, and
`calibrate` estimates how often a test rejects on your target. The classes of all results are in
`steincheck.result`, types of arguments in `steincheck.typing`.
"""

from . import models, plot, report, samplers
from ._version import __version__
from .accuracy import estimate_accuracy
from .adapters import from_numpyro, from_pymc, from_stan, from_torch, to_arviz, unbounded
from .aggregate import ksdagg_test, pksdagg_test
from .calibration import calibrate
from .draws import Draws, as_draws, read_draws
from .flux import flux_test
from .fssd import fssd_test
from .ksd import ksd_test, ospksd_test, pksd_test, spksd_test
from .modes import box_search, find_modes
from .moments import moment_test
from .perturbation import Accept, barker, metropolis, perturb
from .result import GofResult, Modes, Verdict
from .stein.bootstrap import Bootstrap, multinomial, wild
from .stein.kernels import IMQ, RBF, Kernel, median_bandwidth
from .target import Target, from_jax
from .verdict import check, compare

__all__ = [  # noqa: RUF022 (in the order of the pipeline)
    "__version__",
    # draws and density
    "as_draws",
    "read_draws",
    "Draws",
    "Target",
    "from_jax",
    "unbounded",
    # models of other packages
    "from_numpyro",
    "from_pymc",
    "from_stan",
    "from_torch",
    "to_arviz",
    # modes
    "find_modes",
    "box_search",
    "Modes",
    # the perturbation
    "perturb",
    "Accept",
    "metropolis",
    "barker",
    # kernels and bootstraps
    "Kernel",
    "IMQ",
    "RBF",
    "median_bandwidth",
    "Bootstrap",
    "multinomial",
    "wild",
    # tests
    "ksd_test",
    "pksd_test",
    "spksd_test",
    "ospksd_test",
    "ksdagg_test",
    "pksdagg_test",
    "fssd_test",
    "moment_test",
    "flux_test",
    "GofResult",
    "estimate_accuracy",
    # one answer
    "check",
    "Verdict",
    "compare",
    "calibrate",
    # modules
    "models",
    "samplers",
    "plot",
    "report",
]


def __dir__() -> list[str]:
    return __all__
