"""A density known up to a constant: its record, its evaluation, and checks of both."""

from .compiled import CHUNKS, from_jax, in_chunks, jax_target, traced
from .evaluation import (
    central_differences,
    log_density_at,
    raw_score,
    raw_value_and_score,
    read_only,
    score_at,
)
from .record import MAX_DIM, Batch, Target, made_by, require_target
from .score_check import check_score
from .support import Break, discontinuity, support_warnings

__all__ = [
    "CHUNKS",
    "MAX_DIM",
    "Batch",
    "Break",
    "Target",
    "central_differences",
    "check_score",
    "discontinuity",
    "from_jax",
    "in_chunks",
    "jax_target",
    "log_density_at",
    "made_by",
    "raw_score",
    "raw_value_and_score",
    "read_only",
    "require_target",
    "score_at",
    "support_warnings",
    "traced",
]
