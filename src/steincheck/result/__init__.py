"""What a test returns: records without dependencies."""

from ..wording.numbers import pvalue_text
from ..wording.results import cannot_tell
from .accuracy import AccuracyReason, AccuracyResult, Estimate, ParameterAccuracy
from .calibration import CalibrationResult
from .chains import ChainBlocks, ChainWeights
from .gof import (
    AgreementResult,
    FluxReason,
    FluxResult,
    FluxVariant,
    FssdResult,
    GofResult,
    KsdaggResult,
    KsdResult,
    OspksdResult,
    PksdaggResult,
    PksdResult,
    SpksdResult,
    floor_of,
)
from .mode_table import DisplacementTable, ImportanceWeights, ModeTable, ModeWord, mode_words
from .modes import Modes, ModeSearch, SignedPermutation
from .moments import FeatureKind, MomentFeature, MomentResult
from .plain import as_plain
from .table import Table
from .tested import Result, among_all
from .verdict import Finding, FindingKind, StepEvaluations, Verdict

__all__ = [
    "AccuracyReason",
    "AccuracyResult",
    "AgreementResult",
    "CalibrationResult",
    "ChainBlocks",
    "ChainWeights",
    "DisplacementTable",
    "Estimate",
    "FeatureKind",
    "Finding",
    "FindingKind",
    "FluxReason",
    "FluxResult",
    "FluxVariant",
    "FssdResult",
    "GofResult",
    "ImportanceWeights",
    "KsdResult",
    "KsdaggResult",
    "ModeSearch",
    "ModeTable",
    "ModeWord",
    "Modes",
    "MomentFeature",
    "MomentResult",
    "OspksdResult",
    "ParameterAccuracy",
    "PksdResult",
    "PksdaggResult",
    "Result",
    "SignedPermutation",
    "SpksdResult",
    "StepEvaluations",
    "Table",
    "Verdict",
    "among_all",
    "as_plain",
    "cannot_tell",
    "floor_of",
    "mode_words",
    "pvalue_text",
]
