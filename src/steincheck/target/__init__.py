"""A density known up to a constant: its record, its evaluation, and checks of both."""

from ..wording.target import NO_SCORE
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
from .record import MAX_DIM, Batch, Target, coordinate_names, made_by, require_target
from .score_check import check_hessian, check_score, score_warnings
from .support import Discontinuity, discontinuity, support_warnings
