"""What a test returns: records without dependencies."""

from ..wording.results import cannot_tell
from .gof import (
    AgreementResult,
    ChainBlocks,
    ChainWeights,
    FeatureKind,
    FluxReason,
    FluxResult,
    FluxVariant,
    FssdResult,
    GofResult,
    KsdaggResult,
    KsdResult,
    MomentFeature,
    MomentResult,
    OspksdResult,
    PksdaggResult,
    PksdResult,
    Result,
    SpksdResult,
    among_all,
)
from .modes import DisplacementTable, ImportanceWeights, Modes, ModeSearch, ModeTable, SignedPermutation
from .record import Table
from .verdict import (
    AccuracyReason,
    AccuracyResult,
    CalibrationResult,
    Estimate,
    Finding,
    ParameterAccuracy,
    StepEvaluations,
    Verdict,
)
