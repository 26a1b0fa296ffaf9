"""steincheck: does this sample fit this unnormalised density?

The pipeline: draws (`as_draws`, `read_draws`) and a `Target` (log density and score) go into a test. Where
the density has several modes `find_modes` finds them and `perturb` carries draws between them. Every test
returns a result of its own, a `GofResult`; `check` runs what is needed and returns a `Verdict` in words, and
`calibrate` estimates how often a test rejects on your target.
"""

from . import models, plot, report, samplers
from ._version import __version__
from .accuracy import estimate_accuracy
from .adapters import (
    from_numpyro,
    from_pymc,
    from_stan,
    from_torch,
    to_arviz,
    unbounded,
)
from .aggregate import ksdagg_test, pksdagg_test
from .calibration import calibrate
from .draws import Draws, as_draws, read_draws
from .flux import flux_test
from .fssd import fssd_test
from .ksd import ksd_test, ospksd_test, pksd_test, spksd_test
from .modes.box import box_search
from .modes.search import find_modes
from .moments.core import moment_test
from .perturbation import Accept, Perturbation, barker, metropolis, perturb
from .result import (
    AccuracyResult,
    AgreementResult,
    CalibrationResult,
    ChainBlocks,
    ChainWeights,
    DisplacementTable,
    Finding,
    FluxResult,
    FssdResult,
    GofResult,
    ImportanceWeights,
    KsdaggResult,
    KsdResult,
    Modes,
    ModeSearch,
    ModeTable,
    MomentFeature,
    MomentResult,
    OspksdResult,
    ParameterAccuracy,
    PksdaggResult,
    PksdResult,
    SpksdResult,
    Table,
    Verdict,
)
from .stein.bootstrap import Bootstrap, multinomial, wild
from .stein.kernels import IMQ, RBF, Kernel, median_bandwidth
from .target import Target, check_score, from_jax
from .verdict.answer import check
from .verdict.compare import Comparison, compare

__all__ = [  # noqa: RUF022 (in the order of the pipeline)
    "__version__",
    # draws and density
    "as_draws",
    "read_draws",
    "Draws",
    "Target",
    "from_jax",
    "unbounded",
    "check_score",
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
    "ModeSearch",
    # the perturbation
    "perturb",
    "Perturbation",
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
    # their results
    "GofResult",
    "KsdResult",
    "PksdResult",
    "SpksdResult",
    "OspksdResult",
    "KsdaggResult",
    "PksdaggResult",
    "FssdResult",
    "MomentResult",
    "MomentFeature",
    "FluxResult",
    "ModeTable",
    "DisplacementTable",
    "AgreementResult",
    "ChainBlocks",
    "ChainWeights",
    # accuracy
    "estimate_accuracy",
    "AccuracyResult",
    "ParameterAccuracy",
    # one answer
    "check",
    "Verdict",
    "Finding",
    "ImportanceWeights",
    "Table",
    "compare",
    "Comparison",
    "calibrate",
    "CalibrationResult",
    # modules
    "models",
    "samplers",
    "plot",
    "report",
]


def __dir__() -> list[str]:
    return __all__
