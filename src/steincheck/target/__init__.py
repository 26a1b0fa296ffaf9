"""A density known up to a constant: its record, its evaluation, and checks of both."""

from .compiled import BATCH_SIZES, from_jax, in_chunks, jax_target, traced
from .evaluation import (
    central_differences,
    log_density_anywhere,
    log_density_at,
    outputs_anywhere,
    raw_score,
    raw_value_and_score,
    read_only,
    score_anywhere,
    score_at,
)
from .record import (
    MAX_DIM,
    Batch,
    Target,
    coordinate_names,
    made_by,
    require_target,
)
from .score_check import NO_SCORE, check_hessian, check_score, score_warnings
from .support import Discontinuity, discontinuity, support_warnings

__all__ = [
    "BATCH_SIZES",
    "MAX_DIM",
    "NO_SCORE",
    "Batch",
    "Discontinuity",
    "Target",
    "central_differences",
    "check_hessian",
    "check_score",
    "coordinate_names",
    "discontinuity",
    "from_jax",
    "in_chunks",
    "jax_target",
    "log_density_anywhere",
    "log_density_at",
    "made_by",
    "outputs_anywhere",
    "raw_score",
    "raw_value_and_score",
    "read_only",
    "require_target",
    "score_anywhere",
    "score_at",
    "score_warnings",
    "support_warnings",
    "traced",
]
