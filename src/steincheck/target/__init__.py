"""A density known up to a constant: its record, its evaluation, and checks of both."""

from ..wording.draws import NO_SCORE
from .checks import Discontinuity, check_score, discontinuity, score_warnings, support_warnings
from .evaluation import log_density_anywhere, log_density_at, raw_score, score_anywhere, score_at
from .record import (
    BATCH_SIZES,
    MAX_DIM,
    Batch,
    Target,
    coordinate_names,
    from_jax,
    in_chunks,
    jax_target,
    made_by,
    probe_points,
    require_target,
    to_constrained,
    trace,
)
