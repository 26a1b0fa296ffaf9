"""steincheck: does this sample fit this unnormalised density?

The pipeline: draws (`as_draws`, `read_draws`) and a `Target` (log density and score) go into a test. Where
the density has several modes `find_modes` finds them and `perturb` carries draws between them. Every test
returns a result of its own, a `GofResult`; `check` runs what is needed and returns a `Verdict` in words, and
`calibrate` estimates how often a test rejects on your target.
"""

from . import _startup, chains, models, plot, report, samplers  # noqa: F401 (_startup first, for its effect)
from ._version import __version__
from .adapters import (
    from_bridgestan,
    from_jax_pytree,
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
from .flux.anchors import Anchors, local_anchors
from .flux.test import flux_test
from .fssd import fssd_test
from .ksd import ksd_test, ospksd_test, pksd_test, spksd_test
from .modes.box import box_search
from .modes.search import find_modes
from .moments.test import moment_test
from .perturbation import Accept, Perturbation, barker, metropolis, perturb
from .result import (
    AgreementResult,
    CalibrationResult,
    ChainBlocks,
    ChainWeights,
    DisplacementTable,
    Finding,
    FluxResult,
    FssdResult,
    GofResult,
    KsdaggResult,
    KsdResult,
    Modes,
    ModeSearch,
    ModeTable,
    ModeWeights,
    MomentFeature,
    MomentResult,
    OspksdResult,
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

__all__ = [
    "IMQ",
    "RBF",
    "Accept",
    "AgreementResult",
    "Anchors",
    "Bootstrap",
    "CalibrationResult",
    "ChainBlocks",
    "ChainWeights",
    "Comparison",
    "DisplacementTable",
    "Draws",
    "Finding",
    "FluxResult",
    "FssdResult",
    "GofResult",
    "Kernel",
    "KsdResult",
    "KsdaggResult",
    "ModeSearch",
    "ModeTable",
    "ModeWeights",
    "Modes",
    "MomentFeature",
    "MomentResult",
    "OspksdResult",
    "Perturbation",
    "PksdResult",
    "PksdaggResult",
    "SpksdResult",
    "Table",
    "Target",
    "Verdict",
    "__version__",
    "as_draws",
    "barker",
    "box_search",
    "calibrate",
    "chains",
    "check",
    "check_score",
    "compare",
    "find_modes",
    "flux_test",
    "from_bridgestan",
    "from_jax",
    "from_jax_pytree",
    "from_numpyro",
    "from_pymc",
    "from_stan",
    "from_torch",
    "fssd_test",
    "ksd_test",
    "ksdagg_test",
    "local_anchors",
    "median_bandwidth",
    "metropolis",
    "models",
    "moment_test",
    "multinomial",
    "ospksd_test",
    "perturb",
    "pksd_test",
    "pksdagg_test",
    "plot",
    "read_draws",
    "report",
    "samplers",
    "spksd_test",
    "to_arviz",
    "unbounded",
    "wild",
]


def __dir__() -> list[str]:
    return __all__
